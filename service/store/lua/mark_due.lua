-- KEYS labels due, marked; ARGV per model: member, life in ms. The look at a model comes no later than its first label.
local present = string.format('%.0f', now)
for i = 1, #ARGV, 2 do
  call('ZADD', KEYS[1], 'LT', string.format('%.0f', now + tonumber(ARGV[i + 1])), ARGV[i])
  call('HSET', KEYS[2], ARGV[i], present)
end
return false
