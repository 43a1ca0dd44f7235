-- KEYS 1 meta, 2 log, 3 states; ARGV 1 incarnation, 2 newest version, 3 most entries, 4 bytes after
-- which it ends. unpack_one reads one value at a place and tells where the next one begins: behind the head of an array
-- the values of a record are read one by one, and the numbers of its rows not at all.
local call, bytes = redis.call, 0
if call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return false end

-- Kind and rows of a record; rows is false where it has none.
local function record(blob)
  local wide = string.byte(blob, 1) == 220                -- 0xdc: an array of more than 15 values
  local at = wide and 3 or 1
  local function take()
    local value
    at, value = cmsgpack.unpack_one(blob, at)
    return value
  end
  local tag = take()
  take()                                                  -- the record's format
  if tag == 'named' then
    local first = call('HGET', string.sub(KEYS[3], 1, -2) .. ':' .. take(), '0')
    bytes = bytes + #first
    return record(first)
  end
  if tag == 'rows' or tag == 'overlap' then
    take()
    if tag == 'rows' then take() end
    return tag, take()
  end
  if tag == 'switch' then return 'switch ' .. take(), false end
  if tag == 'config' then return 'configure', false end
  if tag == 'challenge' then return 'challenger put', false end
  if tag == 'withdraw' then return 'challenger delete', false end
  if tag == 'promote' then return 'challenger promote', false end
  if tag == 'state' then take() take() return take(), false end
  return tag == 'reset' and tag or 'unknown', false
end

local function shown(entry)
  local held, kinds, rows = {}, {}, false
  for i = 1, #entry[2], 2 do
    local name, value = entry[2][i], entry[2][i + 1]
    local ordinal = string.match(name, '^(%d+)(s?)$')
    if not ordinal then
      held[name] = value
    elseif string.sub(name, -1) == 's' then
      local _, skipped = string.gsub(value, '%d+', '')
      rows = rows and rows - skipped
    else
      local fine, kind, count = pcall(record, value)
      kind = fine and kind or 'unknown'
      if not kinds[kind] then
        kinds[kind] = true
        kinds[#kinds + 1] = kind
      end
      if fine and count then rows = (rows or 0) + count end
    end
  end
  return {string.match(entry[1], '^%d+'), held.t, held.u, kinds, rows}
end

local out, newest, most = {}, tonumber(ARGV[2]), tonumber(ARGV[3])
while #out < most do
  local wanted = math.min(8, math.max(1, #out), most - #out)
  local part = call('XREVRANGE', KEYS[2], string.format('%.0f-0', newest), '1-0', 'COUNT', wanted)
  for i = 1, #part do
    for j = 1, #part[i][2] do bytes = bytes + #part[i][2][j] end
    out[#out + 1] = shown(part[i])
    newest = tonumber(out[#out][1]) - 1
    if bytes > tonumber(ARGV[4]) then return {out, 0} end
  end
  if #part < wanted or newest < 1 then return {out, 1} end
end
return {out, 0}
