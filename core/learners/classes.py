"""The weight columns of linear classifiers, one per class.

Up to two classes share one column w, whose score is high for class 1 and low for class 0. The third class makes it two,
(a w, b w) with (a, b) = (-1, 1) or what a learner's loss asks for, and appends a column of its own, as every class
after it does. So a column per class exists from the third class on, and no score of the first two changes its order.
"""

from typing import Any

import numpy as np
from numba import njit

from core.contract import Floats, Ints, Weights

PROBABILITY_MIN = 1e-6
"""Least probability that ``report_row`` gives a class."""
OPPOSITE = (-1.0, 1.0)
"""(a, b): the columns of two classes in terms of their common one."""


def column_count(classes: int) -> int:
    """Columns for a number of classes, 0 for regression."""
    return classes if classes > 2 else 1


def with_class(columns: Floats, classes: int, newcomer: Floats, first_two: tuple[float, float] = OPPOSITE) -> Floats:
    """The columns when the last of ``classes`` has just appeared.

    Args:
        columns: (m, ...) those of the classes before it; itself returned where nothing changes.
        classes: K, the new class included.
        newcomer: (1, ...) its column.
        first_two: (a, b).
    """
    if classes < 3:
        return columns
    if classes == 3:
        columns = np.concatenate([share * columns for share in first_two])
    return np.concatenate([columns, newcomer])


def with_bias_place(places: Ints, dimension: int, columns: int) -> Ints:
    """Places among d columns, and behind them that of the bias where there is one: the last of all columns."""
    return np.append(places, columns - 1) if columns > dimension else places


def linear_model(
    columns: Floats, dimension: int, classes: int | None, first_two: tuple[float, float] = OPPOSITE
) -> Weights:
    """Columns (m, d) or (m, d + 1), the bias last, as copies in the terms of ``core.contract.Weights``.

    Args:
        columns: the weights.
        dimension: d.
        classes: K; None for regression.
        first_two: (a, b).
    """
    if classes is not None and classes < 3:
        columns = np.concatenate([share * columns for share in first_two])[:classes]
    bias = columns[:, dimension] if columns.shape[1] > dimension else np.zeros(len(columns))
    return Weights(columns[:, :dimension].copy(), bias.copy())


@njit(cache=True, nogil=True)
def report_row(p: Floats, i: int, P: Floats, value: Any) -> None:
    """Row i's reported probabilities, from p (K,) into P (n, K), and the first most probable class into value (n,)."""
    K, best = P.shape[1], 0
    for k in range(K):
        P[i, k] = p[k] * (1.0 - K * PROBABILITY_MIN) + PROBABILITY_MIN if K > 1 else 1.0
        if P[i, k] > P[i, best]:
            best = k
    value[i] = best
