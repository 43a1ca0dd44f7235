-- KEYS snapshots, chunks; ARGV version. Those of a published snapshot stay.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then redis.call('UNLINK', KEYS[2]) end
return 1
