"""Writing to logs, with two scripts: APPEND adds an entry, RECORD stores answers to ids."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import structs

from core.model import STATE_VERSION
from service.errors import Unavailable, WritersFull
from service.store.keys import TEXT, cached_keys
from service.store.log.entries import Code, RawEntry, entries, name_of
from service.store.lua import script
from service.store.redis.connection import Call, Connection, Safety, UnreplicatedResult

SEGMENTS_MAX = 1000  # most segments of one entry; the server's Lua cannot pass on many more in one command
ITEMS_MAX = 1000  # most answers of one model that are stored at once: by one call of a script
LARGE_APPEND_BYTES = 2**20  # larger appends travel alone, so that others need not wait for them
RECORDED_AT_ONCE = 16  # sets of answers in one round trip; each changes up to a thousand ids
READ_BYTES_MAX = 2**20  # most bytes of entries in one reply, also where the rows of all models travel

WRITER_LIFE_MS = 600_000
"""How long the last append of a process is remembered: far longer than it is resent after a lost reply."""
WRITERS_MAX = 512  # processes whose appends a model remembers; one more is refused while none of them can be forgotten
APPEND = script(
    "append_quick", "basics", "look", "sweep", "store_summary", "join", "append",
    WRITER_LIFE_MS=WRITER_LIFE_MS, WRITERS_MAX=WRITERS_MAX,
)  # fmt: skip
RECORD = script("basics", "join", "record")

UNREPLICATED = (
    "committed, but not yet on as many of the store's replicas as ONEPASS_MIN_REPLICAS asks for: a failover now may "
    "lose it; send the request again with the same id"
)

Status = Literal["added", "seen", "full", "stateless"]


class Answers(NamedTuple):
    """Answers of a replica at ``version``, made by the entry ``uid``."""

    name: str
    incarnation: str
    version: int
    uid: str
    items: Sequence[tuple[str, int, bytes]]  # id, version that learned it, answer


class NamedState(NamedTuple):
    """A state, or large segment, that a segment names."""

    digest: str
    size: int  # in bytes


class SegmentIn(msgspec.Struct, frozen=True, gc=False):
    """One request's share of an entry."""

    blob: bytes
    ids: tuple[str, ...] = ()  # none, one for the whole segment, or one per row
    digests: tuple[str, ...] = ()  # one per id, to detect another request under the same id; no colons
    rows: int = 1  # number of rows in the blob
    pending: str | None = None  # the tracked prediction that this segment settles
    state: NamedState | None = None  # the state or large segment that the blob names; its pieces are written first

    @property
    def nbytes(self) -> int:
        """Bytes of the segment, even if the blob only names it."""
        named = None if self.state is None else name_of(self.blob)
        return len(self.blob) if named is None else named[1]

    def __post_init__(self) -> None:
        if not (self.ids or self.digests):
            return
        if len(self.ids) not in {0, 1, self.rows} or len(self.digests) != len(self.ids):
            raise ValueError("a segment has no id, one, or one per row, and a digest for each")
        if ":" in "".join(self.digests):
            raise ValueError("a digest holds no colon")


class Append(msgspec.Struct, frozen=True, gc=False):
    """An entry that a replica at ``version`` adds to a model's log."""

    name: str
    incarnation: str  # the one the caller knows
    version: int  # v0, the caller's version
    uid: str  # uid of the entry that made v0; the incarnation for version 0
    writer: str  # identifies the appending process, which has at most one append per model in flight
    sequence: int  # higher than in every earlier append of this writer; the same to repeat one whose reply was lost
    new_uid: str  # uid of the new entry, if it is made
    segments: tuple[SegmentIn, ...]  # at least one, at most SEGMENTS_MAX
    id_ttl_ms: int  # how long ids are remembered
    id_cap: int  # how many ids are remembered at most
    max_bytes: int  # the most bytes of entries to return; further ones are read separately
    summary: bytes = b""  # of the model at ``version``, stored unless the store has a later one; empty: none
    # How many connections of this process certainly get the model's notices, -1 if that is unknown: without other
    # listeners the server sends none.
    listening: int = 0
    state_version: int = STATE_VERSION  # of the appending code
    size: int = 0  # bytes of its requests in memory; more than ``nbytes``

    @property
    def nbytes(self) -> int:
        """Its approximate size on the wire: blobs, ids and digests."""
        return sum(len(segment.blob) + 2 * sum(map(len, segment.ids)) for segment in self.segments)

    def __post_init__(self) -> None:
        if not 1 <= len(self.segments) <= SEGMENTS_MAX:
            raise ValueError(f"an append has 1 to {SEGMENTS_MAX} segments")


@dataclass(frozen=True, slots=True)
class SeenId:
    """A remembered id: its row, and the answer if the store has it yet."""

    version: int
    ordinal: int
    row: int
    digest: str
    answer: bytes | None


@dataclass(frozen=True, slots=True)
class RememberedIds:
    """The ids that a model remembers; reported if there is no room for more."""

    count: int
    first_due_ms: int  # when the first of them expires, by the server's clock; 0 if there are none
    wait_ms: int = field(compare=False)  # the time until then


class SegmentOut(msgspec.Struct, frozen=True, gc=False):
    """The result of a segment."""

    # "added"; "seen": all its ids had been seen, or some of them with another digest (``seen`` then has only these);
    # "full": no room for its ids; "stateless": some pieces of the state it names are missing in the store. The store
    # keeps nothing of a segment that it did not add.
    status: Status
    skip: tuple[int, ...] = ()  # rows of an added segment that are not learned
    # (row, its record) of every row that had been seen; in a retry, without rows of ``skip`` whose ids are forgotten
    seen: tuple[tuple[int, SeenId], ...] = ()
    remembered: RememberedIds | None = None  # of a "full" segment: how many ids there are, and when the first expires


class Appended(msgspec.Struct, frozen=True, gc=False):
    """The result of an append. Unless ``code`` is "ok", nothing was written and only the head is set ("gone": 1 if
    another incarnation has the name now, else 0).
    """

    # join.lua and append.lua define "gone", "damaged", "ahead", "fork", "trimmed" and "fenced"; "evicted": the store
    # has lost the ids of the model; "foreign": the log has an entry that Onepass did not write, and whether anything
    # was written now is unknown; "other": code of another state version has appended to the model
    code: Code
    head: int  # the model's version now
    head_uid: str
    made: int | None = None  # the version made by this append, or by the one it repeats; None if no segment was added
    time_ms: int = 0  # the time of that entry; 0 if there is none, or if a retry found it trimmed
    segments: tuple[SegmentOut, ...] = ()  # one per segment of the request, in order
    entries: tuple[RawEntry, ...] = ()  # entries that others have appended after v0 and before ``made``
    complete: bool = True  # whether ``entries`` has all of these; if not, continue with ``read_after``
    safe: bool = True  # whether the requested number of replicas has it, and everything returned before it


class LogWriter:
    """Writes to the logs of all models of one store; returns the errors of models instead of raising them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._one_server = connection.node_key("") == ""

    def node_key(self, name: str) -> str:
        """The server of a model: equal for models that wait for the same one, empty if there is only one."""
        return "" if self._one_server else self._connection.node_key(cached_keys(name, "").meta)

    async def append(
        self, requests: Sequence[Append], safety: Safety | None = None, *, large_bytes: int = 0
    ) -> list[Appended | Unavailable]:
        """Append to many models in one round trip; a failure for one does not affect the others.

        ``safety`` says how many replicas must have an append for it to be ``safe``. ``large_bytes`` is the size of a
        single append that travels alone, on a connection that carries no other model's: it has more time than the
        store's timeout, in proportion to its bytes.
        """
        calls = [*map(_append_call, requests, repeat(safety is not None))]
        results = await self._connection.run(calls, quick=not large_bytes, safety=safety, large_bytes=large_bytes)
        return [*map(_appended, requests, results)]

    async def record_answers(self, answers: Sequence[Answers]) -> list[Unavailable | bool]:
        """Add answers to ids that are still remembered for that version and have none; may be repeated.

        ``answers`` may be of any models, with at most ITEMS_MAX items each; RECORDED_AT_ONCE of them go in one round
        trip. Returns True for each, False if the caller is not, or no longer, on this log, or the store's error.
        """
        known: list[Unavailable | bool] = []
        for at in range(0, len(answers), RECORDED_AT_ONCE):
            calls = [*map(_record_call, answers[at : at + RECORDED_AT_ONCE])]
            results = await self._connection.run(calls)
            known += [one if isinstance(one, Unavailable) else one[0] == b"ok" for one in results]
        return known


def decode_seen(record: bytes) -> SeenId:
    """Decode a record of the hash of seen ids."""
    version, ordinal, row, digest, answer = record.split(b":", 4)
    return SeenId(int(version), int(ordinal), int(row), digest.decode(), answer or None)


def _append_call(request: Append, waits: bool) -> Call:
    """The script call of an append; ``waits``: for replicas."""
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
        min(request.max_bytes, READ_BYTES_MAX),
        request.state_version,
        len(request.segments),
    ]
    for segment in request.segments:
        state = "" if segment.state is None else f"{segment.state.digest}:{segment.state.size}"
        args += (segment.blob, (segment.pending or "").encode(*TEXT), state, len(segment.ids))
        for seen_id in segment.ids:
            args.append(seen_id.encode(*TEXT))
        args += segment.digests
    args += (request.summary, request.listening, 1) if waits else (request.summary, request.listening)
    own = (keys.meta, keys.log, keys.idempotency, keys.idempotency_expiry, keys.pending, keys.pending_due, keys.states)
    return Call(APPEND, own, args)


def _record_call(answers: Answers) -> Call:
    """The script call that stores answers."""
    keys = cached_keys(answers.name, answers.incarnation)
    args: list[bytes | str | int] = [answers.incarnation, answers.version, answers.uid]
    for seen_id, version, answer in answers.items:
        args += (seen_id.encode(*TEXT), version, answer)
    return Call(RECORD, (keys.meta, keys.log, keys.idempotency), args)


def _appended(request: Append, result: Any) -> Appended | Unavailable:
    """The result of an append, or the store's error."""
    if isinstance(result, Unavailable):
        return result
    if isinstance(result, UnreplicatedResult):
        appended = _appended(request, result.result)
        return structs.replace(appended, safe=False) if isinstance(appended, Appended) else appended
    if result[0] == b"crowded":
        return WritersFull(
            f"{WRITERS_MAX} processes have appended to model {request.name} in the last "
            f"{WRITER_LIFE_MS // 60_000} minutes, which is the limit: nothing was learned"
        )
    code, head, head_uid = result[0].decode(), result[1], (result[2] or b"").decode(errors="replace")
    if code != "ok":
        return Appended(code, head, head_uid)
    try:
        made, time_ms, complete, segments, found, full = result[3:]
        outs: tuple[SegmentOut, ...] = (_ADDED,)
        if segments != [b"added"]:
            full_segment = _FULL if full is None else structs.replace(_FULL, remembered=remembered_ids(*full))
            outs = tuple([full_segment if answered == b"full" else _segment(answered) for answered in segments])
        after = entries(found, request.version) if found else ()
    except (IndexError, ValueError):  # takes this model down, not the pipeline
        return Appended("foreign", head, head_uid)
    reaches_made = bool(complete) and len(after) == len(found)
    return Appended(code, head, head_uid, made or None, time_ms, outs, after, reaches_made)


def remembered_ids(count: int, first_due_ms: int, now_ms: int) -> RememberedIds:
    """Remembered ids, from the numbers of a script."""
    return RememberedIds(count, first_due_ms, max(0, first_due_ms - now_ms))


_ADDED = SegmentOut("added")
_FULL = SegmentOut("full")
_STATELESS = SegmentOut("stateless")


def _segment(answer: Any) -> SegmentOut:
    if answer == b"added":
        return _ADDED
    if answer == b"stateless":
        return _STATELESS
    status, hits = answer
    rows, records = hits[::2], hits[1::2]
    seen = tuple((row, decode_seen(record)) for row, record in zip(rows, records, strict=True) if record)
    return SegmentOut("added", tuple(rows), seen) if status == b"added" else SegmentOut("seen", (), seen)
