"""What the bank of forgetting rates does once per row, compiled: its members in turn, and their mixture (equations:
bank.py).

A member's row is that of kernels.py, the range of the labels that of core.features.label_range, the weights those of
core.numerics.weighting. A test compares the bits of a bank's members with those of the same learners alone. The
members' arrays are stacked, so that one call from Python learns or predicts them all:

    W (K, columns, D)    Q, R (K, D, D)    mean_square (K, D)    counters (K, 4)    constants (K, 4)
"""

import numpy as np
from numba import njit

from core.contract import Floats
from core.features.label_range import SPAN_ROWS, held, widen
from core.learners.dfop import kernels
from core.learners.dfop.kernels import ROWS_TYPE, Predicted, Rows, State
from core.numerics.weighting import bounded_square, deviation, expect, weigh_and_share

CHUNK_ROWS = 1024
"""Rows whose member predictions are held at once; chunks end at absolute row numbers, as blocks do."""
SCORE_MAX = 1.5
DEVIATION_MAX = 3.0
"""Widths of the range of the labels that a deviation may have."""

_ROWS_IN = "Array(f8, 2, 'C', readonly=True)"
_VECTOR_IN = "Array(f8, 1, 'C', readonly=True)"
_CUBE, _MATRIX = "f8[:,:,::1]", "f8[:,::1]"
_STACK = f"Tuple(({_CUBE}, {_CUBE}, {_CUBE}, {_MATRIX}, {_MATRIX}))"
_PREDICTED = f"Tuple(({_CUBE}, {_MATRIX}))"


@njit(
    f"UniTuple(i8, 3)({ROWS_TYPE}, {_STACK}, {_PREDICTED}, {_MATRIX}, i8, i8, i8, b1)",
    cache=True,
    nogil=True,
)
def learn_members(
    rows: Rows,
    stack: State,
    predicted: Predicted,
    constants: Floats,
    refresh_rows: int,
    member: int,
    row: int,
    refreshed: bool,
) -> tuple[int, int, int]:
    """Test, then train the members on n rows, until one of them must be refreshed.

    Args:
        rows: what is learned, without discounts of rows.
        stack: the members' arrays, updated in place.
        predicted: their a-priori scores (K, n, m) and deviations (K, n), (K, 0) for classification, written.
        constants: theirs.
        refresh_rows: as for ``core.learners.dfop.kernels.learn_rows``.
        member: the member to begin with, at ``row``; those after it begin at the first row.
        row: see ``member``.
        refreshed: whether that member has just been refreshed because this row found it spoiled.

    Returns:
        A member, its next row and why it must be refreshed before that: REFRESH, LEAK or SPOILED; then call again from
        there, after SPOILED with ``refreshed``. DONE, where all members have learned all rows.
    """
    W, Q, R, mean_square, counters = stack
    P, S = predicted
    n = rows[0].shape[0]
    for k in range(member, W.shape[0]):
        if row < n:
            own = W[k], Q[k], R[k], mean_square[k], counters[k]
            fixed = constants[k, 0], constants[k, 1], constants[k, 2], constants[k, 3]
            row, reason = kernels.learn_rows(rows, own, (P[k], S[k]), fixed, refresh_rows, row, n, refreshed)
            if reason != kernels.DONE:
                return k, row, reason
        row, refreshed = 0, False
    return W.shape[0], 0, kernels.DONE


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


@njit(
    f"void({_CUBE}, {_MATRIX}, {_VECTOR_IN}, {_VECTOR_IN}, f8[::1], f8[::1], f8, f8[::1], {_MATRIX}, f8[::1])",
    cache=True,
    nogil=True,
)
def mix_rows(
    P: Floats, S: Floats, y: Floats, weights: Floats, mixing: Floats, loss: Floats, rows: float, span: Floats,
    scores: Floats, std: Floats,
) -> None:  # fmt: skip
    """Mix the predictions of n rows; where they have labels, each then moves the weights.

    Args:
        P: (K, n, m) the members' scores, clipped in place.
        S: (K, n) their deviations, clipped in place; (K, 0) for classification.
        y: (n,) numbers, or class indices; (0,): nothing is learned.
        weights: (n,) of the rows, or (0,): every row counts once.
        mixing: (K,) weights v, updated.
        loss: (1,) D, updated.
        rows: learned before.
        span: range of the labels of a regression, updated.
        scores: (n, m) mixed scores, written.
        std: (n,) deviations of the mixture, written; (0,) for classification.
    """
    K, n, m = P.shape
    regression = std.shape[0] > 0
    losses, numbers, variances = np.empty(K), np.empty(K), np.empty(K)
    for i in range(n):
        _clip_row(P, S, i, rows, span, regression)
        for j in range(m):
            o = 0.0
            for k in range(K):
                o += mixing[k] * P[k, i, j]
            scores[i, j] = o
        if regression:
            for k in range(K):
                numbers[k], variances[k] = P[k, i, 0], bounded_square(S[k, i])
            std[i] = deviation(mixing, variances, numbers, scores[i, 0])
        if not y.shape[0]:
            continue
        mixed = 0.0
        losses[:] = 0.0
        for j in range(m):
            target = y[i] if regression else kernels.target_of(y[i], j, m + 1)
            mixed += bounded_square(scores[i, j] - target) / m
            for k in range(K):
                losses[k] += bounded_square(P[k, i, j] - target) / m
        weight = weights[i] if weights.shape[0] else 1.0
        expected, loss[0], _ = expect(loss[0], mixed, weight, rows, regression and rows >= SPAN_ROWS)
        weigh_and_share(mixing, losses, losses.min(), 0.5 * weight / expected)
        if regression:
            widen(span, y[i], rows)
        rows += 1.0


@njit(
    f"void({_ROWS_IN}, {_CUBE}, {_CUBE}, {_MATRIX}, {_MATRIX}, f8[::1], f8[::1], f8[::1], {_MATRIX}, f8[::1])",
    cache=True,
    nogil=True,
)
def predict_members(
    X: Floats, W: Floats, Q: Floats, counters: Floats, constants: Floats, mixing: Floats, loss: Floats, span: Floats,
    scores: Floats, std: Floats,
) -> None:  # fmt: skip
    """Mixed scores (n, m) and deviations (n,), (0,) for classification, of n rows under the members' states."""
    K, none = W.shape[0], np.empty(0)
    for begin in range(0, X.shape[0], CHUNK_ROWS):
        end = begin + CHUNK_ROWS
        own_scores, own_std = scores[begin:end], std[begin:end]
        P, S = np.empty((K, *own_scores.shape)), np.empty((K, own_std.shape[0]))
        for k in range(K):
            kernels.predict_rows(X[begin:end], W[k], Q[k], counters[k], constants[k, 0], P[k], S[k])
        mix_rows(P, S, none, none, mixing, loss, counters[0, kernels.ROWS], span, own_scores, own_std)
