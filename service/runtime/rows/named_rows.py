"""Rows that clients give by name, many at once, as tables: of their names where all have the same, else of the model's.

Reading a table names what is wrong by column and cell; of rows by name it is told as the client wrote them:
``rows[3].features.load``, or ``line 4, features.load`` where every row is a line.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from core.contract import Floats
from core.problems import PROBLEMS_MAX, Invalid, Problem

if TYPE_CHECKING:
    from service.runtime.rows.table import Table

E = TypeVar("E", bound=Exception)
Row = dict[str, Any]
Place = Callable[[int, str], str]
"""How errors name a member of a row, from the row's index: ``rows[3].label``; the row itself where the member is ""."""


class SparseRow(NamedTuple):
    """One row of a model whose rows may hold any names: these, and their values."""

    names: list[str]
    values: list[Any]


def columns_of(rows: Sequence[Row], sparse: bool) -> tuple[Sequence[str] | None, list[Any]] | None:
    """Rows given by names as a table: its columns and its data; None where they do not all have the same names.

    Args:
        rows: the rows.
        sparse: of a model whose rows may hold any names, which has its own kind of table.
    """
    if sparse:
        return None, [SparseRow([*row], [*row.values()]) for row in rows]
    columns = [*rows[0]]
    if not columns or {len(columns)} != {*map(len, rows)}:
        return None
    pick = itemgetter(*columns)
    try:
        return columns, [pick(row) for row in rows] if len(columns) > 1 else [(pick(row),) for row in rows]
    except KeyError:
        return None


def named_as_first(rows: Sequence[Row], place: Place, ignored: Collection[str] = ()) -> tuple[Sequence[str], list[Any]]:
    """Rows given by names as a table of the first row's names, None where a row lacks one, without ignored ones.

    Raises:
        Invalid: names that the first row has not; the first 20 of them.
    """
    columns = [*rows[0]]
    known = frozenset(columns).union(ignored)
    strange = ((at, name) for at, row in enumerate(rows) if not known.issuperset(row) for name in row.keys() - known)
    problem = "is not a feature of the first row, which fixes the features of the model; declare them to leave some out"
    problems = [
        Problem(place(at, f"features.{name}"), problem, columns[:PROBLEMS_MAX])
        for (at, name), _ in zip(strange, range(PROBLEMS_MAX), strict=False)
    ]
    if problems:
        raise Invalid(*problems)
    return columns, [[*map(row.get, columns)] for row in rows]


def first_lacking(rows: Sequence[Row], names: Collection[str]) -> int | None:
    """The index of the first row that lacks one of some names, or None."""
    wanted = frozenset(names)
    return next((at for at, row in enumerate(rows) if not row.keys() >= wanted), None)


def read_ragged(table: "Table", known: Sequence[str], read: "Callable[[Table], Floats]") -> Floats:
    """The raw rows of a table of rows by name that do not all have the same names.

    Args:
        table: the rows.
        known: names of the model; one that a row lacks is read as None.
        read: reads a table of columns: those of the known names, and others that it ignores or refuses.

    Raises:
        Invalid: as ``read``, told as ``as_written``.
    """
    assert table.place is not None
    raw, problems = np.empty((table.size, len(known))), list[Problem]()
    for strange, rows in _by_strange_names(table.data, frozenset(known)).items():
        columns = [*known, *strange]
        data = [[*map(table.data[row].get, columns)] for row in rows]
        try:
            raw[rows] = read(table._replace(data=data, size=len(rows), columns=columns, place=None))
        except Invalid as error:
            problems += _told(error.problems, columns, rows, table.place)
        if len(problems) >= PROBLEMS_MAX:
            break
    if problems:
        raise Invalid(*problems[:PROBLEMS_MAX])
    return raw


def _by_strange_names(rows: Sequence[Row], known: frozenset[str]) -> dict[tuple[str, ...], list[int]]:
    """Indices of rows, by the names that each has beside known ones."""
    parts: dict[tuple[str, ...], list[int]] = {}
    for at, row in enumerate(rows):
        strange = () if known.issuperset(row) else tuple([name for name in row if name not in known])
        parts.setdefault(strange, []).append(at)
    return parts


def as_written(error: E, table: "Table") -> E | Invalid:
    """What is wrong with a table, told in the names of the rows that it was made of; other errors as they are."""
    if table.place is None or not isinstance(error, Invalid):
        return error
    names: Sequence[str] | Sequence[SparseRow] = table.data if table.columns is None else table.columns
    return Invalid(*_told(error.problems, names, range(table.size), table.place))


_CELL, _COLUMN = re.compile(r"data\[(\d+)\](?:\[(\d+)\])?"), re.compile(r"columns(?:\[(\d+)\])?")
_SPARSE = re.compile(r"rows\[(\d+)\]\.(?:names|values)\[(\d+)\]")


def _told(problems: Iterable[Problem], names: Sequence[Any], rows: Sequence[int], place: Place) -> list[Problem]:
    """Problems of a table as those of its rows.

    Args:
        problems: with the fields of a table.
        names: of its columns; or its rows, where they are sparse.
        rows: the index of each row.
        place: names a member of a row.
    """
    return [problem._replace(field=_field(problem.field, names, rows, place)) for problem in problems]


def _field(field: str, names: Sequence[Any], rows: Sequence[int], place: Place) -> str:
    if (cell := _CELL.fullmatch(field)) is not None:
        row, column = int(cell[1]), cell[2]
        return place(rows[row], "features" if column is None else f"features.{names[int(column)]}")
    if (column := _COLUMN.fullmatch(field)) is not None:
        return place(rows[0], "features" if column[1] is None else f"features.{names[int(column[1])]}")
    if (sparse := _SPARSE.fullmatch(field)) is not None and not isinstance(names[int(sparse[1])], str):
        row = int(sparse[1])
        return place(row, f"features.{names[row].names[int(sparse[2])]}")
    return field
