-- KEYS 3 seen; ARGV 4 and so on: id, version, answer. Only where the id is still that version's, and has no answer yet;
-- and only from a caller on this log: a tail that a failover has cut may have had the same id in the same version.
local ids = {}
for i = 4, #ARGV, 3 do ids[#ids + 1] = ARGV[i] end
local answered = {}
in_parts(ids, function(from, to)
  local records = call('HMGET', KEYS[3], unpack(ids, from, to))
  for i = 1, #records do
    local arg = 3 * (from + i - 1) + 1
    local version, answer_at = string.match(records[i] or '', '^(%d+):%d+:%d+:[^:]*:()')
    if version == ARGV[arg + 1] and answer_at > #records[i] then
      answered[#answered + 1], answered[#answered + 2] = ARGV[arg], records[i] .. ARGV[arg + 2]
    end
  end
end)
in_parts(answered, function(from, to) call('HSET', KEYS[3], unpack(answered, from, to)) end)
return {'ok', #answered / 2}
