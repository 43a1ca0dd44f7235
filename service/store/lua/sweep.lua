-- At most `limit` of what is past its time; expiry.py sweeps where nobody appends.
local function sweep(hash, due, limit)
  local swept = 0
  while swept < limit do
    local part = math.min(most, limit - swept)
    local old = call('ZRANGEBYSCORE', due, '-inf', string.format('%.0f', now), 'LIMIT', 0, part)
    if #old > 0 then
      call('ZREM', due, '')  -- both or none, if the user may not run one of them
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
