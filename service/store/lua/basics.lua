-- Lua's unpack has a bound (8000); a thousand at a time also keeps single commands short.
local call, most = redis.call, 1000
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function entry_id(version) return string.format('%.0f-0', version) end

-- Notifies the followers of the model if more than the caller's own connections listen. A Redis user without the right to
-- ask or publish must not make the script fail.
local function notify(text, own_listeners)
  local channel = string.gsub(KEYS[1], 'meta$', 'hints')
  local listening = redis.pcall('PUBSUB', 'NUMSUB', channel)[2]
  if not (listening and listening <= own_listeners) then redis.pcall('PUBLISH', channel, text) end
end

local function in_parts(list, send)
  for from = 1, #list, most do send(from, math.min(from + most - 1, #list)) end
end
