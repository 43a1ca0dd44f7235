"""A model's response to drift: the tests of its rows, and the action at an alarm.

Alarms of one drift are one episode (core.drift.outbox), and the model only acts on its first alarm.

A model that only reports drift learns whole blocks. One that resets or forgets must do so at the exact row, however
clients batch their rows: it learns up to the next row at which a test can fire, which the labels alone determine
(core.drift.detector), and row by row if the learner itself runs tests.

After an action all windows start empty: the errors of a model just after a reset are not a drift.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.config import Config
from core.contract import Alarm, Floats, Ints
from core.drift.detector import DriftDetector
from core.drift.outbox import EpisodePlace, Episodes, OnDrift
from core.features import Schema, Space
from core.features.feature_space import column_places
from core.switching.overlap import OverlapPeriod
from core.switching.phases import Phase

_ONE_CLASS = np.zeros(1, dtype=np.int64)


def _one_class(truth: NDArray[Any]) -> Ints:
    """Class indices (n,) of rows of a regression, which are tested as one class."""
    return _ONE_CLASS if len(truth) == 1 else np.zeros(len(truth), dtype=np.int64)


class LocatedAlarm(NamedTuple):
    """An alarm with the absolute number of its row (the first row learned is 1), its episode, and what was done."""

    row: int
    alarm: Alarm
    place: EpisodePlace
    action: OnDrift


class DriftResponse:
    """The drift tests of one model and the response to their alarms."""

    def __init__(self, config: Config, schema: Space) -> None:
        self.regression = config.task == "regression"
        self.alarms: list[LocatedAlarm] = []  # of rows observed since they were last taken, in the order of the rows
        self.episodes = Episodes()  # groups the alarms of one drift
        self._follow(config)
        # The tests that the learner does not run itself.
        self.detector = DriftDetector(self._tests, schema.drift_ranges, self.regression)

    def configure(self, config: Config, schema: Space) -> None:
        """Continue with another configuration: tests that stay keep their windows, new ones start empty.

        The episode continues.
        """
        before, tests = self.detector, self._tests
        self._follow(config)
        if self._tests != tests:
            self.move(schema)
            self.detector.adopt(before)

    def _follow(self, config: Config) -> None:
        """Apply the settings that a change of the configuration can change."""
        self._of_learner = frozenset(config.algorithm.own_tests(config.params))
        self._tests = {kind: test for kind, test in config.watch.tests.items() if kind not in self._of_learner}
        self._kinds = set(config.watch.tests)
        self._lengths = config.watch.episode_rows, config.watch.cooldown_rows
        self._action = config.on_drift
        self.acts = self._action != "report"  # whether an alarm changes the model, at its row
        self._row_by_row = bool(self._kinds & self._of_learner)

    def take_alarms(self) -> list[LocatedAlarm]:
        """Return and clear the alarms."""
        taken, self.alarms = self.alarms, []
        return taken

    def move(self, schema: Space) -> None:
        """Switch to another feature space: windows start empty, so that a switch does not count as a drift."""
        self.detector = DriftDetector(self._tests, schema.drift_ranges, self.regression, self.detector.classes)

    def extend(self, before: Schema, schema: Schema) -> None:
        """Switch to a space with additional categories: windows continue, because those columns were 0 so far."""
        old = self.detector
        self.move(schema)
        self.detector.adopt(old, column_places(before, schema))

    def add_class(self) -> None:
        """Add a class; call this before its first row is observed."""
        self.detector.add_class()

    def rows_until_next_test(self, truth: NDArray[Any]) -> int:
        """How many of the next rows, with this truth (n,), may be learned before an alarm must be acted upon."""
        if not self.acts or not len(truth):
            return len(truth)
        return 1 if self._row_by_row else self.detector.rows_to_test(_one_class(truth) if self.regression else truth)

    def observe(self, model: Phase, X: Floats, truth: NDArray[Any], losses: Floats, row: int) -> bool:
        """Test encoded rows X (n, D) that ``model`` has just learned; ``row`` rows were learned before them.

        Returns whether an alarm has reset the learner.

        Losses (n,) are of the a-priori predictions: 0 or 1 (core.model.class_answers), or squared errors.
        """
        found: list[Alarm] = []
        if self._tests:
            found = self.detector.absorb(X, _one_class(truth) if self.regression else truth, losses)
        own = [alarm for alarm in model.take_alarms() if alarm.kind in self._kinds] if self._of_learner else []
        if found or own:
            both = [*((alarm, True) for alarm in own), *((alarm, False) for alarm in found)]
            seen = [
                self._seen(alarm, of_learner, row) for alarm, of_learner in sorted(both, key=lambda one: one[0].row)
            ]
            self.alarms += seen
            if self.acts and any(not (one.place.joins or one.place.held_back) for one in seen):
                self._act(model)
                return self._action == "reset"
        return False

    def _seen(self, alarm: Alarm, own: bool, row: int) -> LocatedAlarm:
        """An alarm in its episode. If the learner's own test raised it, the learner has already restarted the class."""
        at = row + alarm.row + 1
        place = self.episodes.place(at, *self._lengths)
        idle = place.joins or place.held_back
        return LocatedAlarm(at, alarm, place, "reset" if own else "report" if idle else self._action)

    def _act(self, model: Phase) -> None:
        in_force = model.old if isinstance(model, OverlapPeriod) else model
        if self._action == "reset":
            in_force.reset_learner(0 if self.regression else self.detector.classes)
        else:
            in_force.forget()
        self.detector.restart()
