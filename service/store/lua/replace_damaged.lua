-- KEYS meta, then log and snapshots of each incarnation; ARGV the incarnations that the index has of the name.
-- Puts in the place of a meta whose incarnation cannot be read one that can be deleted: of the model with data, since
-- others may be just being created.
local found = redis.pcall('HGET', KEYS[1], 'incarnation')
if type(found) == 'string' and not string.find(found, '[\128-\255]') or redis.call('EXISTS', KEYS[1]) == 0 then return end
local own = ARGV[1] or ''
for i = 1, #ARGV do
  if redis.call('EXISTS', KEYS[2 * i], KEYS[2 * i + 1]) > 0 then own = ARGV[i] end
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'incarnation', own)
