r"""The linear mapping from new features to old ones, learned in the overlap period one row at a time.

From rows that carry both, x2 (d2,) of the new space and x1 (d1,) of the old one, with m1, m2 their means and s the
deviations of x2 over the B rows so far, ridge regression on z = (x2 - m2) / s:

    min_N  sum |x1 - m1 - N'z|^2 + l |N|^2,    l = r trace(Z Z') / B = r times the columns that vary
    N = Z' (Z Z' + l I)^{-1} (X1 - m1)         while B <= max(d2, 128) (dual): the rows are stored
    N = (Z'Z + l I)^{-1} Z' (X1 - m1)          after that (primal): only S22 and S21 are stored,
    S += (1 - 1/B) (x2 - m2)(x - m)'           x of both spaces, m from before the row
    recovered  x1 = m1 + M'(x2 - m2),          M = N / s; columns that never varied have no part in it

**In factors.** With B stored rows M is L'R, with L = Z / s (B, d2) and R = (Z Z' + l I)^{-1} (X1 - m1) (B, d1). A large
M is kept as these factors while they have fewer numbers than M. If the sums would be too large as well, only the newest
rows are stored, as many as fit in 3 2^20 numbers, and M is solved from them.

In the new space, old weights w1 become M w1, and w1'(m1 - M'm2) is added to the bias.

**The ridge** r is .03 unless leave-one-out says otherwise (core.switching.ridge); it is chosen with each solution of up
to 128 rows, and stays after that.

A row costs some d2 (d2 + d1) operations, and its share of the solutions, each O(d2^2 (d2 + d1)), about as much again.

``variant: "paper"`` is least squares (2): no means, no deviations, l = 1e-10 trace(X2 X2') / B, which for B < d2 is the
least-norm solution (the printed inverse does not exist there, and inverting literally recovers noise).

Source: Hou, Zhang, Zhou: Learning With Feature Evolvable Streams, IEEE TKDE 33(6), 2021: Section 4.1, (2).

Deviations
- The ridge, the affine term and the standardised x2: by (2) alone an overlap shorter than d2 recovers noise.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.contract import ROWS_IN, Floats, Header, Ints, Weights
from core.numerics.rows import column_means, put
from core.state.layout import NOT_NEGATIVE, ROWS_MAX, Array, Layout, Range, counts
from core.switching.feature_recovery import ENTRY_MAX, INPUT, INPUT_MAX, OUTPUT_MAX, FeatureRecovery, rows_kept
from core.switching.ridge import CHOICE_ROWS_MAX, RIDGE_ARRAY, chosen, flops_to_choose, inverse_with

RIDGE_PAPER = 1e-10
SUM_MAX = 5.0 * ROWS_MAX * INPUT_MAX**2  # of products of deviations, each at most 2 INPUT_MAX
DENSE_MAX = 2**16  # most numbers in a mapping that is never kept as factors
_ENTRY, _SUM = Range(-ENTRY_MAX, ENTRY_MAX), Range(-SUM_MAX, SUM_MAX)
_LAYOUT = Layout(
    mean=Array("columns", within=INPUT),
    errors=Array(2, "targets", within=NOT_NEGATIVE),
    M=Array("sources", "targets", within=_ENTRY),
    left=Array("rank", "sources", within=_ENTRY),
    right=Array("rank", "targets", within=_ENTRY),
    centre=Array("columns", within=INPUT),
    ridge=RIDGE_ARRAY,
    S=Array("sources", "columns", within=_SUM),
    stored=Array("rows", "columns", within=INPUT),
)


@cache
def _layout_of(rows: str, mapping: str) -> Layout:
    """Which of "S" and "stored" exists, and whether the mapping is "M" or has factors."""
    return _LAYOUT.without(*({"S", "stored"} - {rows}), *(("left", "right") if mapping else ("M",)))


@njit(f"void({ROWS_IN}, f8[::1], f8[::1], f8[:,::1], f8[:,::1])", cache=True, nogil=True)
def _recover(X2: Floats, m2: Floats, m1: Floats, M: Floats, out: Floats) -> None:
    """m1 + M'(x2 - m2) for rows X2 (n, d2) into out (n, d1), row by row in one order: the same bits in any block."""
    for i in range(X2.shape[0]):
        put(m1, out[i])
        for k in range(M.shape[0]):
            z = min(max(X2[i, k], -INPUT_MAX), INPUT_MAX) - m2[k]
            for j in range(M.shape[1]):
                out[i, j] += z * M[k, j]
        for j in range(M.shape[1]):
            out[i, j] = min(max(out[i, j], -OUTPUT_MAX), OUTPUT_MAX)


@njit(f"void({ROWS_IN}, f8[::1], f8[::1], f8[:,::1], f8[:,::1], f8[:,::1])", cache=True, nogil=True)
def _recover_by_factors(X2: Floats, m2: Floats, m1: Floats, left: Floats, right: Floats, out: Floats) -> None:
    """``_recover`` with M = left' right."""
    for i in range(X2.shape[0]):
        put(m1, out[i])
        for b in range(left.shape[0]):
            part = 0.0
            for k in range(left.shape[1]):
                part += (min(max(X2[i, k], -INPUT_MAX), INPUT_MAX) - m2[k]) * left[b, k]
            for j in range(right.shape[1]):
                out[i, j] += part * right[b, j]
        for j in range(right.shape[1]):
            out[i, j] = min(max(out[i, j], -OUTPUT_MAX), OUTPUT_MAX)


@njit("void(f8[::1], i8, f8, f8[::1], f8[:,::1])", cache=True, nogil=True)
def _accumulate(x: Floats, d2: int, rows: float, mean: Floats, S: Floats) -> None:
    """Add row x (d2 + d1,), the ``rows``-th, to the means and S (d2, d2 + d1), whose S22 is an upper triangle."""
    share = 1.0 - 1.0 / rows
    for i in range(d2):
        f = (x[i] - mean[i]) * share
        if f != 0.0:
            for j in range(i, x.shape[0]):
                S[i, j] += f * (x[j] - mean[j])
    for j in range(x.shape[0]):
        mean[j] += (x[j] - mean[j]) / rows


class LinearMapping(FeatureRecovery):
    """Ridge regression; with ``paper`` least squares, (2).

    State:
        stored (B, d2 + d1)     the rows, while B <= max(d2, 128), with ``paper`` d2; none after that; or the newest
        mean (d2 + d1,)         m2 and m1
        S (d2, d2 + d1)         S22 (upper triangle) and S21; None while rows are stored
        M (d2, d1)              the mapping in use, of row ``solved``; None where it is kept in factors
        left (r, d2), right (r, d1)     L and R
    """

    kind = "linear"

    def __init__(self, sources: Sequence[str], targets: Sequence[str], paper: bool = False) -> None:
        super().__init__(sources, targets, paper)
        most, self._newest = rows_kept(self.d2, self.d1)
        self._stored_max = self.d2 if paper and not self._newest else most
        if self._newest:
            self.kept_max = most
        self.S: Floats | None = None
        self.mean = np.zeros(self.d2 + self.d1)
        self.left, self.right = np.zeros((0, self.d2)), np.zeros((0, self.d1))
        self.M: Floats | None = None if self._factored(0) else np.zeros((self.d2, self.d1))

    def _factored(self, rows: int) -> bool:
        """Whether factors of so many rows have fewer numbers than M."""
        return self.d2 * self.d1 > max(DENSE_MAX, rows * (self.d2 + self.d1))

    @property
    def layout(self) -> Layout:  # type: ignore[override]  # what there is at the moment
        """The layout of the existing arrays."""
        rows = "S" if self.S is not None else "stored" if len(self.stored) else ""
        return _layout_of(rows, "" if self.M is None else "M")

    def _absorb(self, row: Floats, recovered: Floats) -> None:
        del recovered
        if self.S is not None:
            _accumulate(row, self.d2, self.count, self.mean, self.S)
        elif self._newest and len(self.stored) == self._stored_max:
            self.stored = np.concatenate([self.stored[1:], row[None]])
            self.mean = column_means(self.stored)
        else:
            self.stored = np.concatenate([self.stored, row[None]])
            self.mean += (row - self.mean) / self.count
            if self.count > self._stored_max:  # the stored rows become sums of products
                self.S, self.mean = np.zeros((self.d2, self.d2 + self.d1)), np.zeros_like(self.mean)
                for at, one in enumerate(self.stored):
                    _accumulate(one, self.d2, at + 1, self.mean, self.S)
                self.stored = self.stored[:0].copy()

    def _solve(self) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            if self.S is not None:
                self._use(M=self._primal(self.S))
            else:
                Z, inverse, right = self._dual()
                if self._factored(len(Z)):
                    self._use(left=Z * inverse, right=right)
                else:
                    self._use(M=inverse[:, None] * (Z.T @ right))
        self.centre = np.zeros_like(self.mean) if self.paper else self.mean.copy()

    def _use(self, *, M: Floats | None = None, left: Floats | None = None, right: Floats | None = None) -> None:
        """Recover by M, or by factors of it, from now on."""
        self.M = None if M is None else _within(M)
        self.left = np.zeros((0, self.d2)) if left is None else _within(left)
        self.right = np.zeros((0, self.d1)) if right is None else _within(right)

    def _dual(self) -> tuple[Floats, Floats, Floats]:
        """Z (B, d2), 1 / s (d2,) and R (B, d1)."""
        if self.paper:
            Z, X1 = np.split(self.stored, [self.d2], axis=1)
            return Z, np.ones(self.d2), inverse_with(Z @ Z.T, RIDGE_PAPER) @ X1
        X2, X1 = np.split(self.stored - self.mean, [self.d2], axis=1)
        inverse = inverse_deviations((X2**2).sum(axis=0), len(X2))
        Z = X2 * inverse
        K = Z @ Z.T
        if self.count <= CHOICE_ROWS_MAX:
            self.ridge[0] = chosen(K, X1)
        return Z, inverse, inverse_with(K, self.ridge[0]) @ X1

    def _primal(self, S: Floats) -> Floats:
        S22, S21 = S[:, : self.d2], S[:, self.d2 :]
        S22 = np.triu(S22) + np.triu(S22, 1).T
        if self.paper:
            m2, m1 = np.split(self.mean, [self.d2])
            S22, S21 = S22 + self.count * np.outer(m2, m2), S21 + self.count * np.outer(m2, m1)
            return np.asarray(inverse_with(S22, RIDGE_PAPER * self.d2 / self.count) @ S21)
        inverse = inverse_deviations(S22.diagonal(), self.count)
        C = S22 * np.outer(inverse, inverse)
        ridge = self.ridge[0] * self.d2 / self.count
        return np.asarray(inverse[:, None] * (inverse_with(C, ridge) @ (S21 * inverse[:, None])))

    def _recover(self, X2: Floats, m2: Floats, m1: Floats, out: Floats) -> None:
        if self.M is None:
            _recover_by_factors(X2, m2, m1, self.left, self.right, out)
        else:
            _recover(X2, m2, m1, self.M, out)

    def carry(self, weights: Weights) -> Weights:
        """A linear model of the targets as one of the sources: M w1, with w1'(m1 - M'm2) added to the bias."""
        m2, m1 = self.centre[: self.d2], self.centre[self.d2 :]
        w = np.ascontiguousarray(weights.coefficients[:, self.vanished])
        with np.errstate(over="ignore", invalid="ignore"):
            if self.M is None:
                carried, moved = (w @ self.right.T) @ self.left, (m2 @ self.left.T) @ self.right
            else:
                carried, moved = w @ self.M.T, m2 @ self.M
            carried, bias = np.nan_to_num(carried), np.nan_to_num(weights.bias + w @ (m1 - moved))
        coefficients = np.clip(carried, -OUTPUT_MAX, OUTPUT_MAX)
        coefficients[:, self.source] += weights.coefficients[:, self.kept]  # no two kept columns have one source
        return Weights(*(np.clip(part, -OUTPUT_MAX, OUTPUT_MAX) for part in (coefficients, bias)))

    def flops_to_learn(self, rows: int) -> float:
        """Approximate floating-point operations of learning rows and solving the mapping once."""
        columns, stored = self.d2 + self.d1, self.count + rows
        solving = (4.0 * rows + self.d2) * self.d2 * columns
        if self._newest or stored <= self._stored_max:
            B = float(min(stored, self._stored_max))
            solving = min(solving, (4.0 * rows + 2.0 * B) * B * columns + B**3)
        return solving + flops_to_choose(self.count, rows, self.d1)

    @property
    def flops_to_recover(self) -> float:
        """Operations of recovering one row."""
        return 2.0 * (len(self.left) * (self.d2 + self.d1) if self.M is None else self.d2 * self.d1)

    def freeze(self) -> None:
        """Stop learning: drop the rows' part of the state, keep the current mapping."""
        super().freeze()
        self.S = None

    @property
    def frozen(self) -> bool:
        """See ``FeatureRecovery``; sums of products can stand for the rows."""
        return super().frozen and self.S is None

    def _hand(self, other: Self, at: Ints) -> None:
        other.mean = self.mean[np.concatenate([np.arange(self.d2), self.d2 + at])]
        other.M = None if self.M is None else np.ascontiguousarray(self.M[:, at])
        other.left, other.right = self.left, np.ascontiguousarray(self.right[:, at])

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Load a state from ``to_arrays``; see ``Holder``."""
        rows = next((name for name in ("S", "stored") if name in arrays), "")
        count, solved = counts(header, **self.counts)
        held: dict[str, Any] = {"S": None, "stored": self.stored[:0].copy(), "M": None}
        held |= {"left": np.zeros((0, self.d2)), "right": np.zeros((0, self.d1))}
        held |= _layout_of(rows, "M" if "M" in arrays else "").read(arrays, **self._sizes(header))
        self._check(held, header)
        if rows == "stored" and len(held["stored"]) != min(count, self._stored_max):
            raise ValueError("the mapping does not store the rows that it has learned")
        for name, value in (("count", count), ("solved", solved), *held.items()):
            setattr(self, name, value)


def inverse_deviations(squares: Floats, rows: int) -> Floats:
    """1 / s per column, 0 if a column never varied."""
    deviations = np.sqrt(squares / rows)
    return np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations > 1e-100)


def _within(M: Floats) -> Floats:
    """A solution with finite entries."""
    return np.ascontiguousarray(np.clip(np.nan_to_num(M), -ENTRY_MAX, ENTRY_MAX))
