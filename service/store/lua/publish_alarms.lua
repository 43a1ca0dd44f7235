-- KEYS 4 published; ARGV 4 the alarm that the caller believes to be the last published, then of each in order: which,
-- id of its event, time, mark, JSON. A store that has less than the caller believes adds nothing: the caller sends that
-- first.
if gone then return {'gone', 0} end
local function less(one, other)
  local a, b, c = string.match(one, '^(%d+)-(%d+)-(%d+)$')
  local d, e, f = string.match(other, '^(%d+)-(%d+)-(%d+)$')
  if a ~= d then return tonumber(a) < tonumber(d) end
  if b ~= e then return tonumber(b) < tonumber(e) end
  return tonumber(c) < tonumber(f)
end
-- An alarm that its outbox does not list is counted where its event has others.
local function join(event, reach, alarm)
  local held = call('HGET', KEYS[2], event)
  local listed = held and string.match(held, ' (.*)$')
  if alarm ~= '' then listed = listed and listed .. ',' .. alarm or alarm end
  if listed then call('HSET', KEYS[2], event, string.match(reach, '%d+$') .. ' ' .. listed) end
end
local reached, added = call('HGET', KEYS[4], ARGV[1]) or '0-0-0', 0
if less(reached, ARGV[4]) then return {reached, 0} end
for i = 5, #ARGV, 5 do
  local reach, event, time, mark, body = unpack(ARGV, i, i + 4)
  if less(reached, reach) then
    if body ~= '' then add('i', event, 't', time, 'k', mark, 'e', body) end
    if mark == 'j' then join(event, reach, body) end
    reached, added = reach, added + 1
  end
end
if added > 0 then call('HSET', KEYS[4], ARGV[1], reached) end
return {reached, added}
