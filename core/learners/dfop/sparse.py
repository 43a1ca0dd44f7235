r"""Sparse-DFOP, Algorithm 2: DFOP on the random projection of sparse rows; weights of names recovered from its weights.

    psi_t = M x_t                       line 3, in core.features.projection: once per row, when it is read
    y_t   = psi_t'v_{t-1} + noise       (4), for which v_t is learned by DFOP: lines 1 and 4 to 7, in kernels.py
    w_t   = RECOVER[v_t]                line 8, below: the s largest (Definition 2) of
            argmin |x|_1 subject to M x = v_t                                           (Definition 1)

RECOVER runs on request, never for a row: a linear program over the D names that the client gives. With x = a - b,
a and b >= 0,

    min sum(a + b)   subject to   [M, -M] [a; b] = v / |v|

solved by SciPy's HiGHS (dual simplex). With at most d names M x = v has at most one solution, which least squares
finds.

**What can be recovered.** l1 minimisation finds an s-sparse w among D names exactly up to about s = C d / ln(D/s); a
larger s is refused, at C = SPARSITY_MAX. Whether these names explain the model shows in the *residual* |M w - v| / |v|
that the s largest leave: above RESIDUAL_MAX the weights are not that sparse, or belong to other names, and the request
is refused. (With more than d names M x = v itself always has a solution.)

**What w means.** Since x'M'M w is not x'w, rows that contain only the names S make v not M w but M_S (M_S'M_S)^-1 w_S,
and RECOVER finds (M_S'M_S)^-1 w_S: the right names, with weights that are off by about sqrt(s/d).

Source: Zhao, Wang, Xie, Guo, Zhou: Distribution-Free One-Pass Learning, IEEE TKDE 33(3), 2021: (4),
Algorithm 2, Definitions 1 and 2, Theorem 2 (s <= C1 d / log(D/s)).

Deviations
- A bias, not projected; the deviations of kernels.py; M is hashed from names (core.features.projection).
- RECOVER on request over the client's names, instead of after every row over all D: it takes .3 to 5 s.
- v is scaled to |v| = 1 for the solver, whose tolerance is absolute.
"""

import math
from typing import NamedTuple

import numpy as np

from core.contract import Floats
from core.problems import Invalid

SPARSITY_MAX = 0.6  # C: largest s ln(D/s) / d that is attempted
RESIDUAL_MAX = 0.5  # largest share of |v| that the s largest may leave unexplained
CELLS_MAX = 2_000_000  # largest matrix, in numbers: d times names
NAMES_MAX = 10_000
SOLVE_S_MAX = 10.0  # how long one linear program may take, in seconds

_SPARSITY = "sparsity"


class Recovered(NamedTuple):
    """The result of RECOVER."""

    weights: Floats  # (D,), at most s of them nonzero
    residual: float  # |M w - v| / |v|; 0 if v is 0


def sparsity_bound(dimension: int, names: int) -> int:
    """The largest s that is attempted: s ln(names / s) <= C d; any s if there are at most d names."""
    if names <= dimension:
        return names
    s = 1
    while s < dimension and (s + 1) * math.log(names / (s + 1)) <= SPARSITY_MAX * dimension:
        s += 1
    return s


def names_bound(dimension: int) -> int:
    """The most names to recover over, so that the program stays small."""
    return min(NAMES_MAX, CELLS_MAX // dimension)


def recover(M: Floats, v: Floats, sparsity: int) -> Recovered:
    """RECOVER[v] (Algorithm 2, line 8): the ``sparsity`` largest entries of the x with the least |x|_1 and M x = v.

    M (d, D) has the columns of the names, v (d,) is the model in the projected space. ``Invalid`` if s is too large for
    d (``allowed`` has the limit), no x fits, the program takes too long, or the residual is too large.
    """
    d, D = M.shape
    bound = sparsity_bound(d, D)
    if sparsity > bound:
        problem = f"is too large to recover from {d} projected columns among {D} names"
        raise Invalid.of(_SPARSITY, problem, f"<= {bound} for compressed_dim {d} and {D} names")
    size = math.sqrt(float(np.square(v / max(np.abs(v).max(), 1e-300)).sum())) * float(np.abs(v).max())
    if size == 0.0:
        return Recovered(np.zeros(D), 0.0)
    unit = v / size
    x = np.linalg.lstsq(M, unit, rcond=None)[0] if d >= D else _least_sum(M, unit)
    kept = np.argsort(-np.abs(x), kind="stable")[:sparsity]  # Definition 2: the nearest s-sparse vector
    largest = np.zeros(D)
    largest[kept] = x[kept]
    residual = float(np.linalg.norm(M @ largest - unit))
    if residual > RESIDUAL_MAX:
        problem = (
            f"does not explain the model: {sparsity} of these {D} names leave {100 * residual:.0f} % of its weights "
            "unexplained; they are less sparse, or belong to other names"
        )
        raise Invalid.of(_SPARSITY, problem, f"<= {100 * RESIDUAL_MAX:.0f} % left; sparsity may go up to {bound}")
    return Recovered(largest * size, residual)


def recover_all(M: Floats, V: Floats, sparsity: int) -> list[Recovered]:
    """RECOVER for every output, V (m, d); two classes need it only once, because their weights are opposite.

    ``Invalid`` as ``recover``.
    """
    if len(V) == 2 and (V[0] == -V[1]).all():
        second = recover(M, V[1], sparsity)
        return [Recovered(0.0 - second.weights, second.residual), second]
    return [recover(M, v, sparsity) for v in V]


def _least_sum(M: Floats, v: Floats) -> Floats:
    """The x with the least |x|_1 subject to M x = v (Definition 1 with p = 1)."""
    from scipy.optimize import linprog  # noqa: PLC0415  large, and only needed for RECOVER

    D = M.shape[1]
    found = linprog(
        np.ones(2 * D),
        A_eq=np.hstack([M, -M]),
        b_eq=v,
        bounds=(0, None),
        method="highs-ds",
        options={"time_limit": SOLVE_S_MAX, "presolve": False},  # presolve finds nothing in a dense matrix
    )
    if found.status == 1:
        raise Invalid.of("names", f"are too many to recover weights for within {SOLVE_S_MAX:g} s", "fewer names")
    if found.status != 0 or found.x is None:
        raise Invalid.of("names", "cannot explain the model: no weights of these names reproduce its projection")
    return np.asarray(found.x[:D] - found.x[D:], dtype=np.float64)
