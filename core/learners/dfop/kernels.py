r"""DFOP, G-DFOP and RLS, the papers' equations, compiled: least squares over a stream with exponential forgetting.

After t rows the weights w of one output column are exactly the minimiser of

    sum_{i<=t} c_i (y_i - w'x_i)^2  +  c_0 |w|^2 / q0,        c_i = lam_{i+1} lam_{i+2} ... lam_t             (2)

    dfop    lam = 1 - mu, q0 = mu p0        mu: the forgetting rate (bank.py: "auto"), P_0 = p0 I            (3)
    gdfop   the same, but a row may bring its own lam_i in (0, 1]        arXiv: (11), Algorithm 2
    rls     lam = 1,      q0 = p0                                        (1) and a ridge

No row is stored. With Q = mu P, P the paper's (in the arXiv version's Algorithm 2 Q is P itself), R = Q^{-1} and
Q_0 = q0 I, each row does

    f_k = w_k'x                                         its a-priori prediction: Algorithm 1, lines 5 and 6
    q = Q x          g = x'q                            uncertainty of the row under the weights so far
    e_k = y_k - f_k                                     innovation of column k
    w_k <- w_k + q e_k / (lam + g)                      line 4; q / (lam + g) is mu P_t x
    Q <- (Q - q q' / (lam + g)) / lam                   line 3
    R <- lam R + x x'                                   the same in information form (arXiv: proof of (13))

A row of weight c counts c times in the sum, as c such rows would: its gain is c / (lam + c g) instead of 1 / (lam + g),
and R gets c x x'.

**Q and R.** R, a sum of squares, does not lose digits; Q does, so it is refreshed from R (core.numerics.linalg) at
every absolute row number divisible by 4096 (32 768 from 256 columns on), after every leak, when a row shows that
round-off has made Q indefinite: x'Qx < 0, or (e_i'Qx)^2 > 4 Q_ii x'Qx for a unit vector e_i, and after a row that
leaves 1e-8 of some Q_ii or less. The first rows of a large column do that: 1e8 takes q0 to 1e-16, and a difference
keeps no digit of that. So Q_ii > 0 always. Of R only the upper triangle is kept.

**Leak.** Where the rows say nothing about a direction, forgetting drives R to zero there and Q to infinity. So a little
is put back, with the weights unchanged, when the accumulated -ln(lam) since the last leak would pass 6.9 with one more
ordinary row. With c the product of the lam since then,

    R_jj += (1 - c) (1e-6 / mu) s_j     if s_j > 0, the winsorised mean of x_j^2 over all rows, undiscounted
    R_jj += (1 - c) / q0                else, which returns R_jj to its start

Winsorised: x_j^2 counts at most 1e4 s_j once s_j > 0. Without that cap one outlier of 1e8 would inflate s_j, and with
it the leak, for about 1e8 rows, and freeze the weight.

**Predictive deviation** (regression): sqrt(v (1 + g/lam)) with the default lam. The noise variance v is a weighted mean
of the rows' estimates e^2 / (1 + g/lam); a = 1/(1 + g/lam) is small for the first rows, which reveal the weights:

    A <- lam A + a,     v <- v + (a / A) (a e^2 - v),     v = 1 until the first row

**Any finite input.** Rows larger than 1e75 in x or y are scaled down as a whole, which is least squares with a smaller
weight. Innovations are held within 1e90, weights within 1e200, predictions within 1e300, s_j > 0 above 1e-60, q0 above
1e-60, and lam above 1e-3.

Nothing is allocated per row, and the GIL is released.

Source: Zhao, Wang, Xie, Guo, Zhou: Distribution-Free One-Pass Learning, IEEE TKDE 33(3), 2021: (1)-(3), Algorithm 1.
G-DFOP: the same authors' first version, arXiv:1706.02471: (11)-(13), Algorithm 2.

Deviations
- Predictions are a-priori, made before the row is learned; Algorithm 1 prints y-hat after the update, but the
  accuracies in the paper are a-priori.
- Algorithm 1 of the arXiv version lacks a mu before x'Px in the denominator, and diverges; the journal's is right.
- RLS is not Algorithm 1 with mu = 0, where nothing would move, but lam = 1 with Q_0 = p0 I.
- A bias column by default: without it accuracy on 1CDT falls from 99.9 to 75.1 %.
- The leak, the refresh and the limits above: the plain recursion overflows on uninformative rows.
- More than two classes, probabilities (core.learners.calibration), weights of rows and the predictive deviation are not
  in the paper.
"""

import math

import numpy as np
from numba import njit

from core.contract import Floats
from core.numerics.linalg import SMALL, small_inverse
from core.numerics.rows import (
    HELD,
    add_outers,
    dot,
    downdate,
    downdate_times,
    load,
    put,
    score,
    times_number,
    times_vector,
    within,
)

ROWS, FORGOTTEN, NOISE, EFFECTIVE_ROWS, DISCOUNT, STEP, LEAKED, FRESH = range(8)
"""Places in the counters: rows learned; -ln(discount) since the last leak; noise variance v; A, its total weight.
Then constants: the default lam and its -ln; the share of s_j that a leak puts back, 1e-6 / mu; 1 / q0."""

DONE, REFRESH, LEAK, SPOILED = range(4)  # why ``learn_rows`` returned

LEAK_AFTER = 6.9
LEAK_LIMIT = LEAK_AFTER * (1.0 + 1e-12)
"""Keeps the accumulated steps of a constant discount on the grid floor(6.9 / step) if the ratio is an integer."""
STATE_MAX = 1e200
PREDICTION_MAX = 1e300
MEAN_SQUARE_MIN = 1e-60
WINSOR = 1e4  # largest square of a row that counts, in multiples of the mean square so far
SPOILED_FACTOR = 4.0
TAKEN_MAX = 1.0 - 1e-8  # largest part of a diagonal element of Q that a row may take before Q is refreshed
DISCOUNT_MIN = 1e-3

_ROW_MAX = 1e75
_INNOVATION_MAX = 1e90
_NEGLIGIBLE = 1e-290


@njit(cache=True, nogil=True)
def faults(diagonal: Floats, q: Floats, g: float, most: float) -> tuple[bool, bool]:
    """Whether a row shows that round-off has made Q indefinite, and whether learning the row loses digits of Q.

    Indefinite: g < 0, or q_i^2 > 4 Q_ii g. A covariance has (e_i'Q x)^2 <= (e_i'Q e_i)(x'Q x). The factor 4 allows for
    round-off, and still bounds what one row can do to Q and to the weights.

    Lost: q_i^2 > most Q_ii. A row of weight c takes q_i^2 / (lam / c + g) of Q_ii; with (1 - 1e-8) (lam / c + g) as
    ``most``, a row that loses digits leaves 1e-8 of Q_ii or less, at most half of its digits. A separate pass for this
    would take a tenth of a row's time or more.
    """
    spoiled, lost = not 0.0 <= g < np.inf, False
    for i in range(q.shape[0]):
        square = q[i] * q[i]
        spoiled |= square > SPOILED_FACTOR * diagonal[i] * g + _NEGLIGIBLE
        lost |= square > most * diagonal[i]
    return spoiled, lost


@njit(cache=True, nogil=True)
def deviation(noise: float, g: float, lam: float, scale: float) -> float:
    """sqrt(v (1 + g / lam)) in the units of the row before it was scaled."""
    return min(math.sqrt(noise) * math.sqrt(1.0 + max(g, 0.0) / lam) / scale, PREDICTION_MAX)


@njit(cache=True, nogil=True)
def predict_rows(X: Floats, W: Floats, Q: Floats, counters: Floats, scores: Floats, std: Floats) -> None:
    """Write scores (n, m) and, if std is (n,) and not (0,), deviations of n rows under the current state."""
    x = np.empty(W.shape[1])
    q = np.empty(W.shape[1])
    for i in range(X.shape[0]):
        scale = load(X, i, x, _ROW_MAX)
        for k in range(scores.shape[1]):
            scores[i, k] = within(score(W, k, x) / scale, PREDICTION_MAX)
        if std.shape[0]:
            std[i] = deviation(counters[NOISE], times_vector(Q, x, q), counters[DISCOUNT], scale)


@njit(cache=True, nogil=True)
def leak(R: Floats, mean_square: Floats, counters: Floats) -> None:
    """Apply the leak: add a share of its mean square to each R_jj, or of 1 / q0 if the column was always zero."""
    size, fresh, returned = counters[LEAKED], counters[FRESH], -math.expm1(-counters[FORGOTTEN])  # 1 - c
    for j in range(mean_square.shape[0]):
        R[j, j] += returned * (size * max(mean_square[j], MEAN_SQUARE_MIN) if mean_square[j] > 0.0 else fresh)
    counters[FORGOTTEN] = 0.0


@njit(cache=True, nogil=True)
def target_of(label: float, k: int, columns: int) -> float:
    """Target of column k out of ``columns``, the last of which is that of a class not seen yet (constant -1)."""
    if k == columns - 1:
        return -1.0
    if columns == 2:
        return 1.0 if label == 1.0 else -1.0
    return 1.0 if label == k else -1.0


@njit(cache=True, nogil=True)
def _step_weights(W: Floats, k: int, q: Floats, gain: float) -> None:
    """w_k <- w_k + gain q, held within the largest weight."""
    for j in range(q.shape[0]):
        w = W[k, j] + q[j] * gain
        w = STATE_MAX if w > STATE_MAX else w
        W[k, j] = -STATE_MAX if w < -STATE_MAX else w


@njit(cache=True, nogil=True)
def absorb_noise(counters: Floats, e: float, lam: float, share: float, weight: float) -> None:
    """A <- lam A + c a, v <- v + (c a / A) (a e^2 - v) with a = lam / (lam + g), c the weight of the row."""
    counters[EFFECTIVE_ROWS] = lam * counters[EFFECTIVE_ROWS] + weight * share
    if counters[EFFECTIVE_ROWS] > 0.0:
        counters[NOISE] += weight * share / counters[EFFECTIVE_ROWS] * (share * e * e - counters[NOISE])


@njit(cache=True, nogil=True)
def absorb_squares(mean_square: Floats, x: Floats, newest: float) -> None:
    """Update the winsorised mean squares with row x, whose share in them is ``newest``: 1 / (rows with this one)."""
    for j in range(x.shape[0]):
        square, known = x[j] * x[j], mean_square[j]
        most = WINSOR * max(known, MEAN_SQUARE_MIN) if known > 0.0 else square
        mean_square[j] = known + (min(square, most) - known) * newest


@njit(cache=True, nogil=True)
def _gather(Q: Floats, diagonal: Floats) -> None:
    """Copy the diagonal of Q into one array: a stride of D would cost a cache line per element."""
    for j in range(diagonal.shape[0]):
        diagonal[j] = Q[j, j]


GivenRows = tuple[Floats, Floats, Floats, Floats]
"""X (n, d); y (n,), numbers or class indices as floats; discounts (n,), or (0,) for the default; weights (n,), or (0,):
every row counts once."""
MemberState = tuple[Floats, Floats, Floats, Floats, Floats]
"""W (columns, D), Q (D, D), R (D, D), of which only the upper triangle is read, mean_square (D,), counters (8,)."""
Forecasts = tuple[Floats, Floats]
"""Scores (n, m), and deviations (n,), or (0,) for classification."""
Scratch = tuple[Floats, Floats, Floats, Floats]
"""What a row needs room for: vectors (SCRATCH, at least D), a number per output (columns,), held rows (HELD, D), and
their discounts (HELD,)."""
SCRATCH = 5


@njit(cache=True, nogil=True)
def learn_rows(  # noqa: PLR0915 - one pass over the rows: parts of it would have to pass all of its state around
    rows: GivenRows,
    state: MemberState,
    predicted: Forecasts,
    refresh_rows: int,
    start: int,
    refreshed: bool,
    scratch: Scratch,
) -> tuple[int, int]:
    """Test, then train on rows start, start + 1, ... until Q must be refreshed.

    This happens at row numbers divisible by ``refresh_rows``, a power of two. State and scratch are updated, and the
    a-priori predictions are written. ``refreshed``: whether Q has just been refreshed because row ``start`` found it
    spoiled.

    Returns the next row, and DONE, REFRESH (do that and come back), LEAK (leak, then refresh) or SPOILED (refresh, and
    come back with ``refreshed``). Up to 32 columns the work of REFRESH and LEAK is done here.
    """
    X, y, discounts, weights = rows
    W, Q, R, mean_square, counters = state
    scores, std = predicted
    lam0, step0 = counters[DISCOUNT], counters[STEP]
    columns, D = W.shape
    stop = X.shape[0]
    regression = std.shape[0] > 0
    (vectors, f, held, lams), count = scratch, 0
    x, q, diagonal = vectors[0, :D], vectors[1, :D], vectors[2, :D]
    coming, ahead = vectors[3, :D], vectors[4, :D]  # the next row's x and Q x, which this row's downdate also computes
    lam, step, inverse = lam0, step0, 1.0 / lam0
    scale = load(X, start, x, _ROW_MAX) if start < stop else 1.0
    g = times_vector(Q, x, q) if start < stop else 0.0
    _gather(Q, diagonal)
    for i in range(start, stop):
        if discounts.shape[0]:
            lam = max(discounts[i], DISCOUNT_MIN)  # (2), arXiv Algorithm 2; else (3)
            step, inverse = -math.log(lam), 1.0 / lam
        weight = weights[i] if weights.shape[0] else 1.0
        for k in range(columns):
            f[k] = score(W, k, x)  # Algorithm 1, lines 5 and 6: a-priori
        spoiled, lost = faults(diagonal, q, g, TAKEN_MAX * (lam / weight + g))
        if not (refreshed and i == start):
            for k in range(scores.shape[1]):
                scores[i, k] = within(f[k] / scale, PREDICTION_MAX)
            if regression:
                std[i] = deviation(counters[NOISE], g, lam0, scale)
            if spoiled:
                add_outers(R, held, lams, count)
                return i, SPOILED
        elif spoiled:  # even the fresh inverse sees nothing new in this row: its gain is zero
            g, lost = 0.0, False
            q[:] = 0.0

        if regression and abs(y[i] * scale) > _ROW_MAX:
            shrink = _ROW_MAX / abs(y[i] * scale)
            scale *= shrink
            g *= shrink * shrink
            f[0] *= shrink
            times_number(x, shrink)
            times_number(q, shrink)
        share = weight / (lam + weight * g)
        for k in range(columns):
            target = y[i] if regression else target_of(y[i], k, columns)
            e = within(target * scale - f[k], _INNOVATION_MAX)
            _step_weights(W, k, q, e * share)  # Algorithm 1, line 4
            if regression:
                absorb_noise(counters, e, lam, lam * (1.0 / (lam + g)), weight)

        counters[ROWS] += 1.0
        counters[FORGOTTEN] += step
        absorb_squares(mean_square, x, 1.0 / counters[ROWS])
        put(x, held[count])
        if weight != 1.0:
            times_number(held[count], math.sqrt(weight))
        lams[count] = lam
        count += 1
        leaks = counters[FORGOTTEN] + step0 > LEAK_LIMIT
        due = leaks or lost or int(counters[ROWS]) & (refresh_rows - 1) == 0
        if due or count == HELD:
            add_outers(R, held, lams, count)
            count = 0
        if due and D > SMALL:
            return i + 1, LEAK if leaks else REFRESH
        if due:
            if leaks:
                leak(R, mean_square, counters)
            exact = small_inverse(R)
            for k in range(D):
                put(exact[k], Q[k])
            if i + 1 < stop:
                scale = load(X, i + 1, x, _ROW_MAX)
                g = times_vector(Q, x, q)
                _gather(Q, diagonal)
            continue
        times_number(q, math.sqrt(share * inverse))  # Algorithm 1, line 3: Q <- Q / lam - q q'
        if i + 1 == stop:
            downdate(Q, q, inverse)
        else:
            scale = load(X, i + 1, coming, _ROW_MAX)
            downdate_times(Q, q, inverse, coming, ahead, diagonal)
            put(coming, x)
            put(ahead, q)
            g = dot(x, q)
    add_outers(R, held, lams, count)
    return stop, DONE
