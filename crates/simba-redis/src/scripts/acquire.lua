-- ARGV: prefix, session, counter or clock, names...
-- Answers nothing if the session is over; else the version before and after, one outcome a name, and the holders that
-- the outcomes point to: W<token> won, H<holder>:<token> held, X the tokens are used up.
local id, clock = ARGV[2], ARGV[3] == 'clock'
local me = live(id)
if not me then
  return false
end
local outcomes, holders, index = {}, {}, {}

local function holder(owner)
  if index[owner] == nil then
    local s = live(owner)
    if s then
      local left = math.min(tonumber(s[1]) - now, tonumber(s[2]))
      local who = redis.call('HMGET', P .. 's:' .. owner, 'node', 'host', 'pid', 'client')
      holders[#holders + 1] = { int(left), who[1], who[2], who[3], who[4] }
      index[owner] = #holders
    else
      index[owner] = false
    end
  end
  return index[owner]
end

-- The next token, as text: a number above 2^53 is no exact Lua number.
local function raise(key, old)
  if clock and (not old or tonumber(old) < now) then
    redis.call('HSET', key, 'tok', int(now))
    return int(now)
  end
  if old == LAST then
    return nil
  end
  redis.call('HINCRBY', key, 'tok', 1)
  return redis.call('HGET', key, 'tok')
end

for i = 4, #ARGV do
  local name = ARGV[i]
  local key = P .. 'l:' .. name
  local l = redis.call('HMGET', key, 'tok', 'ses')
  if l[1] and l[2] == id then
    outcomes[#outcomes + 1] = 'W' .. l[1]
  else
    local held = l[2] and holder(l[2])
    if held then
      outcomes[#outcomes + 1] = 'H' .. held .. ':' .. l[1]
    else
      local token = raise(key, l[1])
      if token then
        if not l[1] then
          redis.call('ZADD', P .. 'n', 0, name)
        end
        redis.call('HSET', key, 'ses', id, 'acq', int(now))
        redis.call('SADD', P .. 'o:' .. id, name)
        redis.call('HINCRBY', P .. 's:' .. id, 'ver', 1)
        outcomes[#outcomes + 1] = 'W' .. token
      else
        outcomes[#outcomes + 1] = 'X'
      end
    end
  end
end
redis.call('PEXPIRE', P .. 'o:' .. id, math.max(redis.call('PTTL', P .. 's:' .. id), 1))
return { me[3], version(id), outcomes, holders }
