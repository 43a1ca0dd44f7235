"""The list of models: read from the summaries in the store, and from the models in memory where they know more.

Nothing is loaded, whatever is listed.
"""

import asyncio
from collections.abc import Awaitable
from typing import NamedTuple

from service.runtime.model_cache import ModelCache
from service.runtime.summaries.summary_table import Order, Place, SummaryTables
from service.store.catalog import Catalog, Listed, Wanted
from service.store.summaries import down

STEP = 1000
"""Models of a table looked at between two turns of the event loop's other tasks."""


class Page(NamedTuple):
    """A part of a list.

    Attributes:
        models: at most as many as were asked for.
        next: where the list goes on, or None at its end.
        age_s: how old the table is that the page is from.
    """

    models: list[Listed]
    next: Place | None
    age_s: float


class Listing:
    """The models of the store, in any order.

    Args:
        catalog: has all models and their summaries.
        models: those in memory.
    """

    def __init__(self, catalog: Catalog, models: ModelCache) -> None:
        self._catalog, self._models = catalog, models
        self._tables = SummaryTables(self._read)

    async def by_name(self, limit: int, after: str | None, wanted: Wanted | None) -> tuple[list[Listed], str | None]:
        """A page in the order of names, as the store has it now, and the name to go on after.

        Args:
            limit: most models of it.
            after: a name.
            wanted: which models are listed; None: all.

        Raises:
            Unavailable: the store did not answer, or cannot now.
        """
        models, following = await self._catalog.summaries(limit, after, wanted)
        found = {model.name: self._present(model) for model in models}
        for name, lost in self._lost(after, following, wanted):
            found.setdefault(name, lost)
        if len(found) > limit:
            following = sorted(found)[limit - 1]
        return [found[name] for name in sorted(found)[:limit]], following

    def _lost(self, after: str | None, last: str | None, wanted: Wanted | None) -> list[tuple[str, Listed]]:
        """The models of a page that the store has lost and this process holds: down, as memory has them."""
        return [
            (replica.name, Listed(replica.name, replica.incarnation, down(replica.summary.look(replica))))
            for replica in self._models.lost
            if (after is None or after < replica.name)
            and (last is None or replica.name <= last)
            and (wanted is None or wanted(replica.name))
        ]

    async def by(self, order: Order, limit: int, after: Place | None, wanted: Wanted | None) -> Page:
        """A page in another order, from a table of all models that is up to some seconds old.

        A model whose place changes between two tables may be on two pages, or on none.

        Raises:
            Unavailable: the store did not answer, or cannot now.
        """
        table = await self._tables.present()
        indices, keys = table.after(order, after)
        found: list[int] = []
        for at in range(len(indices)):
            if wanted is None or wanted(table.models[indices[at]].name):
                found.append(at)
            if len(found) > limit:
                break
            if at % STEP == STEP - 1:
                await asyncio.sleep(0)
        shown = [table.models[indices[at]] for at in found[:limit]]
        following = Place(float(keys[found[limit - 1]]), shown[-1].name) if len(found) > limit else None
        return Page(shown, following, asyncio.get_running_loop().time() - table.begun)

    async def count(self, wanted: Wanted | None) -> int:
        """How many models there are of those that are wanted; None: all.

        Raises:
            Unavailable: the store did not answer, or cannot now.
        """
        if wanted is None:
            return await self._catalog.count()
        table, found = await self._tables.present(), 0
        for at in range(0, len(table.models), STEP):
            found += sum([wanted(model.name) for model in table.models[at : at + STEP]])
            await asyncio.sleep(0)
        return found

    def rows_per_s(self, listed: Listed) -> float | None:
        """How many rows a second a model learns; None where this process cannot tell."""
        replica = self._models.peek(listed.name)
        if replica is None or replica.incarnation != listed.incarnation or replica.down is not None:
            return None
        return replica.summary.meter.rate(asyncio.get_running_loop().time(), replica.machine.rows)

    def rows_per_s_of(self, wanted: Wanted) -> float | None:
        """How many rows a second the wanted models learn together; None where that is known of none of them."""
        now = asyncio.get_running_loop().time()
        own = [replica for replica in self._models.loaded if wanted(replica.name) and replica.down is None]
        rates = [replica.summary.meter.rate(now, replica.machine.rows) for replica in own]
        known = [rate for rate in rates if rate is not None]
        return sum(known) if known else None

    def _read(self, limit: int, after: str | None) -> Awaitable[tuple[list[Listed], str | None]]:
        return self.by_name(limit, after, None)

    def _present(self, listed: Listed) -> Listed:
        """A model as this process knows it, where it knows more than the store."""
        name, incarnation, summary = listed
        replica = self._models.peek(name)
        if replica is None or replica.incarnation != incarnation:
            return listed._replace(summary=down(summary)) if self._models.refuses(name) else listed
        if replica.down is not None:
            return listed._replace(summary=down(summary))
        # While the machine is held it may be half way to the next version: then the last look at it counts.
        known = replica.summary.last if replica.lock.locked() else replica.summary.look(replica)
        return listed if known is None or known.version < summary.version else listed._replace(summary=known)
