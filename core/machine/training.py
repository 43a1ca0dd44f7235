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
from core.features.labels import Label
from core.machine.answers import Answers
from core.machine.drift_response import DriftResponse
from core.metrics.losses import squared_errors
from core.switching.phases import RowRoute

_NONE, _NO_SHARES = np.empty(0), np.empty((0, 0))


class Scored(NamedTuple):
    """Rows beside their a-priori predictions.

    Attributes:
        predicted: indices of labels (core.machine.answers), -1 where none was said, or one that the model knows no
            more; or numbers; for tracked rows as served.
        truth: indices of labels, or numbers.
        p_true: probability given to the true label, NaN where nothing was said; empty for regression.
        losses: 0 or 1, or squared errors; NaN where nothing was said: such a row is not scored.
        probabilities: (n, K) of all labels; 0 for one that no row had yet; (0, 0) for regression.
    """

    predicted: NDArray[Any]
    truth: NDArray[Any]
    p_true: Floats
    losses: Floats
    probabilities: Floats


class TrainingBlock(NamedTuple):
    """Rows of one space to learn, in order.

    Attributes:
        route: how rows of the space are read, and which models they train.
        drift_response: the drift tests.
        answers: what is said of predictions.
        raw: (n, F) rows.
        discounts: (n,) or None.
        weights: (n,) or None.
        row: rows the model had learned before them.
    """

    route: RowRoute
    drift_response: DriftResponse
    answers: Answers
    raw: Floats
    discounts: Floats | None
    weights: Floats | None
    row: int

    @property
    def acts(self) -> bool:
        """Whether an alarm changes the model at its row: then the rows after it must not have been learned yet."""
        return self.drift_response.acts and self.route.watched

    def part(self, start: int, stop: int) -> "TrainingBlock":
        """Some of the rows."""
        discounts = None if self.discounts is None else self.discounts[start:stop]
        weights = None if self.weights is None else self.weights[start:stop]
        return self._replace(raw=self.raw[start:stop], discounts=discounts, weights=weights, row=self.row + start)

    def learn(self, truth: NDArray[Any], new: bool = False) -> Scored:
        """Test then train on all rows, and test the predictions for drift.

        Args:
            truth: class indices (n,), or numbers (n,).
            new: whether the class of the one row is new; it is predicted without it.
        """
        route, model = self.route, self.route.model
        X = model.absorb(self.raw if route.columns is None else np.ascontiguousarray(self.raw[:, route.columns]))
        predictions = (route.learn_new_class if new else model.learn)(X, truth, self.discounts, self.weights)
        if self.drift_response.regression:
            scored = scored_numbers(predictions.value, truth)
        else:
            scored = Scored(*self.answers.score(predictions, truth, self.row, new))
        if route.watched:
            D = model.schema.width  # in an overlap the new space's columns follow
            shown = X if X.shape[1] == D else np.ascontiguousarray(X[:, :D])
            losses = scored.losses if self.row else np.nan_to_num(scored.losses, nan=1.0)  # the first may be unscored
            self.drift_response.observe(model, shown, truth, losses, self.row)
        else:
            model.take_alarms()
        return scored


def scored_numbers(predicted: Floats, truth: Floats) -> Scored:
    """Numbers (n,) predicted, beside those that came."""
    return Scored(predicted, truth, _NONE, squared_errors(predicted, truth), _NO_SHARES)


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


def learn_classes(block: TrainingBlock, labels: Sequence[Label]) -> Scored:
    """Learn classification rows with their labels, in order; labels not seen before join those of ``block.answers``."""
    found = block.answers.seen.find(labels)
    truth = np.array(found, dtype=np.int64)
    if not found:  # every row of a request may have been learned before
        return Scored(*block.answers.unsaid(labels))
    if -1 in found or block.acts:
        return _joined([*_class_parts(block, labels, truth)])
    return block.learn(truth)


def _class_parts(block: TrainingBlock, labels: Sequence[Label], truth: Ints) -> Iterator[Scored]:
    """The rows up to each class that is new or, where one is acted upon, each alarm that can be."""
    start = 0
    while start < len(truth):
        known = _known(truth[start:])
        new = known == 0
        if new:
            stop = start + 1
            truth[start] = block.answers.add(labels[start])
            truth[stop:] = block.answers.seen.indices(labels[stop:])
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
    """Parts of a block as one; labels that appeared later had no probability before."""
    if len(parts) == 1:
        return parts[0]
    *columns, shares = zip(*parts, strict=True)
    K = max(own.shape[1] for own in shares)
    padded = [np.pad(own, ((0, 0), (0, K - own.shape[1]))) if own.shape[1] < K else own for own in shares]
    return Scored(*map(np.concatenate, [*columns, padded]))


def unpredicted_numbers(truth: Floats) -> Scored:
    """Numbers (n,) that came, of rows without predictions: for ``scored_as_served``."""
    return scored_numbers(np.zeros(len(truth)), truth)


def scored_as_served(
    scored: Scored, served: Sequence[ServedPrediction | None], answers: Answers | None, rows: int
) -> Scored:
    """Tracked rows scored by the prediction that the client received.

    Args:
        scored: the rows with the predictions made now.
        served: one per row, None for rows that were not tracked.
        answers: the labels; None for regression.
        rows: that the model had learned before them.
    """
    predicted, p_true, losses = scored.predicted.copy(), scored.p_true.copy(), scored.losses.copy()
    truth, shares = scored.truth, scored.probabilities.copy()
    for row, answer in enumerate(served):
        if answer is None:
            continue
        if answers is None:
            predicted[row] = answer.prediction
            losses[row] = squared_errors(predicted[row : row + 1], truth[row : row + 1])[0]
        elif answer.prediction is None:
            predicted[row], p_true[row], losses[row] = -1, np.nan, np.nan
        else:
            predicted[row], shares[row] = answers.served(answer, rows + row)
            p_true[row], losses[row] = shares[row, truth[row]], float(predicted[row] != truth[row])
    return Scored(predicted, truth, p_true, losses, shares)
