-- KEYS meta, lost; ARGV incarnation, config, summary without version and time, or '' for none
local old = call('HMGET', KEYS[1], 'incarnation', 'version')
if old[1] or old[2] then return old end
if call('EXISTS', KEYS[2]) == 1 then return {'', ''} end
local time = string.format('%.0f', now)
call('HSET', KEYS[1], 'incarnation', ARGV[1], 'config', ARGV[2], 'version', 0, 'uid', ARGV[1],
  'created', time, 'updated', time)
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'summary', '0:' .. time .. ':' .. ARGV[3]) end
return false
