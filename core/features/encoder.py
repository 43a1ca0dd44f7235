"""Encoding of raw rows for a learner: categories one-hot, times on circles, missing values filled.

    raw (n, F)  ->  X (n, D)          the columns of each feature (core.features.feature)

All columns of an undeclared category are 0.

A missing value is filled with 0 (``zero``), or with the mean of its encoded column so far (``mean``); the mean of a
category's column is its frequency. Under ``error``, readers refuse rows that lack values. Rows that were read before
the model was set to ``error`` may still come: they are filled as before, or after a reset with 0. The means are state:
a row is filled with the means of the rows before it and then absorbed into them,

    m += x/n - m/n

which is m += (x - m)/n in a form that does not overflow for any finite numbers.

A time is the number of seconds since 1970-01-01T00:00:00Z, without leap seconds. With h the part of the UTC day that
has passed, w the day of the week (Monday is 0) and y the part of the year that has passed when the day begins, its
columns are

    hour          sin 2 pi h,    cos 2 pi h
    weekday       sin 2 pi w/7,  cos 2 pi w/7
    day of year   sin 2 pi y,    cos 2 pi y
    days          days since 2026-01-01T00:00:00Z, with their fraction

so that 23:59 is close to midnight and December to January, and numbers stay small.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.contract import CLASSES_IN, ROWS_IN, TABLE, Floats, Header, Ints, direct
from core.features.columns import OTHER
from core.features.feature import Missing
from core.features.schema import Schema
from core.features.sparse_schema import SparseSchema
from core.state.layout import WHOLE, Array, Layout

DAY_S = 86_400.0
FIRST_DAY = 20_454.0  # 2026-01-01, in days since 1970
_THURSDAY = 3  # the weekday of 1970-01-01, Monday being 0
_TURN = 2.0 * math.pi
_NUMBER, _CATEGORY, _TIME = 0, 1, 2
_KINDS = {"numeric": _NUMBER, "boolean": _NUMBER, "categorical": _CATEGORY, "time": _TIME}


@njit("i8(i8)", cache=True)
def first_day(year: int) -> int:
    """1 January of a year, in days since 1970."""
    before = year - 1
    return 365 * before + before // 4 - before // 100 + before // 400 - 719_162


@njit("i8(i8)", cache=True)
def year_of(day: int) -> int:
    """The year of a day since 1970."""
    year = 1970 + math.floor(day / 365.2425)  # at most one year too early or too late
    if first_day(year) > day:
        return year - 1
    return year + 1 if first_day(year + 1) <= day else year


@njit("void(f8, f8[:,::1], i8, i8)", cache=True)
def time_columns(seconds: float, X: Floats, row: int, at: int) -> None:
    """The seven columns of a time in seconds since 1970, in a row of X from column ``at`` on."""
    elapsed = seconds / DAY_S
    day = math.floor(elapsed)
    year = year_of(day)
    first = first_day(year)
    hour = _TURN * (elapsed - day)
    weekday = _TURN * ((day + _THURSDAY) % 7) / 7.0
    season = _TURN * (day - first) / (first_day(year + 1) - first)
    for place, angle in enumerate((hour, weekday, season)):
        X[row, at + 2 * place], X[row, at + 2 * place + 1] = math.sin(angle), math.cos(angle)
    X[row, at + 6] = elapsed - FIRST_DAY


@direct(f"b1({ROWS_IN})")
def _any_missing(raw: Floats) -> bool:
    for value in raw.flat:  # noqa: SIM110  (compiled: a loop is the fast form)
        if np.isnan(value):
            return True
    return False


@njit(f"b1({ROWS_IN}, {CLASSES_IN}, {CLASSES_IN}, {TABLE})", cache=True)
def _expand(raw: Floats, starts: Ints, kinds: Ints, X: Floats) -> bool:
    """Every column of a missing value is NaN. Returns False for an unknown category index."""
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


@njit(f"void({TABLE}, {TABLE}, b1)", cache=True)
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


_LAYOUTS: dict[object, Layout] = {
    "error": Layout(),
    "zero": Layout(),
    "mean": Layout(moments=Array(2, "D", places={0: WHOLE}, axis=0)),
}
"""The layout of the state, by how missing values are filled."""


class Encoder:
    """The encoding of one feature space, a state machine over its rows."""

    def __init__(self, schema: Schema | SparseSchema, missing: Missing) -> None:
        self.schema = schema
        self.missing: Missing = "error"  # then values that are missing nevertheless become 0
        # Where the columns of each feature begin, and where the last ones end (F + 1,).
        self.starts = np.cumsum([0, *(feature.width for feature in schema.features)], dtype=np.int64)
        self._kinds = np.array([_KINDS[feature.type] for feature in schema.features], dtype=np.int64)
        self.moments = np.zeros((2, 0))  # (2, D) under "mean": numbers of values, and their means
        self.configure(missing)

    def encode(self, raw: Floats, absorb: bool = False) -> Floats:
        """Rows as the learner sees them (n, D), filled with the present means.

        Changes nothing without ``absorb``. With it, each row is filled with the means of the rows before it, and joins
        them; a block leaves the same bits as its rows one at a time. ``raw`` (n, F), C-contiguous float64 as ``Schema``
        reads it, is itself returned if there is nothing to encode. ``ValueError``, with the state unchanged, for an
        index that is not a category, which readers refuse.
        """
        incomplete, means = _any_missing(raw), self.missing == "mean"
        if self.schema.plain and not (incomplete or (absorb and means)):
            return raw
        X = np.empty((raw.shape[0], self.schema.width))
        if self.schema.plain:
            X[:] = raw
        elif not _expand(raw, self.starts, self._kinds, X):
            raise ValueError("an index that is not a category")
        if means and (incomplete or absorb):
            _fill(X, self.moments, absorb)
        elif incomplete:
            X[np.isnan(X)] = 0.0
        return X

    def configure(self, missing: Missing) -> None:
        """Change how missing values are treated from now on; means start with the next row."""
        if missing not in ("error", self.missing):
            self.missing = missing
            self.moments = np.zeros((2, self.schema.width if missing == "mean" else 0))

    def adopt(self, other: "Encoder") -> None:
        """Copy the means of the columns that another space's encoder also has."""
        if self.missing != "mean" or other.missing != "mean":
            return
        _, own, others = np.intersect1d(self.schema.columns, other.schema.columns, return_indices=True)
        self.moments[:, own] = other.moments[:, others]

    def extend(self, other: "Encoder") -> None:
        """Take over from the encoder of a space in which some features have fewer categories, the first ones of these.

        The mean of a category is its frequency: a further one starts at 0, over as many values as its feature has had.
        """
        self.configure(other.missing)
        if self.missing != "mean":
            return
        own, old = self.starts, other.starts
        for first, last, start, stop in zip(own[:-1], own[1:], old[:-1], old[1:], strict=True):
            moments = other.moments[:, start:stop]
            self.moments[0, first:last] = moments[0, 0]
            self.moments[1, first : first + stop - start] = moments[1]

    @property
    def layout(self) -> Layout:
        """The layout of the present state."""
        return _LAYOUTS[self.missing]

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The means, if they are kept: ``moments`` (2, D), a copy."""
        return self.layout.to_arrays(self), {"missing": self.missing}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Load a state from ``to_arrays``; see ``Holder``. Under "error" the state says how values are filled."""
        fill: Any = header.get("missing")
        if set(header) != {"missing"} or fill not in ([*_LAYOUTS] if self.missing == "error" else [self.missing]):
            raise ValueError("not the state of this encoder")
        found = _LAYOUTS[fill].read(arrays, D=self.schema.width)
        self.missing, self.moments = fill, found.get("moments", self.moments)

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return self.moments.nbytes + self.starts.nbytes + self._kinds.nbytes
