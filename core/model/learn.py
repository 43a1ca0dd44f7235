"""Test, then train: labelled rows of one space go through a learner's models; the predictions are tested for drift.

Rows are cut where a class appears for the first time: its own row is predicted without it. Where the model acts on
drift, they are also cut at every row that can raise an alarm.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats
from core.features.labels import Label
from core.metrics.class_kernels import FACTS
from core.model.answers.answers import Given, Scored
from core.model.answers.label_range import LabelRange
from core.model.drift_response import DriftResponse
from core.model.model import LearnerParts
from core.model.rows import BlockRows
from core.model.scoring import joined, score
from core.switching.phases import RowRoute

_NO_FACTS = np.empty((FACTS, 0))


def learn_rows(parts: LearnerParts, space: str, rows: BlockRows) -> Scored:
    """Test then train on rows, and score them: tracked ones by what this learner predicted when they were tracked.

    Args:
        parts: of the learner.
        space: the id of the rows' feature space; rows of one that is gone are only scored.
        rows: what was returned of them is this learner's own.

    Raises:
        ValueError: the rows are not of this space.
    """
    route, response = parts.switching.routes.get(space), parts.drift_response
    if route is None or response is None:
        return score(parts, _only_labels(parts, rows.labels), rows.returned)
    if rows.raw.shape != (len(rows.labels), route.schema.raw_width):
        raise ValueError(f"rows of shape {rows.raw.shape} with {len(rows.labels)} labels are not of this feature space")
    discounts, weights = rows.discounts, rows.weights
    if discounts is not None and not parts.config.algorithm.row_discounts:  # they were meant for another learner
        discounts = None
    if weights is not None and not parts.config.algorithm.row_weights:
        weights = None
    lags = None if rows.returned is None else route.told(rows.returned)
    block = _Block(parts, route, response, parts.rows, rows.raw, discounts, weights, lags)
    if parts.regression:
        scored = _learn_numbers(block, np.ascontiguousarray(rows.labels, dtype=np.float64))
    else:
        scored = _learn_classes(block, rows.labels)
    return score(parts, scored, rows.returned)


def _only_labels(parts: LearnerParts, labels: Any) -> Scored:
    """Tracked rows of a space that is gone: the labels, to be scored by the predictions that were returned."""
    if parts.label_range is not None:
        truth = np.ascontiguousarray(labels, dtype=np.float64)
        return _scored_numbers(parts.label_range, np.zeros(len(truth)), truth)
    for label in labels:
        if parts.labels.index(label) < 0:
            parts.add_class(label)
    return parts.answers.unsaid(labels)


def _scored_numbers(label_range: LabelRange, predicted: Floats, truth: Floats) -> Scored:
    """Numbers (n,) predicted, which are held by the labels before them, beside those that came."""
    losses = label_range.absorb(predicted, truth)
    return Scored(predicted, truth, _NO_FACTS, losses, losses)


class _Block(NamedTuple):
    """Rows of one space to learn, in order.

    Attributes:
        parts: of the learner.
        route: how rows of the space are read, and which models they train.
        response: the drift tests.
        row: rows the model had learned before them.
        raw: (n, F) rows.
        discounts, weights: (n,) or None.
        lags: lag columns that tracked rows bring with them (``core.features.lags``), or None.
    """

    parts: LearnerParts
    route: RowRoute
    response: DriftResponse
    row: int
    raw: Floats
    discounts: Floats | None
    weights: Floats | None
    lags: Floats | None

    @property
    def acts(self) -> bool:
        """Whether an alarm changes the model at its row: then the rows after it must not have been learned yet."""
        return self.response.acts and self.route.watched

    def part(self, start: int, stop: int) -> "_Block":
        """Some of the rows."""
        columns: Any = (None if column is None else column[start:stop] for column in self[4:])
        return _Block(self.parts, self.route, self.response, self.row + start, *columns)

    def learn(self, truth: NDArray[Any], new: bool = False) -> Scored:
        """Test then train on all rows, and test the predictions for drift.

        Args:
            truth: class indices (n,), or numbers (n,).
            new: whether the class of the one row is new; it is predicted without it.
        """
        parts, route, model = self.parts, self.route, self.route.model
        X = model.absorb(self.raw if route.part is None else route.part.of(self.raw), truth, self.lags)
        predictions = (route.learn_new_class if new else model.learn)(X, truth, self.discounts, self.weights)
        if parts.label_range is not None:
            scored = _scored_numbers(parts.label_range, predictions.value, truth)
        else:
            given = Given(new, route.watched, self.weights)
            scored = parts.answers.score(predictions, truth, self.row - parts.rows_before_start, given)
        if route.watched:
            D = model.schema.width  # lag columns follow, and in an overlap the new space's columns
            shown = X if X.shape[1] == D else np.ascontiguousarray(X[:, :D])
            self.response.observe(model, shown, truth, scored.errors, self.row)
        else:
            model.take_alarms()
        return scored


def _learn_numbers(block: _Block, truth: Floats) -> Scored:
    """Learn regression rows with their numbers (n,), in order, up to each alarm that can be."""
    if not block.acts or not len(truth):
        return block.learn(truth)
    classes, found, start = np.zeros(len(truth), dtype=np.int64), [], 0
    while start < len(truth):
        stop = start + block.response.rows_until_next_test(classes[start:])
        found.append(block.part(start, stop).learn(truth[start:stop]))
        start = stop
    return joined(found)


def _learn_classes(block: _Block, labels: Sequence[Label]) -> Scored:
    """Learn classification rows with their labels, in order; labels not seen before join the classes."""
    found = block.parts.labels.find(labels)
    truth = np.array(found, dtype=np.int64)
    if not found:  # every row of a request may have been learned before
        return block.parts.answers.unsaid(labels)
    if -1 in found or block.acts:
        return joined([*_class_parts(block, labels, truth)])
    return block.learn(truth)


def _class_parts(block: _Block, labels: Sequence[Label], truth: NDArray[np.int64]) -> Iterator[Scored]:
    """The rows up to each class that is new or, where one is acted upon, each alarm that can be."""
    answers, start = block.parts.answers, 0
    while start < len(truth):
        unseen = np.flatnonzero(truth[start:] < 0)
        stop = start + int(unseen[0]) if len(unseen) else len(truth)
        new = stop == start
        if new:
            stop = start + 1
            truth[start] = answers.add(labels[start])
            truth[stop:] = answers.seen.indices(labels[stop:])
            block.response.add_class()
        elif block.acts:
            stop = start + block.response.rows_until_next_test(truth[start:stop])
        yield block.part(start, stop).learn(truth[start:stop], new)
        start = stop
