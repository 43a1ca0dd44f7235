r"""Calibration of a learner's probabilities on the stream: predictions of 70 % should come true 70 % of the time.

Learners are over- or underconfident in different ways: least squares has no probabilities, Gaussian densities
exaggerate, and a model that the data have left behind is wrong systematically. The learner's probabilities p_k over the
K >= 2 classes seen become those of the answer (class_answers.py) by a prior for rare classes and two corrections, each
of which takes one Newton step per row on the log loss of its a-priori probabilities.

**The prior.** A learner treats a class that has just appeared like any other: its scores begin at zero, or at the mean
of the others', as if all classes were equally frequent. After thousands of rows without it that is wrong: a single
mistyped label would affect many predictions. So the probabilities p_k of K classes, n_k rows of class k among n, are
multiplied by

    rho_k = min(1, K (n_k + 1) / (n + K))                 Laplace's share (n_k + 1) / (n + K), over the even one, 1 / K
    p_k <- p_k rho_k^(1 / n_k^2) / sum                    with n_k at least 1

After one row a class keeps about 2 K / n of the learner's probability, after two rows about the fourth root of that:
that they came says more than that none had come before, and the learner learns from each of them. After ten rows, the
exponent of rho_k is 1 / 100; a class that stays rare is as probable as the learner says.

**One slope** a on the logarithms l_k = ln max(p_k, 1e-9), with y the row's class:

    s_k ~ exp(a l_k + ln(rho_k) / n_k^2)
    H <- min(H + sum_k s_k l_k^2 - (sum_k s_k l_k)^2, 2000)                   curvature; from H = 1
    a <- a + (l_y - sum_k s_k l_k) / H                                        from a = 1, within [.02, 20]

**An offset of the log odds** z = ln(s / (1 - s)), which depends on z: d(z) is linear between 17 knots up to z = +-8,
equally spaced in u(z) = sign(z) ln(1 + |z| / .2), that is, densest where classes are equally probable.

    r = 1 / (1 + exp(-(z + d(z))))
    H_j <- min(H_j + w_j r (1 - r), h)         j the two knots next to z, w_j the weight of each
    d_j <- d_j + w_j (t - r) / (g + H_j)       t = 1 if the class came true, else 0; g = 1

Two classes have one d, that of the second one to appear (one may be rare), with h = 2. It may change which one is more
probable. It is kept while other classes have at most 1 % of the rows: s_1 / (s_0 + s_1) is corrected, which divides the
joint probability of the first two. With more classes, all share one d, which starts again, with h = 30; each class is
corrected against the others where s_k is .001 or more, and the r_k are normalised. Here z + d(z) is kept increasing,
which keeps the order of the classes: between the knots u_j and u_j+1, d_j+1 - d_j is held above
-.98 (u_j+1 - u_j) min |dz/du|.

**Trust.** After a change, a correction may be wrong for longer than the learner. So the answer mixes the corrected
probabilities r_k with those without slope and offset, b_k ~ p_k (the prior included), by fixed share in log loss:

    r_k <- v r_k + (1 - v) b_k                                                from v = .9
    v <- (1 - eps) v' + .9 eps      v' = v r_y / (v r_y + (1 - v) b_y), with r_y from before the mixing; eps = .001

Its log loss over any rows is at most 7.1 (-ln .9 eps) above that of r, 9.3 (-ln .1 eps) above that of b, and .001 per
row.

A mixture of calibrated experts needs little correction, and quick corrections make it worse. Its calibration is
*slow*: h = 30, g = 5, and the slope begins at H = 20.

The limits of H make it forget by information, not by the number of rows: a thousand rows without a single one of a
rare class say little about it. A row of weight c, relative to the largest recent one (core.numerics.weighting), counts
c times; of v, the step is c times as long.

Source: the share: Laplace's rule of succession; one slope: Guo, Pleiss, Sun, Weinberger: On Calibration of Modern
Neural Networks, ICML 2017; corrections that continue with the stream: Kuleshov, Ermon: Estimating Uncertainty Online
Against an Adversary, AAAI 2017; fixed share: Herbster, Warmuth: Tracking the Best Expert, Machine Learning, 1998.
"""

import math

import numpy as np
from numba import njit

from core.contract import WEIGHT_MAX, Floats, Ints
from core.numerics.rows import put
from core.numerics.weighting import FIXED_SHARE, relative, softmax
from core.state.layout import Array, Layout, Range

KNOTS = 17
SLOPE, CURVATURE, SHARED, OFFSETS, WEIGHTS = 0, 1, 2, 3, 3 + KNOTS
"""Offsets of the parts in the calibration; SHARED: 1 once more than two classes share the offsets."""
HEAVIEST = WEIGHTS + KNOTS
TRUST = HEAVIEST + 1
SIZE = TRUST + 1
SLOPE_MIN, SLOPE_MAX, OFFSET_MAX = 0.02, 20.0, 8.0

_SHARE_MIN, _CORRECTED_MIN, _RARE = 1e-9, 1e-3, 0.01
_CURVATURE_MAX, _WEIGHT_MAX = 2000.0, (2.0, 30.0)
_CURVATURE_FIRST, _PRIOR = (1.0, 20.0), (1.0, 5.0)  # quick and slow
_TRUST_FIRST = 0.9
_ODDS_MAX, _DENSE = 8.0, 0.2
_U_MAX = math.log1p(_ODDS_MAX / _DENSE)
_AT = np.abs(np.linspace(-_U_MAX, _U_MAX, KNOTS))
_FALL_MAX = 0.98 * _DENSE * np.exp(np.minimum(_AT[1:], _AT[:-1])) * (2.0 * _U_MAX / (KNOTS - 1))
"""How much lower than a knot the next one may be if the correction must be increasing; (KNOTS - 1,)."""

LAYOUT = Layout(
    calibration=Array(
        SIZE,
        places={
            SLOPE: Range(SLOPE_MIN, SLOPE_MAX),
            CURVATURE: Range(_CURVATURE_FIRST[0], _CURVATURE_MAX),
            SHARED: Range(0.0, 1.0, whole=True),
            **dict.fromkeys(range(OFFSETS, WEIGHTS), Range(-OFFSET_MAX, OFFSET_MAX)),
            **dict.fromkeys(range(WEIGHTS, HEAVIEST), Range(0.0, _WEIGHT_MAX[1])),
            HEAVIEST: Range(0.0, WEIGHT_MAX),
            TRUST: Range(0.5 * FIXED_SHARE, 1.0 - 0.05 * FIXED_SHARE),
        },
    )
)


def fresh(slow: bool = False) -> Floats:
    """The calibration that changes nothing; ``slow``: for probabilities of a mixture."""
    parameters = np.zeros(SIZE)
    parameters[[SLOPE, CURVATURE, TRUST]] = 1.0, _CURVATURE_FIRST[slow], _TRUST_FIRST
    return parameters


@njit(cache=True, nogil=True)
def log_priors(order: Ints, counts: Floats, rows: float, priors: Floats) -> None:
    """Write the change of the logarithm of each class's probability into priors (K,), none above 0.

    ``order``: (K,) the label of each class; ``counts``: rows of each label, ``rows`` their sum.
    """
    K = priors.shape[0]
    for k in range(K):
        own = max(counts[order[k]], 1.0)
        share = K * (own + 1.0) / (rows + K)
        priors[k] = math.log(share) / (own * own) if share < 1.0 else 0.0


@njit(cache=True, nogil=True)
def others_are_rare(order: Ints, counts: Floats, rows: float, classes: int) -> bool:
    """Whether there are more than two classes, and the first two have 99 % of the rows; arguments as above."""
    return classes > 2 and rows - counts[order[0]] - counts[order[1]] <= _RARE * rows


@njit(cache=True, nogil=True)
def _odds(share: float) -> float:
    """Log odds of a share, which is clipped to [1e-9, 1 - 1e-9]."""
    inside = min(max(share, _SHARE_MIN), 1.0 - _SHARE_MIN)
    return math.log(inside / (1.0 - inside))


@njit(cache=True, nogil=True)
def _place(z: float) -> float:
    """The position of log odds among the knots: the knot before them, and the fraction of the way to the next."""
    u = math.log1p(min(abs(z), _ODDS_MAX) / _DENSE)
    return (math.copysign(u, z) / _U_MAX + 1.0) * (0.5 * (KNOTS - 1))


@njit(cache=True, nogil=True)
def _offset(z: float, c: Floats) -> float:
    """d(z) of log odds z."""
    at = _place(z)
    j = min(int(at), KNOTS - 2)
    w = at - j
    return float((1.0 - w) * c[OFFSETS + j] + w * c[OFFSETS + j + 1])


@njit(cache=True, nogil=True)
def _corrected(z: float, c: Floats) -> float:
    """Share r of log odds z."""
    return 1.0 / (1.0 + math.exp(-(z + _offset(z, c))))


@njit(cache=True, nogil=True)
def _odds_of_two(s: Floats) -> float:
    """Log odds of the second class against the first, ignoring all others."""
    both = s[0] + s[1]
    return _odds(s[1] / both) if both > 0.0 else 0.0


@njit(cache=True, nogil=True)
def calibrate_row(p: Floats, i: int, priors: Floats, c: Floats, logs: Floats, s: Floats, b: Floats, r: Floats) -> None:
    """Write l, s (with slope and log priors), b and the calibrated and mixed r, each (K,), for row i of p (n, K)."""
    K, whole, doubt = p.shape[1], 0.0, 1.0 - c[TRUST]
    for k in range(K):
        b[k] = max(p[i, k], _SHARE_MIN)
        logs[k] = math.log(b[k])
        s[k] = c[SLOPE] * logs[k] + priors[k]
        if priors[k] < 0.0:
            b[k] *= math.exp(priors[k])
        whole += b[k]
    if K:
        softmax(s, s)
    put(s, r)
    if K == 2:
        r[1] = _corrected(_odds(s[1]), c)
        r[0] = 1.0 - r[1]
    elif K > 2 and not c[SHARED]:
        raised = s[1] * math.exp(_offset(_odds_of_two(s), c))
        scale = (s[0] + s[1]) / (s[0] + raised) if raised > 0.0 else 1.0  # exactly 1 without an offset
        r[0], r[1] = s[0] * scale, raised * scale
    elif K > 2:
        total = 0.0
        for k in range(K):
            if s[k] >= _CORRECTED_MIN:
                r[k] = _corrected(_odds(s[k]), c)
            total += r[k]
        for k in range(K):
            r[k] /= total
    for k in range(K):
        b[k] /= whole
        r[k] += doubt * (b[k] - r[k])


@njit(cache=True, nogil=True)
def _increasing(offset: float, knot: int, c: Floats) -> float:
    """The offset of a knot, held so that the correction increases on both sides of it."""
    if knot > 0:
        offset = max(offset, c[OFFSETS + knot - 1] - _FALL_MAX[knot - 1])
    if knot < KNOTS - 1:
        offset = min(offset, c[OFFSETS + knot + 1] + _FALL_MAX[knot])
    return offset


@njit(cache=True, nogil=True)
def _step(z: float, came: bool, c: Floats, weight: float, slow: bool) -> None:
    """One step of the two knots next to log odds z."""
    r, at = _corrected(z, c), _place(z)
    j = min(int(at), KNOTS - 2)
    limit, prior = _WEIGHT_MAX[1] if c[SHARED] or slow else _WEIGHT_MAX[0], _PRIOR[1] if slow else _PRIOR[0]
    error, curvature = ((1.0 if came else 0.0) - r) * weight, r * (1.0 - r) * weight
    for side in range(2):
        w = at - j if side else 1.0 - (at - j)
        c[WEIGHTS + j + side] = min(c[WEIGHTS + j + side] + w * curvature, limit)
        offset = c[OFFSETS + j + side] + w * error / (prior + c[WEIGHTS + j + side])
        if c[SHARED]:
            offset = _increasing(offset, j + side, c)
        c[OFFSETS + j + side] = min(max(offset, -OFFSET_MAX), OFFSET_MAX)


@njit(cache=True, nogil=True)
def fit_row(
    y: int, c: Floats, logs: Floats, s: Floats, b: Floats, r: Floats, weight: float, rare: bool, slow: bool
) -> None:
    """Update the calibration c by a row of class y < K; l, s, b and r (K,) are as ``calibrate_row`` left them.

    ``rare``: whether all classes after the first two are rare; ``slow``: as in ``fresh``.
    """
    K, mean, square, counts = s.shape[0], 0.0, 0.0, relative(weight, c, HEAVIEST)
    for k in range(K):
        mean += s[k] * logs[k]
        square += s[k] * logs[k] * logs[k]
    if K > 2 and not c[SHARED] and not rare:
        c[OFFSETS:HEAVIEST], c[SHARED] = 0.0, 1.0
    if not c[SHARED]:
        if y < 2:
            _step(_odds_of_two(s), y == 1, c, counts, slow)
    else:
        for k in range(K):
            if s[k] >= _CORRECTED_MIN:
                _step(_odds(s[k]), y == k, c, counts, slow)
    c[CURVATURE] = min(c[CURVATURE] + counts * max(square - mean * mean, 0.0), _CURVATURE_MAX)
    c[SLOPE] = min(max(c[SLOPE] + counts * (logs[y] - mean) / c[CURVATURE], SLOPE_MIN), SLOPE_MAX)
    right = 1.0 - (1.0 - c[TRUST]) * b[y] / r[y]
    c[TRUST] += counts * ((1.0 - FIXED_SHARE) * right + FIXED_SHARE * _TRUST_FIRST - c[TRUST])
