r"""The range of the labels of a regression so far, and how far beyond it a prediction may lie.

    [a, b]                                   least and largest label so far; moved by each label after its prediction
    p <- clip(p, a - c (b - a), b + c (b - a))    c = max(.1, 4/n - .1) after n > 0 labels: .1 from row SPAN_ROWS on.
                                             auto, dfop's bank and ga2m: from the first label on; others: from row 20
    D <- min(D, ((1 + 2 c) (b - a))^2)       an estimate of squared errors, from the third label on

A least-squares model with few rows in its window, or after a row far from all others, can predict far outside
everything seen: a few such rows cause most of its squared error. Only predictions are clipped, not what is learned.

**Labels far from 0.** Models start at 0, and some need ten rows to get from there to labels of 1013 hPa, give or take
8: without the clip these rows cost thousands of times as much as later ones. The very first row does, so at 2500
deviations (50 Hz, give or take .02) a mean of squared errors that forgets at .001 a row would be wrong for ten thousand
rows, and losses divided by it negligible. The range of few labels is narrow, so c is larger. Learners of one closed
form, such as rls, keep it in their first rows.

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

_ROUNDING = 1e-6  # of the labels' size: the least width of few labels
_WINSOR = 100.0  # how far a label may lie outside the range before it is clipped, in widths of the range


@njit(cache=True, nogil=True)
def _has_width(low: float, high: float, rows: float) -> bool:
    """Whether this range has a width. While labels are few, it may be that of one number, rounded."""
    width, size = high - low, max(abs(low), abs(high))
    return bool(width > 0.0 and (rows >= SPAN_ROWS or width > _ROUNDING * size))


@njit(cache=True, nogil=True)
def _reach(low: float, high: float, rows: float) -> float:
    """How far outside this range of ``rows`` > 0 labels a prediction may lie."""
    return max(BEYOND, 2.0 * BEYOND * SPAN_ROWS / rows - BEYOND) * (high - low)


@njit(cache=True, nogil=True)
def held(value: float, low: float, high: float, rows: float) -> float:
    """A prediction clipped to what ``rows`` labels of this range allow."""
    if rows == 0.0:
        return value
    reach = _reach(low, high, rows)
    return min(max(value, low - reach), high + reach)


@njit(cache=True, nogil=True)
def error_max(low: float, high: float, rows: float) -> float:
    """The largest squared error to expect of a prediction that is held to this range of ``rows`` labels."""
    if rows <= WIDTH_ROWS or not _has_width(low, high, rows):
        return np.inf
    return bounded_square(high - low + 2.0 * _reach(low, high, rows))


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
    most = span[1] - span[0] if rows >= WIDTH_ROWS and _has_width(span[0], span[1], rows) else np.inf
    if y < span[0]:
        span[0] = y if span[0] - y <= _WINSOR * most else span[0] - most
    elif y > span[1]:
        span[1] = y if y - span[1] <= _WINSOR * most else span[1] + most


@njit(f"void(f8[::1], {NUMBERS_IN})", cache=True, nogil=True)
def hold_rows(values: Floats, span: Floats) -> None:
    """Clip predictions (n,) to what labels of this range (3,) allow, in place, from row SPAN_ROWS on."""
    if span[ROWS] >= SPAN_ROWS:
        for i in range(values.shape[0]):
            values[i] = held(values[i], span[LOW], span[HIGH], span[ROWS])
