"""The committer: one task per process commits what all models have waiting, one pipeline per tick, and applies it.

What queues up while one pipeline is under way goes with the next: low latency at low load, large commits at high
load, no timers (only answers, which have been given by then, are gathered for some milliseconds before they are
recorded). Per model at most one append is in flight. Append first, apply second, answer third. Where the store is a
cluster every server in it has pipelines of its own, one at a time, so that a slow one holds up its own models only.

A pipeline that fails leaves the fate of its appends unknown. They are sent again unchanged (same writer, sequence
and uid, so that the script recognises them) until the store says what became of them or their time is up; then
their waiters get 503, and what did land is applied with the next append like anybody else's entry.
"""

import asyncio
import itertools
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from core.entry import Overlap, Rows, Segment
from service.errors import OnepassError, QueueFull, StoreDown
from service.runtime.answer_writer import Answered, AnswerWriter
from service.runtime.applier import DOWN, Applier, fail, gone, reject, resolve
from service.runtime.replica import THREAD_FLOPS, Job, Replica, Reply, Work
from service.runtime.stats import Stats
from service.store import codec
from service.store.log import Append, Appended, Log, SegmentIn
from service.store.redis.connection import Safety

logger = logging.getLogger(__name__)

PROBE_S = 0.2
"""How often a store that is down is asked whether it is back."""
OTHERS_BYTES = 16 * 2**10
"""Entries of others up to this size are applied at once, like our own; some tens of small ones."""
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
        ping: raises StoreDown while the store does not answer.
        applier: finishes what has been sent.
        forget: drops a replica whose model is gone.
        failpoint: called with the name of a point that fault tests crash at; does nothing otherwise.

    Attributes:
        store_down: whether the store is known not to answer; requests are refused at once then.
        touched: models whose log has grown since the snapshotter last looked.
        writer: what the uids of this process begin with.
    """

    def __init__(
        self,
        log: Log,
        stats: Stats,
        limits: Limits,
        *,
        ping: Callable[[], Awaitable[None]],
        applier: Applier,
        forget: Callable[[Replica], None],
        failpoint: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._log, self._stats, self._limits = log, stats, limits
        self._ping, self.applier, self._forget, self._failpoint = ping, applier, forget, failpoint
        self.writer = secrets.token_hex(8)
        self._sequence = itertools.count(1)
        self._ready: dict[Replica, None] = {}
        self._in_flight: dict[str, list[Work]] = {}
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
        loop = asyncio.get_running_loop()
        rows = len(segment.X) if isinstance(segment, Rows | Overlap) else 1
        sent = SegmentIn(codec.encode(segment), segment.ids, tuple(digests), rows, pending)
        job = Job(segment, sent, loop.create_future())
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
        for work in itertools.chain(*self._in_flight.values()):
            self._give_up(work)
        for replica in itertools.chain(*self._parked.values()):
            self._fail(replica, StoreDown(DOWN))
        self._in_flight, self._parked, self._failed = {}, {}, None
        for replica in [*self._ready]:
            self._fail(replica, StoreDown(DOWN))

    async def _probe(self) -> None:
        for replica in [*self._ready]:
            self._fail(replica, StoreDown(DOWN))
        await asyncio.sleep(PROBE_S)
        try:
            await self._ping()
        except StoreDown:
            return
        self.store_down = False
        logger.info("the store is back")

    async def _tick(self) -> bool:
        """Send one pipeline to every server that has none under way; False when there was nothing to send."""
        works: dict[str, list[Work]] = {}
        for work in self._take():
            works.setdefault(self._log.node_key(work.replica.name), []).append(work)
        answered: dict[str, list[Answered]] = {}
        for replica, found in self.answer_writer.take():
            if (node_key := self._log.node_key(replica.name)) in self._in_flight:
                self.answer_writer.note(replica)
            else:
                answered.setdefault(node_key, []).append((replica, found))
        node_keys = [*works, *(node_key for node_key in answered if node_key not in works)]
        for node_key in node_keys:
            going = self._exchange(node_key, works.get(node_key, []), answered.get(node_key, []))
            if node_key == "":
                await going
            else:
                self._spawn_for_node(node_key, going)
        return bool(node_keys)

    def _spawn_for_node(self, node_key: str, going: Coroutine[Any, Any, None]) -> None:
        """Let one server of several take its time; models of the others need not wait for it."""
        self._in_flight[node_key] = []

        def landed(task: "asyncio.Task[None]") -> None:
            self._node_tasks.discard(task)
            self._in_flight.pop(node_key, None)
            for replica in self._parked.pop(node_key, ()):
                self._ready[replica] = None
            if not task.cancelled() and task.exception() is not None:
                self._failed = task.exception()
            self._wake.set()

        task = asyncio.get_running_loop().create_task(going)
        self._node_tasks.add(task)
        task.add_done_callback(landed)

    async def _exchange(self, node_key: str, works: list[Work], answered: "Sequence[Answered]") -> None:
        """One pipeline to one server, and what follows from it."""
        self._in_flight[node_key] = works
        answers = [found for _, found in answered]
        results, recorded = await self._log.exchange([work.append for work in works], answers, self._safety)
        self._stats.ticks += 1
        if works:
            self._failpoint("appended")
        for work, result in zip(works, results, strict=True):
            if isinstance(result, StoreDown):
                self._unresolved(work, result)
            else:
                await self._settle(work, result)
        self._in_flight[node_key] = []
        for (replica, found), known in zip(answered, recorded, strict=True):
            if known is True:
                self.answer_writer.recorded(replica, found.items)
            elif known is not False:  # where the replica does not join its log, reading on brings the answers anew
                self.answer_writer.note(replica)
        if any(isinstance(result, StoreDown) and result.__cause__ is None for result in [*results, *recorded]):
            await asyncio.sleep(BACKOFF_S)
        if node_key == "":
            del self._in_flight[node_key]

    def _take(self) -> list[Work]:
        """The next append of every model that has something waiting and nothing under way."""
        works: list[Work] = []
        for replica in [*self._ready]:
            del self._ready[replica]
            if replica.busy:
                continue
            if self._in_flight and (node_key := self._log.node_key(replica.name)) in self._in_flight:
                self._parked.setdefault(node_key, []).append(replica)
                continue
            if replica.syncs and not replica.queue and replica.unresolved is None:
                self._spawn(replica, self.applier.read_on(replica))
                continue
            work = replica.unresolved or self._work(replica)
            if work is not None:
                works.append(work)
        return works

    def _work(self, replica: Replica) -> Work | None:
        if replica.down is not None:
            self._fail(replica, replica.down)
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
            writer=self.writer,
            sequence=number,
            new_uid=f"{self.writer}.{number}",
            segments=tuple(job.sent for job in jobs),
            id_ttl_ms=self._limits.id_ttl_ms,
            id_cap=self._limits.ids_max,
            max_bytes=self._limits.read_bytes_max,
        )
        deadline = asyncio.get_running_loop().time() + self._limits.timeout_s
        replica.in_flight = True
        return Work(replica, append, jobs, syncs, deadline)

    def _unresolved(self, work: Work, error: StoreDown) -> None:
        """Send it again with the next tick, or give up when its time is up."""
        self._stats.store_errors += 1
        if error.__cause__ is not None:  # an answer nobody foresaw: this model's trouble, not the store's
            self._give_up(work)
            return
        if asyncio.get_running_loop().time() < work.deadline:
            work.replica.unresolved, work.resent = work, True
            self._mark(work.replica)
            return
        if not self._node_tasks:  # one server is the store; of several, the others may be well
            logger.warning("the store is down: %s", error.detail)
            self.store_down = True
        self._give_up(work)

    def _give_up(self, work: Work) -> None:
        """Answer those who wait for an append, and those queued behind it: nothing else would wake them."""
        work.replica.unresolved, work.replica.in_flight = None, False
        fail(work, StoreDown(DOWN))
        self._fail(work.replica, StoreDown(DOWN))

    def _fail(self, replica: Replica, error: OnepassError) -> None:
        """Answer everybody who waits for a model with an error."""
        self._ready.pop(replica, None)
        if replica.unresolved is not None:
            fail(replica.unresolved, error)
            replica.unresolved, replica.in_flight = None, False
        for job in replica.queue:
            reject(job.reply, error)
        replica.queue.clear()
        resolve(replica.syncs, error)
        replica.syncs.clear()

    # ---------------------------------------------------------------- what the store said

    async def _settle(self, work: Work, appended: Appended) -> None:
        replica = work.replica
        replica.unresolved, replica.in_flight = None, False
        self.touched[replica] = None
        if appended.code == "ok":
            if self._large(work, appended):
                self._spawn(replica, self.applier.finish(work, appended))
            else:
                await self.applier.finish(work, appended)
                self.answer_writer.note(replica)
        elif appended.code == "gone":
            self._forget(replica)
            error = gone(replica.name, appended.head)
            fail(work, error)
            self._fail(replica, error)
        elif appended.code == "foreign":
            down = replica.quarantine("its log holds an entry that is not ours")
            fail(work, down)
            self._fail(replica, down)
        elif appended.code == "fenced":
            fail(work, StoreDown(DOWN))
        else:
            self._spawn(replica, self.applier.reload_and_requeue(work, appended))
        if replica.queue or replica.syncs:
            self._mark(replica)

    def _large(self, work: Work, appended: Appended) -> bool:
        """Whether finishing it takes long enough to let the other models go on meanwhile."""
        others = sum(len(blob) for raw in appended.entries for _, blob, _ in raw.segments)
        own = work.replica.machine.flops_to_apply([job.segment for job in work.jobs])
        return others > OTHERS_BYTES or not appended.complete or own > THREAD_FLOPS

    def _spawn(self, replica: Replica, work: "Awaitable[None]") -> None:
        """Go on with one model in a task of its own, so that the others need not wait."""
        replica.busy = True

        async def run() -> None:
            try:
                await work
            finally:
                replica.busy = False
                self.answer_writer.note(replica)
                if replica.queue or replica.syncs:
                    self._mark(replica)

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
