"""Snapshots: the whole state of a model at one version, in pieces, checked when written and when read.

The pieces are written first and expire; publishing, one script, makes them permanent. So a writer that dies leaves
nothing behind, and a published snapshot is complete. From the second snapshot on the log is trimmed to the oldest of
the newest ones, which are kept. One more, the guard, is kept until there is another guard, however old it is: it can be
restored, and holds nothing of the log back.
"""

import asyncio
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from core.contract import Buffer
from core.model import STATE_VERSION
from service.store.keys import ModelKeys
from service.store.redis.connection import Call, Connection, Script
from service.store.states import pieces
from service.store.states.pieces import count, digest

# KEYS meta, snapshots, chunks; ARGV incarnation, version, field, piece, life in ms
_CHUNK = Script("""
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return 0 end
if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 1 then return 0 end
redis.call('HSET', KEYS[3], ARGV[3], ARGV[4])
redis.call('PEXPIRE', KEYS[3], ARGV[5])
return 1
""")

# KEYS meta, log, snapshots, chunks, states
# ARGV incarnation, version, uid, info, bytes, number of pieces, digest, how many to keep, what chunk keys begin with,
# 1: the guard from now on
_PUBLISH = Script("""
local call = redis.call
local meta = call('HMGET', KEYS[1], 'incarnation', 'version', 'uid', 'snapshot')
if meta[1] ~= ARGV[1] then return {'refused'} end
local version, head = tonumber(ARGV[2]), tonumber(meta[2])
local function id(v) return string.format('%.0f-0', v) end

-- Does it join the log? The head knows its uid; every other version is named by its successor.
local uid = version == head and meta[3] or nil
if version < head then
  local next_entry = call('XRANGE', KEYS[2], id(version + 1), id(version + 1))[1]
  local fields = next_entry and next_entry[2] or {}
  for i = 1, #fields, 2 do if fields[i] == 'p' then uid = fields[i + 1] end end
end
if uid ~= ARGV[3] then return {'refused'} end

local kept = {}
for _, v in ipairs(call('HKEYS', KEYS[3])) do kept[#kept + 1] = tonumber(v) end
local old = call('HGET', KEYS[3], ARGV[2])
if not old then
  local newer = 0
  for i = 1, #kept do if kept[i] > version then newer = newer + 1 end end
  if newer >= tonumber(ARGV[8]) then return {'refused'} end

  -- Two replicas may have sent pieces that differ (another CPU): the first that publishes wins, whole.
  local own, size = {}, 0
  for i = 0, tonumber(ARGV[6]) - 1 do
    local field = ARGV[7] .. ':' .. i
    own[field], size = true, size + call('HSTRLEN', KEYS[4], field)
  end
  if size ~= tonumber(ARGV[5]) then return {'refused'} end
  call('HSET', KEYS[3], ARGV[2], ARGV[4])
  call('PERSIST', KEYS[4])
  for _, field in ipairs(call('HKEYS', KEYS[4])) do
    if not own[field] then call('HDEL', KEYS[4], field) end
  end
  kept[#kept + 1] = version
end

if ARGV[10] == '1' then call('HSET', KEYS[1], 'guard', ARGV[2]) end
local guard = call('HGET', KEYS[1], 'guard')
table.sort(kept, function(a, b) return a > b end)
local keep = tonumber(ARGV[8])
for i = keep + 1, #kept do
  local dropped = string.format('%.0f', kept[i])
  if dropped ~= guard then
    call('HDEL', KEYS[3], dropped)
    call('UNLINK', ARGV[9] .. dropped)
  end
end
local newest = string.format('%.0f', kept[1])
if meta[4] ~= newest then call('HSET', KEYS[1], 'snapshot', newest) end
-- A first snapshot alone does not trim: should it turn out corrupt, the log still has everything.
if #kept >= math.min(keep, 2) then
  local trimmed = kept[math.min(keep, #kept)]
  call('XTRIM', KEYS[2], 'MINID', id(trimmed + 1))
  local entries, used, unused = call('HGETALL', KEYS[5]), {}, {}
  for i = 1, #entries, 2 do              -- states that only trimmed entries name go with them
    local gone = tonumber(string.match(entries[i], '^%d+')) <= trimmed
    if gone then call('HDEL', KEYS[5], entries[i]) end
    local named = gone and unused or used
    named[entries[i + 1]] = true
  end
  for digest in pairs(unused) do
    if not used[digest] then call('UNLINK', string.sub(KEYS[5], 1, -2) .. ':' .. digest) end
  end
end
if old then return {'existed', old} end
redis.pcall('PUBLISH', (string.gsub(KEYS[1], 'meta$', 'hints')), ARGV[1] .. ' ' .. ARGV[2] .. ' - ' .. newest)
return {'published'}
""")


class CorruptSnapshot(ValueError):
    """A published snapshot differs from what was written; an older one may be intact."""


class SnapshotInfo(msgspec.Struct, frozen=True):
    """The description of a snapshot.

    Attributes:
        version: the version whose state it is.
        uid: uid of the entry that made the version; the incarnation for version 0.
        rows: rows learned up to it.
        time_ms: when it was taken.
        bytes: its length.
        digest: blake2b-16 of it, hexadecimal.
        state_version: of the code that wrote it.
    """

    version: int
    uid: str
    rows: int
    time_ms: int
    bytes: int
    digest: str
    state_version: int = STATE_VERSION


class Written(NamedTuple):
    """What became of a snapshot.

    Attributes:
        outcome: "published"; "same", "differs" or "not compared" where the version had been published before, with
            these bytes, with others, or by code of another state version; "refused": another incarnation, a version
            that is not on this log, or older than those kept.
        digest: of the snapshot that is published; empty where it was refused.
    """

    outcome: Literal["published", "same", "differs", "not compared", "refused"]
    digest: str = ""

    @property
    def held(self) -> bool:
        """Whether the version has a published snapshot now."""
        return self.outcome != "refused"


class Snapshots:
    """The snapshots of all models of one store.

    Every method raises StoreDown where the store did not answer, or answered that it cannot.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def write(
        self, name: str, incarnation: str, info: SnapshotInfo, blob: Buffer, keep: int = 3, *, guard: bool = False
    ) -> Written:
        """Write and publish a snapshot, the new ``guard`` or not; keep the ``keep`` newest, trim the log to the oldest.

        Returns:
            What became of it. A version that is published already, by another replica or by a call whose answer got
            lost, stays as it is: "differs" means that two replicas have made two states of one log.

        Raises:
            ValueError: the length that ``info`` gives is not that of ``blob``; its digest is checked by who reads it.
        """
        if info.bytes != len(blob):
            raise ValueError("the length is not the snapshot's")
        keys = ModelKeys(name, incarnation)
        await self._send_pieces(keys, info, blob)
        what = (info.version, info.uid, msgspec.json.encode(info), info.bytes, count(info.bytes), info.digest)
        own = (keys.meta, keys.log, keys.snapshots, keys.chunks(info.version), keys.states)
        args = incarnation, *what, keep, keys.chunks_prefix, int(guard)
        return _written(info, await self._connection.one(Call(_PUBLISH, own, args)))

    async def list(self, name: str, incarnation: str) -> list[SnapshotInfo]:
        """The published snapshots, newest first; one whose description cannot be read is left out."""
        (answer,) = await self._connection.ask(("HVALS", ModelKeys(name, incarnation).snapshots))
        return sorted(filter(None, map(_info, answer)), key=lambda info: -info.version)

    async def read(self, name: str, incarnation: str, info: SnapshotInfo) -> memoryview:
        """The snapshot's bytes.

        Raises:
            CorruptSnapshot: pieces are missing, or length or digest differ.
        """
        key = ModelKeys(name, incarnation).chunks(info.version)
        blob = await pieces.gather(self._connection, key, f"{info.digest}:", info.bytes)
        if blob is None or await asyncio.to_thread(digest, blob) != info.digest:
            raise CorruptSnapshot(f"snapshot {info.version} of {name}: a piece is missing or damaged")
        return blob

    async def _send_pieces(self, keys: ModelKeys, info: SnapshotInfo, blob: Buffer) -> None:
        own = (keys.meta, keys.snapshots, keys.chunks(info.version))
        for number, piece in pieces.cut(blob):
            args = (keys.incarnation, info.version, f"{info.digest}:{number}", piece, pieces.UNUSED_MS)
            if not await self._connection.one(Call(_CHUNK, own, args)):
                return  # gone, or published already: publishing tells which


def _written(info: SnapshotInfo, told: Sequence[bytes]) -> Written:
    if told[0] != b"existed":
        return Written("published", info.digest) if told[0] == b"published" else Written("refused")
    other = _info(told[1])
    if other is None or other.state_version != info.state_version:
        return Written("not compared", "" if other is None else other.digest)
    return Written("same" if other.digest == info.digest else "differs", other.digest)


def _info(data: bytes) -> SnapshotInfo | None:
    try:
        return msgspec.json.decode(data, type=SnapshotInfo)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
