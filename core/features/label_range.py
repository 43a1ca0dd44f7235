r"""The range of the labels of a regression so far, and how far beyond it a prediction may lie.

    [a, b]                                   least and largest label so far; moved by each label after its prediction
    p <- clip(p, a - c (b - a), b + c (b - a))    c = BEYOND, from row SPAN_ROWS on

A least-squares model with few rows in its window, or after a row far from all others, can predict far outside
everything seen: few such rows make most of its squared error. What is learned is not held, only what is said of it.

**Outliers.** From row SPAN_ROWS on, a label more than 100 widths outside [a, b] moves that end by one width only: a
real change of level is reached within some rows, at twice the width each, and a single wild label widens the range
once.
"""

import numpy as np
from numba import njit

from core.contract import NUMBERS_IN, Floats

BEYOND = 0.1
"""Widths of the range of the labels that a prediction may lie beyond it."""
SPAN_ROWS = 20
"""Rows after which the range of the labels is taken to say something."""
LOW, HIGH, ROWS = range(3)
"""Places in the range as a state has it (3,): least and largest label, and how many there were."""

_WINSOR = 100.0
"""Widths of the range that a label may lie beyond it and be taken whole."""


@njit(cache=True, nogil=True)
def held(value: float, low: float, high: float) -> float:
    """A prediction within what labels of this range allow."""
    reach = BEYOND * (high - low)
    return min(max(value, low - reach), high + reach)


@njit(cache=True, nogil=True)
def widen(span: Floats, y: float, rows: float) -> None:
    """The range (2,) of the labels with y, in place; ``rows`` came before it."""
    if rows == 0.0:
        span[:2] = y
    width = span[1] - span[0]
    most = width if rows >= SPAN_ROWS and width > 0.0 else np.inf
    if y < span[0]:
        span[0] = y if span[0] - y <= _WINSOR * most else span[0] - most
    elif y > span[1]:
        span[1] = y if y - span[1] <= _WINSOR * most else span[1] + most


@njit(f"void(f8[::1], {NUMBERS_IN})", cache=True, nogil=True)
def hold_rows(values: Floats, span: Floats) -> None:
    """Predictions (n,) within what labels of this range (3,) allow, in place."""
    if span[ROWS] >= SPAN_ROWS:
        for i in range(values.shape[0]):
            values[i] = held(values[i], span[LOW], span[HIGH])
