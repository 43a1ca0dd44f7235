-- KEYS 1 published; ARGV 1 model and incarnation, 2 the position of an alarm that its log has lost, 3 of its last before.
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
return redis.call('HGET', KEYS[1], ARGV[1]) or '0-0'
