"""The outbox of drift alarms: the newest ones, as a bounded part of the state.

An alarm is a function of the log, so every replica finds the same ones, and finds them again after a crash. Readers do
not remove them: each remembers how far it has read, and new alarms replace the oldest.

    place of an alarm = (version, index)      the entry that raised it, and its number within that entry, from 0
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from core.contract import Alarm, Header
from core.features.labels import Label

KEPT = 256
"""Alarms kept. A reader that is further behind has missed some, as ``total`` shows."""

Action = Literal["report", "reset", "forget"]


@dataclass(frozen=True, slots=True)
class Change:
    """One feature whose mean has moved: its encoded column and the means of the two windows."""

    name: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Drift:
    """One detection.

    Attributes:
        version, index: its place.
        row: absolute number of the row that raised it; the first row learned is 1.
        time_ms: the entry's time.
        kind: which test, "class_mean" or "error_rate".
        label: the class whose rows the test compared, None for regression.
        features: the columns that moved, most first (class_mean); () otherwise.
        before, after: shares of wrong rows in the windows, for regression of large errors (error_rate); None otherwise.
        epsilon_cut: the threshold that was passed; of means in ranges of the column that moved most.
        rows_before, rows_after: sizes of the windows.
        action: what the model did.
    """

    version: int
    index: int
    row: int
    time_ms: int
    kind: str
    label: Label | None
    features: tuple[Change, ...]
    before: float | None
    after: float | None
    epsilon_cut: float
    rows_before: int
    rows_after: int
    action: Action

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands among the alarms of its model: they grow."""
        return self.version, self.index

    def to_json(self) -> Header:
        """The alarm as clients see it, but for the model's name, and the id and time that go with it."""
        return {
            "kind": self.kind,
            "class": self.label,
            "version": self.version,
            "row": self.row,
            "features": [asdict(change) for change in self.features],
            "before": self.before,
            "after": self.after,
            "epsilon_cut": self.epsilon_cut,
            "windows": {"before": self.rows_before, "after": self.rows_after},
            "action": self.action,
        }


def of_alarm(
    alarm: Alarm,
    place: tuple[int, int],
    row: int,
    time_ms: int,
    label: Label | None,
    columns: Sequence[str],
    action: Action,
) -> Drift:
    """An alarm in the client's terms.

    Args:
        alarm: as the test raised it.
        place: version and index.
        row: absolute number of its row.
        time_ms: the entry's time.
        label: the class, None for regression.
        columns: names of the alarm's columns.
        action: what the model did.
    """
    rates = alarm.kind == "error_rate"
    return Drift(
        *place,
        row=row,
        time_ms=time_ms,
        kind=alarm.kind,
        label=label,
        features=() if rates else tuple(map(Change, columns, alarm.before, alarm.after)),
        before=alarm.before[0] if rates else None,
        after=alarm.after[0] if rates else None,
        epsilon_cut=alarm.epsilon,
        rows_before=alarm.n_before,
        rows_after=alarm.n_after,
        action=action,
    )


class Outbox:
    """The last alarms of a model, oldest first.

    Attributes:
        total: how many there have been, kept or not.
        last: place of the newest alarm; (0, 0) before the first.
    """

    def __init__(self) -> None:
        self.total = 0
        self.last = (0, 0)
        self._kept: deque[Drift] = deque(maxlen=KEPT)

    def put(self, drift: Drift) -> None:
        """Add an alarm.

        Raises:
            ValueError: it does not come after the last one.
        """
        if self._kept and drift.place <= self._kept[-1].place:
            raise ValueError("alarms come in the order of their places")
        self._kept.append(drift)
        self.last = drift.place
        self.total += 1

    def after(self, place: tuple[int, int]) -> list[Drift]:
        """The alarms kept after a place, oldest first."""
        if not self._kept or self._kept[-1].place <= place:
            return []
        return [drift for drift in self._kept if drift.place > place]

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, coarsely."""
        return sum(400 + 150 * len(drift.features) for drift in self._kept)

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state: no arrays, everything in the header."""
        return {}, {"total": self.total, "kept": [asdict(drift) for drift in self._kept]}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state that ``to_arrays`` gave.

        Raises:
            ValueError: no outbox can have it; the state is unchanged.
        """
        try:
            kept = [_drift(raw) for raw in header["kept"]]
            total = header["total"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"not the state of an outbox: {error!r}") from error
        places = [drift.place for drift in kept]
        if arrays or type(total) is not int or total < len(kept) or len(kept) > KEPT or sorted(set(places)) != places:
            raise ValueError("not the state of an outbox")
        self.total, self._kept = total, deque(kept, maxlen=KEPT)
        self.last = places[-1] if places else (0, 0)


def _drift(raw: Mapping[str, Any]) -> Drift:
    fields = {**raw, "features": tuple(Change(**change) for change in raw["features"])}
    drift = Drift(**fields)
    numbers = [drift.epsilon_cut, *(value for change in drift.features for value in (change.before, change.after))]
    integers = (drift.version, drift.index, drift.row, drift.time_ms, drift.rows_before, drift.rows_after)
    if any(type(number) is not int or number < 0 for number in integers) or not np.isfinite(numbers).all():
        raise ValueError("not an alarm")
    return drift
