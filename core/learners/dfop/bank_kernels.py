"""What the bank of forgetting rates does once per row, compiled: its members in turn, and their mixture (equations:
bank.py).

A member's row is that of kernels.py, the range of the labels that of core.numerics.label_range. Numba's cache does not
see when those files change: then delete core/__pycache__ (a test compares the bits of a bank's members with those of
the same learners alone). The members' arrays are stacked,
so that one call from Python learns or predicts them all:

    W (K, columns, D)    Q, R (K, D, D)    mean_square (K, D)    counters (K, 4)
"""

import math

import numpy as np
from numba import njit

from core.contract import Floats
from core.learners.dfop.kernels import DONE, PREDICTION_MAX, learn_rows, predict_rows
from core.numerics.label_range import SPAN_ROWS, held, widen

SHARE = 1e-3
LOSS_RATE = 1e-3
SCORE_MAX = 1.5
DEVIATION_MAX = 3.0
"""Widths of the range of the labels that a deviation may have."""
DISCOUNT, STEP, LEAK_SIZE, FRESH = range(4)
"""Places in a member's row of the constants: the discount, its -ln, and what a leak puts back (``leak``)."""

_SQUARED_MAX = 1e150
_LOSS_MIN = 1e-300
_LOSS_WINSOR = 1e6
"""Times D that the loss of a row counts at most in the D kept for later rows (regression)."""

_ROWS_IN = "Array(f8, 2, 'C', readonly=True)"
_VECTOR_IN = "Array(f8, 1, 'C', readonly=True)"
_CUBE, _MATRIX = "f8[:,:,::1]", "f8[:,::1]"
_STACK = f"{_CUBE}, {_CUBE}, {_CUBE}, {_MATRIX}, {_MATRIX}"


@njit(
    f"UniTuple(i8, 3)({_ROWS_IN}, {_VECTOR_IN}, {_VECTOR_IN}, {_STACK}, {_MATRIX}, {_CUBE}, {_MATRIX}, i8, i8, b1, i8)",
    cache=True,
    nogil=True,
)
def learn_members(
    X: Floats,
    y: Floats,
    weights: Floats,
    W: Floats,
    Q: Floats,
    R: Floats,
    mean_square: Floats,
    counters: Floats,
    constants: Floats,
    P: Floats,
    S: Floats,
    member: int,
    row: int,
    refreshed: bool,
    refresh_rows: int,
) -> tuple[int, int, int]:
    """Test, then train the members on n rows, until one of them must be refreshed.

    Args:
        X: (n, d) rows.
        y: (n,) numbers, or class indices as floats.
        weights: (n,) of the rows, or (0,): every row counts once.
        W: the members' weights, updated in place like the four that follow.
        Q: their covariances.
        R: their precisions.
        mean_square: their mean squares.
        counters: their counters.
        constants: (K, 4) see DISCOUNT and the others.
        P: (K, n, m) their a-priori scores, written.
        S: (K, n) their predictive deviations, written; (K, 0) for classification.
        member: the member to begin with, at ``row``; those after it begin at the first row.
        row: see ``member``.
        refreshed: whether that member has just been refreshed because this row found it spoiled.
        refresh_rows: as for ``core.learners.dfop.kernels.learn_rows``.

    Returns:
        A member, its next row and why it must be refreshed before that: REFRESH, LEAK or SPOILED; then call again from
        there, after SPOILED with ``refreshed``. DONE, where all members have learned all rows.
    """
    n, discounts = X.shape[0], np.empty(0)
    for k in range(member, W.shape[0]):
        if row < n:
            row, reason = learn_rows(
                X, y, discounts, weights, W[k], Q[k], R[k], mean_square[k], counters[k], P[k], S[k], row, n, refreshed,
                constants[k, DISCOUNT], constants[k, STEP], constants[k, LEAK_SIZE], constants[k, FRESH], refresh_rows,
            )  # fmt: skip
            if reason != DONE:
                return k, row, reason
        row, refreshed = 0, False
    return W.shape[0], 0, DONE


@njit(
    f"void({_ROWS_IN}, {_CUBE}, {_CUBE}, {_MATRIX}, {_MATRIX}, {_CUBE}, {_MATRIX})",
    cache=True,
    nogil=True,
)
def predict_members(X: Floats, W: Floats, Q: Floats, counters: Floats, constants: Floats, P: Floats, S: Floats) -> None:
    """Scores P (K, n, m) and deviations S (K, n), (K, 0) for classification, of n rows under the members' states."""
    for k in range(W.shape[0]):
        predict_rows(X, W[k], Q[k], counters[k], constants[k, DISCOUNT], P[k], S[k])


@njit(cache=True, nogil=True)
def _mix_row(P: Floats, S: Floats, i: int, mixing: Floats, scores: Floats, std: Floats) -> None:
    """Write o = sum v_k p_k of row i into scores (n, m), and for regression the mixture's deviation into std (n,)."""
    for j in range(scores.shape[1]):
        o = 0.0
        for k in range(mixing.shape[0]):
            o += mixing[k] * P[k, i, j]
        scores[i, j] = o
    if std.shape[0]:
        variance = 0.0
        for k in range(mixing.shape[0]):
            own = min(S[k, i], _SQUARED_MAX)
            apart = min(abs(P[k, i, 0] - scores[i, 0]), _SQUARED_MAX)
            variance += mixing[k] * (own * own + apart * apart)
        std[i] = min(math.sqrt(variance), PREDICTION_MAX)


@njit(cache=True, nogil=True)
def _clip_row(P: Floats, S: Floats, i: int, rows: float, span: Floats, regression: bool) -> None:
    """The members' scores and deviations of a row within what can be, in place; ``rows`` were learned before it."""
    if regression and rows < SPAN_ROWS:
        return
    for k in range(P.shape[0]):
        for j in range(P.shape[2]):
            p = P[k, i, j]
            P[k, i, j] = held(p, span[0], span[1]) if regression else min(max(p, -SCORE_MAX), SCORE_MAX)
        if regression:
            S[k, i] = min(S[k, i], DEVIATION_MAX * (span[1] - span[0]))


@njit("void(f8[:,:,::1], f8[:,::1], f8[::1], f8, f8[::1], f8[:,::1], f8[::1])", cache=True, nogil=True)
def mix_rows(P: Floats, S: Floats, mixing: Floats, rows: float, span: Floats, scores: Floats, std: Floats) -> None:
    """Mix the predictions P (K, n, m), S (K, n) of n rows; both are clipped in place."""
    for i in range(P.shape[1]):
        _clip_row(P, S, i, rows, span, std.shape[0] > 0)
        _mix_row(P, S, i, mixing, scores, std)


@njit(cache=True, nogil=True)
def _squared(difference: float) -> float:
    """difference^2, finite."""
    bounded = min(abs(difference), _SQUARED_MAX)
    return bounded * bounded


@njit(cache=True, nogil=True)
def _target(y: float, j: int, columns: int, regression: bool) -> float:
    """Target of column j out of the ``columns`` of the classes seen."""
    if regression:
        return y
    return 1.0 if y == (1.0 if columns == 1 else j) else -1.0


@njit(
    f"f8(f8[:,:,::1], f8[:,::1], {_VECTOR_IN}, {_VECTOR_IN}, f8[::1], f8, f8, f8[::1], f8[:,::1], f8[::1])",
    cache=True,
    nogil=True,
)
def mix_and_weigh(
    P: Floats,
    S: Floats,
    y: Floats,
    weights: Floats,
    mixing: Floats,
    loss: float,
    rows: float,
    span: Floats,
    scores: Floats,
    std: Floats,
) -> float:
    """Mix n rows in turn, and move the weights after each.

    Args:
        P: (K, n, m) the members' scores, clipped in place.
        S: (K, n) their deviations, clipped in place; (K, 0) for classification.
        y: (n,) numbers, or class indices.
        weights: (n,) of the rows, or (0,): every row counts once.
        mixing: (K,) weights v, updated.
        loss: D.
        rows: rows seen before.
        span: range of the labels of a regression, updated.
        scores: (n, m) mixed scores, written.
        std: (n,) deviations of the mixture, written; (0,) for classification.

    Returns:
        D after the rows.
    """
    K, n, m = P.shape
    regression = std.shape[0] > 0
    losses = np.empty(K)
    for i in range(n):
        _clip_row(P, S, i, rows + i, span, regression)
        _mix_row(P, S, i, mixing, scores, std)
        if regression:
            widen(span, y[i], rows + i)
        mixed = 0.0
        losses[:] = 0.0
        for j in range(m):
            target = _target(y[i], j, m, regression)
            mixed += _squared(scores[i, j] - target) / m
            for k in range(K):
                losses[k] += _squared(P[k, i, j] - target) / m
        weight = weights[i] if weights.shape[0] else 1.0
        rate = min(weight * max(1.0 / (rows + i + 1.0), LOSS_RATE), 1.0)
        whole = loss + rate * (mixed - loss)
        scale = -0.5 * weight / max(whole, _LOSS_MIN)
        if regression and rows + i >= SPAN_ROWS and 0.0 < _LOSS_WINSOR * loss < mixed:
            loss += rate * (_LOSS_WINSOR * loss - loss)
        else:
            loss = whole
        least = losses.min()
        total = 0.0
        for k in range(K):
            mixing[k] *= math.exp(scale * (losses[k] - least))
            total += mixing[k]
        for k in range(K):
            mixing[k] = (1.0 - SHARE) * mixing[k] / total + SHARE / K
    return loss
