r"""The one numerical policy: how a precision matrix is inverted, and how many threads may do it.

A learner that carries a precision matrix R (positive definite in exact arithmetic) and its inverse beside it asks
here for the inverse and nowhere else. Three things go wrong in floating point, and each has one answer:

- *Scales differ wildly* (one feature in volts, one in petabytes). Jacobi scaling takes that away before anything is
  factored: with s_j = R_jj^(-1/2) the matrix S = diag(s) R diag(s) has a unit diagonal, and

      R^{-1} = diag(s) S^{-1} diag(s).

- *Columns are collinear*, so S is singular up to round-off. diag(S^{-1}) holds the variance inflation factors, and
  x'S^{-1}x loses as many digits as their largest has. Above 1e13 (no more than three digits left) or where Cholesky
  fails, a jitter is added to the unit diagonal: 1e-14, 1e-12, ... 1. The last one succeeds on every sum of squares,
  for S is then positive semidefinite up to round-off and S + I is as regular as can be; on any other matrix that
  resists, the diagonal alone is inverted.
- *Threads* change the order of sums and with it the last bits: one log must give the same bits on every replica.
"""

import numpy as np
from numba import njit
from scipy.linalg.lapack import dpotrf, dpotri
from threadpoolctl import threadpool_limits

from core.model import Floats

INFLATION_MAX = 1e13
"""Largest accepted diagonal element of the inverse of a matrix with unit diagonal."""

JITTERS = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0)
_DIAGONAL_MIN = 1e-280
_ENTRY_MAX = 1e300


def spd_inverse(R: Floats) -> Floats:
    """Invert a symmetric positive (semi)definite matrix; never fails, never returns a non-finite number.

    Args:
        R: (d, d), finite, exactly symmetric, entries up to 1e300; not changed.

    Returns:
        (d, d), exactly symmetric, entries within 1e300. Where R is singular up to round-off, the inverse of R with
        its diagonal raised by the least factor of the ladder (1 + jitter) that makes it regular.
    """
    scale = 1.0 / np.sqrt(np.maximum(R.diagonal(), _DIAGONAL_MIN))  # (d,)
    scales = np.multiply.outer(scale, scale)
    S = R * scales
    for jitter in JITTERS:
        inverse = _cholesky_inverse(S, jitter)
        if inverse is not None:
            inverse *= scales
            return np.clip(inverse, -_ENTRY_MAX, _ENTRY_MAX, out=inverse)
    return np.diag(np.minimum(scale * scale, _ENTRY_MAX))


def _cholesky_inverse(S: Floats, jitter: float) -> Floats | None:
    """(S + jitter I)^{-1} = L'^{-1} L^{-1}, or None where that has no digits left."""
    A = S.copy()
    if jitter:
        A.ravel()[:: A.shape[0] + 1] += jitter
    L, failed = dpotrf(A.T, lower=0, clean=0, overwrite_a=1)  # A.T is the same matrix, in LAPACK's order: no copy
    if failed:
        return None
    upper, failed = dpotri(L, lower=0, overwrite_c=1)
    inverse: Floats = upper.T  # C order again: the computed triangle is now the lower one
    if failed or not _mirror_lower(inverse, INFLATION_MAX):
        return None
    return inverse


@njit("b1(f8[:,::1], f8)", cache=True, nogil=True)
def _mirror_lower(A: Floats, diagonal_max: float) -> bool:
    """Copy the lower triangle of A (d, d) onto the upper one; False if the diagonal is not within (0, diagonal_max]."""
    for i in range(A.shape[0]):
        if not 0.0 < A[i, i] <= diagonal_max:
            return False
        for j in range(i):
            if not np.isfinite(A[i, j]):
                return False
            A[j, i] = A[i, j]
    return True


def single_threaded() -> threadpool_limits:
    """Limit every BLAS library loaded so far to one thread, for good.

    Called once by the application when it starts, never at import: it changes the whole process.

    Returns:
        The limit in force; a test may call its ``restore_original_limits``.
    """
    return threadpool_limits(limits=1, user_api="blas")
