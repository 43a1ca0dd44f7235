"""Tables in bodies that are not JSON: CSV with a header, and .npy arrays."""

import csv
import io
import math
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from core.problems import Invalid, Problem
from service.errors import NotTable, TooLarge
from service.runtime.intake import matrix


def csv_rows(body: bytes) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a CSV body; blank lines are passed over.

    Raises:
        NotTable: not UTF-8, or not CSV (400).
        Invalid: no header.
    """
    try:
        lines = list(csv.reader(io.StringIO(body.decode("utf-8-sig"), newline=""), strict=True))
    except UnicodeDecodeError as error:
        raise NotTable(f"the body is not UTF-8 (byte {error.start})") from None
    except csv.Error as error:
        raise NotTable(f"the body is not CSV: {error}") from None
    rows = [line for line in lines if line]
    if not rows:
        raise Invalid.of("body", "has no header line")
    return rows[0], rows[1:]


def pop_column(header: list[str], rows: list[list[str]], name: str | None, query: str) -> list[str] | None:
    """Take a named column out of a table, in place.

    Args:
        header: changed.
        rows: changed.
        name: the column, or None.
        query: the query parameter that named it, for the error.

    Raises:
        Invalid: no such column, or a row that is too short or too long.
    """
    if name is None:
        return None
    if header.count(name) != 1:
        raise Invalid.of(query, "does not name exactly one column of the header", header[:100])
    at, width = header.index(name), len(header)
    for number, row in enumerate(rows):
        if len(row) != width:
            raise Invalid.of(f"row {number + 1}", f"has {len(row)} cells", f"{width} cells")
    header.pop(at)
    return [row.pop(at) for row in rows]


def npy(body: bytes, columns: int) -> NDArray[np.float64]:
    """An .npy body as a table of a given width; object arrays (which would need pickle) are refused.

    Raises:
        NotTable: not an .npy file (400).
        Invalid: another shape or type.
    """
    stream = io.BytesIO(body)
    try:
        read_header = _NPY_HEADERS[npy_format.read_magic(stream)]
        shape, by_columns, kind = read_header(stream)
    except Exception as error:  # noqa: BLE001 - the reader raises whatever a broken header makes it trip over
        raise NotTable(f"the body is not an .npy array: {type(error).__name__}") from None
    if kind.kind not in "fiu":
        raise Invalid.of("body", f"has type {kind.name}", "float64")
    if min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize != len(body) - stream.tell():
        raise NotTable("the body is not as long as its .npy header says")  # said before anything is allocated
    array = np.frombuffer(body, kind, math.prod(shape), stream.tell()).reshape(shape, order="F" if by_columns else "C")
    return matrix(array, columns)


_NPY_HEADERS: dict[Any, Any] = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}


def bounded(rows: int, most: int) -> None:
    """Refuse an empty batch, and one over the bound.

    Raises:
        Invalid: no rows.
        TooLarge: too many rows (413).
    """
    if rows == 0:
        raise Invalid.of("data", "holds no rows", ">= 1 row")
    if rows > most:
        raise TooLarge(f"the batch holds {rows} rows", [Problem("data", "holds too many rows", f"<= {most} rows")])
