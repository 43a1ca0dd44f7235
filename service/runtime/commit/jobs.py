"""Requests on their way to the log and back: the queue, the commit in flight, and its entry.

Single rows that wait for the same append are joined into one segment: one record, one outcome, one check of ids. Only
plain rows are joined: they are learned whatever else is in their entry (``RowJob``). One row does not affect the
others: a repeated id gets its first answer, and rows that the store rejected because of another row are sent again
separately.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from core.entry import Entry, Outcome, Overlap, Restore, Rows, Segment
from core.model import Model
from core.model.apply import is_plain
from service.errors import OnepassError, QueueFull, StoreDown
from service.runtime.commit.committer import Ticket
from service.runtime.replicas.batches import SingleEntry
from service.runtime.replicas.replica import Ledger, Reply
from service.runtime.rows.row_plan import OBJECT_BYTES, ROW_BYTES
from service.store.log import codec
from service.store.log.appends import SEGMENTS_MAX, Appended, NamedState, SegmentIn, SegmentOut

WAITING_BYTES_MAX = 256 * 2**20  # most bytes of waiting requests, of all models of this process
LARGE_BYTES = 65_536  # larger requests leave a quarter of it to smaller ones


class Job(Struct, eq=False):
    """One request on its way to the log, or several that share a segment (``JoinedRows``)."""

    segment: Segment
    digests: Sequence[str]  # one per id of the segment
    size: int  # bytes of memory that the request and its encoding take while it waits
    flops: float  # floating-point operations of applying it
    reply: "asyncio.Future[Reply]"  # resolved with a Reply, or an error
    sent: SegmentIn = SegmentIn(b"")  # the segment as it is sent to the store, once it is encoded
    attempts: int = 0  # how often it has been put back because the replica had to reload

    def reject(self, error: BaseException) -> None:
        """Fail the request, unless its client is gone."""
        if not self.reply.done():
            self.reply.set_exception(error)

    def to_send_alone(self, out: SegmentOut) -> "list[RowJob]":
        """The requests that the store rejected because of others in the segment, from its result."""
        del out
        return []


class RowJob(Struct, eq=False):
    """A request with one plain row, which may share a segment with others. Most requests are like this."""

    space: str  # the id of the feature space of feedback
    values: Any  # the raw row (F,)
    label: Any  # a class that the model knows, or a number
    identity: str  # the row's id, or ""
    digest: str  # of the label, if there is an id
    # size, flops, reply, attempts: see ``Job``
    size: int
    flops: float
    reply: "asyncio.Future[Reply]"
    alone: bool = False  # whether it must be sent alone, because the store did not take it with others
    attempts: int = 0

    def reject(self, error: BaseException) -> None:
        """Fail the request, unless its client is gone."""
        if not self.reply.done():
            self.reply.set_exception(error)

    @property
    def segment(self) -> Rows:
        """The row as a segment."""
        return rows_of([self])

    @property
    def digests(self) -> Sequence[str]:
        """One per id."""
        return (self.digest,) if self.identity else ()


_row = attrgetter("values", "label", "identity")


def rows_of(jobs: Sequence[RowJob]) -> Rows:
    """Rows of one space, all with ids or none, as one segment."""
    first = jobs[0]
    values, labels, ids = zip(*map(_row, jobs), strict=True)
    y: Any = np.array(labels, np.float64) if type(first.label) is float else [*labels]
    return Rows(first.space, None, np.array(values, np.float64), y, ids=ids if first.identity else ())


class Commit(Ticket, kw_only=True, eq=False):
    """One append in flight, and the requests and readers that wait for it."""

    jobs: list[Job]  # the requests in it, one per segment
    # Of all requests: their bytes, and the operations of applying them.
    size: int
    flops: float
    syncs: "list[asyncio.Future[None]]"  # readers that wait for the log's head

    @property
    def members(self) -> "list[Job | RowJob]":
        """The requests one by one, including those that share a segment."""
        return [one for job in self.jobs for one in (job.members if isinstance(job, JoinedRows) else (job,))]

    def entry(self, appended: Appended, version: int) -> SingleEntry | None:
        """The entry that the append made, built from its requests; None if there is none, or a replica of this version
        has applied it.
        """
        if appended.made is None or appended.made <= version:
            return None
        segments: list[Segment] = []
        size = 0
        for job, out in zip(self.jobs, appended.segments, strict=True):
            if out.status == "added":
                segments.append(_skipping(job.segment, out.skip) if out.skip else job.segment)
                size += len(job.sent.blob) if job.sent.state is None else job.sent.nbytes
        entry = Entry(appended.made, appended.time_ms, tuple(segments))
        return SingleEntry(entry, self.append.new_uid, size, own=True)

    def fail(self, error: OnepassError) -> None:
        """Fail everything that waits for it."""
        for job in self.jobs:
            job.reject(error)
        resolve(self.syncs, error)


def resolve(syncs: "list[asyncio.Future[None]]", error: OnepassError | None = None) -> None:
    """Complete the readers that wait for the log's head, or fail them."""
    for future in syncs:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
    syncs.clear()


def size_of(segment: Segment) -> tuple[int, int]:
    """Bytes of a waiting segment, as arrays and encoded; and its number of rows."""
    if isinstance(segment, Rows | Overlap):
        rows = len(segment.X)
        return OBJECT_BYTES + 2 * segment.X.nbytes + ROW_BYTES * rows, rows
    return OBJECT_BYTES, 1  # named_states.py counts the bytes of a state


def sent(segment: Segment, blob: bytes, digests: Sequence[str], rows: int, pending: str | None) -> SegmentIn:
    """A segment as it is sent to the store."""
    state = NamedState(segment.digest, segment.size) if isinstance(segment, Restore) else None
    return SegmentIn(blob, segment.ids, tuple(digests), rows, pending, state)


def _skipping(segment: Segment, skip: tuple[int, ...]) -> Segment:
    return replace(segment, skip=skip) if isinstance(segment, Rows | Overlap) else segment


TICK_SEGMENTS_MAX = SEGMENTS_MAX  # most requests of one model in one append, which makes one entry of its log
TICK_BYTES_MAX = 2**20
"""Most bytes of one model in one append, which the store processes in one go; a larger request goes alone."""
TICK_FLOPS_MAX = 1e10  # most floating-point operations of one append, a few seconds; a larger request goes alone
ATTEMPTS_MAX = 5  # how often a request may be put back because its replica had to reload


class JobQueue:
    """The waiting requests of a model, at most ``most``, oldest first; ``waiting`` counts the bytes of all models."""

    __slots__ = ("_most", "_name", "_waiting", "jobs")

    def __init__(self, name: str, waiting: Ledger, most: int) -> None:
        self._name, self._waiting, self._most = name, waiting, most
        self.jobs: deque[Job | RowJob] = deque()

    def check_room(self, size: int) -> None:
        """``QueueFull`` for a request that would exceed a limit; a single request is accepted however large it is."""
        if len(self.jobs) >= self._most:
            raise QueueFull(f"model {self._name} has {len(self.jobs)} requests waiting (ONEPASS_QUEUE_MAX)")
        used, most = self._waiting.used, WAITING_BYTES_MAX - (WAITING_BYTES_MAX // 4 if size > LARGE_BYTES else 0)
        if used and used + size > most:
            raise QueueFull(f"{used} bytes of requests are waiting; the limit for all models together is {most}")

    def put(self, job: Job | RowJob) -> None:
        """Queue a request."""
        self._waiting.used += job.size
        self.jobs.append(job)

    def take(self, most: int) -> tuple[list[Job | RowJob], int, float]:
        """Take up to ``most`` requests for the next append; also returns their bytes, which count until they are
        answered, and the operations of applying them.
        """
        taken: list[Job | RowJob] = []
        size, flops = 0, 0.0
        while self.jobs and len(taken) < most:
            job = self.jobs[0]
            if taken and (size + job.size > TICK_BYTES_MAX or flops + job.flops > TICK_FLOPS_MAX):
                break
            size += job.size
            flops += job.flops
            taken.append(self.jobs.popleft())
        return taken, size, flops

    def put_back(self, jobs: Sequence[Job | RowJob]) -> None:
        """Put requests back at the front: they have to be appended again."""
        for job in jobs:
            job.attempts += 1
        self.jobs.extendleft(reversed(jobs))

    def fail(self, error: OnepassError) -> None:
        """Fail everything that waits."""
        self._keep(lambda job: job.reject(error))

    def reject_unfit(self, model: Model) -> None:
        """After a reload: fail the requests that can no longer be appended, keep the others in order."""

        def reject(job: Job | RowJob) -> None:
            try:
                if job.attempts > ATTEMPTS_MAX:
                    raise StoreDown(f"model {self._name} could not catch up with its log")
                check_fits(model, job.segment)
            except StoreDown as error:
                job.reject(error)

        self._keep(reject)

    def _keep(self, reject: Callable[[Job | RowJob], None]) -> None:
        """Call ``reject`` with every request; keep those that it does not reject."""
        jobs, self.jobs = self.jobs, deque()
        for job in jobs:
            reject(job)
            if job.reply.done():
                self._waiting.used -= job.size
            else:
                self.jobs.append(job)


def check_fits(model: Model, segment: Segment) -> None:
    """``StoreDown`` for a segment whose feature space the model no longer accepts.

    If appended, it would be refused for good under its id; if sent again, it is validated for the present features.
    """
    if not _fits(model, segment):
        raise StoreDown("the model's features have changed meanwhile: send the request again")


def _fits(model: Model, segment: Segment) -> bool:
    """Whether the model still accepts rows of this feature space; a tracked row is scored in any case."""
    if isinstance(segment, Overlap):
        return (
            model.phase == "overlap" and model.feedback_schema is not None and segment.space == model.feedback_schema.id
        )
    if not isinstance(segment, Rows) or segment.served is not None:
        return True
    return (
        segment.features is not None if model.prediction_schema is None else segment.space in model.own.switching.routes
    )


_ADDED = SegmentOut("added")


def row_job(
    model: Model, segment: Segment, digests: Sequence[str], size: int, flops: float, reply: "asyncio.Future[Reply]"
) -> RowJob | None:
    """A request as a ``RowJob``; None: it is not one row that may share a segment with others."""
    if (
        not isinstance(segment, Rows)
        or len(segment.X) != 1
        or segment.features is not None
        or segment.served is not None
        or segment.discounts is not None
        or segment.weights is not None
        or segment.outside is not None
        or not is_plain(model, segment)
    ):
        return None
    label = segment.y[0].item() if isinstance(segment.y, np.ndarray) else segment.y[0]
    identity, digest = segment.ids[0] if segment.ids else "", digests[0] if digests else ""
    return RowJob(segment.space, segment.X[0], label, identity, digest, size, flops, reply)


class JoinedRows(Job, eq=False):
    """Several requests of one row each, in row order; they keep their own sizes, work and replies."""

    members: Sequence[RowJob] = ()

    def reject(self, error: BaseException) -> None:
        """Fail all of them."""
        for job in self.members:
            job.reject(error)

    def sort(self, out: SegmentOut, now: Outcome | None) -> "Iterator[tuple[RowJob, SegmentOut, Outcome | None]]":
        """The result of each request, except those that must be sent again (``to_send_alone``), from the segment's
        result and the outcome of the rows that were learned now.
        """
        if len(self.members) == 1:
            yield self.members[0], out, now
            return
        outcomes = iter([] if now is None or now.refusal is not None else codec.of_rows(now))
        seen, skip, again = dict(out.seen), {*out.skip}, {*self.to_send_alone(out)}
        for row, job in enumerate(self.members):
            if job in again:
                continue
            if row in seen:
                yield job, SegmentOut("seen", (), ((0, seen[row]),)), None
            elif row in skip:  # its id was seen, and has been forgotten meanwhile
                yield job, _ADDED, None
            else:
                yield job, SegmentOut(out.status), next(outcomes, now)

    def to_send_alone(self, out: SegmentOut) -> list[RowJob]:
        """As in ``Job``, because there is no room for all ids, or one conflicts."""
        if out.status == "added" or len(self.members) == 1:
            return []
        seen = {row for row, _ in out.seen}
        left = [job for row, job in enumerate(self.members) if row not in seen]
        for job in left:
            job.alone = True
        return left


def join(jobs: Sequence[Job | RowJob]) -> list[Job]:
    """Requests as segments, in order: neighbouring plain rows of one kind share a segment."""
    found: list[Job] = []
    run: list[RowJob] = []
    for job in jobs:
        if isinstance(job, Job):
            if run:
                found.append(_together(run))
                run = []
            found.append(job)
            continue
        if run and (
            job.alone or run[0].alone or job.space != run[0].space or bool(job.identity) != bool(run[0].identity)
        ):
            found.append(_together(run))
            run = []
        run.append(job)
    return [*found, _together(run)] if run else found


_digest = attrgetter("digest")


def _together(run: list[RowJob]) -> Job:
    rows = rows_of(run)
    digests = tuple(map(_digest, run)) if rows.ids else ()
    encoded = SegmentIn(codec.encode(rows), rows.ids, digests, len(run))
    return JoinedRows(rows, digests, 0, 0.0, run[0].reply, encoded, members=run)
