"""The entries of a log that are still kept, newest first, as a list shows them.

A script looks at the first fields of each record (codec.py) where the log is: what the entries hold in rows does not
travel, and nothing of it is decoded here.

    kinds    rows | overlap | switch begin | switch complete | switch abort | reset | configure | restore | import |
             challenger put | challenger delete | challenger promote, those of one entry in the order of its
             requests, each once; "unknown" where a record cannot be read
"""

from typing import NamedTuple

from service.store.keys import ModelKeys
from service.store.log.appends import failed
from service.store.redis.connection import Call, Connection, Script

ENTRIES_AT_ONCE = 250
"""Most entries of one script."""
BYTES_AT_ONCE = 4 * 2**20
"""A script looks at no further entries once those it has looked at are larger than this."""

# KEYS 1 meta, 2 log, 3 states; ARGV 1 incarnation, 2 newest version, 3 oldest version, 4 most entries, 5 bytes after
# which it ends. unpack_one reads one value at a place and tells where the next one begins: behind the head of an array
# the values of a record are read one by one, and the numbers of its rows not at all.
_PAGE = Script(r"""
local call, bytes = redis.call, 0
if call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return false end

-- Kind and rows of a record; rows is false where it has none.
local function record(blob)
  local wide = string.byte(blob, 1) == 220                -- 0xdc: an array of more than 15 values
  local at = wide and 3 or 1
  local function take()
    local value
    at, value = cmsgpack.unpack_one(blob, at)
    return value
  end
  local tag = take()
  take()                                                  -- the record's format
  if tag == 'named' then
    local first = call('HGET', string.sub(KEYS[3], 1, -2) .. ':' .. take(), '0')
    bytes = bytes + #first
    return record(first)
  end
  if tag == 'rows' or tag == 'overlap' then
    take()
    if tag == 'rows' then take() end
    return tag, take()
  end
  if tag == 'switch' then return 'switch ' .. take(), false end
  if tag == 'config' then return 'configure', false end
  if tag == 'challenge' then return 'challenger put', false end
  if tag == 'withdraw' then return 'challenger delete', false end
  if tag == 'promote' then return 'challenger promote', false end
  if tag == 'state' then take() take() return take(), false end
  return tag == 'reset' and tag or 'unknown', false
end

local function shown(entry)
  local held, kinds, rows = {}, {}, false
  for i = 1, #entry[2], 2 do
    local name, value = entry[2][i], entry[2][i + 1]
    local ordinal = string.match(name, '^(%d+)(s?)$')
    if not ordinal then
      held[name] = value
    elseif string.sub(name, -1) == 's' then
      local _, skipped = string.gsub(value, '%d+', '')
      rows = rows and rows - skipped
    else
      local fine, kind, count = pcall(record, value)
      kind = fine and kind or 'unknown'
      if not kinds[kind] then
        kinds[kind] = true
        kinds[#kinds + 1] = kind
      end
      if fine and count then rows = (rows or 0) + count end
    end
  end
  return {string.match(entry[1], '^%d+'), held.t, held.u, kinds, rows}
end

local out, newest, most = {}, tonumber(ARGV[2]), tonumber(ARGV[4])
while #out < most do
  local wanted = math.min(8, math.max(1, #out), most - #out)
  local part = call('XREVRANGE', KEYS[2], string.format('%.0f-0', newest), ARGV[3] .. '-0', 'COUNT', wanted)
  for i = 1, #part do
    for j = 1, #part[i][2] do bytes = bytes + #part[i][2][j] end
    out[#out + 1] = shown(part[i])
    newest = tonumber(out[#out][1]) - 1
    if bytes > tonumber(ARGV[5]) then return {out, 0} end
  end
  if #part < wanted or newest < tonumber(ARGV[3]) then return {out, 1} end
end
return {out, 0}
""")


class LoggedEntry(NamedTuple):
    """An entry of a log.

    Attributes:
        version, time_ms: which one, and when it was committed.
        kinds: what its requests were, each kind once.
        rows: rows in it that were to be learned; None where it holds none.
        writer: the process that committed it.
    """

    version: int
    time_ms: int
    kinds: tuple[str, ...]
    rows: int | None
    writer: str


async def read_back(
    connection: Connection, name: str, incarnation: str, newest: int, oldest: int, limit: int
) -> list[LoggedEntry]:
    """Up to ``limit`` kept entries from version ``newest`` down to ``oldest``; none where the model is gone.

    Raises:
        StoreDown: the store did not answer, or answered that it cannot.
    """
    keys = ModelKeys(name, incarnation)
    found: list[LoggedEntry] = []
    while len(found) < limit and newest >= oldest:
        args = (incarnation, newest, oldest, min(limit - len(found), ENTRIES_AT_ONCE), BYTES_AT_ONCE)
        (part,) = await connection.run([Call(_PAGE, (keys.meta, keys.log, keys.states), args)])
        if isinstance(part, Exception):
            raise failed(part)
        if part is None:
            return []
        found += [_entry(*item) for item in part[0]]
        if part[1] or not part[0]:
            break
        newest = found[-1].version - 1
    return found


def _entry(version: bytes, time_ms: bytes, uid: bytes, kinds: list[bytes], rows: int | None) -> LoggedEntry:
    said = tuple([kind.decode() for kind in kinds])
    return LoggedEntry(int(version), int(time_ms), said, rows, uid.decode().partition(".")[0])
