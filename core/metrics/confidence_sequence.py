r"""A confidence sequence for a running mean: an interval that holds at all rows at once.

An ordinary confidence interval that is checked after every row excludes zero sooner or later. This one may be checked,
and acted on, at any time. For differences d_1, d_2, ... in [-1, 1] let mu_t = E[d_t | the rows before] and

    S_t = sum_{i <= t} d_i            V_t = sum_{i <= t} d_i^2, or anything larger

With probability 1 - alpha, S_t - sum_i mu_i <= u(V_t) for all t, where u(v) is the s at which

    ln m(s, v) = rho ln rho - ln Gamma(rho) - ln P(rho, rho)
                 + ln Gamma(v + rho) + ln P(v + rho, s + v + rho) - (v + rho) ln(s + v + rho) + s + v

reaches ln(1 / alpha); P is the regularised lower incomplete gamma function. m is a mixture over lambda of the
supermartingales exp(lambda S - (-ln(1 - lambda) - lambda) V), and rho sets the V at which it is narrowest. Nothing is
assumed about how rows depend on each other, nor that the mean is constant: the interval covers the mean of the mu_i.
If k sequences are used together, each has alpha / k, so that all hold simultaneously with probability 1 - alpha.

Source: Howard, Ramdas, McAuliffe, Sekhon: Time-uniform, nonparametric, nonasymptotic confidence sequences, Annals of
Statistics 49(2), 2021: theorem 4 (empirical Bernstein, with 0 as the prediction of each difference) and proposition 9
(gamma-exponential mixture, c = 1).
"""

import math
from functools import cache
from types import ModuleType

ALPHA = 0.05  # the chance that any of the sequences used together ever leaves its interval on either side
RHO = 2.0  # narrowest at V of about twenty, which is that many rows on which two classifiers disagree
_ENOUGH = math.log(2.0 / ALPHA)
_STEPS = 60


def exceeds(s: float, v: float, sequences: float = 1.0) -> bool:
    """Whether S - u(V) is above 0: the mean has been above 0 on the rows so far, with 1 - ``ALPHA`` / sequences."""
    return s > 0.0 and _log_mixture(s, v) >= _ENOUGH + math.log(sequences)


def radius(v: float, sequences: float = 1.0) -> float:
    """u(v), at half of ``ALPHA`` / sequences: S differs from the sum of the means by at most this."""
    low, high, enough = 0.0, 1.0, _ENOUGH + math.log(sequences)
    while _log_mixture(high, v) < enough:
        low, high = high, 2.0 * high
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        if _log_mixture(middle, v) < enough:
            low = middle
        else:
            high = middle
    return high


def _log_mixture(s: float, v: float) -> float:
    """Ln m(s, v), for s and v of at least 0; it grows with s."""
    a, x = v + RHO, s + v + RHO
    log_share = math.log(load().gammainc(a, x)) - math.log(load().gammainc(RHO, RHO))
    first = RHO * math.log(RHO) - math.lgamma(RHO)
    return first + math.lgamma(a) + log_share - a * math.log(x) + s + v


@cache
def load() -> ModuleType:
    """Import SciPy's functions, which only comparisons need, once; this takes a few hundredths of a second."""
    from scipy import special  # noqa: PLC0415

    found: ModuleType = special
    return found


def loaded() -> bool:
    """Whether ``load`` has nothing left to do."""
    return load.cache_info().currsize > 0
