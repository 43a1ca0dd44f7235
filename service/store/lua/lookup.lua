-- KEYS 1 seen, 2 seen_due, 3 meta if the caller waits for replicas; ARGV ids
local refused = KEYS[3] and rewrite(KEYS[3])
if refused then return refused end
local known, out = look(KEYS[1], KEYS[2], ARGV), {}
for i = 1, #ARGV do out[i] = known[ARGV[i]] or false end
return out
