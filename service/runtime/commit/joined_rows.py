"""Joins single rows that wait for the same append into one segment: one record, one outcome, one check of ids.

Only plain rows are joined: they are learned whatever else is in their entry (``RowJob``). One row does not affect the
others: a repeated id gets its first answer, and rows that the store rejected because of another row are sent again
separately.
"""

import asyncio
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from core.entry import Outcome, Rows, Segment
from core.model import Model
from core.model.apply import is_plain
from service.runtime.commit.jobs import Job, RowJob, rows_of
from service.runtime.replicas.replica import Reply
from service.store.log import codec
from service.store.log.appends import SegmentIn, SegmentOut

_ADDED = SegmentOut("added")


def can_join(model: Model, segment: Segment) -> bool:
    """Whether a request is one row that may share a segment with others, in the model's present state."""
    return (
        isinstance(segment, Rows)
        and len(segment.X) == 1
        and segment.features is None
        and segment.served is None
        and segment.discounts is None
        and segment.weights is None
        and segment.outside is None
        and is_plain(model, segment)
    )


def row_job(segment: Any, digests: Sequence[str], size: int, flops: float, reply: "asyncio.Future[Reply]") -> RowJob:
    """A request whose row can be joined, as a ``RowJob``."""
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
        """The result of each request, except those that must be sent again (``to_send_alone``).

        Args:
            out: the result of the segment.
            now: the outcome of the rows that were learned now.
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
        """The requests that the store rejected because of others: no room for all ids, or one conflicts."""
        if out.status == "added" or len(self.members) == 1:
            return []
        seen = {row for row, _ in out.seen}
        left = [job for row, job in enumerate(self.members) if row not in seen]
        for job in left:
            job.alone = True
        return left


def members_of(jobs: Sequence[Job]) -> list[Job | RowJob]:
    """The requests in some segments."""
    return [one for job in jobs for one in (job.members if isinstance(job, JoinedRows) else (job,))]


def joined(jobs: Sequence[Job | RowJob]) -> list[Job]:
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
