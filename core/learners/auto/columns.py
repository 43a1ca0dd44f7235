"""The column sets that the experts of `auto` read, each made once per row (core.learners.auto.experts)."""

from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from core.contract import ROWS_IN, TABLE, Floats, Ints, Spec, direct
from core.features.lags import LagColumns, lagged_names
from core.features.scaling import Scaler
from core.learners.auto.experts import (
    LAGGED,
    LAGGED_LABELS,
    PRODUCTS,
    RANDOM,
    RAW,
    SCALED,
    WHOLE,
    WHOLE_SCALED,
    Recipe,
    own_columns,
    random_features,
)
from core.learners.auto.label_unit import LabelUnit
from core.learners.posterior import View, random_names
from core.numerics.random_features import RandomFeatures
from core.state.envelope import Nested


@direct(f"void({ROWS_IN}, {TABLE})")
def _multiply(Z: Floats, out: Floats) -> None:
    """Write rows Z (n, d) and their products z_i z_j, i <= j, into out (n, d + d (d + 1) / 2)."""
    d = Z.shape[1]
    for row in range(Z.shape[0]):
        place = d
        for i in range(d):
            out[row, i] = Z[row, i]
            for j in range(i, d):
                out[row, place] = Z[row, i] * Z[row, j]
                place += 1


class Columns(Nested):
    """The column sets of one model; its state is that of its scaler and, if columns are lagged, of its history and of
    the unit of the labels in it.

    ``read``: the sets to compute, which are those that awake experts read.
    """

    def __init__(self, spec: Spec, experts: tuple[Recipe, ...]) -> None:
        self.read = read = {recipe.columns for recipe in experts}
        self._own, self._lagged = own_columns(spec), spec.lagged > 0
        self.scaler = Scaler("robust", spec.dimension)
        count = random_features(spec) if RANDOM in read else 0
        self._random = RandomFeatures(spec.seed, self._own, count) if count else None
        self.history = LagColumns(self._own, 1, LAGGED_LABELS) if LAGGED in read else None
        self.unit = LabelUnit()

    def of(self, X: Floats, y: Floats | None = None, returned: Floats | None = None) -> dict[int, Floats]:
        """The sets of rows X (n, d), by their numbers, each row as if it were the next one; changes nothing.

        With labels y (n,): of rows that are about to be learned, which scaler and history then absorb. ``returned``:
        the columns of the history that tracked rows bring (``LagColumns.lag``).
        """
        Z = self.scaler.scale(X, absorb=y is not None)
        found = {RAW: X, SCALED: Z}
        if self._lagged:
            found |= {WHOLE: X, WHOLE_SCALED: Z}
            found[RAW] = X = np.ascontiguousarray(X[:, : self._own])
            found[SCALED] = Z = np.ascontiguousarray(Z[:, : self._own])
        if self.history is not None:
            found[LAGGED] = self.history.lag(X, None if y is None else self.unit.scale(y), returned)
        if self._random is not None and RANDOM in self.read:
            found[RANDOM] = self._random.expand(Z)
        if PRODUCTS in self.read:
            n, d = Z.shape
            found[PRODUCTS] = np.empty((n, d + d * (d + 1) // 2))
            _multiply(Z, found[PRODUCTS])
        return found

    def extend(self, other: "Columns", places: Ints) -> None:
        """Continue from the sets of a model with fewer columns, which are those at ``places``."""
        self.scaler.extend(other.scaler, places)
        if self.history is not None and other.history is not None:
            self.history.extend(other.history, places)
            self.unit.unit[:] = other.unit.unit

    def places(self, columns: int, places: Ints, smaller: "Columns") -> Ints | None:
        """The positions in a set of a smaller model's columns, whose raw ones are at ``places``.

        None for random features, which are drawn again for the current columns.
        """
        if columns in {RAW, SCALED}:
            return places
        if columns == RANDOM:
            return None
        d, fewer = self.scaler.dimension, smaller.scaler.dimension
        if columns == LAGGED:
            return np.concatenate([places, d + places, 2 * d + np.arange(LAGGED_LABELS)])
        pairs = np.empty((d, d), dtype=np.int64)
        first, second = np.triu_indices(d)
        pairs[first, second] = pairs[second, first] = d + np.arange(len(first))
        first, second = np.triu_indices(fewer)
        return np.concatenate([places, pairs[places[first], places[second]]])

    def view(self, columns: int, view: View) -> View:
        """The view of a learner that reads a set."""
        if columns == WHOLE:
            return view
        if columns == WHOLE_SCALED:
            return view._replace(affine=self.scaler.affine())
        view = view.first(self._own)
        if columns == RAW:
            return view
        if columns == SCALED:
            centre, spread = self.scaler.affine()
            return view._replace(affine=(centre[: self._own], spread[: self._own]))
        if columns == RANDOM:
            return view.widened(random_names(0 if self._random is None else len(self._random.phases)))
        if columns == LAGGED:
            return view.widened(lagged_names(view.names, 1, LAGGED_LABELS))
        pairs = combinations_with_replacement(view.names, 2)
        return view.widened([f"{first} x {second}" for first, second in pairs])

    def parts(self) -> dict[str, Any]:
        """The scaler; if there is a history, also it and the unit of its labels."""
        return {"scaler": self.scaler} | ({} if self.history is None else {"history": self.history, "unit": self.unit})

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, including the random features."""
        return super().nbytes + (0 if self._random is None else self._random.nbytes)
