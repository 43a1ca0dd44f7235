"""The list of models: read from the summaries in the store, and from the models in memory where they know more.

Nothing is loaded, whatever is listed. Redis holds the models in the order of their names alone. So each process reads
all summaries when somebody asks for another order, in bounded steps, now and then; requests that come meanwhile wait
for the same refresh. A model takes about 400 bytes.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from operator import attrgetter
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats
from service.runtime.model_cache import ModelCache
from service.store.catalog import Catalog, Listed, Wanted
from service.store.summaries import StoredSummary, down

Order = Literal["rows", "updated", "worst"]
ORDERS: tuple[Order, ...] = ("rows", "updated", "worst")
REFRESH_S, REFRESH_S_MIN = 5.0, 0.5
"""How long a table is used: as long as it takes ``SHARE`` of the time at most to read it, within these bounds."""
SHARE = 0.05
READ_AT_ONCE = 500
"""Models read between two turns of the event loop's other tasks."""
ROWS_LEAST = 30
"""Rows of which too little is known of an error."""
LAST = 1.0
"""The key of a model of which what the order goes by is not known; all others are 0 or less."""


def key(order: Order, summary: StoredSummary) -> float:
    """What a model is sorted by, lowest first.

    ``worst`` goes by a/(a + b), a the model's error and b that of its best baseline: mean squared errors on the same
    rows, 1 - accuracy, or, of a model with ``class_costs``, mean costs. That is 1/2 where they are equal (also where
    both are 0), 1 where only the baseline is never wrong, and increases with the ratio a/b, which makes models of all
    kinds comparable. Of fewer than ``ROWS_LEAST`` rows it counts as not known.
    """
    if order == "updated":
        return -float(summary.time_ms)
    if order == "rows":
        return LAST if summary.rows is None else -float(summary.rows)
    if summary.score is None or summary.baseline is None or (summary.rows or 0) < ROWS_LEAST:
        return LAST
    if summary.mean_cost is not None and summary.baseline_cost is not None:
        a, b = summary.mean_cost, summary.baseline_cost
    elif summary.task == "classification":
        a, b = 1.0 - summary.score, 1.0 - summary.baseline
    else:  # a record of older code has no paired score
        a, b = summary.score if summary.paired_score is None else summary.paired_score, summary.baseline
    return -(a / (a + b)) if a + b > 0 else -0.5


def errs_more(summary: StoredSummary) -> bool:
    """Whether a model is known to be worse than its best baseline, in the sense of the order ``worst``."""
    return key("worst", summary) < -0.5


class Place(NamedTuple):
    """A place in an order: of a model that is, or was, listed there."""

    key: float
    name: str


class SummaryTable:
    """All models as they were read one after the other, in the order of their names.

    Args:
        begun: when the first of them was read, by the loop's clock.

    Attributes:
        models: the models.
        lasts_s: how long it is used.
    """

    def __init__(self, begun: float) -> None:
        self.begun, self.lasts_s = begun, REFRESH_S
        self.models: list[Listed] = []
        self._keys: dict[Order, list[float]] = {order: [] for order in ORDERS}
        self._orders: dict[Order, tuple[Floats, NDArray[np.intp]]] = {}

    def add(self, models: Sequence[Listed]) -> None:
        """Take in the models that follow by name."""
        self.models += models
        for order, keys in self._keys.items():
            keys += [key(order, model.summary) for model in models]

    def after(self, order: Order, place: Place | None) -> tuple[NDArray[np.intp], Floats]:
        """What follows a place in an order: indices of models, and their keys."""
        keys, indices = self._sorted(order)
        if place is None:
            return indices, keys
        low, high = np.searchsorted(keys, place.key, "left"), np.searchsorted(keys, place.key, "right")
        named = bisect_right(self.models, place.name, key=attrgetter("name"))
        start = low + np.searchsorted(indices[low:high], named, "left")
        return indices[start:], keys[start:]

    def _sorted(self, order: Order) -> tuple[Floats, NDArray[np.intp]]:
        """The sort is stable: models of equal keys stay in the order of their names."""
        if order not in self._orders:
            keys = np.array(self._keys[order], dtype=np.float64)
            indices = np.argsort(keys, kind="stable")
            self._orders[order] = keys[indices], indices
        return self._orders[order]


class SummaryTables:
    """The present table of one process.

    Args:
        read: a page of the models after a name, and the name to go on after.
    """

    def __init__(self, read: Callable[[int, str | None], Awaitable[tuple[list[Listed], str | None]]]) -> None:
        self._read = read
        self._table: SummaryTable | None = None
        self._refreshing: asyncio.Task[SummaryTable] | None = None

    async def present(self) -> SummaryTable:
        """The table, read anew if it has been used for as long as it may.

        Raises:
            Unavailable: the store did not answer, or cannot now.
        """
        loop = asyncio.get_running_loop()
        if self._table is not None and loop.time() < self._table.begun + self._table.lasts_s:
            return self._table
        if self._refreshing is None:
            self._refreshing = loop.create_task(self._refresh(), context=Context())
            self._refreshing.add_done_callback(self._refreshed)
        return await asyncio.shield(self._refreshing)

    async def _refresh(self) -> SummaryTable:
        table = SummaryTable(asyncio.get_running_loop().time())
        models, following = await self._read(READ_AT_ONCE, None)
        table.add(models)
        while following is not None:
            models, following = await self._read(READ_AT_ONCE, following)
            table.add(models)
        took = asyncio.get_running_loop().time() - table.begun
        table.lasts_s = min(REFRESH_S, max(REFRESH_S_MIN, took / SHARE))
        return table

    def _refreshed(self, task: "asyncio.Task[SummaryTable]") -> None:
        self._refreshing = None
        if not task.cancelled() and task.exception() is None:
            self._table = task.result()


LOOKED_AT = 1000
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
            if at % LOOKED_AT == LOOKED_AT - 1:
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
        for at in range(0, len(table.models), LOOKED_AT):
            found += sum([wanted(model.name) for model in table.models[at : at + LOOKED_AT]])
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
