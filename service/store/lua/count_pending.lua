-- KEYS meta, pending_due; ARGV incarnation
local meta = call('HMGET', KEYS[1], 'incarnation', 'expired')
if meta[1] ~= ARGV[1] then return {0, 0} end
local due = call('ZCOUNT', KEYS[2], '-inf', string.format('%.0f', now))
return {call('ZCARD', KEYS[2]) - due, tonumber(meta[2] or 0) + due}
