-- KEYS 4 the model's list; ARGV 4 incarnation, 5 version, 6 first index, 7 most kept in the list, 8 least ms since the
-- last one (one far in the future is of a clock that was set back), 9 time, 10 JSON behind the id, 11 mark.
local version, index = tonumber(ARGV[5]), tonumber(ARGV[6])
local last = call('XREVRANGE', KEYS[4], '+', '-', 'COUNT', 1)[1]
if gone or last and math.abs(now - tonumber(last[2][2])) < tonumber(ARGV[8]) then return 0 end
if last then
  local a, b = string.match(last[1], '^(%d+)-(%d+)$')
  if tonumber(a) >= version then version, index = a, b + 1 end
end
local place = string.format('%.0f-%.0f', version, index)
local event = ARGV[4] .. '-' .. place
local body = '{"id":"' .. event .. '",' .. ARGV[10]
add('i', event, 't', ARGV[9], 'k', ARGV[11], 'e', body)
call('XADD', KEYS[4], 'MAXLEN', '=', ARGV[7], place,
  'n', string.format('%.0f', now), 'm', ARGV[2], 'i', event, 't', ARGV[9], 'k', ARGV[11], 'e', body)
return 1
