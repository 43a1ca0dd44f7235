-- KEYS meta, state; ARGV incarnation, number, piece, life in ms. What an entry refers to has no life: it stays so.
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return 0 end
local referred_to = redis.call('PTTL', KEYS[2]) == -1
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
if not referred_to then redis.call('PEXPIRE', KEYS[2], ARGV[4]) end
return 1
