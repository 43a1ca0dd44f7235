-- KEYS 1 stream, 2 alarms, 3 tombstones; ARGV 1 model and incarnation, 2 model, 3 most entries kept.
-- The first write of a script is the only one that can fail: then nothing has changed.
local function add(...)
  local top = call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
  local time, number = string.match(top and top[1] or '0-0', '^(%d+)-(%d+)$')
  local id = string.format('%.0f-%.0f', math.max(now, time + 1), number + 1)
  local over, out = call('XLEN', KEYS[1]) + 1 - tonumber(ARGV[3]), {}
  if over > 0 then out = call('XRANGE', KEYS[1], '-', '+', 'COUNT', over) end
  call('XADD', KEYS[1], 'MAXLEN', '=', ARGV[3], id, 'm', ARGV[2], ...)
  for _, entry in ipairs(out) do call('HDEL', KEYS[2], entry[2][4]) end
end
local gone = call('ZSCORE', KEYS[3], ARGV[1])
