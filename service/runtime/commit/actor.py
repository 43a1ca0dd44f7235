"""The actor of a loaded model: queues its requests, appends them to the log, applies the log, answers the requests.

    requests -> queue -> joined (jobs.py), one append in flight -> entries of others applied -> own entry applied
    -> requests answered

Only the actor makes its replica apply entries. It finishes short work inside the committer's call (``landed``),
without a task. Everything else runs in a task of this model: many entries of other processes, long work, a model that
is locked, reading on in the log, a reload. So no model waits for another.

A request is answered only after it is committed and applied. If its fate is unknown, the answer says so (503), and the
client's id makes a retry safe.
"""

import asyncio
import contextvars
import logging
from collections.abc import Coroutine, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from core.entry import Outcome, Segment
from core.model import STATE_VERSION, cost
from service.errors import ModelDown, ModelLost, OnepassError, StoreDown
from service.runtime import threads
from service.runtime.commit.committer import DOWN, REFUSED
from service.runtime.commit.jobs import Commit, Job, JobQueue, RowJob, check_fits, join, resolve, row_job, sent, size_of
from service.runtime.commit.shared import Shared
from service.runtime.replicas.batches import Batch, small_batches
from service.runtime.replicas.named_states import in_pieces
from service.runtime.replicas.replica import Inbox, Replica, Reply
from service.runtime.rows.row_plan import RowPlan
from service.store.log import codec
from service.store.log.appends import Append, Appended, SegmentIn
from service.store.log.entries import OTHER

logger = logging.getLogger(__name__)

_sent = attrgetter("sent")
LITTLE_BYTES, LITTLE_ROWS = 2**20, 1024
"""Most bytes and rows that are encoded and finished at once: a millisecond, and less than ``NAMED_BYTES``."""


class Actor:
    """The actor of one replica: its ``inbox``, and a ``Source`` of appends.

    Args:
        replica: the model.
        shared: its collaborators.
    """

    __slots__ = ("_commit", "_encoding", "_loop", "_queue", "_replica", "_shared", "_syncs", "_task", "name")

    def __init__(self, replica: Replica, shared: Shared) -> None:
        self._replica, self._shared, self.name = replica, shared, replica.name
        self._queue = JobQueue(replica.name, shared.waiting, shared.limits.queue_max)
        self._syncs: list[asyncio.Future[None]] = []
        self._commit: Commit | None = None
        self._task: asyncio.Task[None] | None = None
        self._encoding = 0
        self._loop = asyncio.get_running_loop()  # to ask for it each time would cost a system call per row

    # ---------------------------------------------------------------- what requests call

    @property
    def waiting(self) -> int:
        """Requests that wait for the next append."""
        return len(self._queue.jobs)

    @property
    def in_flight(self) -> bool:
        """Whether an append is under way or being finished."""
        return self._commit is not None

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return not (self._queue.jobs or self._syncs or self._commit or self._task or self._encoding)

    def submit(
        self, segment: Segment, digests: Sequence[str] = (), pending: str | None = None
    ) -> "asyncio.Future[Reply]":
        """Queue a segment; resolves when it is committed and applied.

        ``digests`` has one for each of its ids, which are remembered; ``pending`` is the tracked prediction that this
        feedback answers.

        Raises:
            QueueFull: the maximum number of requests, or of their bytes, is waiting.
            TooLarge: learning its rows would take minutes or hours.
            StoreDown: the store is known to be down.
            NotFound, Recreated, ModelLost: the model is gone, or the store has lost it.
        """
        if (inbox := self._open()) is not self:
            return inbox.submit(segment, digests, pending)
        size, rows = size_of(segment)
        self._queue.check_room(size)
        flops = cost.flops_to_apply(self._replica.model, (segment,))
        if rows > 1:
            threads.refuse_hours(flops, rows)
        reply: asyncio.Future[Reply] = self._loop.create_future()
        if size > LITTLE_BYTES or rows > LITTLE_ROWS:
            self._shared.waiting.used += size
            self._encoding += 1
            task = self._loop.create_task(self._encoded(segment, digests, pending, size, rows))
            task.add_done_callback(partial(self._queue_large, Job(segment, tuple(digests), size, flops, reply)))
            return reply
        row = row_job(self._replica.model, segment, digests, size, flops, reply) if pending is None else None
        if row is not None:
            self._queue.put(row)
        else:
            encoded = sent(segment, codec.encode(segment), digests, rows, pending)
            self._queue.put(Job(segment, encoded.digests, size, flops, reply, encoded))
        self._go_on()
        return reply

    def submit_row(
        self, plan: RowPlan, values: Sequence[float], label: Any, identity: str, digest: str
    ) -> "asyncio.Future[Reply]":
        """``submit`` of one plain row (F,), as its plan has read it, with the label that the model learns.

        ``identity`` is its id, or ""; ``digest`` is the digest of its label, if it has an id.
        """
        if (inbox := self._open()) is not self:
            return inbox.submit_row(plan, values, label, identity, digest)
        self._queue.check_room(plan.size)
        reply: asyncio.Future[Reply] = self._loop.create_future()
        self._queue.put(RowJob(plan.space, values, label, identity, digest, plan.size, plan.flops, reply))
        self._go_on()
        return reply

    def _open(self) -> Inbox:
        """The inbox to use, another one if the replica has left memory since the caller got it; or raise an error."""
        replica = self._replica
        if self._shared.committer.store_down:
            raise StoreDown(REFUSED)
        if replica.lost:
            raise ModelLost(self.name)
        return self if replica.ledger is not None else self._shared.current(replica).inbox

    async def _encoded(
        self, segment: Segment, digests: Sequence[str], pending: str | None, size: int, rows: int
    ) -> SegmentIn:
        """Encode a large segment in a thread, and write a very large one to the store in pieces."""
        blob = await threads.in_thread_if_large(size, codec.encode, segment)
        return await in_pieces(self._shared.states, self._replica, sent(segment, blob, digests, rows, pending))

    def _queue_large(self, job: Job, encoding: "asyncio.Task[SegmentIn]") -> None:
        """Queue a large segment once it is encoded; its bytes were counted meanwhile."""
        self._shared.waiting.used -= job.size
        self._encoding -= 1
        try:
            job.sent = encoding.result()
            if self._shared.committer.store_down:
                raise StoreDown(REFUSED)
            check_fits(self._replica.model, job.segment)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the waiting request gets it
            job.reject(error)
        if not job.reply.done():
            self._queue.put(job)
            self._go_on()

    def sync(self) -> "asyncio.Future[None]":
        """Resolves when everything now on the log has been applied; ``StoreDown`` if the store is known to be down.

        ``ModelDown``, ``Recreated`` or ``NotFound``: the replica has left memory, and cannot be put back.
        """
        if self._shared.committer.store_down:
            raise StoreDown(REFUSED)
        replica = self._replica
        if replica.ledger is None and not replica.gone:  # two inboxes reading on would apply the same entries to it
            return self._shared.current(replica).inbox.sync()
        future: asyncio.Future[None] = self._loop.create_future()
        self._syncs.append(future)
        self._go_on()
        return future

    def _go_on(self) -> None:
        """Start the next step, unless one is under way, which starts the next when it ends."""
        if self._commit is not None or self._task is not None:
            return
        if self._queue.jobs:
            self._shared.committer.ready(self)
        elif self._syncs:
            self._spawn(self._read_on())
        elif self._replica.ledger is None:
            self._replica.let_go()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Continue in a task of this model."""

        async def run() -> None:
            try:
                await work
            finally:
                self._task = None
                self._shared.answer_writer.enqueue(self._replica)
                contextvars.Context().run(self._go_on)  # the next step serves other requests than this one

        self._task = self._loop.create_task(run())

    # ---------------------------------------------------------------- what the committer calls

    def next_append(self) -> Commit | None:
        """The next append, if there is one."""
        replica, shared = self._replica, self._shared
        if self._commit is not None or self._task is not None:
            return None
        if replica.down is not None:
            self._fail_waiting(ModelDown(replica.down))
        taken, size, flops = self._queue.take(shared.limits.tick_segments_max)
        if not taken:
            return None
        syncs, self._syncs = self._syncs, []
        try:
            jobs = join(taken)
            self._commit = Commit(self, self._append(jobs, size), jobs=jobs, size=size, flops=flops, syncs=syncs)
        except Exception as error:  # noqa: BLE001 - it must not reach the committer, which serves all models
            down = self._broken("its requests could not be appended", error)
            self._shared.waiting.used -= size
            for job in taken:
                job.reject(down)
            resolve(syncs, down)
        return self._commit

    def _append(self, jobs: Sequence[Job], size: int) -> Append:
        replica, shared, number = self._replica, self._shared, next(self._shared.numbers)
        return Append(
            name=replica.name,
            incarnation=replica.incarnation,
            version=replica.version,
            uid=replica.uid,
            writer=shared.writer,
            sequence=number,
            new_uid=f"{shared.writer}.{number}",
            segments=tuple(map(_sent, jobs)),
            id_ttl_ms=shared.limits.id_ttl_ms,
            id_cap=shared.limits.ids_max,
            max_bytes=shared.limits.read_bytes_max,
            listening=-1 if shared.subscribed is None else int(replica.name in shared.subscribed),
            state_version=STATE_VERSION,
            summary=replica.due_summary(self._loop.time()),
            size=size,
        )

    def landed(self, appended: Appended) -> None:
        """Take the append's result."""
        commit = self._commit
        if commit is None:
            return
        if commit.append.summary and appended.made is not None:
            self._replica.summary.settle(commit.append.version, commit.append.summary)
        self._shared.grown[self._replica] = True
        try:
            little = self._little(commit, appended) if appended.code == "ok" else None
        except Exception:  # noqa: BLE001 - it will recur in the model's own task
            little = None
        if little is not None:
            self._finish_now(commit, appended, little)
        else:
            self._spawn(self._finish(commit, appended))

    def lost(self, error: OnepassError) -> None:
        """Fail the append, which was not carried out or whose fate is unknown, and everything that waits."""
        if self._commit is not None:
            self._end(self._commit, error)
        self._fail_waiting(error)  # nothing else would wake them up

    def _end(self, commit: Commit, error: OnepassError | None = None) -> None:
        """End the append; with an error, its requests fail."""
        self._commit = None
        self._shared.waiting.used -= commit.size
        if error is not None:
            commit.fail(error)

    def _fail_waiting(self, error: OnepassError) -> None:
        """Fail everything that waits and is not in flight yet."""
        self._queue.fail(error)
        resolve(self._syncs, error)

    # ---------------------------------------------------------------- little work: at once

    def _little(self, commit: Commit, appended: Appended) -> list[Batch] | None:
        """The batches to apply, if they are short enough to run without yielding."""
        replica = self._replica
        if not appended.complete or replica.lock.locked() or commit.size > LITTLE_BYTES:
            return None
        batches, flops = list[Batch](), 0.0
        if appended.entries:
            others = [raw for raw in appended.entries if raw.version > replica.version]
            batches = small_batches(others, replica.model)
            if others and not batches:
                return None
            flops = sum([batch.flops(replica.model) for batch in batches])
        if (own := commit.entry(appended, replica.version)) is not None:
            batches.append(own)
            flops += commit.flops
        if flops > threads.THREAD_FLOPS:
            return None
        replica.saved.flops += flops
        return batches

    def _finish_now(self, commit: Commit, appended: Appended, batches: list[Batch]) -> None:
        """``_finish`` for little work."""
        replica = self._replica
        try:
            answers: list[Outcome] = []
            for batch in batches:  # our own is the last one
                answers = replica.apply_now(batch)
            self._answer(commit, appended, answers)
        except OnepassError as error:
            self._end(commit, error)
        except Exception as error:  # noqa: BLE001 - logged, and the model is taken out of service
            self._end(commit, self._broken("a commit could not be finished", error))
        if replica.answers.fresh:
            self._shared.answer_writer.enqueue(replica)
        self._go_on()

    def _answer(self, commit: Commit, appended: Appended, answers: list[Outcome]) -> None:
        self._shared.answerer.answer(self._replica, commit, appended, answers)
        for job, out in zip(commit.jobs, appended.segments, strict=True):
            if out.status != "added" and appended.safe:
                again = job.to_send_alone(out)
                commit.size -= sum([one.size for one in again])
                self._queue.put_back(again)
        if commit.syncs:
            resolve(commit.syncs)
        self._end(commit)

    def _broken(self, what: str, error: Exception) -> ModelDown:
        logger.error("model %s: %s", self.name, what, exc_info=error)
        return self._replica.quarantine(f"{what}: {type(error).__name__}")

    # ---------------------------------------------------------------- everything else: in a task

    async def _finish(self, commit: Commit, appended: Appended) -> None:
        """Apply what others committed, then our own entry, then answer; or go back to a state that joins the log."""
        try:
            if appended.code == "ok":
                await self._apply(commit, appended)
            elif appended.code == "gone":
                self.lost(await self._shared.reader.gone(self._replica, appended.head))
            elif appended.code == "evicted":
                self.lost(self._replica.quarantine("the store has evicted its ids, which tell what was learned"))
            elif appended.code == "foreign":
                self.lost(self._replica.quarantine("its log has an entry that Onepass did not write"))
            elif appended.code == "other":
                self.lost(self._replica.quarantine(OTHER))
            elif appended.code == "fenced":
                self._end(commit, StoreDown(DOWN))
            else:
                await self._shared.reader.reload(self._replica, appended.code, appended.head)
                self._put_back(commit, appended)
        except OnepassError as error:
            self._end(commit, error)
        except Exception as error:  # noqa: BLE001 - logged, and the model is taken out of service
            self._end(commit, self._broken("a commit could not be finished", error))

    async def _apply(self, commit: Commit, appended: Appended) -> None:
        replica, reader = self._replica, self._shared.reader
        await reader.apply(replica, appended.entries)
        await reader.up_to(replica, appended.head if appended.made is None else appended.made - 1)
        own = commit.entry(appended, replica.version)
        answers = [] if own is None else await replica.apply(own)
        self._answer(commit, appended, answers)

    def _put_back(self, commit: Commit, appended: Appended) -> None:
        """After a reload: append the requests again, except those that can no longer be appended."""
        self._commit = None
        jobs = commit.members
        for job in jobs:
            if appended.code == "trimmed" and commit.resent and not job.segment.ids:
                # It may have been committed and trimmed; without an id the script cannot tell, and would add it twice.
                job.reject(StoreDown(DOWN))
        self._queue.put_back(jobs)
        self._queue.reject_unfit(self._replica.model)
        self._syncs += commit.syncs

    async def _read_on(self) -> None:
        """Apply everything now on the log, for readers that asked for the head."""
        syncs, self._syncs = self._syncs, []
        try:
            if await self._shared.reader.to_head(self._replica):
                self._queue.reject_unfit(self._replica.model)
            self._shared.grown.setdefault(self._replica, False)
            resolve(syncs)
        except OnepassError as error:
            if self._replica.gone:
                self._fail_waiting(error)
            resolve(syncs, error)
        except Exception as error:  # noqa: BLE001 - likewise
            resolve(syncs, self._broken("it could not read its log", error))
