r"""GA2M: a model that adds up one number per column, by its bin, and one per pair of columns, by the bins of both.

For a row z of scaled columns, with B bins of a column and C of each column in a pair (learner.py)

    u_j = (1 + z_j / sqrt(2 + z_j^2)) / 2                  the distribution function of Student's t with 2 degrees
    cells   one per column, floor(B u_j); one per pair i < j, (floor(C u_i), floor(C u_j)); one for all rows
            (a value on the edge of two bins belongs to the one below)
    s_k     = sum of w_ck over the cells c of the row       p = softmax(s)

Per row of class y, for every cell c that it is in:

    g_k  = p_k - [k = y]          G_ck <- G_ck + (v g_k)^2                   v: the weight of the row
    a_ck = min(1, 2 (1 - G_ck / G_0k)), 1 for the cell 0 of all rows         its own part
    m_k  = sum_c r a_ck v |g_k| / sqrt(G_ck)                                 how far the row would move s_k
    w_ck <- w_ck - min(1, 4 |g_k| / m_k) r a_ck v g_k / sqrt(G_ck)           (AdaGrad)

r is the learning rate. A cell that more than half of the rows are in repeats cell 0 and moves less: a category of 100
levels puts 99 zeros in every row, whose steps together would make the model follow the latest labels. Every cell has
its own step, so that a rarely seen cell still learns fast; together they move s_k by at most 4 |g_k|: otherwise a
single row in many new cells would make the model certain. AdaGrad's steps depend only on how the weights of rows
compare, so the limit is without v. Weights of cells start at zero, so a pair that adds nothing to its columns stays
small. Thresholds, stripes and interactions of two columns are exact to a bin; a row costs a look-up per cell. This is
for classes; numbers.py has the steps for numbers.

Two classes have one column w = w_1 - w_0, which makes softmax the logistic loss; at the third class it becomes
[-w/2, w/2, 0], the same probabilities. Reported probabilities are p (1 - K e) + e with e = 1e-6.

**Any finite input.** A value only selects a bin; weights are clipped to +-100.

Source: Lou, Caruana, Gehrke, Hooker: Accurate Intelligible Models with Pairwise Interactions, KDD 2013; AdaGrad: Duchi,
Hazan, Singer, JMLR 12, 2011.

Deviations
- Online, by gradient steps on fixed bins of scaled columns, instead of boosted trees over all rows.
- All pairs, instead of those that a test picks; many columns have pairs with fewer bins, or no pairs.
"""

import math

import numpy as np
from numba import njit

from core.contract import CLASSES, NUMBERS_IN, ROWS_IN, TABLE, Floats, Ints, direct
from core.learners.calibration import report_row
from core.numerics.weighting import softmax

WEIGHT_MAX = 100.0
MOVE_MAX = 4.0

_BELOW_ONE = 1.0 - 2.0**-30
_VALUE_MAX = 1e75


@njit(cache=True, nogil=True)
def find_cells(Z: Floats, i: int, B: int, C: int, u: Floats, found: Ints) -> None:
    """Write the cells of row i into ``found``; u (d,) is scratch."""
    d = Z.shape[1]
    for j in range(d):
        z = min(max(Z[i, j], -_VALUE_MAX), _VALUE_MAX)
        u[j] = 0.5 * (1.0 + z / math.sqrt(2.0 + z * z)) * _BELOW_ONE
        found[j] = j * B + int(u[j] * B)
    place, begin = d, d * B
    if C:
        for a in range(d):
            row = int(u[a] * C) * C
            for b in range(a + 1, d):
                found[place] = begin + row + int(u[b] * C)
                place += 1
                begin += C * C
    found[place] = begin


@njit(cache=True, nogil=True)
def _predict_row(W: Floats, found: Ints, s: Floats, p: Floats) -> None:
    """Probabilities p (K,) of a row in these cells; s (columns,) is scratch."""
    m, K = W.shape[1], p.shape[0]
    s[:] = 0.0
    for cell in found:
        for k in range(m):
            s[k] += W[cell, k]
    if K <= 2:
        e = math.exp(-abs(s[0]))
        high = 1.0 / (1.0 + e)
        p[K - 1] = high if s[0] > 0.0 else e * high
        p[0] = 1.0 - p[K - 1] if K == 2 else 1.0
    else:
        softmax(s, p)


@njit(cache=True, nogil=True)
def own_part(cell: float, constant: float) -> float:
    """How much a cell moves beside the constant, given what both have seen (squared gradients, or rows)."""
    return min(max(2.0 * (1.0 - cell / constant), 0.0), 1.0) if constant > 0.0 else 1.0


@njit(cache=True, nogil=True)
def _step(found: Ints, k: int, g: float, most: float, rate: float, W: Floats, G: Floats, steps: Floats) -> None:
    """Move the numbers of class k in these cells against the gradient g, together by ``most`` at most.

    steps (cells of a row,) is scratch.
    """
    move, constant = 0.0, found[-1]
    for cell in found:
        G[cell, k] += g * g
    for a, cell in enumerate(found):
        part = own_part(G[cell, k], G[constant, k]) if cell != constant else 1.0
        steps[a] = rate * part * g / math.sqrt(G[cell, k]) if G[cell, k] > 0.0 else 0.0
        move += abs(steps[a])
    share = most / move if move > most else 1.0
    for a, cell in enumerate(found):
        W[cell, k] = min(max(W[cell, k] - share * steps[a], -WEIGHT_MAX), WEIGHT_MAX)


@direct(f"void({ROWS_IN}, {NUMBERS_IN}, {NUMBERS_IN}, i8, i8, i8, f8, {TABLE}, {TABLE}, {TABLE}, {CLASSES})")
def learn_rows(
    Z: Floats, y: Floats, weights: Floats, B: int, C: int, cells_of_row: int, rate: float, W: Floats, G: Floats,
    P: Floats, value: Ints,
) -> None:  # fmt: skip
    """Write probabilities P (n, K), K >= 1, and classes (n,) of rows Z (n, d); with class indices y (n,), not (0,),
    learn each row after its prediction.

    Weights are (n,), or (0,): every row counts once. W and G (cells, columns) are updated in place.
    """
    m, K = W.shape[1], P.shape[1]
    u, found = np.empty(Z.shape[1]), np.empty(cells_of_row, dtype=np.int64)
    s, p, g, steps = np.empty(m), np.empty(K), np.empty(m), np.empty(cells_of_row)
    for i in range(Z.shape[0]):
        find_cells(Z, i, B, C, u, found)
        _predict_row(W, found, s, p)
        report_row(p, i, P, value)
        if K < 2 or not y.shape[0]:
            continue
        weight = weights[i] if weights.shape[0] else 1.0
        for k in range(m):
            g[k] = (p[1] - y[i]) if m == 1 else p[k] - (1.0 if y[i] == k else 0.0)
        for k in range(m):
            _step(found, k, weight * g[k], MOVE_MAX * abs(g[k]), rate, W, G, steps)
