"""One model in this process: its machine, the version it has reached on its log, and the requests that wait for it."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from core.entry import Entry, Learned, Outcome, Refused, Segment, Switched
from core.machine import Machine
from service.errors import ModelDown, OnepassError
from service.runtime import feature_switch
from service.runtime.stats import Stats
from service.store import codec
from service.store.codec import Answer
from service.store.log import Append, SegmentIn

logger = logging.getLogger(__name__)

THREAD_FLOPS = 2e7
"""Work above this many floating-point operations (some milliseconds) leaves the event loop."""
PATH_MAX = 256
"""Applied entries whose uids are kept; a log that forked further back is detected by its version alone."""
PATH_BYTES = 170
"""What each of them takes."""
OBJECT_BYTES = 9_000
"""Python objects around a model's arrays, measured with tests.benchmarks.models."""


@dataclass(slots=True)
class Ledger:
    """Memory held by all loaded models together, kept up to date as each of them grows."""

    used: int = 0


class Reply(NamedTuple):
    """What a waiting request is given.

    Attributes:
        answer: the answer to all of its rows; to a repeated request, the first one.
        duplicates: how many of its rows had been sent before.
        all_duplicate: True when nothing was learned because all of it had been sent before.
    """

    answer: Answer
    duplicates: int = 0
    all_duplicate: bool = False


@dataclass(slots=True, eq=False)
class Job:
    """One request on its way to the log.

    Attributes:
        segment: what is to be committed.
        sent: the same, as the store takes it.
        reply: resolved with a Reply, or an error.
        attempts: how often it has been put back because the replica had to reload.
    """

    segment: Segment
    sent: SegmentIn
    reply: "asyncio.Future[Reply]"
    attempts: int = 0


@dataclass(slots=True, eq=False)
class Commit:
    """One append in flight: sent again unchanged until the store reports its fate, or its time is up.

    Attributes:
        replica: the model.
        append: what is sent.
        jobs: the requests in it, one per segment.
        syncs: readers who wait for the log's head.
        deadline: when it is given up, by the loop's clock.
        resent: it was sent before, with unknown fate.
        flops: work of applying its own segments.
    """

    replica: "Replica"
    append: Append
    jobs: list[Job]
    syncs: "list[asyncio.Future[None]]"
    deadline: float
    resent: bool = False
    flops: float = 0.0


@dataclass(slots=True, eq=False)
class Replica:
    """One loaded model.

    Attributes:
        name, incarnation, created_ms: the model.
        machine: its state at ``version``.
        version, uid, time_ms: the last applied entry.
        queue: requests not yet sent; syncs: readers who wait for the log's head.
        unresolved: an append whose fate is not known yet.
        in_flight: an append is on its way to the store and back.
        busy: an apply or a reload is under way in a thread or a task.
        down: why the model is out of service, or None; gone: it was deleted. An error kept here and raised again would
            hold every request it has refused.
        head: the highest version the log is known to have reached; since: when it passed ours, by the loop's clock.
        suspect: the log may have lost its tail, whatever its version.
        awaited: readers who wait for a version, by version.
        path: the last entries applied, as (version, uid): where a rewritten log parts from ours.
        answers: id -> (version, answer) of applied entries, until the store has them.
        fresh: ids of own entries whose answers go with the next tick.
        log_bytes: bytes of entries since the last snapshot; snapshot_bytes, snapshot_version: the last snapshot.
        published: the key up to which its alarms are known to be published; on_alarm: called when there are later ones.
        nbytes: memory held, and the ledger that sums it up while the model is loaded.
        lock: held while a thread works on the machine; saving: held while a snapshot is written.
    """

    name: str
    incarnation: str
    created_ms: int
    machine: Machine
    version: int
    uid: str
    time_ms: int
    stats: Stats
    queue: deque[Job] = field(default_factory=deque)
    syncs: "list[asyncio.Future[None]]" = field(default_factory=list)
    unresolved: Commit | None = None
    in_flight: bool = False
    busy: bool = False
    down: str | None = None
    gone: bool = False
    head: int = 0
    since: float = 0.0
    suspect: bool = False
    awaited: "dict[asyncio.Future[None], int]" = field(default_factory=dict)
    path: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=PATH_MAX))
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    fresh: list[str] = field(default_factory=list)
    log_bytes: int = 0
    snapshot_bytes: int = 0
    snapshot_version: int = -1
    published: tuple[int, int] = (0, 0)
    on_alarm: "Callable[[Replica], None] | None" = None
    nbytes: int = OBJECT_BYTES
    ledger: Ledger | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    saving: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def idle(self) -> bool:
        """Whether the replica may leave memory."""
        waiting = self.queue or self.syncs or self.fresh or self.awaited
        at_work = self.in_flight or self.busy or self.lock.locked() or self.saving.locked()
        return not (waiting or at_work or self.unresolved or (self.on_alarm is not None and self.unpublished))

    @property
    def unpublished(self) -> bool:
        """Whether the outbox holds alarms that are not known to be published."""
        return self.machine.outbox.last > self.published

    def notify(self) -> None:
        """Notify the publisher, if there is one, of alarms to publish."""
        if self.on_alarm is not None and self.unpublished:
            self.on_alarm(self)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Hold the machine still to read it.

        Raises:
            ModelDown: the model went out of service meanwhile; after an exception in apply the state is not valid.
        """
        async with self.lock:
            if self.down is not None:
                raise ModelDown(self.down)
            yield

    async def apply(
        self, entry: Entry, uid: str, size: int, *, own: bool = False, flops: float | None = None
    ) -> list[Answer]:
        """Apply one entry, in a thread where it is much work, and move to its version.

        Args:
            entry: must make ``version + 1``.
            uid: the entry's uid.
            size: its bytes on the log.
            own: whether requests of this process wait for the answers.
            flops: its work, where the caller has estimated it for the machine as it is.

        Returns:
            The answers to its segments where it is ``own``.

        Raises:
            ModelDown: apply raised, which is a bug: the model is out of service from now on.
        """
        if entry.version != self.version + 1:
            raise RuntimeError(f"entry {entry.version} does not follow version {self.version}")
        try:
            async with self.lock:
                flops = self.machine.flops_to_apply(entry.segments) if flops is None else flops
                if flops > THREAD_FLOPS:
                    outcomes = await asyncio.to_thread(self.machine.apply, entry)
                else:
                    outcomes = self.machine.apply(entry)
        except Exception as error:
            raise self.quarantine(f"applying entry {entry.version} failed: {error!r}") from error
        before = self.version, self.uid
        self.version, self.uid, self.time_ms = entry.version, uid, entry.time_ms
        self.path.append(before)
        self.log_bytes += size
        answers = self._note(entry, outcomes, own)
        if self.unpublished:
            self.notify()
        if self.awaited:
            self._arrived()
        if self.since and not self.behind:
            self.since = 0.0
        return answers

    def _note(self, entry: Entry, outcomes: Sequence[Outcome], own: bool) -> list[Answer]:
        """Count what was learned, and keep the answers for the ids of the entry."""
        answers: list[Answer] = []
        resized = entry.version & 31 == 1 or self.machine.rows == 0
        for segment, outcome in zip(entry.segments, outcomes, strict=True):
            switched = isinstance(outcome, Switched)
            if own or segment.ids:
                feature_state = feature_switch.record(self.machine) if switched else b""
                answer = codec.outcome_answer(entry.version, outcome, feature_state)
                answers.append(answer)
                for identity, record in codec.records(segment, answer) if segment.ids else ():
                    self.answers[identity] = (entry.version, record)
            if isinstance(outcome, Learned):
                self.stats.rows += len(outcome.losses)
            elif isinstance(outcome, Refused):
                self.stats.refused += 1
            resized = resized or switched
        if resized:
            self.measure()
        return answers

    def measure(self) -> None:
        """Measure the memory that the model holds."""
        before = self.nbytes
        self.nbytes = OBJECT_BYTES + self.machine.nbytes + PATH_BYTES * len(self.path)
        if self.ledger is not None:
            self.ledger.used += self.nbytes - before

    def quarantine(self, why: str) -> ModelDown:
        """Take this model out of service and log why; the others go on."""
        if self.down is None:
            self.stats.models_down += 1
            logger.error("model %s is out of service: %s", self.name, why)
        self.down = f"model {self.name} is out of service: {why}"
        error = ModelDown(self.down)
        self._refuse(error)
        return error

    # ---------------------------------------------------------------- following

    @property
    def behind(self) -> bool:
        """Whether the log is known, or suspected, to be other than what was applied."""
        return self.head > self.version or self.suspect

    @property
    def lag(self) -> int:
        """Entries known to be on the log and not applied yet."""
        return max(0, self.head - self.version)

    def note_head(self, version: int) -> None:
        """Note how far the log has come."""
        self.head = max(self.head, version)
        if not self.since:
            self.since = asyncio.get_running_loop().time()

    def at_head(self) -> None:
        """Note that everything on the log has been applied."""
        self.head, self.since, self.suspect = self.version, 0.0, False

    async def reach(self, version: int) -> None:
        """Wait until a version is applied; the caller sets the bound.

        Raises:
            NotFound, ModelDown: it never will be.
        """
        if self.version >= version:
            return
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.awaited[arrived] = version
        try:
            await arrived
        finally:
            self.awaited.pop(arrived, None)

    def end(self, error: OnepassError) -> None:
        """The model is gone: fail the readers who wait for a version of it."""
        self.gone = True
        self._refuse(error)

    def _arrived(self) -> None:
        for future, version in [*self.awaited.items()]:
            if version <= self.version and not future.done():
                future.set_result(None)

    def _refuse(self, error: OnepassError) -> None:
        for future in self.awaited:
            if not future.done():
                future.set_exception(error)

    def answer(self, identity: str, recorded: bytes | None) -> Answer | None:
        """The first answer to an id: as stored, or from memory."""
        if recorded:
            return codec.decode_answer(recorded)
        held = self.answers.get(identity)
        return None if held is None else codec.decode_answer(held[1])
