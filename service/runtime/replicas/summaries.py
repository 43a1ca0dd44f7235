"""The summaries of the loaded models in the store, kept close behind them, so that lists need not load any.

A summary goes with an append of its model, at most once per ``RIDE_S``, or else the writer sends it, with many others
in one round trip: at most two seconds after the last entry that was applied here. Every process that holds a model
sends it, since the one that appends may die; it is stored only where no other process has stored one meanwhile.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from contextvars import Context
from typing import TYPE_CHECKING

from core.model import read
from service.errors import Unavailable
from service.runtime.replicas.row_meter import RowMeter
from service.store.catalog import Catalog
from service.store.summaries import DOWN, StoredSummary, SummaryWrite, decode, down, encode

if TYPE_CHECKING:
    from service.runtime.replicas.replica import Replica

RIDE_S = 1.0
"""Least time between two summaries of a model that go with its appends."""
WAIT_S = 1.25
"""How long a model may differ from its summary before the writer sends one."""
TICK_S = 0.2
"""Pause between two turns of the writer."""
STEP = 250
"""Most summaries in one round trip."""


class SummaryState:
    """The summary of one loaded model.

    Args:
        stored: the record in the store when the model was loaded; empty where there was none.

    Attributes:
        stored, written: the record in the store, as far as this process knows, and its version.
        last: the latest summary known here, also while the model is being changed; None where there is none.
        rode: when a summary last went with an append, by the loop's clock.
        changed: the models that may differ from their stored summaries; None while this one is not in memory.
        meter: how many rows a second the model learns.
    """

    __slots__ = ("changed", "last", "meter", "rode", "stored", "written")

    def __init__(self, stored: bytes = b"") -> None:
        self.last = decode(stored)
        self.stored, self.written = stored, -1 if self.last is None else self.last.version
        self.rode = float("-inf")
        self.changed: dict[Replica, float | None] | None = None
        self.meter = RowMeter()

    def mark_dirty(self, replica: "Replica") -> None:
        """Note that the model has moved on, or is out of service."""
        if self.changed is not None:
            self.changed.setdefault(replica)

    def take_over(self, replica: "Replica", loaded: "SummaryState") -> None:
        """Go on from what was stored when the model was loaded again: the log may have lost its tail."""
        self.stored, self.written = loaded.stored, loaded.written
        self.mark_dirty(replica)

    def look(self, replica: "Replica") -> StoredSummary:
        """The summary of the model as it is; nobody may be changing it."""
        self.last = StoredSummary(replica.version, replica.time_ms, read.summary(replica.model))
        self.meter.record(asyncio.get_running_loop().time(), replica.model.rows)
        return self.last

    def shown(self, replica: "Replica") -> StoredSummary | None:
        """The summary of the model as it is, or as it was last seen if it is being changed or out of service."""
        if replica.down is not None:
            return None if self.last is None else down(self.last)
        return self.last if replica.lock.locked() else self.look(replica)

    def due(self, replica: "Replica", now: float) -> bytes:
        """The record that goes with an append that is made ``now``, by the loop's clock; empty where none is due."""
        if replica.version <= self.written or now < self.rode + RIDE_S:
            return b""
        self.rode = now
        return encode(self.look(replica))

    def settle(self, version: int, record: bytes) -> None:
        """Note what the store has now."""
        if version >= self.written:
            self.stored, self.written = record, version


class SummaryWriter:
    """Writes the summaries of all loaded models.

    Args:
        catalog: keeps the summaries.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._changed: dict[Replica, float | None] = {}  # since when, by the loop's clock; None: since the last turn
        self._leaving: set[asyncio.Task[list[int | Unavailable]]] = set()

    def attach(self, replica: "Replica") -> None:
        """Take in a model that has come into memory; its stored summary may be older, or of another phase."""
        replica.summary.changed = self._changed
        replica.summary.mark_dirty(replica)

    def detach(self, replica: "Replica") -> None:
        """Let go of a model that leaves memory; what is not written of it is written at once, if the store answers."""
        write = self._taken(replica)
        self._changed.pop(replica, None)
        replica.summary.changed = None
        if write is not None:
            task = asyncio.get_running_loop().create_task(self._catalog.write_summaries([write]), context=Context())
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def write_down(self, name: str) -> None:
        """Store that a model could not be loaded, if the store answers."""
        with contextlib.suppress(Unavailable):
            meta = await self._catalog.read(name)
            if meta is not None and meta.listed.figures.phase != DOWN:
                version, record = meta.listed.version, encode(down(meta.listed))
                uid = meta.uid if version == meta.version else ""
                write = SummaryWrite(name, meta.incarnation, version, uid, meta.version + 1, record)
                await self._catalog.write_summaries([write])

    async def run(self) -> None:
        """Write what is due for ever; the supervisor restarts it should it die."""
        while True:
            await asyncio.sleep(TICK_S)
            await self.turn()

    async def turn(self) -> None:
        """Write the summaries of models that have differed from them for long enough."""
        now, due = asyncio.get_running_loop().time(), []
        for replica, since in self._changed.items():
            if since is None:
                self._changed[replica] = now
            elif since <= now - WAIT_S and replica.summary.rode <= now - WAIT_S:
                due.append(replica)
        await self._write(due)

    async def flush(self) -> None:
        """Write the summary of every model that has changed, if the store answers."""
        changed = [*self._changed]
        for replica in changed:
            async with replica.lock:
                pass  # nobody is changing it any more
        await self._write(changed)
        await asyncio.gather(*self._leaving)

    async def _write(self, replicas: "Sequence[Replica]") -> None:
        """Write summaries until the store fails: what is left then stays changed."""
        for at in range(0, len(replicas), STEP):
            taken = [(one, write) for one in replicas[at : at + STEP] if (write := self._taken(one)) is not None]
            results = await self._catalog.write_summaries([write for _, write in taken])
            for (replica, write), stored in zip(taken, results, strict=True):
                state = replica.summary
                if isinstance(stored, Unavailable):
                    state.mark_dirty(replica)
                elif stored >= write.version:
                    state.settle(stored, write.record)
                elif stored >= 0:  # another process has written one meanwhile, which is good for a while
                    state.written = stored
                    state.mark_dirty(replica)
            if any(isinstance(stored, Unavailable) for stored in results):
                return

    def _taken(self, replica: "Replica") -> SummaryWrite | None:
        """What is to be written of a changed model; None where the store has it, or while it is being changed."""
        if replica not in self._changed or (replica.lock.locked() and replica.down is None):
            return None
        del self._changed[replica]
        state, shown = replica.summary, replica.summary.shown(replica)
        if shown is None or (record := encode(shown)) == state.stored:
            return None
        uid = replica.uid if shown.version == replica.version else ""
        least = 1 + (state.written if replica.down is None else replica.version)
        return SummaryWrite(replica.name, replica.incarnation, shown.version, uid, least, record)
