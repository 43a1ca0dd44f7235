"""The list of models: from the summaries in the store, and from the models in memory if they know more.

Listing loads no model. Redis keeps the models in order of name only. For any other order a process reads all summaries
into a table, in bounded steps, when a request needs it and the last table is too old; requests that come meanwhile wait
for the same table. A model takes about 400 bytes.
"""

import asyncio
import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from contextvars import Context
from operator import attrgetter
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats
from service.runtime.replicas.model_cache import ModelCache
from service.store.catalog import Catalog, Listed, Wanted
from service.store.summaries import StoredSummary, down

Order = Literal["rows", "updated", "worst"]
ORDERS: tuple[Order, ...] = get_args(Order)
REFRESH_S, REFRESH_S_MIN = 5.0, 0.5
"""The longest and the shortest use of a table; in between, reading tables takes ``SHARE`` of the time."""
SHARE = 0.05
READ_AT_ONCE, LOOKED_AT = 200, 1000
"""Models read, and models of a table looked at, between two turns of the event loop's other tasks."""
ROWS_LEAST = 30  # with fewer rows an error says too little
LAST = 1.0  # the key of a model whose figure is unknown; all known keys are 0 or less


def key(order: Order, summary: StoredSummary) -> float:
    """The sort key of a model, lowest first.

    ``worst`` sorts by a/(a + b), where a is the model's error in its window and b that of its best baseline. It is 1/2
    if they are equal (even if both are 0), 1 if only the baseline is never wrong, and increases with the ratio a/b,
    which makes models of all kinds comparable. With fewer than ``ROWS_LEAST`` rows it counts as unknown.
    """
    own = summary.figures
    if order == "updated":
        return -float(summary.time_ms)
    if order == "rows":
        return LAST if own.rows is None else -float(own.rows)
    a, b = own.error, own.baseline_error
    if a is None or b is None or (own.rows or 0) < ROWS_LEAST:
        return LAST
    return -(a / (a + b)) if a + b > 0 else -0.5


def errs_more(summary: StoredSummary) -> bool:
    """Whether a model is known to be worse than its best baseline, in the sense of the order ``worst``."""
    return key("worst", summary) < -0.5


class ListPosition(NamedTuple):
    """A position in an order: the key and name of a model that is, or was, listed there."""

    key: float = -math.inf
    name: str = ""


class SummaryTable:
    """All models as they were read one after the other, in the order of their names.

    ``began`` is when the first of them was read, and ``until`` when its use ends, by the loop's clock.
    """

    def __init__(self, began: float) -> None:
        self.began = self.until = began
        self.models: list[Listed] = []
        self._keys: dict[Order, list[float]] = {order: [] for order in ORDERS}
        self._sorted: dict[Order, tuple[NDArray[np.intp], Floats]] = {}

    def add(self, models: Sequence[Listed]) -> None:
        """Add the models that follow by name."""
        self.models += models
        for order, keys in self._keys.items():
            keys += [key(order, model.summary) for model in models]

    def after(self, order: Order, place: ListPosition) -> tuple[NDArray[np.intp], Floats]:
        """The models after a position in an order: their indices and keys."""
        if order not in self._sorted:
            unsorted = np.array(self._keys[order], dtype=np.float64)
            indices = np.argsort(unsorted, kind="stable")  # models of equal keys stay in the order of their names
            self._sorted[order] = indices, unsorted[indices]
        indices, keys = self._sorted[order]
        low, high = np.searchsorted(keys, place.key, "left"), np.searchsorted(keys, place.key, "right")
        named = bisect_right(self.models, place.name, key=attrgetter("name"))
        start = low + np.searchsorted(indices[low:high], named, "left")
        return indices[start:], keys[start:]


class Listing:
    """The models of the store, in any order; methods raise Unavailable if the store does not or cannot answer."""

    def __init__(self, catalog: Catalog, models: ModelCache) -> None:
        self._catalog, self._models = catalog, models
        self._table = SummaryTable(-math.inf)
        self._refreshing: asyncio.Task[None] | None = None

    async def by_name(self, limit: int, after: str | None, wanted: Wanted | None) -> tuple[list[Listed], str | None]:
        """A page in the order of names, as the store has it now, and the name to go on after.

        At most ``limit`` models, of those ``wanted`` (None: of all), after the name ``after`` (None: from the first).
        """
        models, following = await self._catalog.summaries(limit, after, wanted)
        found = {model.name: self._present(model) for model in models}
        for replica in self._models.lost:  # the store has lost them, this process holds them
            name, known = replica.name, replica.shown_summary()
            on_page = (after is None or after < name) and (following is None or name <= following)
            if known is not None and on_page and (wanted is None or wanted(name)):
                found.setdefault(name, Listed(name, replica.incarnation, down(known)))
        if len(found) > limit:
            following = sorted(found)[limit - 1]
        return [found[name] for name in sorted(found)[:limit]], following

    def _present(self, listed: Listed) -> Listed:
        """The listed model, updated if this process knows more than the store."""
        name, incarnation, summary, _ = listed
        replica = self._models.peek(name)
        if replica is None or replica.incarnation != incarnation:
            refused = self._models.refuses(name, incarnation)
            return listed._replace(summary=down(summary)) if refused else listed
        if replica.down is not None:
            return listed._replace(summary=down(summary))
        known = replica.shown_summary()
        rate = replica.summary.meter.rate(asyncio.get_running_loop().time(), replica.model.rows)
        later = summary if known is None or known.version < summary.version else known
        return listed._replace(summary=later, rows_per_s=rate)

    async def by(
        self, order: Order, limit: int, after: ListPosition, wanted: Wanted | None
    ) -> tuple[list[Listed], ListPosition | None, float]:
        """A page in another order, the position to go on after, and the age of its table in seconds.

        A model whose place changes between two tables may be on two pages, or on none.
        """
        table = await self._present_table()
        indices, keys = table.after(order, after)
        found = await _first((table.models[at] for at in indices), wanted, limit + 1)
        shown = [table.models[indices[at]] for at in found[:limit]]
        following = ListPosition(float(keys[found[limit - 1]]), shown[-1].name) if len(found) > limit else None
        return shown, following, asyncio.get_running_loop().time() - table.began

    async def totals(self, wanted: Wanted) -> tuple[int, float | None]:
        """How many models are wanted, and the rows per second of those whose rate this process knows, if any."""
        models = (await self._present_table()).models
        found = [models[at] for at in await _first(models, wanted, len(models))]
        rates = [model.rows_per_s for model in found if model.rows_per_s is not None]
        return len(found), sum(rates) if rates else None

    async def _present_table(self) -> SummaryTable:
        """The table, read again if it is too old."""
        loop = asyncio.get_running_loop()
        if loop.time() >= self._table.until:
            if self._refreshing is None or self._refreshing.done():
                self._refreshing = loop.create_task(self._refresh(), context=Context())
            await asyncio.shield(self._refreshing)
        return self._table

    async def _refresh(self) -> None:
        now = asyncio.get_running_loop().time
        table = SummaryTable(now())
        models, following = await self.by_name(READ_AT_ONCE, None, None)
        table.add(models)
        while following is not None:
            models, following = await self.by_name(READ_AT_ONCE, following, None)
            table.add(models)
        took = now() - table.began
        table.until = table.began + min(REFRESH_S, max(REFRESH_S_MIN, took / SHARE))
        self._table = table


async def _first(models: Iterable[Listed], wanted: Wanted | None, most: int) -> list[int]:
    """The positions of the first ``most`` wanted models; other tasks have a turn in between."""
    found: list[int] = []
    for at, model in enumerate(models):
        if wanted is None or wanted(model.name):
            found.append(at)
        if len(found) == most:
            break
        if at % LOOKED_AT == LOOKED_AT - 1:
            await asyncio.sleep(0)
    return found
