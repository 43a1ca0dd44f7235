"""The log of a model: its format, and how it is read; appends.py writes it.

    entry = XADD onepass:{NAME}:INC:log VERSION-0
        u    uid of this entry
        p    uid of the entry before it; the incarnation for version 1
        t    the server's time, ms
        n    how many segments the request had
        0    blob of segment 0 of the request, or the name of one that is large (entries.py); the ordinal of a segment
             that was not added is missing
        0s   "1,4": rows of segment 0 that must not be learned, since their ids had been seen
        s    state version of the code that wrote it

    segment: no id               always added
             one id              dropped if it has been seen
             one id per row      rows seen before (in the log, or earlier in the same request) are skipped;
                                 dropped if all of them have been
             dropped if an id has been seen with another digest

A segment that restores or imports names its state by digest; the state's pieces must be there already, or the segment
is not added (states.py).

A version is never made twice. By the uid chain u <- p a replica recognises a log that a failover has cut and others
have continued. The scripts are in store/lua.
"""

from collections.abc import Sequence
from typing import NamedTuple

from service.errors import ModelDown, Unreplicated
from service.store.keys import ModelKeys, cached_keys, raw
from service.store.log.appends import READ_BYTES_MAX, UNREPLICATED, LogWriter, SeenId, decode_seen
from service.store.log.entries import Code, ReadOn, read_on
from service.store.lua import script
from service.store.metas import metas
from service.store.redis.connection import Call, Safety, UnreplicatedResult

READ_AFTER = script("basics", "join", "read_after")
LOOKUP = script("basics", "look", "lookup")


class Head(NamedTuple):
    """The incarnation that has a name now, and the last entry of its log."""

    incarnation: str
    version: int
    uid: str
    # version of the newest published snapshot, if any: the answers to all ids learned up to it are in the store
    snapshot: int | None = None


class Log(LogWriter):
    """The logs of all models of one store.

    Methods that read them raise Unavailable if the store did not answer, or cannot.
    """

    async def joins(self, name: str, incarnation: str, version: int, uid: str) -> Code:
        """Whether the entry ``uid`` that made ``version`` is on the log: "ok", or why reading on from it would fail."""
        return (await self._read((name, incarnation, version, uid), 0, 0)).code

    async def read_after(
        self,
        name: str,
        incarnation: str,
        version: int,
        uid: str,
        limit_bytes: int,
        limit_entries: int,
        *,
        soon: bool = False,
    ) -> ReadOn:
        """Read what follows the entry ``uid`` that made ``version``: at least one entry, if there is one.

        They take at most READ_BYTES_MAX; with ``soon`` they travel on the connection of the rows. An entry that exceeds
        the limit alone travels separately, on another connection and with time for its size.
        """
        position = name, incarnation, version, uid
        found = await self._read(position, min(limit_bytes, READ_BYTES_MAX), limit_entries, quick=soon)
        left = found.left_bytes
        return await self._read(position, left, 1, large_bytes=left if left > READ_BYTES_MAX else 0) if left else found

    async def _read(
        self,
        position: tuple[str, str, int, str],
        limit_bytes: int,
        limit_entries: int,
        *,
        quick: bool = False,
        large_bytes: int = 0,
    ) -> ReadOn:
        name, incarnation, version, uid = position
        keys = cached_keys(name, incarnation)
        args = (incarnation, version, uid, limit_bytes, limit_entries)
        call = Call(READ_AFTER, (keys.meta, keys.log), args)
        (result,) = await self._connection.run([call], quick=quick, large_bytes=large_bytes)
        if isinstance(result, Exception):
            raise result
        return read_on(result, version)

    async def lookup(
        self, name: str, incarnation: str, ids: Sequence[str], safety: Safety | None = None
    ) -> list[SeenId | None]:
        """The record of each id, None if it is not remembered; with ``safety``, ``Unreplicated`` if too few replicas
        have everything that the model's log and ids have by now.
        """
        keys = ModelKeys(name, incarnation)
        own = (keys.idempotency, keys.idempotency_expiry)
        call = Call(LOOKUP, own if safety is None else (*own, keys.meta), [raw(i) for i in ids])
        # Those that wait for replicas use the few connections for large calls: the pool's must not all be waiting.
        (result,) = await self._connection.run([call], safety=safety, large_bytes=int(safety is not None))
        if isinstance(result, Exception):
            raise result
        if isinstance(result, UnreplicatedResult):
            raise Unreplicated(UNREPLICATED)
        return [None if record is None else decode_seen(record) for record in result]

    async def heads(self, names: Sequence[str]) -> list[Head | ModelDown | None]:
        """The head of each model's log, None if there is no such model; see ``metas``."""
        return await metas(self._connection, names, ("version", "uid", "snapshot"), _head)


def _head(incarnation: str, version: bytes, uid: bytes, snapshot: bytes | None) -> Head:
    return Head(incarnation, int(version), uid.decode(), None if snapshot is None else int(snapshot))
