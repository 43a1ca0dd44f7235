-- KEYS 3 seen, 4 seen_due, 5 pending, 6 pending_due, 7 states
-- ARGV 4 writer, 5 sequence, 6 new uid, 7 life of an id in ms, 8 most ids, 9 bytes to read, 10 state version of the
--      writer, 11 number of segments, then per segment: blob, pending id or '', the state it names or '' (as
--      "DIGEST:SIZE"), number of ids, the ids, their digests;
--      last a summary of version v0, or '', and how many of the caller's connections listen to its notices
-- Most appends have one segment without ids or a state and no summary, are made at the head, and follow another one of
-- their writer. They are written here; _JOIN and _APPEND would do the same, with tables and closures that take several
-- times as long (tests/service/test_append_quick.py compares both).
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
    local channel = string.sub(KEYS[1], 1, -5) .. 'hints'  -- notify() of basics.lua
    local listening = redis.pcall('PUBSUB', 'NUMSUB', channel)[2]
    if not (listening and listening <= tonumber(ARGV[17])) then
      redis.pcall('PUBLISH', channel, ARGV[1] .. ' ' .. made .. ' ' .. ARGV[6])
    end
    return {'ok', tonumber(made), ARGV[6], tonumber(made), tonumber(now), 1, {'added'}, {}, false}
  end
end
