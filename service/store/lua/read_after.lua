-- ARGV 4 most bytes, 5 most entries
local entries, complete, left = read(head, tonumber(ARGV[4]), tonumber(ARGV[5]))
return {'ok', head, meta[3], complete, entries, left}
