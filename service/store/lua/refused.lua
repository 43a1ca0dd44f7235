-- ARGV a key, commands. Those that are renamed or that the store's user may not run: each is tried on that key, which is
-- removed again. Where another server of a cluster has the key, what is allowed fails for that reason, and writes nothing.
-- Rights are only checked if the number of arguments is right, so one to five are tried. Servers word refusals differently.
local denied, refused = {'NOPERM', 'The user executing the script', 'ACL failure in script', 'Unknown '}, {}
local key = ARGV[1]
for i = 2, #ARGV do
  local command, found = ARGV[i], false
  for count = 1, 5 do
    local reply = redis.pcall(command, unpack({key, key, key, key, key}, 1, count))
    local problem = type(reply) == 'table' and reply.err or ''
    for _, text in ipairs(denied) do found = found or string.find(problem, text, 1, true) end
  end
  if found then refused[#refused + 1] = command end
end
redis.pcall('UNLINK', key)
return refused
