-- KEYS 1 seen, 2 seen_due; ARGV ids
local known, out = look(KEYS[1], KEYS[2], ARGV), {}
for i = 1, #ARGV do out[i] = known[ARGV[i]] or false end
return out
