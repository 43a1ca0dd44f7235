-- While the mark of a model is young: in how many ms the label is due, at the earliest, of a prediction that it announces
-- and that is kept now; else nothing.
local function young_mark(member, mark_life)
  local marked, life = string.match(call('HGET', KEYS[2], member) or '', '^(%d+) (%d+)$')
  if marked and now - tonumber(marked) < tonumber(mark_life) then return tonumber(life) end
end
