"""Tables in bodies, by media type: JSON and NDJSON (``json_tables``), CSV (``csv_tables``), .npy arrays, SVMlight.

``read_table`` turns each of them into a ``Table``; it knows no model.
"""

import io
import math
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from core.features import Space, SparseSchema
from core.problems import Invalid, Problem, refuse
from service.api.http import json_body, media
from service.api.rows.formats.csv_tables import BESIDE_QUERIES, CSV_QUERIES, delimiter_of, read_csv, text_of
from service.api.rows.formats.json_tables import RowFormat, read_json, read_lines
from service.errors import NotTable
from service.runtime.rows.sparse_rows import read_lines as svmlight_lines
from service.runtime.rows.table import Table, check_size

TABLE_QUERIES = (*BESIDE_QUERIES, *CSV_QUERIES)  # query parameters of CSV
NESTED_IN_ROW, NESTED_BESIDE = 3, 6
"""Most lists and objects in one row of JSON (a sparse one), and in the request around the rows."""
NUMBER_BYTES = 40  # assumed memory of a number of an array that is read as a category
HEAD_BYTES, _ITEM_BYTES = 128, re.compile(rb"'descr': *'.[fiu]([1-9])'")  # the header of .npy, and its size of a number
OF_WIDTH = " of this model's width (ONEPASS_BODY_LIMIT_MB, once they are read)"


class Sent(NamedTuple):
    """A request that carries a table, as plain values."""

    body: bytes
    kind: str  # media type
    query: Mapping[str, str]  # those of a table name the CSV columns other than features
    rows_max: int
    bytes_max: int
    columns: int = 0  # most columns of a row that is encoded for a learner, if known


def read_table(form: RowFormat, sent: Sent, space: Space | None) -> Table:
    """The rows of a body; ``space`` is the model's feature space, None if it has none or it does not matter.

    Raises:
        WrongMedia: the format does not suit the model's rows (415).
        NotJson, NotTable: the body does not match its media type (400).
        TooLarge: too many rows for a batch (413).
        Invalid: no rows, missing columns, or lists without one item per row.
    """
    body, kind, most, sparse = sent.body, sent.kind, rows_most(sent, space), isinstance(space, SparseSchema)
    media.check_media_type(kind, sparse)
    if kind != media.CSV and (misplaced := [name for name in TABLE_QUERIES if name in sent.query]):
        raise Invalid.of(misplaced[0], f"is a query parameter for {media.CSV}, which this body is not", [])
    of = "" if most == sent.rows_max else OF_WIDTH
    if kind in (media.JSON, media.NDJSON) and json_body.nested_more_than(body, NESTED_IN_ROW * most + NESTED_BESIDE):
        check_size(most + 1, most, "data" if b'"data"' in body else "rows", of)
    if kind == media.JSON:
        table = read_json(form, body, sparse)
    elif kind == media.NDJSON:
        table = read_lines(form, body, most)
    elif kind == media.CSV:
        table = read_csv(body, sent.query, form.labelled, most)
    elif kind == media.NPY:
        table = _npy(body, form.labelled)
    else:
        table = _svmlight(body, form.labelled, most)
    field = "data" if isinstance(table.rows, np.ndarray) or table.columns is not None else "rows"
    check_size(len(table.rows), most, field, of)
    return table


def rows_most(sent: Sent, space: Space | None) -> int:
    """Most rows of a request: once read, a row takes ``raw_width`` numbers, however few it names, then ``columns``."""
    width = max(1, sent.columns // 2)
    if space is not None:
        width = max(width, 8 * space.raw_width if isinstance(space, SparseSchema) else space.raw_width)
    return min(sent.rows_max, max(1, sent.bytes_max // width))


def decoded_bytes(sent: Sent, space: Space | None) -> int:
    """Roughly the most memory that the rows of a request take, while they are read and encoded for a model."""
    body, kind = sent.body, sent.kind
    if kind == media.NPY:
        found = _ITEM_BYTES.search(body, 0, HEAD_BYTES)
        return len(body) + NUMBER_BYTES * len(body) // (int(found[1]) if found else 1)
    if kind in (media.JSON, media.NDJSON):
        values, rows = json_body.marks(body)
    else:
        mark = b":" if kind == media.SVMLIGHT else delimiter_of(sent.query).encode()
        values, rows = json_body.tally(body, mark), json_body.tally(body, b"\n")
    size = json_body.memory_of(body, values, rows)
    if space is None:
        return size
    width = space.raw_width + max(space.width, sent.columns)
    return size + 8 * width * min(rows, rows_most(sent, space))


def _npy(body: bytes, labelled: bool) -> Table:
    array = _array(body)
    if array.ndim != 2 or array.shape[1] < 1 + labelled:
        if labelled:
            raise Invalid.of("body", "is not a table of features and a label", "two dimensions, the label last")
        raise Invalid.of("body", "is not a table of features", "two dimensions")
    return Table(array, labels=_label_column(array) if labelled else None)


def _label_column(array: NDArray[Any]) -> list[Any]:
    """The last column as Python numbers; ``tolist`` alone does not convert types wider than a double."""
    last = array[:, -1]
    with np.errstate(over="ignore"):  # values that are too large become infinite, and are refused
        labels: list[Any] = (last.astype(np.float64) if last.dtype.kind == "f" else last).tolist()
    return labels


def _array(body: bytes) -> NDArray[Any]:
    """The array of an .npy body; object arrays (which would need pickle) are refused.

    numpy.load would allocate whatever size the header claims; here the claim is compared with the body first.
    """
    stream = io.BytesIO(body)
    try:
        read_header = _NPY_HEADERS[npy_format.read_magic(stream)]
        shape, by_columns, kind = read_header(stream)
    except Exception:  # noqa: BLE001 - a broken header can make the reader raise anything
        raise NotTable("the body is not an .npy array: its header cannot be read") from None
    if kind.kind not in "fiu":
        raise Invalid.of("body", f"has type {kind.name}", "float64")
    if not all(type(length) is int and length >= 0 for length in shape):
        raise NotTable("the body is not an .npy array: the length in its header is wrong")
    size = math.prod(shape)
    if size * kind.itemsize != len(body) - stream.tell():
        raise NotTable("the body's length differs from its .npy header")
    try:
        return np.frombuffer(body, kind, size, stream.tell()).reshape(shape, order="F" if by_columns else "C")
    except (ValueError, OverflowError):  # an empty array whose other length is beyond 64 bits
        raise NotTable("the body is not an .npy array: no array has the shape in its header") from None


_NPY_HEADERS: dict[Any, Any] = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}


def _svmlight(body: bytes, labelled: bool, most: int) -> Table:
    """Sparse rows; this format has no ids, discounts or weights."""
    lines = list(islice(svmlight_lines(text_of(body)), most + 1))
    if not labelled:
        return Table(lines, texts=True)
    labels = [line.label for line in lines]
    places = [line.place(-1) for line in lines if line.label is None]
    refuse([Problem(place, "is not a label", "label name:value ...") for place in places])
    return Table(lines, lambda row, _: lines[row].place(-1), texts=True, labels=labels)
