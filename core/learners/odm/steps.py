r"""ODM and dynamic ODM, the paper's equations, compiled: a linear classifier and a restarted bank of them.

Of the paper's numbered equations (1) is ODM before its simplification, (2) to (4) are regret, variation and the
leader that its updates are derived from, (5) is a bound. Everything computed is a line of an algorithm or unnumbered.

**The loss** of a row with target y = +-1 and margin m = y w'x, and what a candidate minimises ("Candidate Learner"):

    l(m) = ([1 - theta - m]_+^2 + mu [m - 1 - theta]_+^2) / (1 - theta)^2
    f(w) = |w|^2 / 2 + lambda l(y w'x)

Margins should be near 1: short ones cost, large ones cost mu times as much, deviations up to theta cost nothing
(lambda: ``loss_weight``, mu: ``deviation_tradeoff``, theta: ``tolerance``).

**A candidate** (``odm`` is one, never restarted) takes one step per row: Algorithm 1, line 6. With s = |x|^2,
eta = 1/(tau + kappa), tau = 1 at its first row, kappa = 2 lambda max(1, mu) q / (1 - theta)^2 and q the mean s of all
rows so far, this one included:

    explicit    w <- w - eta (w + lambda l'(m) y x)
    implicit    w <- argmin_v eta f(v) + |v - w|^2 / 2, in closed form: with a = 2 eta lambda s / (1 - theta)^2,
                m / (1 + eta) < 1 - theta:  m' = (m + a (1 - theta)) / (1 + eta + a)
                                            l' = -2 (1 - theta - m') / (1 - theta)^2
                m / (1 + eta) > 1 + theta:  m' = (m + mu a (1 + theta)) / (1 + eta + mu a)
                                            l' = 2 mu (m' - 1 - theta) / (1 - theta)^2
                else l' = 0;                w <- (w - eta lambda l' y x) / (1 + eta)
    then        w <- w min(1, sqrt(2 lambda) / |w|): f(0) <= lambda, so every minimiser lies in this ball

An implicit step cannot overshoot, whatever eta and x; an explicit one uses the row's own s instead of q if s is larger.
An outlier, s > 2 q, is learned as (2 q / s) x; its prediction uses x itself. A row of weight c has the loss c l; in
explicit steps kappa then has c q instead of q if c > 1, so that they do not overshoot.

**Dynamic ODM** (Algorithm 2) mixes candidates that restart from w = 0 (Algorithm 1, lines 2 to 4) every 8, 16, 32 ...
rows, so that after a change some have only seen later rows. With beta_k their weights, at first 1/K (line 1), and
p_k = w_k'x their a-priori scores, the score is

    o = sum_k beta_k p_k            line 4; vote "majority": sum_k beta_k sign(p_k)

and after each row, with l_k = min(f_k / (4 lambda), 1) at the a-priori w_k, times the row's weight relative to the
largest recent one (core.numerics.weighting),

    beta_k <- beta_k exp(-eps l_k), normalised          line 5; eps = 3
    beta_k <- .999 beta_k + .001 / K                    fixed share

No horizon is needed: candidates whose first epoch has not ended are equal, so one represents all of them. After row
8 2^(K-1) the last of K candidates splits: a restarted copy keeps that epoch and takes 1/(K + 1) of its weight; the
original continues as the longest. After T rows there are about log2(T/8) + 2 candidates, at most 40.

A tracked row has the l_k of the margins by which it was predicted: when its label comes, a short candidate may have
learned rows near it. If d other rows were learned in between, l_k is divided by sqrt(d). All else, also the
probabilities' slope, learns from the scores of now. A candidate that was added since had those of the last one.

**Variant "paper".** Explicit steps; N candidates from the first row on with the epochs of the set P (candidates.py),
and beta proportional to exp(-eps sum min(f_k / C, 1)), eps = sqrt(8 ln N / T) (proof of Theorem 1), computed from the
sums, so that no weight underflows. T is ``horizon``, C ``bound`` and V_T, (3), ``variation``.

    x  (D,) the row with its bias, scaled down if it is larger than 1e60
    W (m, K, D)  candidates w_k of every output column     shares (K,) beta     losses, epochs (K,)

``score`` is inlined by Numba, because LLVM does not inline its calls, which doubles the time per row.

Source: Zhang, Zhao, Jin: Optimal Margin Distribution Learning in Dynamic Environments, AAAI 2020, Algorithms 1 and 2.
Implicit steps: Kulis, Bartlett, ICML 2010. Fixed share: Herbster, Warmuth, Machine Learning 32, 1998.

Deviations
- Algorithm 1, line 6 has a wrong sign; w - eta (w + lambda l' y x), as the text before it derives, is right.
- By default no T, C or V_T: epochs 8 2^i, splitting and fixed share in place of N, P and the paper's eps. V_T grows
  like T on any noisy stream, and then all epochs are short.
- Losses are divided by C and cut at 1, as Lemma 2 needs them within [0, 1].
- Implicit steps by default: explicit ones of constant length diverge once eta lambda is .1 to 1.
- Candidates start from zero, not at random, so that replicas agree; the projection.
- kappa follows the mean of |x|^2, not its maximum, with which one outlier would slow the model for good; outliers are
  scaled down before they are learned.
- The text speaks of a majority vote, Algorithm 2 averages: both are available, the average by default.
- More than two classes (kernels.py), probabilities (core.learners.calibration), random features, weights of rows and
  late labels are not in the paper.
"""

import math

import numpy as np
from numba import njit

from core.contract import Floats, Ints
from core.learners.odm.candidates import PLACES_MAX
from core.numerics.rows import put
from core.numerics.weighting import fixed_share, weigh_by_losses

STEEPNESS, TRADEOFF, LOW, HIGH, RADIUS, STEP, EXPLICIT, GROWS, MAJORITY, PER_LOSS, RATE, SHARE = range(12)
"""Places in the constants: 2 lambda / (1 - theta)^2; mu; 1 - theta; 1 + theta; 2 lambda, the largest |v|^2; a constant
eta, or 0; explicit steps; whether the last candidate splits; majority vote; the inverse of what losses are divided by;
eps of the weights beta; fixed share, or 0: plain exponential weights."""

PARTS = 7
MARGINS, NORMS, TAUS, DECAYS, PULLS, LATEST, SIZES = (part * PLACES_MAX for part in range(PARTS))
"""Where in the work space of a row its parts begin, one place per candidate: margins, |v|^2, tau, the step, losses,
|u|^2. One flat array with fixed places lets LLVM compute several candidates at once."""

SQUARE_MAX = 1e135  # more than |x|^2 of any row: its values are at most ROW_MAX
CANDIDATE_MAX = 1e4
"""More than any value of a candidate: RADIUS is at most 2e6, and twice that with more than two classes."""

ROW_MAX, PREDICTION_MAX = 1e60, 1e300


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
    """Decay and pull of v <- decay v + pull u, for Algorithm 1, line 6; pull: -eta c lambda l', m = v'u, s = |u|^2."""
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
    """The same for gradient steps: Algorithm 1, line 6, with the sign corrected."""
    steepness = counts * constants[STEEPNESS]
    for k in range(K):
        eta = constants[STEP] if constants[STEP] > 0.0 else 1.0 / (work[TAUS + k] + kappa)
        m = work[MARGINS + k]
        work[DECAYS + k] = 1.0 - eta
        short, over = max(constants[LOW] - m, 0.0), max(m - constants[HIGH], 0.0)
        work[PULLS + k] = eta * steepness * (short - constants[TRADEOFF] * over)


@njit(cache=True, nogil=True)
def take_losses(work: Floats, K: int, counts: float, constants: Floats) -> None:
    """The cost of the row for each candidate: c min(f / C, 1), c relative, f as above ("Candidate Learner")."""
    mu, low, high = constants[TRADEOFF], constants[LOW], constants[HIGH]
    steepness, per_loss = constants[STEEPNESS], constants[PER_LOSS]
    for k in range(K):
        m = work[MARGINS + k]
        short, over = max(low - m, 0.0), max(m - high, 0.0)
        f = 0.5 * (work[NORMS + k] + steepness * (short * short + mu * (over * over)))
        work[LATEST + k] = counts * min(f * per_loss, 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def project(work: Floats, K: int, radius: float) -> None:
    """Scale decay and pull down if they would leave the ball |v|^2 <= radius."""
    for k in range(K):
        decay, pull = work[DECAYS + k], work[PULLS + k]
        newer = decay * decay * work[NORMS + k] + 2.0 * decay * pull * work[MARGINS + k] + pull * pull * work[SIZES + k]
        inside = math.sqrt(radius / newer) if newer > radius else 1.0
        work[DECAYS + k] = decay * inside
        work[PULLS + k] = pull * inside


@njit(cache=True, nogil=True, error_model="numpy")
def _bounded(o: float, scale: float, constants: Floats) -> float:
    """The mixed score in the units of the row before scaling, clipped to the largest prediction."""
    score = o if constants[MAJORITY] else o / scale
    return float(min(max(score, -PREDICTION_MAX), PREDICTION_MAX))


@njit(cache=True, nogil=True)
def _ballot(F: Floats, c: int, k: int) -> float:
    """Candidate k's vote for class c: 1 for the class of its largest score, -1 for others, 0 if all scores are equal.

    Up to two classes it is the sign of the only score.
    """
    if F.shape[0] == 1:
        return 1.0 if F[0, k] > 0.0 else -1.0 if F[0, k] < 0.0 else 0.0
    best = least = 0
    for other in range(F.shape[0]):
        best = other if F[other, k] > F[best, k] else best
        least = other if F[other, k] < F[least, k] else least
    return 0.0 if best == least else 1.0 if c == best else -1.0


@njit(cache=True, nogil=True)
def mix(F: Floats, shares: Floats, K: int, scale: float, constants: Floats, scores: Floats, i: int) -> None:
    """Mixed scores of row i from the candidates' F (m, K): Algorithm 2, line 4."""
    m = F.shape[0]
    for c in range(m):
        o = 0.0
        for k in range(K):
            o += shares[k] * (_ballot(F, c, k) if constants[MAJORITY] else F[c, k])
        scores[i, c] = _bounded(o, scale, constants)


@njit(cache=True, nogil=True, error_model="numpy")
def weigh(shares: Floats, losses: Floats, K: int, work: Floats, constants: Floats) -> None:
    """Update beta by a row's losses (Algorithm 2, line 5): fixed share, or plain exponential weights of the sums."""
    latest, eps, share = work[LATEST : LATEST + K], constants[RATE], constants[SHARE]
    for k in range(K):
        losses[k] += latest[k]
    if K == 1:
        return
    if share:
        total = weigh_by_losses(shares[:K], latest, 0.0, eps)
    else:
        shares[:K] = 1.0
        total = weigh_by_losses(shares[:K], losses[:K], np.min(losses[:K]), eps)
    fixed_share(shares[:K], (1.0 - share) / total, 1.0, share / K)


@njit(cache=True, nogil=True)
def restart(W: Floats, shares: Floats, losses: Floats, epochs: Ints, places: Ints, K: int, grows: bool) -> int:
    """Restart candidates at zero when their epoch is over: Algorithm 1, lines 2 to 4. A growing bank's last one splits.

    Returns the new count.
    """
    for k in range(K):
        if places[k] == epochs[k] and not (grows and k == K - 1):
            W[:, k] = 0.0
            places[k] = 0
    if not grows or epochs.shape[0] == K or places[K - 1] < epochs[K - 1]:
        return K
    for t in range(W.shape[0]):
        put(W[t, K - 1], W[t, K])
    losses[K] = losses[K - 1]
    shares[K] = shares[K - 1] * K / (K + 1.0)
    shares[K - 1] /= K + 1.0
    W[:, K - 1] = 0.0
    places[K] = places[K - 1]
    places[K - 1] = 0
    return K + 1
