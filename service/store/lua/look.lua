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
