"""Single rows that wait for the same append go as one segment of many rows: one record, one outcome, one look at ids.

Only rows that are learned whatever else is in their entry are joined: of the space of feedback, with a label that the
model knows, and nothing sent with them but an id. What concerns one of them alone does not concern the others: an id
that has been seen is answered as it was, and rows that the store did not take because of another one go again, each by
itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.entry import Outcome, Rows, Segment
from core.model import Model
from core.model.apply import is_plain
from service.errors import OnepassError
from service.runtime.jobs import Job, encoded
from service.store import codec
from service.store.appends import SegmentOut


def can_join(machine: Model, segment: Segment) -> bool:
    """Whether a request is one row that may share a segment with others, as the model stands now."""
    return (
        isinstance(segment, Rows)
        and len(segment.X) == 1
        and segment.features is None
        and segment.served is None
        and segment.discounts is None
        and segment.weights is None
        and is_plain(machine, segment)
    )


@dataclass(slots=True, eq=False)
class JoinedRows(Job):
    """Several requests of one row each, in the order of its rows."""

    members: Sequence[Job] = ()

    def reject(self, error: OnepassError) -> None:
        """Fail all of them."""
        for job in self.members:
            job.reject(error)

    def sort(self, out: SegmentOut, now: Outcome | None) -> "Iterator[tuple[Job, SegmentOut, Outcome | None]]":
        """What became of each request; one that is to be sent by itself is left out (``to_send_alone``).

        Args:
            out: what became of the segment.
            now: the outcome of the rows that were learned now.
        """
        if now is None or now.refusal is not None:
            outcomes: Iterator[Outcome] = iter(())
        else:
            outcomes = codec.of_rows(now)
        seen, skip, again = dict(out.seen), {*out.skip}, {*self.to_send_alone(out)}
        for row, job in enumerate(self.members):
            if job in again:
                continue
            if row in seen:
                yield job, SegmentOut("seen", (), ((0, seen[row]),)), None
            elif row in skip:  # seen, and forgotten meanwhile
                yield job, SegmentOut("added"), None
            else:
                yield job, SegmentOut(out.status), next(outcomes, now)

    def to_send_alone(self, out: SegmentOut) -> list[Job]:
        """The requests that the store did not take because of others: no room for all, or one is in conflict."""
        if out.status == "added":
            return []
        seen = {row for row, _ in out.seen}
        left = [job for row, job in enumerate(self.members) if row not in seen]
        for job in left:
            job.alone = True
        return left


def members_of(jobs: Sequence[Job]) -> list[Job]:
    """The requests of segments."""
    return [one for job in jobs for one in (job.members if isinstance(job, JoinedRows) else (job,))]


def joined(jobs: Sequence[Job]) -> list[Job]:
    """Requests as segments: neighbours that are single rows of one kind are joined, and everything is encoded."""
    if len(jobs) == 1:
        return [encoded(jobs[0])]
    found: list[Job] = []
    run: list[Job] = []
    for job in jobs:
        if run and not (job.joins and not job.alone and _alike(run[0].segment, job.segment)):
            found.append(_segment(run))
            run = []
        if job.joins and not job.alone:
            run.append(job)
        else:
            found.append(encoded(job))
    return [*found, _segment(run)] if run else found


def _alike(first: Any, other: Any) -> bool:
    return first.space == other.space and len(first.ids) == len(other.ids)


def _segment(run: list[Job]) -> Job:
    first = run[0]
    if len(run) == 1:
        return encoded(first)
    rows: list[Any] = [job.segment for job in run]
    X = np.concatenate([one.X for one in rows])
    numbers = isinstance(rows[0].y, np.ndarray)
    y = np.concatenate([one.y for one in rows]) if numbers else [one.y[0] for one in rows]
    ids = tuple([one.ids[0] for one in rows]) if rows[0].ids else ()
    digests = tuple([job.digests[0] for job in run]) if ids else ()
    whole = Rows(rows[0].space, None, X, y, ids=ids)
    size, flops = sum([job.size for job in run]), sum([job.flops for job in run])
    return encoded(JoinedRows(whole, digests, size, flops, first.reply, members=run))
