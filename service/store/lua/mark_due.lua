-- KEYS labels due, marked; ARGV life of a mark in ms, then per model: member, in how many ms its first label is due.
-- The next look at a model comes no later than that. A mark that is renewed while it is young keeps the shortest time.
for i = 2, #ARGV, 2 do
  local member, life = ARGV[i], tonumber(ARGV[i + 1])
  call('ZADD', KEYS[1], 'LT', string.format('%.0f', now + life), member)
  local shortest = math.min(life, young_mark(member, ARGV[1]) or life)
  call('HSET', KEYS[2], member, string.format('%.0f %.0f', now, shortest))
end
return false
