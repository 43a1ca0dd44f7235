"""What is stored of one loaded model's summary, and whether it lags behind the model."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from core.model import read
from service.store import summaries
from service.store.summaries import StoredSummary

if TYPE_CHECKING:
    from service.runtime.replica import Replica

WINDOW_S = 5.0
"""Least time between the two looks, once there have been looks for so long."""
LEAST_S = 1.0
"""Looks closer together tell nothing."""
STILL_S = 15.0
"""Who has not been looked at for so long begins anew."""


class RowMeter:
    """A rate of rows.

    Whoever looks passes the time, by any clock, and the rows so far.

    Args:
        always_looked_at: whenever there are new rows, so that a pause is one without any; otherwise the rate is not
            known after a pause of STILL_S, as nobody knows when its rows came.
    """

    __slots__ = ("_always", "_before", "_last", "_seen")

    def __init__(self, always_looked_at: bool = True) -> None:
        self._always = always_looked_at
        self._before: tuple[float, int] | None = None
        self._last = (0.0, 0)
        self._seen = 0

    def note(self, now: float, rows: int) -> None:
        """Note how many rows there are."""
        then, _ = self._last
        unknown = not self._always and now - then >= STILL_S
        if self._before is None or rows < self._seen or unknown:  # the first look, or the count has started again
            self._before = self._last = (now, rows)
        elif now - then >= WINDOW_S:
            # After a pause what is new came at its end: whoever brought it made the last look but this one, too.
            self._before = self._last if now - then < STILL_S else (now - WINDOW_S, self._seen)
            self._last = (now, rows)
        self._seen = rows

    def rate(self, now: float, rows: int) -> float | None:
        """Rows a second; None where that is not known yet."""
        self.note(now, rows)
        then, count = self._before or self._last
        return (rows - count) / (now - then) if now - then >= LEAST_S else None


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

    def due(self, model: "Replica") -> bytes:
        """The record that goes with an append that is made now; empty where none is due."""
        self.appended = now = asyncio.get_running_loop().time()
        if self.ahead is None or now < self._rode + RIDE_S:
            return b""
        self._rode = now
        return self.record(model)

    def settle(self, version: int, record: bytes) -> None:
        """Note what the store has now; what was applied meanwhile is ``moved`` afterwards."""
        if version >= self.written:
            self.stored, self.written = record, version
        self.ahead = None
