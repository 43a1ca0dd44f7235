"""The Cholesky factors of VIGO's covariances, compiled; no input breaks them."""

import math

from numba import njit

from core.contract import Floats

_PANEL = 4
"""Rows of the factor that are taken from the rows below them together: a fourth of the traffic to memory, and the same
differences in the same order."""


@njit(cache=True, nogil=True)
def _factor_panel(F: Floats, least: Floats, begin: int, end: int, logdet: float) -> float:
    """Rows ``begin`` to ``end`` of the factor, from which the rows above them have been taken already."""
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

    Row j becomes column j of L, with 1 / L_jj on the diagonal.

    Args:
        F: the covariance, of which only the upper triangle is read and written.
        least: (D,) pivots that are not above these are set to them, with nothing beside them.
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
