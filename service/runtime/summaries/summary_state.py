"""What is stored of one loaded model's summary, and whether it lags behind the model."""

import asyncio
from typing import Protocol

from core.model import Model, read
from service.runtime.row_meter import RowMeter
from service.store import summaries
from service.store.summaries import StoredSummary

RIDE_S = 1.0
"""Least time between two summaries of a model that go with its appends."""


class Summarised(Protocol):
    """What is summarised: a replica."""

    @property
    def machine(self) -> Model:
        """The state at ``version``."""

    @property
    def version(self) -> int:
        """The last applied entry."""

    @property
    def time_ms(self) -> int:
        """Its time."""


class Listener(Protocol):
    """Hears which models have left their summaries behind: the writer."""

    def moved(self) -> None:
        """The model has moved on from its stored summary."""

    def failed(self) -> None:
        """The model is out of service."""

    def loaded(self) -> None:
        """The model has been loaded, once more perhaps, and may differ from its stored summary."""


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
        self.listener: Listener | None = None
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

    def look(self, model: Summarised) -> StoredSummary:
        """The summary of the model as it is; nobody may be changing it."""
        self.last = StoredSummary(model.version, model.time_ms, *read.summary(model.machine))
        self.meter.note(asyncio.get_running_loop().time(), model.machine.rows)
        return self.last

    def record(self, model: Summarised) -> bytes:
        """The same as bytes."""
        return summaries.encode(self.look(model))

    def due(self, model: Summarised) -> bytes:
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
