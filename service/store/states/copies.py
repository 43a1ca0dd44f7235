"""Copies of models: the meta of a new one and a snapshot of its state at version 0, at once, where the name is free.

What came before version 0 is in no log. So the meta says where the model is from (``origin``), and a copy whose first
snapshot is lost is not taken for a model that has learned nothing.
"""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from core.contract import Buffer
from service.store.keys import INDEX, ModelKeys, raw, text
from service.store.log.scripts import BASICS
from service.store.redis.connection import Call, Connection, Script
from service.store.states import pieces
from service.store.states.snapshots import SnapshotInfo

# KEYS meta, snapshots, chunks
# ARGV incarnation, config, info, bytes, number of pieces, digest, state version, origin, summary as for a new model
_COPY = Script(
    BASICS
    + """
local old = call('HMGET', KEYS[1], 'incarnation', 'origin')
if old[1] then return {old[1], old[2] or ''} end
local size = 0
for i = 0, tonumber(ARGV[5]) - 1 do size = size + call('HSTRLEN', KEYS[3], ARGV[6] .. ':' .. i) end
if size ~= tonumber(ARGV[4]) then return {'', ''} end
local time = string.format('%.0f', now)
call('HSET', KEYS[1], 'incarnation', ARGV[1], 'config', ARGV[2], 'version', 0, 'uid', ARGV[1], 'created', time,
  'updated', time, 'snapshot', 0, 'code', ARGV[7], 'origin', ARGV[8], 'summary', '0:' .. time .. ':' .. ARGV[9])
call('HSET', KEYS[2], 0, ARGV[3])
call('PERSIST', KEYS[3])
return {ARGV[1], ARGV[8]}
"""
)


class Origin(NamedTuple):
    """Where a copy is from.

    Attributes:
        name, incarnation, version: the model that was copied, and its version then.
        key: the Idempotency-Key of the request; empty where it had none.
    """

    name: str
    incarnation: str
    version: int
    key: str

    def asked_again(self, other: "Origin | None") -> bool:
        """Whether a copy that is from there was made by this request, which is sent again."""
        if other is None or not self.key:
            return False
        return (self.name, self.incarnation, self.key) == (other.name, other.incarnation, other.key)

    def to_bytes(self) -> bytes:
        """As the meta has it; only the key may hold spaces."""
        return raw(f"{self.name} {self.incarnation} {self.version} {self.key}")

    @classmethod
    def from_bytes(cls, data: bytes) -> "Origin | None":
        """The inverse; None of a model that is no copy."""
        if not data:
            return None
        name, incarnation, version, key = text(data).split(" ", 3)
        return cls(name, incarnation, int(version), key)


@dataclass(frozen=True, slots=True)
class Copy:
    """A model to be; ``info`` describes its state at version 0, ``summary`` is its first record."""

    name: str
    incarnation: str
    config: bytes
    origin: Origin
    summary: bytes
    info: SnapshotInfo


async def write(connection: Connection, copy: Copy, state: Buffer) -> tuple[str, Origin | None]:
    """Write a copy, unless the name is taken.

    Args:
        connection: the store.
        copy: the model.
        state: its snapshot, which ``copy.info`` describes.

    Returns:
        The incarnation that has the name now, and where that is from; where it is not the copy's, nothing was written.

    Raises:
        StoreDown: the store did not answer, or answered that it cannot; pieces that were written expire.
    """
    keys, info = ModelKeys(copy.name, copy.incarnation), copy.info
    await pieces.scatter(connection, keys.chunks(0), f"{info.digest}:", state)
    await connection.ask(("ZADD", INDEX, 0, keys.member()))
    what = (msgspec.json.encode(info), info.bytes, pieces.count(info.bytes), info.digest, info.state_version)
    args = (copy.incarnation, copy.config, *what, copy.origin.to_bytes(), copy.summary)
    incarnation, origin = await connection.one(Call(_COPY, (keys.meta, keys.snapshots, keys.chunks(0)), args))
    if not incarnation:
        raise RuntimeError(f"the pieces of model {copy.name} have expired while they were written")
    if incarnation != copy.incarnation.encode():
        await connection.ask(("ZREM", INDEX, keys.member()), ("UNLINK", keys.chunks(0)))
    return incarnation.decode(), Origin.from_bytes(origin)
