"""Copies and imports: the meta of a new model and a snapshot of its state at version 0, in one step if the name is
free.

No log has what was learned before version 0. So the meta names the model that was copied (``origin``): a copy that has
lost its first snapshot is not taken for a model that has learned nothing. An import names itself.
"""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from core.contract import Buffer
from service.errors import ModelLost
from service.store.keys import INDEX, ModelKeys, raw, text
from service.store.lua import script
from service.store.metas import damaged
from service.store.redis.connection import Call, Connection
from service.store.states import pieces
from service.store.states.snapshots import SnapshotInfo

_COPY = script("basics", "copy")


class Origin(NamedTuple):
    """The model that was copied, and its version then."""

    name: str
    incarnation: str
    version: int
    key: str  # the Idempotency-Key of the request; empty if it had none

    def asked_again(self, other: "Origin | None") -> bool:
        """Whether a copy of that origin was made by this same request, sent before."""
        if other is None or not self.key:
            return False
        return (self.name, self.incarnation, self.key) == (other.name, other.incarnation, other.key)

    def to_bytes(self) -> bytes:
        """As the meta has it; only the key may hold spaces."""
        return raw(f"{self.name} {self.incarnation} {self.version} {self.key}")

    @classmethod
    def from_bytes(cls, data: bytes) -> "Origin | None":
        """The inverse; None for a model that is not a copy."""
        if not data:
            return None
        name, incarnation, version, key = text(data).split(" ", 3)
        return cls(name, incarnation, int(version), key)


@dataclass(frozen=True, slots=True)
class Copy:
    """A model to create; ``info`` describes its state at version 0, ``summary`` is its first record."""

    name: str
    incarnation: str
    config: bytes
    origin: Origin
    summary: bytes
    info: SnapshotInfo


async def write(connection: Connection, copy: Copy, state: Buffer) -> tuple[str, Origin | None]:
    """Write a copy with its state, a snapshot that ``copy.info`` describes, unless the name is taken.

    Returns the incarnation that has the name now, and its origin; if it is not the copy's, nothing was written.
    ``ModelLost`` as ``Catalog.create``; ``StoreDown`` if the store did not answer, or answered that it cannot: pieces
    that were written expire.
    """
    keys, info = ModelKeys(copy.name, copy.incarnation), copy.info
    await pieces.scatter(connection, keys.chunks(0), f"{info.digest}:", state)
    await connection.ask(("ZADD", INDEX, 0, keys.member()))
    what = (msgspec.json.encode(info), info.bytes, pieces.count(info.bytes), info.digest, info.state_version)
    args = (copy.incarnation, copy.config, *what, copy.origin.to_bytes(), copy.summary)
    own = (keys.meta, keys.snapshots, keys.chunks(0), keys.lost)
    incarnation, origin = await connection.one(Call(_COPY, own, args))
    if not (incarnation or origin):
        raise RuntimeError(f"the pieces of model {copy.name} expired while they were being written")
    if incarnation != copy.incarnation.encode():
        await connection.ask(("ZREM", INDEX, keys.member()), ("UNLINK", keys.chunks(0)))
    if not incarnation:
        raise ModelLost(copy.name)
    try:
        return incarnation.decode(), Origin.from_bytes(origin)
    except ValueError:
        raise damaged(copy.name) from None
