-- KEYS meta, snapshots, chunks; ARGV incarnation, version, field, piece, life in ms
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return 0 end
if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 1 then return 0 end
redis.call('HSET', KEYS[3], ARGV[3], ARGV[4])
redis.call('PEXPIRE', KEYS[3], ARGV[5])
return 1
