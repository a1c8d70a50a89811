-- ARGV: prefix, beginning of the names, last name of the page before (empty for none), how many at most.
-- Answers a list for each lease: name, token, and if it is held: session, node, host, pid, client, and in microseconds
-- how long it has been held, how long ago the session was renewed, and how long it lives yet.
local from = '[' .. ARGV[2]
if ARGV[3] ~= '' and ARGV[3] >= ARGV[2] then
  from = '(' .. ARGV[3]
end
-- Behind every text that begins so: no name has a byte of 255.
local names = redis.call('ZRANGEBYLEX', P .. 'n', from, '(' .. ARGV[2] .. '\255', 'LIMIT', 0, ARGV[4])
local answer = {}
for _, name in ipairs(names) do
  local l = redis.call('HMGET', P .. 'l:' .. name, 'tok', 'ses', 'acq')
  if l[1] then
    local one = { name, l[1] }
    if l[2] then
      local s = redis.call('HMGET', P .. 's:' .. l[2], 'exp', 'lease', 'ren', 'node', 'host', 'pid', 'client')
      if s[1] and tonumber(s[1]) > now then
        local left = math.min(tonumber(s[1]) - now, tonumber(s[2]))
        one = { name, l[1], l[2], s[4], s[5], s[6], s[7], int(math.max(now - tonumber(l[3] or now), 0)),
          int(math.max(now - tonumber(s[3]), 0)), int(left) }
      end
    end
    answer[#answer + 1] = one
  end
end
return answer
