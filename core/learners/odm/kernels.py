r"""The rows of (dynamic) ODM, compiled: everything that happens once per row (the equations are in learner.py).

All compiled code of the row is in this one file, because Numba's cache watches only the file of the function it
compiled. Sums are taken in one fixed order, without fast-math, so predict and learn, several rows and one, and two
replicas give the same bits. The GIL is released. The two innermost functions are inlined by Numba, because LLVM leaves
their calls standing, at twice the time per row.

    x  (D,) the row with its bias, scaled down if it is larger than 1e60
    W (m, K, D)  candidates w_k of every output column     shares, losses (m, K)     epochs (K,)
"""

import math

import numpy as np
from numba import njit

from core.contract import Floats, Ints
from core.learners.odm.candidates import PLACES_MAX

ROWS, COUNT, SQUARE, MARGIN, MARGIN_VARIANCE, FORGOTTEN = range(6)
"""Places in the counters: rows learned; candidates in use; q, the mean |x|^2; mean and variance of the margin; rows
learned when the past was last forgotten."""

STEEPNESS, TRADEOFF, LOW, HIGH, RADIUS, STEP, EXPLICIT, GROWS, MAJORITY, PER_LOSS, RATE, SHARE = range(12)
"""Places in the constants: 2 lambda / (1 - theta)^2; mu; 1 - theta; 1 + theta; 2 lambda, the largest |w|^2; a constant
eta, or 0; explicit steps; whether the last candidate splits; majority vote; the inverse of what losses are divided by;
eps of the weights; fixed share, or 0: plain exponential weights."""

_MARGIN, _NORM, _TAU, _DECAY, _PULL, _LATEST = (part * PLACES_MAX for part in range(6))
"""Where in the work space of a row its parts begin, one place per candidate: margins, |w|^2, tau, the step, losses. One
flat array with fixed places lets LLVM compute several candidates at once."""

MARGIN_MAX = 10.0
PREDICTION_MAX = 1e300
_MARGIN_RATE = 1e-3
_SQUARE_TIMES = 10.0
_FAR = 2.0
_ROW_MAX = 1e60
_LOSS_MAX = 100.0
"""Most that a row may cost a candidate: a larger loss would leave none of the candidates any weight."""

_ROWS_IN = "Array(f8, 2, 'C', readonly=True)"
_VECTOR_IN = "Array(f8, 1, 'C', readonly=True)"
_CUBE, _MATRIX, _VECTOR, _INTS = "f8[:,:,::1]", "f8[:,::1]", "f8[::1]", "i8[::1]"


@njit(cache=True, nogil=True, error_model="numpy")
def _load(X: Floats, i: int, x: Floats) -> float:
    """Row i of X (n, d) into x (D,) with its bias; scaled to at most 1e60. Returns the scale."""
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
def _square(x: Floats) -> float:
    """Returns s = |x|^2."""
    s0 = s1 = s2 = s3 = 0.0
    D = x.shape[0]
    whole = D // 4 * 4
    for j in range(0, whole, 4):
        s0 += x[j] * x[j]
        s1 += x[j + 1] * x[j + 1]
        s2 += x[j + 2] * x[j + 2]
        s3 += x[j + 3] * x[j + 3]
    for j in range(whole, D):
        s0 += x[j] * x[j]
    return (s0 + s1) + (s2 + s3)


@njit(cache=True, nogil=True, inline="always")
def _score(W: Floats, c: int, k: int, x: Floats) -> tuple[float, float]:
    """Returns w'x and |w|^2 of candidate k of column c, in one pass."""
    s0 = s1 = s2 = s3 = 0.0
    n0 = n1 = n2 = n3 = 0.0
    D = x.shape[0]
    whole = D // 4 * 4
    for j in range(0, whole, 4):
        w0, w1, w2, w3 = W[c, k, j], W[c, k, j + 1], W[c, k, j + 2], W[c, k, j + 3]
        s0 += w0 * x[j]
        s1 += w1 * x[j + 1]
        s2 += w2 * x[j + 2]
        s3 += w3 * x[j + 3]
        n0 += w0 * w0
        n1 += w1 * w1
        n2 += w2 * w2
        n3 += w3 * w3
    for j in range(whole, D):
        w = W[c, k, j]
        s0 += w * x[j]
        n0 += w * w
    return (s0 + s1) + (s2 + s3), (n0 + n1) + (n2 + n3)


@njit(cache=True, nogil=True)
def _vote(score: float, share: float, constants: Floats) -> float:
    """What a candidate adds to the mixed score."""
    if constants[MAJORITY]:
        return share if score > 0.0 else -share if score < 0.0 else 0.0
    return share * score


@njit(cache=True, nogil=True, error_model="numpy")
def _bounded(o: float, scale: float, constants: Floats) -> float:
    """The mixed score in the units of the row before it was scaled, within the largest prediction."""
    score = o if constants[MAJORITY] else o / scale
    return float(min(max(score, -PREDICTION_MAX), PREDICTION_MAX))


@njit(
    f"void({_ROWS_IN}, {_CUBE}, {_MATRIX}, {_VECTOR}, {_VECTOR}, {_MATRIX})",
    cache=True,
    nogil=True,
    error_model="numpy",
)
def predict_rows(X: Floats, W: Floats, shares: Floats, constants: Floats, counters: Floats, scores: Floats) -> None:
    """Mixed scores (n, m) of n rows under the state as it is."""
    x = np.empty(W.shape[2])
    for i in range(X.shape[0]):
        scale = _load(X, i, x)
        for c in range(W.shape[0]):
            o = 0.0
            for k in range(int(counters[COUNT])):
                o += _vote(_score(W, c, k, x)[0], shares[c, k], constants)
            scores[i, c] = _bounded(o, scale, constants)


@njit(cache=True, nogil=True, error_model="numpy")
def _implicit_steps(work: Floats, K: int, s: float, kappa: float, counts: float, constants: Floats) -> None:
    """Shrink and pull of w <- decay w + pull y x from the margins m = y w'x and s = |x|^2; pull: -eta c lambda l'."""
    mu, low, high = constants[TRADEOFF], constants[LOW], constants[HIGH]
    steepness, constant = counts * constants[STEEPNESS], constants[STEP]
    for k in range(K):
        eta = constant if constant > 0.0 else 1.0 / (work[_TAU + k] + kappa)
        m, decay, strength = work[_MARGIN + k], 1.0 / (1.0 + eta), eta * steepness
        short = m * decay < low
        weight, edge = (1.0 if short else mu), (low if short else high)
        a = weight * strength * s
        pull = decay * strength * weight * (edge - (m + a * edge) / (1.0 + eta + a))
        work[_DECAY + k] = decay
        work[_PULL + k] = pull if short or m * decay > high else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _explicit_steps(work: Floats, K: int, kappa: float, counts: float, constants: Floats) -> None:
    """The same for gradient steps."""
    steepness = counts * constants[STEEPNESS]
    for k in range(K):
        eta = constants[STEP] if constants[STEP] > 0.0 else 1.0 / (work[_TAU + k] + kappa)
        m = work[_MARGIN + k]
        work[_DECAY + k] = 1.0 - eta
        short, over = max(constants[LOW] - m, 0.0), max(m - constants[HIGH], 0.0)
        work[_PULL + k] = eta * steepness * (short - constants[TRADEOFF] * over)


@njit(cache=True, nogil=True)
def _losses(work: Floats, K: int, counts: float, constants: Floats) -> None:
    """What the row costs every candidate: c min(f / bound, 1) with f = |w|^2 / 2 + lambda l at its margin."""
    mu, low, high = constants[TRADEOFF], constants[LOW], constants[HIGH]
    steepness, per_loss = constants[STEEPNESS], constants[PER_LOSS]
    for k in range(K):
        m = work[_MARGIN + k]
        short, over = max(low - m, 0.0), max(m - high, 0.0)
        f = 0.5 * (work[_NORM + k] + steepness * (short * short + mu * (over * over)))
        work[_LATEST + k] = min(counts * min(f * per_loss, 1.0), _LOSS_MAX)


@njit(cache=True, nogil=True, error_model="numpy")
def _project(work: Floats, K: int, s: float, radius: float) -> None:
    """Shrink and pull scaled down where they would lead out of the ball |w|^2 <= radius."""
    for k in range(K):
        decay, pull = work[_DECAY + k], work[_PULL + k]
        newer = decay * decay * work[_NORM + k] + 2.0 * decay * pull * work[_MARGIN + k] + pull * pull * s
        inside = math.sqrt(radius / newer) if newer > radius else 1.0
        work[_DECAY + k] = decay * inside
        work[_PULL + k] = pull * inside


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _learn_column(
    W: Floats, shares: Floats, c: int, x: Floats, s: float, shrink: float, target: float, kappa: float, counts: float,
    K: int, constants: Floats, work: Floats,
) -> float:  # fmt: skip
    """Test the candidates of a column on x, with s = |x|^2, and train them on shrink x; their mixed score."""
    o = 0.0
    for k in range(K):
        f, work[_NORM + k] = _score(W, c, k, x)
        work[_MARGIN + k] = target * f * shrink
        o += _vote(f, shares[c, k], constants)
    square = s * shrink * shrink
    whole = (K + 7) // 8 * 8  # full vectors: places beyond the last candidate are not used
    if constants[EXPLICIT]:
        _explicit_steps(work, whole, kappa, counts, constants)
    else:
        _implicit_steps(work, whole, square, kappa, counts, constants)
    _losses(work, whole, counts, constants)
    _project(work, whole, square, constants[RADIUS])
    for k in range(K):
        decay, pull = work[_DECAY + k], work[_PULL + k] * target * shrink
        for j in range(x.shape[0]):
            W[c, k, j] = decay * W[c, k, j] + pull * x[j]
    return o


@njit(cache=True, nogil=True, error_model="numpy")
def _weigh(shares: Floats, losses: Floats, c: int, K: int, work: Floats, constants: Floats) -> None:
    """Shares after a row with its losses: fixed share, or plain exponential weights of the sums."""
    for k in range(K):
        losses[c, k] += work[_LATEST + k]
    if K == 1:
        return
    if constants[SHARE]:
        for k in range(K):
            shares[c, k] *= math.exp(-constants[RATE] * work[_LATEST + k])
    else:
        least = np.min(losses[c, :K])
        for k in range(K):
            shares[c, k] = math.exp(-constants[RATE] * (losses[c, k] - least))
    total = 0.0
    for k in range(K):
        total += shares[c, k]
    kept, even = (1.0 - constants[SHARE]) / total, constants[SHARE] / K
    for k in range(K):
        shares[c, k] = shares[c, k] * kept + even


@njit(cache=True, nogil=True)
def _clear(W: Floats, k: int) -> None:
    """Candidate k of every column is zero again."""
    for c in range(W.shape[0]):
        for j in range(W.shape[2]):
            W[c, k, j] = 0.0


@njit(cache=True, nogil=True)
def _restart(W: Floats, shares: Floats, losses: Floats, epochs: Ints, places: Ints, K: int, grows: bool) -> int:
    """Candidates whose epoch is over start again from zero; a growing bank's last one splits. The new count."""
    for k in range(K):
        if places[k] == epochs[k] and not (grows and k == K - 1):
            _clear(W, k)
            places[k] = 0
    if not grows or epochs.shape[0] == K or places[K - 1] < epochs[K - 1]:
        return K
    for c in range(W.shape[0]):
        for j in range(W.shape[2]):
            W[c, K, j] = W[c, K - 1, j]
        losses[c, K] = losses[c, K - 1]
        shares[c, K] = shares[c, K - 1] * K / (K + 1.0)
        shares[c, K - 1] /= K + 1.0
    _clear(W, K - 1)
    places[K] = places[K - 1]
    places[K - 1] = 0
    return K + 1


@njit(cache=True, nogil=True)
def _target(label: float, c: int, columns: int) -> float:
    """+1 or -1: one column for up to two classes (class 1 is +1), then one per class."""
    return 1.0 if label == (1.0 if columns == 1 else c) else -1.0


@njit(cache=True, nogil=True)
def _absorb_square(s: float, counters: Floats) -> None:
    """Q with this row, which counts as at most ten times q."""
    q = counters[SQUARE]
    counted = min(s, _SQUARE_TIMES * q) if q > 0.0 else s
    counters[SQUARE] += (counted - q) / (counters[ROWS] + 1.0)


@njit(cache=True, nogil=True)
def _absorb_margin(scores: Floats, i: int, label: float, counters: Floats) -> None:
    """Mean and variance of the margin: half the distance from the score of the row's class to the best other one."""
    if scores.shape[1] == 1:
        margin = scores[i, 0] * _target(label, 0, 1)
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


@njit(
    f"void({_ROWS_IN}, {_VECTOR_IN}, {_VECTOR_IN}, "
    f"{_CUBE}, {_MATRIX}, {_MATRIX}, {_INTS}, {_VECTOR}, {_VECTOR}, {_MATRIX})",
    cache=True,
    nogil=True,
    error_model="numpy",
)
def learn_rows(
    X: Floats,
    y: Floats,
    weights: Floats,
    W: Floats,
    shares: Floats,
    losses: Floats,
    epochs: Ints,
    constants: Floats,
    counters: Floats,
    scores: Floats,
) -> None:
    """Test, then train on n rows in turn.

    Args:
        X: (n, d) rows.
        y: (n,) class indices as floats.
        weights: (n,) of the rows, or (0,): every row counts once.
        W: (m, K, D) candidates, updated in place like the two that follow; places beyond the count are not read.
        shares: (m, K) weights b of the candidates.
        losses: (m, K) their summed losses.
        epochs: (K,) rows after which they start again.
        constants: see STEEPNESS and the others.
        counters: see ROWS and the others; updated.
        scores: (n, m) a-priori mixed scores, written.
    """
    m = W.shape[0]
    K = int(counters[COUNT])
    x, work = np.empty(W.shape[2]), np.zeros(6 * PLACES_MAX)
    places = int(counters[ROWS]) % epochs
    if constants[GROWS]:
        places[K - 1] = int(counters[ROWS])  # the last one never starts again
    steep = constants[STEEPNESS] * max(1.0, constants[TRADEOFF])
    for i in range(X.shape[0]):
        scale = _load(X, i, x)
        s = _square(x)
        _absorb_square(s, counters)
        q = counters[SQUARE]
        shrink = _FAR * q / s if s > _FAR * q else 1.0
        counts = weights[i] if weights.shape[0] else 1.0
        kappa = steep * (max(counts, 1.0) * max(q, s * shrink * shrink) if constants[EXPLICIT] else q)
        since = counters[ROWS] + 1.0 - counters[FORGOTTEN]
        for k in range(K):
            places[k] += 1
            work[_TAU + k] = min(float(places[k]), since)
        for c in range(m):
            target = _target(y[i], c, m)
            o = _learn_column(W, shares, c, x, s, shrink, target, kappa, counts, K, constants, work)
            scores[i, c] = _bounded(o, scale, constants)
            _weigh(shares, losses, c, K, work, constants)
        counters[ROWS] += 1.0
        _absorb_margin(scores, i, y[i], counters)
        K = _restart(W, shares, losses, epochs, places, K, constants[GROWS] > 0.0)
    counters[COUNT] = K
