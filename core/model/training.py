"""Test, then train: labelled rows of one space go through its models; the predictions are tested for drift.

Rows are cut where a class appears for the first time: its own row is predicted without it. Where the model acts on
drift, they are also cut at every row that can raise an alarm.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Ints
from core.features.labels import Label
from core.metrics.class_kernels import FACTS, LOSS, P_TRUE
from core.metrics.regression import squared_errors
from core.model.answers.answers import Answered, Answers, Given
from core.model.answers.label_range import LabelRange
from core.model.drift_response import DriftResponse
from core.switching.phases import RowRoute

_NO_FACTS = np.empty((FACTS, 0))


class Scored(NamedTuple):
    """Rows beside their a-priori predictions.

    Attributes:
        predicted: indices of labels (core.model.answers), -1 where none was said, -2 for one that the model knows no
            more; or numbers; for tracked rows as served.
        truth: indices of labels, or numbers.
        facts: what the probabilities said of each row, (FACTS, n) as core.metrics.class_kernels has it; (FACTS, 0) for
            regression.
        losses: 0 or 1, or squared errors; NaN where nothing was said: such a row is not scored.
    """

    predicted: NDArray[Any]
    truth: NDArray[Any]
    facts: Floats
    losses: Floats

    @property
    def p_true(self) -> list[float]:
        """Probability given to each true label, NaN where there was none; empty for regression."""
        shares: list[float] = self.facts[P_TRUE].tolist()
        return shares


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
        label_range: of a regression, what its predictions are held within.
        told: lag columns that tracked rows bring with them (``core.features.lags``), or None.
    """

    route: RowRoute
    drift_response: DriftResponse
    answers: Answers
    raw: Floats
    discounts: Floats | None
    weights: Floats | None
    row: int
    label_range: LabelRange | None = None
    told: Floats | None = None

    @property
    def acts(self) -> bool:
        """Whether an alarm changes the model at its row: then the rows after it must not have been learned yet."""
        return self.drift_response.acts and self.route.watched

    def part(self, start: int, stop: int) -> "TrainingBlock":
        """Some of the rows."""
        discounts = None if self.discounts is None else self.discounts[start:stop]
        weights = None if self.weights is None else self.weights[start:stop]
        told = None if self.told is None else self.told[start:stop]
        raw, row = self.raw[start:stop], self.row + start
        return self._replace(raw=raw, discounts=discounts, weights=weights, row=row, told=told)

    def learn(self, truth: NDArray[Any], new: bool = False) -> Scored:
        """Test then train on all rows, and test the predictions for drift.

        Args:
            truth: class indices (n,), or numbers (n,).
            new: whether the class of the one row is new; it is predicted without it.
        """
        route, model = self.route, self.route.model
        X = model.absorb(self.raw if route.part is None else route.part.of(self.raw), truth, self.told)
        predictions = (route.learn_new_class if new else model.learn)(X, truth, self.discounts, self.weights)
        if self.label_range is not None:
            scored = scored_numbers(self.label_range.absorb(predictions.value, truth), truth)
            errors = scored.losses
        else:
            given = Given(new, route.watched, self.weights)
            answered = self.answers.score(predictions, truth, self.row, given)
            scored, errors = of_classes(answered), answered.errors
        if route.watched:
            D = model.schema.width  # lag columns follow, and in an overlap the new space's columns
            shown = X if X.shape[1] == D else np.ascontiguousarray(X[:, :D])
            self.drift_response.observe(model, shown, truth, errors, self.row)
        else:
            model.take_alarms()
        return scored


def scored_numbers(predicted: Floats, truth: Floats) -> Scored:
    """Numbers (n,) predicted, beside those that came."""
    return Scored(predicted, truth, _NO_FACTS, squared_errors(predicted, truth))


def of_classes(answered: Answered) -> Scored:
    """What was said of rows, scored."""
    predicted, truth, facts, _ = answered
    return Scored(predicted, truth, facts, facts[LOSS])


def learn_numbers(block: TrainingBlock, truth: Floats) -> Scored:
    """Learn regression rows with their numbers (n,), in order."""
    return joined([*_number_parts(block, truth)]) if block.acts and len(truth) else block.learn(truth)


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
        return of_classes(block.answers.unsaid(labels))
    if -1 in found or block.acts:
        return joined([*_class_parts(block, labels, truth)])
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


def joined(parts: Sequence[Scored]) -> Scored:
    """Parts of a block as one."""
    if len(parts) == 1:
        return parts[0]
    predicted, truth, facts, losses = zip(*parts, strict=True)
    return Scored(
        np.concatenate(predicted), np.concatenate(truth), np.concatenate(facts, axis=1), np.concatenate(losses)
    )


def unpredicted_numbers(truth: Floats, label_range: LabelRange) -> Scored:
    """Numbers (n,) that came, of rows without predictions: for ``late_labels``."""
    return scored_numbers(label_range.absorb(np.zeros(len(truth)), truth), truth)
