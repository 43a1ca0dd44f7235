"""The log of a model: append at its head, read on, store answers.

    entry = XADD onepass:{NAME}:INC:log VERSION-0
        u    uid of this entry
        p    uid of the entry before it; the incarnation for version 1
        t    the server's time, ms
        n    how many segments the request had
        0    blob of segment 0 of the request; a segment that was not added leaves its ordinal out
        0s   "1,4": rows of segment 0 that must not be learned, since their ids had been seen

    segment: no id               always added
             one id              seen already: dropped whole
             one id per row      rows seen already (in the log, or further up in the same request) are skipped;
                                  all of them: dropped whole
             an id that was seen with another digest: dropped whole

A version made is never made again: the uid chain u <- p tells a log that a failover has cut and others have
continued from the one a replica knows. scripts.py is the Lua of it.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from service.errors import StoreDown
from service.store.appends import (
    SEGMENTS_MAX,
    Answers,
    Append,
    Appended,
    SeenId,
    SegmentIn,
    SegmentOut,
    append_call,
    appended_or_down,
    decode_seen,
    failed,
    record_call,
    recorded,
)
from service.store.entries import ReadOn, read_on
from service.store.keys import ModelKeys, cached_keys, raw
from service.store.redis.connection import Call, Connection, Safety
from service.store.scripts import LOOKUP, READ_AFTER


class Head(NamedTuple):
    """Who has a name now, and the last entry of its log."""

    incarnation: str
    version: int
    uid: str


class Log:
    """The logs of all models of one store."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._reads: list[tuple[Call, asyncio.Future[Any]]] = []
        self._reading: set[asyncio.Task[None]] = set()

    def node_key(self, name: str) -> str:
        """Equal for models that wait for the same server."""
        return self._connection.node_key(cached_keys(name, "").meta)

    async def exchange(
        self, requests: Sequence[Append], answers: Sequence[Answers] = (), safety: Safety | None = None
    ) -> tuple[list[Appended | StoreDown], list[StoreDown | bool]]:
        """Append to many models and store answers, in one round trip; what fails for one does not concern the others.

        Args:
            requests: the appends.
            answers: older answers; they go first.
            safety: which replicas must have an append for it to be ``safe``.

        Returns:
            The result of each append, and of each set of answers (see ``record_answers``).
        """
        calls = [*map(record_call, answers), *map(append_call, requests)]
        results = await self._connection.run(calls, quick=True, safety=safety if requests else None) if calls else []
        known = [*map(recorded, results[: len(answers)])]
        return [*map(appended_or_down, requests, results[len(answers) :])], known

    async def record_answers(self, answers: Sequence[Answers]) -> list[StoreDown | bool]:
        """Add answers to ids that are still remembered for that version and have none; may be repeated.

        False where nothing was added, since the caller is not, or no longer, on this log.
        """
        return (await self.exchange((), answers))[1]

    async def read_after(
        self, name: str, incarnation: str, version: int, uid: str, limit_bytes: int, limit_entries: int
    ) -> ReadOn:
        """Read what follows the entry ``uid`` that made ``version``: at least one entry, if there is one.

        Raises:
            StoreDown: the store did not answer, or answered that it cannot.
        """
        call = _read_call(name, incarnation, version, uid, limit_bytes, limit_entries)
        return read_on(await self._connection.one(call), version)

    async def read_soon(
        self, name: str, incarnation: str, version: int, uid: str, limit_bytes: int, limit_entries: int
    ) -> ReadOn:
        """``read_after`` of all models that read on at the same moment, in one round trip on the rows' connection.

        Raises:
            StoreDown: the store did not answer, or answered that it cannot.
        """
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Any] = loop.create_future()
        if not self._reads:
            loop.call_soon(self._send_reads)
        self._reads.append((_read_call(name, incarnation, version, uid, limit_bytes, limit_entries), reply))
        return read_on(await reply, version)

    def _send_reads(self) -> None:
        reads, self._reads = self._reads, []
        task = asyncio.get_running_loop().create_task(self._read(reads))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read(self, reads: "list[tuple[Call, asyncio.Future[Any]]]") -> None:
        results = await self._connection.run([call for call, _ in reads], quick=True)
        for (_, reply), result in zip(reads, results, strict=True):
            if reply.done():
                continue
            if isinstance(result, Exception):
                reply.set_exception(failed(result))
            else:
                reply.set_result(result)

    async def lookup(self, name: str, incarnation: str, ids: Sequence[str]) -> list[SeenId | None]:
        """What is remembered of each id.

        Raises:
            StoreDown: the store did not answer, or answered that it cannot.
        """
        keys = ModelKeys(name, incarnation)
        records = await self._connection.one(
            Call(LOOKUP, (keys.idempotency, keys.idempotency_expiry), [raw(i) for i in ids])
        )
        return [None if record is None else decode_seen(record) for record in records]

    async def heads(self, names: Sequence[str]) -> list[Head | None]:
        """Where each model is, or None where there is none, in one round trip.

        Raises:
            StoreDown: the store did not answer, or answered that it cannot.
        """
        asked = [("HMGET", ModelKeys(name, "").meta, "incarnation", "version", "uid") for name in names]
        answers = await self._connection.ask(*asked) if asked else []
        return [None if i is None else Head(i.decode(), int(v), u.decode()) for i, v, u in answers]


def _read_call(name: str, incarnation: str, *position: str | int) -> Call:
    keys = cached_keys(name, incarnation)
    return Call(READ_AFTER, (keys.meta, keys.log), (incarnation, *position))


__all__ = ["SEGMENTS_MAX", "Answers", "Append", "Appended", "Head", "Log", "SeenId", "SegmentIn", "SegmentOut"]
