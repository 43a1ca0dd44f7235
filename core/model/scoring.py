"""Rows beside their a-priori predictions, and what is scored of them.

Labels that come late: tracked rows are scored by what was returned to the client, and the baselines beside them by what
``no_change``, ``majority`` or ``last_value`` said at the same moment; both were kept with the prediction. One that was
kept without baselines is set beside what they say now.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Ints
from core.entry import ServedPrediction
from core.metrics import ClassificationMetrics, RegressionMetrics
from core.metrics.class_kernels import AS_NOW, LOSS, NOTHING, facts_of
from core.metrics.intervals import returned_bounds
from core.metrics.regression import AS_NOW as NUMBER_AS_NOW
from core.metrics.regression import NOTHING as NO_NUMBER
from core.metrics.regression import squared_errors
from core.model.class_answers import Answers, Scored
from core.model.model import LearnerParts

Returned = Sequence[ServedPrediction | None]
"""What was returned for each row; None for rows that were not tracked."""


def joined(parts: Sequence[Scored]) -> Scored:
    """Parts of a block as one."""
    if len(parts) == 1:
        return parts[0]
    return Scored(*(np.concatenate(column, axis=-1) for column in zip(*parts, strict=True)))


def score(parts: LearnerParts, scored: Scored, returned: Returned | None) -> Scored:
    """Add rows to the metrics and residuals to the intervals.

    Args:
        parts: of the learner.
        scored: rows with the predictions made now.
        returned: what was returned for each; None: no row was tracked.

    Returns:
        The rows, tracked ones by what was returned.
    """
    metrics, intervals = parts.metrics, parts.intervals
    if intervals is not None:
        assert isinstance(metrics, RegressionMetrics)
        if returned is None:
            metrics.absorb(scored.predicted, scored.truth)
            intervals.absorb(scored.predicted, scored.truth)
        else:
            scored, baseline = _numbers_as_returned(scored, returned)
            metrics.absorb(scored.predicted, scored.truth, baseline)
            bounds = returned_bounds([() if one is None else one.interval for one in returned])
            intervals.absorb(scored.predicted, scored.truth, bounds)
        return scored
    assert isinstance(metrics, ClassificationMetrics)  # asked of its exact class: for another one it takes long
    classes = len(parts.answers.said.labels)
    if returned is None:
        metrics.absorb(scored.predicted, scored.truth, scored.facts, classes)
    else:
        scored, baselines = _classes_as_returned(scored, returned, parts.answers, metrics.rows)
        metrics.absorb(scored.predicted, scored.truth, scored.facts, classes, baselines)
    return scored


def as_returned(parts: LearnerParts, scored: Scored, returned: Returned) -> Scored:
    """Score rows that were just learned by the predictions that were returned, whichever learner made them."""
    if parts.regression:
        return _numbers_as_returned(scored, returned)[0]
    return _classes_as_returned(scored, returned, parts.answers, parts.metrics.rows - len(returned))[0]


def _classes_as_returned(scored: Scored, returned: Returned, answers: Answers, rows: int) -> tuple[Scored, Ints]:
    """Rows of a classifier that had learned so many before them, and what the two baselines said then, (n, 2)."""
    predicted, facts = scored.predicted.copy(), scored.facts.copy()
    baselines = np.full((len(returned), 2), AS_NOW)
    for row, one in enumerate(returned):
        if one is None:
            continue
        if one.prediction is None:
            predicted[row], facts[:, row] = NOTHING, np.nan
        else:
            predicted[row], shares = answers.returned(one, rows + row)
            at = slice(row, row + 1)
            facts[:, at] = facts_of(shares[None], predicted[at], scored.truth[at])
        if one.baselines is not None:
            baselines[row] = [answers.index(label) for label in one.baselines]
    return scored._replace(predicted=predicted, facts=facts, losses=facts[LOSS]), baselines


def _numbers_as_returned(scored: Scored, returned: Returned) -> tuple[Scored, Floats]:
    """Rows of a regression, and what the baseline said then, (n,)."""
    predicted: NDArray[np.float64] = scored.predicted.copy()
    baseline = np.full(len(returned), NUMBER_AS_NOW)
    for row, one in enumerate(returned):
        if one is None:
            continue
        predicted[row] = one.prediction
        if one.baselines is not None:
            (last,) = one.baselines
            baseline[row] = NO_NUMBER if last is None else last
    losses = squared_errors(predicted, scored.truth)
    return scored._replace(predicted=predicted, losses=losses), baseline
