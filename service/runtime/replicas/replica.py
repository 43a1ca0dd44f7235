"""One model in this process: its state, and the version it has reached on its log.

Replica          model, version, path        written by ``apply`` and ``take_over``
  inbox          requests that wait            its actor (actor.py), which alone lets it apply entries
  progress       how far behind its log        lag.py; updated by the follower
  answers        not stored yet                batches.py; updated by the answer writer
  summary        what lists show of it         updated by the summary writer
  saved          what snapshots hold           updated by the snapshotter
"""

import asyncio
import logging
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from core.drift.outbox import NO_ALARM, AlarmPosition
from core.entry import Outcome, Segment
from core.model import Model, read
from service.errors import ModelDown, ModelLost, OnepassError, Unavailable, no_model
from service.runtime.replicas.batches import Applied, Batch, UnstoredAnswers
from service.runtime.replicas.lag import Lag, Sync
from service.runtime.replicas.row_meter import RowMeter
from service.runtime.replicas.saved import Saved
from service.runtime.rows.row_plan import RowPlan
from service.runtime.stats import Stats
from service.runtime.threads import in_thread_if_long
from service.store.summaries import StoredSummary, decode, down, encode

logger = logging.getLogger(__name__)

PATH_MAX = 256  # applied entries whose uids are kept; a log that forked further back is detected by its version alone
MEASURED_ENTRIES = 32  # entries between two measurements of a model, if they are rows only
GROWTH_WAIT_S = 5.0  # longest wait for other requests that make a model larger
DROPPED_AT_ONCE = 1000  # answers dropped at once, in about a millisecond
PATH_BYTES = 170  # memory of one entry of the path
RIDE_S = 1.0  # least time between two summaries of a model that go with its appends
OBJECT_BYTES = 25_000  # besides the arrays of a model, or of a challenger, measured with tests.benchmarks.sizing


@dataclass(slots=True)
class Ledger:
    """Bytes held in this process: by all loaded models, which grow, or by all requests that wait."""

    used: int = 0


class Reply(NamedTuple):
    """The reply to a waiting request."""

    answer: Outcome  # the answer to all of its rows; to a repeated request, the first one
    duplicates: int = 0  # how many of its rows had been sent before
    all_duplicate: bool = False  # True when nothing was learned because all of it had been sent before
    earlier: Sequence[tuple[int, Outcome]] = ()  # the rows that had been sent before, and the first answer to each


class Inbox(Protocol):
    """Takes the requests of a loaded model: its actor."""

    @property
    def waiting(self) -> int:
        """Requests that wait for the next append."""

    @property
    def in_flight(self) -> bool:
        """Whether an append is on its way, or being finished."""

    @property
    def idle(self) -> bool:
        """Whether nothing waits, and nothing is under way."""

    def submit(
        self, segment: Segment, digests: Sequence[str] = (), pending: str | None = None
    ) -> "asyncio.Future[Reply]":
        """Queue a segment; resolves when it is committed and applied."""

    def submit_row(
        self, plan: RowPlan, values: Sequence[float], label: Any, identity: str, digest: str
    ) -> "asyncio.Future[Reply]":
        """``submit`` of one plain row."""

    def sync(self) -> "asyncio.Future[None]":
        """Resolves when everything that is on the log now has been applied."""


class SummaryState:
    """The summary of a model, as lists show it.

    Args:
        stored: the record in the store when the model was loaded; empty if there was none.

    Attributes:
        stored, written: the record in the store, as far as this process knows, and its version.
        last: the latest summary known here, also while the model is being changed; None if there is none.
        computed: the version of the model that ``last`` was computed from here; -1 if it was not.
        rode: when a summary last went with an append, by the loop's clock.
        meter: how many rows per second the model learns.
    """

    __slots__ = ("computed", "last", "meter", "rode", "stored", "written")

    def __init__(self, stored: bytes = b"") -> None:
        self.last, self.computed = decode(stored), -1
        self.stored, self.written = stored, -1 if self.last is None else self.last.version
        self.rode, self.meter = -math.inf, RowMeter()

    def settle(self, version: int, record: bytes) -> None:
        """Note what the store has now."""
        if version >= self.written:
            self.stored, self.written = record, version


@dataclass(slots=True, eq=False)
class Replica:
    """One loaded model.

    Attributes:
        name, incarnation, created_ms: the model.
        model: its state at ``version``.
        version, uid, time_ms: the last applied entry.
        actor: the inbox, made by ``attach`` when it is first needed; a replica that was loaded separately has none.
        down: why the model is out of service, or None; gone: it was deleted; lost: the store has lost it. ``down`` is a
            text because an exception that is kept and raised again would keep every request it refused in memory.
        path: the last entries applied, as (version, uid), to find where a rewritten log departs from ours.
        changed: the models that may differ from their stored summaries; None while this one is not in memory.
        published: how far its alarms are known to be published; on_alarm: called when there are later ones.
        nbytes: memory held, and the ledger that sums it up while the model is loaded.
        lock: held while the model changes, or is read outside the event loop.
        growth: held from the check that new classes, or a change, fit the model's limit until they are applied.
    """

    name: str
    incarnation: str
    created_ms: int
    model: Model
    version: int
    uid: str
    time_ms: int
    stats: Stats
    actor: Inbox | None = None
    attach: "Callable[[Replica], Inbox]" = field(init=False)
    progress: Lag = field(default_factory=Lag)
    answers: UnstoredAnswers = field(default_factory=UnstoredAnswers)
    saved: Saved = field(default_factory=Saved)
    summary: SummaryState = field(default_factory=SummaryState)
    changed: "dict[Replica, float | None] | None" = None
    down: str | None = None
    gone: bool = False
    lost: bool = False
    path: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=PATH_MAX))
    published: AlarmPosition = NO_ALARM
    on_alarm: "Callable[[Replica], None] | None" = None
    learned: int = 0  # rows as a counter: a reset sets it to 0, an import changes it only if it is 0
    nbytes: int = OBJECT_BYTES
    ledger: Ledger | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    growth: asyncio.Lock = field(default_factory=asyncio.Lock)
    _row_plan: RowPlan | None = None

    @property
    def row_plan(self) -> RowPlan:
        """How plain rows are read in the model's present state."""
        plan = self._row_plan
        if plan is None or not plan.is_of(self.model):
            plan = self._row_plan = RowPlan(self.model)
        return plan

    @property
    def inbox(self) -> Inbox:
        """Where requests go; a replica that has left memory keeps no actor (``let_go``)."""
        if self.actor is not None:
            return self.actor
        actor = self.attach(self)
        if self.ledger is not None:
            self.actor = actor
        return actor

    def let_go(self) -> None:
        """Drop an idle actor: the two refer to each other, and Python may not look for such cycles for a long time."""
        if self.actor is not None and self.actor.idle:
            self.actor = None

    @property
    def idle(self) -> bool:
        """Whether the replica may leave memory."""
        if self.lost or not self.inbox.idle or self.answers.fresh or self.progress.awaited:
            return False
        at_work = self.lock.locked() or self.saved.lock.locked()
        return not (at_work or self.awaits_publisher)

    @property
    def lag(self) -> int:
        """Entries known to be on the log and not applied yet."""
        return max(0, self.progress.head - self.version)

    @property
    def behind(self) -> bool:
        """Whether the log is known, or suspected, to differ from what was applied."""
        return self.progress.behind(self.version)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Keep the model unchanged while it is read.

        ``ModelDown`` if it went out of service meanwhile: after an exception in apply the state is not valid.
        """
        async with self.lock:
            if self.down is not None:
                raise ModelDown(self.down)
            yield

    @asynccontextmanager
    async def growing(self) -> AsyncIterator[None]:
        """Hold ``growth``; ``Unavailable`` if others hold it for long."""
        try:
            await asyncio.wait_for(self.growth.acquire(), GROWTH_WAIT_S)
        except TimeoutError:
            raise Unavailable(f"other changes of model {self.name} are under way") from None
        try:
            yield
        finally:
            self.growth.release()

    # ---------------------------------------------------------------- entries

    async def apply(self, batch: Batch) -> list[Outcome]:
        """Apply the batch that follows ``version``, in a thread if it is much work; returns the answers if the batch is
        this process's own.

        ``ModelDown`` if apply raised, which is a bug: the model is out of service from now on.
        """
        async with self.lock:
            try:
                flops = batch.flops(self.model)
                applied = await in_thread_if_long(flops, self._applied, batch)
            except Exception as error:
                raise self.quarantine(f"applying {batch} failed: {type(error).__name__}") from error
            self.saved.flops += flops
            return self._move(batch, applied)

    def apply_now(self, batch: Batch) -> list[Outcome]:
        """``apply`` without a thread, and without waiting: for little work, while the model is not locked."""
        try:
            applied = self._applied(batch)
        except Exception as error:
            raise self.quarantine(f"applying {batch} failed: {type(error).__name__}") from error
        return self._move(batch, applied)

    def _applied(self, batch: Batch) -> Applied:
        """Apply a batch; may run in a thread that holds the model."""
        if batch.first != self.version + 1:
            raise RuntimeError(f"it does not follow version {self.version}")
        return batch.apply(self.model)

    def _move(self, batch: Batch, applied: Applied) -> list[Outcome]:
        """Move to the version of a batch; count what was learned, keep the answers to its ids."""
        self.path.append((self.version, self.uid))
        self.path.extend(batch.inner)
        self.version, self.uid, self.time_ms = batch.version, batch.uid, batch.time_ms
        self.saved.log_bytes += batch.size + applied.states_bytes
        self.learned += applied.rows
        self.stats.rows += applied.rows
        self.stats.refused += applied.refused
        if applied.items:
            self.answers.put(applied.items, batch.own)
        often = (batch.first - 2) // MEASURED_ENTRIES != (batch.version - 1) // MEASURED_ENTRIES
        if often or applied.rebuilt:
            self.measure()
        if applied.rebuilt:
            self.saved.changed = batch.version
            if not (self.learned and self.model.rows):
                self.learned = self.model.rows
        if self.model.outbox.total:
            self.notify()
        if self.progress.since or self.progress.awaited:
            self.progress.applied(self.version)
        self.mark_dirty()
        return applied.answers

    def mark_dirty(self) -> None:
        """Note that the model has changed, or is out of service: its stored summary may differ."""
        if self.changed is not None:
            self.changed.setdefault(self)

    def take_over(self, loaded: "Replica") -> None:
        """Continue from a state that was loaded from snapshot and log; the caller holds the lock."""
        self.learned += max(0, loaded.model.rows - self.model.rows)
        self.model, self.version, self.uid = loaded.model, loaded.version, loaded.uid
        self.time_ms, self.path, self.answers = loaded.time_ms, loaded.path, loaded.answers
        self.saved.take_over(loaded.saved, self.version)
        self.progress.at_head(self.version)
        self.progress.applied(self.version)
        self.summary.stored, self.summary.written = loaded.summary.stored, loaded.summary.written
        self.summary.computed = -1
        self.mark_dirty()
        self.measure()
        self.published = NO_ALARM  # the log may have lost its tail, and so the alarms in it
        self.notify()

    async def drop_answers(self, version: int) -> None:
        """Drop, some at a time, the answers that the store must have because a snapshot of ``version`` is published."""
        answers = self.answers
        identities = answers.up_to(version)
        for at in range(0, len(identities), DROPPED_AT_ONCE):
            answers.drop(identities[at : at + DROPPED_AT_ONCE], version)
            self.measure()
            await asyncio.sleep(0)

    def measure(self) -> None:
        """Measure the memory that the model holds."""
        before = self.nbytes
        objects = OBJECT_BYTES * (1 + len(self.model.challengers)) + self.model.space_bytes
        self.nbytes = objects + self.model.nbytes + PATH_BYTES * len(self.path) + self.answers.nbytes
        if self.ledger is not None:
            self.ledger.used += self.nbytes - before

    # ---------------------------------------------------------------- summaries

    def summarize(self) -> StoredSummary:
        """The summary of the model as it is; nothing may be changing it."""
        state = self.summary
        if state.last is None or state.computed != self.version:
            state.last = StoredSummary(self.version, self.time_ms, read.summary(self.model))
            state.computed = self.version
            state.meter.record(asyncio.get_running_loop().time(), self.model.rows)
        return state.last

    def shown_summary(self) -> StoredSummary | None:
        """The summary of the model as it is, or as it was last seen if it is being changed or out of service."""
        last = self.summary.last
        if self.down is not None:
            return None if last is None else down(last)
        return last if self.lock.locked() else self.summarize()

    def due_summary(self, now: float) -> bytes:
        """The record to send with an append made at ``now``, by the loop's clock; empty if none is due."""
        state = self.summary
        if self.version <= state.written or now < state.rode + RIDE_S or self.awaits_publisher:
            return b""
        state.rode = now
        return encode(self.summarize())

    # ---------------------------------------------------------------- alarms

    @property
    def unpublished(self) -> bool:
        """Whether the outbox holds alarms that are not known to be published."""
        return self.model.outbox.last > self.published

    @property
    def awaits_publisher(self) -> bool:
        """Whether there is a publisher, and alarms for it to publish."""
        return self.on_alarm is not None and self.unpublished

    def notify(self) -> None:
        """Notify the publisher, if there is one, of alarms to publish."""
        if self.on_alarm is not None and self.unpublished:
            self.on_alarm(self)

    # ---------------------------------------------------------------- the end

    def quarantine(self, why: str) -> ModelDown:
        """Take this model out of service and log why; the others go on. While it is loading, the cache logs that."""
        if self.down is None and self.ledger is not None:
            self.stats.down_models += 1
            logger.error("model %s is out of service: %s", self.name, why)
        self.down = f"model {self.name} is out of service: {why}"
        error = ModelDown(self.down)
        self.progress.refuse(error)
        self.mark_dirty()
        return error

    def end(self, error: OnepassError) -> None:
        """The model is gone: fail the readers that wait for a version of it."""
        self.gone = True
        self.progress.refuse(error)

    async def wait_for_version(self, version: int, read_on: Sync | None = None) -> None:
        """Wait until a version is applied, or raise the error why it never will be; the caller sets the bound."""
        if self.gone or self.lost:  # nothing would wake a reader that begins to wait now
            raise no_model(self.name) if self.gone else ModelLost(self.name)
        if self.version < version:
            await self.progress.wait_for_version(version, read_on)
