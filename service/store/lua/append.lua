local log, seen, seen_due = KEYS[2], KEYS[3], KEYS[4]
local writer, sequence, count = 'w:' .. ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[11])
local ids, at = {}, {}                       -- all ids of the request; where in ARGV each segment's ids begin
local next_arg = 12
for k = 0, count - 1 do
  local held = tonumber(ARGV[next_arg + 3])
  at[k] = next_arg + 4
  for i = at[k], at[k] + held - 1 do ids[#ids + 1] = ARGV[i] end
  next_arg = at[k] + 2 * held
end
local summary = ARGV[next_arg]
local function ids_of(k) return tonumber(ARGV[at[k] - 1]) end
local any_full = false
-- Where some ids found no room: how many are remembered, when the first of them leaves (0: none is), and the time.
local function remembered()
  if not any_full then return false end
  local from = '(' .. string.format('%.0f', now)
  local first = call('ZRANGEBYSCORE', seen_due, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return {call('ZCOUNT', seen_due, from, '+inf'), tonumber(first[2] or 0), now}
end
local function record(version, k, row) return string.format('%.0f:%d:%d:', version, k, row) end
local known = look(seen, seen_due, ids)

local function state_key(digest) return string.sub(KEYS[7], 1, -2) .. ':' .. digest end

-- Whether a segment may be added that names a state: all its pieces are there.
local function stored(state)
  if state == '' then return true end
  local digest, size = string.match(state, '^(%x+):(%d+)$')
  local key, found = state_key(digest), 0
  for i = 0, call('HLEN', key) - 1 do found = found + call('HSTRLEN', key, i) end
  return found == tonumber(size)
end

-- Rows of a segment whose id is known, or occurs earlier in it, with another digest: then nothing of it is added.
local function others(k, made)
  local n, above, found = ids_of(k), {}, {}
  for row = 0, n - 1 do
    local id, digest = ARGV[at[k] + row], ARGV[at[k] + n + row]
    local is, first = known[id], above[id]
    if is then
      if string.match(is, '^%d+:%d+:%d+:([^:]*):') ~= digest then found[#found + 1], found[#found + 2] = row, is end
    elseif not first then
      above[id] = row
    elseif ARGV[at[k] + n + first] ~= digest then
      found[#found + 1], found[#found + 2] = row, record(made, k, first) .. ARGV[at[k] + n + first] .. ':'
    end
  end
  return found
end

-- The result of an earlier call with this sequence, from the log and seen; nothing is written.
local function retry_reply(made)
  local held, time = nil, 0                  -- fields of the entry made, unless it is trimmed
  local entry = call('XRANGE', log, entry_id(made), entry_id(made))[1]
  if entry then
    held = {}
    for i = 1, #entry[2], 2 do held[entry[2][i]] = entry[2][i + 1] end
    time = tonumber(held.t)
  end
  local function own(k, row)
    local mine, is = record(made, k, row), known[ARGV[at[k] + row]]
    return is and string.sub(is, 1, #mine) == mine
  end
  local segments = {}
  for k = 0, count - 1 do
    local n, missing, added, hits = ids_of(k), false, false, {}
    local kept, skipped = held and held[tostring(k)], {}
    for row in string.gmatch(kept and held[k .. 's'] or '', '%d+') do skipped[tonumber(row)] = true end
    for row = 0, n - 1 do
      local is, mine = known[ARGV[at[k] + row]], own(k, row)
      added, missing = added or mine, missing or not is
      if skipped[row] or not kept and is and not mine then hits[#hits + 1], hits[#hits + 2] = row, is or '' end
    end
    if held then added = kept else added = added or n == 0 end
    local clashes = added and {} or others(k, made)
    if #clashes > 0 then segments[k + 1] = {'seen', clashes}
    elseif added and #hits == 0 then segments[k + 1] = 'added'
    elseif added then segments[k + 1] = {'added', hits}
    elseif missing then segments[k + 1], any_full = 'full', true
    elseif n == 0 then segments[k + 1] = 'stateless'
    else segments[k + 1] = {'seen', hits} end
  end
  local entries, complete = read(made - 1, tonumber(ARGV[9]), 1e9)
  return {'ok', head, meta[3], made, time, complete, segments, entries, remembered()}
end

local last = call('HGET', KEYS[1], writer)
if last then
  local last_sequence, made = string.match(last, '^(%d+):(%d+)')
  if sequence < tonumber(last_sequence) then return {'fenced', head, meta[3]} end
  if sequence == tonumber(last_sequence) then return retry_reply(tonumber(made)) end
end
if (meta[4] or ARGV[10]) ~= ARGV[10] then return {'other', head, meta[3]} end

-- A new writer: those whose retries cannot come any more are forgotten; a time still to come becomes the present.
local forgotten, dated = {}, {}
if not last then
  local all, young, present = call('HGETALL', KEYS[1]), 0, string.format(':%.0f', now)
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'w:' then
      local made, time = string.match(all[i + 1], '^(%d+:%d+):(%d+)$')
      if tonumber(time) < now - ${WRITER_LIFE_MS} then
        forgotten[#forgotten + 1] = all[i]
      else
        young = young + 1
        if tonumber(time) > now then dated[#dated + 1], dated[#dated + 2] = all[i], made .. present end
      end
    end
  end
  if young >= ${WRITERS_MAX} then return {'crowded', head, meta[3]} end
end

local made = head + 1
local fields = {'u', ARGV[6], 'p', meta[3], 't', string.format('%.0f', now), 'n', count, 's', ARGV[10]}
local segments, remember, dues, done, states, adds = {}, {}, {}, {}, {}, false
local due = string.format('%.0f', now + tonumber(ARGV[7]))
local room = #ids > 0 and tonumber(ARGV[8]) - call('ZCOUNT', seen_due, '(' .. string.format('%.0f', now), '+inf') or 0
for k = 0, count - 1 do
  local n = ids_of(k)
  local mine, fresh, hits, skip = {}, {}, {}, {}
  for row = 0, n - 1 do
    local id = ARGV[at[k] + row]
    local is = known[id] or mine[id]
    if is then
      hits[#hits + 1], hits[#hits + 2], skip[#skip + 1] = row, is, row
    else
      mine[id] = record(made, k, row) .. ARGV[at[k] + n + row] .. ':'
      fresh[#fresh + 1] = id
    end
  end
  local clashes = others(k, made)
  if #clashes > 0 then
    segments[k + 1] = {'seen', clashes}
  elseif n > 0 and #fresh == 0 then
    segments[k + 1] = {'seen', hits}
  elseif n > 0 and #fresh > room then
    segments[k + 1], any_full = 'full', true
  elseif not stored(ARGV[at[k] - 2]) then
    segments[k + 1] = 'stateless'
  else
    segments[k + 1] = #hits > 0 and {'added', hits} or 'added'
    adds, room = true, room - #fresh
    fields[#fields + 1], fields[#fields + 2] = k, ARGV[at[k] - 4]
    if ARGV[at[k] - 2] ~= '' then states[#states + 1] = k end
    if #skip > 0 then fields[#fields + 1], fields[#fields + 2] = k .. 's', table.concat(skip, ',') end
    if ARGV[at[k] - 3] ~= '' then done[#done + 1] = ARGV[at[k] - 3] end
    for i = 1, #fresh do
      local id = fresh[i]
      known[id] = mine[id]
      remember[#remember + 1], remember[#remember + 2] = id, mine[id]
      dues[#dues + 1], dues[#dues + 2] = due, id
    end
  end
end
local entries, complete = read(head, tonumber(ARGV[9]), 1e9)
if not adds then return {'ok', head, meta[3], 0, 0, complete, segments, entries, remembered()} end

-- The first write, and the only one that can fail: once a script has written, the server refuses it nothing.
local answer = redis.pcall('XADD', log, entry_id(made), unpack(fields))
if type(answer) == 'table' and answer.err then return answer end
call('HSET', KEYS[1], 'version', string.format('%.0f', made), 'uid', ARGV[6], 'updated', string.format('%.0f', now),
  writer, string.format('%.0f:%.0f:%.0f', sequence, made, now))
if meta[4] ~= ARGV[10] then call('HSET', KEYS[1], 'code', ARGV[10]) end
if summary ~= '' then store_summary(summary, v0 + 1) end
for i = 1, #states do
  local digest = string.match(ARGV[at[states[i]] - 2], '^%x+')
  call('PERSIST', state_key(digest))
  call('HSET', KEYS[7], string.format('%.0f-%d', made, states[i]), digest)
end

if #forgotten > 0 then call('HDEL', KEYS[1], unpack(forgotten)) end
if #dated > 0 then call('HSET', KEYS[1], unpack(dated)) end
in_parts(remember, function(from, to) call('HSET', seen, unpack(remember, from, to)) end)
in_parts(dues, function(from, to) call('ZADD', seen_due, unpack(dues, from, to)) end)
if #done > 0 then
  call('HDEL', KEYS[5], unpack(done))
  call('ZREM', KEYS[6], unpack(done))
  call('ZREM', (string.gsub(KEYS[6], 'pending_due$', 'labels_due')), unpack(done))
end
-- Whoever adds ids, or settles predictions, removes some that are past their time; the sweeper removes the rest.
if #remember > 0 then sweep(seen, seen_due, 2 * most + #remember) end
if #done > 0 then count_expired(KEYS[1], sweep(KEYS[5], KEYS[6], most)) end
notify(ARGV[1] .. string.format(' %.0f ', made) .. ARGV[6], tonumber(ARGV[next_arg + 1]))
return {'ok', made, ARGV[6], made, now, complete, segments, entries, remembered()}
