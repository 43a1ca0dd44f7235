"""Walks slowly through all models and removes expired ids and tracked predictions, and names of models that never were.

Appends sweep their own model, but a model whose traffic has stopped would keep everything forever. Every process walks,
and finds only what the others have left.
"""

import asyncio
import logging
from collections.abc import Sequence

from service.runtime.backoff import Backoff
from service.runtime.stats import Stats
from service.store.catalog import Absent, Catalog
from service.store.expiry import Swept, sweep
from service.store.redis.connection import Connection

logger = logging.getLogger(__name__)

PAGE = 100  # models of one step
STEP_S = 1.0  # pause between two steps
WALK_S = 60.0  # pause between two walks
AT_ONCE = 4  # models swept in one round trip
MOST = 1000  # ids, and predictions, removed from one model in one round trip: some milliseconds of the store's time
VISIT_MAX = 200  # most round trips for the same models in one walk; the next walk removes the rest
VISIT_S = 0.02  # pause between these
BACKOFF_S, BACKOFF_S_MAX = 1.0, 30.0  # pauses while the store does not answer


class Sweeper:
    """Sweeps the models of one store."""

    def __init__(self, connection: Connection, stats: Stats) -> None:
        self._connection, self._catalog, self._stats = connection, Catalog(connection), stats
        self._absent: Absent = set()  # what the last walk, WALK_S ago or more, found in the index but not in the store

    async def run(self) -> None:
        """Walk forever; the supervisor restarts it if it dies."""
        await Backoff(BACKOFF_S, BACKOFF_S_MAX).repeat(self._walk, WALK_S)

    async def _walk(self) -> None:
        """Visit every model once."""
        after: str | None = None
        absent: Absent = set()
        while True:
            found: Absent = set()
            models, after = await self._catalog.names(PAGE, after, absent=found)
            await self._catalog.unlist(found & self._absent)
            absent |= found
            for at in range(0, len(models), AT_ONCE):
                await self._visit(models[at : at + AT_ONCE])
            if after is None:
                self._absent = absent
                return
            await asyncio.sleep(STEP_S)

    async def _visit(self, models: Sequence[tuple[str, str]]) -> None:
        """Remove what has expired, in bounded pieces."""
        for _ in range(VISIT_MAX):
            results = await sweep(self._connection, models, MOST)
            swept = [(model, each) for model, each in zip(models, results, strict=True) if isinstance(each, Swept)]
            self._stats.swept += sum(each.ids + each.predictions for _, each in swept)
            models = [model for model, each in swept if each.more]
            if not models:
                return
            await asyncio.sleep(VISIT_S)
