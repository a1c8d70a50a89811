-- ARGV: prefix, session, name and token of each lease...
-- Answers nothing if the session is over, else the version before and after.
local id = ARGV[2]
local me = live(id)
if not me then
  return false
end
local freed = 0
for i = 3, #ARGV, 2 do
  local l = redis.call('HMGET', P .. 'l:' .. ARGV[i], 'tok', 'ses')
  if l[2] == id and l[1] == ARGV[i + 1] then
    freed = freed + 1
    free(ARGV[i], id, freed)
  end
end
return { me[3], version(id) }
