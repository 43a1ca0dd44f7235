"""The summaries of the loaded models in the store, kept close behind them, so that lists need not load any.

A summary goes with an append of its model, at most once per ``RIDE_S``, or else the writer sends it, with many others
in one round trip. Either way it is at most two seconds behind the last entry that was applied here. Who appends to a
model writes its summary. A replica that only follows waits longer and writes only if nobody has meanwhile: it is there
for the case that who appended has died.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from core.model import read
from service.errors import Unavailable
from service.runtime.row_meter import RowMeter
from service.store import summaries
from service.store.catalog import Catalog
from service.store.summaries import DOWN, StoredSummary, Summaries, SummaryWrite, down, encode

if TYPE_CHECKING:
    from service.runtime.replica import Replica

RIDE_S = 1.0
"""Least time between two summaries of a model that go with its appends."""


class SummaryListener(NamedTuple):
    """Hears which models have left their summaries behind: the writer.

    Attributes:
        moved: called when the model has moved on from its stored summary.
        failed: when it is out of service.
        loaded: when it has been loaded, once more perhaps, and may differ from its stored summary.
    """

    moved: Callable[[], None]
    failed: Callable[[], None]
    loaded: Callable[[], None]


class SummaryState:
    """The summary of one loaded model.

    Args:
        stored: the record in the store when the model was loaded; empty where there was none.

    Attributes:
        stored, written: the record in the store, as far as this process knows, and its version.
        last: the latest summary known here, also while somebody changes the model; None where there is none.
        ahead: the first version that is not in the stored record; None where there is none.
        appended: when this process last appended to the model, by the loop's clock.
        listener: hears of moves, while the model is in memory.
        meter: how many rows a second the model learns.
    """

    __slots__ = ("_rode", "ahead", "appended", "last", "listener", "meter", "stored", "written")

    def __init__(self, stored: bytes = b"") -> None:
        found = summaries.decode(stored)
        self.stored, self.written = stored, -1 if found is None else found.version
        self.last = found
        self.ahead: int | None = None
        self.appended = self._rode = float("-inf")
        self.listener: SummaryListener | None = None
        self.meter = RowMeter()

    def moved(self, version: int) -> None:
        """Note that the model has reached a version."""
        if self.ahead is None and version > self.written:
            self.ahead = version
            if self.listener is not None:
                self.listener.moved()

    def failed(self) -> None:
        """Note that the model is out of service."""
        if self.listener is not None:
            self.listener.failed()

    def take_over(self, loaded: "SummaryState") -> None:
        """Go on from what was stored when the model was loaded again: the log may have lost its tail."""
        self.stored, self.written, self.ahead = loaded.stored, loaded.written, None
        if self.listener is not None:
            self.listener.loaded()

    def look(self, model: "Replica") -> StoredSummary:
        """The summary of the model as it is; nobody may be changing it."""
        self.last = StoredSummary(model.version, model.time_ms, *read.summary(model.machine))
        self.meter.note(asyncio.get_running_loop().time(), model.machine.rows)
        return self.last

    def record(self, model: "Replica") -> bytes:
        """The same as bytes."""
        return summaries.encode(self.look(model))

    def due(self, model: "Replica", now: float) -> bytes:
        """The record that goes with an append that is made ``now``, by the loop's clock; empty where none is due."""
        self.appended = now
        if self.ahead is None or now < self._rode + RIDE_S:
            return b""
        self._rode = now
        return self.record(model)

    def settle(self, version: int, record: bytes) -> None:
        """Note what the store has now; what was applied meanwhile is ``moved`` afterwards."""
        if version >= self.written:
            self.stored, self.written = record, version
        self.ahead = None


OWN_S = 1.25
"""How long a model may be ahead of its summary before the writer sends one, where this process appends to it."""
OTHERS_S = 1.75
"""The same where it does not."""
TICK_S = 0.2
"""Pause between two turns of the writer."""
STEP = 250
"""Most summaries in one round trip."""
OUTBOX_MAX = 20_000
"""Most summaries that wait to be sent. Beyond it the oldest are dropped; they are written when their models move, or
are loaded again."""
UNLOADED_MAX = 1000
"""Most models that could not be loaded whose summaries wait to say so."""


class Outgoing(NamedTuple):
    """A record on its way; ``replica`` is None where the model is not in memory (any more)."""

    write: SummaryWrite
    replica: "Replica | None"


class SummaryWriter:
    """Writes the summaries of all loaded models.

    Args:
        catalog: has the meta of models that could not be loaded.
        store: where summaries are kept.
    """

    def __init__(self, catalog: Catalog, store: Summaries) -> None:
        self._catalog, self._store = catalog, store
        self._moved: dict[Replica, float] = {}
        self._outbox: dict[tuple[str, str], Outgoing] = {}
        self._unloaded: dict[str, None] = {}
        self._held: dict[Replica, asyncio.Task[None]] = {}

    # ---------------------------------------------------------------- what the models tell

    def attach(self, replica: "Replica") -> None:
        """Listen to a model that has come into memory."""
        told = (partial(tell, replica) for tell in (self.note, self.note_down, self.note_loaded))
        replica.summary.listener = SummaryListener(*told)
        self.note_loaded(replica)

    def detach(self, replica: "Replica") -> None:
        """A model leaves memory: what is not written of it waits here."""
        replica.summary.listener = None
        self._moved.pop(replica, None)
        if replica.summary.ahead is not None and replica.down is None and not replica.lock.locked():
            self._put(_present(replica), None)

    def note(self, replica: "Replica") -> None:
        """A model has moved on from its stored summary."""
        self._moved.pop(replica, None)
        self._moved[replica] = asyncio.get_running_loop().time()

    def note_loaded(self, replica: "Replica") -> None:
        """A model was loaded: write its summary where the stored one is another, or of another phase."""
        state = replica.summary
        if replica.lock.locked() or (replica.version >= state.written and state.record(replica) != state.stored):
            state.ahead = replica.version
            state.appended = asyncio.get_running_loop().time()  # it is this process that knows
            self.note(replica)

    def note_down(self, replica: "Replica") -> None:
        """A model is out of service; its figures are those of the last summary that was made of it."""
        self._moved.pop(replica, None)
        last = replica.summary.last
        if last is not None:
            uid = replica.uid if last.version == replica.version else ""
            record = encode(down(last))
            self._put(_write(replica, last.version, uid, replica.version + 1, record), replica)

    def note_unloaded(self, name: str) -> None:
        """A model could not be loaded."""
        if len(self._unloaded) < UNLOADED_MAX:
            self._unloaded[name] = None

    # ---------------------------------------------------------------- turns

    async def run(self) -> None:
        """Write what is due for ever; the supervisor restarts it should it die."""
        while True:
            await asyncio.sleep(TICK_S)
            with contextlib.suppress(Unavailable):  # the committer reports it; what waits goes with the next turn
                await self.turn()

    async def flush(self) -> None:
        """Write the summary of every model that has moved, if the store answers."""
        with contextlib.suppress(Unavailable):
            await asyncio.gather(*self._held.values())
            while part := [*islice(self._moved, STEP)]:
                for replica in part:
                    await self._take_when_free(replica)
                await self._empty_outbox()
            await self._empty_outbox()

    async def turn(self) -> None:
        """Write what is due.

        Raises:
            Unavailable: the store did not answer; nothing is forgotten.
        """
        while due := self._due():
            for replica in due:
                if replica.lock.locked():
                    self._held[replica] = asyncio.create_task(self._take_when_free(replica))
                else:
                    self._take(replica)
            await self._empty_outbox()
        for name in [*self._unloaded]:
            await self._note_unloaded_down(name)
            self._unloaded.pop(name, None)
        await self._empty_outbox()

    def _due(self) -> "list[Replica]":
        """Up to ``STEP`` models that have been ahead of their summaries for long enough."""
        now = asyncio.get_running_loop().time()
        due: list[Replica] = []
        for replica, since in self._moved.items():
            if now < since + OWN_S or len(due) == STEP:  # those that follow moved later
                break
            if replica not in self._held and (_own(replica, since) or now >= since + OTHERS_S):
                due.append(replica)
        return due

    def _take(self, replica: "Replica") -> None:
        since = self._moved.pop(replica, None)
        if since is not None and replica.summary.ahead is not None and replica.down is None:
            self._put(_present(replica, None if _own(replica, since) else replica.summary.ahead), replica)
            replica.summary.ahead = None

    async def _take_when_free(self, replica: "Replica") -> None:
        """Somebody holds the machine, in a thread most often: wait for a state that is of one version."""
        try:
            async with replica.lock:
                self._take(replica)
        finally:
            self._held.pop(replica, None)

    def _put(self, write: SummaryWrite, replica: "Replica | None") -> None:
        self._outbox[write.name, write.incarnation] = Outgoing(write, replica)
        if len(self._outbox) > OUTBOX_MAX:
            del self._outbox[next(iter(self._outbox))]

    async def _empty_outbox(self) -> None:
        while self._outbox:
            await self._send([*islice(self._outbox.values(), STEP)])

    async def _send(self, part: Sequence[Outgoing]) -> None:
        results = await self._store.write([each.write for each in part])
        failure: Unavailable | None = None
        for each, result in zip(part, results, strict=True):
            place = each.write.name, each.write.incarnation
            if self._outbox.get(place) is each:
                del self._outbox[place]
                if isinstance(result, Unavailable):  # of several servers one may be down: the others' go first now
                    self._outbox[place] = each
            if isinstance(result, Unavailable):
                failure = result
                continue
            if each.replica is not None and result >= 0:
                self._settle(each.replica, each.write, result)
        if failure is not None:
            raise failure

    def _settle(self, replica: "Replica", write: SummaryWrite, stored: int) -> None:
        """Note what the store has; somebody else's summary is good for a while."""
        state = replica.summary
        if stored == write.version:
            state.stored = write.record
        state.written = max(state.written, stored)
        if stored < write.version and state.ahead is None and state.listener is not None:
            state.moved(replica.version)

    async def _note_unloaded_down(self, name: str) -> None:
        meta = await self._catalog.read(name)
        if meta is None or meta.listed.phase == DOWN:
            return
        version = meta.listed.version
        uid = meta.uid if version == meta.version else ""
        record = encode(down(meta.listed))
        self._put(SummaryWrite(name, meta.incarnation, version, uid, meta.version + 1, record), None)


def _own(replica: "Replica", since: float) -> bool:
    """Whether this process appended to a model around the time when it moved."""
    return replica.summary.appended > since - OTHERS_S


def _present(replica: "Replica", least: int | None = None) -> SummaryWrite:
    """The summary of a replica as it is; nobody may be changing it."""
    version = replica.version
    record = replica.summary.record(replica)
    return _write(replica, version, replica.uid, version + 1 if least is None else least, record)


def _write(replica: "Replica", version: int, uid: str, least: int, record: bytes) -> SummaryWrite:
    return SummaryWrite(replica.name, replica.incarnation, version, uid, least, record)
