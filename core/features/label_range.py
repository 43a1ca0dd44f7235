r"""The range of the labels of a regression so far, and how far beyond it a prediction may lie.

    [a, b]                                   least and largest label so far; moved by each label after its prediction
    p <- clip(p, a - c (b - a), b + c (b - a))    c = BEYOND, from row SPAN_ROWS on
    D <- min(D, ((1 + 2 c) (b - a))^2)       an estimate of squared errors, from row SPAN_ROWS on

A least-squares model with few rows in its window, or after a row far from all others, can predict far outside
everything seen: a few such rows cause most of its squared error. Only predictions are clipped, not what is learned.

**Labels far from 0.** The first rows are predicted near 0. If labels are 10 deviations from 0, each of these rows costs
a hundred times as much as later ones; at 2500 deviations (50 Hz, give or take .02) it is six million times: a mean of
squared errors that forgets at .001 a row would be wrong for ten thousand rows, and losses divided by it negligible.

**Outliers.** From the third label on, a label more than 100 widths outside [a, b] moves that end by one width only: a
real change of level is reached within some rows, at twice the width each, and a single wild label widens the range
once. If one of the first two is wild, the third tells which: the range is then the one of any other order.
"""

import numpy as np
from numba import njit

from core.contract import NUMBERS_IN, Floats
from core.numerics.weighting import bounded_square

BEYOND = 0.1  # how far a prediction may lie outside the range of the labels, in widths of the range
SPAN_ROWS = 20  # rows after which the range of the labels is meaningful
WIDTH_ROWS = 2  # rows after which it has a width that a wild label can be compared with
LOW, HIGH, ROWS = range(3)  # places in the range in a state (3,): least and largest label, and the number of labels

_ROUNDING = 1e-6  # of the labels' size: while there are few, a width below it may be that of one number, rounded
_WINSOR = 100.0  # how far a label may lie outside the range before it is clipped, in widths of the range


@njit(cache=True, nogil=True)
def held(value: float, low: float, high: float) -> float:
    """A prediction clipped to what labels of this range allow."""
    reach = BEYOND * (high - low)
    return min(max(value, low - reach), high + reach)


@njit(cache=True, nogil=True)
def error_max(low: float, high: float, rows: float) -> float:
    """The largest squared error to expect of a prediction that is held to this range of ``rows`` labels."""
    width = (1.0 + 2.0 * BEYOND) * (high - low)
    return bounded_square(width) if rows >= SPAN_ROWS and width > 0.0 else np.inf


@njit(cache=True, nogil=True)
def widen(span: Floats, y: float, rows: float) -> None:
    """Widen the range (2,) of the labels by y, in place; ``rows`` labels came before it."""
    if rows == 0.0:
        span[:2] = y
    elif rows == WIDTH_ROWS:
        above, below = abs(y - span[0]), abs(span[1] - y)
        if 0.0 < _WINSOR * above < below:
            span[1] = max(y, span[0]) + above
        elif 0.0 < _WINSOR * below < above:
            span[0] = min(y, span[1]) - below
    width, size = span[1] - span[0], max(abs(span[0]), abs(span[1]))
    compared = rows >= WIDTH_ROWS and width > 0.0 and (rows >= SPAN_ROWS or width > _ROUNDING * size)
    most = width if compared else np.inf
    if y < span[0]:
        span[0] = y if span[0] - y <= _WINSOR * most else span[0] - most
    elif y > span[1]:
        span[1] = y if y - span[1] <= _WINSOR * most else span[1] + most


@njit(f"void(f8[::1], {NUMBERS_IN})", cache=True, nogil=True)
def hold_rows(values: Floats, span: Floats) -> None:
    """Clip predictions (n,) to what labels of this range (3,) allow, in place."""
    if span[ROWS] >= SPAN_ROWS:
        for i in range(values.shape[0]):
            values[i] = held(values[i], span[LOW], span[HIGH])
