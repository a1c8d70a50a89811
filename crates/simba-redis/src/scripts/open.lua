-- ARGV: prefix, session, lease in microseconds, node, host, pid, client
local lease = tonumber(ARGV[3])
local key = P .. 's:' .. ARGV[2]
redis.call('HSET', key, 'exp', int(now + lease), 'lease', ARGV[3], 'ren', int(now), 'ver', '0',
  'node', ARGV[4], 'host', ARGV[5], 'pid', ARGV[6], 'client', ARGV[7])
clear_later(ARGV[2], lease)
return 1
