"""Snapshots: the whole state of a model at one version, in pieces, checked when written and when read.

The pieces are written first and expire; publishing, one script, makes them permanent. So a writer that dies leaves
nothing behind, and a published snapshot is complete. If the store fails, a writer drops its pieces at once. The newest
snapshots are kept; from the second one on, the log is trimmed to the oldest of these. One more, the guard, is kept
until there is another guard, however old it is: it can be restored, but does not keep the log from being trimmed.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

import msgspec

from core.contract import Buffer
from core.model import STATE_VERSION
from service.errors import Unavailable
from service.store.keys import ModelKeys
from service.store.lua import script
from service.store.redis.connection import Call, Connection
from service.store.states import pieces

_CHUNK = script("write_chunk")

_PUBLISH = script("publish_snapshot")

_DROP = script("drop_chunks")


class SnapshotInfo(msgspec.Struct, frozen=True):
    """The description of a snapshot."""

    version: int
    uid: str  # of the entry that made the version; the incarnation for version 0
    rows: int  # rows learned up to it
    time_ms: int  # when it was taken
    bytes: int
    digest: str  # blake2b-16 of it, hexadecimal
    state_version: int = STATE_VERSION  # of the code that wrote it


class Written(NamedTuple):
    """The outcome of writing a snapshot."""

    # "same", "differs", "not compared": published before, with these bytes, with others, or by code of another state
    # version; "refused": another incarnation, a version that is not on this log, or older than those kept
    outcome: Literal["published", "same", "differs", "not compared", "refused"]
    digest: str = ""  # of the published snapshot; empty if it was refused

    @property
    def held(self) -> bool:
        """Whether a snapshot of the version is published now."""
        return self.outcome != "refused"


class Snapshots:
    """The snapshots of all models of one store.

    Every method raises StoreDown if the store did not answer, or answered that it cannot.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def write(
        self, name: str, incarnation: str, info: SnapshotInfo, blob: Buffer, keep: int = 3, *, guard: bool = False
    ) -> Written:
        """Write and publish a snapshot, the new ``guard`` or not; keep the ``keep`` newest, trim the log to the oldest.

        A version that is published already, by another replica or by a call whose answer got lost, stays as it is: the
        outcome "differs" means that two replicas have made two states of one log. ``ValueError`` if ``blob`` does
        not have the length that ``info`` gives; readers check its digest.
        """
        if info.bytes != len(blob):
            raise ValueError("the length does not match the snapshot's")
        keys = ModelKeys(name, incarnation)
        try:
            await self._send_pieces(keys, info, blob)
            written = await self._publish(keys, info, keep, guard)
        except Unavailable:
            await self._drop_pieces(keys, info)
            raise
        if not written.held:
            await self._drop_pieces(keys, info)
        return written

    async def _drop_pieces(self, keys: ModelKeys, info: SnapshotInfo) -> None:
        """Remove the pieces of a snapshot that is not published: they would take up scarce room for an hour."""
        with suppress(Unavailable):
            await self._connection.one(Call(_DROP, (keys.snapshots, keys.chunks(info.version)), (info.version,)))

    async def _publish(self, keys: ModelKeys, info: SnapshotInfo, keep: int, guard: bool) -> Written:
        what = (info.version, info.uid, msgspec.json.encode(info), info.bytes, pieces.count(info.bytes), info.digest)
        own = (keys.meta, keys.log, keys.snapshots, keys.chunks(info.version), keys.states)
        args = keys.incarnation, *what, keep, keys.chunks_prefix, int(guard)
        return _written(info, await self._connection.one(Call(_PUBLISH, own, args)))

    async def list(self, name: str, incarnation: str) -> list[SnapshotInfo]:
        """The published snapshots, newest first; one whose description cannot be read is left out."""
        (answer,) = await self._connection.ask(("HVALS", ModelKeys(name, incarnation).snapshots))
        return sorted(filter(None, map(_info, answer)), key=lambda info: -info.version)

    async def read(self, name: str, incarnation: str, info: SnapshotInfo) -> memoryview:
        """The snapshot's bytes; ``ValueError`` if pieces are missing, or length or digest differ."""
        key = ModelKeys(name, incarnation).chunks(info.version)
        blob = await pieces.gather(self._connection, key, f"{info.digest}:", info.bytes, info.digest)
        if blob is None:
            raise ValueError(f"snapshot {info.version} of {name}: a piece is missing or damaged")
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
