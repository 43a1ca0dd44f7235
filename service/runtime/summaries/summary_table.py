"""A table of the summaries of all models, for lists in another order than by name.

Redis holds the models in the order of their names alone. So each process reads all summaries when somebody asks for
another order, in bounded steps, now and then; requests that come meanwhile wait for the same refresh. A
model takes about 400 bytes.
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
from service.store.catalog import Listed
from service.store.summaries import StoredSummary

Order = Literal["rows", "updated", "worst"]
ORDERS: tuple[Order, ...] = ("rows", "updated", "worst")
REFRESH_S, REFRESH_S_MIN = 5.0, 0.5
"""How long a table is used: as long as it takes ``SHARE`` of the time at most to read it, within these bounds."""
SHARE = 0.05
STEP = 500
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
        models, following = await self._read(STEP, None)
        table.add(models)
        while following is not None:
            models, following = await self._read(STEP, following)
            table.add(models)
        took = asyncio.get_running_loop().time() - table.begun
        table.lasts_s = min(REFRESH_S, max(REFRESH_S_MIN, took / SHARE))
        return table

    def _refreshed(self, task: "asyncio.Task[SummaryTable]") -> None:
        self._refreshing = None
        if not task.cancelled() and task.exception() is None:
            self._table = task.result()
