-- KEYS labels due, marked; ARGV life of a mark, pause, both in ms, then per model: member, when its next label is due in
-- ms (0: never).
-- A mark comes before what it announces: while it is young, a prediction may still be kept that was not found.
for i = 3, #ARGV, 2 do
  local member, after, announced = ARGV[i], tonumber(ARGV[i + 1]), young_mark(ARGV[i], ARGV[1])
  if announced then after = math.min(after > 0 and after or math.huge, now + announced) end
  if after > 0 then
    call('ZADD', KEYS[1], string.format('%.0f', math.max(after, now + tonumber(ARGV[2]))), member)
  else
    call('ZREM', KEYS[1], member)
    call('HDEL', KEYS[2], member)
  end
end
return false
