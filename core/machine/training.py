"""Test, then train: rows with labels as values go through a pipeline; what comes out is watched, then scored.

A class is cut out where it appears for the first time: its own row is tested without it. Where the model acts on
drift, rows are also cut where a drift can be found.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Ints, Prediction
from core.entry import ServedPrediction
from core.features.labels import Label, LabelSet
from core.machine.drift_response import DriftResponse
from core.metrics.scored import Scored, joined, of_classes
from core.switching.phases import RowRoute


class TrainingBlock(NamedTuple):
    """Rows to learn, in order, of one space under one watch.

    Attributes:
        route: how rows of the space are read, and what they train.
        drift_response: the drift tests.
        raw: (n, F) rows.
        discounts: (n,) or None.
        row: rows the model had learned before them.
    """

    route: RowRoute
    drift_response: DriftResponse
    raw: Floats
    discounts: Floats | None
    row: int

    def learn(self, part: slice, truth: NDArray[Any], new: bool) -> Prediction:
        """Test then train on a part of the rows; what the model says of them is shown to the watch."""
        given = None if self.discounts is None else self.discounts[part]
        route, X = self.route, self.route.absorb(self.raw[part])
        predictions = (route.learn_new_class if new else route.learn)(X, truth, given)
        if route.watched:
            shown = route.teaches.watched(X)
            self.drift_response.observe(route.teaches, shown, truth, predictions.value, self.row + part.start)
        else:
            route.teaches.take_alarms()
        return predictions

    def rows_until_next_test(self, classes: Ints) -> int:
        """How many of the next rows, of these classes (n,), may be learned at once."""
        return self.drift_response.rows_until_next_test(classes) if self.route.watched else len(classes)


def learn_numbers(block: TrainingBlock, truth: Floats) -> Scored:
    """Regression rows and their numbers (n,), in order."""
    parts: list[Scored] = []
    start, classes = 0, np.zeros(len(truth), dtype=np.int64)
    while start < len(truth) or not parts:
        stop = start + block.rows_until_next_test(classes[start:])
        part = slice(start, stop)
        predictions = block.learn(part, truth[part], new=False)
        parts.append(Scored(predictions.value, truth[part], np.empty(0)))
        start = stop
    return parts[0] if len(parts) == 1 else joined(parts)


def learn_classes(block: TrainingBlock, seen: LabelSet, labels: Sequence[Label]) -> Scored:
    """Classification rows and their labels, in order; labels not seen before join ``seen``."""
    parts: list[Scored] = []
    truth = seen.indices(labels)
    start = 0
    while start < len(truth):
        unseen = np.flatnonzero(truth[start:] < 0)
        stop = start + int(unseen[0]) if len(unseen) else len(truth)
        new = stop == start
        if new:
            stop += 1
            truth[start] = seen.add(labels[start])
            truth[stop:] = seen.indices(labels[stop:])
            block.drift_response.add_class()
        else:
            stop = start + block.rows_until_next_test(truth[start:stop])
        part = slice(start, stop)
        predictions = block.learn(part, truth[part], new)
        scored = (
            Scored(predictions.value, truth[part], np.array([np.nan])) if new else of_classes(predictions, truth[part])
        )
        parts.append(scored)
        start = stop
    if not parts:  # every row of a request may have been learned before
        return without_predictions(truth)
    return parts[0] if len(parts) == 1 else joined(parts)


def without_predictions(truth: NDArray[Any]) -> Scored:
    """Rows without predictions, with their numbers or class indices (n,): for ``scored_as_served``."""
    if truth.dtype == np.float64:
        return Scored(np.zeros(len(truth)), truth, np.empty(0))
    return Scored(np.full(len(truth), -1, dtype=np.int64), truth, np.full(len(truth), np.nan))


def scored_as_served(scored: Scored, served: Sequence[ServedPrediction | None], seen: LabelSet | None) -> Scored:
    """Tracked rows scored by what the client was served.

    Args:
        scored: what the model says of the rows.
        served: one per row, None for rows that were not tracked.
        seen: the classes seen, None for regression.
    """
    predicted, p_true = scored.predicted.copy(), scored.p_true.copy()
    for row, answer in enumerate(served):
        if answer is None:
            continue
        if seen is None:
            predicted[row] = answer.prediction
            continue
        predicted[row] = -1 if answer.prediction is None else seen.index(answer.prediction)  # type: ignore[arg-type]
        shares = {seen.index(label): share for label, share in answer.probabilities or ()}
        p_true[row] = shares.get(int(scored.truth[row]), np.nan)
    return Scored(predicted, scored.truth, p_true)
