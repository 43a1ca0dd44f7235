r"""VIGO, VIGOd and VIGOw, the paper's equations, compiled: a Gaussian per class, learned by variational Bayes.

Class k has the count c_k, a mean m (D,) of beta rows and a precision Lambda ~ Wishart(W, nu); n of its rows wait, with
mean xbar and scatter S. The class predicted for a row x is

    argmax_k c_k N(x | m, E[Lambda]^{-1})           (1); the first if equal; only among classes that have rows

and x joins the waiting rows of its own class: (6) and (7), as (9) and (10) sum them up,

    n <- n + 1,   d = x - xbar,   xbar <- xbar + d / n,   S <- S + (n - 1)/n d d'

When they are taken into the model, with J = (xbar - m)(xbar - m)', (8) and (11), from m = 0, beta = 0, nu = D, W = W_0:

    m <- m + n / (beta + n) (xbar - m)              (2)
    nu <- nu + n,   beta <- beta + n,   n <- 0      (4), Algorithm 2; H = beta E[Lambda]          (3)
    A <- A + S + beta n / (beta + n) J              (5); W^{-1} = A + share V, V the prior W_0^{-1}, share = 1
    Sigma = W^{-1} / nu + floor = L L'              E[Lambda]^{-1}

    vigo     when the row's class was not the one predicted                                       Algorithm 2
    vigod    a building step like vigo until a class has |B| rows; then whenever |B| rows wait, after a test of them
             against the beta rows before. An alarm resets the class to the |B| rows              Algorithm 3
    vigow    the same windows without a test: beta = |B|, so that the mean forgets; nu is capped, so that the
             covariance forgets; c_k counts the last |B| to 2 |B| rows                            Algorithm 4

    (12)     |m_i - xbar_i| / R_i >= sqrt(ln(4 D / delta) / (2 n_h)) for a column i of range R_i, where
             n_h = 1 / (1 / beta + 1 / n); then every c_k is 1, beta 0 and, unless ``reset: "mean"``, A 0 and nu D

V and the floor are diagonal and V is kept out of A, so that each factorisation uses the current ranges and variances;
when a range has doubled since, all factors are recomputed. Sums are taken in one fixed order, the GIL is released.
Functions called for every row take their arrays one by one: a tuple costs a reference count per array and call.

    A, L, S   upper triangles, L as in cholesky.py        means     m and xbar of every class, then those before scaling

Source: Nguyen, Nguyen, Liew, Wang: Variational inference based Bayes online classifiers with concept drift adaptation,
Pattern Recognition 81, 2018: (1)-(12), Algorithms 1-4.

Deviations (``variant: "paper"`` has the paper's own form of those marked *)
- No iterations (Algorithm 1): with (3) in (5), the fixed point is W^{-1} = A nu / (nu - 1) with nu = nu_0 + n + 1 (the
  tests' oracle iterates). The printed lower bound is not a bound before it, and -infinity if beta = 0.
- (10) divides by zero at the first row; Welford's form does not.
- * nu counts the rows; (4) and the W^{-1} above add one per update: 49 % mistakes on collinear copies, not 22 %.
- * V = .1 diag(range^2) instead of I, and the floor .01 diag(variance): collinear columns are harmless.
- * The building step ends per class; the paper's ends for all classes at once, never if one of them is rare.
- * A reset is full: with the old covariance kept, a class that has moved stays wide enough to cover both places.
- * VIGOw's nu is capped at max(2 |B|, D + |B|); the paper's covariance never forgets.
- * VIGOw counts in windows from the first row on, and adds 1: a class absent from them stays possible. In the variant
  "paper" the building step's counts become one window of |B| rows; Algorithm 4's c may never equal |B|.
- * A class is also updated by its first row, and when beta rows wait: otherwise a class that is always predicted right
  would never learn its spread.
- (12) is measured in ranges, not on inputs scaled to [0, 1]. In the variant "paper" V = diag(R^2): the same model.
- Classes appear as they come; in the variant "paper" with N(0, I/D), which they keep until their update.
- The Student-t density (gaussians.py), the error-rate test and ``forget`` (learner.py) are not in the paper.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import float64, int64, njit, types

from core.contract import Floats, Ints, direct
from core.learners.vigo.cholesky import distance, factorise, rank_one
from core.numerics.rows import put

BETA, NU, SHARE, WAITING, ROWS, COUNT, OLD, MISTAKES, LATEST, PRIOR, LOGDET, CONSTANT, EXPONENT, RATIO = range(14)
"""A class's row of ``stats``: beta, nu, share; n; its rows since building began; c and the last window's c; wrong
labels among the beta and the n rows; ln of its count; T; of the Student-t the constant, (f + D)/2 (0: point density)
and q's factor."""
LOW, HIGH, MEAN, SQUARES, KNOWN = range(5)
"""Rows of ``features``: range so far, mean, sum of squared deviations, range when the factors in use were made."""
SEEN, STAGE, WINDOW = range(3)
"""The counters: rows; 1 after building (paper) or once the window of counts slides; rows in that window."""
KIND, BATCH, PAPER, PRIOR_SIZE, FLOOR, KEEP, MEAN_CUT, ERROR_CUT, NU_MAX = range(9)
"""The constants: VIGO, VIGOD or VIGOW; |B|; paper's variant; V in squared ranges (0: V = I); floor in variances;
whether a reset keeps W and nu; ln(4D/delta); ln(2/delta) of the error-rate test or 0; cap of nu or 0."""
VIGO, VIGOD, VIGOW = 0.0, 1.0, 2.0
MEAN_ALARM, ERROR_ALARM = 1, 2
CUT_MEAN, CUT_ERROR, PAST, RECENT, RATE_BEFORE, RATE_AFTER = range(6)
"""The last row of a report (4, max(D, 6)): thresholds, window sizes, error rates; above it the class's mean before
and after, as rows were before scaling, and their difference in ranges."""

ROW_MAX = 1e75
VARIANCE_MIN, COUNT_MIN, _PIVOT_MIN = 1e-150, 1e-300, 1e-13
_LOG_2PI = math.log(2.0 * math.pi)


class Gaussians(NamedTuple):
    """K classes over D columns, float64."""

    A: Floats  # (K, D, D)
    L: Floats  # (K, D, D)
    S: Floats  # (K, D, D)
    means: Floats  # (K, 4, D)
    stats: Floats  # (K, 14)
    features: Floats  # (5, D)
    counters: Floats  # (3,)
    constants: Floats  # (9,), constant


@njit(cache=True, nogil=True)
def _load(X: Floats, i: int, x: Floats) -> None:
    """Copy row i of X (n, D) into x, each value clipped to +-ROW_MAX."""
    for j in range(x.shape[0]):
        x[j] = min(max(X[i, j], -ROW_MAX), ROW_MAX)


@njit(cache=True, nogil=True)
def _extra(s: Gaussians, j: int, share: float, nu: float) -> float:
    """The contribution of prior and floor to Sigma_jj; 1 for a column that never varied, in every class."""
    size, floor = s.constants[PRIOR_SIZE], s.constants[FLOOR]
    if size == 0.0:
        return share / nu
    span = s.features[HIGH, j] - s.features[LOW, j]
    if floor == 0.0:
        return float(max(share * size * (span * span if span > 0.0 else 1.0) / nu, VARIANCE_MIN))
    if s.features[SQUARES, j] == 0.0:
        return 1.0
    variance = s.features[SQUARES, j] / s.counters[SEEN]
    return float(max(share * size * span * span / nu + floor * variance, VARIANCE_MIN))


@njit(cache=True, nogil=True)
def _student(s: Gaussians, k: int) -> None:
    """The part of the densities that depends only on beta and nu; the 1 / beta is the mean's uncertainty, by (3)."""
    D, beta, nu = s.means.shape[2], s.stats[k, BETA], s.stats[k, NU]
    if beta == 0.0:
        s.stats[k, CONSTANT], s.stats[k, EXPONENT], s.stats[k, RATIO] = -0.5 * D * _LOG_2PI, 0.0, 0.0
        return
    f, widened = max(nu + 1.0 - D, 1.0), nu * (1.0 + beta) / beta
    gammas = math.lgamma(0.5 * (f + D)) - math.lgamma(0.5 * f)
    s.stats[k, CONSTANT] = gammas - 0.5 * D * math.log(math.pi * widened)
    s.stats[k, EXPONENT], s.stats[k, RATIO] = 0.5 * (f + D), 1.0 / widened


@njit(cache=True, nogil=True)
def _factor(s: Gaussians, k: int) -> None:
    """L L' = W^{-1} / nu + floor for class k, in place: E[Lambda]^{-1}, the result of Algorithm 1."""
    A, F, D, nu = s.A, s.L[k], s.A.shape[1], s.stats[k, NU]
    least = np.empty(D)
    for j in range(D):
        for i in range(j, D):
            F[j, i] = A[k, j, i] / nu
        F[j, j] += _extra(s, j, s.stats[k, SHARE], nu)
        least[j] = _PIVOT_MIN * F[j, j]
    s.stats[k, LOGDET] = factorise(F, least)


@njit(cache=True, nogil=True)
def _wait(S: Floats, means: Floats, stats: Floats, k: int, x: Floats, raw: Floats, d: Floats) -> None:
    """Add row x, before scaling ``raw``, to the waiting rows of class k, (9) and (10); d (D,) is scratch."""
    D, n = x.shape[0], stats[k, WAITING] + 1.0
    stats[k, WAITING] = n
    for j in range(D):
        d[j] = x[j] - means[k, 1, j]
        means[k, 1, j] += d[j] / n
        means[k, 3, j] += (min(max(raw[j], -ROW_MAX), ROW_MAX) - means[k, 3, j]) / n
    for j in range(D):
        a = (n - 1.0) / n * d[j]
        for i in range(j, D):
            S[k, j, i] += a * d[i]


@njit(cache=True, nogil=True)
def _rescale(s: Gaussians, k: int, nu: float) -> None:
    """Give class k another nu without changing its Sigma."""
    factor = nu / s.stats[k, NU]
    for j in range(s.A.shape[1]):
        for i in range(j, s.A.shape[1]):
            s.A[k, j, i] *= factor
    s.stats[k, SHARE] *= factor
    s.stats[k, NU] = nu


@njit(cache=True, nogil=True)
def _update(s: Gaussians, k: int, d: Floats) -> None:
    """Learn the waiting rows of class k, (2) to (5); d (D,) is scratch."""
    A, S, D, beta, n, nu = s.A, s.S, d.shape[0], s.stats[k, BETA], s.stats[k, WAITING], s.stats[k, NU]
    weight, step = beta * n / (beta + n), n / (beta + n)
    for j in range(D):
        d[j] = s.means[k, 1, j] - s.means[k, 0, j]
        s.means[k, 0, j] += step * d[j]  # (2)
        s.means[k, 2, j] += step * (s.means[k, 3, j] - s.means[k, 2, j])
        s.means[k, 1, j] = s.means[k, 3, j] = 0.0
    for j in range(D):
        a = weight * d[j]  # of (5); d d' is J, (8) and (11)
        for i in range(j, D):
            A[k, j, i] += S[k, j, i] + a * d[i]
            S[k, j, i] = 0.0
    s.stats[k, NU] = nu + n  # (4)
    if s.constants[PAPER] == 1.0:
        _rescale(s, k, nu + n + 1.0)
    elif 0.0 < s.constants[NU_MAX] < nu + n:
        _rescale(s, k, s.constants[NU_MAX])
    s.stats[k, BETA] = beta + n
    s.stats[k, MISTAKES] += s.stats[k, LATEST]
    s.stats[k, WAITING] = s.stats[k, LATEST] = 0.0
    if n > 1.0 or s.constants[PRIOR_SIZE] > 0.0:
        _factor(s, k)
    else:  # V = I and no floor: Sigma <- (nu Sigma + weight d d') / (nu + 1)
        d *= math.sqrt(weight / (nu + 1.0))
        s.stats[k, LOGDET] = rank_one(s.L[k], math.sqrt(nu / (nu + 1.0)), d)
    _student(s, k)


@njit(cache=True, nogil=True)
def _absorb(features: Floats, counters: Floats, x: Floats) -> bool:
    """Update the columns' ranges, means and squares; return whether a range has doubled since the factors were made."""
    counters[SEEN] += 1.0
    grown, newest = False, 1.0 / counters[SEEN]
    for j in range(x.shape[0]):
        a = x[j]
        if newest == 1.0 and features[KNOWN, j] == 0.0:  # no range was declared
            features[LOW, j] = features[HIGH, j] = a
        d = a - features[MEAN, j]
        features[MEAN, j] += d * newest
        features[SQUARES, j] += d * (a - features[MEAN, j])
        if a < features[LOW, j] or a > features[HIGH, j]:
            features[LOW, j], features[HIGH, j] = min(features[LOW, j], a), max(features[HIGH, j], a)
            grown |= features[HIGH, j] - features[LOW, j] > 2.0 * features[KNOWN, j]
    return grown


@njit(cache=True, nogil=True)
def _classify(L: Floats, means: Floats, stats: Floats, x: Floats, z: Floats, p: Floats, row: int) -> int:
    """The class (1) with the largest count times point density; writes the probabilities of x into p[row]."""
    classes, highest, top = stats.shape[0], -np.inf, -np.inf
    best = 0 if classes > 0 else -1
    for k in range(classes):
        if stats[k, ROWS] == 0.0:
            p[row, k] = -np.inf  # only seen classes score
            continue
        q = distance(L, means, k, x, z)
        weight, exponent = stats[k, PRIOR] - stats[k, LOGDET], stats[k, EXPONENT]
        if weight - 0.5 * q > highest:
            best, highest = k, weight - 0.5 * q
        spread = exponent * math.log1p(q * stats[k, RATIO]) if exponent > 0.0 else 0.5 * q
        p[row, k] = weight + stats[k, CONSTANT] - spread
        top = max(top, p[row, k])
    total = 0.0
    for k in range(classes):
        p[row, k] = math.exp(p[row, k] - top) if top > -np.inf else 1.0
        total += p[row, k]
    for k in range(classes):
        p[row, k] /= total
    return best


@njit(cache=True, nogil=True)
def _weigh(s: Gaussians, k: int) -> None:
    """Set the log weight of class k; VIGOw adds one by default, for classes absent from the last windows."""
    sliding = s.constants[KIND] == VIGOW and s.constants[PAPER] == 0.0 and s.counters[STAGE] == 1.0
    s.stats[k, PRIOR] = math.log(max(s.stats[k, COUNT] + s.stats[k, OLD] + (1.0 if sliding else 0.0), COUNT_MIN))


@njit(cache=True, nogil=True)
def _slide(s: Gaussians) -> None:
    """Begin VIGOw's next window of counts (Algorithm 4); the first one is rescaled to |B| rows, whatever it held."""
    total = s.stats[:, COUNT].sum()
    share = s.constants[BATCH] / total if s.counters[STAGE] == 0.0 else 1.0
    s.counters[STAGE], s.counters[WINDOW] = 1.0, 0.0
    for k in range(s.stats.shape[0]):
        s.stats[k, OLD], s.stats[k, COUNT] = share * s.stats[k, COUNT], 0.0
        _weigh(s, k)


@njit(cache=True, nogil=True)
def _leave_building(s: Gaussians) -> bool:
    """Whether the paper's building step continues; it ends for all classes at once, when the last one has |B| rows."""
    if s.stats[:, ROWS].min() < s.constants[BATCH]:
        return True
    if s.constants[KIND] == VIGOW:
        _slide(s)
    s.counters[STAGE] = 1.0
    return False


@njit(cache=True, nogil=True)
def _test(s: Gaussians, k: int, report: Floats) -> int:
    """Run VIGOd's test (12) in ranges and, if enabled, its error-rate test on class k; returns what fired."""
    beta, n, log = s.stats[k, BETA], s.stats[k, WAITING], s.constants[ERROR_CUT]
    if beta == 0.0:
        return 0
    both = 1.0 / beta + 1.0 / n  # 1 / n_h
    for j in range(s.means.shape[2]):
        span = s.features[HIGH, j] - s.features[LOW, j]
        report[:2, j] = s.means[k, 2:, j]
        report[2, j] = abs(s.means[k, 1, j] - s.means[k, 0, j]) / span if span > 0.0 else 0.0
    a, b = s.stats[k, MISTAKES] / beta, s.stats[k, LATEST] / n
    pooled = (s.stats[k, MISTAKES] + s.stats[k, LATEST]) / (beta + n)
    cut = math.sqrt(s.constants[MEAN_CUT] * both / 2.0)
    worse = math.sqrt(2.0 * pooled * (1.0 - pooled) * log * both) + 2.0 / 3.0 * log * both
    report[3, CUT_MEAN], report[3, CUT_ERROR], report[3, PAST], report[3, RECENT] = cut, worse, beta, n
    report[3, RATE_BEFORE], report[3, RATE_AFTER] = a, b
    moved = MEAN_ALARM if report[2, : s.means.shape[2]].max() >= cut else 0
    return moved + (ERROR_ALARM if log > 0.0 and b - a >= worse else 0)


@njit(cache=True, nogil=True)
def _complete(s: Gaussians, k: int, building: bool, d: Floats, report: Floats) -> int:
    """Class k has |B| waiting rows: test it, reset it at an alarm (Algorithm 3), learn the rows; returns what fired."""
    kind, fired = s.constants[KIND], 0
    if kind == VIGOD and not building:
        fired = _test(s, k, report)
    if fired:
        s.stats[k, BETA] = s.stats[k, MISTAKES] = 0.0
        if s.constants[KEEP] == 0.0:
            s.A[k], s.stats[k, NU], s.stats[k, SHARE] = 0.0, float(s.A.shape[1]), 1.0
        for other in range(s.stats.shape[0]):
            s.stats[other, COUNT] = 1.0
            _weigh(s, other)
    _update(s, k, d)
    if kind == VIGOW and not building:  # Algorithm 4
        s.stats[k, BETA] = s.constants[BATCH]
        _student(s, k)
    return fired


_CUBE, _TABLE, _VECTOR = float64[:, :, ::1], float64[:, ::1], float64[::1]
_ROWS_IN, _LABELS = types.Array(float64, 2, "C", readonly=True), types.Array(float64, 1, "C", readonly=True)
_PARTS = (_CUBE, _CUBE, _CUBE, _CUBE, _TABLE, _TABLE, _VECTOR, _VECTOR)
_STATE = types.NamedTuple(_PARTS, Gaussians)  # type: ignore[no-untyped-call]
_FOUND = types.UniTuple(int64, 2)  # type: ignore[no-untyped-call]


@direct(types.void(_ROWS_IN, _CUBE, _CUBE, _TABLE, int64[::1], _TABLE))
def predict_rows(X: Floats, L: Floats, means: Floats, stats: Floats, value: Ints, p: Floats) -> None:
    """Write classes (n,) and probabilities (n, K) of rows X (n, D) under the current state."""
    x, z = np.empty(X.shape[1]), np.empty(X.shape[1])
    for i in range(X.shape[0]):
        _load(X, i, x)
        value[i] = _classify(L, means, stats, x, z, p, i)


@direct(_FOUND(_ROWS_IN, _LABELS, *_PARTS, int64[::1], _TABLE, _TABLE, int64))
def learn_rows(
    X: Floats, y: Floats, A: Floats, L: Floats, S: Floats, means: Floats, stats: Floats, features: Floats,
    counters: Floats, constants: Floats, value: Ints, p: Floats, report: Floats, start: int
) -> tuple[int, int]:  # fmt: skip
    """Test, then train on rows start, start + 1, ... until one fires an alarm.

    X (n, D) are the rows, or (n, 2 D) with the rows before scaling behind, y (n,) their classes; the parts of
    ``Gaussians`` follow. Value (n,) and p (n, K), a-priori classes and probabilities, are written, report by every
    test. Returns the next row, and what fired at the one before: MEAN_ALARM, ERROR_ALARM, their sum, or 0 at the end.
    """
    s = Gaussians(A, L, S, means, stats, features, counters, constants)
    kind, batch, paper = constants[KIND], constants[BATCH], constants[PAPER] == 1.0
    x, z = np.empty(means.shape[2]), np.empty(means.shape[2])
    for i in range(start, X.shape[0]):
        k = int(y[i])
        _load(X, i, x)
        value[i] = _classify(L, means, stats, x, z, p, i)
        building = stats[k, ROWS] < batch
        if paper:
            building = counters[STAGE] == 0.0 and _leave_building(s)
        grown = _absorb(features, counters, x)
        _wait(S, means, stats, k, x, X[i, X.shape[1] - x.shape[0] :], z)
        stats[k, ROWS] += 1.0
        stats[k, COUNT] += 1.0
        counters[WINDOW] += 1.0
        if kind == VIGOW and counters[WINDOW] >= batch and (counters[STAGE] == 1.0 or not paper):
            _slide(s)
        else:
            _weigh(s, k)
        due = not paper and stats[k, WAITING] >= stats[k, BETA]
        if value[i] != k:
            stats[k, LATEST] += 1.0
            due = True
        fired = 0
        if kind != VIGO and stats[k, WAITING] == batch:
            fired = _complete(s, k, building, z, report)
        elif due and (building or kind == VIGO):  # Algorithm 2
            _update(s, k, z)
        if grown and constants[PRIOR_SIZE] > 0.0:
            for j in range(features.shape[1]):
                features[KNOWN, j] = features[HIGH, j] - features[LOW, j]
            for other in range(stats.shape[0]):
                _factor(s, other)
        if fired:
            return i + 1, fired
    return X.shape[0], 0


@njit(types.void(_STATE, int64), cache=True, nogil=True)
def start_class(s: Gaussians, k: int) -> None:
    """Initialise class k, whose arrays are zero."""
    s.stats[k, NU], s.stats[k, SHARE] = float(s.A.shape[1]), 1.0
    s.stats[k, COUNT] = 1.0 - s.counters[STAGE] if s.constants[KIND] == VIGOW else 1.0
    if s.constants[PRIOR_SIZE] > 0.0:
        put(s.features[LOW], s.means[k, 0])  # the origin of columns scaled to [0, 1]
    _weigh(s, k)
    _student(s, k)
    _factor(s, k)


@njit(types.void(_STATE), cache=True, nogil=True)
def refresh_densities(s: Gaussians) -> None:
    """Recompute everything that depends on beta, nu and counts after they were changed from outside."""
    for k in range(s.stats.shape[0]):
        _weigh(s, k)
        _student(s, k)
