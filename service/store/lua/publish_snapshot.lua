-- KEYS meta, log, snapshots, chunks, states
-- ARGV incarnation, version, uid, info, bytes, number of pieces, digest, how many to keep, what chunk keys begin with,
-- 1: the guard from now on
local call = redis.call
local meta = call('HMGET', KEYS[1], 'incarnation', 'version', 'uid', 'snapshot')
if meta[1] ~= ARGV[1] then return {'refused'} end
local version, head = tonumber(ARGV[2]), tonumber(meta[2])
local function id(v) return string.format('%.0f-0', v) end

-- Does it join the log? The head knows its uid; every other version is named by its successor.
local uid = version == head and meta[3] or nil
if version < head then
  local next_entry = call('XRANGE', KEYS[2], id(version + 1), id(version + 1))[1]
  local fields = next_entry and next_entry[2] or {}
  for i = 1, #fields, 2 do if fields[i] == 'p' then uid = fields[i + 1] end end
end
if uid ~= ARGV[3] then return {'refused'} end

local kept = {}
for _, v in ipairs(call('HKEYS', KEYS[3])) do kept[#kept + 1] = tonumber(v) end
local old = call('HGET', KEYS[3], ARGV[2])
if not old then
  local newer = 0
  for i = 1, #kept do if kept[i] > version then newer = newer + 1 end end
  if newer >= tonumber(ARGV[8]) then return {'refused'} end

  -- Two replicas may have sent pieces that differ (another CPU): the first that publishes wins, whole.
  local own, size = {}, 0
  for i = 0, tonumber(ARGV[6]) - 1 do
    local field = ARGV[7] .. ':' .. i
    own[field], size = true, size + call('HSTRLEN', KEYS[4], field)
  end
  if size ~= tonumber(ARGV[5]) then return {'refused'} end
  call('HSET', KEYS[3], ARGV[2], ARGV[4])
  call('PERSIST', KEYS[4])
  for _, field in ipairs(call('HKEYS', KEYS[4])) do
    if not own[field] then call('HDEL', KEYS[4], field) end
  end
  kept[#kept + 1] = version
end

if ARGV[10] == '1' then call('HSET', KEYS[1], 'guard', ARGV[2]) end
local guard = call('HGET', KEYS[1], 'guard')
table.sort(kept, function(a, b) return a > b end)
local keep = tonumber(ARGV[8])
for i = keep + 1, #kept do
  local dropped = string.format('%.0f', kept[i])
  if dropped ~= guard then
    call('HDEL', KEYS[3], dropped)
    call('UNLINK', ARGV[9] .. dropped)
  end
end
local newest = string.format('%.0f', kept[1])
if meta[4] ~= newest then call('HSET', KEYS[1], 'snapshot', newest) end
-- A first snapshot alone does not trim: should it turn out corrupt, the log still has everything.
if #kept >= math.min(keep, 2) then
  local trimmed = kept[math.min(keep, #kept)]
  call('XTRIM', KEYS[2], 'MINID', id(trimmed + 1))
  local entries, used, unused = call('HGETALL', KEYS[5]), {}, {}
  for i = 1, #entries, 2 do              -- states that only trimmed entries name go with them
    local gone = tonumber(string.match(entries[i], '^%d+')) <= trimmed
    if gone then call('HDEL', KEYS[5], entries[i]) end
    local named = gone and unused or used
    named[entries[i + 1]] = true
  end
  for digest in pairs(unused) do
    if not used[digest] then call('UNLINK', string.sub(KEYS[5], 1, -2) .. ':' .. digest) end
  end
end
return old and {'existed', old} or {'published'}
