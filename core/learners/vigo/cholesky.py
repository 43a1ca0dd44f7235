r"""The Cholesky factors of VIGO's covariances and distances by them, compiled; no input breaks them.

Row j of a factor in the upper triangle of (D, D) is column j of L, with 1 / L_jj on the diagonal. A pivot at or below
its least value means that the column repeats earlier ones: it is set to that value, and all below it to zero.
"""

import math

from numba import njit

from core.contract import Floats

DISTANCE_MAX = 1e300

_PANEL = 4
"""Rows of the factor that are subtracted together from the rows below them: a quarter of the memory traffic, and the
same differences in the same order."""


@njit(cache=True, nogil=True)
def _factor_panel(F: Floats, least: Floats, begin: int, end: int, logdet: float) -> float:
    """Compute rows ``begin`` to ``end`` of the factor, from which the rows above have already been subtracted."""
    D = F.shape[0]
    for j in range(begin, end):
        pivot = F[j, j]
        if not pivot > least[j]:
            pivot = least[j]
            F[j, j + 1 :] = 0.0
        root = math.sqrt(pivot)
        inverse = 1.0 / root
        logdet += math.log(root)
        F[j, j] = inverse
        for i in range(j + 1, D):
            F[j, i] *= inverse
        for i in range(j + 1, end):
            a = F[j, i]
            for h in range(i, D):
                F[i, h] -= a * F[j, h]
    return logdet


@njit("f8(f8[:,::1], f8[::1])", cache=True, nogil=True)
def factorise(F: Floats, least: Floats) -> float:
    """The factor of a covariance in the upper triangle of F (D, D), in place; returns the sum of ln L_jj.

    The lower triangle is neither read nor written. Pivots at or below ``least`` (D,) are set to it, and the rest of
    their rows to zero.
    """
    D, logdet = F.shape[0], 0.0
    for j in range(0, D, _PANEL):
        end = min(j + _PANEL, D)
        logdet = _factor_panel(F, least, j, end, logdet)
        for i in range(end, D):
            a, b, c, d = F[j, i], F[j + 1, i], F[j + 2, i], F[j + 3, i]
            for h in range(i, D):
                F[i, h] = F[i, h] - a * F[j, h] - b * F[j + 1, h] - c * F[j + 2, h] - d * F[j + 3, h]
    return float(logdet)


@njit(cache=True, nogil=True)
def rank_one(L: Floats, shrink: float, v: Floats) -> float:
    """L L' <- shrink^2 L L' + v v', in place, L as left by ``factorise``; overwrites v (D,). Returns sum ln L_jj."""
    D, logdet = v.shape[0], 0.0
    for j in range(D):
        old = shrink / L[j, j]
        new = math.hypot(old, v[j])
        stretch, share = new / old, v[j] / old
        for i in range(j + 1, D):
            a = (shrink * L[j, i] + share * v[i]) / stretch
            v[i] = stretch * v[i] - share * a
            L[j, i] = a
        L[j, j] = 1.0 / new
        logdet += math.log(new)
    return float(logdet)


@njit("f8(f8[:,:,::1], f8[:,:,::1], i8, f8[::1], f8[::1])", cache=True, nogil=True)
def distance(L: Floats, means: Floats, k: int, x: Floats, z: Floats) -> float:
    """Squared distance q = |L^{-1}(x - m)|^2 of class k, column by column; z (D,) is scratch."""
    D = x.shape[0]
    for j in range(D):
        z[j] = x[j] - means[k, 0, j]
    q = 0.0
    for j in range(D):
        a = z[j] * L[k, j, j]
        q += a * a
        for i in range(j + 1, D):
            z[i] -= L[k, j, i] * a
    return float(q) if q < DISTANCE_MAX else DISTANCE_MAX  # also if q is NaN
