-- ARGV: prefix, name, token. Answers F and the raised token, O and the token of another term, or N.
local key = P .. 'l:' .. ARGV[2]
local l = redis.call('HMGET', key, 'tok', 'ses')
if not l[2] then
  return { 'N' }
end
if l[1] ~= ARGV[3] then
  return { 'O', l[1] }
end
-- The last token there is cannot be raised; the lease is freed as it is, and nobody gets it any more.
if l[1] ~= LAST then
  redis.call('HINCRBY', key, 'tok', 1)
end
free(ARGV[2], l[2], 1)
return { 'F', redis.call('HGET', key, 'tok') }
