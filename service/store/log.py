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
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from service.errors import StoreDown
from service.store.codec import Code, RawEntry, ReadOn, entries, read_on
from service.store.keys import TEXT, ModelKeys, cached_keys, raw
from service.store.redis.connection import Call, Connection, Safety, Unreplicated
from service.store.scripts import APPEND, LOOKUP, READ_AFTER, RECORD

SEGMENTS_MAX = 1000
"""Most segments of one entry; the server's Lua cannot pass on many more in one command."""

_log = logging.getLogger(__name__)

Status = Literal["added", "seen", "full"]


class Answers(NamedTuple):
    """Answers of a replica at ``version``, made by the entry ``uid``.

    ``items`` are (id, version that learned it, answer).
    """

    name: str
    incarnation: str
    version: int
    uid: str
    items: Sequence[tuple[str, int, bytes]]


@dataclass(frozen=True, slots=True)
class SegmentIn:
    """One request's share of an entry.

    Attributes:
        blob: its bytes, any.
        ids: none, one for the whole segment, or one per row.
        digests: one per id, to detect another request under the same id; no colons.
        rows: number of rows in the blob.
        pending: the tracked prediction that is settled by adding this segment, or None.
    """

    blob: bytes
    ids: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    rows: int = 1
    pending: str | None = None

    def __post_init__(self) -> None:
        if len(self.ids) not in {0, 1, self.rows} or len(self.digests) != len(self.ids):
            raise ValueError("a segment has no id, one, or one per row, and a digest for each")
        if ":" in "".join(self.digests):
            raise ValueError("a digest holds no colon")


@dataclass(frozen=True, slots=True)
class Append:
    """What a replica at ``version`` adds to a model's log.

    Attributes:
        name: model.
        incarnation: the one the caller knows.
        version: v0, the caller's version.
        uid: uid of the entry that made v0; the incarnation for version 0.
        writer: identifies the appending process; it has one append per model under way at most.
        sequence: higher than in every earlier append of this writer; the same to repeat one whose answer got lost.
        new_uid: uid for the entry, if it is made.
        segments: at least one, at most SEGMENTS_MAX.
        id_ttl_ms: how long ids are remembered.
        id_cap: how many are remembered at most.
        max_bytes: the most bytes of entries to return (at least one entry comes, however large).
    """

    name: str
    incarnation: str
    version: int
    uid: str
    writer: str
    sequence: int
    new_uid: str
    segments: tuple[SegmentIn, ...]
    id_ttl_ms: int
    id_cap: int
    max_bytes: int

    def __post_init__(self) -> None:
        if not 1 <= len(self.segments) <= SEGMENTS_MAX:
            raise ValueError(f"an append has 1 to {SEGMENTS_MAX} segments")


@dataclass(frozen=True, slots=True)
class SeenId:
    """An id that is remembered: which row it was, and what was answered, if that is known yet."""

    version: int
    ordinal: int
    row: int
    digest: str
    answer: bytes | None


@dataclass(frozen=True, slots=True)
class SegmentOut:
    """What became of a segment.

    Attributes:
        status: "added"; "seen": all its ids had been seen, or some of them with another digest (``seen`` then has just
            these); "full": no room for its ids. Nothing of a segment that was not added is kept.
        skip: rows of an added segment that are not learned.
        seen: (row, what is remembered) for every row that had been seen. In a retry a row of ``skip`` whose id has
            been forgotten meanwhile is missing here.
    """

    status: Status
    skip: tuple[int, ...] = ()
    seen: tuple[tuple[int, SeenId], ...] = ()


@dataclass(frozen=True, slots=True)
class Appended:
    """The result of an append; unless ``code`` is "ok" nothing was written and only the head is given ("gone": 1
    where another incarnation has the name now, else 0).

    Attributes:
        code: "gone", "ahead", "fork", "trimmed" and "fenced" are DESIGN.md's; "foreign": the log holds an entry that is
            not ours, and whether anything was written is unknown.
        head: the model's version now.
        head_uid: its uid.
        made: version made by this append, or by the one it repeats; None where no segment was added.
        time_ms: the time of that entry; 0 where there is none, or a retry found it trimmed.
        segments: one per segment of the request, in order.
        entries: what others have appended after v0 and before ``made``.
        complete: whether ``entries`` are all of these; if not, go on with ``read_after``.
        safe: whether as many replicas as asked for have it, and all that was returned before it.
    """

    code: Code
    head: int
    head_uid: str
    made: int | None = None
    time_ms: int = 0
    segments: tuple[SegmentOut, ...] = ()
    entries: tuple[RawEntry, ...] = ()
    complete: bool = True
    safe: bool = True


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
        calls = [*map(_record_call, answers), *map(_append_call, requests)]
        results = await self._connection.run(calls, quick=True, safety=safety if requests else None) if calls else []
        recorded = [*map(_recorded, results[: len(answers)])]
        return [*map(_appended_or_down, requests, results[len(answers) :])], recorded

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


def decode_seen(record: bytes) -> SeenId:
    """A record of the seen HASH."""
    version, ordinal, row, digest, answer = record.split(b":", 4)
    return SeenId(int(version), int(ordinal), int(row), digest.decode(), answer or None)


def _read_call(name: str, incarnation: str, *position: str | int) -> Call:
    keys = cached_keys(name, incarnation)
    return Call(READ_AFTER, (keys.meta, keys.log), (incarnation, *position))


def _append_call(request: Append) -> Call:
    keys = cached_keys(request.name, request.incarnation)
    args: list[bytes | str | int] = [
        request.incarnation,
        request.version,
        request.uid,
        request.writer,
        request.sequence,
        request.new_uid,
        request.id_ttl_ms,
        request.id_cap,
        request.max_bytes,
        len(request.segments),
    ]
    for segment in request.segments:
        args += (segment.blob, (segment.pending or "").encode(*TEXT), len(segment.ids))
        for seen_id in segment.ids:
            args.append(seen_id.encode(*TEXT))
        args += segment.digests
    own = (keys.meta, keys.log, keys.idempotency, keys.idempotency_expiry, keys.pending, keys.pending_due)
    return Call(APPEND, own, args)


def _record_call(answers: Answers) -> Call:
    keys = cached_keys(answers.name, answers.incarnation)
    args: list[bytes | str | int] = [answers.incarnation, answers.version, answers.uid]
    for seen_id, version, answer in answers.items:
        args += (seen_id.encode(*TEXT), version, answer)
    return Call(RECORD, (keys.meta, keys.log, keys.idempotency), args)


def _recorded(result: Any) -> StoreDown | bool:
    found = result.result if isinstance(result, Unreplicated) else result
    return failed(found) if isinstance(found, Exception) else bool(found[0] == b"ok")


def _appended_or_down(request: Append, result: Any) -> Appended | StoreDown:
    if isinstance(result, Exception):
        return failed(result)
    if isinstance(result, Unreplicated):
        appended = _appended_or_down(request, result.result)
        return replace(appended, safe=False) if isinstance(appended, Appended) else appended
    try:
        return _appended(request, result)
    except (KeyError, ValueError):  # it takes its own model down, not the pipeline
        return Appended("foreign", result[1], result[2].decode())


def failed(error: Exception) -> StoreDown:
    """The error of one model among many; one that is not the store's is logged."""
    if isinstance(error, StoreDown):
        return error
    _log.error("unexpected answer of the store: %s", error)
    down = StoreDown("the store gave an unexpected answer")
    down.__cause__ = error
    return down


def _appended(request: Append, answer: list[Any]) -> Appended:
    code, head, head_uid = answer[0].decode(), answer[1], answer[2].decode()
    if code != "ok":
        return Appended(code, head, head_uid)
    made, time_ms, complete, segments, found = answer[3:]
    after = entries(found, request.version) if found else ()
    return Appended(
        code,
        head,
        head_uid,
        made or None,
        time_ms,
        tuple(map(_segment, segments)),
        after,
        bool(complete) and len(after) == len(found),
    )


_ADDED = SegmentOut("added")
_FULL = SegmentOut("full")


def _segment(answer: Any) -> SegmentOut:
    if answer == b"added":
        return _ADDED
    if answer == b"full":
        return _FULL
    status, hits = answer
    rows, records = hits[::2], hits[1::2]
    seen = tuple((row, decode_seen(record)) for row, record in zip(rows, records, strict=True) if record)
    return SegmentOut("added", tuple(rows), seen) if status == b"added" else SegmentOut("seen", (), seen)
