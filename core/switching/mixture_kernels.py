"""The rows of core.switching.mixture, compiled: its docstring has the equations and the letters."""

import math

import numpy as np
from numba import njit

from core.contract import Floats, Ints

PROBABILITY_MIN = 1e-6
ROWS, ERROR, LOW, HIGH = range(4)
"""Places in the counters."""
ANYTIME = -1.0
"""A share of this value is min(1/2, 1/t)."""
SPAN_ROWS = 20.0

_ERROR_RATE = 0.01
_ERROR_MAX, _ERROR_MIN, _LOSS_MAX, _LABEL_MAX = 1e150, 1e-300, 700.0, 1e299
_CUBE, _TABLE, _ROW = "f8[:,:,::1]", "f8[:,::1]", "f8[::1]"


@njit(cache=True, nogil=True)
def _mix_shares(P: Floats, i: int, weights: Floats, geometric: bool, out: Floats) -> None:
    """Row i's probabilities of the mixture: of probabilities, or (the paper's margins) of their logarithms."""
    total = 0.0
    for c in range(P.shape[2]):
        mixed = 0.0
        for k in range(P.shape[0]):
            mixed += weights[k] * (math.log(max(P[k, i, c], PROBABILITY_MIN)) if geometric else P[k, i, c])
        out[i, c] = math.exp(mixed) if geometric else mixed
        total += out[i, c]
    if geometric:
        for c in range(P.shape[2]):
            out[i, c] /= total


@njit(cache=True, nogil=True)
def _choose(weights: Floats, u: float) -> int:
    """The expert that a draw u in [0, 1) falls on."""
    total = 0.0
    for k in range(weights.shape[0] - 1):
        total += weights[k]
        if u < total:
            return k
    return int(weights.shape[0] - 1)


@njit(cache=True, nogil=True)
def _weigh(losses: Floats, eta: float, share: float, t: float, weights: Floats) -> None:
    """v_k = a_k exp(-eta l_k); a_k = d sum v / E + (1 - d) v_k, normalised."""
    E = weights.shape[0]
    if E == 1:
        return
    least = losses.min()
    total = 0.0
    for k in range(E):
        weights[k] *= math.exp(-min(eta * (losses[k] - least), _LOSS_MAX))
        total += weights[k]
    d = min(0.5, 1.0 / t) if share == ANYTIME else share
    for k in range(E):
        weights[k] = d / E + (1.0 - d) * (weights[k] / total)


@njit(f"void({_CUBE}, {_ROW}, b1, i8, {_TABLE})", cache=True, nogil=True)
def mix_classes(P: Floats, weights: Floats, geometric: bool, chosen: int, out: Floats) -> None:
    """Probabilities (n, K) of n rows into ``out``; of expert ``chosen`` alone where it is >= 0."""
    for i in range(P.shape[1]):
        if chosen >= 0:
            out[i] = P[chosen, i]
        else:
            _mix_shares(P, i, weights, geometric, out)


@njit(
    f"void({_CUBE}, Array(i8, 1, 'C', readonly=True), {_ROW}, {_ROW}, {_ROW}, f8, f8, b1, {_ROW}, i8[::1], {_TABLE})",
    cache=True,
    nogil=True,
)
def learn_classes(
    P: Floats,
    y: Ints,
    weights: Floats,
    losses: Floats,
    counters: Floats,
    eta: float,
    share: float,
    geometric: bool,
    draws: Floats,
    chosen: Ints,
    out: Floats,
) -> None:
    """Say each of n rows, then weigh the experts by its label.

    Args:
        P: (E, n, K) the experts' probabilities.
        y: (n,) class indices.
        weights: (E,), moved.
        losses: (E,), moved.
        counters: (4,), moved.
        eta: rate of the losses.
        share: d, or ANYTIME.
        geometric: whether logarithms are mixed.
        draws: (n,) where one expert is selected per row; else (0,).
        chosen: (n,) the expert selected for each row, written.
        out: (n, K), written.
    """
    E = P.shape[0]
    row = np.empty(E)
    for i in range(P.shape[1]):
        if draws.shape[0] > 0:
            chosen[i] = _choose(weights, draws[i])
            out[i] = P[chosen[i], i]
        else:
            _mix_shares(P, i, weights, geometric, out)
        for k in range(E):
            row[k] = -math.log(max(P[k, i, y[i]], PROBABILITY_MIN))
            losses[k] = max(losses[k] + row[k], 0.0)  # a probability may be rounded above 1
        counters[ROWS] += 1.0
        _weigh(row, eta, share, counters[ROWS], weights)


@njit(cache=True, nogil=True)
def _squared(difference: float) -> float:
    """difference^2, finite."""
    bounded = min(abs(difference), _ERROR_MAX)
    return bounded * bounded


@njit(cache=True, nogil=True)
def _mix_numbers(
    F: Floats, S: Floats, i: int, weights: Floats, counters: Floats, chosen: int, out: Floats, std: Floats
) -> float:
    """Row i: F clipped in place; the prediction and its deviation written; returns the mixture's own number."""
    if counters[ROWS] >= SPAN_ROWS:
        width = counters[HIGH] - counters[LOW]
        for k in range(F.shape[0]):
            F[k, i] = min(max(F[k, i], counters[LOW] - width), counters[HIGH] + width)
    mixed = 0.0
    for k in range(F.shape[0]):
        mixed += weights[k] * F[k, i]
    out[i] = mixed if chosen < 0 else F[chosen, i]
    if std.shape[0] > 0:
        variance = 0.0
        for k in range(F.shape[0]):
            variance += weights[k] * (_squared(S[k, i]) + _squared(F[k, i] - mixed))
        std[i] = math.sqrt(variance) if chosen < 0 else S[chosen, i]
    return mixed


@njit(f"void({_TABLE}, {_TABLE}, {_ROW}, {_ROW}, i8, {_ROW}, {_ROW})", cache=True, nogil=True)
def mix_numbers(F: Floats, S: Floats, weights: Floats, counters: Floats, chosen: int, out: Floats, std: Floats) -> None:
    """Numbers (n,) and deviations (n,) or (0,) of n rows from F, S (E, n), clipped in place."""
    for i in range(F.shape[1]):
        _mix_numbers(F, S, i, weights, counters, chosen, out, std)


@njit(
    f"void({_TABLE}, {_TABLE}, Array(f8, 1, 'C', readonly=True), {_ROW}, {_ROW}, {_ROW}, f8, f8, {_ROW}, {_ROW}, "
    f"{_ROW})",
    cache=True,
    nogil=True,
)
def learn_numbers(
    F: Floats,
    S: Floats,
    y: Floats,
    weights: Floats,
    losses: Floats,
    counters: Floats,
    eta: float,
    share: float,
    draws: Floats,
    out: Floats,
    std: Floats,
) -> None:
    """``learn_classes`` for numbers F (E, n) with deviations S (E, n) or (E, 0); eta 0: 1 / (2 D)."""
    E = F.shape[0]
    row = np.empty(E)
    for i in range(F.shape[1]):
        chosen = _choose(weights, draws[i]) if draws.shape[0] > 0 else -1
        mixed = _mix_numbers(F, S, i, weights, counters, chosen, out, std)
        for k in range(E):
            row[k] = _squared(F[k, i] - y[i])
            losses[k] = min(losses[k] + row[k], _ERROR_MAX * _ERROR_MAX)
        counters[ROWS] += 1.0
        counters[ERROR] += max(1.0 / counters[ROWS], _ERROR_RATE) * (_squared(mixed - y[i]) - counters[ERROR])
        label = min(max(y[i], -_LABEL_MAX), _LABEL_MAX)
        counters[LOW] = label if counters[ROWS] == 1.0 else min(counters[LOW], label)
        counters[HIGH] = label if counters[ROWS] == 1.0 else max(counters[HIGH], label)
        rate = eta if eta > 0.0 else 0.5 / max(counters[ERROR], _ERROR_MIN)
        _weigh(row, rate, share, counters[ROWS], weights)
