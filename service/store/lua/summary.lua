-- KEYS 1 meta; ARGV 1 incarnation, 2 version, 3 uid of that version, 4 least (see above), 5 summary of that version.
-- A failover may have cut the version from the log; what has been rewritten below the head, the next summary replaces.
local meta = redis.call('HMGET', KEYS[1], 'incarnation', 'version', 'uid')
if meta[1] ~= ARGV[1] then return -1 end
local version, head = tonumber(ARGV[2]), tonumber(meta[2])
if version > head or version == head and meta[3] ~= ARGV[3] then return -1 end
return store_summary(ARGV[5], tonumber(ARGV[4]))
