-- The quick way of append.lua, which documents KEYS and ARGV. Most appends have one segment without ids, prediction and
-- state, no summary, start at the head, and follow another one of their writer. They are written here; join.lua and
-- append.lua would do the same, with tables and closures that take several times as long
-- (tests/service/store/test_append_quick.py compares both).
if ARGV[11] == '1' and ARGV[13] == '' and ARGV[14] == '' and ARGV[15] == '0' and ARGV[16] == '' then
  local writer = 'w:' .. ARGV[4]
  local meta = redis.pcall('HMGET', KEYS[1], 'incarnation', 'version', 'uid', 'code', writer, 'updated')
  local at_head = meta[1] == ARGV[1] and meta[2] == ARGV[2] and meta[3] == ARGV[3] and meta[4] == ARGV[10]
  if at_head and meta[5] and tonumber(ARGV[5]) > tonumber(string.match(meta[5], '^%d+')) then
    local clock = redis.call('TIME')
    local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
    local made = string.format('%.0f', meta[2] + 1)
    -- HSET comes first: it can take back what it wrote if XADD is refused, as for lack of a right.
    redis.call('HSET', KEYS[1], 'version', made, 'uid', ARGV[6], 'updated', now, writer,
      ARGV[5] .. ':' .. made .. ':' .. now)
    local added = redis.pcall('XADD', KEYS[2], made .. '-0', 'u', ARGV[6], 'p', meta[3], 't', now, 'n', '1',
      's', ARGV[10], '0', ARGV[12])
    if type(added) == 'table' and added.err then
      redis.call('HSET', KEYS[1], 'version', meta[2], 'uid', meta[3], 'updated', meta[6] or now, writer, meta[5])
      return added
    end
    local channel = string.sub(KEYS[1], 1, -5) .. 'hints'  -- notify() of basics.lua
    local listening = redis.pcall('PUBSUB', 'NUMSUB', channel)[2]
    if not (listening and listening <= tonumber(ARGV[17])) then
      redis.pcall('PUBLISH', channel, ARGV[1] .. ' ' .. made .. ' ' .. ARGV[6])
    end
    return {'ok', tonumber(made), ARGV[6], tonumber(made), tonumber(now), 1, {'added'}, {}, false}
  end
end
