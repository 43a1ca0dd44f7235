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

from core.contract import Floats, Ints
from core.learners.auto.resting import REST_ROWS, USE_RATE
from core.numerics.label_range import SPAN_ROWS, held, widen

WEIGHT, ERROR, USE, WAKES, SPELLS = range(5)
"""Columns of the table of experts: w and m; then those of core.learners.auto.resting."""
ROWS, LOSS, LAST, RECENT, LEAST, MOST = range(6)
"""Places in the counters: rows; D; the last label; the mean squared error since the last row number divisible by
REST_ROWS, as if the rows to come had none; the range of the labels."""
FIELDS, COUNTERS = 5, 6
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
def _mix_row(
    P: Floats, S: Floats, i: int, awake: Ints, table: Floats, counters: Floats, said: Floats
) -> tuple[float, float]:
    """What is said of row i and its deviation; what each expert awake said, held, into ``said`` (A,)."""
    last = P.shape[0]
    mixed = variance = 0.0
    for a, e in enumerate(awake):
        p = counters[LAST] if a == last else P[a, i]
        said[a] = held(p, counters[LEAST], counters[MOST]) if counters[ROWS] >= SPAN_ROWS else p
        mixed += table[e, WEIGHT] * said[a]
    mixed = min(max(mixed, -VALUE_MAX), VALUE_MAX)
    for a, e in enumerate(awake):
        own = table[e, ERROR] if a == last else _squared(S[a, i])
        variance += table[e, WEIGHT] * (own + _squared(said[a] - mixed))
    return mixed, math.sqrt(variance)


@njit(cache=True, nogil=True)
def _fit_row(y: float, weight: float, mixed: float, awake: Ints, table: Floats, counters: Floats, said: Floats) -> None:
    """Weights, errors and the range of the labels after a row with label y."""
    A, loss, t = awake.shape[0], counters[LOSS], counters[ROWS]
    miss = _squared(mixed - y)
    rate = min(weight * max(1.0 / (t + 1.0), _LOSS_RATE), 1.0)
    expected = max(loss + rate * (miss - loss), _LOSS_MIN)
    capped = _WINSOR * loss if t >= SPAN_ROWS and 0.0 < _WINSOR * loss < miss else miss
    counters[LOSS] = loss + rate * (capped - loss)
    counters[RECENT] += capped / REST_ROWS
    least, total = np.inf, 0.0
    for a, e in enumerate(awake):
        own = _squared(said[a] - y)
        table[e, USE] += USE_RATE * (table[e, WEIGHT] - table[e, USE])
        table[e, ERROR] += max(1.0 / (t + 1.0), _LOSS_RATE) * (own - table[e, ERROR])
        said[a] = own
        least = min(least, own)
    for a, e in enumerate(awake):
        table[e, WEIGHT] *= math.exp(-_RATE * weight * min((said[a] - least) / expected, _CAP))
        total += table[e, WEIGHT]
    for e in awake:
        table[e, WEIGHT] = (1.0 - _SHARE) * table[e, WEIGHT] / total + _SHARE / A
    widen(counters[LEAST:], y, t)
    counters[LAST] = min(max(y, -VALUE_MAX), VALUE_MAX)
    counters[ROWS] += 1.0


@njit(f"void({_ROWS_IN}, {_ROWS_IN}, i8[::1], f8[:,::1], f8[::1], f8[::1], f8[::1])", cache=True, nogil=True)
def predict_rows(
    P: Floats, S: Floats, awake: Ints, table: Floats, counters: Floats, value: Floats, std: Floats
) -> None:
    """What is said of n rows (n,), with deviations (n,).

    P and S (A - 1, n) are what those experts ``awake`` (A,), rows of the table, say that read columns.
    """
    said = np.empty(awake.shape[0])
    for i in range(P.shape[1]):
        value[i], std[i] = _mix_row(P, S, i, awake, table, counters, said)


@njit(f"void({_ROWS_IN}, {_ROWS_IN}, {_VECTOR_IN}, {_VECTOR_IN}, i8[::1], f8[:,::1], f8[::1], f8[::1], f8[::1])",
      cache=True, nogil=True)  # fmt: skip
def learn_rows(
    P: Floats, S: Floats, y: Floats, weights: Floats, awake: Ints, table: Floats, counters: Floats, value: Floats,
    std: Floats,
) -> None:  # fmt: skip
    """``predict_rows`` for each row before its label y (n,) moves the weights.

    Weights are (n,), or (0,): every row counts once.
    """
    said = np.empty(awake.shape[0])
    for i in range(P.shape[1]):
        value[i], std[i] = _mix_row(P, S, i, awake, table, counters, said)
        _fit_row(y[i], weights[i] if weights.shape[0] else 1.0, value[i], awake, table, counters, said)
