-- KEYS labels due, marked; ARGV life of a mark in ms, then per model: member, in how many ms its first label is due.
-- The look at a model comes no later than that. A mark tells the shortest such time of all since one that was young.
for i = 2, #ARGV, 2 do
  local member, life = ARGV[i], tonumber(ARGV[i + 1])
  call('ZADD', KEYS[1], 'LT', string.format('%.0f', now + life), member)
  local shortest = math.min(life, young_mark(member, ARGV[1]) or life)
  call('HSET', KEYS[2], member, string.format('%.0f %.0f', now, shortest))
end
return false
