r"""Columns of another feature space from rows of this one: kept columns are copied, vanished ones recovered.

    sources (n, D)  ->  targets (n, d)      kept: by name; vanished: a regression on all sources, learned row by row

Columns are those of the encoded rows; a kept column has the same name in both. If the spaces declare a number
differently, and the targets' space does not accept all values, the number and its lags are held within the range
declared there. A column that was once recovered and comes back as a feature is copied from then on.

**When it is solved.** After each of rows 2 to 8, then whenever the number of rows has grown by an eighth, and on
request. In between, the last solution is used.

**Held-out error.** From row 3 on, each row is first recovered by the last solution. Per vanished column, with B the
rows before, e the recent mean squared error, and v the mean squared distance from the mean of the rows before,

    v += max(.02, 1 / (B - 1)) (distance^2 - v),    e += max(.02, 4 / (B + 2)) (min(error^2, 10 v) - e)

so that e covers the last quarter of the rows, at most about 50: it measures the present mapping. The reported
error is the mean of e / v over the columns, each at most 10: 0 is perfect, 1 is no better than the mean.

**Any finite input.** Values are held within 1e75, recovered ones within 1e300.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header, Ints, Weights
from core.features import Schema, Space
from core.state.layout import ROWS_MAX, Counts, Holder, Range
from core.switching.ridge import CHOICE_ROWS_MAX, RIDGE

MappingKind = Literal["linear", "kernel"]
ROWS_MIN = 2  # least rows for a mapping
STORED_MAX = 500  # most rows that a kernel mapping keeps
SUMS_MAX, WINDOW_MAX = 2**23, 3 * 2**20
"""A linear mapping whose stored rows would exceed SUMS_MAX numbers keeps only the newest WINDOW_MAX numbers."""
ROWS_ENOUGH = 5  # overlap rows, the paper's minimum, below which a switch warns and relies on the new model
ERROR_POOR = 0.8  # held-out error of a mapping above which a switch warns, too
ERROR_MAX = 10.0
INPUT_MAX, ENTRY_MAX, OUTPUT_MAX = 1e75, 1e200, 1e300
INPUT = Range(-1.01 * INPUT_MAX, 1.01 * INPUT_MAX)
"""The range of inputs, and of their rounded means, in a state."""
_RATE, _LATE = 0.02, 4.0
_ALWAYS_ROWS = 8
_LAGGED = re.compile(r"(.*) \(t-(\d+)\)", re.DOTALL)


class FeatureRecovery(Holder, ABC):
    """A mapping between two lists of columns, a state machine over rows that have both.

    ``sources`` names the d2 >= 1 columns of rows, ``targets`` the columns to recover: those ``kept`` are copied from
    ``source``, and the d1 >= 0 ``vanished`` ones come from the regression. ``paper``: it has the paper's form.

    State:
        count, solved       rows learned; rows when the mapping in use was solved
        mean                means of columns, last those of the vanished ones (d1,)
        errors (2, d1)      e and v
        stored (b, d2 + d1) rows that the mapping is solved for
        centre (d2 + d1,)   m2 and m1 of the mapping in use
        ridge (1,)          the ridge it was solved with
    """

    counts: Mapping[str, int] = {"count": ROWS_MAX, "solved": ROWS_MAX}
    kind: ClassVar[MappingKind]
    kept_max: int = ROWS_MAX
    """The most rows that the mapping in use is made of."""
    mean: Floats
    limits: Floats | None = None
    """(2, d) the ends of kept columns, NaN where there is none; None: no column has any."""

    def __init__(self, sources: Sequence[str], targets: Sequence[str], paper: bool = False) -> None:
        places = {name: at for at, name in enumerate(sources)}
        self.sources, self.targets, self.paper = tuple(sources), tuple(targets), paper
        self.kept = np.array([at for at, name in enumerate(targets) if name in places], dtype=np.int64)
        self.source = np.array([places[name] for name in targets if name in places], dtype=np.int64)
        self.vanished = np.array([at for at, name in enumerate(targets) if name not in places], dtype=np.int64)
        self.d2, self.d1 = len(sources), len(self.vanished)
        self.count = self.solved = 0
        self.errors = np.zeros((2, self.d1))
        self.centre = np.zeros(self.d2 + self.d1)
        self.ridge = np.full(1, RIDGE)
        self.stored = np.zeros((0, self.d2 + self.d1))

    def read_as(self, own: Space, rows: Space) -> None:
        """Hold kept columns within the ranges of the space they are recovered for, ``own``, as for its own rows."""
        assert isinstance(own, Schema)
        assert isinstance(rows, Schema)
        both = [(one, rows.features[rows.index[one.name]]) for one in own.features if one.name in rows.index]
        ends = {one.name: (one.minimum, one.maximum) for one, other in both if one.outside != "accept" and one != other}
        names = [name if name in own.index else unlagged(name)[0] for name in self.targets]
        self.limits = np.array([ends.get(name, (None, None)) for name in names], np.float64).T if ends else None

    def learn(self, X: Floats, Y: Floats) -> None:
        """Learn n rows in order: sources X (n, d2) with their targets Y (n, d), all finite."""
        if not self.d1:  # nothing has vanished: rows are only counted
            self.count = self.solved = self.count + len(X)
            return
        # with a single source column NumPy would stack by column, and rows would not be contiguous
        both = np.ascontiguousarray(np.hstack([X, Y[:, self.vanished]]))
        for row in np.clip(both, -INPUT_MAX, INPUT_MAX):
            recovered = self._recovered(row[None, : self.d2])[0]
            if self.solved:
                self._judge(row[self.d2 :], recovered)
            self.count += 1
            self._absorb(row, recovered)
            if self.count >= max(ROWS_MIN, self.solved + max(1, min(self.solved, self.kept_max) // _ALWAYS_ROWS)):
                self.solve()

    def _judge(self, x1: Floats, recovered: Floats) -> None:
        """Update e and v by a row's vanished columns and their recovered values."""
        late = max(_RATE, _LATE / max(self.count + 2.0, _LATE))
        off, distance = np.minimum(np.abs(x1 - recovered), INPUT_MAX), x1 - self.mean[-self.d1 :]
        e, v = self.errors
        v += max(_RATE, 1.0 / max(self.count - 1.0, 1.0)) * (distance * distance - v)
        e += late * (np.minimum(off * off, ERROR_MAX * v) - e)

    @abstractmethod
    def _absorb(self, row: Floats, recovered: Floats) -> None:
        """Add a row (d2 + d1,) to the means and the sums or stored rows; its sources give ``recovered`` (d1,)."""

    def solve(self) -> None:
        """Solve the mapping for the rows so far; with fewer than two there is none."""
        if self.count >= ROWS_MIN and self.solved != self.count:
            self._solve()
            self.solved = self.count

    @abstractmethod
    def _solve(self) -> None: ...

    def freeze(self) -> None:
        """Stop learning: drop the rows' part of the state, keep the current mapping."""
        self.solve()
        self.stored = self.stored[:0].copy()

    @property
    def frozen(self) -> bool:
        """Whether it can learn no further rows: it has dropped those that it was solved for."""
        return bool(self.count and self.d1) and not len(self.stored)

    def recover(self, X: Floats) -> Floats:
        """Targets (n, d) of rows X (n, d2), with vanished ones 0 before there is a mapping; changes nothing."""
        Y = np.empty((len(X), len(self.targets)))
        Y[:, self.kept] = X[:, self.source]
        Y[:, self.vanished] = self._recovered(X)
        return Y if self.limits is None else np.fmin(np.fmax(Y, self.limits[0]), self.limits[1])

    def _recovered(self, X: Floats) -> Floats:
        """The vanished columns (n, d1)."""
        out = np.empty((len(X), self.d1))
        self._recover(X, self.centre[: self.d2], self.centre[self.d2 :], out)
        return out

    @abstractmethod
    def _recover(self, X: Floats, m2: Floats, m1: Floats, out: Floats) -> None:
        """Fill the vanished columns (n, d1)."""

    def carry(self, weights: Weights) -> Weights | None:
        """A linear model of the targets as one of the sources; None if the mapping is not linear."""
        del weights
        return None

    @abstractmethod
    def flops_to_learn(self, rows: int) -> float:
        """Approximate floating-point operations of learning rows and solving the mapping once."""

    @property
    @abstractmethod
    def flops_to_recover(self) -> float:
        """Operations of recovering one row."""

    @property
    def ready(self) -> bool:
        """Whether there is a mapping, or nothing for it to recover."""
        return self.count >= ROWS_MIN or not self.d1

    @property
    def error(self) -> float | None:
        """The mean ratio e / v on rows not yet learned, over the columns that vary; None if none does.

        With lags, the largest of the means of each lag.
        """
        (e, v), lags, still = self.errors, self._lags, self._still
        counted = (v > 0.0) | still
        with np.errstate(over="ignore"):
            ratios = np.minimum(np.divide(e, v, out=np.ones(self.d1), where=v > 0.0), ERROR_MAX)
        return max((float(ratios[counted & (lags == lag)].mean()) for lag in np.unique(lags[counted])), default=None)

    @property
    def _lags(self) -> Ints:
        """The lag of each vanished column, 0 if it is not a lag column."""
        return np.array([unlagged(self.targets[at])[1] for at in self.vanished], dtype=np.int64)

    @property
    def _still(self) -> NDArray[np.bool_]:
        """Which vanished lag columns did not vary although the column itself did."""
        names = [self.targets[at] for at in self.vanished]
        varied = {name for name, v in zip(names, self.errors[1], strict=True) if v > 0.0}
        return np.array([name not in varied and unlagged(name)[0] in varied for name in names], dtype=np.bool_)

    @property
    def problem(self) -> str | None:
        """Why recovered columns are unreliable, or None."""
        if not self.d1:
            return None
        if self.count < ROWS_ENOUGH:
            return f"{self.count} overlap rows are too few to recover the old features ({ROWS_ENOUGH} or more)"
        if self._still.any():
            return "the lag columns of the old features are not recovered: only overlap rows with labels change them"
        if self.error is not None and self.error >= ERROR_POOR:
            error = f"mapping_error {self.error:.2g}; 1 is as bad as the mean"
            return f"the old features are recovered poorly from the new ones ({error})"
        return None

    @property
    def exact(self) -> bool:
        """Whether the vanished columns were found to be an image of the sources; see ``ridge.py``."""
        return bool(self.ridge[0] < RIDGE)

    def only(self, targets: Sequence[str]) -> Self:
        """The part of a frozen mapping that gives some of its targets."""
        if tuple(targets) == self.targets:
            return self
        found = type(self)(self.sources, targets, self.paper)
        recovered = {self.targets[at]: place for place, at in enumerate(self.vanished)}
        at = np.array([recovered[found.targets[place]] for place in found.vanished], dtype=np.int64)
        found.count, found.solved, found.ridge = self.count, self.solved, self.ridge.copy()
        found.errors = np.ascontiguousarray(self.errors[:, at])
        found.centre = self.centre[np.concatenate([np.arange(self.d2), self.d2 + at])]
        self._hand(found, at)
        return found

    @abstractmethod
    def _hand(self, other: Self, at: Ints) -> None:
        """Copy the part that recovers the vanished columns ``at`` to another mapping, which has no others."""

    def describe(self) -> Header:
        """Its kind and arguments without the sources, JSON-able."""
        return {"kind": self.kind, "paper": self.paper, "targets": list(self.targets)}

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return super().nbytes + self.kept.nbytes + self.source.nbytes + self.vanished.nbytes

    def _sizes(self, _found: Counts) -> Counts:
        return {"sources": self.d2, "targets": self.d1, "columns": self.d2 + self.d1}

    def _check(self, _held: Mapping[str, Floats], found: Counts) -> None:
        if found["solved"] > found["count"]:
            raise ValueError("the mapping is solved for more rows than it has learned")


def unlagged(column: str) -> tuple[str, int]:
    """The column and the lag of a name from ``core.features.lags.lagged_names``; any other column itself, and 0."""
    found = _LAGGED.fullmatch(column)
    return (column, 0) if found is None else (found[1], int(found[2]))


def rows_kept(sources: int, targets: int) -> tuple[int, bool]:
    """The most rows that a linear mapping keeps; True: the newest, False: all until sums of products replace them."""
    rows, columns = max(sources, CHOICE_ROWS_MAX), sources + targets
    return (rows, False) if rows * columns <= SUMS_MAX else (max(ROWS_ENOUGH, WINDOW_MAX // columns), True)
