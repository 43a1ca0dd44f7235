r"""Numerical policy: how precision matrices are inverted, and the number of BLAS threads.

Every inverse of a precision matrix R (positive definite in exact arithmetic) is computed here, in a way that
deals with three problems of floating point:

- *Different scales* (one feature in volts, one in petabytes). R is first normalised by Jacobi scaling: with
  s_j = R_jj^(-1/2) the matrix S = diag(s) R diag(s) has a unit diagonal, and

      R^{-1} = diag(s) S^{-1} diag(s).

- *Collinear columns* make S singular up to round-off. diag(S^{-1}) holds the variance inflation factors, and x'S^{-1}x
  loses as many digits as the largest of them has. Above 1e13 (at most three digits left), or where Cholesky fails, a
  jitter is added to the unit diagonal: 1e-14, 1e-12, ... 1. The last one always succeeds on a sum of squares, because
  S is then positive semidefinite up to round-off; where it fails on another matrix, only the diagonal is inverted.
- *Threads* change the order of sums and so the last bits, but a log must give the same bits on every replica.
"""

import math

import numpy as np
from numba import njit
from threadpoolctl import threadpool_limits

from core.contract import ROWS_IN, TABLE, Floats
from core.numerics.lapack import cholesky, inverse_of_cholesky

INFLATION_MAX = 1e13  # largest accepted diagonal element of the inverse of a matrix with unit diagonal

JITTERS = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0)
_DIAGONAL_MIN = 1e-280
_ENTRY_MAX = 1e300
SMALL = 32  # largest d inverted by one compiled function, which is faster there than several calls of NumPy and LAPACK


def spd_inverse(R: Floats) -> Floats:
    """Invert a symmetric positive (semi)definite matrix; never fails, never returns a non-finite number.

    R (d, d) is finite, with entries up to 1e300; only its upper triangle is read, and nothing is changed. The inverse
    is exactly symmetric, with entries within 1e300. If R is singular up to round-off, its diagonal is first
    multiplied by 1 + the smallest jitter that makes it regular.
    """
    if R.shape[0] <= SMALL:
        return small_inverse(np.ascontiguousarray(R))
    scale = 1.0 / np.sqrt(np.maximum(R.diagonal(), _DIAGONAL_MIN))  # (d,)
    scales = np.multiply.outer(scale, scale)
    S = R * scales
    for jitter in JITTERS:
        inverse = _cholesky_inverse(S, jitter)
        if inverse is not None:
            inverse *= scales
            return np.clip(inverse, -_ENTRY_MAX, _ENTRY_MAX, out=inverse)
    inverse = np.zeros(R.shape)  # not np.diag, which keeps other threads waiting for O(d^2)
    inverse.reshape(-1)[:: len(R) + 1] = np.minimum(scale * scale, _ENTRY_MAX)
    return inverse


def _cholesky_inverse(S: Floats, jitter: float) -> Floats | None:
    """(S + jitter I)^{-1} = L'^{-1} L^{-1}, or None if it is singular up to round-off."""
    A = S.copy()
    if jitter:
        A.ravel()[:: A.shape[0] + 1] += jitter
    lower = A.T  # in LAPACK's order, without a copy; its lower triangle is the upper one of A
    if not (cholesky(lower) and inverse_of_cholesky(lower) and _mirror_checked(A, INFLATION_MAX)):
        return None
    return A


@njit(cache=True, nogil=True)
def _factor_and_invert(S: Floats, jitter: float, L: Floats, inverse: Floats) -> bool:
    """Write ``_cholesky_inverse`` into the lower triangle of ``inverse``; False for None. L (d, d) is scratch."""
    d = S.shape[0]
    for j in range(d):  # S + jitter I = L L'
        for i in range(j, d):
            s = S[i, j] + (jitter if i == j else 0.0)
            for k in range(j):
                s -= L[i, k] * L[j, k]
            if i > j:
                L[i, j] = s / L[j, j]
            elif 0.0 < s < np.inf:
                L[j, j] = math.sqrt(s)
            else:
                return False
    for j in range(d):  # L <- L^{-1}, column by column from the left
        L[j, j] = 1.0 / L[j, j]
        for i in range(j + 1, d):
            s = 0.0
            for k in range(j, i):
                s -= L[i, k] * L[k, j]
            L[i, j] = s / L[i, i]
    for i in range(d):  # L^{-1}' L^{-1}
        for j in range(i + 1):
            s = 0.0
            for k in range(i, d):
                s += L[k, i] * L[k, j]
            if not np.isfinite(s):
                return False
            inverse[i, j] = s
        if not 0.0 < inverse[i, i] <= INFLATION_MAX:
            return False
    return True


@njit(f"{TABLE}({ROWS_IN})", cache=True, nogil=True)
def small_inverse(R: Floats) -> Floats:
    """``spd_inverse`` for up to 32 columns, to be called from compiled code (see learners/dfop/kernels.py)."""
    d = R.shape[0]
    scale, S, L, inverse = np.empty(d), np.empty((d, d)), np.empty((d, d)), np.zeros((d, d))
    for i in range(d):
        scale[i] = 1.0 / math.sqrt(max(R[i, i], _DIAGONAL_MIN))
        for j in range(i + 1):
            S[i, j] = R[j, i] * (scale[i] * scale[j])
    regular = False
    for jitter in JITTERS:
        regular = _factor_and_invert(S, jitter, L, inverse)
        if regular:
            break
    if not regular:
        for i in range(d):
            for j in range(d):
                inverse[i, j] = 1.0 if i == j else 0.0
    for i in range(d):
        for j in range(i + 1):
            a = inverse[i, j] * (scale[i] * scale[j])
            inverse[i, j] = min(max(a, -_ENTRY_MAX), _ENTRY_MAX)
            inverse[j, i] = inverse[i, j]
    return inverse


@njit("void(f8[:,::1])", cache=True, nogil=True)
def mirror_upper(A: Floats) -> None:
    """Copy the upper triangle of A (d, d) onto the lower one, by tiles that fit the processor's cache."""
    d, tile = A.shape[0], 32
    for top in range(0, d, tile):
        for left in range(0, top + 1, tile):
            for i in range(top, min(top + tile, d)):
                for j in range(left, min(left + tile, i)):
                    A[i, j] = A[j, i]


@njit("b1(f8[:,::1], f8)", cache=True, nogil=True)
def _mirror_checked(A: Floats, diagonal_max: float) -> bool:
    """Copy the upper triangle of A (d, d) onto the lower one; False if the diagonal is not within (0, diagonal_max]."""
    for i in range(A.shape[0]):
        if not 0.0 < A[i, i] <= diagonal_max:
            return False
        for j in range(i + 1, A.shape[0]):
            if not np.isfinite(A[i, j]):
                return False
    mirror_upper(A)
    return True


def single_threaded() -> threadpool_limits:
    """Limit every BLAS library loaded so far to one thread, permanently.

    Called once by the application when it starts, never at import: it changes the whole process. A test may call
    ``restore_original_limits`` on the result.
    """
    return threadpool_limits(limits=1, user_api="blas")
