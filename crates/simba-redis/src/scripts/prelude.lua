-- In front of every script. ARGV[1] is the prefix of all keys; KEYS[1] only tells a cluster which slot is meant: every
-- key has the same one.
--
--   <prefix>s:<session>  hash   exp, lease, ren (microseconds of this server), ver, node, host, pid, client
--   <prefix>o:<session>  set    the names that the session owns
--   <prefix>l:<name>     hash   tok, and while it is held ses and acq. Never deleted: a token is never given twice
--   <prefix>n            zset   all names, for listing them in their order
--   <prefix>freed        channel  names that became free; an empty message stands for many
--
-- A session lives exactly while its hash is there and exp lies in the future. Whoever finds it past deletes it, so that
-- no clock that steps back brings it to life again. The time to live of its keys only clears away what nobody asks for.
local P = ARGV[1]
local time = redis.call('TIME')
-- Microseconds are exact as Lua numbers until the year 2255.
local now = time[1] * 1000000 + time[2]

local function int(number)
  return string.format('%.0f', number)
end

-- The last token there is.
local LAST = '9223372036854775807'

-- How many names are told one by one.
local TOLD = 64

-- News are a courtesy: a user without the right to the channel gets its leases all the same.
local function tell(name)
  redis.pcall('PUBLISH', P .. 'freed', name)
end

-- Clears away what belongs to a session that nobody renews and nobody asks for, a minute after its end.
local function clear_later(id, lease)
  local millis = int(tonumber(lease) / 1000 + 60000)
  redis.call('PEXPIRE', P .. 's:' .. id, millis)
  redis.call('PEXPIRE', P .. 'o:' .. id, millis)
end

local function end_session(id)
  local owned = redis.call('SCARD', P .. 'o:' .. id)
  if owned > TOLD then
    tell('')
  elseif owned > 0 then
    for _, name in ipairs(redis.call('SMEMBERS', P .. 'o:' .. id)) do
      tell(name)
    end
  end
  redis.call('DEL', P .. 's:' .. id, P .. 'o:' .. id)
end

-- The judge: exp, lease and ver of a session that lives. One that does not is deleted, for ever.
local function live(id)
  local s = redis.call('HMGET', P .. 's:' .. id, 'exp', 'lease', 'ver')
  if not s[1] then
    return nil
  end
  if tonumber(s[1]) <= now then
    end_session(id)
    return nil
  end
  return s
end

local function version(id)
  return redis.call('HGET', P .. 's:' .. id, 'ver') or '0'
end

-- Takes a lease from its owner and tells those who wait.
local function free(name, owner, told)
  redis.call('HDEL', P .. 'l:' .. name, 'ses', 'acq')
  redis.call('SREM', P .. 'o:' .. owner, name)
  if redis.call('EXISTS', P .. 's:' .. owner) == 1 then
    redis.call('HINCRBY', P .. 's:' .. owner, 'ver', 1)
  end
  if told <= TOLD then
    tell(name)
  elseif told == TOLD + 1 then
    tell('')
  end
end
