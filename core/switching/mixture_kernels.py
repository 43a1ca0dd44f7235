"""The rows of core.switching.mixture, compiled: its docstring has the equations and the letters."""

import math

import numpy as np
from numba import njit

from core.contract import Floats, Ints
from core.numerics.weighting import bounded_square, deviation, fixed_share, weigh_by_losses

PROBABILITY_MIN = 1e-6
ROWS, ERROR, LOW, HIGH = range(4)
"""Places in the counters."""
ANYTIME = -1.0
"""A share of this value is min(1/2, 1/t)."""
SPAN_ROWS = 20.0

_ERROR_RATE = 0.01
_ERROR_MIN, _LOSS_MAX, _LABEL_MAX = 1e-300, 1e300, 1e299
_TABLE, _ROW, _CHOSEN = "f8[:,::1]", "f8[::1]", "i8[::1]"


@njit(cache=True, nogil=True)
def _choose(weights: Floats, u: float) -> int:
    """The expert that a draw u in [0, 1) falls on."""
    total = 0.0
    for k in range(weights.shape[0] - 1):
        total += weights[k]
        if u < total:
            return k
    return int(weights.shape[0] - 1)


@njit(cache=True, nogil=True, error_model="numpy")
def _move(losses: Floats, eta: float, share: float, t: float, weights: Floats) -> None:
    """Weights after the t-th row; of one expert they stay."""
    E = weights.shape[0]
    if E == 1:
        return
    total = weigh_by_losses(weights, losses, losses.min(), eta)
    for k in range(E):
        weights[k] /= total
    d = min(0.5, 1.0 / t) if share == ANYTIME else share
    fixed_share(weights, 1.0 - d, 1.0, d / E)


@njit(
    f"void(f8[:,:,::1], Array(i8, 1, 'C', readonly=True), {_ROW}, {_ROW}, {_ROW}, f8, f8, b1, {_ROW}, {_CHOSEN}, "
    f"{_TABLE})",
    cache=True,
    nogil=True,
    error_model="numpy",
)
def mix_classes(
    P: Floats, y: Ints, weights: Floats, losses: Floats, counters: Floats, eta: float, share: float, geometric: bool,
    draws: Floats, chosen: Ints, out: Floats,
) -> None:  # fmt: skip
    """Probabilities of n rows; where they have classes, each then weighs the experts.

    Args:
        P: (E, n, K) the experts' probabilities.
        y: (n,) class indices, or (0,): nothing is learned.
        weights: (E,), moved.
        losses: (E,), moved.
        counters: (4,), moved.
        eta: rate of the losses.
        share: d, or ANYTIME.
        geometric: whether logarithms are mixed, as the paper's margins are.
        draws: (n,) where one expert is selected per row; else (0,).
        chosen: (n,) the expert selected for each row, which is written where there are draws; -1: all are mixed.
        out: (n, K), written.
    """
    E, n, K = P.shape
    row = np.empty(E)
    for i in range(n):
        if draws.shape[0]:
            chosen[i] = _choose(weights, draws[i])
        total = 0.0
        for c in range(K):
            mixed = 0.0
            for k in range(E):
                mixed += weights[k] * (math.log(max(P[k, i, c], PROBABILITY_MIN)) if geometric else P[k, i, c])
            out[i, c] = math.exp(mixed) if geometric else mixed
            total += out[i, c]
        for c in range(K):
            out[i, c] = P[chosen[i], i, c] if chosen[i] >= 0 else out[i, c] / (total if geometric else 1.0)
        if y.shape[0]:
            for k in range(E):
                row[k] = -math.log(max(P[k, i, y[i]], PROBABILITY_MIN))
                losses[k] = max(losses[k] + row[k], 0.0)  # a probability may be rounded above 1
            counters[ROWS] += 1.0
            _move(row, eta, share, counters[ROWS], weights)


@njit(
    f"void({_TABLE}, {_TABLE}, Array(f8, 1, 'C', readonly=True), {_ROW}, {_ROW}, {_ROW}, f8, f8, {_ROW}, {_CHOSEN}, "
    f"{_ROW}, {_ROW})",
    cache=True,
    nogil=True,
    error_model="numpy",
)
def mix_numbers(
    F: Floats, S: Floats, y: Floats, weights: Floats, losses: Floats, counters: Floats, eta: float, share: float,
    draws: Floats, chosen: Ints, out: Floats, std: Floats,
) -> None:  # fmt: skip
    """``mix_classes`` for numbers F (E, n), clipped in place, with deviations S (E, n) or (E, 0); eta 0: 1 / (2 D)."""
    E, n = F.shape
    numbers, variances, row = np.empty(E), np.empty(E), np.empty(E)
    for i in range(n):
        if draws.shape[0]:
            chosen[i] = _choose(weights, draws[i])
        if counters[ROWS] >= SPAN_ROWS:
            width = counters[HIGH] - counters[LOW]
            for k in range(E):
                F[k, i] = min(max(F[k, i], counters[LOW] - width), counters[HIGH] + width)
        mixed = 0.0
        for k in range(E):
            numbers[k] = F[k, i]
            mixed += weights[k] * numbers[k]
        out[i] = mixed if chosen[i] < 0 else F[chosen[i], i]
        if std.shape[0]:
            for k in range(E):
                variances[k] = bounded_square(S[k, i])
            std[i] = deviation(weights, variances, numbers, mixed) if chosen[i] < 0 else S[chosen[i], i]
        if not y.shape[0]:
            continue
        for k in range(E):
            row[k] = bounded_square(numbers[k] - y[i])
            losses[k] = min(losses[k] + row[k], _LOSS_MAX)
        counters[ROWS] += 1.0
        counters[ERROR] += max(1.0 / counters[ROWS], _ERROR_RATE) * (bounded_square(mixed - y[i]) - counters[ERROR])
        label = min(max(y[i], -_LABEL_MAX), _LABEL_MAX)
        counters[LOW] = label if counters[ROWS] == 1.0 else min(counters[LOW], label)
        counters[HIGH] = label if counters[ROWS] == 1.0 else max(counters[HIGH], label)
        rate = eta if eta > 0.0 else 0.5 / max(counters[ERROR], _ERROR_MIN)
        _move(row, rate, share, counters[ROWS], weights)
