r"""Experts that are weighed by their losses, compiled: exponential weights, fixed share, and a pool moved by AdaGrad.

For a row, l_k the loss of expert k = 1 ... K and w_k its weight, 1/K at the start:

    exponential weights   w_k <- w_k exp(-min(eta (l_k - least), 700))   least: min l, or 0 where losses are in [0, 1]
    fixed share           w_k <- (1 - eps) w_k / sum w + eps / K         an expert without weight can regain it
    shares                a_k ~ max(w_k - 2 eps / K, 0)                  sum to 1; a prediction is o = sum_k a_k p_k
    loss to expect        D <- D + r ((o - y)^2 - D)                     r = c max(1/t, .001)

    logarithmic pool      q ~ exp(h + sum_k v_k f_k)                     f_k: log probabilities of the classes, less h
    AdaGrad               g_k = c (f_ky - E_q[f_k])                      y the row's class, c its weight
                          G_k <- .9995 G_k + g_k^2                       v_k <- v_k + .15 g_k / sqrt(G_k + G_0), within
                                                                         +-20; G_0: the larger, the slower at first

**Weights of rows.** Exponential weights average over experts only while c eta is small, and a Newton step that is c
times as long outruns the curvature that it is divided by. Code that weighs or calibrates experts therefore uses
a row's weight relative to the largest recent one:

    M <- max(c, .999 M)                    c <- c / M, at most 1

If all rows have the same weight, it changes nothing; a single heavy row is forgotten after a few thousand rows.

**Labels that jump.** The fixed share alone keeps every w_k at eps / K or, if losses are capped, at up to twice that. If
labels jump by J, experts that never forget stay off by J, and each would move o by J eps / K: so o leaves it out.

The loss of a number is its squared error in units of D. A row with a large error counts fully in the D that weighs it,
but at most as a multiple of D in the D of later rows. Otherwise a few rows after a jump, or one label of 1e20, would
make all losses of the next thousands of rows negligible.

These functions are compiled into the kernels that call them. Numba's cache watches only the kernels' own files; `make`
compiles them again when this one changes.

Sources: exponential weights, fixed share: Herbster, Warmuth: Tracking the best expert, Machine Learning 32, 1998;
logarithmic pools: Hinton, Training Products of Experts, Neural Computation 14, 2002; AdaGrad: Duchi, Hazan, Singer,
JMLR 12, 2011.
"""

import math

from numba import njit

from core.contract import VECTOR, Floats

FIXED_SHARE = 1e-3  # the eps of most mixtures
HEAVIEST_KEPT = 0.999
LOSS_RATE = 1e-3
POOL_MAX = 20.0

_EXPONENT_MAX = 700.0
_SQUARED_MAX, _LOSS_MIN = 1e150, 1e-300
_POOL_RATE, _POOL_DECAY = 0.15, 0.9995


@njit(cache=True, nogil=True, error_model="numpy")
def relative(weight: float, state: Floats, place: int) -> float:
    """A row's weight relative to the largest recent one, M, which is at a place in the state and starts at 0."""
    state[place] = max(weight, HEAVIEST_KEPT * state[place])
    return float(weight / state[place])


@njit(cache=True, nogil=True)
def weigh_by_losses(weights: Floats, losses: Floats, least: float, eta: float) -> float:
    """Exponential weights (K,), in place, not normalised; returns their sum."""
    total = 0.0
    for k in range(weights.shape[0]):
        weights[k] *= math.exp(-min(eta * (losses[k] - least), _EXPONENT_MAX))
        total += weights[k]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def fixed_share(weights: Floats, kept: float, total: float, even: float) -> None:
    """The fixed share of weights (K,), in place: kept = 1 - eps, total = sum w, even = eps / K."""
    for k in range(weights.shape[0]):
        weights[k] = kept * weights[k] / total + even


@njit(cache=True, nogil=True)
def weigh_and_share(weights: Floats, losses: Floats, least: float, eta: float) -> None:
    """Exponential weights and a fixed share of FIXED_SHARE."""
    total = weigh_by_losses(weights, losses, least, eta)
    fixed_share(weights, 1.0 - FIXED_SHARE, total, FIXED_SHARE / weights.shape[0])


@njit(f"void({VECTOR}, {VECTOR})", cache=True, nogil=True, error_model="numpy")
def take_shares(weights: Floats, shares: Floats) -> None:
    """Write the shares a (K,) that experts of weights (K,) have in a prediction."""
    least, total = 2.0 * FIXED_SHARE / weights.shape[0], 0.0
    for k in range(weights.shape[0]):
        shares[k] = max(weights[k] - least, 0.0)
        total += shares[k]
    for k in range(weights.shape[0]):
        shares[k] /= total


@njit(cache=True, nogil=True)
def bounded_square(difference: float) -> float:
    """difference^2, finite."""
    bounded = min(abs(difference), _SQUARED_MAX)
    return bounded * bounded


@njit(cache=True, nogil=True)
def winsorised(miss: float, loss: float, most: float) -> float:
    """What a row's squared error counts as: at most ``most`` (inf: no limit) times the loss to expect so far."""
    return most * loss if 0.0 < most * loss < miss else miss


@njit(cache=True, nogil=True)
def expect(loss: float, miss: float, weight: float, rows: float, most: float) -> tuple[float, float, float]:
    """D for this row and for later ones, from the D so far and the row's squared error; and what that error counted as.

    ``weight`` is relative; ``rows``: the number learned before; ``most``: see ``winsorised``.
    """
    rate = weight * max(1.0 / (rows + 1.0), LOSS_RATE)
    counted = winsorised(miss, loss, most)
    return max(loss + rate * (miss - loss), _LOSS_MIN), loss + rate * (counted - loss), counted


@njit(cache=True, nogil=True)
def deviation(weights: Floats, variances: Floats, numbers: Floats, mixed: float) -> float:
    """sqrt(sum_k w_k (s_k + (p_k - o)^2)) of numbers p (K,) with variances s (K,), their mixture o."""
    variance = 0.0
    for k in range(weights.shape[0]):
        variance += weights[k] * (variances[k] + bounded_square(numbers[k] - mixed))
    return math.sqrt(variance)


@njit(cache=True, nogil=True, error_model="numpy")
def softmax(s: Floats, p: Floats) -> None:
    """Probabilities p (K,) ~ exp(s), s (K,); both may be one array."""
    top, total = s.max(), 0.0
    for k in range(s.shape[0]):
        p[k] = math.exp(s[k] - top)
        total += p[k]
    for k in range(s.shape[0]):
        p[k] /= total


@njit(cache=True, nogil=True, error_model="numpy")
def log_pool(weights: Floats, features: Floats, q: Floats) -> None:
    """Turn q (classes,), at first h, into the pool of log probabilities f (K, classes) by weights v (K,)."""
    for k in range(weights.shape[0]):
        for c in range(q.shape[0]):
            q[c] += weights[k] * features[k, c]
    softmax(q, q)


@njit(cache=True, nogil=True, error_model="numpy")
def fit_pool(
    weights: Floats, squares: Floats, features: Floats, q: Floats, y: int, weight: float, prior: float
) -> None:
    """A step of AdaGrad on v and G (K,) after a row of class y for which ``log_pool`` gave q; ``prior``: G_0."""
    for k in range(weights.shape[0]):
        pooled = 0.0
        for c in range(q.shape[0]):
            pooled += q[c] * features[k, c]
        g = weight * (features[k, y] - pooled)
        squares[k] = _POOL_DECAY * squares[k] + g * g
        if squares[k] > 0.0:
            v = weights[k] + _POOL_RATE * g / math.sqrt(squares[k] + prior)
            weights[k] = min(max(v, -POOL_MAX), POOL_MAX)
