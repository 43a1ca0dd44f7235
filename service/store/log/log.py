"""The log of a model: append at its head, read on, store answers.

    entry = XADD onepass:{NAME}:INC:log VERSION-0
        u    uid of this entry
        p    uid of the entry before it; the incarnation for version 1
        t    the server's time, ms
        n    how many segments the request had
        0    blob of segment 0 of the request, or the name of one that is large (entries.py); a segment that was not
             added leaves its ordinal out
        0s   "1,4": rows of segment 0 that must not be learned, since their ids had been seen
        s    state version of the code that wrote it

    segment: no id               always added
             one id              seen already: dropped whole
             one id per row      rows seen already (in the log, or further up in the same request) are skipped;
                                  all of them: dropped whole
             an id that was seen with another digest: dropped whole

A segment that restores or imports names its state by digest; the pieces of it are there before, or it is not added
(states.py).

A version made is never made again: the uid chain u <- p tells a log that a failover has cut and others have
continued from the one a replica knows. scripts.py is the Lua of it.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from service.errors import Unavailable
from service.store.keys import ModelKeys, cached_keys, raw
from service.store.log.alarm_index import AlarmIndex
from service.store.log.appends import (
    SOON_BYTES_MAX,
    Answers,
    Append,
    Appended,
    SeenId,
    all_recorded,
    append_call,
    appended_or_unavailable,
    decode_seen,
    failed,
    record_calls,
)
from service.store.log.entries import Code, ReadOn, read_on
from service.store.log.scripts import LOOKUP, READ_AFTER
from service.store.redis.connection import Call, Connection, Safety

LARGE_APPEND_BYTES = 2**20
"""Appends larger than this travel by themselves (``append_large``): what they take, the others need not wait for."""
_RECORDS_AT_ONCE = 4
"""Pieces of answers in one round trip; they change a thousand ids each."""
READ_BYTES_MAX = 4 * 2**20
"""Most bytes of entries in one reply off the connection of the rows: as many as a piece of a snapshot has."""


class Head(NamedTuple):
    """Who has a name now, and the last entry of its log.

    ``snapshot`` is the version of the newest published snapshot, None before the first one: the answers to all ids
    learned up to it are in the store.
    """

    incarnation: str
    version: int
    uid: str
    snapshot: int | None = None


class Log:
    """The logs of all models of one store.

    Attributes:
        alarm_index: models are entered before they are appended to.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection, self.alarm_index = connection, AlarmIndex(connection)

    def node_key(self, name: str) -> str:
        """Equal for models that wait for the same server."""
        return self._connection.node_key(cached_keys(name, "").meta)

    async def exchange(
        self, requests: Sequence[Append], answers: Sequence[Answers] = (), safety: Safety | None = None
    ) -> tuple[list[Appended | Unavailable], list[Unavailable | bool]]:
        """Append to many models and store answers, in one round trip; what fails for one does not concern the others.

        Args:
            requests: the appends.
            answers: older answers; they go first.
            safety: which replicas must have an append for it to be ``safe``.

        Returns:
            The result of each append, and of each set of answers (see ``record_answers``).
        """
        record, enter = [record_calls(each) for each in answers], self.alarm_index.calls_before(requests)
        calls = [*enter, *itertools.chain(*record), *map(append_call, requests)]
        results = await self._connection.run(calls, quick=True, safety=safety if requests else None) if calls else []
        told = iter(results)
        entered = [*itertools.islice(told, len(enter))]
        known = [all_recorded([*itertools.islice(told, len(parts))]) for parts in record]
        appended = [*map(appended_or_unavailable, requests, told)]
        self.alarm_index.settle(requests, entered, appended)
        return appended, known

    async def append_large(self, request: Append, safety: Safety | None = None) -> Appended | Unavailable:
        """One append in a round trip of its own, on a connection that carries no other model's.

        It has more time than the store's timeout, in proportion to its bytes; where it fails, it fails alone.
        """
        calls = [*self.alarm_index.calls_before([request]), append_call(request)]
        *entered, result = await self._connection.run(calls, safety=safety, large_bytes=request.nbytes)
        appended = appended_or_unavailable(request, result)
        self.alarm_index.settle([request], entered, [appended])
        return appended

    async def record_answers(self, answers: Sequence[Answers]) -> list[Unavailable | bool]:
        """Add answers to ids that are still remembered for that version and have none; may be repeated.

        Any number of them: they go in pieces, and where one fails, what follows of that model is not sent.

        Returns:
            Per set True; False where the caller is not, or no longer, on this log; else why the store failed.
        """
        return [await self._record_in_pieces(each) for each in answers]

    async def _record_in_pieces(self, answers: Answers) -> Unavailable | bool:
        calls = record_calls(answers)
        for at in range(0, len(calls), _RECORDS_AT_ONCE):
            known = all_recorded(await self._connection.run(calls[at : at + _RECORDS_AT_ONCE]))
            if known is not True:
                return known
        return True

    async def joins(self, name: str, incarnation: str, version: int, uid: str) -> Code:
        """Whether the entry ``uid`` that made ``version`` is on the log: "ok", or why reading on from it would fail.

        Raises:
            Unavailable: the store did not answer, or answered that it cannot.
        """
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

        With ``soon`` it comes on the connection of the rows, at most SOON_BYTES_MAX of it. An entry that alone exceeds
        what was asked for comes by itself, apart from the rows and with time for its size.

        Raises:
            Unavailable: the store did not answer, or answered that it cannot.
        """
        position, most = (name, incarnation, version, uid), SOON_BYTES_MAX if soon else READ_BYTES_MAX
        found = await self._read(position, min(limit_bytes, most), limit_entries, quick=soon)
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
            raise failed(result)
        return read_on(result, version)

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
        fields = ("incarnation", "version", "uid", "snapshot")
        asked = [("HMGET", ModelKeys(name, "").meta, *fields) for name in names]
        answers = await self._connection.ask(*asked) if asked else []
        return [None if found[0] is None else _head(*found) for found in answers]


def _head(incarnation: bytes, version: bytes, uid: bytes, snapshot: bytes | None) -> Head:
    return Head(incarnation.decode(), int(version), uid.decode(), None if snapshot is None else int(snapshot))
