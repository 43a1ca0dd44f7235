r"""DFOP with ``forgetting_rate: "auto"``, compiled: RLS and DFOPs of many rates, mixed by how well they predict.

    members k = 1 ... K     discount 1 (RLS); mu = 1e-4, 3e-4, .001, .003, .01, .03, .1, .3, .5 where mu D <= 30
    p_k                     a-priori scores of member k; within +-1.5 for classes, whose targets are +-1; for regression
                            held near the range [a, b] of the labels so far (core.features.label_range)
    o = sum_k a_k p_k       the mixed score; a = v for classes, for regression the shares of v (core.numerics.weighting)
    l_k = |p_k - y|^2       mean over the columns; y the row's targets
    v                       exponential weights with eta = 1 / (2 D), which is Bayes' rule for normal errors of variance
                            D, the loss to expect; fixed share .001
    two classes             eta = 1 and l_k = ln(1 + exp(-2 a y p_k)), a the slope of the probabilities before the row

A row of weight c, relative to the largest recent one, counts c times: eta and r, the rate of D, are multiplied by c.

One set of weights serves all classes. Class and probabilities follow from the mixed scores (core.learners.calibration).

**Why two classes use log loss.** If one of them is rare, D is small, and a single row of it would move the weights to
whichever member had the largest score. On 28 streams of two classes log loss is as good or better (accuracy +.12
points, and where one class has 4 % of the rows or less, the area under the ROC curve +.04); for more classes it is not.

**Labels that come late.** A tracked row is learned with the p_k of the moment when it was predicted, for o and l_k. By
then a member with a short window did not know the latest labels; when the label comes, it may know labels of rows near
this one. Members themselves learn the row like any other.

**Why p_k is clipped.** A member with a short window sometimes predicts far outside everything seen; even a small weight
times a huge number is a huge error.

**Outliers among labels** (regression, from row 2 on). A label far outside [a, b] moves that end by one width only
(core.features.label_range), and |o - y|^2 counts at most as 100 D in the D of later rows. From row 3 on, the range
bounds D.

**Predictive deviation** (regression): sqrt(sum_k a_k (std_k^2 + (p_k - o)^2)), with std_k at most 3 (b - a).

**Any finite input.** The members are safe (kernels.py); differences and deviations are held within 1e150 before they
are squared, and D above 1e-300.

Source: members: Zhao, Wang, Xie, Guo, Zhou: Distribution-Free One-Pass Learning, IEEE TKDE 33(3), 2021.

Deviations
- The paper gives one rate per data set and mixes none.
"""

import math

import numpy as np
from numba import njit

from core.contract import CLASSES, CUBE, NUMBERS_IN, ROWS_IN, TABLE, VECTOR, Floats, Ints, direct
from core.features.label_range import SPAN_ROWS, WIDTH_ROWS, error_max, held, widen
from core.learners.calibration import SIZE as CALIBRATION_SIZE
from core.learners.calibration import classify_rows
from core.learners.dfop import kernels
from core.learners.dfop.kernels import ROWS, SCRATCH, MemberState
from core.numerics.rows import HELD, eighths
from core.numerics.weighting import bounded_square, deviation, expect, relative, take_shares, weigh_and_share

MEMBERS, COLUMNS, OUTPUTS, REGRESSION, REFRESH_ROWS, LOSS, HEAVIEST = 0, 1, 2, 3, 4, 5, 6
SPAN = 7
CALIBRATED = SPAN + 2
MIXING = CALIBRATED + CALIBRATION_SIZE
"""Where in the numbers of a bank its parts begin: K; D; m, the columns that predict; whether numbers are learned; rows
between two refreshes; the loss D to expect; the largest recent weight; least and largest label of a regression; the
calibration of probabilities; the weights v. Then come the members, each with its counters, mean_square, Q, R and W."""
CHUNK_ROWS = 1024  # rows whose member predictions are held at once; chunks end at absolute row numbers, as blocks do
SCORE_MAX = 1.5
DEVIATION_MAX = 3.0  # largest deviation, in widths of the range of the labels

_WINSOR = 100.0  # largest squared error of a row in the D of later ones, in multiples of D

_GIVEN = f"{NUMBERS_IN}, {NUMBERS_IN}"  # one type for rows with and without labels, so that kernels compile once
_ROWS, _SAID = f"{ROWS_IN}, {NUMBERS_IN}, {NUMBERS_IN}, {NUMBERS_IN}", f"{CLASSES}, {TABLE}"


@njit(cache=True, nogil=True)
def _member(bank: Floats, k: int) -> MemberState:
    """The state of member k."""
    K, D = int(bank[MEMBERS]), int(bank[COLUMNS])
    columns, first, square = int(bank[OUTPUTS] + 1.0 - bank[REGRESSION]), eighths(MIXING + K), D * D
    counters = first + k * ((bank.shape[0] - first) // K)
    squares = counters + 8
    Q = squares + eighths(D)
    R = Q + eighths(square)
    W = R + eighths(square)
    return (
        bank[W : W + columns * D].reshape(columns, D),
        bank[Q : Q + square].reshape(D, D),
        bank[R : R + square].reshape(D, D),
        bank[squares : squares + D],
        bank[counters:squares],
    )


@njit("void(f8[::1], i8)", cache=True, nogil=True)
def leak(bank: Floats, k: int) -> None:
    """Apply the leak to member k."""
    _, _, R, mean_square, counters = _member(bank, k)
    kernels.leak(R, mean_square, counters)


@njit(f"Tuple(({CUBE}, {TABLE}))({VECTOR}, {VECTOR}, {TABLE}, i8)", cache=True, nogil=True)
def predicted_by_members(bank: Floats, scores: Floats, out: Floats, n: int) -> tuple[Floats, Floats]:
    """Room for the members' scores (K, n, m) and deviations (K, n), or (K, 0), of n rows.

    ``scores`` has room for all of them. A regression with a single member does not need it and writes into ``out``
    (2, n), since its scores and deviations are those of the bank.
    """
    K, m = int(bank[MEMBERS]), int(bank[OUTPUTS])
    if K == 1 and bank[REGRESSION]:
        return out[:1].reshape(1, n, 1), out[1:]
    end = K * n * m
    return scores[:end].reshape(K, n, m), scores[end:].reshape(K, n * int(bank[REGRESSION]))


@njit(cache=True, nogil=True)
def _clip_row(P: Floats, S: Floats, i: int, rows: float, span: Floats, regression: bool) -> None:
    """Clip the members' scores and deviations of a row, in place; ``rows``: the number learned before it."""
    for k in range(P.shape[0]):
        for j in range(P.shape[2]):
            p = P[k, i, j]
            P[k, i, j] = held(p, span[0], span[1], rows) if regression else min(max(p, -SCORE_MAX), SCORE_MAX)
        if regression and rows >= SPAN_ROWS:
            S[k, i] = min(S[k, i], DEVIATION_MAX * (span[1] - span[0]))


@njit(f"void({VECTOR}, {_GIVEN}, {CUBE}, {TABLE}, f8, {TABLE}, {VECTOR}, {_SAID})", cache=True, nogil=True)
def _mix_rows(
    bank: Floats, y: Floats, weights: Floats, P: Floats, S: Floats, rows: float, scores: Floats, std: Floats,
    value: Ints, out: Floats,
) -> None:  # fmt: skip
    """Mix the predictions of n rows; with labels, each row then moves the weights and, for classes, the slope.

    y (n,), weights (n,)    numbers, or class indices, and weights of rows; (0,): nothing is learned; all count once
    P (K, n, m), S (K, n)   the members' scores and deviations, clipped in place; S is (K, 0) for classification
    rows                    the number learned before
    scores (n, m), std      of the mixture, written; std is (n,), or (0,) for classification
    value, out              see ``classify_rows``; written for classification
    """
    K, n, m = P.shape
    regression = std.shape[0] > 0
    span, mixing = bank[SPAN:CALIBRATED], bank[MIXING : MIXING + K]
    losses, numbers, variances = np.empty(K), np.empty(K), np.empty(K)
    shares = np.empty(K) if regression else mixing
    for i in range(n):
        _clip_row(P, S, i, rows, span, regression)
        if regression:
            take_shares(mixing, shares)
        for j in range(m):
            o = 0.0
            for k in range(K):
                o += shares[k] * P[k, i, j]
            scores[i, j] = o
        if regression:
            for k in range(K):
                numbers[k], variances[k] = P[k, i, 0], bounded_square(S[k, i])
            std[i] = deviation(shares, variances, numbers, scores[i, 0])
        if y.shape[0]:
            mixed = 0.0
            losses[:] = 0.0
            for j in range(m):
                target = y[i] if regression else kernels.target_of(y[i], j, m + 1)
                mixed += bounded_square(scores[i, j] - target) / m
                for k in range(K):
                    losses[k] += bounded_square(P[k, i, j] - target) / m
            weight = relative(weights[i] if weights.shape[0] else 1.0, bank, HEAVIEST)
            loss = min(bank[LOSS], error_max(span[0], span[1], rows)) if regression else bank[LOSS]
            most = _WINSOR if regression and rows >= WIDTH_ROWS else np.inf
            expected, bank[LOSS], _ = expect(loss, mixed, weight, rows, most)
            eta = 0.5 * weight / expected
            if m == 1 and not regression:
                eta = weight
                for k in range(K):
                    own = P[k, i, 0] if y[i] == 1.0 else -P[k, i, 0]
                    losses[k] = math.log1p(math.exp(-2.0 * bank[CALIBRATED] * own))
            weigh_and_share(mixing, losses, losses.min(), eta)
            if regression:
                widen(span, y[i], rows)
            rows += 1.0
        if not regression:
            one = slice(i, i + 1)
            classify_rows(scores[one], y[one], weights[one], bank[CALIBRATED:MIXING], value[one], out[one])


@njit(f"void({VECTOR}, {_GIVEN}, {ROWS_IN}, {CUBE}, {TABLE}, {_SAID})", cache=True, nogil=True)
def _combine(
    bank: Floats, y: Floats, weights: Floats, told: Floats, P: Floats, S: Floats, value: Ints, out: Floats
) -> None:
    """Write the bank's predictions of n rows from its members' P (K, n, m) and S; learn labels y, if not (0,)."""
    K, n, m = P.shape
    if K == 1 and bank[REGRESSION]:
        return
    if told.shape[0] == n and told.shape[1] == 1 + K * m:
        for i in range(n):
            for k in range(0 if math.isnan(told[i, 1]) else K):
                P[k, i] = told[i, 1 + k * m : 1 + (k + 1) * m]
    if not bank[REGRESSION]:
        scores = np.empty(P.shape[1:]) if P.shape[0] > 1 else P[0]
        std = out[0, :0]
    else:
        scores, std = out[:1].reshape(P.shape[1:]), out[1]
    if P.shape[0] > 1:
        _mix_rows(bank, y, weights, P, S, _member(bank, 0)[-1][ROWS] - y.shape[0], scores, std, value, out)
    elif not bank[REGRESSION]:
        classify_rows(scores, y, weights, bank[CALIBRATED:MIXING], value, out)


@direct(f"UniTuple(i8, 3)({VECTOR}, {_ROWS}, {ROWS_IN}, {VECTOR}, {_SAID}, i8, i8, b1, b1)")
def learn_rows(
    bank: Floats, X: Floats, y: Floats, discounts: Floats, weights: Floats, told: Floats, scores: Floats, value: Ints,
    out: Floats, member: int, row: int, refreshed: bool, only: bool,
) -> tuple[int, int, int]:  # fmt: skip
    """Test, then train on n rows, until a member must be refreshed.

        X, y, discounts, weights    ``core.learners.dfop.kernels.GivenRows``
        told                        (n, 1 + K m), from its second column on what the members predicted when rows were
                                    tracked, NaN for rows that were not; of another shape: nothing is known
        scores                      room for what the members predict (``predicted_by_members``)
        value, out                 see ``core.learners.learner.RowLearner.run_rows``; written
        member, row                 the member to begin with, and its next row; later members begin at the first row;
                                    K: all members have learned all rows
        refreshed                   whether that member has just been refreshed because this row found it spoiled
        only                        whether only this member learns, and nothing is mixed

    Returns a member, its next row and why it must be refreshed before that: REFRESH, LEAK or SPOILED; then call again
    from there, with ``refreshed`` after SPOILED. DONE: all members have learned all rows.
    """
    K, D, m, n = int(bank[MEMBERS]), int(bank[COLUMNS]), int(bank[OUTPUTS]), X.shape[0]
    P, S = predicted_by_members(bank, scores, out, n)
    rows, vectors = (X, y, discounts, weights), np.empty((SCRATCH, eighths(D)))
    scratch = vectors, np.empty(m + 1), np.empty((HELD, D)), np.empty(HELD)
    for k in range(member, member + 1 if only else K):
        if row < n:
            predicted, refresh_rows = (P[k], S[k]), int(bank[REFRESH_ROWS])
            row, reason = kernels.learn_rows(rows, _member(bank, k), predicted, refresh_rows, row, refreshed, scratch)
            if reason != kernels.DONE:
                return k, row, reason
        row, refreshed = 0, False
    if not only:
        _combine(bank, y, weights, told, P, S, value, out)
    return K, 0, kernels.DONE


@direct(f"void({VECTOR}, {ROWS_IN}, {VECTOR}, {_SAID})")
def predict_rows(bank: Floats, X: Floats, scores: Floats, value: Ints, out: Floats) -> None:
    """Write the predictions of n rows under the members' states, and of the members, as ``learn_rows`` does."""
    none, none_told = np.empty(0), np.empty((0, 0))
    P, S = predicted_by_members(bank, scores, out, X.shape[0])
    for k in range(P.shape[0]):
        W, Q, _, _, counters = _member(bank, k)
        kernels.predict_rows(X, W, Q, counters, P[k], S[k])
    _combine(bank, none, none, none_told, P, S, value, out)
