-- Stores a summary unless the stored one is of version `least` or later; the version that is stored now.
local function store_summary(summary, least)
  local stored = redis.call('HGET', KEYS[1], 'summary')
  local held = tonumber(string.match(stored or '', '^(%d+):') or -1)
  if held >= least then return held end
  redis.call('HSET', KEYS[1], 'summary', summary)
  return tonumber(string.match(summary, '^(%d+):'))
end
