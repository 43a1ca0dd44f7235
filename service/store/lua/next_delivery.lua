-- KEYS stream, webhooks; ARGV webhook, consumer, length of a turn in ms, the position settled or ''.
-- Returns how many entries have left the stream before the next one, and that; false where it is another one's turn.
-- What is missing is settled with it. What needs room goes behind what does not (it removes nothing): then a full store
-- takes it. No key may vanish first: a server that is handing over its slot would not create it again.
-- A turn of 0 ms is given back, if it is the consumer's own.
-- A turn with more left than a turn lasts is over: the clock was set back.
local held = call('HGET', KEYS[2], ARGV[1]) or ''
local position, consumer, due = string.match(held, '^(%S+) (%S+) (%d+)$')
local left = position and tonumber(due) - now
if position and consumer ~= ARGV[2] and left > 0 and left <= tonumber(ARGV[3]) then return false end
if ARGV[3] == '0' and consumer ~= ARGV[2] then return false end
if not position then
  local top = call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
  position = top and top[1] or '0-0'
elseif consumer == ARGV[2] and ARGV[4] ~= '' then
  position = ARGV[4]
end
local entry, missed = call('XRANGE', KEYS[1], '(' .. position, '+', 'COUNT', 1)[1], 0
if entry then
  local time, number = string.match(entry[1], '^(%d+)-(%d+)$')
  missed = math.max(0, number - string.match(position, '%d+$') - 1)
  position = string.format('%s-%.0f', time, number - 1)
end
call('HDEL', KEYS[2], '')
call('HSET', KEYS[2], ARGV[1], position .. ' ' .. ARGV[2] .. string.format(' %.0f', now + ARGV[3]))
return {missed, entry}
