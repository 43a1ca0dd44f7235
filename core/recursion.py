"""The row recursion of DFOP, compiled: everything that happens once per row (the equations are in core.dfop).

All compiled code of the learner stands in this one file, because Numba's cache watches only the file of the function
it compiled: a helper changed elsewhere would leave an old kernel running. Sums are taken in one fixed order, without
fast-math, so predict and learn, a block and its rows, and two replicas give the same bits. Nothing is allocated per
row, and the GIL is released.

    x  the row with its bias, scaled down if it is larger than 1e75        W (columns, D)
    q = Q x,   g = x'q                                                     Q, R (D, D) exactly symmetric
    f_k = w_k'x                                                            power (D,), tally (4,)
"""

import math

import numpy as np
from numba import njit

from core.model import Floats, Ints

ROWS, FORGOTTEN, NOISE, VOTES = range(4)
"""Places in the tally: rows learned; -ln(discount) since the last leak; noise variance v; A, the votes behind it."""

DONE, REFRESH, LEAK, SPOILED = range(4)
"""Why ``learn_rows`` came back."""

LEAK_AFTER = 6.9
REFRESH_ROWS = 4096
STATE_MAX = 1e200
DISCOUNT_MIN = 1e-3
PROBABILITY_MIN = 1e-3

_ROW_MAX = 1e75
_INNOVATION_MAX = 1e90
_PREDICTION_MAX = 1e300
_NEGLIGIBLE = 1e-290
_ROUNDING = 1.0 + 1e-12
"""Keeps the accumulated steps of a constant discount on the grid floor(6.9 / step) where the ratio is an integer."""

_ROWS_IN = "Array(f8, 2, 'C', readonly=True)"
_VECTOR_IN = "Array(f8, 1, 'C', readonly=True)"
_MATRIX = "f8[:,::1]"
_VECTOR = "f8[::1]"


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
    for j in range(x.shape[0]):
        x[j] *= scale
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
def _spoiled(Q: Floats, q: Floats, g: float) -> bool:
    """Whether round-off has made Q indefinite where this row looks: g < 0, or q_i^2 > 4 Q_ii g.

    A covariance has (e_i'Q x)^2 <= (e_i'Q e_i)(x'Q x). The factor 4 leaves round-off its due, and still bounds what one
    row can do to Q and to the weights.
    """
    spoiled = not 0.0 <= g < np.inf
    for i in range(q.shape[0]):
        spoiled |= q[i] * q[i] > 4.0 * Q[i, i] * g + _NEGLIGIBLE
    return spoiled


@njit(cache=True, nogil=True)
def _bounded(value: float, limit: float) -> float:
    """Value within +-limit."""
    return min(max(value, -limit), limit)


@njit(cache=True, nogil=True)
def _deviation(noise: float, g: float, lam: float, scale: float) -> float:
    """sqrt(v (1 + g / lam)) in the units of the row before it was scaled."""
    return min(math.sqrt(noise) * math.sqrt(1.0 + max(g, 0.0) / lam) / scale, _PREDICTION_MAX)


@njit(
    "void(Array(f8, 2, 'C', readonly=True), f8[:,::1], f8[:,::1], f8[::1], f8, f8[:,::1], f8[::1])",
    cache=True,
    nogil=True,
)
def predict_rows(X: Floats, W: Floats, Q: Floats, tally: Floats, lam: float, scores: Floats, std: Floats) -> None:
    """Scores (n, m) and, where std is (n,) and not (0,), deviations of n rows under the state as it is."""
    x = np.empty(W.shape[1])
    q = np.empty(W.shape[1])
    for i in range(X.shape[0]):
        scale = _load(X, i, x)
        for k in range(scores.shape[1]):
            scores[i, k] = _bounded(_score(W, k, x) / scale, _PREDICTION_MAX)
        if std.shape[0]:
            std[i] = _deviation(tally[NOISE], _times(Q, x, q), lam, scale)


@njit(cache=True, nogil=True)
def _downdate(Q: Floats, R: Floats, q: Floats, x: Floats, lam: float, g: float) -> None:
    """Q <- (Q - q q'/(lam + g))/lam and R <- lam R + x x', both exactly symmetric; q is overwritten."""
    D = x.shape[0]
    share = 1.0 / lam
    root = math.sqrt(share / (lam + g))
    for i in range(D):
        q[i] *= root
    for i in range(D):
        qi = q[i]
        xi = x[i]
        for j in range(D):
            Q[i, j] = Q[i, j] * share - qi * q[j]
            R[i, j] = R[i, j] * lam + xi * x[j]


@njit(cache=True, nogil=True)
def _accumulate(R: Floats, x: Floats, lam: float) -> None:
    """R <- lam R + x x', exactly symmetric."""
    for i in range(x.shape[0]):
        xi = x[i]
        for j in range(x.shape[0]):
            R[i, j] = R[i, j] * lam + xi * x[j]


@njit(cache=True, nogil=True)
def _target(label: float, k: int, columns: int) -> float:
    """Target of column k out of ``columns``, the last of which is that of a class not seen yet (constant -1)."""
    if k == columns - 1:
        return -1.0
    if columns == 2:
        return 1.0 if label == 1.0 else -1.0
    return 1.0 if label == k else -1.0


_STATE = f"{_MATRIX}, {_MATRIX}, {_MATRIX}, {_VECTOR}, {_VECTOR}"
_LEARN = f"UniTuple(i8, 2)({_ROWS_IN}, {_VECTOR_IN}, {_VECTOR_IN}, {_STATE}, {_MATRIX}, {_VECTOR}, i8, b1, f8, f8)"


@njit(_LEARN, cache=True, nogil=True)
def learn_rows(
    X: Floats,
    y: Floats,
    discounts: Floats,
    W: Floats,
    Q: Floats,
    R: Floats,
    power: Floats,
    tally: Floats,
    scores: Floats,
    std: Floats,
    start: int,
    refreshed: bool,
    lam0: float,
    step0: float,
) -> tuple[int, int]:
    """Test, then train on rows start, start + 1, ... until Q must be refreshed or the rows end.

    Args:
        X: (n, d) rows.
        y: (n,) numbers, or class indices as floats.
        discounts: (n,), or (0,) for the default.
        W: (columns, D) weights, updated in place like the four that follow.
        Q: (D, D) covariance.
        R: (D, D) precision.
        power: (D,) mean squares.
        tally: (4,) counters.
        scores: (n, m) a-priori predictions, written.
        std: (n,) predictive deviations, written; (0,) means classification.
        start: the first row to learn.
        refreshed: whether Q has just been refreshed because row ``start`` found it spoiled.
        lam0: the default discount.
        step0: its -ln.

    Returns:
        The next row, and DONE, REFRESH (do that and come back), LEAK (leak, then refresh) or SPOILED (refresh, and come
        back with ``refreshed``).
    """
    columns = W.shape[0]
    regression = std.shape[0] > 0
    x = np.empty(W.shape[1])
    q = np.empty(W.shape[1])
    f = np.empty(columns)
    lam, step = lam0, step0
    for i in range(start, X.shape[0]):
        if discounts.shape[0]:
            lam = max(discounts[i], DISCOUNT_MIN)
            step = -math.log(lam)
        scale = _load(X, i, x)
        g = _times(Q, x, q)
        for k in range(columns):
            f[k] = _score(W, k, x)
        spoiled = _spoiled(Q, q, g)
        if not (refreshed and i == start):
            for k in range(scores.shape[1]):
                scores[i, k] = _bounded(f[k] / scale, _PREDICTION_MAX)
            if regression:
                std[i] = _deviation(tally[NOISE], g, lam0, scale)
            if spoiled:
                return i, SPOILED
        elif spoiled:  # even the fresh inverse sees nothing new in this row: its gain is zero
            g = 0.0
            q[:] = 0.0

        if regression and abs(y[i] * scale) > _ROW_MAX:
            shrink = _ROW_MAX / abs(y[i] * scale)
            scale *= shrink
            g *= shrink * shrink
            f[0] *= shrink
            for j in range(x.shape[0]):
                x[j] *= shrink
                q[j] *= shrink
        share = 1.0 / (lam + g)
        for k in range(columns):
            target = y[i] if regression else _target(y[i], k, columns)
            e = _bounded(target * scale - f[k], _INNOVATION_MAX)
            gain = e * share
            for j in range(x.shape[0]):
                w = W[k, j] + q[j] * gain
                w = STATE_MAX if w > STATE_MAX else w
                W[k, j] = -STATE_MAX if w < -STATE_MAX else w
            if regression:
                vote = 1.0 / (1.0 + g / lam)
                tally[VOTES] = lam * tally[VOTES] + vote
                if tally[VOTES] > 0.0:
                    tally[NOISE] += vote / tally[VOTES] * (vote * e * e - tally[NOISE])

        tally[ROWS] += 1.0
        tally[FORGOTTEN] += step
        newest = 1.0 / tally[ROWS]
        for j in range(x.shape[0]):
            power[j] += (x[j] * x[j] - power[j]) * newest
        leak = tally[FORGOTTEN] + step0 > LEAK_AFTER * _ROUNDING
        if leak or int(tally[ROWS]) % REFRESH_ROWS == 0:
            _accumulate(R, x, lam)
            return i + 1, LEAK if leak else REFRESH
        _downdate(Q, R, q, x, lam, g)
    return X.shape[0], DONE


@njit(cache=True, nogil=True)
def _squashed(score: float) -> float:
    """(1 + score)/2 within (0, 1), strictly increasing: bent where a clip to [.001, .999] would be flat."""
    edge = 1.0 - 2.0 * PROBABILITY_MIN
    beyond = abs(score) - edge
    if beyond <= 0.0:
        return 0.5 + 0.5 * score
    tail = 0.5 * PROBABILITY_MIN * beyond / (1.0 + beyond)
    return 1.0 - PROBABILITY_MIN + tail if score > 0.0 else PROBABILITY_MIN - tail


@njit("Tuple((i8[::1], f8[:,::1]))(f8[:,::1], i8)", cache=True, nogil=True)
def classify(scores: Floats, classes: int) -> tuple[Ints, Floats]:
    """Most probable classes (n,) and probabilities (n, K) from scores (n, m) and the number K of classes."""
    n = scores.shape[0]
    value = np.full(n, -1 if classes == 0 else 0, dtype=np.int64)
    p = np.ones((n, classes))
    for i in range(n):
        if classes == 2:
            p[i, 1] = min(max(0.5 + 0.5 * scores[i, 0], PROBABILITY_MIN), 1.0 - PROBABILITY_MIN)
            p[i, 0] = 1.0 - p[i, 1]
        elif classes > 2:
            total = 0.0
            for k in range(classes):
                p[i, k] = _squashed(scores[i, k])
                total += p[i, k]
            for k in range(classes):
                p[i, k] /= total
        for k in range(1, classes):
            if p[i, k] > p[i, value[i]]:
                value[i] = k
    return value, p
