"""One learner of a model with all that belongs to it: the model's own, or a challenger's.

What the model has accepted, every member does: it tests and trains on rows, scores what it said of them, takes the
steps of a change of features, goes over to other settings, and begins anew. What is answered is the model's own.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from core.contract import Floats
from core.drift.episodes import Episodes
from core.entry import Overlap, ServedPrediction, Switch
from core.features.labels import LabelSet
from core.intervals.conformal import as_told
from core.metrics import RegressionMetrics
from core.model.block_rows import BlockRows
from core.model.configuring import MemberChange
from core.model.drift_response import Seen
from core.model.late_labels import classes_as_served, numbers_as_served
from core.model.readings import Readings
from core.model.training import Scored, TrainingBlock, learn_classes, learn_numbers, of_classes, unpredicted_numbers
from core.switching.overlap import OverlapPeriod


class Member(Readings):
    """The state of one learner, and what rows and steps do with it."""

    # ---------------------------------------------------------------- rows

    def learn_rows(self, space: str, rows: BlockRows) -> Scored:
        """Test then train on rows, and score them: tracked ones by what this learner said of them then.

        Args:
            space: the id of theirs; rows of one that is gone are only scored.
            rows: what was served of them is this learner's own.
        """
        raw, labels, (discounts, weights), served = rows
        route = self.switching.routes.get(space)
        if route is None or self.drift_response is None:
            scored = self._only_labels(labels)
        else:
            if raw.shape != (len(labels), route.schema.raw_width):
                raise ValueError(f"rows of shape {raw.shape} with {len(labels)} labels are not of this feature space")
            if discounts is not None or weights is not None:
                discounts, weights = self._taken(discounts, weights)
            told = None if served is None else route.told(served)
            given = raw, discounts, weights, self.rows, self.label_range, told
            block = TrainingBlock(route, self.drift_response, self.answers, *given)
            if self.regression:
                scored = learn_numbers(block, np.ascontiguousarray(labels, dtype=np.float64))
            else:
                scored = learn_classes(block, labels)
        self.rows += len(raw)
        return self._score(scored, served)

    def _taken(self, discounts: Floats | None, weights: Floats | None) -> tuple[Floats | None, Floats | None]:
        """What the learner takes of what rows were sent with; the rest was meant for another one."""
        algorithm = self.config.algorithm
        return discounts if algorithm.row_discounts else None, weights if algorithm.row_weights else None

    def _only_labels(self, labels: Any) -> Scored:
        """Tracked rows of a space that is gone: the labels, to be scored by the predictions that were served."""
        if self.label_range is not None:
            return unpredicted_numbers(np.ascontiguousarray(labels, dtype=np.float64), self.label_range)
        for label in labels:
            if self.labels.index(label) < 0:
                self.answers.add(label)
                if self.pipeline is not None and self.drift_response is not None:
                    self.pipeline.add_class()
                    self.drift_response.add_class()
        return of_classes(self.answers.unsaid(labels))

    def _score(self, scored: Scored, served: list[ServedPrediction | None] | None) -> Scored:
        """Add rows to the metrics, residuals to the intervals; as they were scored, tracked ones by what was served."""
        metrics = self.metrics
        if isinstance(metrics, RegressionMetrics):
            assert self.intervals is not None
            if served is None:
                metrics.absorb(scored.predicted, scored.truth)
                self.intervals.absorb(scored.predicted, scored.truth)
            else:
                scored, number = numbers_as_served(scored, served)
                metrics.absorb(scored.predicted, scored.truth, number)
                told = as_told([() if one is None else one.interval for one in served])
                self.intervals.absorb(scored.predicted, scored.truth, told)
            return scored
        classes = len(self.answers.said.labels)
        if served is None:
            metrics.absorb(scored.predicted, scored.truth, scored.facts, classes)
        else:
            before = self.rows - len(served)
            scored, said = classes_as_served(scored, served, self.answers, before)
            metrics.absorb(scored.predicted, scored.truth, scored.facts, classes, said)
        return scored

    def as_told(self, scored: Scored, served: Sequence[ServedPrediction | None]) -> Scored:
        """Rows as they are answered: scored by what the client was told, whichever learner had said it."""
        if self.regression:
            return numbers_as_served(scored, served)[0]
        return classes_as_served(scored, served, self.answers, self.rows - len(served))[0]

    def take_alarms(self) -> list[Seen]:
        """The alarms of the rows learned last, which are forgotten here."""
        return [] if self.drift_response is None else self.drift_response.take_alarms()

    def end_episodes(self) -> None:
        """The next alarm is another event than those before it."""
        if self.drift_response is not None:
            self.drift_response.episodes = Episodes(self.config.watch)

    # ---------------------------------------------------------------- steps

    def begin_at(self, classes: LabelSet, rows: int) -> None:
        """Begin beside a model that has learned so many rows, of these classes."""
        self.rows = self.before = self.answers.before = rows
        for label in classes.labels:
            self.answers.add(label)
            if self.pipeline is not None and self.drift_response is not None:
                self.pipeline.add_class()
                self.drift_response.add_class()

    def switch(self, segment: Switch) -> str | None:
        """Make a step in a change of features that nothing stands against; a warning, or None."""
        warning = self.switching.step(segment, self.rows, len(self.labels))
        if segment.action == "complete" and self.drift_response is not None and self.prediction_schema is not None:
            self.drift_response.move(self.prediction_schema)
            self.unknown.keep(self.prediction_schema)
        self.metrics.mark(self.rows, "switch", action=segment.action)
        return warning

    def map(self, segment: Overlap) -> int:
        """Train the mapping of an overlap on rows without labels; how many."""
        now = self.pipeline
        assert isinstance(now, OverlapPeriod)
        raw = np.delete(segment.X, segment.skip, axis=0) if segment.skip else segment.X
        now.map(np.ascontiguousarray(raw))
        return len(raw)

    def begin_anew(self) -> None:
        """Nothing learned; after a change of features in the new ones."""
        switching = self.switching
        self.clear()
        switching.reset()
        self.enter(switching)
        self.metrics.mark(0, "reset")

    def change(self, change: MemberChange) -> None:
        """Go over to another configuration, where it is another one."""
        if not change.fields:
            return
        self.configure(change.config)
        if change.features is not None:
            self.extend(change.features)
        self.metrics.mark(self.rows, "configure", fields=change.fields)
