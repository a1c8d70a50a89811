-- ARGV: prefix, session, known version (empty for none)
-- Answers nothing if the session is over; the lease; or the lease, the version, and name and token of each lease.
local id = ARGV[2]
local s = live(id)
if not s then
  return false
end
redis.call('HSET', P .. 's:' .. id, 'exp', int(now + tonumber(s[2])), 'ren', int(now))
clear_later(id, s[2])
local ver = s[3]
-- A person who edits a record, or an eviction, raises no version. A few leases are looked at each time, so that this
-- is seen too, at a constant price: at once by an owner of few leases.
for _, name in ipairs(redis.call('SRANDMEMBER', P .. 'o:' .. id, 8)) do
  if redis.call('HGET', P .. 'l:' .. name, 'ses') ~= id then
    redis.call('SREM', P .. 'o:' .. id, name)
    ver = redis.call('HINCRBY', P .. 's:' .. id, 'ver', 1)
  end
end
ver = tostring(ver)
if ver == ARGV[3] then
  return { s[2] }
end
local answer = { s[2], ver }
for _, name in ipairs(redis.call('SMEMBERS', P .. 'o:' .. id)) do
  local l = redis.call('HMGET', P .. 'l:' .. name, 'tok', 'ses')
  if l[2] == id then
    answer[#answer + 1] = name
    answer[#answer + 1] = l[1]
  end
end
return answer
