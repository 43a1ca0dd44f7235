-- KEYS meta, pending, labels_due; ARGV incarnation, most, lease in ms.
-- Up to so many predictions whose label is due, with what is kept of them, and when the next one is due (0: never).
-- Nobody else gets them during the lease; what has its label is forgotten.
if call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return {{}, 0} end
local out = {}
local ids = call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now), 'LIMIT', 0, ARGV[2])
for i = 1, #ids do
  local blob = call('HGET', KEYS[2], ids[i])
  if blob then
    call('ZADD', KEYS[3], string.format('%.0f', now + tonumber(ARGV[3])), ids[i])
    out[#out + 1], out[#out + 2] = ids[i], blob
  else
    call('ZREM', KEYS[3], ids[i])
  end
end
local first = call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
return {out, tonumber(first or 0)}
