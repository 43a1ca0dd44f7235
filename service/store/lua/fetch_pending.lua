-- KEYS pending, pending_due, seen, seen_due; ARGV prediction id, id
local due = tonumber(call('ZSCORE', KEYS[2], ARGV[1]) or 0)
local blob = due > now and call('HGET', KEYS[1], ARGV[1])
return {blob, blob and due, look(KEYS[3], KEYS[4], {ARGV[2]})[ARGV[2]] or false}
