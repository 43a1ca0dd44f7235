"""The pump: one task per process commits what all models have waiting, one pipeline per tick, and applies it.

What queues up while one pipeline is under way goes with the next: low latency at low load, large commits at high
load, no timers. Per model at most one append is in flight. Append first, apply second, answer third.

A pipeline that fails leaves the fate of its appends unknown. They are sent again unchanged (same writer, sequence
and uid, so that the script recognises them) until the store says what became of them or their time is up; then
their waiters get 503, and what did land is applied with the next append like anybody else's entry.
"""

import asyncio
import itertools
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from core.entry import Entry, Outcome, Rows, Segment
from service.errors import IdsFull, ModelDown, NotFound, OnepassError, QueueFull, StoreDown
from service.runtime import replies
from service.runtime.replica import THREAD_FLOPS, Job, Replica, Reply, Work
from service.runtime.stats import Stats
from service.store import codec
from service.store.codec import Answer
from service.store.log import Append, Appended, Log, RawEntry, ReadOn, SegmentIn, SegmentOut

logger = logging.getLogger(__name__)

ATTEMPTS_MAX = 5
"""How often a request is put back because its replica had to reload."""
PROBE_S = 0.2
"""How often a store that is down is asked whether it is back."""
BACKOFF_S = 0.02
"""Pause after a pipeline that failed."""
ENTRIES_MAX = 1000
"""Most entries read on in one round trip."""
TICK_BYTES_MAX = 32 * 2**20
"""Most bytes of one model that go with one tick; a single larger request goes alone."""
DOWN = "the store does not answer; nothing is known to be learned: send the request again with the same id"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the pump; see the settings of the same names."""

    queue_max: int
    tick_segments_max: int
    id_ttl_ms: int
    ids_max: int
    read_bytes_max: int
    timeout_s: float


class Pump:
    """Commits and applies for every loaded model.

    Args:
        log: the store's logs.
        stats: counters.
        limits: bounds.
        ping: raises StoreDown while the store does not answer.
        reload: brings a replica back to snapshot plus log.
        forget: drops a replica whose model is gone.
        failpoint: called with the name of a point that fault tests crash at; does nothing otherwise.
    """

    def __init__(
        self,
        log: Log,
        stats: Stats,
        limits: Limits,
        *,
        ping: Callable[[], Awaitable[None]],
        reload: Callable[[Replica], Awaitable[None]],
        forget: Callable[[Replica], None],
        failpoint: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._log, self._stats, self._limits = log, stats, limits
        self._ping, self._reload, self._forget, self._failpoint = ping, reload, forget, failpoint
        self._writer = secrets.token_hex(8)
        self._sequence = itertools.count(1)
        self._ready: dict[Replica, None] = {}
        self._unrecorded: dict[Replica, None] = {}
        self._flying: list[Work] = []
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
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
        rows = len(segment.X) if isinstance(segment, Rows) else 1
        sent = SegmentIn(codec.encode(segment), segment.ids, tuple(digests), rows, pending)
        job = Job(segment, sent, loop.create_future(), loop.time() + self._limits.timeout_s)
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

    async def record(self, replica: Replica, version: int) -> None:
        """Write to the store every answer up to a version (a snapshot may follow then)."""
        held = [(identity, *found) for identity, found in replica.answers.items() if found[0] <= version]
        if not held:
            return
        for error in await self._log.record_answers([(replica.name, replica.incarnation, held)]):
            if error is not None:
                raise error
        self._recorded(replica, [identity for identity, _, _ in held])

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
                    self._wake.clear()
                    if not self._ready:
                        await self._wake.wait()
        finally:
            self._abandon()

    async def drain(self) -> None:
        """Wait until everything queued is answered."""
        while self._ready or self._unrecorded or self._tasks:
            await asyncio.sleep(0.005)

    def _abandon(self) -> None:
        for work in self._flying:
            work.replica.unsettled = None
            _fail(work, StoreDown(DOWN))
        self._flying = []
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
        """Send one pipeline; False when there was nothing to send."""
        works = self._take()
        answered = [(replica, self._fresh(replica)) for replica in [*self._unrecorded]]
        self._unrecorded.clear()
        if not works and not answered:
            return False
        self._flying = works
        answers = [(replica.name, replica.incarnation, found) for replica, found in answered]
        results, unrecorded = await self._log.exchange([work.append for work in works], answers)
        self._stats.ticks += 1
        self._failpoint("appended")
        for work, result in zip(works, results, strict=True):
            if isinstance(result, StoreDown):
                self._unsettled(work, result)
            else:
                await self._settle(work, result)
        self._flying = []
        for (replica, found), error in zip(answered, unrecorded, strict=True):
            if error is None:
                self._recorded(replica, [identity for identity, _, _ in found])
            else:
                self._unrecorded[replica] = None
        if any(isinstance(result, StoreDown) for result in [*results, *unrecorded]):
            await asyncio.sleep(BACKOFF_S)
        return True

    def _fresh(self, replica: Replica) -> list[tuple[str, int, bytes]]:
        return [(identity, *replica.answers[identity]) for identity in replica.fresh if identity in replica.answers]

    def _recorded(self, replica: Replica, identities: Sequence[str]) -> None:
        known = set(identities)
        replica.fresh = [identity for identity in replica.fresh if identity not in known]
        for identity in known:
            replica.answers.pop(identity, None)

    def _take(self) -> list[Work]:
        """The next append of every model that has something waiting and nothing under way."""
        works: list[Work] = []
        for replica in [*self._ready]:
            del self._ready[replica]
            if replica.busy:
                continue
            if replica.syncs and not replica.queue and replica.unsettled is None:
                self._spawn(replica, self._read_on(replica))
                continue
            work = replica.unsettled or self._work(replica)
            if work is not None:
                works.append(work)
        return works

    def _work(self, replica: Replica) -> Work | None:
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
            segments=tuple(job.sent for job in jobs),
            id_ttl_ms=self._limits.id_ttl_ms,
            id_cap=self._limits.ids_max,
            max_bytes=self._limits.read_bytes_max,
        )
        deadline = asyncio.get_running_loop().time() + self._limits.timeout_s
        return Work(replica, append, jobs, syncs, deadline)

    def _unsettled(self, work: Work, error: StoreDown) -> None:
        """Send it again with the next tick, or give up when its time is up."""
        self._stats.store_errors += 1
        if asyncio.get_running_loop().time() < work.deadline:
            work.replica.unsettled = work
            self._mark(work.replica)
            return
        logger.warning("the store is down: %s", error.detail)
        self.store_down = True
        work.replica.unsettled = None
        _fail(work, error=StoreDown(DOWN))

    def _fail(self, replica: Replica, error: OnepassError) -> None:
        """Answer everybody who waits for a model with an error."""
        self._ready.pop(replica, None)
        if replica.unsettled is not None:
            _fail(replica.unsettled, error)
            replica.unsettled = None
        for job in replica.queue:
            _reject(job.reply, error)
        replica.queue.clear()
        _resolve(replica.syncs, error)
        replica.syncs.clear()

    # ---------------------------------------------------------------- what the store said

    async def _settle(self, work: Work, appended: Appended) -> None:
        replica = work.replica
        replica.unsettled = None
        if appended.code == "ok":
            if self._large(work, appended):
                self._spawn(replica, self._finish(work, appended))
            else:
                await self._finish(work, appended)
        elif appended.code == "gone":
            self._forget(replica)
            error = NotFound(f"model {replica.name} was deleted")
            _fail(work, error)
            self._fail(replica, error)
        elif appended.code == "fenced":
            _fail(work, StoreDown(DOWN))
        else:
            self._spawn(replica, self._start_over(work, appended))
        if replica.queue or replica.syncs:
            self._mark(replica)

    def _large(self, work: Work, appended: Appended) -> bool:
        """Whether finishing it takes long enough to let the other models go on meanwhile."""
        rows = sum(job.sent.rows for job in work.jobs)
        return bool(appended.entries) or not appended.complete or work.replica.flops(rows) > THREAD_FLOPS

    def _spawn(self, replica: Replica, work: "Awaitable[None]") -> None:
        """Go on with one model in a task of its own, so that the others need not wait."""
        replica.busy = True

        async def run() -> None:
            try:
                await work
            finally:
                replica.busy = False
                if replica.queue or replica.syncs:
                    self._mark(replica)

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, work: Work, appended: Appended) -> None:
        """Apply what others committed, then our own entry, then answer."""
        replica = work.replica
        try:
            await self._catch_up(replica, appended)
            if appended.made is not None and appended.made > replica.version:
                await self._apply_own(work, appended)
            else:
                await self._answer(work, appended, {})
            _resolve(work.syncs, None)
        except OnepassError as error:
            _fail(work, error)
        except Exception as error:
            logger.exception("model %s: a commit could not be finished", replica.name)
            _fail(work, replica.take_out(f"a commit could not be finished: {error!r}"))

    async def _catch_up(self, replica: Replica, appended: Appended) -> None:
        """Apply what others committed before our own entry."""
        for raw in appended.entries:
            await self._apply_raw(replica, raw)
        last = appended.head if appended.made is None else appended.made - 1
        while replica.version < last:
            more = await self._more(replica)
            if more.code != "ok" or not more.entries:
                raise StoreDown(f"the log of {replica.name} could not be read on: {more.code}")
            for raw in more.entries:
                if raw.version <= last:
                    await self._apply_raw(replica, raw)

    async def _more(self, replica: Replica) -> ReadOn:
        return await self._log.read_after(
            replica.name, replica.incarnation, replica.version, replica.uid, self._limits.read_bytes_max, ENTRIES_MAX
        )

    async def _read_on(self, replica: Replica) -> None:
        """Apply everything that is on the log now, for readers who asked for the head."""
        syncs, replica.syncs = replica.syncs, []
        try:
            more = await self._more(replica)
            while more.code == "ok" and more.entries:
                for raw in more.entries:
                    await self._apply_raw(replica, raw)
                more = await self._more(replica)
            if more.code == "gone":
                self._forget(replica)
                raise NotFound(f"model {replica.name} was deleted")
            if more.code != "ok":
                self._lost_tail(replica, more.code, more.head)
                await self._reload(replica)
        except OnepassError as error:
            _resolve(syncs, error)
        except Exception as error:
            logger.exception("model %s could not read on", replica.name)
            _resolve(syncs, replica.take_out(f"it could not read on: {error!r}"))
        else:
            _resolve(syncs, None)

    async def _apply_raw(self, replica: Replica, raw: RawEntry) -> None:
        if raw.version > replica.version:
            size = sum(len(blob) for _, blob, _ in raw.segments)
            await replica.apply(codec.entry(raw), raw.uid, size)

    async def _apply_own(self, work: Work, appended: Appended) -> None:
        replica, jobs = work.replica, work.jobs
        added = [at for at, out in enumerate(appended.segments) if out.status == "added"]
        segments = tuple(_skipping(jobs[at].segment, appended.segments[at].skip) for at in added)
        version = appended.made or 0
        size = sum(len(jobs[at].sent.blob) for at in added)
        outcomes = await replica.apply(Entry(version, appended.time_ms, segments), work.append.new_uid, size)
        self._failpoint("applied")
        self._stats.entries += 1
        self._stats.segments += len(added)
        fresh = [identity for segment in segments for identity in segment.ids]
        if fresh:
            replica.fresh.extend(fresh)
            self._unrecorded[replica] = None
            self._wake.set()
        await self._answer(work, appended, dict(zip(added, outcomes, strict=True)))

    async def _answer(self, work: Work, appended: Appended, outcomes: dict[int, Outcome]) -> None:
        for at, job in enumerate(work.jobs):
            if job.reply.done():
                continue
            out = appended.segments[at]
            try:
                reply = await self._reply(work.replica, job, out, appended.made, outcomes.get(at))
            except OnepassError as error:
                reply = error
            if isinstance(reply, OnepassError):
                _reject(job.reply, reply)
            else:
                self._stats.duplicates += reply.duplicates
                job.reply.set_result(reply)

    async def _reply(
        self, replica: Replica, job: Job, out: SegmentOut, made: int | None, outcome: Outcome | None
    ) -> Reply | OnepassError:
        if out.status == "full":
            return IdsFull(f"model {replica.name} remembers as many ids as it may ({self._limits.ids_max})")
        earlier: list[tuple[int, Answer]] = []
        for row, seen in out.seen:
            clash = replies.mismatch(job, row, seen)
            if clash is not None:
                return clash
            answer = replica.answer(job.segment.ids[row], seen.answer)
            if answer is None:
                answer = await self.regenerate(replica, job.segment.ids[row], seen.version)
            earlier.append((row, answer))
        if outcome is None:
            return replies.repeated(len(job.segment.ids), earlier)
        return replies.fresh(job, made or 0, outcome, earlier)

    async def regenerate(self, replica: Replica, identity: str, version: int) -> Answer:
        """The answer of an entry whose writer crashed before recording it: replay finds it again."""
        await self._reload(replica)
        answer = replica.answer(identity, None)
        if answer is None:
            raise ModelDown(f"the answer of version {version} of {replica.name} cannot be found again")
        return answer

    async def _start_over(self, work: Work, appended: Appended) -> None:
        """The replica does not join its log: back to snapshot plus log, then try again."""
        replica = work.replica
        self._lost_tail(replica, appended.code, appended.head)
        try:
            await self._reload(replica)
        except OnepassError as error:
            _fail(work, error)
            return
        except Exception as error:
            logger.exception("model %s could not be reloaded", replica.name)
            _fail(work, replica.take_out(f"it could not be reloaded: {error!r}"))
            return
        for job in reversed(work.jobs):
            job.attempts += 1
            if job.attempts > ATTEMPTS_MAX:
                _reject(job.reply, StoreDown(f"model {replica.name} could not catch up with its log"))
            else:
                replica.queue.appendleft(job)
        replica.syncs.extend(work.syncs)

    def _lost_tail(self, replica: Replica, code: str, head: int) -> None:
        if code not in ("ahead", "fork"):
            return
        self._stats.lost_tails += 1
        logger.error(
            "model %s: the log lost its tail (%s): replica at version %d, log at %d; what came after their last common "
            "version is lost; going back to snapshot plus log",
            replica.name,
            code,
            replica.version,
            head,
        )


def _resolve(syncs: "Sequence[asyncio.Future[None]]", error: OnepassError | None) -> None:
    for future in syncs:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


def _skipping(segment: Segment, skip: tuple[int, ...]) -> Segment:
    if not skip or not isinstance(segment, Rows):
        return segment
    return Rows(segment.space, segment.names, segment.X, segment.y, segment.discounts, segment.told, segment.ids, skip)


def _fail(work: Work, error: OnepassError) -> None:
    for job in work.jobs:
        _reject(job.reply, error)
    _resolve(work.syncs, error)


def _reject(future: "asyncio.Future[Reply]", error: OnepassError) -> None:
    if not future.done():
        future.set_exception(error)
