"""The compiled rows of ``core.metrics.intervals``, which has the equations; the letters are its own."""

import math
from typing import Final

import numpy as np
from numba import njit

from core.contract import LEVELS, Floats
from core.metrics.prequential import FADING, READ_FLOATS, WINDOW

RING: Final = 250
"""Residuals kept."""
STEPS: Final = (0.002, 0.008, 0.032, 0.128)
"""Step sizes gamma_k of the experts of each level."""
ETA: Final = 2.72
"""How fast the experts' weights follow their losses."""
SHARE: Final = 0.001
"""Sigma: what the experts of a level share of each other's weight at every row."""
SHIFT_STEP: Final = 0.002
"""Gamma_0, the step of the shift c; its bound is ``SHIFT_MAX``."""
SHIFT_MAX: Final = 0.5
LARGEST: Final = float(np.finfo(np.float64).max)
NOT_TRACKED: Final = math.inf
"""In place of the first returned bound: the row was not tracked, its intervals are those of now."""
# What is known of each level: c; rows with an interval, rows that it covered, and both with fading weights.
SHIFT, OFFERED, COVERED, FADING_OFFERED, FADING_COVERED = 0, 1, 2, 3, 4
LEVEL_COLUMNS: Final = 5

_LEVELS = np.array(LEVELS)
_STEPS = np.array(STEPS)
_STATE = "f8[:,::1], f8[:,::1], f8[:,::1], f8[::1]"
_RETURNED = "Array(f8, 3, 'C', readonly=True)"


@njit("i8(f8)", cache=True)
def rows_needed(level: float) -> int:
    """Residuals from which on both tails of a level have a quantile: (1 - level) (n + 1) / 2 >= 1."""
    return math.ceil(2.0 / (1.0 - level) - 1.0 - 1e-9)


@njit(cache=True)
def _smaller(ordered: Floats, n: int, value: float) -> int:
    """How many of the first n numbers, which ascend, are smaller."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if ordered[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _nested_alphas(alphas: Floats, weights: Floats, levels: Floats, out: Floats) -> None:
    """The a (L,) in use for every level, none larger than that of a lower one: intervals are nested."""
    for j in range(_LEVELS.shape[0]):
        a = levels[j, SHIFT]
        for k in range(_STEPS.shape[0]):
            a += weights[j, k] * alphas[j, k]
        out[j] = min(max(a, 0.0), 1.0 if j == 0 else out[j - 1])


@njit(cache=True)
def _tails(ordered: Floats, n: int, a: float) -> tuple[float, float]:
    """The residual with a share of a/2 below it, at most 0, and the one with as much above it, at least 0."""
    place = min(max(math.floor((n + 1) * 0.5 * a), 1), n)
    return min(ordered[place - 1], 0.0), max(ordered[n - place], 0.0)


@njit(cache=True)
def _between(nested: Floats, level: float) -> float:
    """The a of any level: linear between those that adapt, from 1 at level 0."""
    below, a = 0.0, 1.0
    for j in range(_LEVELS.shape[0]):
        following: float = nested[j]
        if level < _LEVELS[j]:
            a += (level - below) / (_LEVELS[j] - below) * (following - a)
            break
        below, a = _LEVELS[j], following
        if level == below:
            break
    return a


@njit(cache=True)
def _finite(value: float) -> float:
    return min(max(value, -LARGEST), LARGEST)


@njit(f"f8[:,:,::1]({READ_FLOATS}, {READ_FLOATS}, {_STATE}, i8)", cache=True)
def bounds(
    predicted: Floats, wanted: Floats, alphas: Floats, weights: Floats, levels: Floats, ordered: Floats, n: int
) -> Floats:
    """Intervals of some levels (m,) around predictions (p,): (p, m, 2), low and high; NaN: too few residuals."""
    nested = np.empty(_LEVELS.shape[0])
    _nested_alphas(alphas, weights, levels, nested)
    out = np.full((predicted.shape[0], wanted.shape[0], 2), np.nan)
    for j in range(wanted.shape[0]):
        if n >= rows_needed(wanted[j]):
            low, high = _tails(ordered, n, _between(nested, wanted[j]))
            for i in range(predicted.shape[0]):
                out[i, j, 0], out[i, j, 1] = _finite(predicted[i] + low), _finite(predicted[i] + high)
    return out


@njit(cache=True)
def _adapt(alphas: Floats, weights: Floats, levels: Floats, j: int, beta: float, outside: bool) -> None:
    """One row of a level, after a row that every a below beta would have covered, and that was outside or not."""
    target, total = 1.0 - _LEVELS[j], 0.0
    for k in range(_STEPS.shape[0]):
        spare = beta - alphas[j, k]
        weights[j, k] *= math.exp(-ETA * (target * spare - min(spare, 0.0)))
        total += weights[j, k]
        missed = 1.0 if spare <= 0.0 else 0.0
        alphas[j, k] = min(max(alphas[j, k] + _STEPS[k] * (target - missed), 0.0), 1.0)
    for k in range(_STEPS.shape[0]):
        weights[j, k] = (1.0 - SHARE) * weights[j, k] / total + SHARE / _STEPS.shape[0]
    missed = 1.0 if outside else 0.0
    levels[j, SHIFT] = min(max(levels[j, SHIFT] + SHIFT_STEP * (target - missed), -SHIFT_MAX), SHIFT_MAX)


@njit(cache=True)
def _insert(ordered: Floats, n: int, out: float, value: float) -> None:
    """One more number among the first n, which ascend; where they fill the ring, instead of ``out``."""
    full = n == RING
    free = _smaller(ordered, n, out) if full else n
    while free > 0 and ordered[free - 1] > value:
        ordered[free] = ordered[free - 1]
        free -= 1
    while full and free < n - 1 and ordered[free + 1] < value:
        ordered[free] = ordered[free + 1]
        free += 1
    ordered[free] = value


@njit(f"b1({READ_FLOATS}, {READ_FLOATS}, {_RETURNED}, i8, {_STATE}, f8[::1], f8[::1])", cache=True)
def absorb(
    predicted: Floats,
    truth: Floats,
    served: Floats,
    rows: int,
    alphas: Floats,
    weights: Floats,
    levels: Floats,
    ordered: Floats,
    residuals: Floats,
    bits: Floats,
) -> bool:
    """Score and learn rows one by one; False, with nothing changed, where a number is not finite."""
    for i in range(truth.shape[0]):
        if not (math.isfinite(truth[i]) and math.isfinite(predicted[i])):
            return False
    L = _LEVELS.shape[0]
    nested = np.empty(L)
    for i in range(truth.shape[0]):
        n, value, label = min(rows + i, RING), predicted[i], truth[i]
        residual = _finite(label - value) + 0.0
        beyond = _smaller(ordered, n, residual)
        if residual <= 0.0:
            larger = n - _smaller(ordered, n, np.nextafter(residual, np.inf))
            beyond = larger if residual < 0.0 else min(larger, beyond)
        beta = 2.0 - 2.0 * beyond / (n + 1)
        _nested_alphas(alphas, weights, levels, nested)
        tracked = served.shape[0] > 0 and served[i, 0, 0] != NOT_TRACKED
        flags = 0
        for j in range(L):
            enough = n >= rows_needed(_LEVELS[j])
            low = high = np.nan
            if enough:
                below, above = _tails(ordered, n, nested[j])
                low, high = _finite(value + below), _finite(value + above)
                _adapt(alphas, weights, levels, j, beta, residual < below or residual > above)
            if tracked:
                low, high = served[i, j, 0], served[i, j, 1]
            has, covered = 0 if math.isnan(low) else 1, 1 if low <= label <= high else 0
            levels[j, OFFERED] += has
            levels[j, COVERED] += covered
            levels[j, FADING_OFFERED] = FADING * levels[j, FADING_OFFERED] + has
            levels[j, FADING_COVERED] = FADING * levels[j, FADING_COVERED] + covered
            flags += (has << j) + (covered << (L + j))
        _insert(ordered, n, residuals[(rows + i) % RING], residual)
        residuals[(rows + i) % RING], bits[(rows + i) % WINDOW] = residual, flags
    return True
