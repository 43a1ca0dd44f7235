-- KEYS labels due, marked; ARGV member, when its next label is due in ms (0: never), life of a mark, pause, both in ms.
-- A mark comes before what it announces: while it is young the next look is soon, whatever was found.
local after, marked = tonumber(ARGV[2]), tonumber(call('HGET', KEYS[2], ARGV[1]) or 0)
if now - marked < tonumber(ARGV[3]) then
  local soon = now + tonumber(ARGV[4])
  after = after > 0 and math.min(after, soon) or soon
end
if after > 0 then
  call('ZADD', KEYS[1], string.format('%.0f', math.max(after, now + tonumber(ARGV[4]))), ARGV[1])
else
  call('ZREM', KEYS[1], ARGV[1])
  call('HDEL', KEYS[2], ARGV[1])
end
return false
