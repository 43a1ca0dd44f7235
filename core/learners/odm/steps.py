r"""The steps of the candidates of (dynamic) ODM, compiled (the equations are in learner.py).

Sums are taken in one fixed order, without fast-math, so predict and learn, several rows and one, and two replicas give
the same bits. ``score`` is inlined by Numba, because LLVM leaves its calls standing, at twice the time per row. The
rows are those of kernels.py.

    x  (D,) the row with its bias, scaled down if it is larger than 1e60
    W (m, K, D)  candidates w_k of every output column     shares, losses, epochs (K,)
"""

import math

import numpy as np
from numba import njit

from core.contract import Floats, Ints
from core.learners.odm.candidates import PLACES_MAX
from core.numerics.weighting import fixed_share, weigh_by_losses

STEEPNESS, TRADEOFF, LOW, HIGH, RADIUS, STEP, EXPLICIT, GROWS, MAJORITY, PER_LOSS, RATE, SHARE = range(12)
"""Places in the constants: 2 lambda / (1 - theta)^2; mu; 1 - theta; 1 + theta; 2 lambda, the largest |v|^2; a constant
eta, or 0; explicit steps; whether the last candidate splits; majority vote; the inverse of what losses are divided by;
eps of the weights; fixed share, or 0: plain exponential weights."""

PARTS = 7
MARGINS, NORMS, TAUS, DECAYS, PULLS, LATEST, SIZES = (part * PLACES_MAX for part in range(PARTS))
"""Where in the work space of a row its parts begin, one place per candidate: margins, |v|^2, tau, the step, losses,
|u|^2. One flat array with fixed places lets LLVM compute several candidates at once."""

LOSS_MAX = 100.0
"""Most that a row may cost a candidate, whatever its weight: more would leave none of the candidates any weight."""
SQUARE_MAX = 1e135
"""More than |x|^2 of any row: its values are at most ROW_MAX."""
CANDIDATE_MAX = 1e4
"""More than any value of a candidate: RADIUS is at most 2e6, and twice that with more than two classes."""

ROW_MAX = 1e60


@njit(cache=True, nogil=True, inline="always")
def score(W: Floats, c: int, k: int, x: Floats) -> tuple[float, float]:
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


@njit(cache=True, nogil=True, error_model="numpy")
def implicit_steps(work: Floats, K: int, kappa: float, counts: float, constants: Floats) -> None:
    """Shrink and pull of v <- decay v + pull u from the margins m = v'u and s = |u|^2; pull: -eta c lambda l'."""
    mu, low, high = constants[TRADEOFF], constants[LOW], constants[HIGH]
    steepness, constant = counts * constants[STEEPNESS], constants[STEP]
    for k in range(K):
        eta = constant if constant > 0.0 else 1.0 / (work[TAUS + k] + kappa)
        m, decay, strength = work[MARGINS + k], 1.0 / (1.0 + eta), eta * steepness
        short = m * decay < low
        weight, edge = (1.0 if short else mu), (low if short else high)
        a = weight * strength * work[SIZES + k]
        pull = decay * strength * weight * (edge - (m + a * edge) / (1.0 + eta + a))
        work[DECAYS + k] = decay
        work[PULLS + k] = pull if short or m * decay > high else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def explicit_steps(work: Floats, K: int, kappa: float, counts: float, constants: Floats) -> None:
    """The same for gradient steps."""
    steepness = counts * constants[STEEPNESS]
    for k in range(K):
        eta = constants[STEP] if constants[STEP] > 0.0 else 1.0 / (work[TAUS + k] + kappa)
        m = work[MARGINS + k]
        work[DECAYS + k] = 1.0 - eta
        short, over = max(constants[LOW] - m, 0.0), max(m - constants[HIGH], 0.0)
        work[PULLS + k] = eta * steepness * (short - constants[TRADEOFF] * over)


@njit(cache=True, nogil=True)
def take_losses(work: Floats, K: int, counts: float, constants: Floats) -> None:
    """What the row costs every candidate: c min(f / bound, 1) with f = |v|^2 / 2 + lambda l at its margin."""
    mu, low, high = constants[TRADEOFF], constants[LOW], constants[HIGH]
    steepness, per_loss = constants[STEEPNESS], constants[PER_LOSS]
    for k in range(K):
        m = work[MARGINS + k]
        short, over = max(low - m, 0.0), max(m - high, 0.0)
        f = 0.5 * (work[NORMS + k] + steepness * (short * short + mu * (over * over)))
        work[LATEST + k] = min(counts * min(f * per_loss, 1.0), LOSS_MAX)


@njit(cache=True, nogil=True, error_model="numpy")
def project(work: Floats, K: int, radius: float) -> None:
    """Shrink and pull scaled down where they would lead out of the ball |v|^2 <= radius."""
    for k in range(K):
        decay, pull = work[DECAYS + k], work[PULLS + k]
        newer = decay * decay * work[NORMS + k] + 2.0 * decay * pull * work[MARGINS + k] + pull * pull * work[SIZES + k]
        inside = math.sqrt(radius / newer) if newer > radius else 1.0
        work[DECAYS + k] = decay * inside
        work[PULLS + k] = pull * inside


@njit(cache=True, nogil=True, error_model="numpy")
def weigh(shares: Floats, losses: Floats, K: int, work: Floats, constants: Floats) -> None:
    """Shares after a row with its losses: fixed share, or plain exponential weights of the sums."""
    latest, rate, eps = work[LATEST : LATEST + K], constants[RATE], constants[SHARE]
    for k in range(K):
        losses[k] += latest[k]
    if K == 1:
        return
    if eps:
        total = weigh_by_losses(shares[:K], latest, 0.0, rate)
    else:
        shares[:K] = 1.0
        total = weigh_by_losses(shares[:K], losses[:K], np.min(losses[:K]), rate)
    fixed_share(shares[:K], (1.0 - eps) / total, 1.0, eps / K)


@njit(cache=True, nogil=True)
def _clear(W: Floats, k: int) -> None:
    """Candidate k of every column is zero again."""
    for c in range(W.shape[0]):
        for j in range(W.shape[2]):
            W[c, k, j] = 0.0


@njit(cache=True, nogil=True)
def restart(W: Floats, shares: Floats, losses: Floats, epochs: Ints, places: Ints, K: int, grows: bool) -> int:
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
    losses[K] = losses[K - 1]
    shares[K] = shares[K - 1] * K / (K + 1.0)
    shares[K - 1] /= K + 1.0
    _clear(W, K - 1)
    places[K] = places[K - 1]
    places[K - 1] = 0
    return K + 1
