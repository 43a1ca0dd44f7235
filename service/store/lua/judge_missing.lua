-- KEYS meta, deleted, lost; ARGV incarnation, life of a mark in ms.
-- Whether a model that the store does not have was deleted; if not, its name is reserved for it.
if redis.call('EXISTS', KEYS[2]) == 1 then return 1 end
-- The answer also holds where the store takes no writes.
if redis.call('EXISTS', KEYS[1]) == 0 then redis.pcall('SET', KEYS[3], ARGV[1], 'PX', ARGV[2]) end
return 0
