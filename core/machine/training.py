"""Test, then train: labelled rows of one space go through its models; the predictions are tested for drift.

Rows are cut where a class appears for the first time: its own row is predicted without it. Where the model acts on
drift, they are also cut at every row that can raise an alarm.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Ints
from core.entry import ServedPrediction
from core.features.labels import Label, LabelSet
from core.machine.drift_response import DriftResponse
from core.metrics.losses import squared_errors, true_probabilities, zero_one_losses
from core.switching.phases import RowRoute

_NONE = np.empty(0)


class Scored(NamedTuple):
    """Rows beside their a-priori predictions.

    Attributes:
        predicted: class indices (-1: none), or numbers; for tracked rows as served.
        truth: class indices, or numbers.
        p_true: probability given to the true label, NaN where there was none; empty for regression.
        losses: 0 or 1, or squared errors.
    """

    predicted: NDArray[Any]
    truth: NDArray[Any]
    p_true: Floats
    losses: Floats


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

    @property
    def acts(self) -> bool:
        """Whether an alarm changes the model at its row: then the rows after it must not have been learned yet."""
        return self.drift_response.acts and self.route.watched

    def part(self, start: int, stop: int) -> "TrainingBlock":
        """Some of the rows."""
        discounts = None if self.discounts is None else self.discounts[start:stop]
        return self._replace(raw=self.raw[start:stop], discounts=discounts, row=self.row + start)

    def learn(self, truth: NDArray[Any], new: bool = False) -> Scored:
        """Test then train on all rows, and test the predictions for drift.

        Args:
            truth: class indices (n,), or numbers (n,).
            new: whether the class of the one row is new; it is predicted without it.
        """
        route, model = self.route, self.route.model
        X = model.absorb(self.raw if route.columns is None else np.ascontiguousarray(self.raw[:, route.columns]))
        predictions = (route.learn_new_class if new else model.learn)(X, truth, self.discounts)
        if self.drift_response.regression:
            scored = scored_numbers(predictions.value, truth)
        else:
            scored = scored_classes(predictions.value, truth, None if new else predictions.probabilities)
        if route.watched:
            D = model.schema.width  # in an overlap the new space's columns follow
            shown = X if X.shape[1] == D else np.ascontiguousarray(X[:, :D])
            self.drift_response.observe(model, shown, truth, scored.losses, self.row)
        else:
            model.take_alarms()
        return scored


def scored_numbers(predicted: Floats, truth: Floats) -> Scored:
    """Numbers (n,) predicted, beside those that came."""
    return Scored(predicted, truth, _NONE, squared_errors(predicted, truth))


def scored_classes(predicted: Ints, truth: Ints, probabilities: Floats | None) -> Scored:
    """Class indices (n,) predicted with probabilities (n, K) or without, beside those that came."""
    p_true = np.full(len(truth), np.nan) if probabilities is None else true_probabilities(probabilities, truth)
    return Scored(predicted, truth, p_true, zero_one_losses(predicted, truth))


def learn_numbers(block: TrainingBlock, truth: Floats) -> Scored:
    """Learn regression rows with their numbers (n,), in order."""
    return _joined([*_number_parts(block, truth)]) if block.acts and len(truth) else block.learn(truth)


def _number_parts(block: TrainingBlock, truth: Floats) -> Iterator[Scored]:
    """The rows up to each alarm that can be."""
    classes = np.zeros(len(truth), dtype=np.int64)
    start = 0
    while start < len(truth):
        stop = start + block.drift_response.rows_until_next_test(classes[start:])
        yield block.part(start, stop).learn(truth[start:stop])
        start = stop


def learn_classes(block: TrainingBlock, seen: LabelSet, labels: Sequence[Label]) -> Scored:
    """Learn classification rows with their labels, in order; labels not seen before join ``seen``."""
    found = seen.find(labels)
    truth = np.array(found, dtype=np.int64)
    if not found:  # every row of a request may have been learned before
        return scored_classes(truth, truth, None)
    if -1 in found or block.acts:
        return _joined([*_class_parts(block, seen, labels, truth)])
    return block.learn(truth)


def _class_parts(block: TrainingBlock, seen: LabelSet, labels: Sequence[Label], truth: Ints) -> Iterator[Scored]:
    """The rows up to each class that is new or, where one is acted upon, each alarm that can be."""
    start = 0
    while start < len(truth):
        known = _known(truth[start:])
        new = known == 0
        if new:
            stop = start + 1
            truth[start] = seen.add(labels[start])
            truth[stop:] = seen.indices(labels[stop:])
            block.drift_response.add_class()
        elif block.acts:
            stop = start + block.drift_response.rows_until_next_test(truth[start : start + known])
        else:
            stop = start + known
        yield block.part(start, stop).learn(truth[start:stop], new)
        start = stop


def _known(truth: Ints) -> int:
    """How many rows come before the first of a class not seen yet."""
    unseen = np.flatnonzero(truth < 0)
    return int(unseen[0]) if len(unseen) else len(truth)


def _joined(parts: Sequence[Scored]) -> Scored:
    """Parts of a block as one."""
    return parts[0] if len(parts) == 1 else Scored(*map(np.concatenate, zip(*parts, strict=True)))


def without_predictions(truth: NDArray[Any], regression: bool) -> Scored:
    """Rows without predictions, with their numbers or class indices (n,): for ``scored_as_served``."""
    if regression:
        return scored_numbers(np.zeros(len(truth)), truth)
    return scored_classes(np.full(len(truth), -1, dtype=np.int64), truth, None)


def scored_as_served(scored: Scored, served: Sequence[ServedPrediction | None], seen: LabelSet | None) -> Scored:
    """Tracked rows scored by the prediction that the client received.

    Args:
        scored: the rows with the predictions made now.
        served: one per row, None for rows that were not tracked.
        seen: the classes seen, None for regression.
    """
    predicted, p_true, truth = scored.predicted.copy(), scored.p_true.copy(), scored.truth
    for row, answer in enumerate(served):
        if answer is None:
            continue
        if seen is None:
            predicted[row] = answer.prediction
            continue
        predicted[row] = -1 if answer.prediction is None else seen.index(answer.prediction)  # type: ignore[arg-type]
        shares = {seen.index(label): share for label, share in answer.probabilities or ()}
        p_true[row] = shares.get(int(truth[row]), np.nan)
    losses = squared_errors(predicted, truth) if seen is None else zero_one_losses(predicted, truth)
    return Scored(predicted, truth, p_true, losses)
