"""Labels that come late: tracked rows are scored by what the client was told, and so are the baselines beside them.

What the model said is judged against what ``no_change``, ``majority`` or ``last_value`` said at the same moment: both
were kept with the prediction. Records of earlier versions lack the baselines, which are taken to say what they say now.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Ints
from core.entry import ServedPrediction
from core.metrics.class_kernels import AS_NOW, LOSS, NOTHING, facts_of
from core.metrics.regression import AS_NOW as NUMBER_AS_NOW
from core.metrics.regression import NOTHING as NO_NUMBER
from core.model.answers.answers import Answers
from core.model.training import Scored, scored_numbers

Served = Sequence[ServedPrediction | None]
"""What was served for each row; None for rows that were not tracked."""


def classes_as_served(scored: Scored, served: Served, answers: Answers, rows: int) -> tuple[Scored, Ints]:
    """Rows of a classifier, scored by what the client received.

    Args:
        scored: the rows with the predictions made now.
        served: one per row.
        answers: the labels.
        rows: that the model had learned before them.

    Returns:
        The rows, and what the two baselines said then, (n, 2).
    """
    predicted, facts = scored.predicted.copy(), scored.facts.copy()
    told = np.full((len(served), 2), AS_NOW)
    for row, answer in enumerate(served):
        if answer is None:
            continue
        if answer.prediction is None:
            predicted[row], facts[:, row] = NOTHING, np.nan
        else:
            predicted[row], shares = answers.served(answer, rows + row)
            one = slice(row, row + 1)
            facts[:, one] = facts_of(shares[None], predicted[one], scored.truth[one])
        if answer.baselines is not None:
            told[row] = [answers.index(label) for label in answer.baselines]
    return Scored(predicted, scored.truth, facts, facts[LOSS]), told


def numbers_as_served(scored: Scored, served: Served) -> tuple[Scored, Floats]:
    """Rows of a regression, scored by what the client received.

    Returns:
        The rows, and what the baseline said then, (n,).
    """
    predicted: NDArray[np.float64] = scored.predicted.copy()
    told = np.full(len(served), NUMBER_AS_NOW)
    for row, answer in enumerate(served):
        if answer is None:
            continue
        predicted[row] = answer.prediction
        if answer.baselines is not None:
            (last,) = answer.baselines
            told[row] = NO_NUMBER if last is None else last
    return scored_numbers(predicted, scored.truth), told
