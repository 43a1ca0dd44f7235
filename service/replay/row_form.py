"""Cells of a file as rows of JSON: what a stream of rows is sent, where a batch is sent the cells themselves.

A cell is what the model's configuration makes of its text: one of the declared categories or labels, a boolean, a text
where the categories are hashed, else a number where it looks like one. What fits nothing is sent as it stands; the
service says what is wrong with it.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from service.replay.kinds import is_boolean, is_missing

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}").fullmatch


class RowForm:
    """How the rows of one file are sent to one model.

    Args:
        columns: of the file.
        label: the column of the label.
        id_column: the column of the ids; None: each row gets one of its own.
        run: prefix of these.
        config: the model's, as the service shows it.
    """

    def __init__(
        self, columns: Sequence[str], label: str, id_column: str | None, run: str, config: Mapping[str, Any]
    ) -> None:
        self._label_at, self._run = columns.index(label), run
        self._id_at = None if id_column is None else columns.index(id_column)
        apart = (self._label_at, self._id_at)
        self._features = [(at, name) for at, name in enumerate(columns) if at not in apart]
        self._regression = config["task"] == "regression"
        self._labels = _by_text(config.get("labels") or ())
        declared = [feature for feature in config.get("features") or () if isinstance(feature, dict)]
        self._categories = {one["name"]: _by_text(one["categories"]) for one in declared if one.get("categories")}
        self._types = {one["name"]: one.get("type", "numeric") for one in declared}

    def line(self, cells: Sequence[str], number: int) -> bytes:
        """One row.

        Args:
            cells: of all columns.
            number: of the row, from 1.
        """
        row = {
            "features": {name: self._value(name, cells[at]) for at, name in self._features},
            "label": self._label(cells[self._label_at]),
            "id": f"replay-{self._run}-{number}" if self._id_at is None else cells[self._id_at],
        }
        return json.dumps(row).encode() + b"\n"

    def _value(self, name: str, cell: str) -> Any:
        kind = self._types.get(name, "numeric")
        if cell == "" or (kind != "categorical" and is_missing(cell)):
            return None
        if kind == "boolean" and is_boolean(cell):
            return cell.lower() == "true"
        if kind == "categorical":
            return self._categories.get(name, {}).get(cell, cell)
        return _number(cell)

    def _label(self, cell: str) -> Any:
        if self._regression:
            return _number(cell)
        if cell in self._labels:
            return self._labels[cell]
        if cell == "":
            return None
        return int(cell) if _INTEGER(cell) else _whole(_number(cell))


def _by_text(values: Sequence[Any]) -> dict[str, Any]:
    return {value if isinstance(value, str) else json.dumps(value): value for value in values}


def _number(cell: str) -> float | str:
    """The finite number that a cell is, else the cell."""
    try:
        found = float(cell) if cell.isascii() and "_" not in cell else math.nan
    except ValueError:
        return cell
    return found if math.isfinite(found) else cell


def _whole(value: float | str) -> float | int | str:
    """A label that is a whole number as an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
