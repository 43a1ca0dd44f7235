"""Rows with any names for models of sparse rows, from every format they are sent in.

SVMlight is text with one row per line, a label and then the nonzero values:

    <label> <name>:<value> <name>:<value> ... # comment

A name is the text before the last colon of its cell, uninterpreted: ``1`` and ``01`` are two names. Comments and lines
without cells are skipped. ``qid:`` belongs to rankings, which Onepass does not learn: it is refused as a name.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from core.contract import Floats
from core.features import SparseSchema
from core.problems import PROBLEMS_MAX, Problem, refuse
from service.runtime.rows.table import Table

_PAIR, _QUERY = ("is not a name with a value", "name:value"), ("is a qid; ranking is not supported", "name:value")
_CELL = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class SparseLine:
    """One row: the number of its line in the text, from 1; the line without its comment; its first cell if that has no
    colon, the label; and the other cells.
    """

    number: int
    text: str
    label: str | None
    cells: list[str]

    def place(self, at: int) -> str:
        """The place of cell ``at`` (-1: the label) in the text, e.g. ``line 3, column 7``, both from 1."""
        starts = [found.start() for found in _CELL.finditer(self.text)]
        position = at + (self.label is not None)
        return f"line {self.number}, column {1 + (starts[position] if 0 <= position < len(starts) else 0)}"


def read_lines(text: str) -> Iterator[SparseLine]:
    """The rows of a text, one after the other; their cells are not parsed yet."""
    for at, raw in enumerate(text.split("\n"), 1):
        line = raw.partition("#")[0]
        cells = line.split()
        if not cells:
            continue
        label = cells.pop(0) if ":" not in cells[0] else None
        yield SparseLine(at, line, label, cells)


def projected(space: SparseSchema, table: Table) -> Floats:
    """Rows with any names as psi (n, d)."""
    rows = table.rows
    if table.texts:
        return projected_lines(space, rows)
    if table.columns is not None:
        return _projected_columns(space, table.columns, rows)
    if not table.by_name:
        return space.lists([row.names for row in rows], [row.values for row in rows])
    names, place = [[*row] for row in rows], table.place
    values = [[*row.values()] for row in rows]
    return space.lists(names, values, place=lambda row, at, _: place(row, f"features.{names[row][at]}"))


def _projected_columns(space: SparseSchema, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Floats:
    """A table of named columns as psi (n, d); a null is an absent name."""
    width = len(columns)
    wrong = [at for at, row in enumerate(rows) if len(row) != width][:PROBLEMS_MAX]
    refuse([Problem(f"data[{at}]", f"has {len(rows[at])} values", f"{width} values") for at in wrong])
    kept = [[at for at, value in enumerate(row) if value is not None] for row in rows]

    def place(row: int, at: int, member: str) -> str:
        column = kept[row][at]
        return f"columns[{column}]" if member == "names" else f"data[{row}][{column}]"

    names = [[columns[at] for at in own] for own in kept]
    return space.lists(names, [[row[at] for at in own] for row, own in zip(rows, kept, strict=True)], place=place)


def projected_lines(space: SparseSchema, lines: Sequence[SparseLine]) -> Floats:
    """Rows, without their labels, as psi (n, d); raises as ``SparseSchema.lists``, naming line and column."""
    cells = [[cell.rpartition(":") for cell in line.cells] for line in lines]
    problems = [
        Problem(line.place(at), *(_PAIR if colon == "" else _QUERY))
        for line, row in zip(lines, cells, strict=True)
        for at, (name, colon, _) in enumerate(row)
        if colon == "" or (at == 0 and name == "qid")
    ]
    refuse(problems)
    names, texts = [[name for name, _, _ in row] for row in cells], [[text for _, _, text in row] for row in cells]
    return space.lists(names, texts, "body", texts=True, place=lambda row, at, _part: lines[row].place(at))
