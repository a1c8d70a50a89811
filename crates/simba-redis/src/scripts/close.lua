-- ARGV: prefix, session. Answers whether it lived.
local lived = live(ARGV[2])
end_session(ARGV[2])
return lived and 1 or 0
