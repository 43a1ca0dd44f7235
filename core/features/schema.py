"""A feature space: the features of a model, in order, and how rows are read against them.

A raw row is (F,) float64 in schema order: a numeric feature's value, a categorical one's index, NaN where a
value is missing. Rows are given by name (``row``), as a table (``block``), as an array (``matrix``) or as CSV texts
(``text_cells``). All four apply the same rules: names exactly the schema's, and numbers of a number type, finite.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from itertools import chain
from operator import itemgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats
from core.features.feature import Feature, digest
from core.features.parsing import NUMBERS, CategoryCells, NumberCells, Unfit, vectorised_texts, vectorised_values
from core.problems import LISTED_MAX, PROBLEMS_MAX, Invalid, Problem, lacking, unknown_feature

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
        width: D, one per numeric feature and one per category.
        raw_width: F.
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
        ends = [feature.range for feature in self.features for _ in range(feature.width)]
        self.ranges: Final[Floats] = np.array(ends, dtype=np.float64).T
        self.ranges.flags.writeable = False
        self.raw_width: Final = len(self.features)
        self.plain: Final = all(feature.type == "numeric" for feature in features)
        self.id: Final = digest([feature.to_json() for feature in features])
        self._cells: Final = tuple(CategoryCells(f) if f.type == "categorical" else NumberCells() for f in features)
        self._pick: Final[Callable[[Any], Any]] = itemgetter(*self.names)
        self._ignored: frozenset[str] = frozenset()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def ignoring(self, names: Collection[str]) -> "Schema":
        """The same space, with readers that ignore some other names and their values."""
        found = copy(self)
        found._ignored = frozenset(names) - frozenset(self.names)  # noqa: SLF001  its own class
        return found

    def row(self, values: Mapping[str, object], missing_allowed: bool, field: str = "features") -> Floats:
        """One row given by names, as (1, F).

        Raises:
            Invalid: a name that is none of the schema's, a value that does not fit, or (unless
                ``missing_allowed``) a value that is null or absent; the first 20 of them.
        """
        if self.plain and type(values) is dict and len(values) == len(self.names):
            try:
                cells = self._pick(values) if len(self.names) > 1 else (self._pick(values),)
                # A sum that is finite has only finite terms; one that is not may still have, and is read by cells.
                if NUMBERS.issuperset(map(type, cells)) and math.isfinite(sum(cells)):
                    return np.array((cells,), np.float64)
            except (KeyError, OverflowError):
                pass
        return self._row_by_cells(values, missing_allowed, field)

    def _row_by_cells(self, values: Mapping[str, object], missing_allowed: bool, field: str) -> Floats:
        if not isinstance(values, Mapping):
            raise Invalid.of(field, "is not an object of names and values")
        strange = [name for name in values if name not in self.index and name not in self._ignored]
        problems = [unknown_feature(f"{field}.{name}", self.names) for name in strange[:PROBLEMS_MAX]]
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
        return self._read(order, data, missing_allowed, lambda row, column: f"data[{row}][{order[column]}]")

    def numbers(self, columns: Sequence[str], X: Floats, missing_allowed: bool, field: str = "columns") -> Floats:
        """A table of finite numbers (n, C), NaN for missing, with its C columns named, in any order, as (n, F).

        For a space without categories; X itself where its columns are the schema's, in order.

        Raises:
            Invalid: columns that are not the schema's (some may be absent where ``missing_allowed``).
        """
        order = self._order(columns, missing_allowed, field)
        if order == list(range(X.shape[1])):
            return X
        raw = np.full((len(X), len(self.names)), math.nan)
        present = [column for column, position in enumerate(order) if position >= 0]
        raw[:, present] = X[:, [order[column] for column in present]]
        return raw

    def text_cells(self, columns: Sequence[str], rows: Sequence[Sequence[str]], missing_allowed: bool) -> Floats:
        """A CSV table of n rows, as (n, F); an empty cell is a missing value.

        Raises:
            Invalid: as ``block``; cells are named ``row 3, column load``, where row 1 is the first below the header.
        """
        order = self._order(columns, missing_allowed, "header")
        _check_lengths(rows, len(columns), lambda row: f"row {row + 1}")
        place: _Place = lambda row, column: f"row {row + 1}, column {self.names[column]}"  # noqa: E731
        return self._read(order, rows, missing_allowed, place, texts=True)

    def matrix(self, X: NDArray[Any], missing_allowed: bool, field: str = "data") -> Floats:
        """An array of n rows in schema order, as C-contiguous float64 (n, F); X itself where it is that already.

        Raises:
            Invalid: not two-dimensional, not real numbers, another number of columns, an infinity, NaN unless
                ``missing_allowed``, or a categorical column that is no index of a category; by row and column.
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
        for column, feature in enumerate(self.features):
            if feature.type == "categorical":
                bad[:, column] |= _not_index(raw[:, column], feature.width)
        if bad.any():
            raise Invalid(*(self._misfit(raw, int(i), int(j), field) for i, j in np.argwhere(bad)[:PROBLEMS_MAX]))
        return raw

    def _misfit(self, raw: Floats, row: int, column: int, field: str) -> Problem:
        where = f"{field}[{row}][{column}]"
        if np.isnan(raw[row, column]):
            return Problem(where, "is missing")
        if self.features[column].type == "numeric":
            return Problem(where, "is not a finite number")
        return Problem(where, "is not an index of a category", f"0 to {self.features[column].width - 1}")

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
                problems.append(unknown_feature(f"{field}[{position}]", self.names))
            elif order[column] >= 0:
                problems.append(Problem(f"{field}[{position}]", "is there twice"))
            else:
                order[column] = position
        absent = [name for name, position in zip(self.names, order, strict=True) if position < 0]
        if absent and not missing_allowed:
            problems.append(lacking(field, absent))
        if problems:
            raise Invalid(*problems[:PROBLEMS_MAX])
        return order

    def _read(
        self,
        order: list[int],
        rows: Sequence[Sequence[Any]],
        missing_allowed: bool,
        place: _Place,
        texts: bool = False,
    ) -> Floats:
        """The raw rows; or the first cells that do not fit, by rows."""
        raw = self._vectorised(order, rows, missing_allowed, texts)
        if raw is not None:
            return raw
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
        for column, reader in enumerate(self._cells):
            if isinstance(reader, CategoryCells) and order[column] >= 0:
                codes = reader.vectorised(list(map(itemgetter(order[column]), rows)), missing_allowed, texts)
                if codes is None:
                    return None
                raw[:, column] = codes
        return raw


def _not_index(codes: Floats, count: int) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        wrong: NDArray[np.bool_] = ~np.isnan(codes) & ((codes < 0) | (codes >= count) | (codes != np.floor(codes)))
    return wrong


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
