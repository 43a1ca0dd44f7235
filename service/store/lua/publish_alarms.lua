-- KEYS 4 published; ARGV 4 the position of the alarm that the caller believes to be the last published, then of each in
-- order: position, id of its event, time, mark, JSON, how many later alarms its event has with it. A store that has less
-- than the caller believes adds nothing: the caller sends that first.
if gone then return {'gone', 0} end
local function less(one, other)
  local a, b = string.match(one, '^(%d+)-(%d+)$')
  local c, d = string.match(other, '^(%d+)-(%d+)$')
  if a ~= c then return tonumber(a) < tonumber(c) end
  return tonumber(b) < tonumber(d)
end
-- An alarm that its outbox does not list is counted where its event has others.
local function join(event, count, alarm)
  local held = call('HGET', KEYS[2], event)
  local listed = held and string.match(held, ' (.*)$')
  if alarm ~= '' then listed = listed and listed .. ',' .. alarm or alarm end
  if listed then call('HSET', KEYS[2], event, count .. ' ' .. listed) end
end
local reached, added = call('HGET', KEYS[4], ARGV[1]) or '0-0', 0
if less(reached, ARGV[4]) then return {reached, 0} end
for i = 5, #ARGV, 6 do
  local reach, event, time, mark, body, count = unpack(ARGV, i, i + 5)
  if less(reached, reach) then
    if body ~= '' then add('i', event, 't', time, 'k', mark, 'e', body) end
    if mark == 'j' then join(event, count, body) end
    reached, added = reach, added + 1
  end
end
if added > 0 then call('HSET', KEYS[4], ARGV[1], reached) end
return {reached, added}
