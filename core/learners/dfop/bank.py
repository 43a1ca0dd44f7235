r"""DFOP with ``forgetting_rate: "auto"``, compiled: RLS and DFOPs of many rates, mixed by how well they predict.

    members k = 1 ... K     discount 1 (RLS); mu = 1e-4, 3e-4, .001, .003, .01, .03, .1, .3, .5 where mu D <= 30
    p_k                     a-priori scores of member k; within +-1.5 for classes, whose targets are +-1; for regression
                            within the range [a, b] of the labels so far and a tenth of it beyond (from row 20 on)
    o = sum_k v_k p_k       the mixed score
    l_k = |p_k - y|^2       mean over the columns; y the row's targets
    v                       exponential weights with eta = 1 / (2 D), which is Bayes under normal errors of variance D,
                            the loss to expect; fixed share .001 (core.numerics.weighting)

A row of weight c counts c times: eta is multiplied by c, and r, the rate of D, by c up to 1.

One set of weights serves all classes. Class and probabilities are those of core.learners.dfop.learner for the mixed
scores.

**Why p_k is clipped.** A member with a short window sometimes predicts far outside everything seen; even a small weight
times a huge number is a huge error.

**Outliers among labels** (regression, from row 20 on). A label far outside [a, b] moves that end by one width only
(core.features.label_range), and |o - y|^2 is winsorised in the D of later rows.

**Predictive deviation** (regression): sqrt(sum_k v_k (std_k^2 + (p_k - o)^2)), with std_k at most 3 (b - a).

**Any finite input.** The members are safe (kernels.py); differences and deviations are held within 1e150 before they
are squared, and D above 1e-300.

Source: members: Zhao, Wang, Xie, Guo, Zhou: Distribution-Free One-Pass Learning, IEEE TKDE 33(3), 2021.

Deviations
- The paper gives one rate per data set and mixes none.
"""

import numpy as np
from numba import njit

from core.contract import Floats, Ints
from core.features.label_range import SPAN_ROWS, held, widen
from core.learners.calibration import classify_rows
from core.learners.dfop import kernels
from core.learners.dfop.kernels import ROWS, SCRATCH, State
from core.numerics.rows import HELD
from core.numerics.weighting import bounded_square, deviation, expect, weigh_and_share

MEMBERS, COLUMNS, OUTPUTS, REGRESSION, REFRESH_ROWS, LOSS, SPAN, CALIBRATED, MIXING = 0, 1, 2, 3, 4, 5, 6, 8, 10
"""Where in the numbers of a bank its parts begin: K; D; m, the columns that predict; whether numbers are learned; rows
between two refreshes; the loss D to expect; least and largest label of a regression; slope and curvature of the
probabilities; the weights v. Behind these come the members, each with its counters, mean_square, Q, R and W."""
CHUNK_ROWS = 1024
"""Rows whose member predictions are held at once; chunks end at absolute row numbers, as blocks do."""
SCORE_MAX = 1.5
DEVIATION_MAX = 3.0
"""Widths of the range of the labels that a deviation may have."""

_ROWS_IN = "Array(f8, 2, 'C', readonly=True)"
_VECTOR_IN = "Array(f8, 1, 'C', readonly=True)"


@njit(cache=True, nogil=True)
def _member(bank: Floats, k: int) -> State:
    """The state of member k."""
    K, D = int(bank[MEMBERS]), int(bank[COLUMNS])
    size, square = (bank.shape[0] - MIXING - K) // K, D * D
    begin = MIXING + K + k * size
    Q, R, W, end = begin + 8 + D, begin + 8 + D + square, begin + 8 + D + 2 * square, begin + size
    matrices = bank[W:end].reshape((end - W) // D, D), bank[Q:R].reshape(D, D), bank[R:W].reshape(D, D)
    return (*matrices, bank[begin + 8 : Q], bank[begin : begin + 8])


@njit("void(f8[::1], i8)", cache=True, nogil=True)
def leak(bank: Floats, k: int) -> None:
    """The leak of member k."""
    _, _, R, mean_square, counters = _member(bank, k)
    kernels.leak(R, mean_square, counters)


@njit(cache=True, nogil=True)
def predicted_by_members(bank: Floats, told: Floats, n: int) -> tuple[Floats, Floats]:
    """Where the scores (K, n, m) and deviations (K, n), or (K, 0), of the members are among all that is predicted.

    In ``told`` the mixture's come first, its deviations behind its scores; those of a single member are the mixture's.
    """
    K, m, deviations = int(bank[MEMBERS]), int(bank[OUTPUTS]), n * int(bank[REGRESSION])
    begin = n * m + deviations if K > 1 else 0
    end = begin + K * n * m
    return told[begin:end].reshape(K, n, m), told[end : end + K * deviations].reshape(K, deviations)


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


@njit(f"void(f8[::1], {_VECTOR_IN}, {_VECTOR_IN}, f8[:,:,::1], f8[:,::1], f8, f8[::1])", cache=True, nogil=True)
def _mix_rows(bank: Floats, y: Floats, weights: Floats, P: Floats, S: Floats, rows: float, told: Floats) -> None:
    """Mix the predictions of n rows; where they have labels, each then moves the weights.

    Args:
        bank: see MEMBERS and the others; the mixture's numbers are updated.
        y: (n,) numbers, or class indices; (0,): nothing is learned.
        weights: (n,) of the rows, or (0,): every row counts once.
        P: (K, n, m) the members' scores, clipped in place.
        S: (K, n) their deviations, clipped in place; (K, 0) for classification.
        rows: learned before.
        told: mixed scores (n m,) and deviations (n,), written.
    """
    K, n, m = P.shape
    regression = S.shape[1] > 0
    span, mixing = bank[SPAN:CALIBRATED], bank[MIXING : MIXING + K]
    scores, losses, numbers, variances = told[: n * m].reshape(n, m), np.empty(K), np.empty(K), np.empty(K)
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
            told[n + i] = deviation(mixing, variances, numbers, scores[i, 0])
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
        expected, bank[LOSS], _ = expect(bank[LOSS], mixed, weight, rows, regression and rows >= SPAN_ROWS)
        weigh_and_share(mixing, losses, losses.min(), 0.5 * weight / expected)
        if regression:
            widen(span, y[i], rows)
        rows += 1.0


@njit(
    f"UniTuple(i8, 3)(f8[::1], {_ROWS_IN}, {_VECTOR_IN}, {_VECTOR_IN}, {_VECTOR_IN}, f8[::1], i8[::1], f8[:,::1], "
    "i8, i8, b1, b1)",
    cache=True,
    nogil=True,
)
def learn_rows(
    bank: Floats, X: Floats, y: Floats, discounts: Floats, weights: Floats, told: Floats, value: Ints, p: Floats,
    member: int, row: int, refreshed: bool, only: bool,
) -> tuple[int, int, int]:  # fmt: skip
    """Test, then train on n rows, until a member must be refreshed.

    Args:
        bank: see MEMBERS and the others; updated.
        X: (n, d) rows; they and the three that follow are ``core.learners.dfop.kernels.Rows``.
        y: numbers, or class indices.
        discounts: of the rows.
        weights: of the rows.
        told: a-priori scores (n m,) and, of a regression, deviations (n,), written; behind them room for those of the
            members (``predicted_by_members``).
        value: (n,) the classes, written; (0,) for regression.
        p: (n, classes) their probabilities, written; (0, 0) for regression.
        member: the member to begin with, at ``row``; those after it begin at the first row. K: all have learned all.
        row: see ``member``.
        refreshed: whether that member has just been refreshed because this row found it spoiled.
        only: whether it alone learns, and nothing is mixed.

    Returns:
        A member, its next row and why it must be refreshed before that: REFRESH, LEAK or SPOILED; then call again from
        there, after SPOILED with ``refreshed``. DONE, where all members have learned all rows.
    """
    K, D, m, n = int(bank[MEMBERS]), int(bank[COLUMNS]), int(bank[OUTPUTS]), X.shape[0]
    P, S = predicted_by_members(bank, told, n)
    rows, scratch = (X, y, discounts, weights), (np.empty((SCRATCH, D)), np.empty(m + 1), np.empty(HELD))
    for k in range(member, member + 1 if only else K):
        if row < n:
            predicted, refresh_rows = (P[k], S[k]), int(bank[REFRESH_ROWS])
            row, reason = kernels.learn_rows(rows, _member(bank, k), predicted, refresh_rows, row, refreshed, scratch)
            if reason != kernels.DONE:
                return k, row, reason
        row, refreshed = 0, False
    if K > 1 and not only:
        _mix_rows(bank, y, weights, P, S, _member(bank, 0)[-1][ROWS] - n, told)
    if p.shape[0]:
        classify_rows(told[: n * m].reshape(n, m), y, weights, bank[CALIBRATED:MIXING], value, p)
    return K, 0, kernels.DONE


@njit(f"void(f8[::1], {_ROWS_IN}, f8[::1], i8[::1], f8[:,::1])", cache=True, nogil=True)
def predict_rows(bank: Floats, X: Floats, told: Floats, value: Ints, p: Floats) -> None:
    """The predictions of n rows under the members' states, written as by ``learn_rows``."""
    K, m, n, none = int(bank[MEMBERS]), int(bank[OUTPUTS]), X.shape[0], np.empty(0)
    P, S = predicted_by_members(bank, told, n)
    for k in range(K):
        W, Q, _, _, counters = _member(bank, k)
        kernels.predict_rows(X, W, Q, counters, P[k], S[k])
    if K > 1:
        _mix_rows(bank, none, none, P, S, _member(bank, 0)[-1][ROWS], told)
    if p.shape[0]:
        classify_rows(told[: n * m].reshape(n, m), none, none, bank[CALIBRATED:MIXING], value, p)
