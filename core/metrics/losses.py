"""What the metrics need of every scored row, compiled: its loss, and what its probabilities say.

A row of probabilities q (K,) of all labels, with the answer ``a`` and the label ``y`` that came, is reduced to facts:

    LOSS     0 where a = y, else 1
    P_TRUE   q_y
    BRIER    sum_k (q_k - [k = y])^2
    P_SAID   q_a, the confidence of the answer; NaN for a label that is not known any more
    SCORE    q_1, the score of the second label

Where K = 1, what is missing to 1 is that of a label not known yet, the second one. All facts are NaN where nothing
could be said.
"""

from typing import Final

import numpy as np
from numba import njit

from core.contract import Floats, Ints
from core.metrics.prequential import READ_FLOATS, READ_INTS

LOSS_MAX = 1e300
LOSS, P_TRUE, BRIER, P_SAID, SCORE = range(5)
FACTS: Final = 5
"""Facts of a row; rows of the array that has them of all rows."""


@njit(f"f8[::1]({READ_FLOATS}, {READ_FLOATS})", cache=True)
def squared_errors(predicted: Floats, truth: Floats) -> Floats:
    """Squared errors (n,) of n predictions, as answers give them: capped, so that every number is finite."""
    losses = np.empty(truth.shape[0])
    for i in range(truth.shape[0]):
        error = predicted[i] - truth[i]
        losses[i] = min(error * error, LOSS_MAX)
    return losses


@njit(cache=True, nogil=True)
def note_facts(q: Floats, said: int, came: int, facts: Floats, i: int) -> None:
    """The facts of one row into column i of facts (FACTS, n).

    Args:
        q: (K,) probabilities.
        said: the index of the answer, -1 where nothing was said, less where its label is not known any more.
        came: the index of the label.
        facts: what is filled.
        i: the row.
    """
    K = q.shape[0]
    if said == -1:
        facts[:, i] = np.nan
        return
    squares = 0.0
    for k in range(K):
        off = q[k] - (1.0 if k == came else 0.0)
        squares += off * off
    facts[LOSS, i] = 0.0 if said == came else 1.0
    facts[P_TRUE, i] = q[came]
    facts[BRIER, i] = squares if K > 1 else 2.0 * squares
    facts[P_SAID, i] = q[said] if said >= 0 else np.nan
    facts[SCORE, i] = q[1] if K > 1 else 1.0 - q[0]


@njit(f"f8[:,::1](Array(f8, 2, 'C', readonly=True), {READ_INTS}, {READ_INTS})", cache=True, nogil=True)
def facts_of(probabilities: Floats, predicted: Ints, truth: Ints) -> Floats:
    """The facts (FACTS, n) of n rows with probabilities (n, K), answers (n,) and labels (n,).

    Raises:
        IndexError: an answer or a label that is none of the K.
    """
    n, K = probabilities.shape
    facts = np.empty((FACTS, n))
    for i in range(n):
        if not (predicted[i] < K and 0 <= truth[i] < K):
            raise IndexError("a class without a probability")
        note_facts(probabilities[i], predicted[i], truth[i], facts, i)
    return facts
