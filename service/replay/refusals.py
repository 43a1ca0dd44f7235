"""What the service says of a refused request, in a few lines: by column where many cells are at fault."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from service.replay.source import Batch
from service.replay.wording import first

PROBLEMS_SHOWN = 5
ALLOWED_SHOWN = 40
"""Words of a list of what is allowed; the service lists every algorithm, and fewer of anything else."""
NAMED_MAX = 20
"""Most problems that the service names in one answer."""
CELLS_SHOWN = 3
"""Of one column, with their lines."""
CELL_SHOWN = 40
"""Characters of a cell that is shown."""
_CELL = re.compile(r"row (\d+), column (.*)", re.DOTALL)
_ROW = re.compile(r"row (\d+)\b")
_ID = re.compile(r"ids\[(\d+)\]")


def lines_of(errors: Sequence[Mapping[str, Any]], batch: Batch | None) -> list[str]:
    """The problems of a problem document, those of one column and kind together; rows as lines of the file."""
    grouped: dict[tuple[str, str], list[int]] = {}
    for error in errors:
        field, said = str(error.get("field", "")), _said(error)
        if batch is not None:
            field = _ID.sub(lambda found: f"row {int(found[1]) + 1}, id", field)
        cell = None if batch is None else _CELL.fullmatch(field)
        if cell is None or not 1 <= int(cell[1]) <= batch.rows:  # type: ignore[union-attr]  # there is a batch
            field = field if batch is None else _ROW.sub(lambda found: _line(int(found[1]), batch), field, count=1)
            grouped.setdefault((field, said), [])
        else:
            grouped.setdefault((f"column {cell[2]}", said), []).append(int(cell[1]))
    more = len(errors) >= NAMED_MAX
    told = [_told(field, said, rows, batch, more) for (field, said), rows in grouped.items()]
    return first(told, PROBLEMS_SHOWN)


def _told(field: str, said: str, rows: list[int], batch: Batch | None, more: bool) -> str:
    if not rows or batch is None:
        return f"{field}: {said}"
    name, most = field.removeprefix("column "), "at least " * more
    cells = first([f"{_shown(batch, row, name)} in {_line(row, batch)}" for row in rows], CELLS_SHOWN, most)
    return f"{field}: {', '.join(cells)}: {said}"


def _said(error: Mapping[str, Any]) -> str:
    """A problem with the allowed values."""
    allowed = error.get("allowed")
    hint = ", ".join(first([str(one) for one in allowed], ALLOWED_SHOWN)) if isinstance(allowed, list) else allowed
    return f"{error.get('problem', '')}" + (f" ({hint})" if hint else "")


def _shown(batch: Batch, row: int, column: str) -> str:
    """A cell of a row, cut where it is long."""
    cell = batch.cells[row - 1][batch.columns.index(column)] if column in batch.columns else ""
    return "nothing" if cell == "" else repr(cell if len(cell) <= CELL_SHOWN else f"{cell[:CELL_SHOWN]}...")


def _line(row: int, batch: Batch) -> str:
    return f"{batch.unit} {batch.lines[row - 1]}" if 1 <= row <= batch.rows else f"row {row}"
