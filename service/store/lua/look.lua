-- id -> record of those ids that are remembered and not yet due, whether or not they have been swept.
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

-- Writes a field of the meta as it is, before an answer that acknowledges what was written earlier: of a connection that
-- waits for replicas, Valkey and newer versions of Redis only count its own writes. Returns the server's error, if any.
local function rewrite(meta)
  local uid = call('HGET', meta, 'uid')
  local written = uid and redis.pcall('HSET', meta, 'uid', uid)
  return type(written) == 'table' and written
end
