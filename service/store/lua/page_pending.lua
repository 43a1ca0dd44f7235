-- KEYS pending, pending_due; ARGV where to begin, most (those that begin at the same ms as the page come on top: the
-- caller knows which of them it has). What has expired is left out, swept or not.
local from = string.format('%.0f', math.max(tonumber(ARGV[1]), now + 1))
local limit = ARGV[2] + call('ZCOUNT', KEYS[2], from, from)
local found = call('ZRANGEBYSCORE', KEYS[2], from, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
local out = {}
for i = 1, #found, 2 do out[#out + 1] = {found[i], tonumber(found[i + 1])} end
return out
