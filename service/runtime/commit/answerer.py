"""Answers the requests of an append once its entry is applied, each with its own outcome."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from core.entry import Outcome, Switch
from service.errors import IdsFull, ModelDown, OnepassError, RequestConflict, StoreDown, Unreplicated
from service.runtime.commit import responses
from service.runtime.commit.committer import DOWN
from service.runtime.commit.jobs import Commit, Job, RowJob
from service.runtime.commit.joined_rows import JoinedRows, members_of
from service.runtime.commit.responses import ANSWER_BYTES, FirstAnswers
from service.runtime.replicas.replica import Replica, Reply
from service.runtime.stats import Stats
from service.runtime.threads import in_thread_if_large
from service.store.log import codec
from service.store.log.log import Appended, SeenId, SegmentOut

logger = logging.getLogger(__name__)

FEW_IDS = 100
"""Repeated ids that are answered at once, where the answers are at hand."""
UNREPLICATED = (
    "committed, but not yet on as many of the store's replicas as ONEPASS_MIN_REPLICAS asks for: a failover now may "
    "lose it; send the request again with the same id"
)

Seen = Sequence[tuple[int, SeenId]]
"""The rows of a request whose ids had been seen, and what is remembered of each."""


class Answerer:
    """Answers requests.

    Args:
        first_answers: finds the answers to ids that come again.
        stats: counters.
        failpoint: called with the name of a point that fault tests crash at.
    """

    def __init__(
        self, first_answers: FirstAnswers, stats: Stats, failpoint: Callable[[str], None] | None = None
    ) -> None:
        self._first_answers, self._stats, self._failpoint = first_answers, stats, failpoint
        self._looking: set[asyncio.Task[None]] = set()

    @property
    def idle(self) -> bool:
        """Whether no first answer is being looked for."""
        return not self._looking

    def answer(self, replica: Replica, commit: Commit, appended: Appended, answers: Sequence[Outcome]) -> None:
        """Answer every request of an append.

        Args:
            replica: the model.
            commit: the append and its requests.
            appended: its result.
            answers: to the segments that were added, in order; none where the entry was not applied here.
        """
        if answers:
            self._count(commit, appended, answers)
        left = iter(answers)
        for job, out in zip(commit.jobs, appended.segments, strict=True):
            now = next(left, None) if out.status == "added" else None
            if not appended.safe:
                self._stats.unreplicated += len(members_of([job]))
                job.reject(Unreplicated(UNREPLICATED))
            elif isinstance(job, JoinedRows) and now is not None and now.refusal is None and not (out.seen or out.skip):
                for one, learned in zip(job.members, codec.of_rows(now), strict=True):
                    if not one.reply.done():
                        one.reply.set_result(Reply(learned))
            elif isinstance(job, JoinedRows):
                for one, own, found in job.sort(out, now):
                    self._answer(replica, commit, one, own, found)
            else:
                self._answer(replica, commit, job, out, now)

    def _answer(
        self, replica: Replica, commit: Commit, job: Job | RowJob, out: SegmentOut, now: Outcome | None
    ) -> None:
        """Answer one request; ``now``: the outcome of what was learned of it now."""
        if job.reply.done():
            return
        if out.status == "full":
            ids = out.remembered
            count, wait_ms = (0, 0) if ids is None else (ids.count, ids.wait_ms)
            job.reject(IdsFull(replica.name, commit.append.id_cap, count, wait_ms))
        elif out.status == "stateless":
            job.reject(StoreDown("the pieces of the request are not all in the store: send it again"))
        elif out.status == "added" and now is None:
            job.reject(StoreDown(DOWN))
        elif out.seen:
            self._answer_again(replica, job, out.seen, now)
        elif now is not None and now.refusal is not None:
            job.reject(RequestConflict(now.refusal))
        elif now is not None:
            job.reply.set_result(Reply(now))

    def _count(self, commit: Commit, appended: Appended, answers: Sequence[Outcome]) -> None:
        if self._failpoint is not None:
            self._failpoint("applied")
        self._stats.entries += 1
        outs = zip(commit.jobs, appended.segments, strict=True)
        self._stats.segments += len(members_of([job for job, out in outs if out.status == "added"]))
        for answer in answers:
            if answer.overlap_rows is not None:
                self._count_switches(commit, appended)
                return

    def _count_switches(self, commit: Commit, appended: Appended) -> None:
        for job, out in zip(commit.jobs, appended.segments, strict=True):
            if out.status == "added" and isinstance(job.segment, Switch):
                self._stats.switches[job.segment.action] += 1

    # ---------------------------------------------------------------- ids that come again

    def _answer_again(self, replica: Replica, job: Job | RowJob, seen: Seen, now: Outcome | None) -> None:
        """Answer a request some of whose ids had been seen; ``now``: the answer to its other rows, if it has any."""
        for row, known in seen:
            conflict = responses.mismatch(job, row, known)
            if conflict is not None:
                job.reject(conflict)
                return
        if now is not None and now.refusal is not None:
            job.reject(RequestConflict(now.refusal))
            return
        if len(seen) <= FEW_IDS:
            first = [replica.answer(job.segment.ids[row], known.answer) for row, known in seen]
            if None not in first:
                earlier = [(row, answer) for (row, _), answer in zip(seen, first, strict=True) if answer]
                self._given(job, responses.reply(job, now, earlier))
                return
        task = asyncio.get_running_loop().create_task(self._look(replica, job, seen, now))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look(self, replica: Replica, job: Job | RowJob, seen: Seen, now: Outcome | None) -> None:
        """Find the first answers, without keeping anybody else waiting."""
        rows = [row for row, _ in seen]
        try:
            found = await self._first_answers.find(replica, [(job.segment.ids[row], known) for row, known in seen])
            earlier = [*zip(rows, found, strict=True)]
            reply = await in_thread_if_large(ANSWER_BYTES * len(rows), responses.reply, job, now, earlier)
        except OnepassError as error:
            job.reject(error)
        except Exception as error:
            logger.exception("model %s: the answer to a repeated id could not be found", replica.name)
            job.reject(ModelDown(f"model {replica.name}: the first answer cannot be found: {error!r}"))
        else:
            self._given(job, reply)

    def _given(self, job: Job | RowJob, reply: Reply | OnepassError) -> None:
        if isinstance(reply, OnepassError):
            job.reject(reply)
        elif not job.reply.done():
            self._stats.duplicates += reply.duplicates
            job.reply.set_result(reply)
