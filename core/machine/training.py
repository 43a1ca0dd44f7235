"""Test, then train: labelled rows of one space go through its models; the predictions are tested for drift.

Rows are cut where a class appears for the first time: its own row is predicted without it. Where the model acts on
drift, they are also cut at every row that can raise an alarm.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Ints, Prediction
from core.entry import ServedPrediction
from core.features.labels import Label, LabelSet
from core.machine.drift_response import DriftResponse
from core.switching.phases import RowRoute


class Scored(NamedTuple):
    """Rows beside their a-priori predictions.

    Attributes:
        predicted: class indices (-1: none), or numbers; for tracked rows as served.
        truth: class indices, or numbers.
        p_true: probability given to the true label, NaN where there was none; empty for regression.
    """

    predicted: NDArray[Any]
    truth: NDArray[Any]
    p_true: Floats


class TrainingBlock(NamedTuple):
    """Rows of one space to learn, in order.

    Attributes:
        route: how rows of the space are read, and which models they train.
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
        """Test then train on a part of the rows, and test the predictions for drift."""
        route, model = self.route, self.route.model
        discounts = None if self.discounts is None else self.discounts[part]
        raw = self.raw[part]
        X = model.absorb(raw if route.columns is None else np.ascontiguousarray(raw[:, route.columns]))
        predictions = (route.learn_new_class if new else model.learn)(X, truth, discounts)
        if route.watched:
            D = model.schema.width  # in an overlap the new space's columns follow
            shown = X if X.shape[1] == D else np.ascontiguousarray(X[:, :D])
            self.drift_response.observe(model, shown, truth, predictions.value, self.row + part.start)
        else:
            model.take_alarms()
        return predictions

    def stop(self, start: int, classes: Ints) -> int:
        """Where to stop among rows of these classes (n,), from ``start`` on, so that alarms are acted upon in time."""
        rows = self.drift_response.rows_until_next_test(classes) if self.route.watched else len(classes)
        return start + rows


def learn_numbers(block: TrainingBlock, truth: Floats) -> Scored:
    """Learn regression rows with their numbers (n,), in order."""
    parts: list[NDArray[Any]] = []
    start, classes = 0, np.zeros(len(truth), dtype=np.int64)
    while start < len(truth) or not parts:
        stop = block.stop(start, classes[start:])
        parts.append(block.learn(slice(start, stop), truth[start:stop], new=False).value)
        start = stop
    return Scored(_joined(parts), truth, np.empty(0))


def learn_classes(block: TrainingBlock, seen: LabelSet, labels: Sequence[Label]) -> Scored:
    """Learn classification rows with their labels, in order; labels not seen before join ``seen``."""
    truth = seen.indices(labels)
    predicted: list[NDArray[Any]] = []
    p_true: list[Floats] = []
    start = 0
    while start < len(truth):
        known = _known(truth[start:])
        new = known == 0
        if new:
            stop = start + 1
            truth[start] = seen.add(labels[start])
            truth[stop:] = seen.indices(labels[stop:])
            block.drift_response.add_class()
        else:
            stop = block.stop(start, truth[start : start + known])
        predictions = block.learn(slice(start, stop), truth[start:stop], new)
        predicted.append(predictions.value)
        shares = None if new else predictions.probabilities
        p_true.append(np.full(stop - start, np.nan) if shares is None else _shares(shares, truth[start:stop]))
        start = stop
    if not predicted:  # every row of a request may have been learned before
        return without_predictions(truth)
    return Scored(_joined(predicted), truth, _joined(p_true))


def _known(truth: Ints) -> int:
    """How many rows come before the first of a class not seen yet."""
    unseen = np.flatnonzero(truth < 0)
    return int(unseen[0]) if len(unseen) else len(truth)


def _shares(probabilities: Floats, truth: Ints) -> Floats:
    """What each row's true class was given, (n,)."""
    return probabilities[np.arange(len(truth)), truth]


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def without_predictions(truth: NDArray[Any]) -> Scored:
    """Rows without predictions, with their numbers or class indices (n,): for ``scored_as_served``."""
    if truth.dtype == np.float64:
        return Scored(np.zeros(len(truth)), truth, np.empty(0))
    return Scored(np.full(len(truth), -1, dtype=np.int64), truth, np.full(len(truth), np.nan))


def scored_as_served(scored: Scored, served: Sequence[ServedPrediction | None], seen: LabelSet | None) -> Scored:
    """Tracked rows scored by the prediction that the client received.

    Args:
        scored: the rows with the predictions made now.
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
