"""The drift watch at its post: what it is shown of every row, and what a model does at an alarm.

    reach(classes)              how many rows may be learned before it must be asked again
    after(pipeline, X, ...)     rows that were just learned; alarms are kept, and acted upon

A model that only reports learns whole blocks. One that resets or forgets must do so at the exact row, however clients
cut their rows: so it learns up to the next row at which a test can fire, which the labels alone tell
(core.drift.detector), and row by row where the learner makes tests of its own.

After an action all windows begin anew: a model that has just been reset makes errors for a while, which are no drift.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from core.config import Config
from core.contract import Alarm, Floats, Header, Ints
from core.drift.config import OnDrift
from core.drift.detector import Watch
from core.features import Space
from core.metrics.scored import squared


class Seen(NamedTuple):
    """An alarm with the absolute number of its row (the first row learned is 1), and what was done."""

    row: int
    alarm: Alarm
    action: OnDrift


class Alarming(Protocol):
    """What learns rows, as far as the watch acts on it: a pipeline, or what stands for one during a switch."""

    def take_alarms(self) -> list[Alarm]:
        """The alarms of learners that make tests themselves, of the rows just learned."""

    def reset_learner(self, classes: int) -> None:
        """Learners in their first state, with so many classes."""

    def forget(self) -> None:
        """Learners trust their past less, where they can."""


class Lookout:
    """The watch of one model.

    Args:
        config: the model's configuration.
        schema: the feature space of its rows.

    Attributes:
        watch: the tests that the learner does not make itself.
    """

    def __init__(self, config: Config, schema: Space) -> None:
        own = config.entry.own_tests(config.params)
        tests = {kind: test for kind, test in config.watch.items() if kind not in own}
        self._regression = config.task == "regression"
        self._kinds = set(config.watch)
        self._acts = config.on_drift
        self._row_by_row = config.on_drift != "report" and bool(self._kinds & set(own))
        self._tests, self._idle = tests, not tests
        self._seen: list[Seen] = []
        self.watch = Watch(tests, schema.ranges, self._regression)

    def take(self) -> list[Seen]:
        """The alarms since the last time, in the order of their rows."""
        taken, self._seen = self._seen, []
        return taken

    def move(self, schema: Space) -> None:
        """Rows are of another feature space from now on: windows begin anew, so that a switch is not called a drift."""
        classes = self.watch.classes
        self.watch = Watch(self._tests, schema.ranges, self._regression)
        for _ in range(classes - self.watch.classes):
            self.watch.add_class()

    def add_class(self) -> None:
        """One more class, called before its first row is shown."""
        self.watch.add_class()

    def reach(self, classes: Ints) -> int:
        """How many of the next rows, of these classes (n,), may be learned before the alarms are looked at."""
        if self._acts == "report" or not len(classes):
            return len(classes)
        return 1 if self._row_by_row else self.watch.rows_to_test(classes)

    def after(self, pipeline: Alarming, X: Floats, truth: NDArray[Any], told: NDArray[Any], row: int) -> None:
        """Rows that were just learned.

        Args:
            pipeline: what learned them.
            X: (n, D) encoded rows.
            truth: (n,) class indices, or numbers.
            told: (n,) a-priori predictions.
            row: rows the model had learned before them.
        """
        alarms = [] if self._idle else self._shown(X, truth, told)
        seen = [Seen(row + alarm.row + 1, alarm, self._acts) for alarm in alarms]
        if own := pipeline.take_alarms():  # the learner has answered them already: it has started the class anew
            mine = [Seen(row + alarm.row + 1, alarm, "reset") for alarm in own if alarm.kind in self._kinds]
            seen = sorted(mine + seen, key=lambda one: one.row)
        if seen:
            self._seen += seen
            self._act(pipeline)

    def _shown(self, X: Floats, truth: NDArray[Any], told: NDArray[Any]) -> list[Alarm]:
        if self._regression:
            return self.watch.absorb(X, np.zeros(len(truth), dtype=np.int64), squared(told, truth))
        return self.watch.absorb(X, truth, (told != truth).astype(np.float64))

    def _act(self, pipeline: Alarming) -> None:
        if self._acts == "report":
            return
        if self._acts == "reset":
            pipeline.reset_learner(0 if self._regression else self.watch.classes)
        else:
            pipeline.forget()
        self.watch.restart()

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return self.watch.nbytes

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state: that of the watch."""
        return self.watch.to_arrays()

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state that ``to_arrays`` gave.

        Raises:
            ValueError: what no state of this configuration can be; nothing has changed.
        """
        self.watch.load_arrays(arrays, header)
