r"""The densities of VIGO's classes; kernels.py has the paper's equations and notation.

With q = |L^{-1}(x - m)|^2 and T = sum ln L_jj the log densities are

    point      -D/2 ln 2 pi - T - q/2
    Student-t  f = nu + 1 - D degrees of freedom, scale Sigma nu (1 + beta) / (beta f): the density expected under the
               posterior of mean and precision; its distance and determinant are q and T rescaled

**Finite.** A pivot of a factor counts as at least 1e-13 of its variance (cholesky.py). With V = I and no floor, one row
changes Sigma by rank one, so L is updated in D^2 steps instead of D^3/3. A column that never varied has variance 1 in
every class. Values are clipped to +-1e75, variances to at least 1e-150, and distances q to at most 1e300.
"""

import math

import numpy as np
from scipy.special import fdtrc

from core.contract import Floats, Header
from core.learners.vigo import kernels as at
from core.learners.vigo.cholesky import distance

_LOG_2PI = math.log(2.0 * math.pi)


def explain(state: at.Gaussians, x: Floats) -> Header:
    """Explain the prediction of one row x (D,).

    ``classes``: the indices of the classes that have rows, and in their order ``share`` (the class prior),
    ``log_density`` (at the expected mean and precision; decides the class), ``log_expected_density`` (Student-t;
    decides the probabilities), ``distance`` (Mahalanobis) and ``tail`` (the share of the class's own rows that lie
    farther out).

    ``ambiguity``: ``entropy`` of the probabilities in units of its maximum, 0 for a row that only one class explains, 1
    for one that all explain equally; ``nearest``, the class with the largest tail, and its ``typicality``, that tail:
    near 0 for a row unlike all earlier ones, whatever the entropy.
    """
    seen = np.flatnonzero(state.stats[:, at.ROWS] > 0.0)
    if not len(seen):
        return {"classes": [], "ambiguity": None}
    stats, D, bounded = state.stats[seen], len(x), np.clip(x, -at.ROW_MAX, at.ROW_MAX)
    q = np.array([distance(state.L, state.means, k, bounded, np.empty(D)) for k in seen.tolist()])
    point = -0.5 * D * _LOG_2PI - stats[:, at.LOGDET] - 0.5 * q
    student = stats[:, at.CONSTANT] - stats[:, at.LOGDET] - stats[:, at.EXPONENT] * np.log1p(q * stats[:, at.RATIO])
    expected = np.where(stats[:, at.EXPONENT] > 0.0, student, point)
    tail = _tail(stats, q, float(D))
    share, p = _normalised(stats[:, at.PRIOR]), _normalised(stats[:, at.PRIOR] + expected)
    entropy = -float((p * np.log(np.maximum(p, 1e-300))).sum()) / math.log(max(len(p), 2))
    nearest = int(np.lexsort((q, -tail))[0])
    return {
        "classes": seen.tolist(),
        "share": share.tolist(),
        "log_density": point.tolist(),
        "log_expected_density": expected.tolist(),
        "distance": np.sqrt(q).tolist(),
        "tail": tail.tolist(),
        "ambiguity": {
            "entropy": min(max(entropy, 0.0), 1.0),
            "nearest": int(seen[nearest]),
            "typicality": float(tail[nearest]),
        },
    }


def _tail(stats: Floats, q: Floats, D: float) -> Floats:
    """The share of each class's own rows that lie farther out than squared distances q, by the Student-t."""
    freedom, beta = np.maximum(stats[:, at.NU] + 1.0 - D, 1.0), stats[:, at.BETA]
    spread = stats[:, at.NU] * (1.0 + beta) / np.maximum(beta, 1.0)
    return np.clip(fdtrc(D, freedom, q * freedom / (spread * D)), 0.0, 1.0)


def _normalised(logs: Floats) -> Floats:
    """Shares that sum to one, from logarithms."""
    shares = np.exp(logs - logs.max())
    return np.asarray(shares / shares.sum())
