r"""The rows of (dynamic) ODM, compiled: everything that happens once per row. The paper's equations are in steps.py.

Sums are taken in one fixed order, without fast-math, so predict and learn, several rows and one, and two replicas give
the same bits. The GIL is released. Numba inlines the calls that LLVM would keep, at twice the time per row.

**Classes.** Two share one column w. From the third on each has a column w_c (core.learners.linear), a candidate is all
of them, and beta weighs whole candidates. With y the class of a row, its margin is half the distance to the mean of its
rivals, each counted by the share p_c that exp(w_c'x) has among them:

    m = (w_y'x - sum_{c != y} p_c w_c'x) / 2             f = sum_c |w_c|^2 / 4 + lambda l(m)

and the steps of steps.py apply with v = W / sqrt 2 for w and u for y x, where m = v'u with p held constant:

    |v|^2 = sum_c |w_c|^2 / 2     |u|^2 = (1 + sum_c p_c^2) |x|^2 / 2     w_y moves along x, w_c along -p_c x

With w_1 = -w_0 = w this reduces to two classes. The columns sum to zero; a new class starts at their mean, which never
scores best. In a majority vote each candidate votes for one class.

More than two classes follow Zhang, Zhou: Multi-Class Optimal Margin Distribution Machine, ICML 2017, except that there
the best rival represents all of them: with noisy labels their mean does better.
"""

import math

import numpy as np
from numba import njit

from core.contract import CLASSES, CUBE, NUMBERS_IN, ROWS_IN, TABLE, VECTOR, Floats, Ints, direct
from core.learners.calibration import classify_rows
from core.learners.odm import steps
from core.learners.odm.candidates import PLACES_MAX
from core.numerics.rows import dot, load
from core.numerics.weighting import relative

ROWS, COUNT, SQUARE, MARGIN, MARGIN_VARIANCE, FORGOTTEN, HEAVIEST = range(7)
"""Places in the counters: rows learned; candidates in use; q, the mean |x|^2; mean and variance of the margin; rows
learned when the past was last forgotten; the largest recent weight of a row."""

LAST, PREDICTED, COLUMNS, FORMER, SCORES = range(5)
"""Places in what is told of a tracked row: the last label when it was predicted, which is not read; the rows learned by
then; m; candidates in use; where their scores (m, K) begin."""

MARGIN_MAX = 10.0
_MARGIN_RATE = 1e-3
_SQUARE_TIMES = 10.0
_FAR = 2.0

_STATE = f"{CUBE}, {VECTOR}, {VECTOR}, {VECTOR}, {VECTOR}"
_SAID = f"{CLASSES}, {TABLE}, {TABLE}, {TABLE}"


@njit(cache=True, nogil=True, error_model="numpy")
def _step(work: Floats, K: int, kappa: float, counts: float, share: float, constants: Floats) -> None:
    """Compute the candidates' steps and losses from their margins, |v|^2 and |u|^2.

    ``share`` is the row's weight, ``counts``, relative to the largest recent one.
    """
    whole = (K + 7) // 8 * 8  # full vectors: places beyond the last candidate are not used
    if constants[steps.EXPLICIT]:
        steps.explicit_steps(work, whole, kappa, counts, constants)
    else:
        steps.implicit_steps(work, whole, kappa, counts, constants)
    steps.take_losses(work, whole, share, constants)
    steps.project(work, whole, constants[steps.RADIUS])


@njit(cache=True, nogil=True, error_model="numpy")
def _face_rivals(F: Floats, pulls: Floats, k: int, label: int, s: float, shrink: float, work: Floats) -> None:
    """Write candidate k's margin and |u|^2 into ``work``, and the row's pull on each column into ``pulls`` (m, K).

    |u|^2 is (1 + sum p_c^2) |x|^2 / 2 for rivals of the shares p_c. Up to two classes, there is one column: the margin
    is w'x with the sign of the class, and |u|^2 is |x|^2.
    """
    m = F.shape[0]
    if m == 1:
        pulls[0, k] = shrink if label == 1 else -shrink
        work[steps.MARGINS + k] = pulls[0, k] * F[0, k]
        work[steps.SIZES + k] = s * shrink * shrink
        return
    top = -np.inf
    for c in range(m):
        if c != label:
            top = max(top, F[c, k])
    total = squares = rival = 0.0
    for c in range(m):
        p = math.exp(shrink * (F[c, k] - top)) if c != label else 0.0
        pulls[c, k] = p
        total += p
        squares += p * p
        rival += p * F[c, k]
    for c in range(m):
        pulls[c, k] = -shrink * pulls[c, k] / total
    pulls[label, k] = shrink
    work[steps.MARGINS + k] = 0.5 * shrink * (F[label, k] - rival / total)
    work[steps.SIZES + k] = 0.5 * (1.0 + squares / (total * total)) * s * shrink * shrink


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _test(W: Floats, x: Floats, K: int, F: Floats, work: Floats) -> None:
    """Scores F (m, K) of the candidates for x, and their |v|^2."""
    m = W.shape[0]
    half = 0.5 if m > 1 else 1.0
    for k in range(K):
        work[steps.NORMS + k] = 0.0
    for c in range(m):
        for k in range(K):
            F[c, k], norm = steps.score(W, c, k, x)
            work[steps.NORMS + k] += half * norm


@njit(cache=True, nogil=True)
def _recall(told: Floats, i: int, F: Floats, K: int) -> bool:
    """Write the scores that K candidates had when row i was predicted into F (m, K), if they are known.

    A candidate that a split has added since had those of the last one.
    """
    m = F.shape[0]
    if i >= told.shape[0] or told.shape[1] <= SCORES or told[i, COLUMNS] != m:
        return False
    former = int(told[i, FORMER])
    if former < 1 or SCORES + m * former > told.shape[1]:
        return False
    for c in range(m):
        for k in range(K):
            F[c, k] = told[i, SCORES + c * former + min(k, former - 1)]
    return True


@njit(cache=True, nogil=True)
def _absorb_square(s: float, counters: Floats) -> None:
    """Update q with this row, which counts as at most ten times q."""
    q = counters[SQUARE]
    counted = min(s, _SQUARE_TIMES * q) if q > 0.0 else s
    counters[SQUARE] += (counted - q) / (counters[ROWS] + 1.0)


@njit(cache=True, nogil=True)
def _absorb_margin(scores: Floats, i: int, label: float, counters: Floats) -> None:
    """Update mean and variance of the margin: half the score of the row's class minus half the best other score."""
    if scores.shape[1] == 1:
        margin = scores[i, 0] if label == 1.0 else -scores[i, 0]
    else:
        best = -np.inf
        for c in range(scores.shape[1]):
            if c != label:
                best = max(best, scores[i, c])
        margin = 0.5 * scores[i, int(label)] - 0.5 * best
    rate = max(1.0 / counters[ROWS], _MARGIN_RATE)
    d = min(max(margin, -MARGIN_MAX), MARGIN_MAX) - counters[MARGIN]
    counters[MARGIN] += rate * d
    counters[MARGIN_VARIANCE] = (1.0 - rate) * (counters[MARGIN_VARIANCE] + rate * d * d)


@direct(f"void({ROWS_IN}, {NUMBERS_IN}, {NUMBERS_IN}, {_STATE}, {VECTOR}, {CLASSES}, {_SAID})", error_model="numpy")
def learn_rows(
    X: Floats, y: Floats, weights: Floats, W: Floats, shares: Floats, constants: Floats, counters: Floats,
    calibration: Floats, losses: Floats, epochs: Ints, value: Ints, p: Floats, told: Floats, said: Floats,
) -> None:  # fmt: skip
    """Test n rows in turn; with labels, train on each after its test.

    Args:
        X: (n, d) rows.
        y: (n,) class indices as floats; (0,): nothing is learned.
        weights: (n,) of the rows, or (0,): every row counts once.
        W: (m, K, D) candidates; updated, as is all that follows unless noted; places beyond the count are not read.
        shares: (K,) weights b of the candidates.
        constants: see STEEPNESS and the others; not changed.
        counters: see ROWS and the others.
        calibration: of the probabilities.
        losses: (K,) the candidates' summed losses.
        epochs: (K,) rows after which they restart; not changed.
        value: (n,) a-priori classes, written.
        p: (n, classes) their probabilities, written.
        told: (n, W) see LAST and the others, NaN for rows that were not tracked; or (0, 0). Not changed.
        said: (n, m K) the candidates' scores, written; or (0, 0).
    """
    m = W.shape[0]
    scores = np.empty((X.shape[0], m))
    K = int(counters[COUNT])
    x, work = np.empty(W.shape[2]), np.zeros(steps.PARTS * PLACES_MAX)
    F, pulls = np.empty((m, W.shape[1])), np.empty((m, W.shape[1]))
    places = int(counters[ROWS]) % epochs if y.shape[0] else epochs[:0]
    if y.shape[0] and constants[steps.GROWS]:
        places[K - 1] = int(counters[ROWS])  # the last one never restarts
    steep = constants[steps.STEEPNESS] * max(1.0, constants[steps.TRADEOFF])
    for i in range(X.shape[0]):
        scale = load(X, i, x, steps.ROW_MAX)
        _test(W, x, K, F, work)
        steps.mix(F, shares, K, scale, constants, scores, i)
        for c in range(m if said.shape[0] else 0):
            said[i, c * K : (c + 1) * K] = F[c, :K]
        if not y.shape[0]:
            continue
        s = dot(x, x)
        _absorb_square(s, counters)
        q = counters[SQUARE]
        shrink = _FAR * q / s if s > _FAR * q else 1.0
        counts = weights[i] if weights.shape[0] else 1.0
        kappa = steep * (max(counts, 1.0) * max(q, s * shrink * shrink) if constants[steps.EXPLICIT] else q)
        since = counters[ROWS] + 1.0 - counters[FORGOTTEN]
        for k in range(K):
            places[k] += 1
            work[steps.TAUS + k] = min(float(places[k]), since)
            _face_rivals(F, pulls, k, int(y[i]), s, shrink, work)
        share = relative(counts, counters, HEAVIEST)
        _step(work, K, kappa, counts, share, constants)
        for c in range(m):
            for k in range(K):
                decay, pull = work[steps.DECAYS + k], work[steps.PULLS + k] * pulls[c, k]
                for j in range(x.shape[0]):
                    W[c, k, j] = decay * W[c, k, j] + pull * x[j]
        if _recall(told, i, F, K):
            for k in range(K):
                _face_rivals(F, pulls, k, int(y[i]), s, shrink, work)
            late = max(counters[ROWS] - told[i, PREDICTED], 1.0)
            steps.take_losses(work, K, share / math.sqrt(late), constants)
        steps.weigh(shares, losses, K, work, constants)
        counters[ROWS] += 1.0
        _absorb_margin(scores, i, y[i], counters)
        K = steps.restart(W, shares, losses, epochs, places, K, constants[steps.GROWS] > 0.0)
    counters[COUNT] = K
    classify_rows(scores, y, weights, calibration, value, p)
