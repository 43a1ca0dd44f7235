r"""The mapping from new features to old ones by a radial kernel, for relations that are not linear, row by row.

From rows that carry both, x2 (d2,) and x1 (d1,), of which the newest 500 are kept: with z = (x2 - m2) / s standardised
over the kept rows,

    k(z, z') = exp(-|z - z'|^2 / (2 h^2)),     h = the median distance between two kept rows
    A = (K + r I)^{-1} (X1 - m1)               kernel ridge; K (B, B) of the kept rows, whose trace / B is 1
    recovered  x1 = m1 + sum_i A_i k(z_i, z)

core.switching.ridge chooses r. Far from all kept rows the mean is recovered.

``variant: "paper"`` is the stochastic gradient (3): e_t = x1_t - sum_{i<t} e_i k(x_i, x_t), recovered
x1 = sum_i e_i k(x_i, x), with k = exp(-|x - x'|^2 / 20) and step 1 (Section 6.4), on the columns as they are; of the
newest 500 rows as well.

Use it for maps that are not linear and overlaps of some 50 rows or more (measured once). A
recovered row costs B (d2 + d1) operations and B exponentials.

Source: Hou, Zhang, Zhou: Learning With Feature Evolvable Streams, IEEE TKDE 33(6), 2021: Section 4.1, (3).

Deviations
- Kernel ridge regression instead of one pass of gradient descent, which up to 50 overlap rows is never better than a
  linear mapping; the bandwidth is measured; the number of rows kept is bounded.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
from numba import njit

from core.contract import ROWS_IN, Floats, Ints
from core.numerics.rows import column_means, put
from core.state.layout import NOT_NEGATIVE, Array, Counts, Layout
from core.switching.feature_recovery import ENTRY_MAX, INPUT, INPUT_MAX, OUTPUT_MAX, STORED_MAX, FeatureRecovery
from core.switching.linear_mapping import inverse_deviations
from core.switching.ridge import CHOICE_ROWS_MAX, RIDGE_ARRAY, chosen, flops_to_choose, inverse_with

PAPER_SCALE = 1.0 / math.sqrt(10.0)  # the scale that gives exp(-|x - x'|^2 / 20) for distances in units of h = 1


@njit(f"void({ROWS_IN}, f8[:,::1], f8[::1], f8[::1], f8[::1], f8[:,::1], f8[:,::1])", cache=True, nogil=True)
def _recover(X2: Floats, Z: Floats, m2: Floats, scale: Floats, m1: Floats, A: Floats, out: Floats) -> None:
    """m1 + sum_i A_i exp(-|z_i - z|^2 / 2), z = (x2 - m2) scale, for rows X2 (n, d2) into out (n, d1), row by row."""
    z = np.empty(Z.shape[1])
    for r in range(X2.shape[0]):
        for j in range(Z.shape[1]):
            z[j] = (min(max(X2[r, j], -INPUT_MAX), INPUT_MAX) - m2[j]) * scale[j]
        put(m1, out[r])
        for i in range(Z.shape[0]):
            distance = 0.0
            for j in range(Z.shape[1]):
                distance += (Z[i, j] - z[j]) * (Z[i, j] - z[j])
            k = math.exp(-0.5 * distance)
            if k > 0.0:
                for j in range(out.shape[1]):
                    out[r, j] += k * A[i, j]
        for j in range(out.shape[1]):
            out[r, j] = min(max(out[r, j], -OUTPUT_MAX), OUTPUT_MAX)


class KernelMapping(FeatureRecovery):
    """Kernel regression; with ``paper`` the stochastic gradient, (3).

    State:
        mean (d1,)              m1 of all rows
        stored (b, d2 + d1)     the newest rows, b = min(count, 500), oldest first; with ``paper`` x2 and e
        Z (B, d2), A (B, d1)    kept rows and coefficients of the mapping in use
        scale (d2,)             1 / (s h)
    """

    kind = "kernel"
    layout = Layout(
        stored=Array("stored", "columns", within=INPUT),
        errors=Array(2, "targets", within=NOT_NEGATIVE),
        mean=Array("targets", within=INPUT),
        Z=Array("kept", "sources"),
        A=Array("kept", "targets"),
        centre=Array("columns", within=INPUT),
        scale=Array("sources", within=NOT_NEGATIVE),
        ridge=RIDGE_ARRAY,
    )
    kept_max = STORED_MAX

    def __init__(self, sources: Sequence[str], targets: Sequence[str], paper: bool = False) -> None:
        super().__init__(sources, targets, paper)
        self.mean = np.zeros(self.d1)
        self.Z, self.A = np.zeros((0, self.d2)), np.zeros((0, self.d1))
        self.scale = np.full(self.d2, PAPER_SCALE)

    def _absorb(self, row: Floats, recovered: Floats) -> None:
        self.mean += (row[self.d2 :] - self.mean) / self.count
        if self.paper:
            row[self.d2 :] = np.clip(row[self.d2 :] - recovered, -INPUT_MAX, INPUT_MAX)
        self.stored = np.concatenate([self.stored[-STORED_MAX + 1 :], row[None]])
        if self.paper:
            self._solve()
            self.solved = self.count

    def _solve(self) -> None:
        X2, X1 = (np.ascontiguousarray(part) for part in np.split(self.stored, [self.d2], axis=1))
        if self.paper:
            self.Z, self.A = X2 * PAPER_SCALE, X1
            return
        self.centre = column_means(self.stored)
        m2, m1 = np.split(self.centre, [self.d2])
        inverse = inverse_deviations(((X2 - m2) ** 2).sum(axis=0), len(X2))
        Z = (X2 - m2) * inverse
        D2 = _squared_distances(Z)
        h = math.sqrt(float(np.median(D2[np.triu_indices(len(Z), 1)]))) or 1.0
        self.scale = inverse / h
        self.Z = np.ascontiguousarray(Z / h)
        K = np.exp(-0.5 * D2 / (h * h))
        if self.count <= CHOICE_ROWS_MAX:
            self.ridge[0] = chosen(K, X1 - m1)
        A = np.clip(inverse_with(K, self.ridge[0]) @ (X1 - m1), -ENTRY_MAX, ENTRY_MAX)
        self.A = np.ascontiguousarray(A)

    def _recover(self, X2: Floats, m2: Floats, m1: Floats, out: Floats) -> None:
        _recover(X2, self.Z, m2, self.scale, m1, self.A, out)

    def flops_to_learn(self, rows: int) -> float:
        """Approximate floating-point operations of learning rows and solving the mapping once."""
        stored = min(STORED_MAX, self.count + rows)
        solving = (8.0 * rows + stored) * stored * (stored + self.d2 + self.d1)
        return solving + flops_to_choose(self.count, rows, self.d1)

    @property
    def flops_to_recover(self) -> float:
        """Operations of recovering one row."""
        return 4.0 * STORED_MAX * (self.d2 + self.d1)

    def _hand(self, other: Self, at: Ints) -> None:
        other.mean, other.scale = self.mean[at], self.scale.copy()
        if len(at):
            other.Z, other.A = self.Z.copy(), np.ascontiguousarray(self.A[:, at])

    def _sizes(self, found: Counts) -> Counts:
        return {**super()._sizes(found), "kept": min(found["solved"], STORED_MAX) if self.d1 else 0}

    def _check(self, held: Mapping[str, Floats], found: Counts) -> None:
        super()._check(held, found)
        if len(held["stored"]) not in {0, min(found["count"], STORED_MAX)}:
            raise ValueError("stored: not the newest rows")


def _squared_distances(Z: Floats) -> Floats:
    """|z_i - z_j|^2 (B, B), exactly symmetric."""
    squares = (Z**2).sum(axis=1)
    D2 = np.maximum(squares[:, None] + squares - 2.0 * (Z @ Z.T), 0.0)
    return np.asarray(np.maximum(D2, D2.T))
