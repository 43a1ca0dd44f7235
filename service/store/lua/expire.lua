-- KEYS meta, seen, seen_due, pending, pending_due; ARGV incarnation, most of each.
-- A store without memory removes all the same: what a script removes first makes room for the count.
if call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return {0, 0} end
local ids, predictions = sweep(KEYS[2], KEYS[3], tonumber(ARGV[2])), sweep(KEYS[4], KEYS[5], tonumber(ARGV[2]))
count_expired(KEYS[1], predictions)
return {ids, predictions}
