"""Keeps the summaries in the store close behind the loaded models, so that lists need not load any model.

A summary goes with an append of its model, at most once a second (``Replica.due_summary``). Otherwise the writer sends
it, with many others in one round trip, at most two seconds after the last entry applied here. Every process that holds
a model sends its summary, since the one that appends may die; it is stored only if no other process has stored one
meanwhile.

The summary of a version is stored only after the alarms up to it are published; a summary that lags behind its log
shows that some alarms may still be unpublished (monitor/orphaned_alarms.py).
"""

import asyncio
import contextlib
from collections.abc import Sequence
from contextvars import Context

from service.errors import ModelDown, Unavailable
from service.runtime.replicas.replica import Replica
from service.store.catalog import Catalog
from service.store.summaries import DOWN, SummaryWrite, down, encode

WAIT_S = 1.25  # how long a model may differ from its summary before the writer sends one
TICK_S = 0.2  # pause between two turns of the writer
STEP = 250  # most summaries in one round trip


class SummaryWriter:
    """Writes the summaries of all loaded models."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._changed: dict[Replica, float | None] = {}  # since when, by the loop's clock; None: since the last turn
        self._leaving: set[asyncio.Task[list[int | Unavailable]]] = set()

    def attach(self, replica: Replica) -> None:
        """Add a model that was loaded; its stored summary may be older, or show another phase."""
        replica.changed = self._changed
        replica.mark_dirty()

    def detach(self, replica: Replica) -> None:
        """Remove a model that leaves memory; an unwritten summary is written at once, if the store answers."""
        write = self._taken(replica)
        self._changed.pop(replica, None)
        replica.changed = None
        if write is not None:
            task = asyncio.get_running_loop().create_task(self._catalog.write_summaries([write]), context=Context())
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def write_down(self, name: str, incarnation: str) -> None:
        """Store that a model could not be loaded, if the store answers and still has that model."""
        with contextlib.suppress(Unavailable, ModelDown):
            meta = await self._catalog.read(name)
            if meta is not None and meta.listed.figures.phase != DOWN:
                version, record = meta.listed.version, encode(down(meta.listed))
                uid = meta.uid if version == meta.version else ""
                write = SummaryWrite(name, incarnation, version, uid, meta.version + 1, record)
                await self._catalog.write_summaries([write])

    async def run(self) -> None:
        """Write due summaries forever; the supervisor restarts it if it dies."""
        while True:
            await asyncio.sleep(TICK_S)
            await self.turn()

    async def turn(self) -> None:
        """Write the summaries of models that changed long enough ago."""
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
                pass  # no change is under way any more
        await self._write(changed)
        await asyncio.gather(*self._leaving)

    async def _write(self, replicas: Sequence[Replica]) -> None:
        """Write summaries until the store fails; the remaining models then stay marked as changed."""
        for at in range(0, len(replicas), STEP):
            taken = [(one, write) for one in replicas[at : at + STEP] if (write := self._taken(one)) is not None]
            results = await self._catalog.write_summaries([write for _, write in taken])
            for (replica, write), stored in zip(taken, results, strict=True):
                state = replica.summary
                if isinstance(stored, Unavailable):
                    replica.mark_dirty()
                elif stored >= write.version:
                    state.settle(stored, write.record)
                elif stored >= 0:  # another process has written one meanwhile, which will do for a while
                    state.written = stored
                    replica.mark_dirty()
            if any(isinstance(stored, Unavailable) for stored in results):
                return

    def _taken(self, replica: Replica) -> SummaryWrite | None:
        """The write of a changed model's summary; None if the store has that summary, or while the model is being
        changed or has alarms to publish.
        """
        waits = replica.down is None and (replica.lock.locked() or replica.awaits_publisher)
        if waits or replica not in self._changed:
            return None
        del self._changed[replica]
        state, found = replica.summary, replica.shown_summary()
        if found is None or (record := encode(found)) == state.stored:
            return None
        uid = replica.uid if found.version == replica.version else ""
        least = 1 + (state.written if replica.down is None else replica.version)
        return SummaryWrite(replica.name, replica.incarnation, found.version, uid, least, record)
