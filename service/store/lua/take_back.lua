-- KEYS 1 published, 2 the stream; ARGV 1 model and incarnation, 2 the position of an alarm that its log has lost, 3 of its
-- last before, 4 the stream's newest entry when that was found. Returns false if it has another one by now.
local newest = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
if (newest and newest[1] or '0-0') ~= ARGV[4] then return false end
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
return redis.call('HGET', KEYS[1], ARGV[1]) or '0-0'
