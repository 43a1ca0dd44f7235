"""Encoding of raw rows for a learner: categories one-hot, times on circles, missing values filled.

    raw (n, F)  ->  X (n, D)          the columns of each feature (core.features.feature)

All columns of a category that is not declared are 0.

A missing value is refused (``error``), filled with 0 (``zero``), or filled with the mean of its encoded column so far
(``mean``); the mean of a category's column is its frequency. The means are state: a row is filled with the means of
the rows before it and then absorbed into them,

    m += x/n - m/n

which is m += (x - m)/n in a form that does not overflow for any finite numbers.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.contract import Floats, Header, Ints
from core.features.calendar import time_columns
from core.features.cells import OTHER
from core.features.schema import Schema
from core.features.sparse_schema import SparseSchema
from core.state.layout import WHOLE, Array, Layout

Missing = Literal["error", "zero", "mean"]
_NUMBER, _CATEGORY, _TIME = 0, 1, 2
_KINDS = {"numeric": _NUMBER, "boolean": _NUMBER, "categorical": _CATEGORY, "time": _TIME}

_ROWS_IN, _COUNTS = "Array(f8, 2, 'C', readonly=True)", "Array(i8, 1, 'C', readonly=True)"
_MATRIX = "f8[:,::1]"


@njit(f"b1({_ROWS_IN})", cache=True)
def _any_missing(raw: Floats) -> bool:
    for value in raw.flat:  # noqa: SIM110  (compiled: a loop is the fast form)
        if np.isnan(value):
            return True
    return False


@njit(f"b1({_ROWS_IN}, {_COUNTS}, {_COUNTS}, {_MATRIX})", cache=True)
def _expand(raw: Floats, starts: Ints, kinds: Ints, X: Floats) -> bool:
    """Every column of a missing value is NaN. False: no such category."""
    for i in range(raw.shape[0]):
        for feature in range(raw.shape[1]):
            first, last = starts[feature], starts[feature + 1]
            value = raw[i, feature]
            if kinds[feature] == _NUMBER or np.isnan(value):
                X[i, first:last] = value
            elif kinds[feature] == _TIME:
                time_columns(value, X, i, first)
            elif value == OTHER or 0.0 <= value < last - first:
                X[i, first:last] = 0.0
                if value >= 0.0:
                    X[i, first + int(value)] = 1.0
            else:
                return False
    return True


@njit(f"void({_MATRIX}, {_MATRIX}, b1)", cache=True)
def _fill(X: Floats, moments: Floats, absorb: bool) -> None:
    """Missing values become the means; with ``absorb``, observed ones join the means of the rows after them."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            if np.isnan(X[i, j]):
                X[i, j] = moments[1, j]
            elif absorb:
                moments[0, j] += 1.0
                n = moments[0, j]
                moments[1, j] += X[i, j] / n - moments[1, j] / n


_LAYOUT = Layout({"moments": Array(2, "D", places={0: WHOLE}, axis=0, at="_moments")})


class Encoder:
    """The encoding of one feature space, a state machine over its rows.

    Args:
        schema: the feature space.
        missing: how missing values are treated.
    """

    def __init__(self, schema: Schema | SparseSchema, missing: Missing) -> None:
        self.schema = schema
        self.missing = missing
        self.layout: Final = _LAYOUT if missing == "mean" else Layout({})
        self._starts = np.cumsum([0, *(feature.width for feature in schema.features)], dtype=np.int64)
        self._kinds = np.array([_KINDS[feature.type] for feature in schema.features], dtype=np.int64)
        # (2, D): for each encoded column, the number of values and their mean. Kept only for "mean".
        self._moments = np.zeros((2, schema.width if missing == "mean" else 0))

    def encode(self, raw: Floats) -> Floats:
        """Rows as the learner sees them, filled with the present means. Changes nothing.

        Args:
            raw: (n, F) C-contiguous float64 as ``Schema`` reads them; never mutated.

        Returns:
            (n, D); ``raw`` itself where there is nothing to encode.

        Raises:
            ValueError: a missing value under "error", or an index of no category; readers refuse both.
        """
        incomplete = _any_missing(raw)
        if self.schema.plain and not incomplete:
            return raw
        X = self._expanded(raw)
        if incomplete:
            self._complete(X)
        return X

    def absorb(self, raw: Floats) -> Floats:
        """Rows as the learner sees them, each filled with the means of the rows before it, then absorbed into them.

        Args:
            raw: as for ``encode``. A block leaves the same bits as its rows one at a time.

        Returns:
            (n, D); ``raw`` itself where there is nothing to encode and nothing to keep.

        Raises:
            ValueError: as ``encode``; the state is unchanged.
        """
        if self.missing != "mean":
            return self.encode(raw)
        X = self._expanded(raw)
        _fill(X, self._moments, True)
        return X

    def adopt(self, other: "Encoder") -> None:
        """Copy the means of the columns that another space's encoder has, too."""
        if self.missing != "mean":
            return
        places = {name: at for at, name in enumerate(other.schema.columns)}
        for column, name in enumerate(self.schema.columns):
            if name in places:
                self._moments[:, column] = other._moments[:, places[name]]  # noqa: SLF001 - its own kind

    def _expanded(self, raw: Floats) -> Floats:
        if self.schema.plain:
            return np.array(raw)
        X = np.empty((raw.shape[0], self.schema.width))
        if not _expand(raw, self._starts, self._kinds, X):
            raise ValueError("an index of no category")
        return X

    def _complete(self, X: Floats) -> None:
        if self.missing == "error":
            raise ValueError("a value is missing")
        if self.missing == "mean":
            _fill(X, self._moments, False)
        else:
            X[np.isnan(X)] = 0.0

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The means, where they are kept: ``moments`` (2, D), a copy."""
        return self.layout.to_arrays(self), {"missing": self.missing}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state that ``to_arrays`` gave.

        Raises:
            ValueError: names, shapes or values that no encoder of this schema can have; the state is unchanged.
        """
        if header != {"missing": self.missing}:
            raise ValueError("not the state of this encoder")
        self.layout.load(self, arrays, D=self.schema.width)

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return self._moments.nbytes + self._starts.nbytes + self._kinds.nbytes
