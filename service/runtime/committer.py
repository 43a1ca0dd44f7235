"""The committer: one task per process appends what all models have waiting, one pipeline per tick, and applies it.

Requests that arrive while a pipeline is under way go with the next one: low latency at low load, large commits at high
load, no timers (only the storing of answers waits for some milliseconds; clients have been answered by then). A model
has at most one append in flight. Append first, apply second, answer third. In a cluster every server has pipelines of
its own, one at a time, so that a slow server delays its own models only.

A pipeline that fails leaves the fate of its appends unknown. They are sent again unchanged (same writer, sequence and
uid, so that the script recognises them) until the store reports their fate or their time is up; then the waiting
requests get 503, and an append that did succeed is applied with the next one, like an entry of another process.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from core.entry import Overlap, Rows, Segment
from service.errors import ModelDown, OnepassError, QueueFull, StoreDown, Unavailable
from service.runtime.answer_writer import Answered, AnswerWriter
from service.runtime.applier import DOWN, Applier, fail, gone, reject, resolve
from service.runtime.replica import THREAD_FLOPS, Commit, Job, Replica, Reply
from service.runtime.stats import Stats
from service.store import codec
from service.store.log import Append, Appended, Log, SegmentIn
from service.store.redis.connection import Safety

logger = logging.getLogger(__name__)

PROBE_S = 0.2
"""How often a store that is down is pinged."""
OTHERS_BYTES = 16 * 2**10
"""Entries of other processes up to this size are applied at once, like our own; some tens of small ones."""
BACKOFF_S = 0.02
"""Pause after a pipeline that failed."""
TICK_BYTES_MAX = 32 * 2**20
"""Most bytes of one model that go with one tick; a single larger request goes alone."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the committer; see the settings of the same names."""

    queue_max: int
    tick_segments_max: int
    id_ttl_ms: int
    ids_max: int
    read_bytes_max: int
    timeout_s: float
    replicas_min: int = 0


class Committer:
    """Commits and applies for every loaded model.

    Args:
        log: the store's logs.
        stats: counters.
        limits: bounds.
        writer: the prefix of the uids of this process.
        ping: raises StoreDown while the store does not answer.
        applier: applies and answers what was appended.
        forget: drops a replica whose model was deleted.
        failpoint: called with the name of a point that fault tests crash at.

    Attributes:
        store_down: whether the store is known not to answer; requests are refused at once then.
        touched: models whose log has grown since the snapshotter last looked.
    """

    def __init__(
        self,
        log: Log,
        stats: Stats,
        limits: Limits,
        *,
        writer: str,
        ping: Callable[[], Awaitable[None]],
        applier: Applier,
        forget: Callable[[Replica], None],
        failpoint: Callable[[str], None] | None = None,
    ) -> None:
        self._log, self._stats, self._limits, self._writer = log, stats, limits, writer
        self._ping, self.applier, self._forget, self._failpoint = ping, applier, forget, failpoint
        self._sequence = itertools.count(1)
        self._ready: dict[Replica, None] = {}
        self._in_flight: dict[str, list[Commit]] = {}
        self._parked: dict[str, list[Replica]] = {}
        self._failed: BaseException | None = None
        wait_ms = int(1000 * limits.timeout_s / 2)
        self._safety = Safety(limits.replicas_min, wait_ms) if limits.replicas_min else None
        self.touched: dict[Replica, None] = {}
        self._wake = asyncio.Event()
        self.answer_writer = AnswerWriter(log, self._wake.set)
        self._tasks: set[asyncio.Task[None]] = set()
        self._node_tasks: set[asyncio.Task[None]] = set()
        self.store_down = False

    # ---------------------------------------------------------------- what requests call

    def submit(
        self, replica: Replica, segment: Segment, digests: Sequence[str] = (), pending: str | None = None
    ) -> "asyncio.Future[Reply]":
        """Queue a segment of a loaded model; resolves when it is committed and applied.

        Args:
            replica: the model.
            segment: what to commit; its ``ids`` are remembered.
            digests: one per id.
            pending: the tracked prediction this feedback answers.

        Raises:
            QueueFull: the model has as many requests waiting as it may.
            StoreDown: the store is known to be down.
        """
        if self.store_down:
            raise StoreDown(DOWN)
        if len(replica.queue) >= self._limits.queue_max:
            raise QueueFull(f"model {replica.name} has {len(replica.queue)} requests waiting")
        rows = len(segment.X) if isinstance(segment, Rows | Overlap) else 1
        sent = SegmentIn(codec.encode(segment), segment.ids, tuple(digests), rows, pending)
        job = Job(segment, sent, asyncio.get_running_loop().create_future())
        replica.queue.append(job)
        self._mark(replica)
        return job.reply

    def sync(self, replica: Replica) -> "asyncio.Future[None]":
        """Resolves when the replica has applied everything that is on its log now."""
        if self.store_down:
            raise StoreDown(DOWN)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        replica.syncs.append(future)
        self._mark(replica)
        return future

    def _mark(self, replica: Replica) -> None:
        self._ready[replica] = None
        self._wake.set()

    # ---------------------------------------------------------------- the loop

    async def run(self) -> None:
        """Tick for ever; the supervisor restarts it should it die."""
        try:
            while True:
                if self.store_down:
                    await self._probe()
                elif not await self._tick():
                    if self._failed is not None:
                        raise self._failed
                    self._wake.clear()
                    if not (self._ready or self.answer_writer.due):
                        await self._wake.wait()
        finally:
            self._abandon()

    async def drain(self) -> None:
        """Wait until everything queued is answered."""
        while self._ready or self._in_flight or self._parked or self.answer_writer.waiting or self._tasks:  # noqa: ASYNC110 - only on stop
            await asyncio.sleep(0.005)

    def _abandon(self) -> None:
        for task in self._node_tasks:
            task.cancel()
        for commit in itertools.chain(*self._in_flight.values()):
            self._give_up(commit)
        self._fail_all(*self._parked.values(), self._ready)
        self._in_flight, self._parked, self._failed = {}, {}, None

    async def _probe(self) -> None:
        self._fail_all(self._ready)
        await asyncio.sleep(PROBE_S)
        try:
            await self._ping()
        except StoreDown:
            return
        self.store_down = False
        logger.info("the store is back")

    async def _tick(self) -> bool:
        """Send one pipeline to every server that has none under way; False when there was nothing to send."""
        commits: dict[str, list[Commit]] = {}
        for commit in self._take():
            commits.setdefault(self._log.node_key(commit.replica.name), []).append(commit)
        answered: dict[str, list[Answered]] = {}
        for replica, found in self.answer_writer.take() if self.answer_writer.due else ():
            if (node_key := self._log.node_key(replica.name)) in self._in_flight:
                self.answer_writer.note(replica)
            else:
                answered.setdefault(node_key, []).append((replica, found))
        for node_key in dict.fromkeys((*commits, *answered)):
            exchange = self._exchange(node_key, commits.get(node_key, []), answered.get(node_key, []))
            if node_key == "":
                await exchange
            else:
                self._spawn_for_node(node_key, exchange)
        return bool(commits or answered)

    def _spawn_for_node(self, node_key: str, exchange: Coroutine[Any, Any, None]) -> None:
        """Exchange with one server of several in a task; models of the others do not wait for it."""
        self._in_flight[node_key] = []

        def landed(task: "asyncio.Task[None]") -> None:
            self._node_tasks.discard(task)
            self._in_flight.pop(node_key, None)
            for replica in self._parked.pop(node_key, ()):
                self._ready[replica] = None
            if not task.cancelled() and task.exception() is not None:
                self._failed = task.exception()
            self._wake.set()

        task = asyncio.get_running_loop().create_task(exchange)
        self._node_tasks.add(task)
        task.add_done_callback(landed)

    async def _exchange(self, node_key: str, commits: list[Commit], answered: "Sequence[Answered]") -> None:
        """One pipeline to one server, and what follows from it."""
        self._in_flight[node_key] = commits
        answers = [found for _, found in answered]
        results, recorded = await self._log.exchange([commit.append for commit in commits], answers, self._safety)
        self._stats.ticks += 1
        if commits and self._failpoint is not None:
            self._failpoint("appended")
        unreachable = False
        for commit, result in zip(commits, results, strict=True):
            if isinstance(result, StoreDown):
                unreachable = unreachable or result.__cause__ is None
                self._resend(commit, result)
            elif isinstance(result, Unavailable):  # it was not carried out, and will not be for now
                commit.replica.unresolved, commit.replica.in_flight = None, False
                self._fail_commit(commit, result)
            else:
                await self._settle(commit, result)
        self._in_flight[node_key] = []
        for (replica, found), known in zip(answered, recorded, strict=True):
            if isinstance(known, Unavailable):
                unreachable = unreachable or (isinstance(known, StoreDown) and known.__cause__ is None)
                self.answer_writer.note(replica)
            elif known:  # else the replica does not join its log: reading on regenerates the answers
                self.answer_writer.recorded(replica, found.items)
        if unreachable:
            await asyncio.sleep(BACKOFF_S)
        if node_key == "":
            del self._in_flight[node_key]

    def _take(self) -> list[Commit]:
        """The next append of every model that has something waiting and nothing under way."""
        commits: list[Commit] = []
        for replica in [*self._ready]:
            del self._ready[replica]
            if replica.busy:
                continue
            if self._in_flight and (node_key := self._log.node_key(replica.name)) in self._in_flight:
                self._parked.setdefault(node_key, []).append(replica)
            elif replica.syncs and not replica.queue and replica.unresolved is None:
                self._spawn(replica, self.applier.read_on(replica))
            elif (commit := replica.unresolved or self._next_commit(replica)) is not None:
                commits.append(commit)
        return commits

    def _next_commit(self, replica: Replica) -> Commit | None:
        if replica.down is not None:
            self._fail(replica, ModelDown(replica.down))
        jobs: list[Job] = []
        size = 0
        while replica.queue and len(jobs) < self._limits.tick_segments_max:
            size += len(replica.queue[0].sent.blob)
            if jobs and size > TICK_BYTES_MAX:
                break
            jobs.append(replica.queue.popleft())
        if not jobs:
            return None
        syncs, replica.syncs = replica.syncs, []
        number = next(self._sequence)
        append = Append(
            name=replica.name,
            incarnation=replica.incarnation,
            version=replica.version,
            uid=replica.uid,
            writer=self._writer,
            sequence=number,
            new_uid=f"{self._writer}.{number}",
            segments=tuple([job.sent for job in jobs]),
            id_ttl_ms=self._limits.id_ttl_ms,
            id_cap=self._limits.ids_max,
            max_bytes=self._limits.read_bytes_max,
        )
        deadline = asyncio.get_running_loop().time() + self._limits.timeout_s
        replica.in_flight = True
        return Commit(replica, append, jobs, syncs, deadline)

    def _resend(self, commit: Commit, error: StoreDown) -> None:
        """Send an append of unknown fate again with the next tick, or give up when its time is up."""
        self._stats.store_errors += 1
        if error.__cause__ is not None:  # an unexpected answer: this model's trouble, not the store's
            self._give_up(commit)
            return
        if asyncio.get_running_loop().time() < commit.deadline:
            commit.replica.unresolved, commit.resent = commit, True
            self._mark(commit.replica)
            return
        if not self._node_tasks:  # one server is the store; of several, the others may be well
            logger.warning("the store is down: %s", error.detail)
            self.store_down = True
        self._give_up(commit)

    def _give_up(self, commit: Commit) -> None:
        """Fail the requests of an append and those queued behind it: nothing else would wake them."""
        commit.replica.unresolved, commit.replica.in_flight = None, False
        fail(commit, StoreDown(DOWN))
        self._fail(commit.replica, StoreDown(DOWN))

    def _fail_all(self, *groups: Iterable[Replica]) -> None:
        for replica in [*itertools.chain(*groups)]:
            self._fail(replica, StoreDown(DOWN))

    def _fail(self, replica: Replica, error: OnepassError) -> None:
        """Fail everything that waits for a model."""
        self._ready.pop(replica, None)
        if replica.unresolved is not None:
            fail(replica.unresolved, error)
            replica.unresolved, replica.in_flight = None, False
        for job in replica.queue:
            reject(job.reply, error)
        replica.queue.clear()
        resolve(replica.syncs, error)
        replica.syncs.clear()

    # ---------------------------------------------------------------- results of appends

    async def _settle(self, commit: Commit, appended: Appended) -> None:
        replica = commit.replica
        replica.unresolved, replica.in_flight = None, False
        self.touched[replica] = None
        if appended.code == "ok":
            if self._large(commit, appended):
                self._spawn(replica, self.applier.finish(commit, appended))
            else:
                await self.applier.finish(commit, appended)
                self.answer_writer.note(replica)
        elif appended.code == "gone":
            self._forget(replica)
            self._fail_commit(commit, gone(replica.name, appended.head))
        elif appended.code == "foreign":
            self._fail_commit(commit, replica.quarantine("its log holds an entry that is not ours"))
        elif appended.code == "fenced":
            fail(commit, StoreDown(DOWN))
        else:
            self._spawn(replica, self.applier.reload_and_requeue(commit, appended))
        if replica.queue or replica.syncs:
            self._mark(replica)

    def _fail_commit(self, commit: Commit, error: OnepassError) -> None:
        fail(commit, error)
        self._fail(commit.replica, error)

    def _large(self, commit: Commit, appended: Appended) -> bool:
        """Whether finishing it takes long enough to let the other models go on meanwhile."""
        commit.flops = commit.replica.machine.flops_to_apply([job.segment for job in commit.jobs])
        others = sum(len(blob) for raw in appended.entries for _, blob, _ in raw.segments) if appended.entries else 0
        return others > OTHERS_BYTES or not appended.complete or commit.flops > THREAD_FLOPS

    def _spawn(self, replica: Replica, step: "Awaitable[None]") -> None:
        """Go on with one model in a task of its own; the others do not wait."""
        replica.busy = True

        async def run() -> None:
            try:
                await step
            finally:
                replica.busy = False
                self.answer_writer.note(replica)
                if replica.queue or replica.syncs:
                    self._mark(replica)

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
