"""The rows of a request as they were read, whatever form they came in."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from service.runtime.rows.named_rows import Place
from service.runtime.rows.row_numbers import DISCOUNTS, WEIGHTS, FieldPath

LABEL, LABELS = "label".format, "labels[{}]".format
IDS = "ids[{}]".format


class Table(NamedTuple):
    """The rows of a request as they were read, before they are checked against a model.

    Attributes:
        data: one row by names (a dict); rows of JSON values or of CSV texts; an array (n, columns), the label last
            where there are labels; sparse rows: objects with ``names`` and ``values``, or lines of SVMlight; or rows
            by name (dicts) that do not all have the same names.
        size: n.
        columns: names of the columns; None of one row, of an array (they are in schema order), of sparse rows and of
            rows of different names.
        texts: whether cells are texts.
        labels, discounts, weights: one per row, or None.
        label_path, discount_path: how errors name them.
        ids: as the client gave them, one per row or the one of a single row; or None.
        id_path: how errors name them.
        place: of rows that were given by name, how errors name their members; else None.
        interval: the level of the intervals that are asked for, as it was sent; or None.
    """

    data: Any
    size: int
    columns: Sequence[str] | None = None
    texts: bool = False
    labels: Sequence[Any] | None = None
    label_path: FieldPath = LABELS
    ids: str | int | Sequence[str | int] | None = None
    discounts: Sequence[Any] | None = None
    discount_path: FieldPath = DISCOUNTS
    id_path: FieldPath = IDS
    place: Place | None = None
    weights: Sequence[Any] | None = None
    weight_path: FieldPath = WEIGHTS
    interval: object = None


def names_of(table: Table) -> Collection[str] | None:
    """The names that a table gives, a row's own or those of its columns; None where it gives none."""
    return table.data if isinstance(table.data, dict) else table.columns


def names_field(table: Table) -> str:
    """How errors name the names of a table."""
    if isinstance(table.data, dict):
        return "features"
    return "header" if table.texts else "columns"


def first_row(table: Table, width: int) -> tuple[Sequence[Any] | None, Callable[[int, str], str]]:
    """The values of the first row, None where it is none; and how errors name one, by its position and its name."""
    if isinstance(table.data, dict):
        return [*table.data.values()], lambda _, name: f"features.{name}"
    first = table.data[0] if table.size else None
    values = first if isinstance(first, list | tuple) and len(first) == width else None
    if table.texts:
        return values, lambda _, name: f"row 1, column {name}"
    return values, lambda at, _: f"data[0][{at}]"
