"""The arithmetic of one row, compiled: reading it, inner products, and rank-one updates of symmetric matrices; arrays
that grow with the rows, and their means.

Sums are taken in one fixed order, without fast-math, so predict and learn, several rows and one, and two replicas give
the same bits. These functions are compiled into the kernels that call them. Numba's cache watches only the kernels' own
files; `make` compiles them again when this one changes.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.contract import Floats

HELD = 8  # rows that ``add_outers`` adds together


def capacity(count: int, bound: int, first: int = 16) -> int:
    """Length of an array for ``count`` of at most ``bound`` rows: ``first`` (a power of two), doubled up to bound."""
    return min(1 << max(count - 1, first - 1).bit_length(), bound)


def grown(array: NDArray[Any], count: int, bound: int, first: int = 16) -> NDArray[Any]:
    """The array (n, ...) extended by zeros, or itself if it has room for ``count`` of at most ``bound`` rows."""
    if len(array) >= min(count, bound):
        return array
    more = capacity(count, bound, first) - len(array)
    return np.concatenate([array, np.zeros((more, *array.shape[1:]), array.dtype)])


def column_means(rows: Floats) -> Floats:
    """Means (D,) of rows (n, D), n >= 1, about the first row: that of a column that never varied is its value."""
    return np.asarray(rows[0] + ((rows - rows[0]) / len(rows)).sum(axis=0))


@njit("i8(i8)", cache=True, nogil=True)
def eighths(count: int) -> int:
    """The least multiple of 8 that is not below a count."""
    return (count + 7) // 8 * 8


@njit(cache=True, nogil=True, error_model="numpy")
def load(X: Floats, i: int, x: Floats, row_max: float) -> float:
    """Copy row i of X (n, d) into x (D,), then ones as bias, scaled to at most ``row_max``. Returns the scale."""
    d = X.shape[1]
    large = False
    for j in range(d):
        x[j] = X[i, j]
        large |= abs(x[j]) > row_max
    for j in range(d, x.shape[0]):
        x[j] = 1.0
    if not large:
        return 1.0
    scale = float(row_max / np.max(np.abs(x)))
    times_number(x, scale)
    return scale


@njit(cache=True, nogil=True)
def within(value: float, limit: float) -> float:
    """The value clipped to +-limit."""
    return min(max(value, -limit), limit)


@njit(cache=True, nogil=True)
def put(values: Floats, out: Floats) -> None:
    """The first entries of ``out`` <- values (d,); compiling ``out[:d] = values`` takes more than a second."""
    for j in range(values.shape[0]):
        out[j] = values[j]


@njit(cache=True, nogil=True)
def times_number(x: Floats, factor: float) -> None:
    """X <- factor x."""
    for j in range(x.shape[0]):
        x[j] *= factor


@njit(cache=True, nogil=True)
def dot(a: Floats, b: Floats) -> float:
    """Inner product a'b in one fixed order of summation (four interleaved partial sums)."""
    s0 = s1 = s2 = s3 = 0.0
    m = a.shape[0] // 4 * 4
    for j in range(0, m, 4):
        s0 += a[j] * b[j]
        s1 += a[j + 1] * b[j + 1]
        s2 += a[j + 2] * b[j + 2]
        s3 += a[j + 3] * b[j + 3]
    for j in range(m, a.shape[0]):
        s0 += a[j] * b[j]
    return (s0 + s1) + (s2 + s3)


@njit(cache=True, nogil=True)
def cost_unit(costs: Floats, q: Floats, known: int) -> float:
    """A factor that keeps c_k q_k of the largest cost with q_k > 0 from underflowing: 1, unless all are below 1e-280.

    ``costs``: (K,), or (0,): none; ``known``: how many of the K count.
    """
    largest = 0.0
    for k in range(min(known, costs.shape[0])):
        if q[k] > 0.0:
            largest = max(largest, costs[k])
    return 1e300 if 0.0 < largest < 1e-280 else 1.0


@njit(cache=True, nogil=True)
def score(W: Floats, k: int, x: Floats) -> float:
    """w_k'x in the order of ``dot``; by index, because a view of a row costs more than a short sum."""
    s0 = s1 = s2 = s3 = 0.0
    m = x.shape[0] // 4 * 4
    for j in range(0, m, 4):
        s0 += W[k, j] * x[j]
        s1 += W[k, j + 1] * x[j + 1]
        s2 += W[k, j + 2] * x[j + 2]
        s3 += W[k, j + 3] * x[j + 3]
    for j in range(m, x.shape[0]):
        s0 += W[k, j] * x[j]
    return (s0 + s1) + (s2 + s3)


@njit(cache=True, nogil=True)
def times_vector(Q: Floats, x: Floats, q: Floats) -> float:
    """Write q = Q x for a symmetric Q (D, D), summed row by row; return g = x'q."""
    D = x.shape[0]
    for i in range(D):
        q[i] = Q[0, i] * x[0]
    for j in range(1, D):
        xj = x[j]
        for i in range(D):
            q[i] += Q[j, i] * xj
    return dot(x, q)


@njit(cache=True, nogil=True)
def downdate(Q: Floats, q: Floats, factor: float) -> None:
    """Q <- factor Q - q q', exactly symmetric."""
    D = q.shape[0]
    for i in range(D):
        qi = -q[i]
        for j in range(D):
            Q[i, j] = Q[i, j] * factor + qi * q[j]


@njit(cache=True, nogil=True)
def downdate_times(Q: Floats, q: Floats, factor: float, x: Floats, p: Floats, diagonal: Floats) -> None:
    """``downdate``, then p = Q x for the next row's x and the diagonal of Q, in one pass over Q.

    The sums are those of ``times_vector``, in the same order: the same bits, with half the traffic to memory.
    """
    D = q.shape[0]
    for j in range(D):
        a = Q[0, j] * factor + -q[0] * q[j]
        Q[0, j] = a
        p[j] = a * x[0]
    diagonal[0] = Q[0, 0]
    for i in range(1, D):
        qi = -q[i]
        xi = x[i]
        for j in range(D):
            a = Q[i, j] * factor + qi * q[j]
            Q[i, j] = a
            p[j] += a * xi
        diagonal[i] = Q[i, i]


@njit("void(f8[:,::1], f8[:,::1], f8[::1], i8)", cache=True, nogil=True)
def add_outers(R: Floats, held: Floats, factors: Floats, count: int) -> None:
    """R <- factor R + x x' for the first ``count`` held rows in turn, on the upper triangle.

    An element sees the rows in their order, so holding them back changes no bit; it saves the memory traffic.
    """
    D = held.shape[1]
    if count < HELD:
        for k in range(count):
            for i in range(D):
                xi = held[k, i]
                for j in range(i, D):
                    R[i, j] = R[i, j] * factors[k] + xi * held[k, j]
        return
    l0, l1, l2, l3 = factors[0], factors[1], factors[2], factors[3]
    l4, l5, l6, l7 = factors[4], factors[5], factors[6], factors[7]
    for i in range(D):
        x0, x1, x2, x3 = held[0, i], held[1, i], held[2, i], held[3, i]
        x4, x5, x6, x7 = held[4, i], held[5, i], held[6, i], held[7, i]
        for j in range(i, D):
            r = R[i, j] * l0 + x0 * held[0, j]
            r = r * l1 + x1 * held[1, j]
            r = r * l2 + x2 * held[2, j]
            r = r * l3 + x3 * held[3, j]
            r = r * l4 + x4 * held[4, j]
            r = r * l5 + x5 * held[5, j]
            r = r * l6 + x6 * held[6, j]
            R[i, j] = r * l7 + x7 * held[7, j]
