"""Requests on their way to the log and back: what waits, what is in flight, what a request is given."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from core.entry import Entry, Outcome, Overlap, Restore, Rows, Segment
from service.errors import OnepassError
from service.runtime.steps import One
from service.store.appends import NamedState
from service.store.log import Append, Appended, SegmentIn

WAITING_BYTES_MAX = 256 * 2**20
"""Most bytes of requests of all models that wait in this process."""
OBJECT_BYTES, ROW_BYTES = 1000, 100
"""What a waiting request takes beside its values, and what a row does: a label, perhaps an id."""


class Reply(NamedTuple):
    """What a waiting request is given.

    Attributes:
        answer: the answer to all of its rows; to a repeated request, the first one.
        duplicates: how many of its rows had been sent before.
        all_duplicate: True when nothing was learned because all of it had been sent before.
        earlier: the rows that had been sent before, and the first answer to each.
    """

    answer: Outcome
    duplicates: int = 0
    all_duplicate: bool = False
    earlier: Sequence[tuple[int, Outcome]] = ()


@dataclass(slots=True, eq=False)
class Job:
    """One request on its way to the log.

    Attributes:
        segment: what is to be committed.
        sent: the same, as the store takes it.
        size: bytes of memory that both take while the request waits.
        flops: floating-point operations of applying it.
        reply: resolved with a Reply, or an error.
        attempts: how often it has been put back because the replica had to reload.
    """

    segment: Segment
    sent: SegmentIn
    size: int
    flops: float
    reply: "asyncio.Future[Reply]"
    attempts: int = 0

    def reject(self, error: OnepassError) -> None:
        """Fail the request, unless its client is gone."""
        if not self.reply.done():
            self.reply.set_exception(error)


@dataclass(slots=True, eq=False)
class Commit:
    """One append in flight.

    Attributes:
        append: what is sent.
        jobs: the requests in it, one per segment; size: bytes that they take.
        syncs: readers who wait for the log's head.
        resent: it was sent more than once, since its fate was not known.
    """

    append: Append
    jobs: list[Job]
    size: int
    syncs: "list[asyncio.Future[None]]"
    resent: bool = False

    def fail(self, error: OnepassError) -> None:
        """Fail everything that waits for it."""
        for job in self.jobs:
            job.reject(error)
        resolve(self.syncs, error)


def resolve(syncs: "list[asyncio.Future[None]]", error: OnepassError | None = None) -> None:
    """Complete the readers who wait for the log's head, or fail them."""
    for future in syncs:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
    syncs.clear()


@dataclass(slots=True)
class Waiting:
    """Bytes of all requests that wait in this process."""

    used: int = 0


def size_of(segment: Segment) -> tuple[int, int]:
    """Bytes that a segment takes while it waits, as arrays and encoded; and its rows."""
    if isinstance(segment, Rows | Overlap):
        rows = len(segment.X)
        return OBJECT_BYTES + 2 * segment.X.nbytes + ROW_BYTES * rows, rows
    return OBJECT_BYTES, 1  # the bytes of a state are counted by those who hold them (named_states.py)


def sent(segment: Segment, blob: bytes, digests: Sequence[str], rows: int, pending: str | None) -> SegmentIn:
    """A segment as the store takes it."""
    state = NamedState(segment.digest, segment.size) if isinstance(segment, Restore) else None
    return SegmentIn(blob, segment.ids, tuple(digests), rows, pending, state)


def own_step(commit: Commit, appended: Appended, version: int) -> One | None:
    """The entry that an append has made, from the requests as they were sent.

    Args:
        commit: what was sent.
        appended: what became of it.
        version: the replica's; None is returned where the entry is applied already, or there is none.
    """
    if appended.made is None or appended.made <= version:
        return None
    segments: list[Segment] = []
    size = 0
    for job, out in zip(commit.jobs, appended.segments, strict=True):
        if out.status == "added":
            segments.append(_skipping(job.segment, out.skip) if out.skip else job.segment)
            size += job.sent.nbytes
    return One(Entry(appended.made, appended.time_ms, tuple(segments)), commit.append.new_uid, size, own=True)


def _skipping(segment: Segment, skip: tuple[int, ...]) -> Segment:
    return replace(segment, skip=skip) if isinstance(segment, Rows | Overlap) else segment
