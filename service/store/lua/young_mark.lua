-- While the mark of a model is young: the shortest time in ms until the label of a prediction that it announces is due,
-- if that is kept now; otherwise nothing.
local function young_mark(member, mark_life)
  local marked, life = string.match(call('HGET', KEYS[2], member) or '', '^(%d+) (%d+)$')
  if marked and now - tonumber(marked) < tonumber(mark_life) then return tonumber(life) end
end
