-- Lua's unpack has a bound (8000); a thousand at a time also keeps single commands short.
local call, most = redis.call, 1000
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function entry_id(version) return string.format('%.0f-0', version) end

-- Notifies the followers of the model. A user who may not publish must not fail the script for it.
local function notify(text) redis.pcall('PUBLISH', (string.gsub(KEYS[1], 'meta$', 'hints')), text) end

local function in_parts(list, send)
  for from = 1, #list, most do send(from, math.min(from + most - 1, #list)) end
end
