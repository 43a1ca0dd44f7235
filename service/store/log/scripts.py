"""The server-side scripts of the log, in Lua; log.py defines their arguments and results.

The server runs one script at a time, so each sees and leaves a consistent model. Nothing newer than Redis 6.2 is used.
Keys and arguments are checked in log.py only. Versions are written with %.0f: Lua would turn large numbers into
exponents.
"""

from service.store.redis.connection import Script

WRITER_LIFE_MS = 600_000
"""How long the last append of a process is remembered: far longer than it is sent again after a lost reply."""
WRITERS_MAX = 512
"""Processes whose appends a model remembers; one more is refused while none of them can be forgotten."""

# Lua's unpack has a bound (8000); a thousand at a time also keeps single commands short.
BASICS = """
local call, most = redis.call, 1000
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function entry_id(version) return string.format('%.0f-0', version) end

-- Notifies the followers of the model. A user who may not publish must not fail the script for it.
local function notify(text) redis.pcall('PUBLISH', (string.gsub(KEYS[1], 'meta$', 'hints')), text) end

local function in_parts(list, send)
  for from = 1, #list, most do send(from, math.min(from + most - 1, #list)) end
end
"""

# id -> record of those ids that are remembered and not yet due, whether or not they have been swept.
LOOK = """
local function look(seen, seen_due, ids)
  local known = {}
  in_parts(ids, function(from, to)
    local records = call('HMGET', seen, unpack(ids, from, to))
    for i = 1, #records do
      local id = ids[from + i - 1]
      if records[i] and tonumber(call('ZSCORE', seen_due, id) or 0) > now then known[id] = records[i] end
    end
  end)
  return known
end
"""

# Stores a summary unless the stored one is of version `least` or later; the version that is stored now.
STORE_SUMMARY = """
local function store_summary(summary, least)
  local stored = redis.call('HGET', KEYS[1], 'summary')
  local held = tonumber(string.match(stored or '', '^(%d+):') or -1)
  if held >= least then return held end
  redis.call('HSET', KEYS[1], 'summary', summary)
  return tonumber(string.match(summary, '^(%d+):'))
end
"""

# The checks every reader of the log shares, in the order of DESIGN.md, then reading.
# KEYS 1 meta, 2 log; ARGV 1 incarnation, 2 version, 3 uid of that version.
_JOIN = """
local meta = call('HMGET', KEYS[1], 'incarnation', 'version', 'uid', 'code')
if meta[1] ~= ARGV[1] then return {'gone', meta[1] and 1 or 0, ''} end
local head, v0 = tonumber(meta[2]), tonumber(ARGV[2])
if v0 > head then return {'ahead', head, meta[3]} end
local first = nil
if v0 == head then
  if meta[3] ~= ARGV[3] then return {'fork', head, meta[3]} end
else
  first = call('XRANGE', KEYS[2], entry_id(v0 + 1), entry_id(v0 + 1))[1]
  if not first then return {'trimmed', head, meta[3]} end
  local fields = first[2]
  for i = 1, #fields, 2 do
    if fields[i] == 'p' and fields[i + 1] ~= ARGV[3] then return {'fork', head, meta[3]} end
  end
end

-- Entries v0+1 to `last` in order, whether these are all, and the size of the first one where that alone is too large.
-- Few at a time: an entry can be large, and what is read beyond the limit was read for nothing.
local function read(last, bytes, entries)
  local out, version, part = {}, v0 + 1, {first}
  while version <= last do
    if #part == 0 then return out, 0, 0 end
    for i = 1, #part do
      local fields, size = part[i][2], 0
      for j = 1, #fields do size = size + #fields[j] end
      if size > bytes or #out >= entries then return out, 0, #out == 0 and size or 0 end
      bytes = bytes - size
      out[#out + 1] = part[i]
    end
    version = v0 + 1 + #out
    if version <= last then
      part = call('XRANGE', KEYS[2], entry_id(version), entry_id(last), 'COUNT', math.min(8, #out))
    end
  end
  return out, 1, 0
end
"""

# KEYS 3 seen, 4 seen_due, 5 pending, 6 pending_due, 7 states
# ARGV 4 writer, 5 sequence, 6 new uid, 7 life of an id in ms, 8 most ids, 9 bytes to read, 10 state version of the
#      writer, 11 number of segments, then per segment: blob, pending id or '', the state it names or '' (as
#      "DIGEST:SIZE:FOLLOWS"), number of ids, the ids, their digests;
#      last a summary of version v0, or ''
# Most appends have one segment without ids or a state and no summary, are made at the head, and follow another one of
# their writer. They are written here; _JOIN and _APPEND would do the same, with tables and closures that take several
# times as long.
_QUICK = """
if ARGV[11] == '1' and ARGV[13] == '' and ARGV[14] == '' and ARGV[15] == '0' and ARGV[16] == '' then
  local writer = 'w:' .. ARGV[4]
  local meta = redis.call('HMGET', KEYS[1], 'incarnation', 'version', 'uid', 'code', writer)
  local same = meta[1] == ARGV[1] and meta[2] == ARGV[2] and meta[3] == ARGV[3] and meta[4] == ARGV[10]
  if same and meta[5] and tonumber(ARGV[5]) > tonumber(string.match(meta[5], '^%d+')) then
    local clock = redis.call('TIME')
    local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
    local made = string.format('%.0f', meta[2] + 1)
    local answer = redis.pcall('XADD', KEYS[2], made .. '-0', 'u', ARGV[6], 'p', meta[3], 't', now, 'n', '1',
      's', ARGV[10], '0', ARGV[12])
    if type(answer) == 'table' and answer.err then return answer end
    redis.call('HSET', KEYS[1], 'version', made, 'uid', ARGV[6], 'updated', now, writer,
      ARGV[5] .. ':' .. made .. ':' .. now)
    redis.pcall('PUBLISH', string.sub(KEYS[1], 1, -5) .. 'hints', ARGV[1] .. ' ' .. made .. ' ' .. ARGV[6])
    return {'ok', tonumber(made), ARGV[6], tonumber(made), tonumber(now), 1, {'added'}, {}, false}
  end
end
"""

_APPEND = """
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
end
-- Whoever adds ids, or settles predictions, removes some that are past their time; the sweeper removes the rest.
if #remember > 0 then sweep(seen, seen_due, 2 * most + #remember) end
if #done > 0 then count_expired(KEYS[1], sweep(KEYS[5], KEYS[6], most)) end
notify(ARGV[1] .. string.format(' %.0f ', made) .. ARGV[6])
return {'ok', made, ARGV[6], made, now, complete, segments, entries, remembered()}
"""

# At most `limit` of what is past its time; expiry.py sweeps where nobody appends.
SWEEP = """
local function sweep(hash, due, limit)
  local swept = 0
  while swept < limit do
    local part = math.min(most, limit - swept)
    local old = call('ZRANGEBYSCORE', due, '-inf', string.format('%.0f', now), 'LIMIT', 0, part)
    if #old > 0 then
      call('HDEL', hash, unpack(old))
      call('ZREM', due, unpack(old))
    end
    swept = swept + #old
    if #old < part then break end
  end
  return swept
end

local function count_expired(meta_key, swept)
  if swept > 0 then call('HINCRBY', meta_key, 'expired', swept) end
end
"""

# ARGV 4 most bytes, 5 most entries
_READ_AFTER = """
local entries, complete, left = read(head, tonumber(ARGV[4]), tonumber(ARGV[5]))
return {'ok', head, meta[3], complete, entries, left}
"""

# KEYS 3 seen; ARGV 4 and so on: id, version, answer. Only where the id is still that version's, and has no answer yet;
# and only from a caller on this log: a tail that a failover has cut may have had the same id in the same version.
_RECORD = """
local ids = {}
for i = 4, #ARGV, 3 do ids[#ids + 1] = ARGV[i] end
local answered = {}
in_parts(ids, function(from, to)
  local records = call('HMGET', KEYS[3], unpack(ids, from, to))
  for i = 1, #records do
    local arg = 3 * (from + i - 1) + 1
    local version, answer_at = string.match(records[i] or '', '^(%d+):%d+:%d+:[^:]*:()')
    if version == ARGV[arg + 1] and answer_at > #records[i] then
      answered[#answered + 1], answered[#answered + 2] = ARGV[arg], records[i] .. ARGV[arg + 2]
    end
  end
end)
in_parts(answered, function(from, to) call('HSET', KEYS[3], unpack(answered, from, to)) end)
return {'ok', #answered / 2}
"""

# KEYS 1 seen, 2 seen_due; ARGV ids
_LOOKUP = """
local known, out = look(KEYS[1], KEYS[2], ARGV), {}
for i = 1, #ARGV do out[i] = known[ARGV[i]] or false end
return out
"""

# KEYS 1 meta; ARGV 1 incarnation, 2 version, 3 uid of that version, 4 least (see above), 5 summary of that version.
# A failover may have cut the version from the log; what has been rewritten below the head, the next summary replaces.
_SUMMARY = """
local meta = redis.call('HMGET', KEYS[1], 'incarnation', 'version', 'uid')
if meta[1] ~= ARGV[1] then return -1 end
local version, head = tonumber(ARGV[2]), tonumber(meta[2])
if version > head or version == head and meta[3] ~= ARGV[3] then return -1 end
return store_summary(ARGV[5], tonumber(ARGV[4]))
"""

_NUMBERS = {
    "${WRITER_LIFE_MS}": WRITER_LIFE_MS,
    "${WRITERS_MAX}": WRITERS_MAX,
}
for _name, _value in _NUMBERS.items():
    _APPEND = _APPEND.replace(_name, str(_value))
APPEND = Script(_QUICK + BASICS + LOOK + SWEEP + STORE_SUMMARY + _JOIN + _APPEND)
READ_AFTER = Script(BASICS + _JOIN + _READ_AFTER)
RECORD = Script(BASICS + _JOIN + _RECORD)
LOOKUP = Script(BASICS + LOOK + _LOOKUP)
SUMMARY = Script(STORE_SUMMARY + _SUMMARY)
