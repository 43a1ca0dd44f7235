-- The checks every reader of the log shares, in this order, then reading.
-- KEYS 1 meta, 2 log; ARGV 1 incarnation, 2 version, 3 uid of that version.
local meta = redis.pcall('HMGET', KEYS[1], 'incarnation', 'version', 'uid', 'code')
if meta.err or meta[2] and not meta[1] then return {'damaged', 0, ''} end
if meta[1] ~= ARGV[1] then return {'gone', meta[1] and 1 or 0, ''} end
local head, v0 = tonumber(meta[2] or ''), tonumber(ARGV[2])
if not (head and meta[3]) then return {'damaged', 0, ''} end
if v0 > head then return {'ahead', head, meta[3]} end
local first = nil
if v0 == head then
  if meta[3] ~= ARGV[3] then return {'fork', head, meta[3]} end
else
  first = call('XRANGE', KEYS[2], entry_id(v0 + 1), entry_id(v0 + 1))[1]
  if not first then return {'trimmed', head, meta[3]} end
  local fields = first[2]
  for i = 1, #fields, 2 do
    if fields[i] == 'p' and fields[i + 1] ~= ARGV[3] then return {'fork', head, meta[3]} end
  end
end

-- Most entries have one segment and nothing to skip. Their field names are always the same and would be most of what a
-- reader has to parse, so they are left out.
local function bare(entry, version)
  local f = entry[2]
  local usual = #f == 12 and entry[1] == entry_id(version) and f[11] == '0' and f[1] == 'u' and f[3] == 'p'
    and f[5] == 't' and f[7] == 'n' and f[9] == 's'
  return usual and {f[2], f[6], f[10], f[12]} or entry
end

-- Entries v0+1 to `last` in order, whether these are all, and the size of the first one where that alone is too large.
-- Few at a time: an entry can be large, and what is read beyond the limit was read for nothing.
local function read(last, bytes, entries)
  local out, version, part = {}, v0 + 1, {first}
  while version <= last do
    if #part == 0 then return out, 0, 0 end
    for i = 1, #part do
      local fields, size = part[i][2], 0
      for j = 1, #fields do size = size + #fields[j] end
      if size > bytes or #out >= entries then return out, 0, #out == 0 and size or 0 end
      bytes = bytes - size
      out[#out + 1] = bare(part[i], version + i - 1)
    end
    version = v0 + 1 + #out
    if version <= last then
      part = call('XRANGE', KEYS[2], entry_id(version), entry_id(last), 'COUNT', math.min(8, #out))
    end
  end
  return out, 1, 0
end
