"""A feature space: the features of a model, in order, and how rows are read against them.

A raw row is (F,) float64 in schema order; core.features.columns converts each value. Rows are given by name (``row``),
as a table of JSON values or CSV texts (``block``) or as an array (``matrix``). All follow the same rules: exactly the
schema's names, and finite numbers of a number type.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import chain
from operator import itemgetter
from sys import getsizeof
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats
from core.features.columns import Limits, column_of
from core.features.feature import Feature, digest
from core.features.parsing import NUMBERS, Unfit, vectorised
from core.problems import FILLED, LISTED_MAX, PROBLEMS_MAX, Invalid, Problem, lacking, refuse, unknown_feature

_Place = Callable[[int, int], str]
"""Names a cell for errors, by its row and its feature's column."""
_ROWS_AT_ONCE = 2048
_FEATURE_BYTES, _BOOLEAN_BYTES, _CODED_BYTES, _CATEGORY_BYTES, _COLUMN_BYTES = 300, 2700, 1000, 240, 40
"""Memory besides texts, measured: of a feature, of a boolean one, more for categories, of each, and of a column."""
_MISSING = f"is missing; {FILLED}"


class _Table(NamedTuple):
    """Rows of cells; ``order``: the position of each feature in a row, -1 if absent; ``texts``: CSV, not JSON."""

    rows: Sequence[Sequence[Any]]
    order: list[int]
    missing_allowed: bool
    texts: bool


class Schema:
    """An immutable feature space of F features; equal declarations have equal ids."""

    def __init__(self, features: Sequence[Feature]) -> None:
        if not features:
            raise ValueError("a schema has at least one feature")
        self.features: Final = tuple(features)
        self.names: Final = tuple(feature.name for feature in features)
        self.index: Final[dict[str, int]] = {name: column for column, name in enumerate(self.names)}
        self.columns: Final = tuple(chain.from_iterable(feature.columns for feature in features))  # D encoded columns
        self.width: Final = len(self.columns)
        self.ranges: Final = _ends(feature.ranges for feature in features)  # (2, D), NaN if not declared
        self.drift_ranges: Final = _ends(feature.drift_ranges for feature in features)
        self.raw_width: Final = len(self.features)
        self.plain: Final = all(feature.type in ("numeric", "boolean") for feature in features)  # raw is encoded
        self.numeric: Final = all(feature.type == "numeric" for feature in features)
        self.exact: Final = tuple(at for at, feature in enumerate(features) if feature.categories)  # raw columns
        self.id: Final = digest([feature.to_json() for feature in features])  # 16 hexadecimal characters
        self.object_bytes: Final = _object_bytes(features, self.columns)
        self._columns = tuple(column_of(feature, True) for feature in features)
        self._limits: Final = Limits.of(features)
        self._pick: Final = _picker(self.names)
        self.known = frozenset(self.names)  # names of features, and names that are ignored

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def reading(self, ignored: Collection[str] = (), others: bool = True) -> "Schema":
        """The same space, read differently: ignores names in ``ignored``; ``others``: accepts any category."""
        found = copy(self)
        found.known = frozenset(self.names).union(ignored)
        found._columns = tuple(column_of(feature, others) for feature in self.features)  # noqa: SLF001
        return found

    def row(self, values: Mapping[str, object], missing_allowed: bool, field: str = "features") -> Floats:
        """One row given by name, as (1, F).

        ``Invalid`` for a name that is not in the schema, a value that does not fit, or one that is null or absent
        (unless ``missing_allowed``); the first 20 of them.
        """
        raw = None
        if self.numeric and type(values) is dict and (len(values) == len(self.names) or self.known.issuperset(values)):
            try:
                cells = self._pick(values)
                # A finite sum has only finite terms; an infinite sum may, too, so the cells are read one by one then.
                if NUMBERS.issuperset(map(type, cells)) and math.isfinite(sum(cells)):
                    raw = np.array((cells,), np.float64)
            except (KeyError, OverflowError):
                pass
        if raw is None:
            raw = self._row_by_cells(values, missing_allowed, field)
        return raw if self._limits is None else self._limits.apply(raw, lambda _, at: f"{field}.{self.names[at]}")

    def numbers_of(self, values: Mapping[str, float]) -> tuple[float, ...] | None:
        """The cells of a row of finite numbers, if it has exactly the schema's names and all numbers are accepted.

        Such a row is a raw row of this space. None: use ``row`` to find out whether the row is valid.
        """
        if self.numeric and self._limits is None and len(values) == len(self.names):
            try:
                return self._pick(values)
            except KeyError:
                return None
        return None

    def _row_by_cells(self, values: Mapping[str, object], missing_allowed: bool, field: str) -> Floats:
        if not isinstance(values, Mapping):
            raise Invalid.of(field, "is not an object of names and values")
        strange = [] if self.known.issuperset(values) else [name for name in values if name not in self.known]
        first = enumerate(strange[:PROBLEMS_MAX])
        problems = [unknown_feature(f"{field}.{name}", self.names, name, at) for at, name in first]
        place, cells = (lambda at: f"{field}.{self.names[at]}"), enumerate(map(values.get, self.names))
        raw = self._read_cells(cells, missing_allowed, False, place, problems)
        refuse(problems)
        return np.array((raw,), np.float64)

    def block(
        self, columns: Sequence[str], rows: Sequence[Sequence[Any]], missing_allowed: bool, texts: bool = False
    ) -> Floats:
        """A table of n rows with its columns named, in any order, as (n, F); ``texts``: of CSV, not JSON values.

        ``Invalid`` for columns that are not the schema's (some may be absent if ``missing_allowed``), rows of different
        length, and cells that do not fit; the first 20 of them. Cells are named ``data[3][1]``, those of CSV
        ``row 3, column load``, where row 1 is the first below the header.
        """
        order = self._order(columns, missing_allowed, "header" if texts else "columns")
        if not isinstance(rows, list | tuple):
            raise Invalid.of("data", "is not a list of rows")
        if not {list, tuple}.issuperset(map(type, rows)):
            wrong = [at for at, row in enumerate(rows) if not isinstance(row, list | tuple)]
            refuse([Problem(f"data[{at}]", "is not a list of values") for at in wrong[:PROBLEMS_MAX]])
        return self._read(_Table(rows, order, missing_allowed, texts), len(columns))

    def numbers(self, columns: Sequence[str], X: Floats, missing_allowed: bool, texts: bool = False) -> Floats:
        """``block`` for finite numbers X (n, C), NaN for missing, in a space of numeric features.

        Returns X itself if its columns are the schema's, in order, and any number is accepted.
        """
        order = self._order(columns, missing_allowed, "header" if texts else "columns")
        if order != list(range(X.shape[1])):
            raw = np.full((len(X), len(self.names)), math.nan)
            present = [column for column, position in enumerate(order) if position >= 0]
            raw[:, present] = X[:, [order[column] for column in present]]
            X = raw
        return self._within(X, self._place(order, texts))

    def matrix(self, X: NDArray[Any], missing_allowed: bool, field: str = "data") -> Floats:
        """An array of n rows in schema order, as C-contiguous float64 (n, F); X itself if it is one already.

        A categorical column holds indices of declared categories, or integers that are hashed as in JSON. ``Invalid``
        if X is not two-dimensional, not of real numbers or has the wrong number of columns; and, by row and column, for
        an infinity, NaN (unless ``missing_allowed``), or a number that is not a value of its feature.
        """
        if X.ndim != 2 or X.shape[1] != len(self.names):
            raise Invalid.of(field, "has the wrong shape", f"two dimensions, {len(self.names)} columns")
        if X.dtype.kind not in "fiu":
            raise Invalid.of(field, "does not have a real number type", "float64")
        with np.errstate(over="ignore", invalid="ignore"):
            raw = coded = np.ascontiguousarray(X, dtype=np.float64)
        bad = np.isinf(raw) if missing_allowed else ~np.isfinite(raw)
        for at, column in enumerate(() if self.numeric else self._columns):
            codes, wrong = column.numbers(raw[:, at])
            bad[:, at] |= wrong
            if self.features[at].buckets:
                coded = raw.copy() if coded is raw else coded
                coded[:, at] = codes
        place: _Place = lambda row, column: f"{field}[{row}][{column}]"  # noqa: E731
        if bad.any():
            cells = [(int(i), int(j)) for i, j in np.argwhere(bad)[:PROBLEMS_MAX]]
            misfits = [(_MISSING, None) if np.isnan(raw[cell]) else self._columns[cell[1]].misfit for cell in cells]
            refuse([Problem(place(*cell), *misfit) for cell, misfit in zip(cells, misfits, strict=True)])
        return self._within(coded, place)

    def _order(self, columns: Sequence[str], missing_allowed: bool, field: str) -> list[int]:
        """The position of each feature in the client's columns; -1 if it is absent."""
        if not isinstance(columns, list | tuple):
            raise Invalid.of(field, "is not a list of names", list(self.names[:LISTED_MAX]))
        order = [-1] * len(self.names)
        problems: list[Problem] = []
        for position, name in enumerate(columns):
            column = self.index.get(name, -1) if isinstance(name, str) else -1
            if column < 0 and isinstance(name, str) and name in self.known:
                continue
            if len(problems) == PROBLEMS_MAX:
                break
            if column < 0:
                problems.append(unknown_feature(f"{field}[{position}]", self.names, name, len(problems)))
            elif order[column] >= 0:
                problems.append(Problem(f"{field}[{position}]", "occurs twice"))
            else:
                order[column] = position
        absent = [name for name, position in zip(self.names, order, strict=True) if position < 0]
        if absent and not missing_allowed:
            problems.append(lacking(field, absent, FILLED))
        refuse(problems)
        return order

    def _place(self, order: Sequence[int], texts: bool) -> _Place:
        """Names the cells of a table with columns in this order."""
        if texts:
            return lambda row, column: f"row {row + 1}, column {self.names[column]}"
        return lambda row, column: f"data[{row}][{order[column]}]"

    def _within(self, raw: Floats, place: _Place) -> Floats:
        """Raw rows within the limits that their features declare."""
        return raw if self._limits is None else self._limits.apply(raw, place)

    def _read(self, table: _Table, width: int) -> Floats:
        """The raw rows of a table, by whole columns, or by cells if one is unusual.

        It reads some rows at a time, because a thread holds the interpreter for as long as one column takes.
        """
        rows = table.rows
        if not {width}.issuperset(map(len, rows)):
            place = "row {}" if table.texts else "data[{}]"
            ragged = [(at, len(row)) for at, row in enumerate(rows, int(table.texts)) if len(row) != width]
            expected = f"values, {width} expected"
            refuse([Problem(place.format(at), f"has {found} {expected}") for at, found in ragged[:PROBLEMS_MAX]])
        raw = np.full((len(rows), len(self.names)), math.nan)
        problems: list[Problem] = []
        for begin in range(0, len(rows), _ROWS_AT_ONCE):
            part = range(len(rows))[begin : begin + _ROWS_AT_ONCE]
            if not self._read_columns(table, rows[begin : part.stop], raw[begin : part.stop]):
                raw[begin : part.stop] = self._read_rows(table, part, problems)
            if len(problems) >= PROBLEMS_MAX:
                break
        refuse(problems)
        return self._within(raw, self._place(table.order, table.texts))

    def _read_columns(self, table: _Table, rows: Sequence[Sequence[Any]], raw: Floats) -> bool:
        """Fill raw rows by whole columns; returns False if a cell was unusual."""
        order, texts = table.order, table.texts
        numeric = [at for at, own in enumerate(self.features) if own.type == "numeric" and order[at] >= 0]
        numbers = vectorised(_flat(rows, [order[at] for at in numeric]), texts, table.missing_allowed)
        if numbers is None:
            return False
        raw[:, slice(None) if len(numeric) == len(self.names) else numeric] = numbers.reshape(len(rows), len(numeric))
        for at, column in enumerate(() if self.numeric else self._columns):
            if self.features[at].type != "numeric" and order[at] >= 0:
                codes = column.vectorised(list(map(itemgetter(order[at]), rows)), texts)
                if codes is None:
                    return False
                raw[:, at] = codes
        return table.missing_allowed or self.numeric or not np.isnan(raw).any()

    def _read_rows(self, table: _Table, part: range, problems: list[Problem]) -> list[list[float]]:
        """Raw rows, cell by cell in their order; adds the first cells that do not fit to the problems."""
        place = self._place(table.order, table.texts)
        present = sorted((position, at) for at, position in enumerate(table.order) if position >= 0)
        raw = [[math.nan] * len(self.names)] * len(part)
        for at, row in enumerate(part):
            if len(problems) >= PROBLEMS_MAX:
                break
            cells = [(column, table.rows[row][position]) for position, column in present]
            raw[at] = self._read_cells(cells, table.missing_allowed, table.texts, partial(place, row), problems)
        return raw

    def _read_cells(
        self,
        cells: Iterable[tuple[int, Any]],
        missing_allowed: bool,
        texts: bool,
        place: Callable[[int], str],
        problems: list[Problem],
    ) -> list[float]:
        """A raw row from its cells, each with its feature's column; adds to the problems."""
        raw = [math.nan] * len(self.names)
        for at, cell in cells:
            column = self._columns[at]
            try:
                if not (cell in column.missing if texts else cell is None):
                    raw[at] = column.read(cell, texts)
                elif not missing_allowed:
                    problems.append(Problem(place(at), _MISSING))
            except Unfit as unfit:
                problems.append(unfit.at(place(at)))
        return raw


def _object_bytes(features: Sequence[Feature], columns: Sequence[str]) -> int:
    """Memory of the names, tables and other objects of a space and of what reads its rows, about."""
    texts = [*columns, *(one for feature in features for one in feature.categories if isinstance(one, str))]
    kinds = sum(_BOOLEAN_BYTES if feature.type == "boolean" else _FEATURE_BYTES for feature in features)
    coded = sum(_CODED_BYTES + _CATEGORY_BYTES * feature.width for feature in features if feature.categories)
    return kinds + coded + _COLUMN_BYTES * len(columns) + sum(map(getsizeof, texts))


def _ends(ranges: Iterable[list[tuple[float, float]]]) -> Floats:
    """The ranges of features as a read-only array (2, D)."""
    ends = np.array([*chain.from_iterable(ranges)], dtype=np.float64).T
    ends.flags.writeable = False
    return ends


def _picker(keys: Sequence[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that takes the items of some keys out of a row."""
    return itemgetter(*keys) if len(keys) > 1 else lambda row: tuple(row[key] for key in keys)


def _flat(rows: Sequence[Sequence[Any]], positions: list[int]) -> list[Any]:
    """The cells at some positions of one or more rows, row by row, in the order of the positions."""
    whole = positions == list(range(len(rows[0])))
    return list(chain.from_iterable(rows if whole else map(_picker(positions), rows)))
