-- KEYS tombstones, published, unlabelled (drift.py); ARGV model, life of a mark in ms, how many there may be.
-- Returns those that are too many, with times. Room, and keys that may not vanish: as in next_delivery.lua.
call('ZREM', KEYS[1], '')
call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - tonumber(ARGV[2])))
call('HDEL', KEYS[2], ARGV[1])
call('UNLINK', KEYS[3])
return call('ZPOPMIN', KEYS[1], math.min(most, math.max(0, call('ZCARD', KEYS[1]) - tonumber(ARGV[3]))))
