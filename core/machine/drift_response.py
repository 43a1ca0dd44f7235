"""What a model does about drift: the tests it runs on every row, and how it responds to an alarm.

    rows_until_next_test(classes)   how many rows may be learned before it must be asked again
    observe(pipeline, X, ...)       takes rows that were just learned, keeps the alarms and acts upon them

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
from core.drift.detector import DriftDetector
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


class DriftResponse:
    """The watch of one model.

    Args:
        config: the model's configuration.
        schema: the feature space of its rows.

    Attributes:
        detector: the tests that the learner does not make itself.
    """

    def __init__(self, config: Config, schema: Space) -> None:
        own = config.algorithm.own_tests(config.params)
        tests = {kind: test for kind, test in config.watch.items() if kind not in own}
        self._regression = config.task == "regression"
        self._kinds = set(config.watch)
        self._acts = config.on_drift
        self._row_by_row = config.on_drift != "report" and bool(self._kinds & set(own))
        self._tests, self._idle = tests, not tests
        self._seen: list[Seen] = []
        self.detector = DriftDetector(tests, schema.ranges, self._regression)

    def take(self) -> list[Seen]:
        """The alarms since the last time, in the order of their rows."""
        taken, self._seen = self._seen, []
        return taken

    def move(self, schema: Space) -> None:
        """Rows are of another feature space from now on: windows begin anew, so that a switch is not called a drift."""
        classes = self.detector.classes
        self.detector = DriftDetector(self._tests, schema.ranges, self._regression)
        for _ in range(classes - self.detector.classes):
            self.detector.add_class()

    def add_class(self) -> None:
        """One more class, called before its first row is shown."""
        self.detector.add_class()

    def rows_until_next_test(self, classes: Ints) -> int:
        """How many of the next rows, of these classes (n,), may be learned before the alarms are looked at."""
        if self._acts == "report" or not len(classes):
            return len(classes)
        return 1 if self._row_by_row else self.detector.rows_to_test(classes)

    def observe(self, pipeline: Alarming, X: Floats, truth: NDArray[Any], predictions: NDArray[Any], row: int) -> None:
        """Rows that were just learned.

        Args:
            pipeline: what learned them.
            X: (n, D) encoded rows.
            truth: (n,) class indices, or numbers.
            predictions: (n,) a-priori predictions.
            row: rows the model had learned before them.
        """
        alarms = [] if self._idle else self._shown(X, truth, predictions)
        seen = [Seen(row + alarm.row + 1, alarm, self._acts) for alarm in alarms]
        if own := pipeline.take_alarms():  # the learner has answered them already: it has started the class anew
            mine = [Seen(row + alarm.row + 1, alarm, "reset") for alarm in own if alarm.kind in self._kinds]
            seen = sorted(mine + seen, key=lambda one: one.row)
        if seen:
            self._seen += seen
            self._act(pipeline)

    def _shown(self, X: Floats, truth: NDArray[Any], predictions: NDArray[Any]) -> list[Alarm]:
        if self._regression:
            return self.detector.absorb(X, np.zeros(len(truth), dtype=np.int64), squared(predictions, truth))
        return self.detector.absorb(X, truth, (predictions != truth).astype(np.float64))

    def _act(self, pipeline: Alarming) -> None:
        if self._acts == "report":
            return
        if self._acts == "reset":
            pipeline.reset_learner(0 if self._regression else self.detector.classes)
        else:
            pipeline.forget()
        self.detector.restart()

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return self.detector.nbytes

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state: that of the watch."""
        return self.detector.to_arrays()

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state that ``to_arrays`` gave.

        Raises:
            ValueError: what no state of this configuration can be; nothing has changed.
        """
        self.detector.load_arrays(arrays, header)
