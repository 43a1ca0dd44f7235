r"""The mixture of regressions behind `auto`, compiled: what the experts say of a row becomes one number.

For a row, p_e what expert e said a priori, held within the range of the labels so far and a tenth beyond
(core.numerics.label_range), y the row's label:

    o = sum_e w_e p_e                                        w = 1 / E
    D <- D + r ((o - y)^2 - D)                               the loss to expect, r = max(1/t, .001); updated before use
    w_e <- w_e exp(-.3 min((l_e - min l) / D, 4))            l_e = (p_e - y)^2
    w_e <- .999 w_e / sum w + .001 / E                       fixed share: an expert with no weight can regain it
    m_e <- m_e + r (l_e - m_e)                               each expert's mean squared error

The last expert says the last label again, and needs no columns. A row of weight c counts c times in D and w. The
minimum of 4 keeps one row from deciding: with it, an expert that is good but for a few rows loses little by them. As in
the bank of ``dfop``, (o - y)^2 counts at most 1e6 D in the D of later rows.

**Predictive deviation**: sqrt(sum_e w_e (s_e^2 + (p_e - o)^2)), s_e that of expert e; of the last label sqrt(m_e).

Source: fixed share: Herbster, Warmuth: Tracking the best expert, Machine Learning 32, 1998.
"""

import math

import numpy as np
from numba import njit

from core.contract import Floats
from core.numerics.label_range import SPAN_ROWS, held, widen

WEIGHT, ERROR = range(2)
"""Columns of the table of experts: w and m."""
ROWS, LOSS, LAST, LEAST, MOST = range(5)
"""Places in the counters: rows; D; the last label; the range of the labels."""
FIELDS, COUNTERS = 2, 5
VALUE_MAX, LOSS_MAX = 1e300, 1e301
LAST_VALUE = "last_value"

_RATE, _LOSS_RATE, _SHARE, _CAP = 0.3, 1e-3, 1e-3, 4.0
_DIFFERENCE_MAX, _LOSS_MIN, _WINSOR = 1e150, 1e-300, 1e6

_ROWS_IN = "Array(f8, 2, 'C', readonly=True)"
_VECTOR_IN = "Array(f8, 1, 'C', readonly=True)"


@njit(cache=True, nogil=True)
def _squared(difference: float) -> float:
    """difference^2, finite."""
    bounded = min(abs(difference), _DIFFERENCE_MAX)
    return bounded * bounded


@njit(cache=True, nogil=True)
def _mix_row(P: Floats, S: Floats, i: int, table: Floats, counters: Floats, said: Floats) -> tuple[float, float]:
    """What is said of row i and its deviation; what each expert said, held, into ``said`` (E,)."""
    last = table.shape[0] - 1
    mixed = variance = 0.0
    for e in range(table.shape[0]):
        p = counters[LAST] if e == last else P[e, i]
        said[e] = held(p, counters[LEAST], counters[MOST]) if counters[ROWS] >= SPAN_ROWS else p
        mixed += table[e, WEIGHT] * said[e]
    mixed = min(max(mixed, -VALUE_MAX), VALUE_MAX)
    for e in range(table.shape[0]):
        own = table[e, ERROR] if e == last else _squared(S[e, i])
        variance += table[e, WEIGHT] * (own + _squared(said[e] - mixed))
    return mixed, math.sqrt(variance)


@njit(cache=True, nogil=True)
def _fit_row(y: float, weight: float, mixed: float, table: Floats, counters: Floats, said: Floats) -> None:
    """Weights, errors and the range of the labels after a row with label y."""
    E, loss, t = table.shape[0], counters[LOSS], counters[ROWS]
    miss = _squared(mixed - y)
    rate = min(weight * max(1.0 / (t + 1.0), _LOSS_RATE), 1.0)
    expected = max(loss + rate * (miss - loss), _LOSS_MIN)
    capped = _WINSOR * loss if t >= SPAN_ROWS and 0.0 < _WINSOR * loss < miss else miss
    counters[LOSS] = loss + rate * (capped - loss)
    least, total = np.inf, 0.0
    for e in range(E):
        own = _squared(said[e] - y)
        table[e, ERROR] += max(1.0 / (t + 1.0), _LOSS_RATE) * (own - table[e, ERROR])
        said[e] = own
        least = min(least, own)
    for e in range(E):
        table[e, WEIGHT] *= math.exp(-_RATE * weight * min((said[e] - least) / expected, _CAP))
        total += table[e, WEIGHT]
    for e in range(E):
        table[e, WEIGHT] = (1.0 - _SHARE) * table[e, WEIGHT] / total + _SHARE / E
    widen(counters[LEAST:], y, t)
    counters[LAST] = min(max(y, -VALUE_MAX), VALUE_MAX)
    counters[ROWS] += 1.0


@njit(f"void({_ROWS_IN}, {_ROWS_IN}, f8[:,::1], f8[::1], f8[::1], f8[::1])", cache=True, nogil=True)
def predict_rows(P: Floats, S: Floats, table: Floats, counters: Floats, value: Floats, std: Floats) -> None:
    """What is said of n rows (n,) with deviations (n,), from what the experts say, P and S (E - 1, n)."""
    said = np.empty(table.shape[0])
    for i in range(P.shape[1]):
        value[i], std[i] = _mix_row(P, S, i, table, counters, said)


@njit(f"void({_ROWS_IN}, {_ROWS_IN}, {_VECTOR_IN}, {_VECTOR_IN}, f8[:,::1], f8[::1], f8[::1], f8[::1])",
      cache=True, nogil=True)  # fmt: skip
def learn_rows(
    P: Floats, S: Floats, y: Floats, weights: Floats, table: Floats, counters: Floats, value: Floats, std: Floats
) -> None:
    """``predict_rows`` for each row before its label y (n,) moves the weights.

    Weights are (n,), or (0,): every row counts once.
    """
    said = np.empty(table.shape[0])
    for i in range(P.shape[1]):
        value[i], std[i] = _mix_row(P, S, i, table, counters, said)
        _fit_row(y[i], weights[i] if weights.shape[0] else 1.0, value[i], table, counters, said)
