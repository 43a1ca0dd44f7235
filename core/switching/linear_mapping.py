r"""The linear mapping from new features to old ones, learned in the overlap period one row at a time.

From rows that carry both, x2 (d2,) of the new space and x1 (d1,) of the old one, with m1, m2 their means and s the
deviations of x2 over the B rows so far, ridge regression on z = (x2 - m2) / s:

    min_N  sum |x1 - m1 - N'z|^2 + l |N|^2,    l = r trace(Z Z') / B = r times the columns that vary
    N = Z' (Z Z' + l I)^{-1} (X1 - m1)         while B <= max(d2, 128) (dual): the rows are stored
    N = (Z'Z + l I)^{-1} Z' (X1 - m1)          after that (primal): only S22 and S21 are,
    S += (1 - 1/B) (x2 - m2)(x - m)'           x of both spaces, m from before the row
    recovered  x1 = m1 + M'(x2 - m2),          M = N / s; columns that never varied have no part in it

As a model of the new space old weights w1 become M w1, and w1'(m1 - M'm2) joins the bias.

**The ridge** r is .03 unless leave-one-out says otherwise (core.switching.ridge); it is chosen with each solution of up
to 128 rows, and stays after that.

**When it is solved.** After rows 2 to 8, then each time the rows have grown by an eighth, and when asked. In
between the last solution is used; so a row costs some d2 (d2 + d1) operations, and its share of the
solutions, each O(d2^2 (d2 + d1)), is as much again.

**Held-out error.** From row 3 on each row is first recovered by the last solution. Per old column, with B the
rows before, e the mean squared error of late and v the mean squared distance from the mean of the rows before,

    v += max(.02, 1 / (B - 1)) (distance^2 - v),    e += max(.02, 4 / (B + 2)) (min(error^2, 10 v) - e)

so that e covers the last quarter of few rows and the last 50 of many: it measures the mapping of now. Reported is
the mean of e / v over the columns, each at most 10: 0 is perfect, 1 is no better than the mean.

``variant: "paper"`` is least squares (2): no means, no deviations, l = 1e-10 trace(X2 X2') / B, which for B < d2 is the
least-norm solution (the printed inverse does not exist there, and inverting literally recovers noise).

**Any finite input.** Values are held within 1e75, recovered ones within 1e300.

Source: Hou, Zhang, Zhou: Learning With Feature Evolvable Streams, IEEE TKDE 33(6), 2021: Section 4.1, (2).

Deviations
- The ridge, the affine term and the standardised x2: by (2) alone an overlap shorter than d2 recovers noise.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.contract import Floats, Header, Ints, Weights
from core.state.layout import NOT_NEGATIVE, ROWS_MAX, Array, Counts, Holder, Layout, counts
from core.switching.feature_recovery import CHOICE_ROWS_MAX, RIDGE, ROWS_MIN, linear_rows_max
from core.switching.ridge import RIDGE_ARRAY, chosen, flops_to_choose, inverse_with

RIDGE_PAPER = 1e-10
ERROR_MAX = 10.0
_RATE, _LATE = 0.02, 4.0
_INPUT_MAX, _ENTRY_MAX, _OUTPUT_MAX = 1e75, 1e200, 1e300
_ALWAYS_ROWS = 8
_READ = "Array(f8, 2, 'C', readonly=True)"
_LAYOUT = Layout(
    {
        "mean": Array("columns"),
        "errors": Array(2, "targets", within=NOT_NEGATIVE),
        "M": Array("sources", "targets"),
        "centre": Array("columns"),
        "ridge": RIDGE_ARRAY,
        "S": Array("sources", "columns"),
        "stored": Array("count", "columns"),
    }
)
WITH_SUMS, _WITH_ROWS, _SOLVED = _LAYOUT.without("stored"), _LAYOUT.without("S"), _LAYOUT.without("S", "stored")


@njit(f"void({_READ}, f8[::1], f8[::1], f8[:,::1], f8[:,::1])", cache=True, nogil=True)
def _recover(X2: Floats, m2: Floats, m1: Floats, M: Floats, out: Floats) -> None:
    """m1 + M'(x2 - m2) for rows X2 (n, d2) into out (n, d1), row by row in one order: the same bits in any block."""
    for i in range(X2.shape[0]):
        out[i] = m1
        for k in range(M.shape[0]):
            z = min(max(X2[i, k], -_INPUT_MAX), _INPUT_MAX) - m2[k]
            for j in range(M.shape[1]):
                out[i, j] += z * M[k, j]
        for j in range(M.shape[1]):
            out[i, j] = min(max(out[i, j], -_OUTPUT_MAX), _OUTPUT_MAX)


@njit("void(f8[::1], i8, f8, f8[::1], f8[:,::1])", cache=True, nogil=True)
def _accumulate(x: Floats, d2: int, rows: float, mean: Floats, S: Floats) -> None:
    """Row x (d2 + d1,), the ``rows``-th, joins the means and S (d2, d2 + d1), of which S22 is an upper triangle."""
    share = 1.0 - 1.0 / rows
    for i in range(d2):
        f = (x[i] - mean[i]) * share
        if f != 0.0:
            for j in range(i, x.shape[0]):
                S[i, j] += f * (x[j] - mean[j])
    for j in range(x.shape[0]):
        mean[j] += (x[j] - mean[j]) / rows


@njit("void(f8[::1], f8[::1], f8[::1], i8, f8[:,::1])", cache=True, nogil=True)
def update_errors(x1: Floats, recovered: Floats, mean: Floats, rows: int, errors: Floats) -> None:
    """E and v (2, d1) of a row that ``rows`` >= 1 came before."""
    late, all_rows = max(_RATE, _LATE / max(rows + 2.0, _LATE)), max(_RATE, 1.0 / max(rows - 1.0, 1.0))
    for j in range(x1.shape[0]):
        a, b = min(abs(x1[j] - recovered[j]), _INPUT_MAX), x1[j] - mean[j]
        errors[1, j] += all_rows * (b * b - errors[1, j])
        errors[0, j] += late * (min(a * a, ERROR_MAX * errors[1, j]) - errors[0, j])


class ColumnMapping(Holder, ABC):
    """A regression of d1 >= 0 old columns on d2 >= 1 new ones, row by row; ``paper``: in the form of the paper.

    State:
        count, solved       rows learned; rows when the mapping in use was solved
        mean                of the columns, those of the old ones (d1,) last
        errors (2, d1)      see ``update_errors``
        centre (d2 + d1,)   m2 and m1 of the mapping in use
        ridge (1,)          what it was solved with
    """

    mean: Floats
    kept_max = ROWS_MAX
    """Rows that the mapping in use is made of, at most."""

    def __init__(self, sources: int, targets: int, paper: bool = False) -> None:
        self.sources, self.targets, self.paper = sources, targets, paper
        self.count = self.solved = 0
        self.errors = np.zeros((2, targets))
        self.centre = np.zeros(sources + targets)
        self.ridge = np.full(1, RIDGE)

    def learn(self, X2: Floats, X1: Floats) -> None:
        """Learn n rows in order: new columns X2 (n, d2) and old ones X1 (n, d1), all finite."""
        if not self.targets:  # nothing has vanished: rows are counted, and cost nothing
            self.count = self.solved = self.count + len(X2)
            return
        for row in np.clip(np.hstack([X2, X1]), -_INPUT_MAX, _INPUT_MAX):
            recovered = self.recover(row[None, : self.sources])[0]
            if self.solved:
                mean = self.mean[-self.targets :]
                update_errors(row[self.sources :], recovered, mean, self.count, self.errors)
            self.count += 1
            self._absorb(row, recovered)
            if self.count >= max(ROWS_MIN, self.solved + max(1, min(self.solved, self.kept_max) // _ALWAYS_ROWS)):
                self.solve()

    @abstractmethod
    def _absorb(self, row: Floats, recovered: Floats) -> None:
        """Take a row (d2 + d1,) into the means and the sums or stored rows; ``recovered`` (d1,) from its columns."""

    @abstractmethod
    def solve(self) -> None:
        """Take the rows so far into the mapping in use; with fewer than two there is none."""

    def recover(self, X2: Floats) -> Floats:
        """Old columns (n, d1) of new ones (n, d2); zeros before there is a mapping."""
        out = np.empty((len(X2), self.targets))
        self._recover(X2, self.centre[: self.sources], self.centre[self.sources :], out)
        return out

    @abstractmethod
    def _recover(self, X2: Floats, m2: Floats, m1: Floats, out: Floats) -> None:
        """Fill old columns (n, d1)."""

    @property
    def error(self) -> float | None:
        """The mean ratio e / v on rows not learned yet, over the columns that vary; None where none does."""
        varies = self.errors[1] > 0.0
        if not varies.any():
            return None
        with np.errstate(over="ignore"):
            return float(np.minimum(self.errors[0, varies] / self.errors[1, varies], ERROR_MAX).mean())

    def only(self, at: Ints) -> Self:
        """A frozen one, of some of the old columns."""
        found = type(self)(self.sources, len(at), self.paper)
        found.count, found.solved, found.ridge = self.count, self.solved, self.ridge.copy()
        found.errors = np.ascontiguousarray(self.errors[:, at])
        found.centre = self.centre[np.concatenate([np.arange(self.sources), self.sources + at])]
        return found

    def _counts(self) -> Counts:
        return {"count": ROWS_MAX, "solved": ROWS_MAX}

    def _check(self, _held: Mapping[str, Floats], found: Counts) -> None:
        if found["solved"] > found["count"]:
            raise ValueError("the mapping is solved for more rows than it has learned")


class LinearMapping(ColumnMapping):
    """Ridge regression; with ``paper`` least squares, (2).

    State:
        stored (B, d2 + d1)     the rows, while B <= max(d2, 128), with ``paper`` d2; none after that
        mean (d2 + d1,)         m2 and m1
        S (d2, d2 + d1)         S22 (upper triangle) and S21; None while rows are stored
        M (d2, d1)              the mapping in use, of row ``solved``
    """

    def __init__(self, sources: int, targets: int, paper: bool = False) -> None:
        super().__init__(sources, targets, paper)
        self.stored: list[Floats] = []
        self.mean = np.zeros(sources + targets)
        self.S: Floats | None = None
        self.M = np.zeros((sources, targets))

    def _absorb(self, row: Floats, recovered: Floats) -> None:
        del recovered
        if self.S is not None:
            _accumulate(row, self.sources, self.count, self.mean, self.S)
            return
        self.stored.append(row)
        self.mean += (row - self.mean) / self.count
        if self.count > self._stored_max:  # the stored rows become sums of products
            self.S, self.mean = np.zeros((self.sources, self.sources + self.targets)), np.zeros_like(self.mean)
            for at, one in enumerate(self.stored):
                _accumulate(one, self.sources, at + 1, self.mean, self.S)
            self.stored = []

    @property
    def _stored_max(self) -> int:
        return self.sources if self.paper else linear_rows_max(self.sources)

    def solve(self) -> None:
        """Take the rows so far into the mapping in use; with fewer than two there is none."""
        if self.count < ROWS_MIN or self.solved == self.count:
            return
        with np.errstate(over="ignore", invalid="ignore"):
            M = self._dual() if self.S is None else self._primal(self.S)
        self.M = np.ascontiguousarray(np.clip(np.nan_to_num(M), -_ENTRY_MAX, _ENTRY_MAX))
        self.centre = np.zeros_like(self.mean) if self.paper else self.mean.copy()
        self.solved = self.count

    def _dual(self) -> Floats:
        rows = np.array(self.stored)
        if self.paper:
            Z, X1 = np.split(rows, [self.sources], axis=1)
            return np.asarray(Z.T @ (inverse_with(Z @ Z.T, RIDGE_PAPER) @ X1))
        X2, X1 = np.split(rows - self.mean, [self.sources], axis=1)
        inverse = inverse_deviations((X2**2).sum(axis=0), self.count)
        Z = X2 * inverse
        K = Z @ Z.T
        if self.count <= CHOICE_ROWS_MAX:
            self.ridge[0] = chosen(K, X1)
        return np.asarray(inverse[:, None] * (Z.T @ (inverse_with(K, self.ridge[0]) @ X1)))

    def _primal(self, S: Floats) -> Floats:
        S22, S21 = S[:, : self.sources], S[:, self.sources :]
        S22 = np.triu(S22) + np.triu(S22, 1).T
        if self.paper:
            m2, m1 = np.split(self.mean, [self.sources])
            S22, S21 = S22 + self.count * np.outer(m2, m2), S21 + self.count * np.outer(m2, m1)
            return np.asarray(inverse_with(S22, RIDGE_PAPER * self.sources / self.count) @ S21)
        inverse = inverse_deviations(S22.diagonal(), self.count)
        C = S22 * np.outer(inverse, inverse)
        ridge = self.ridge[0] * self.sources / self.count
        return np.asarray(inverse[:, None] * (inverse_with(C, ridge) @ (S21 * inverse[:, None])))

    def _recover(self, X2: Floats, m2: Floats, m1: Floats, out: Floats) -> None:
        _recover(X2, m2, m1, self.M, out)

    def carry(self, weights: Weights) -> Weights:
        """A linear model of the old columns as one of the new ones: M w1, and w1'(m1 - M'm2) on the bias."""
        m2, m1 = self.centre[: self.sources], self.centre[self.sources :]
        w = weights.coefficients
        with np.errstate(over="ignore", invalid="ignore"):
            carried = Weights(w @ self.M.T, weights.bias + w @ (m1 - m2 @ self.M))
        return Weights(*(np.clip(np.nan_to_num(part), -_OUTPUT_MAX, _OUTPUT_MAX) for part in carried))

    def flops_to_learn(self, rows: int) -> float:
        """Floating-point operations of learning some rows and solving the mapping once (coarse)."""
        solving = (4.0 * rows + self.sources) * self.sources * (self.sources + self.targets)
        return solving + flops_to_choose(self.count, rows, self.targets)

    @property
    def flops_to_recover(self) -> float:
        """Operations of recovering one row."""
        return 2.0 * self.sources * self.targets

    def freeze(self) -> None:
        """Nothing is learned any more: the rows' part of the state goes, the mapping in use stays."""
        self.solve()
        self.stored, self.S = [], None

    def only(self, at: Ints) -> Self:
        """A frozen one, of some of the old columns."""
        found = super().only(at)
        found.mean = self.mean[np.concatenate([np.arange(self.sources), self.sources + at])]
        found.M = np.ascontiguousarray(self.M[:, at])
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        sums = 0 if self.S is None else self.S.nbytes
        return len(self.stored) * self.mean.nbytes + sums + _SOLVED.held_bytes(self)

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state."""
        arrays = (_SOLVED if self.S is None else WITH_SUMS).to_arrays(self)
        if self.stored:
            arrays["stored"] = np.array(self.stored)
        return arrays, {"count": self.count, "solved": self.solved}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state of ``to_arrays``.

        Raises:
            ValueError: what no state of this mapping can be; nothing has changed.
        """
        layout = WITH_SUMS if "S" in arrays else _WITH_ROWS if "stored" in arrays else _SOLVED
        count, solved = counts(header, **self._counts())
        sizes = {"sources": self.sources, "targets": self.targets, "columns": self.sources + self.targets}
        found: dict[str, Any] = {"S": None, "stored": (), **layout.read(arrays, count=count, **sizes)}
        self._check(found, {"count": count, "solved": solved})
        if "stored" in arrays and count > self._stored_max:
            raise ValueError("the mapping stores more rows than it can")
        self.count, self.solved, self.S, self.stored = count, solved, found["S"], list(found["stored"])
        self.mean, self.centre, self.errors = found["mean"], found["centre"], found["errors"]
        self.M, self.ridge = found["M"], found["ridge"]


def inverse_deviations(squares: Floats, rows: int) -> Floats:
    """1 / s per column, 0 where a column never varied."""
    deviations = np.sqrt(squares / rows)
    return np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations > 1e-100)
