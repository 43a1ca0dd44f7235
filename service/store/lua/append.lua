-- Adds an entry to the log. append_quick.lua comes before it and reads the same keys and arguments; appends.append_call
-- makes them.
-- KEYS  1 meta, 2 log (both: join.lua), 3 seen: id -> record, 4 seen_due: ids by expiry, 5 pending: tracked predictions
--       by id, 6 pending_due: their ids by expiry, 7 states: "VERSION-ORDINAL" -> digest of the state named there
-- ARGV  1 incarnation, 2 version, 3 uid of that version (all: join.lua), 4 writer, 5 sequence, 6 uid of the new entry,
--       7 life of an id in ms, 8 most ids, 9 most bytes of entries to return, 10 state version of the writer,
--       11 number of segments,
--       12 ... for each segment: blob, id of the tracked prediction it settles or '', the state it names as
--       "DIGEST:SIZE" or '', number n of its ids, the n ids, their n digests;
--       then: a summary of version v0 or '', how many of the caller's own connections listen to its notices,
--       and one more if the caller waits for replicas
-- A record is "VERSION:ORDINAL:ROW:DIGEST:ANSWER": the entry, segment and row that an id was learned with.
local log, seen, seen_due = KEYS[2], KEYS[3], KEYS[4]
local writer, sequence, count = 'w:' .. ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[11])
local ids, ids_at, id_count = {}, {}, {}     -- all ids of the request; where in ARGV those of each segment begin
local next_arg = 12
for k = 0, count - 1 do
  local n = tonumber(ARGV[next_arg + 3])
  ids_at[k], id_count[k] = next_arg + 4, n
  for i = ids_at[k], ids_at[k] + n - 1 do ids[#ids + 1] = ARGV[i] end
  next_arg = ids_at[k] + 2 * n
end
local summary, own_listeners, waits = ARGV[next_arg], tonumber(ARGV[next_arg + 1]), ARGV[next_arg + 2]
local function blob_of(k) return ARGV[ids_at[k] - 4] end
local function prediction_of(k) return ARGV[ids_at[k] - 3] end
local function state_of(k) return ARGV[ids_at[k] - 2] end
local any_full = false
-- If there was no room for some ids: how many are remembered, when the first expires (0: there are none), the time.
local function remembered()
  if not any_full then return false end
  local from = '(' .. string.format('%.0f', now)
  local first = call('ZRANGEBYSCORE', seen_due, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return {call('ZCOUNT', seen_due, from, '+inf'), tonumber(first[2] or 0), now}
end
local function place(version, k, row) return string.format('%.0f:%d:%d:', version, k, row) end
-- Both change together: where they differ, the store has evicted one of them.
if #ids > 0 and call('HLEN', seen) ~= call('ZCARD', seen_due) then return {'evicted', head, meta[3]} end
local known = look(seen, seen_due, ids)

local function state_key(digest) return string.sub(KEYS[7], 1, -2) .. ':' .. digest end

-- Whether all pieces of the state that a segment names are there.
local function stored(state)
  if state == '' then return true end
  local digest, size = string.match(state, '^(%x+):(%d+)$')
  local key, found = state_key(digest), 0
  for i = 0, call('HLEN', key) - 1 do found = found + call('HSTRLEN', key, i) end
  return found == tonumber(size)
end

-- Rows of a segment whose id is known, or occurs earlier in it, with another digest, each with that id's record: then
-- nothing of the segment is added.
local function conflicts(k, made)
  local n, at, earlier, found = id_count[k], ids_at[k], {}, {}     -- earlier: the first row of each new id
  for row = 0, n - 1 do
    local id, digest = ARGV[at + row], ARGV[at + n + row]
    local record, first = known[id], earlier[id]
    if record then
      local known_digest = string.match(record, '^%d+:%d+:%d+:([^:]*):')
      if known_digest ~= digest then found[#found + 1], found[#found + 2] = row, record end
    elseif not first then
      earlier[id] = row
    elseif ARGV[at + n + first] ~= digest then
      found[#found + 1], found[#found + 2] = row, place(made, k, first) .. ARGV[at + n + first] .. ':'
    end
  end
  return found
end

-- The reply of a call that adds nothing, with the entries up to version `last`.
local function nothing_added(made, time, segments, last)
  local refused = waits and rewrite(KEYS[1])
  if refused then return refused end
  local entries, complete = read(last, tonumber(ARGV[9]), 1e9)
  return {'ok', head, meta[3], made, time, complete, segments, entries, remembered()}
end

-- The result of an earlier call with this sequence, from the log and seen.
local function retry_reply(made)
  local fields, time = nil, 0                -- of the entry made, unless it is trimmed
  local entry = call('XRANGE', log, entry_id(made), entry_id(made))[1]
  if entry then
    fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    time = tonumber(fields.t)
  end
  -- Whether the record of a row's id is the one that this entry wrote.
  local function learned_here(k, row)
    local start, record = place(made, k, row), known[ARGV[ids_at[k] + row]]
    return record and string.sub(record, 1, #start) == start
  end
  local segments = {}
  for k = 0, count - 1 do
    local n, missing, added, hits = id_count[k], false, false, {}
    local blob, skipped = fields and fields[tostring(k)], {}
    for row in string.gmatch(blob and fields[k .. 's'] or '', '%d+') do skipped[tonumber(row)] = true end
    for row = 0, n - 1 do
      local record, here = known[ARGV[ids_at[k] + row]], learned_here(k, row)
      added, missing = added or here, missing or not record
      if skipped[row] or not blob and record and not here then hits[#hits + 1], hits[#hits + 2] = row, record or '' end
    end
    if fields then added = blob else added = added or n == 0 end
    local clashes = added and {} or conflicts(k, made)
    if #clashes > 0 then segments[k + 1] = {'seen', clashes}
    elseif added and #hits == 0 then segments[k + 1] = 'added'
    elseif added then segments[k + 1] = {'added', hits}
    elseif missing then segments[k + 1], any_full = 'full', true
    elseif n == 0 then segments[k + 1] = 'stateless'
    else segments[k + 1] = {'seen', hits} end
  end
  return nothing_added(made, time, segments, made - 1)
end

local last = call('HGET', KEYS[1], writer)
if last then
  local last_sequence, made = string.match(last, '^(%d+):(%d+)')
  if sequence < tonumber(last_sequence) then return {'fenced', head, meta[3]} end
  if sequence == tonumber(last_sequence) then return retry_reply(tonumber(made)) end
end
if (meta[4] or ARGV[10]) ~= ARGV[10] then return {'other', head, meta[3]} end

-- A new writer: forget the writers that cannot retry any more; a time in the future becomes the present.
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
  local n, at, state = id_count[k], ids_at[k], state_of(k)
  local records, fresh, hits, skip = {}, {}, {}, {}
  for row = 0, n - 1 do
    local id = ARGV[at + row]
    local record = known[id] or records[id]
    if record then
      hits[#hits + 1], hits[#hits + 2], skip[#skip + 1] = row, record, row
    else
      records[id] = place(made, k, row) .. ARGV[at + n + row] .. ':'
      fresh[#fresh + 1] = id
    end
  end
  local clashes = conflicts(k, made)
  if #clashes > 0 then
    segments[k + 1] = {'seen', clashes}
  elseif n > 0 and #fresh == 0 then
    segments[k + 1] = {'seen', hits}
  elseif n > 0 and #fresh > room then
    segments[k + 1], any_full = 'full', true
  elseif not stored(state) then
    segments[k + 1] = 'stateless'
  else
    segments[k + 1] = #hits > 0 and {'added', hits} or 'added'
    adds, room = true, room - #fresh
    fields[#fields + 1], fields[#fields + 2] = k, blob_of(k)
    if state ~= '' then states[#states + 1] = k end
    if #skip > 0 then fields[#fields + 1], fields[#fields + 2] = k .. 's', table.concat(skip, ',') end
    if prediction_of(k) ~= '' then done[#done + 1] = prediction_of(k) end
    for i = 1, #fresh do
      local id = fresh[i]
      known[id] = records[id]
      remember[#remember + 1], remember[#remember + 2] = id, records[id]
      dues[#dues + 1], dues[#dues + 2] = due, id
    end
  end
end
if not adds then return nothing_added(0, 0, segments, head) end
local entries, complete = read(head, tonumber(ARGV[9]), 1e9)

-- These writes change nothing, and they and XADD are the only ones that can fail: once a script has written, the server
-- refuses it nothing for lack of room, and what its user may not run is refused here. (What clears up comes last.)
call('HSET', KEYS[1], 'uid', meta[3])
if #remember > 0 then call('ZADD', seen_due, 'XX', 0, '') end
if #states > 0 then call('PERSIST', KEYS[7]) end
if #done > 0 then call('HDEL', KEYS[5], '') call('ZREM', KEYS[6], '') end
local added = redis.pcall('XADD', log, entry_id(made), unpack(fields))
if type(added) == 'table' and added.err then return added end
call('HSET', KEYS[1], 'version', string.format('%.0f', made), 'uid', ARGV[6], 'updated', string.format('%.0f', now),
  writer, string.format('%.0f:%.0f:%.0f', sequence, made, now))
if meta[4] ~= ARGV[10] then call('HSET', KEYS[1], 'code', ARGV[10]) end
if summary ~= '' then store_summary(summary, v0 + 1) end
for i = 1, #states do
  local digest = string.match(state_of(states[i]), '^%x+')
  call('PERSIST', state_key(digest))
  call('HSET', KEYS[7], string.format('%.0f-%d', made, states[i]), digest)
end

in_parts(remember, function(from, to) call('HSET', seen, unpack(remember, from, to)) end)
in_parts(dues, function(from, to) call('ZADD', seen_due, unpack(dues, from, to)) end)
if #done > 0 then
  call('HDEL', KEYS[5], unpack(done))
  call('ZREM', KEYS[6], unpack(done))
  call('ZREM', (string.gsub(KEYS[6], 'pending_due$', 'labels_due')), unpack(done))
end
if #dated > 0 then call('HSET', KEYS[1], unpack(dated)) end
if #forgotten > 0 then call('HDEL', KEYS[1], unpack(forgotten)) end
-- An append that adds ids or settles predictions removes some expired ones; the sweeper removes the rest.
if #remember > 0 then sweep(seen, seen_due, 2 * most + #remember) end
if #done > 0 then count_expired(KEYS[1], sweep(KEYS[5], KEYS[6], most)) end
notify(ARGV[1] .. string.format(' %.0f ', made) .. ARGV[6], own_listeners)
return {'ok', made, ARGV[6], made, now, complete, segments, entries, remembered()}
