"""A feature space: the features of a model, in order, and how rows are read against them.

A raw row is (F,) float64 in schema order: what ``cells`` makes of each value, NaN where one is missing. Rows are given
by name (``row``), as a table (``block``), as an array (``matrix``) or as CSV texts (``text_cells``). All four apply the
same rules: names exactly the schema's, and numbers of a number type, finite.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from itertools import chain
from operator import itemgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats
from core.features.columns import cells_of
from core.features.feature import Feature, digest
from core.features.limits import Limits
from core.features.parsing import NUMBERS, Unfit, vectorised_texts, vectorised_values
from core.problems import (
    FILLED,
    LISTED_MAX,
    PROBLEMS_MAX,
    SUGGESTED_MAX,
    Invalid,
    Problem,
    lacking,
    unknown_feature,
)

_Place = Callable[[int, int], str]
"""How errors name a cell, from its row and its feature's column."""
_ROWS_AT_ONCE = 2048


class Schema:
    """An immutable feature space of F features; equal declarations have equal ids.

    Attributes:
        features: the features, in order; at least one.
        names: their names.
        index: column of each name.
        columns: names of the D encoded columns, ``load`` or ``day=mon``.
        ranges: (2, D) the declared least and largest value of each encoded column, NaN where there is none.
        drift_ranges: (2, D) those in whose units drift tests measure.
        width: D.
        raw_width: F.
        plain: every raw value is its encoded column.
        numeric: every feature is numeric.
        exact: raw columns of the categorical features with declared categories.
        id: 16 hexadecimal characters, a digest of the declaration.
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        if not features:
            raise ValueError("a schema has at least one feature")
        self.features: Final = tuple(features)
        self.names: Final = tuple(feature.name for feature in features)
        self.index: Final[dict[str, int]] = {name: column for column, name in enumerate(self.names)}
        self.columns: Final = tuple(chain.from_iterable(feature.columns for feature in features))
        self.width: Final = len(self.columns)
        self.ranges: Final = _ends(feature.ranges for feature in features)
        self.drift_ranges: Final = _ends(feature.drift_ranges for feature in features)
        self.raw_width: Final = len(self.features)
        self.plain: Final = all(feature.type in ("numeric", "boolean") for feature in features)
        self.numeric: Final = all(feature.type == "numeric" for feature in features)
        self.exact: Final = tuple(column for column, feature in enumerate(features) if feature.categories)
        self.id: Final = digest([feature.to_json() for feature in features])
        self._cells = tuple(cells_of(feature, True) for feature in features)
        self._limits: Final = Limits.of(features)
        self._pick: Final[Callable[[Any], Any]] = itemgetter(*self.names)
        self._ignored: frozenset[str] = frozenset()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def reading(self, ignored: Collection[str] = (), others: bool = True) -> "Schema":
        """The same space, read otherwise.

        Args:
            ignored: names of no feature that are passed over, with their values.
            others: whether categories that are not declared are taken.
        """
        found = copy(self)
        found._ignored = frozenset(ignored) - frozenset(self.names)  # noqa: SLF001  its own class
        found._cells = tuple(cells_of(feature, others) for feature in self.features)  # noqa: SLF001
        return found

    def row(self, values: Mapping[str, object], missing_allowed: bool, field: str = "features") -> Floats:
        """One row given by names, as (1, F).

        Raises:
            Invalid: a name that is none of the schema's, a value that does not fit, or (unless
                ``missing_allowed``) a value that is null or absent; the first 20 of them.
        """
        if self.numeric and type(values) is dict and len(values) == len(self.names):
            try:
                cells = self._pick(values) if len(self.names) > 1 else (self._pick(values),)
                # A sum that is finite has only finite terms; one that is not may still have, and is read by cells.
                if NUMBERS.issuperset(map(type, cells)) and math.isfinite(sum(cells)):
                    raw = np.array((cells,), np.float64)
                    return raw if self._limits is None else self._within(raw, field)
            except (KeyError, OverflowError):
                pass
        if self._ignored and type(values) is dict and not self._ignored.isdisjoint(values):
            kept = {name: value for name, value in values.items() if name not in self._ignored}
            return self.row(kept, missing_allowed, field)
        return self._within(self._row_by_cells(values, missing_allowed, field), field)

    def _within(self, raw: Floats, field: str) -> Floats:
        """A row within the limits that its features declare."""
        if self._limits is None:
            return raw
        return self._limits.apply(raw, lambda _, column: f"{field}.{self.names[column]}")

    def _row_by_cells(self, values: Mapping[str, object], missing_allowed: bool, field: str) -> Floats:
        if not isinstance(values, Mapping):
            raise Invalid.of(field, "is not an object of names and values")
        strange = [name for name in values if name not in self.index]
        problems = [
            unknown_feature(f"{field}.{name}", self.names, name if at < SUGGESTED_MAX else "")
            for at, name in enumerate(strange[:PROBLEMS_MAX])
        ]
        raw = [math.nan] * len(self.names)
        for column, (name, cells) in enumerate(zip(self.names, self._cells, strict=True)):
            try:
                raw[column] = cells.value(values.get(name), missing_allowed)
            except Unfit as unfit:
                problems.append(Problem(f"{field}.{name}", unfit.problem, unfit.allowed))
        if problems:
            raise Invalid(*problems[:PROBLEMS_MAX])
        return np.array((raw,), np.float64)

    def block(self, columns: Sequence[str], data: Sequence[Sequence[object]], missing_allowed: bool) -> Floats:
        """A table of n rows with its columns named, in any order, as (n, F).

        Raises:
            Invalid: columns that are not the schema's (some may be absent where ``missing_allowed``), rows of
                another length, cells that do not fit, e.g. ``data[3][1]``; the first 20 of them.
        """
        order = self._order(columns, missing_allowed, "columns")
        _check_rows(data, len(columns), "data")
        return self._read(order, data, missing_allowed, texts=False)

    def numbers(self, columns: Sequence[str], X: Floats, missing_allowed: bool, texts: bool = False) -> Floats:
        """A table of finite numbers (n, C), NaN for missing, with its C columns named, in any order, as (n, F).

        For a space of numeric features; X itself where its columns are the schema's, in order, and any number is taken.

        Args:
            columns: the names.
            X: the numbers.
            missing_allowed: whether columns may be absent.
            texts: whether they are from CSV, which only matters to what errors name.

        Raises:
            Invalid: columns that are not the schema's; numbers outside a range that refuses them.
        """
        order = self._order(columns, missing_allowed, "header" if texts else "columns")
        if order != list(range(X.shape[1])):
            raw = np.full((len(X), len(self.names)), math.nan)
            present = [column for column, position in enumerate(order) if position >= 0]
            raw[:, present] = X[:, [order[column] for column in present]]
            X = raw
        return X if self._limits is None else self._limits.apply(X, self._place(order, texts))

    def text_cells(self, columns: Sequence[str], rows: Sequence[Sequence[str]], missing_allowed: bool) -> Floats:
        """A CSV table of n rows, as (n, F); an empty cell is a missing value.

        Raises:
            Invalid: as ``block``; cells are named ``row 3, column load``, where row 1 is the first below the header.
        """
        order = self._order(columns, missing_allowed, "header")
        _check_lengths(rows, len(columns), lambda row: f"row {row + 1}")
        return self._read(order, rows, missing_allowed, texts=True)

    def _place(self, order: Sequence[int], texts: bool) -> _Place:
        """How errors name the cells of a table whose columns stand in this order."""
        if texts:
            return lambda row, column: f"row {row + 1}, column {self.names[column]}"
        return lambda row, column: f"data[{row}][{order[column]}]"

    def matrix(self, X: NDArray[Any], missing_allowed: bool, field: str = "data") -> Floats:
        """An array of n rows in schema order, as C-contiguous float64 (n, F); X itself where it is that already.

        A categorical column holds indices of declared categories, or integers that are hashed as in JSON.

        Raises:
            Invalid: not two-dimensional, not real numbers, another number of columns, an infinity, NaN unless
                ``missing_allowed``, or a number that is no value of its feature; by row and column.
        """
        if X.ndim != 2 or X.shape[1] != len(self.names):
            raise Invalid.of(field, "has another shape", f"two dimensions, {len(self.names)} columns")
        if X.dtype.kind not in "fiu":
            raise Invalid.of(field, "is not of a real number type", "float64")
        with np.errstate(over="ignore", invalid="ignore"):
            raw = np.ascontiguousarray(X, dtype=np.float64)
        bad = ~np.isfinite(raw)
        if missing_allowed:
            bad &= ~np.isnan(raw)
        coded = raw
        for column, cells in enumerate(() if self.numeric else self._cells):
            codes, wrong = cells.numbers(raw[:, column])
            bad[:, column] |= wrong
            if self.features[column].buckets:
                coded = raw.copy() if coded is raw else coded
                coded[:, column] = codes
        place: _Place = lambda row, column: f"{field}[{row}][{column}]"  # noqa: E731
        if bad.any():
            raise Invalid(*(self._misfit(raw, int(i), int(j), place) for i, j in np.argwhere(bad)[:PROBLEMS_MAX]))
        return coded if self._limits is None else self._limits.apply(coded, place)

    def _misfit(self, raw: Floats, row: int, column: int, place: _Place) -> Problem:
        if np.isnan(raw[row, column]):
            return Problem(place(row, column), f"is missing; {FILLED}")
        return Problem(place(row, column), *self._cells[column].misfit)

    def _order(self, columns: Sequence[str], missing_allowed: bool, field: str) -> list[int]:
        """Where each feature stands in the client's columns; -1 where it is absent."""
        if not isinstance(columns, list | tuple):
            raise Invalid.of(field, "is not a list of names", list(self.names[:LISTED_MAX]))
        order = [-1] * len(self.names)
        problems: list[Problem] = []
        for position, name in enumerate(columns):
            column = self.index.get(name, -1) if isinstance(name, str) else -1
            if isinstance(name, str) and name in self._ignored:
                continue
            if len(problems) == PROBLEMS_MAX:
                break
            if column < 0:
                given = name if len(problems) < SUGGESTED_MAX else ""
                problems.append(unknown_feature(f"{field}[{position}]", self.names, given))
            elif order[column] >= 0:
                problems.append(Problem(f"{field}[{position}]", "is there twice"))
            else:
                order[column] = position
        absent = [name for name, position in zip(self.names, order, strict=True) if position < 0]
        if absent and not missing_allowed:
            problems.append(lacking(field, absent, FILLED))
        if problems:
            raise Invalid(*problems[:PROBLEMS_MAX])
        return order

    def _read(
        self,
        order: list[int],
        rows: Sequence[Sequence[Any]],
        missing_allowed: bool,
        texts: bool,
    ) -> Floats:
        """The raw rows; or the first cells that do not fit, by rows."""
        place = self._place(order, texts)
        raw = self._vectorised(order, rows, missing_allowed, texts)
        if raw is None:
            raw = self._by_cells(order, rows, missing_allowed, texts, place)
        return raw if self._limits is None else self._limits.apply(raw, place)

    def _by_cells(
        self, order: list[int], rows: Sequence[Sequence[Any]], missing_allowed: bool, texts: bool, place: _Place
    ) -> Floats:
        raw = np.full((len(rows), len(self.names)), math.nan)
        present = sorted((position, column) for column, position in enumerate(order) if position >= 0)
        problems: list[Problem] = []
        for i, row in enumerate(rows):
            for position, column in present:
                cells = self._cells[column]
                try:
                    raw[i, column] = (cells.text if texts else cells.value)(row[position], missing_allowed)
                except Unfit as unfit:
                    problems.append(Problem(place(i, column), unfit.problem, unfit.allowed))
            if len(problems) >= PROBLEMS_MAX:
                break
        if problems:
            raise Invalid(*problems[:PROBLEMS_MAX])
        return raw

    def _vectorised(
        self, order: list[int], rows: Sequence[Sequence[Any]], missing_allowed: bool, texts: bool
    ) -> Floats | None:
        """The raw rows by whole columns, or None where a cell is unusual.

        Some rows at a time: a thread that reads a large table holds the interpreter for as long as one column takes.
        """
        parts: list[Floats] = []
        for begin in range(0, len(rows), _ROWS_AT_ONCE):
            part = self._vectorised_part(order, rows[begin : begin + _ROWS_AT_ONCE], missing_allowed, texts)
            if part is None:
                return None
            parts.append(part)
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, len(self.names))), *parts])

    def _vectorised_part(
        self, order: list[int], rows: Sequence[Sequence[Any]], missing_allowed: bool, texts: bool
    ) -> Floats | None:
        numeric = [c for c, f in enumerate(self.features) if f.type == "numeric" and order[c] >= 0]
        cells = _flat(rows, [order[column] for column in numeric])
        found = (vectorised_texts if texts else vectorised_values)(cells, missing_allowed)
        if found is None:
            return None
        numbers = found.reshape(len(rows), len(numeric))
        if len(numeric) == len(self.names):
            return numbers
        raw = np.full((len(rows), len(self.names)), math.nan)
        raw[:, numeric] = numbers
        for column, feature in enumerate(self.features):
            if feature.type != "numeric" and order[column] >= 0:
                codes = self._cells[column].vectorised(
                    list(map(itemgetter(order[column]), rows)), missing_allowed, texts
                )
                if codes is None:
                    return None
                raw[:, column] = codes
        return raw


def _ends(ranges: Iterable[list[tuple[float, float]]]) -> Floats:
    """The ranges of features as (2, D), for reading only."""
    ends = np.array([*chain.from_iterable(ranges)], dtype=np.float64).T
    ends.flags.writeable = False
    return ends


def _flat(rows: Sequence[Sequence[Any]], positions: list[int]) -> list[Any]:
    """The cells at some positions of one or more rows, row by row, in the order of the positions."""
    if not positions:
        return []
    if positions == list(range(len(rows[0]))):
        return list(chain.from_iterable(rows))
    picked = map(itemgetter(*positions), rows)
    return list(picked if len(positions) == 1 else chain.from_iterable(picked))


def _check_rows(data: object, width: int, field: str) -> None:
    if not isinstance(data, list | tuple):
        raise Invalid.of(field, "is not a list of rows")
    if not {list, tuple}.issuperset(map(type, data)):
        wrong = [i for i, row in enumerate(data) if not isinstance(row, list | tuple)][:PROBLEMS_MAX]
        if wrong:
            raise Invalid(*(Problem(f"{field}[{i}]", "is not a list of values") for i in wrong))
    _check_lengths(data, width, lambda row: f"{field}[{row}]")


def _check_lengths(rows: Sequence[Sequence[object]], width: int, place: Callable[[int], str]) -> None:
    if {width}.issuperset(map(len, rows)):
        return
    ragged = [(i, len(row)) for i, row in enumerate(rows) if len(row) != width][:PROBLEMS_MAX]
    raise Invalid(*(Problem(place(i), f"has {length} values, {width} expected") for i, length in ragged))
