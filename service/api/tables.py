"""Tables in bodies that are not JSON: CSV with a header, .npy arrays, SVMlight."""

import asyncio
import csv
import io
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from core.contract import Floats
from core.features import Line, SparseSchema, read_lines
from core.problems import Invalid, Problem
from service.api import bodies
from service.api.schemas import SparseRow
from service.errors import NotTable, TooLarge

T = TypeVar("T")
THREAD_BODY_BYTES = 65_536
"""A larger body of sparse rows is read in a thread."""


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


def npy(body: bytes) -> NDArray[Any]:
    """The array of an .npy body; object arrays (which would need pickle) are refused.

    Raises:
        NotTable: not an .npy file (400).
        Invalid: no real numbers.
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
    return np.frombuffer(body, kind, math.prod(shape), stream.tell()).reshape(shape, order="F" if by_columns else "C")


_NPY_HEADERS: dict[Any, Any] = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}


def svmlight(body: bytes) -> list[Line]:
    """The lines of an SVMlight body.

    Raises:
        NotTable: not UTF-8 (400).
    """
    try:
        return read_lines(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise NotTable(f"the body is not UTF-8 (byte {error.start})") from None


def sparse(schema: SparseSchema, kind: str, data: Sequence[Any]) -> Floats:
    """Sparse rows as the model's columns: ``SparseRow`` out of JSON, or lines of SVMlight.

    Raises:
        Invalid: naming what is wrong.
    """
    if kind == bodies.SVMLIGHT:
        return schema.lines(data)
    rows: Sequence[SparseRow] = data
    return schema.lists([row.names for row in rows], [row.values for row in rows])


def check_sparse_size(rows: int, schema: SparseSchema, rows_max: int, bytes_max: int) -> None:
    """Refuse an empty batch, and one over the bounds: a sparse row is ``compressed_dim`` numbers once it is read.

    Raises:
        Invalid, TooLarge: as ``check_size``.
    """
    check_size(rows, min(rows_max, max(1, bytes_max // (8 * schema.width))), "rows")


async def in_thread_if_large(size: int, work: "Callable[..., T]", *args: Any) -> T:
    """Do the work of reading a body at once, or in a thread where the body is large."""
    return work(*args) if size <= THREAD_BODY_BYTES else await asyncio.to_thread(work, *args)


def check_size(rows: int, most: int, field: str = "data") -> None:
    """Refuse an empty batch, and one over the bound.

    Raises:
        Invalid: no rows.
        TooLarge: too many rows (413).
    """
    if rows == 0:
        raise Invalid.of(field, "holds no rows", ">= 1 row")
    if rows > most:
        raise TooLarge(f"the batch holds {rows} rows", [Problem(field, "holds too many rows", f"<= {most} rows")])
