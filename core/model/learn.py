"""Predict, then learn labelled rows of one space with a learner's models, and test the predictions for drift.

Rows are cut where a class appears for the first time, or returns: its first row is predicted without it. If the model
acts on drift, they are also cut at every row that can raise an alarm.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from core.contract import joined
from core.model.class_answers import ClassAnswers
from core.model.drift_response import DriftResponse
from core.model.model import LearnerParts
from core.model.rows import BlockRows, Scored, predicted_by
from core.switching.phases import SpaceRoute


def learn_rows(parts: LearnerParts, space: str, rows: BlockRows, *, own: bool) -> Scored:
    """Predict, learn and score rows; tracked rows are scored by the prediction of this learner when they were tracked.

    Rows of a space that is gone are only scored. ``own``: whether this is the model's own learner; the returned
    prediction then replaces one that it did not make itself. Raises ``ValueError`` for rows that are not of this space.
    """
    answers, route, response = parts.answers, parts.switching.routes.get(space), parts.drift_response
    if rows.returned is not None:  # of rows that nothing can be predicted of now it stands for any learner's
        returned = predicted_by(parts.learner_id, rows.returned, or_returned=own or route is None)
        lags = None if route is None else route.returned_lags([None if one is None else one.lags for one in returned])
        rows = replace(rows, returned=returned, lags=lags)
    truth, known = answers.truth_of(rows.labels)
    if route is None or response is None or not len(truth):
        return _score_only(parts, rows)
    if rows.raw.shape != (len(truth), route.schema.raw_width):
        raise ValueError(f"rows of shape {rows.raw.shape} with {len(truth)} labels are not of this feature space")
    if rows.discounts is not None or rows.weights is not None:
        rows = _without_others(parts, rows)
    # an alarm changes the model, a class that is new or returns all learners, at its row
    if not known or (response.acts and route.watched):
        return joined([*_learn_parts(parts, route, response, rows, truth)])
    return _learn_block(parts, route, response, rows, truth)


def _score_only(parts: LearnerParts, rows: BlockRows) -> Scored:
    """Score tracked rows of a space that is gone by the returned predictions; or score no rows."""
    if not parts.regression:
        for label in rows.labels:
            if parts.labels.index(label) < 0:
                parts.add_class(label)
    scored = parts.answers.absorb(None, parts.answers.truth_of(rows.labels)[0], rows)
    if isinstance(parts.answers, ClassAnswers):
        parts.answers.return_labels(rows.labels)
    return scored


def _without_others(parts: LearnerParts, rows: BlockRows) -> BlockRows:
    """Rows without the discounts or weights that this algorithm does not take, which were meant for another learner."""
    algorithm = parts.config.algorithm
    discounts, weights = rows.discounts if algorithm.row_discounts else None, rows.weights
    return replace(rows, discounts=discounts, weights=weights if algorithm.row_weights else None)


def _learn_parts(
    parts: LearnerParts, route: SpaceRoute, response: DriftResponse, rows: BlockRows, truth: NDArray[Any]
) -> Iterator[Scored]:
    """Learn rows up to each new class and, if the model acts on alarms, up to each possible alarm."""
    answers, start = parts.answers, 0
    while start < len(truth):
        stop, new, alone = len(truth), False, False
        if isinstance(answers, ClassAnswers):
            rare = np.flatnonzero((truth[start:] < 0) | np.isin(truth[start:], [*answers.returning]))
            stop = start + int(rare[0]) if len(rare) else stop
            if alone := stop == start:
                stop = start + 1
            if new := alone and truth[start] < 0:
                truth[start] = answers.add(rows.labels[start])
                truth[stop:], _ = answers.truth_of(rows.labels[stop:])
                response.add_class()
                for add_class in route.others:
                    add_class()
        if response.acts and route.watched and not new:
            stop = start + response.rows_until_next_test(truth[start:stop])
        yield _learn_block(parts, route, response, rows.part(slice(start, stop)), truth[start:stop], new)
        if alone and isinstance(answers, ClassAnswers):
            answers.return_labels(rows.labels[start:stop])
        start = stop


def _learn_block(
    parts: LearnerParts,
    route: SpaceRoute,
    response: DriftResponse,
    rows: BlockRows,
    truth: NDArray[Any],
    new: bool = False,
) -> Scored:
    """Predict, learn and score rows of one space, and test the predictions for drift.

    ``truth``: class indices (n,), or numbers (n,); ``new``: whether the class of the one row is new; it is predicted
    without it.
    """
    model, answers = route.model, parts.answers
    before = parts.rows_before_start + answers.metrics.rows
    X = model.absorb(rows.raw if route.part is None else route.part.of(rows.raw), truth, rows.lags)
    prediction = model.learn(X, truth, rows.discounts, rows.weights, new)
    scored = answers.absorb(prediction, truth, rows, new, route.watched)
    if route.watched:
        D = model.schema.width  # lag columns follow, and in an overlap the new space's columns
        errors = scored.losses if parts.config.algorithm.observes else scored.errors
        response.observe(model, X if X.shape[1] == D else np.ascontiguousarray(X[:, :D]), truth, errors, before)
    else:
        model.take_alarms()
    return scored
