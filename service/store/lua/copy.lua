-- KEYS meta, snapshots, chunks, lost
-- ARGV incarnation, config, info, bytes, number of pieces, digest, state version, origin, summary as for a new model
local old = call('HMGET', KEYS[1], 'incarnation', 'origin', 'version')
if old[1] or old[3] then return {old[1] or '?', old[2] or ''} end
if call('EXISTS', KEYS[4]) == 1 then return {'', 'lost'} end
local size = 0
for i = 0, tonumber(ARGV[5]) - 1 do size = size + call('HSTRLEN', KEYS[3], ARGV[6] .. ':' .. i) end
if size ~= tonumber(ARGV[4]) then return {'', ''} end
local time = string.format('%.0f', now)
call('HSET', KEYS[1], 'incarnation', ARGV[1], 'config', ARGV[2], 'version', 0, 'uid', ARGV[1], 'created', time,
  'updated', time, 'snapshot', 0, 'code', ARGV[7], 'origin', ARGV[8], 'summary', '0:' .. time .. ':' .. ARGV[9])
call('HSET', KEYS[2], 0, ARGV[3])
call('PERSIST', KEYS[3])
return {ARGV[1], ARGV[8]}
