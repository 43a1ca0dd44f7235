"""The row recursion of DFOP, compiled: everything that happens once per row (the equations are in learner.py).

All compiled code of the row update is in this one file, because Numba's cache watches only the file of the function
it compiled: a helper changed elsewhere leaves an old kernel running. The one exception is ``small_inverse`` of
core.numerics.linalg (a test compares the bits; `make` compiles its callers again). Sums are taken in one fixed
order, without fast-math, so predict and learn, several rows and one, and two replicas give the same bits. Nothing is
allocated per row, and the GIL is released.

    x  the row with its bias, scaled down if it is larger than 1e75        W (columns, D)
    q = Q x,   g = x'q                                                     Q, R (D, D) exactly symmetric
    f_k = w_k'x                                                            mean_square (D,), counters (4,)
"""

import math

import numpy as np
from numba import njit

from core.contract import Floats
from core.numerics.linalg import SMALL, small_inverse

ROWS, FORGOTTEN, NOISE, EFFECTIVE_ROWS = range(4)
"""Places in the counters: rows learned; -ln(discount) since the last leak; noise variance v; A, the votes behind it."""

DONE, REFRESH, LEAK, SPOILED = range(4)
"""Why ``learn_rows`` came back."""

LEAK_AFTER = 6.9
LEAK_LIMIT = LEAK_AFTER * (1.0 + 1e-12)
"""Keeps the accumulated steps of a constant discount on the grid floor(6.9 / step) where the ratio is an integer."""
HELD = 8
"""Rows held back before they are added to R together."""
STATE_MAX = 1e200
PREDICTION_MAX = 1e300
MEAN_SQUARE_MIN = 1e-60
WINSOR = 1e4
"""Times the mean square so far that the square of one row counts at most."""
SPOILED_FACTOR = 4.0
DISCOUNT_MIN = 1e-3

_ROW_MAX = 1e75
_INNOVATION_MAX = 1e90
_NEGLIGIBLE = 1e-290

_ROWS_IN = "Array(f8, 2, 'C', readonly=True)"
_VECTOR_IN = "Array(f8, 1, 'C', readonly=True)"
_MATRIX, _VECTOR = "f8[:,::1]", "f8[::1]"


@njit(cache=True, nogil=True)
def _load(X: Floats, i: int, x: Floats) -> float:
    """Row i of X (n, d) into x (D,) with its bias; scaled to at most 1e75. Returns the scale."""
    d = X.shape[1]
    large = False
    for j in range(d):
        x[j] = X[i, j]
        large |= abs(x[j]) > _ROW_MAX
    for j in range(d, x.shape[0]):
        x[j] = 1.0
    if not large:
        return 1.0
    scale = float(_ROW_MAX / np.max(np.abs(x)))
    x *= scale
    return scale


@njit(cache=True, nogil=True)
def _dot(a: Floats, b: Floats) -> float:
    """Inner product a'b in one fixed order of summation (four interleaved partial sums)."""
    s0 = s1 = s2 = s3 = 0.0
    m = a.shape[0] // 4 * 4
    for j in range(0, m, 4):
        s0 += a[j] * b[j]
        s1 += a[j + 1] * b[j + 1]
        s2 += a[j + 2] * b[j + 2]
        s3 += a[j + 3] * b[j + 3]
    for j in range(m, a.shape[0]):
        s0 += a[j] * b[j]
    return (s0 + s1) + (s2 + s3)


@njit(cache=True, nogil=True)
def _score(W: Floats, k: int, x: Floats) -> float:
    """w_k'x in the order of ``_dot``; by index, because a view of a row costs more than a short sum."""
    s0 = s1 = s2 = s3 = 0.0
    m = x.shape[0] // 4 * 4
    for j in range(0, m, 4):
        s0 += W[k, j] * x[j]
        s1 += W[k, j + 1] * x[j + 1]
        s2 += W[k, j + 2] * x[j + 2]
        s3 += W[k, j + 3] * x[j + 3]
    for j in range(m, x.shape[0]):
        s0 += W[k, j] * x[j]
    return (s0 + s1) + (s2 + s3)


@njit(cache=True, nogil=True)
def _times(Q: Floats, x: Floats, q: Floats) -> float:
    """Write q = Q x for a symmetric Q (D, D), summed row by row; return g = x'q."""
    D = x.shape[0]
    for i in range(D):
        q[i] = Q[0, i] * x[0]
    for j in range(1, D):
        xj = x[j]
        for i in range(D):
            q[i] += Q[j, i] * xj
    return _dot(x, q)


@njit(cache=True, nogil=True)
def _spoiled(diagonal: Floats, q: Floats, g: float) -> bool:
    """Whether round-off has made Q indefinite where this row looks: g < 0, or q_i^2 > 4 Q_ii g.

    A covariance has (e_i'Q x)^2 <= (e_i'Q e_i)(x'Q x). The factor 4 leaves round-off its due, and still bounds what one
    row can do to Q and to the weights.
    """
    spoiled = not 0.0 <= g < np.inf
    for i in range(q.shape[0]):
        spoiled |= q[i] * q[i] > SPOILED_FACTOR * diagonal[i] * g + _NEGLIGIBLE
    return spoiled


@njit(cache=True, nogil=True)
def _bounded(value: float, limit: float) -> float:
    """Value within +-limit."""
    return min(max(value, -limit), limit)


@njit(cache=True, nogil=True)
def _deviation(noise: float, g: float, lam: float, scale: float) -> float:
    """sqrt(v (1 + g / lam)) in the units of the row before it was scaled."""
    return min(math.sqrt(noise) * math.sqrt(1.0 + max(g, 0.0) / lam) / scale, PREDICTION_MAX)


@njit(f"void({_ROWS_IN}, {_MATRIX}, {_MATRIX}, {_VECTOR}, f8, {_MATRIX}, {_VECTOR})", cache=True, nogil=True)
def predict_rows(X: Floats, W: Floats, Q: Floats, counters: Floats, lam: float, scores: Floats, std: Floats) -> None:
    """Scores (n, m) and, where std is (n,) and not (0,), deviations of n rows under the state as it is."""
    x = np.empty(W.shape[1])
    q = np.empty(W.shape[1])
    for i in range(X.shape[0]):
        scale = _load(X, i, x)
        for k in range(scores.shape[1]):
            scores[i, k] = _bounded(_score(W, k, x) / scale, PREDICTION_MAX)
        if std.shape[0]:
            std[i] = _deviation(counters[NOISE], _times(Q, x, q), lam, scale)


@njit(cache=True, nogil=True)
def _scale(q: Floats, factor: float) -> None:
    """Scale q by a factor, in place."""
    for i in range(q.shape[0]):
        q[i] *= factor


@njit(cache=True, nogil=True)
def _downdate(Q: Floats, q: Floats, share: float) -> None:
    """Q <- Q share - q q', exactly symmetric."""
    D = q.shape[0]
    for i in range(D):
        qi = -q[i]
        for j in range(D):
            Q[i, j] = Q[i, j] * share + qi * q[j]


@njit(cache=True, nogil=True)
def _downdate_times(Q: Floats, q: Floats, share: float, x: Floats, p: Floats, diagonal: Floats) -> None:
    """``_downdate``, then p = Q x for the next row's x and the diagonal of Q, in one pass over Q.

    The sums are those of ``_times``, in the same order: the same bits, with half the traffic to memory.
    """
    D = q.shape[0]
    for j in range(D):
        a = Q[0, j] * share + -q[0] * q[j]
        Q[0, j] = a
        p[j] = a * x[0]
    diagonal[0] = Q[0, 0]
    for i in range(1, D):
        qi = -q[i]
        xi = x[i]
        for j in range(D):
            a = Q[i, j] * share + qi * q[j]
            Q[i, j] = a
            p[j] += a * xi
        diagonal[i] = Q[i, i]


@njit(cache=True, nogil=True)
def _accumulate(R: Floats, held: Floats, lams: Floats, count: int) -> None:
    """R <- lam R + x x' for the first ``count`` held rows in turn, on the upper triangle.

    An element sees the rows in their order, so holding them back changes no bit; it saves the memory traffic.
    """
    D = held.shape[1]
    if count < HELD:
        for k in range(count):
            for i in range(D):
                xi = held[k, i]
                for j in range(i, D):
                    R[i, j] = R[i, j] * lams[k] + xi * held[k, j]
        return
    l0, l1, l2, l3, l4, l5, l6, l7 = lams[0], lams[1], lams[2], lams[3], lams[4], lams[5], lams[6], lams[7]
    for i in range(D):
        x0, x1, x2, x3 = held[0, i], held[1, i], held[2, i], held[3, i]
        x4, x5, x6, x7 = held[4, i], held[5, i], held[6, i], held[7, i]
        for j in range(i, D):
            r = R[i, j] * l0 + x0 * held[0, j]
            r = r * l1 + x1 * held[1, j]
            r = r * l2 + x2 * held[2, j]
            r = r * l3 + x3 * held[3, j]
            r = r * l4 + x4 * held[4, j]
            r = r * l5 + x5 * held[5, j]
            r = r * l6 + x6 * held[6, j]
            R[i, j] = r * l7 + x7 * held[7, j]


@njit("void(f8[:,::1], f8[::1], f8[::1], f8, f8)", cache=True, nogil=True)
def leak(R: Floats, mean_square: Floats, counters: Floats, size: float, fresh: float) -> None:
    """The leak: ``size`` times its mean square back into each R_jj, or ``fresh`` where a column was always zero."""
    returned = -math.expm1(-counters[FORGOTTEN])  # 1 - c
    for j in range(mean_square.shape[0]):
        R[j, j] += returned * (size * max(mean_square[j], MEAN_SQUARE_MIN) if mean_square[j] > 0.0 else fresh)
    counters[FORGOTTEN] = 0.0


@njit(cache=True, nogil=True)
def _target(label: float, k: int, columns: int) -> float:
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
def _absorb_noise(counters: Floats, e: float, lam: float, share: float, weight: float) -> None:
    """A <- lam A + c a, v <- v + (c a / A) (a e^2 - v) with a = lam / (lam + g), c the weight of the row."""
    counters[EFFECTIVE_ROWS] = lam * counters[EFFECTIVE_ROWS] + weight * share
    if counters[EFFECTIVE_ROWS] > 0.0:
        counters[NOISE] += weight * share / counters[EFFECTIVE_ROWS] * (share * e * e - counters[NOISE])


@njit(cache=True, nogil=True)
def _absorb_squares(mean_square: Floats, x: Floats, newest: float, held: Floats, place: int) -> None:
    """Mean squares with this row, winsorised (as in ``core.learners.dfop.blocks``); the row is also held for R."""
    for j in range(x.shape[0]):
        square, known = x[j] * x[j], mean_square[j]
        most = WINSOR * max(known, MEAN_SQUARE_MIN) if known > 0.0 else square
        mean_square[j] = known + (min(square, most) - known) * newest
        held[place, j] = x[j]


@njit(cache=True, nogil=True)
def _gather(Q: Floats, diagonal: Floats) -> None:
    """The diagonal of Q in one place: a stride of D would cost a cache line per element."""
    for j in range(diagonal.shape[0]):
        diagonal[j] = Q[j, j]


Rows = tuple[Floats, Floats, Floats, Floats]
"""X (n, d); y (n,), numbers or class indices as floats; discounts (n,), or (0,) for the default; weights (n,), or (0,):
every row counts once."""
State = tuple[Floats, Floats, Floats, Floats, Floats]
"""W (columns, D), Q (D, D), R (D, D), of which only the upper triangle is read, mean_square (D,), counters (4,)."""
Predicted = tuple[Floats, Floats]
"""Scores (n, m), and deviations (n,), or (0,) for classification."""
Constants = tuple[float, float, float, float]
"""The default discount, its -ln, the share of the mean square that a leak puts back, and what it puts back where a
column was always zero."""

ROWS_TYPE = f"Tuple(({_ROWS_IN}, {_VECTOR_IN}, {_VECTOR_IN}, {_VECTOR_IN}))"
_STATE = f"Tuple(({_MATRIX}, {_MATRIX}, {_MATRIX}, {_VECTOR}, {_VECTOR}))"
_LEARN = f"UniTuple(i8, 2)({ROWS_TYPE}, {_STATE}, Tuple(({_MATRIX}, {_VECTOR})), UniTuple(f8, 4), i8, i8, i8, b1)"


@njit(_LEARN, cache=True, nogil=True)
def learn_rows(  # noqa: PLR0915 - one pass over the rows: parts of it would have to hand all of its state about
    rows: Rows,
    state: State,
    predicted: Predicted,
    constants: Constants,
    refresh_rows: int,
    start: int,
    stop: int,
    refreshed: bool,
) -> tuple[int, int]:
    """Test, then train on rows start, start + 1, ... until Q must be refreshed or row ``stop`` is reached.

    Args:
        rows: what is learned.
        state: updated in place.
        predicted: the a-priori predictions, written.
        constants: of the learner.
        refresh_rows: Q is refreshed at the row numbers divisible by this power of two.
        start: the first row to learn.
        stop: the row to stop before.
        refreshed: whether Q has just been refreshed because row ``start`` found it spoiled.

    Returns:
        The next row, and DONE, REFRESH (do that and come back), LEAK (leak, then refresh) or SPOILED (refresh, and come
        back with ``refreshed``). Up to 32 columns the work of REFRESH and LEAK is done here while rows are left.
    """
    X, y, discounts, weights = rows
    W, Q, R, mean_square, counters = state
    scores, std = predicted
    lam0, step0, leak_size, fresh = constants
    columns, D = W.shape
    regression = std.shape[0] > 0
    x, q, f, diagonal = np.empty(D), np.empty(D), np.empty(columns), np.empty(D)
    coming, ahead = np.empty(D), np.empty(D)  # the next row's x and Q x, which the downdate of this row gives
    held, lams, count = np.empty((HELD, D)), np.empty(HELD), 0
    lam, step, inverse = lam0, step0, 1.0 / lam0
    scale = _load(X, start, x) if start < stop else 1.0
    g = _times(Q, x, q) if start < stop else 0.0
    _gather(Q, diagonal)
    for i in range(start, stop):
        if discounts.shape[0]:
            lam = max(discounts[i], DISCOUNT_MIN)
            step, inverse = -math.log(lam), 1.0 / lam
        weight = weights[i] if weights.shape[0] else 1.0
        for k in range(columns):
            f[k] = _score(W, k, x)
        spoiled = _spoiled(diagonal, q, g)
        if not (refreshed and i == start):
            for k in range(scores.shape[1]):
                scores[i, k] = _bounded(f[k] / scale, PREDICTION_MAX)
            if regression:
                std[i] = _deviation(counters[NOISE], g, lam0, scale)
            if spoiled:
                _accumulate(R, held, lams, count)
                return i, SPOILED
        elif spoiled:  # even the fresh inverse sees nothing new in this row: its gain is zero
            g = 0.0
            q[:] = 0.0

        if regression and abs(y[i] * scale) > _ROW_MAX:
            shrink = _ROW_MAX / abs(y[i] * scale)
            scale *= shrink
            g *= shrink * shrink
            f[0] *= shrink
            _scale(x, shrink)
            _scale(q, shrink)
        share = weight / (lam + weight * g)
        for k in range(columns):
            target = y[i] if regression else _target(y[i], k, columns)
            e = _bounded(target * scale - f[k], _INNOVATION_MAX)
            _step_weights(W, k, q, e * share)
            if regression:
                _absorb_noise(counters, e, lam, lam * (1.0 / (lam + g)), weight)

        counters[ROWS] += 1.0
        counters[FORGOTTEN] += step
        _absorb_squares(mean_square, x, 1.0 / counters[ROWS], held, count)
        if weight != 1.0:
            _scale(held[count], math.sqrt(weight))
        lams[count] = lam
        count += 1
        leaks = counters[FORGOTTEN] + step0 > LEAK_LIMIT
        due = leaks or int(counters[ROWS]) & (refresh_rows - 1) == 0
        if due or count == HELD:
            _accumulate(R, held, lams, count)
            count = 0
        if due and (D > SMALL or i + 1 == stop):
            return i + 1, LEAK if leaks else REFRESH
        if due:
            if leaks:
                leak(R, mean_square, counters, leak_size, fresh)
            Q[:] = small_inverse(R)
            scale = _load(X, i + 1, x)
            g = _times(Q, x, q)
            _gather(Q, diagonal)
            continue
        _scale(q, math.sqrt(share * inverse))  # so that Q <- Q / lam - q q'
        if i + 1 == stop:
            _downdate(Q, q, inverse)
        else:
            scale = _load(X, i + 1, coming)
            _downdate_times(Q, q, inverse, coming, ahead, diagonal)
            x[:] = coming
            q[:] = ahead
            g = _dot(x, q)
    _accumulate(R, held, lams, count)
    return stop, DONE
