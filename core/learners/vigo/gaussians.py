r"""The densities of VIGO's classes; kernels.py has the paper's equations and the letters.

With q = |L^{-1}(x - m)|^2 and T = sum ln L_jj the log densities are

    point      -D/2 ln 2 pi - T - q/2
    Student-t  f = nu + 1 - D degrees of freedom, scale Sigma nu (1 + beta) / (beta f): the density expected under the
               posterior of mean and precision; its distance and determinant are q and T rescaled

**Finite.** A pivot of a factor counts as at least 1e-13 of its variance (cholesky.py). One row without a floor changes
Sigma by rank one, and L with it in D^2 steps instead of D^3/3. A column that never varied counts as variance 1 in every
class. Rows count within +-1e75 per column, variances from 1e-150 on, and a distance q beyond 1e300 is 1e300.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import fdtrc

from core.contract import Floats
from core.learners.vigo import kernels as at
from core.learners.vigo.cholesky import DISTANCE_MAX

_LOG_2PI = math.log(2.0 * math.pi)


class Densities(NamedTuple):
    """What the K classes, of which only those with rows score, say of one row.

    Attributes:
        prior: ln of what each class counts for, up to a constant.
        point: ln of the density at the expected mean and precision.
        expected: ln of the density expected under their posterior (Student-t).
        distance: Mahalanobis distance from the mean.
        tail: share of the class's own rows that lie farther out, by the Student-t.
    """

    prior: Floats
    point: Floats
    expected: Floats
    distance: Floats
    tail: Floats


def densities(state: at.Gaussians, x: Floats) -> Densities:
    """Densities of one row x (D,) under the classes that have rows; arrays of their number."""
    seen = np.flatnonzero(state.stats[:, at.ROWS] > 0.0)
    stats, D = state.stats[seen], len(x)
    q = np.array([_distance(state, int(k), x) for k in seen])
    point = -0.5 * D * _LOG_2PI - stats[:, at.LOGDET] - 0.5 * q
    student = stats[:, at.CONSTANT] - stats[:, at.LOGDET] - stats[:, at.EXPONENT] * np.log1p(q * stats[:, at.RATIO])
    freedom = np.maximum(stats[:, at.NU] + 1.0 - D, 1.0)
    beta = stats[:, at.BETA]
    spread = stats[:, at.NU] * (1.0 + beta) / np.maximum(beta, 1.0)
    tail = fdtrc(float(D), freedom, q * freedom / (spread * D))
    return Densities(
        stats[:, at.PRIOR],
        point,
        np.where(stats[:, at.EXPONENT] > 0.0, student, point),
        np.sqrt(q),
        np.clip(tail, 0.0, 1.0),
    )


def _distance(state: at.Gaussians, k: int, x: Floats) -> float:
    """Squared Mahalanobis distance of x from class k."""
    upper = state.L[k].copy()
    diagonal = np.arange(len(x))
    upper[diagonal, diagonal] = 1.0 / upper[diagonal, diagonal]
    away = np.clip(x, -at.ROW_MAX, at.ROW_MAX) - state.means[k, 0]
    with np.errstate(all="ignore"):
        z = solve_triangular(upper, away, trans="T", check_finite=False)
        q = float(z @ z)
    return q if q < DISTANCE_MAX else DISTANCE_MAX
