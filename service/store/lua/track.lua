-- KEYS meta, pending, pending_due, seen_due, seen; ARGV incarnation, prediction id, blob, life in ms, most, most ids,
-- ms until the label of the configuration is due, "" for never, then the ids that a label of this id is remembered by, none
-- where the prediction id is known to be new; KEYS 6 labels_due.
-- Not while the model remembers as many ids as it may: the label that is to come would be refused.
-- HSET is the first write: where the server has no memory left it fails, and nothing has changed.
if call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return 'gone' end
if ARGV[8] and (tonumber(call('ZSCORE', KEYS[3], ARGV[2]) or 0) > now
    or next(look(KEYS[5], KEYS[4], {unpack(ARGV, 8)}))) then return 'known' end
local waiting = call('ZCOUNT', KEYS[3], '(' .. string.format('%.0f', now), '+inf')
if waiting >= tonumber(ARGV[5]) and call('HEXISTS', KEYS[2], ARGV[2]) == 0 then return 'full' end
local from = '(' .. string.format('%.0f', now)
local ids = call('ZCOUNT', KEYS[4], from, '+inf')
if ids >= tonumber(ARGV[6]) then
  return {ids, tonumber(call('ZRANGEBYSCORE', KEYS[4], from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] or 0), now}
end
call('HSET', KEYS[2], ARGV[2], ARGV[3])
call('ZADD', KEYS[3], string.format('%.0f', now + tonumber(ARGV[4])), ARGV[2])
if ARGV[7] ~= '' then call('ZADD', KEYS[6], string.format('%.0f', now + tonumber(ARGV[7])), ARGV[2]) end
count_expired(KEYS[1], sweep(KEYS[2], KEYS[3], most))
return false
