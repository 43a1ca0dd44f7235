"""SVMlight text: one row per line, a label and then the nonzero values.

    <label> <name>:<value> <name>:<value> ... # comment

A name is the text before the last colon of its cell, uninterpreted: ``1`` and ``01`` are two names. Comments and lines
without cells are skipped. ``qid:`` belongs to rankings, which Onepass does not learn: it is refused as a name.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_CELL = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Line:
    """One row.

    Attributes:
        number: the line's number in the text, from 1.
        text: the line without its comment.
        label: its first cell if that has no colon, else None.
        cells: the others.
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


def read_lines(text: str) -> Iterator[Line]:
    """The rows of an SVMlight text, one after the other, their cells not looked at yet."""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.partition("#")[0]
        cells = line.split()
        if not cells:
            continue
        label = cells.pop(0) if ":" not in cells[0] else None
        yield Line(number, line, label, cells)
