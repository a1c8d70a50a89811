-- KEYS[1]: a hash. ARGV: token, field and value of each change...
-- Sets the fields and records the token, if it is at least the recorded one; else answers the recorded one.
-- Tokens are compared as text, the longer first: a number above 2^53 is no exact Lua number.
local recorded = redis.call('HGET', KEYS[1], 'fencing_token')
if recorded then
  -- What is no token is answered too, and the caller is told so.
  if not string.match(recorded, '^[1-9]%d*$') then
    return recorded
  end
  if #ARGV[1] < #recorded or (#ARGV[1] == #recorded and ARGV[1] < recorded) then
    return recorded
  end
end
redis.call('HSET', KEYS[1], 'fencing_token', ARGV[1], unpack(ARGV, 2))
return false
