"""Test, then train: labelled rows of one space go through a learner's models; the predictions are tested for drift.

Rows are cut where a class appears for the first time: its own row is predicted without it. Where the model acts on
drift, they are also cut at every row that can raise an alarm.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.model.class_answers import USUAL, Given, Scored
from core.model.drift_response import DriftResponse
from core.model.model import LearnerParts
from core.model.rows import BlockRows
from core.model.scoring import joined, score
from core.switching.phases import RowRoute


def learn_rows(parts: LearnerParts, space: str, rows: BlockRows, *, own: bool) -> Scored:
    """Test then train on rows, and score them: tracked ones by what this learner predicted when they were tracked.

    Args:
        parts: of the learner.
        space: the id of the rows' feature space; rows of one that is gone are only scored.
        rows: to learn.
        own: whether this is the model's own learner: what was returned stands for what it did not predict itself.

    Raises:
        ValueError: the rows are not of this space.
    """
    route, response = parts.switching.routes.get(space), parts.drift_response
    if rows.returned is not None:  # of rows that nothing can be predicted of now it stands for any learner's
        rows = rows.predicted_by(parts.learner_id, rows.returned, or_returned=own or route is None)
    if route is None or response is None:
        return score(parts, _only_labels(parts, rows.labels), rows.returned)
    if rows.raw.shape != (len(rows.labels), route.schema.raw_width):
        raise ValueError(f"rows of shape {rows.raw.shape} with {len(rows.labels)} labels are not of this feature space")
    if rows.discounts is not None or rows.weights is not None:
        rows = rows.without_others(parts.config)
    if rows.returned is not None:
        rows = rows._replace(lags=route.told([None if one is None else one.lags for one in rows.returned]))
    cut = response.acts and route.watched  # an alarm changes the model, a new class all learners, at its row
    if parts.label_range is not None:
        truth = np.ascontiguousarray(rows.labels, dtype=np.float64)
    else:
        found = parts.answers.seen.find(rows.labels)
        truth, cut = np.array(found, dtype=np.int64), cut or -1 in found
        if not found:  # every row of a request may have been learned before
            return score(parts, parts.answers.unsaid(rows.labels), rows.returned)
    if cut and len(truth):
        scored = joined([*_learn_parts(parts, route, response, rows, truth)])
    else:
        scored = _learn_block(parts, route, response, rows, truth, parts.rows_before_start + parts.metrics.rows)
    return score(parts, scored, rows.returned)


def _only_labels(parts: LearnerParts, labels: Any) -> Scored:
    """Tracked rows of a space that is gone: the labels, to be scored by the predictions that were returned."""
    if parts.label_range is not None:
        truth = np.ascontiguousarray(labels, dtype=np.float64)
        return parts.label_range.absorb(np.zeros(len(truth)), truth)
    for label in labels:
        if parts.labels.index(label) < 0:
            parts.add_class(label)
    return parts.answers.unsaid(labels)


def _learn_parts(
    parts: LearnerParts, route: RowRoute, response: DriftResponse, rows: BlockRows, truth: NDArray[Any]
) -> Iterator[Scored]:
    """Learn rows up to each class that is new or, where one is acted upon, each alarm that can be."""
    answers, first, start = parts.answers, parts.rows, 0
    classes = truth if parts.label_range is None else np.zeros(len(truth), dtype=np.int64)
    while start < len(truth):
        unseen = np.flatnonzero(classes[start:] < 0)
        stop = start + int(unseen[0]) if len(unseen) else len(truth)
        new = stop == start
        if new:
            stop = start + 1
            truth[start] = answers.add(rows.labels[start])
            truth[stop:] = answers.seen.indices(rows.labels[stop:])
            response.add_class()
        elif response.acts and route.watched:
            stop = start + response.rows_until_next_test(classes[start:stop])
        part = rows.part(slice(start, stop))
        yield _learn_block(parts, route, response, part, truth[start:stop], first + start, new)
        start = stop


def _learn_block(
    parts: LearnerParts,
    route: RowRoute,
    response: DriftResponse,
    rows: BlockRows,
    truth: NDArray[Any],
    row: int,
    new: bool = False,
) -> Scored:
    """Test then train on rows of one space, and test the predictions for drift.

    Args:
        parts: of the learner.
        route: how rows of the space are read, and which models they train.
        response: the drift tests.
        rows: to learn, in order.
        truth: class indices (n,), or numbers (n,).
        row: rows the model had learned before them.
        new: whether the class of the one row is new; it is predicted without it.
    """
    model, part, weights = route.model, route.part, rows.weights
    X = model.absorb(rows.raw if part is None else part.of(rows.raw), truth, rows.lags)
    predictions = (route.learn_new_class if new else model.learn)(X, truth, rows.discounts, weights)
    if parts.label_range is not None:
        scored = parts.label_range.absorb(predictions.value, truth)
    else:
        given = Given(new, route.watched, weights) if new or weights is not None or not route.watched else USUAL
        scored = parts.answers.score(predictions, truth, row - parts.rows_before_start, given)
    if route.watched:
        D = model.schema.width  # lag columns follow, and in an overlap the new space's columns
        response.observe(model, X if X.shape[1] == D else np.ascontiguousarray(X[:, :D]), truth, scored.errors, row)
    else:
        model.take_alarms()
    return scored
