r"""The exact block update of DFOP: m rows at once with matrix products, for many columns (equations of kernels.py).

With c_i = lam_1 ... lam_i over the rows of the block, xs_i = x_i / sqrt(c_i), and w, Q, R from before the block (for
rows with weights, c_i is divided by the weight, except in the last line):

    G = Xs Q                  S = I + G Xs' = C C'           Cholesky; C_ii^2 = 1 + g_i / lam_i, g as in kernels.py
    rs_i = (y_i - w'x_i) / sqrt(c_i)                         C u = rs,  C V = G
    f_i = w'x_i + sqrt(c_i) sum_{j<i} C_ij u_j               the a-priori prediction: w after the rows before i
    e_i = sqrt(c_i) C_ii u_i                                 its innovation
    w <- w + V'u          Q <- (Q - V'V) / c_m          R <- c_m (R + Xs'Xs)

This takes 4 D^2 operations a row, in BLAS calls that touch upper triangles only. The error is about eps / c_m, so a
block ends before c_m < 1e-3; a leak follows there at the latest. A block that cannot be computed to full precision
(huge values or outliers, max C_ii^2 > 1e8, S not positive definite, Q spoiled, or 1e-8 or less left of some Q_ii) is
refused with nothing changed: its halves are tried, and finally its rows one by one.

Blocks end at absolute row numbers (multiples of ``block_rows``, leaks, refreshes) and where the rows of a call end. The
same calls give the same bits; another cut gives the same numbers to round-off.

Source: derived from Algorithm 1 of the paper (kernels.py) with the matrix inversion lemma, (12) of the arXiv version.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.contract import NUMBERS_IN, ROWS_IN, VECTOR, Floats
from core.learners.dfop import kernels
from core.learners.dfop.kernels import DONE, LEAK, REFRESH, ROWS, Forecasts, MemberState
from core.numerics.lapack import add_outer, cholesky, solve_lower, solve_lower_transposed, symmetric_product

COLUMNS_MIN = 256  # columns from which a full block is faster than its rows
ROWS_MIN = 16  # least rows of a block; below, and when blocks keep failing, the row update is used

_INPUT_MAX = 1e30
_WEIGHT_MAX = 1e100
_SPREAD_MAX = 1e8
_SHRINK_MIN = 1e-3


class Block(NamedTuple):
    """Rows X (m, D) with their bias, targets T (m, k), discounts and their -ln (m,), weights (m,)."""

    X: Floats
    T: Floats
    lams: Floats
    steps: Floats
    weights: Floats


def block_rows(columns: int) -> int:
    """Rows of a full block: enough for matrix products to run at full speed, few compared with the columns."""
    return 64 if columns < 512 else 96


@njit(f"UniTuple(f8[::1], 2)({NUMBERS_IN}, i8, f8, f8)", cache=True, nogil=True)
def discounting(discounts: Floats, n: int, lam0: float, step0: float) -> tuple[Floats, Floats]:
    """Discounts (n,) of the rows and their -ln, as the row update sees them; (0,) discounts: the default ones."""
    lams, steps = np.full(n, lam0), np.full(n, step0)
    for i in range(discounts.shape[0]):
        lams[i] = max(discounts[i], kernels.DISCOUNT_MIN)
        steps[i] = -math.log(lams[i])
    return lams, steps


@njit("UniTuple(i8, 2)(f8[::1], f8[::1], f8[::1], i8, f8, i8, i8)", cache=True, nogil=True)
def next_block(
    lams: Floats, steps: Floats, counters: Floats, start: int, step0: float, rows: int, refresh_rows: int
) -> tuple[int, int]:
    """The end of the block from row ``start`` on, and why: DONE (on the grid, or no more rows), LEAK or REFRESH."""
    forgotten, learned, c = counters[kernels.FORGOTTEN], int(counters[ROWS]), 1.0
    for i in range(start, lams.shape[0]):
        c *= lams[i]
        if c < _SHRINK_MIN and i > start:
            return i, DONE
        forgotten += steps[i]
        learned += 1
        if forgotten + step0 > kernels.LEAK_LIMIT:
            return i + 1, LEAK
        if learned % refresh_rows == 0:
            return i + 1, REFRESH
        if learned % rows == 0:
            return i + 1, DONE
    return lams.shape[0], DONE


def learn_block(rows: Block, state: MemberState, predicted: Forecasts, lam0: float, *, inverse_follows: bool) -> bool:
    """Test, then train on a block; False, with nothing changed, if it cannot be done to full precision.

    ``state`` is updated in place (only the upper triangles of Q and R); the a-priori predictions are written into
    ``predicted``. ``lam0`` is the default discount, with which deviations are computed. ``inverse_follows``: Q is about
    to be replaced by the inverse of R, and need not be updated.
    """
    X, T, lams, steps, weights = rows
    W, Q, R, mean_square, counters = state
    scores, std = predicted
    if not (np.abs(X).max() <= _INPUT_MAX and np.abs(T).max() <= _INPUT_MAX and np.abs(W).max() <= _WEIGHT_MAX):
        return False
    c = np.cumprod(lams)  # (m,)
    root = np.sqrt(c / weights)[:, None]  # (m, 1)
    Xs = X / root  # (m, D)
    G = symmetric_product(Q.T, Xs.T).T  # (m, D); Q.T has the upper triangle of Q as its lower one
    C = _factor(G, Xs, Q)
    if C is None:
        return False
    f = X @ W.T  # (m, k)
    u = np.asarray((T - f) / root, order="F")  # (m, k)
    solve_lower(C, u)
    V = G  # (m, D)
    solve_lower_transposed(C, V.T)
    moved = W + u.T @ V
    if not np.abs(moved).max() <= _WEIGHT_MAX:  # NaN compares false
        return False
    if not inverse_follows and (np.einsum("ij,ij->j", V, V) > kernels.TAKEN_MAX * Q.diagonal()).any():
        return False
    f += root * (np.tril(C, -1) @ u)
    W[:] = moved
    if not inverse_follows:
        add_outer(Q.T, V.T, -1.0 / c[-1], 1.0 / c[-1])
    add_outer(R.T, Xs.T, c[-1], c[-1])
    scores[:] = f[:, : scores.shape[1]]
    e = root[:, 0] * C.diagonal() * u[:, 0]  # (m,)
    _absorb(X, C.diagonal() ** 2, e, lams, steps, weights, counters, mean_square, std, lam0)
    return True


def _factor(G: Floats, Xs: Floats, Q: Floats) -> Floats | None:
    """The Cholesky factor C (m, m) of I + G Xs', in the lower triangle; None if it would lose precision."""
    S = G @ Xs.T  # (m, m)
    g = S.diagonal()  # (m,)
    if not (g.min() >= 0.0 and g.max() <= _SPREAD_MAX):
        return None
    if _any_spoiled(G, g, Q.diagonal()):
        return None
    S.ravel()[:: len(S) + 1] += 1.0
    C = S.T
    return C if cholesky(C) else None


@njit("b1(f8[:,::1], Array(f8, 1, 'A', readonly=True), Array(f8, 1, 'A', readonly=True))", cache=True, nogil=True)
def _any_spoiled(G: Floats, g: Floats, diagonal: Floats) -> bool:
    """Whether some row shows that Q is indefinite."""
    spoiled = False
    for i in range(G.shape[0]):
        spoiled |= kernels.faults(diagonal, G[i], g[i], np.inf)[0]
    return spoiled


@njit(f"void({ROWS_IN}, {', '.join([*4 * [VECTOR], NUMBERS_IN, *3 * [VECTOR]])}, f8)", cache=True, nogil=True)
def _absorb(
    X: Floats, spread: Floats, e: Floats, lams: Floats, steps: Floats, weights: Floats, counters: Floats,
    mean_square: Floats, std: Floats, lam0: float,
) -> None:  # fmt: skip
    """Count the rows of a block and absorb their squares; for regression, write deviations (m,) and absorb the noise.

    spread_i = 1 + weight_i g_i / lam_i.
    """
    for i in range(spread.shape[0]):
        counters[ROWS] += 1.0
        counters[kernels.FORGOTTEN] += steps[i]
        kernels.absorb_squares(mean_square, X[i], 1.0 / counters[ROWS])
    for i in range(std.shape[0]):
        apart = max(spread[i] - 1.0, 0.0) / weights[i]  # g / lam
        std[i] = kernels.deviation(counters[kernels.NOISE], apart * lams[i], lam0, 1.0)
        kernels.absorb_noise(counters, e[i], lams[i], 1.0 / (apart + 1.0), weights[i])


def targets(y: Floats, columns: int, regression: bool) -> Floats:
    """Targets (m, columns) of numbers or class indices; the last column is for a class not seen yet."""
    if regression:
        return y[:, None]
    T = np.full((len(y), columns), -1.0)
    if columns == 2:
        T[y == 1.0, 0] = 1.0
    else:
        T[np.arange(len(y)), y.astype(np.int64)] = 1.0
    return T


def with_bias(X: NDArray[np.float64], columns: int) -> Floats:
    """X (m, d) with a column of ones if ``columns`` is d + 1, as a new array."""
    if X.shape[1] == columns:
        return X
    wide = np.ones((X.shape[0], columns))
    wide[:, :-1] = X
    return wide
