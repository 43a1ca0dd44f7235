"""Tables in bodies: JSON, CSV (``csv_tables``), .npy arrays; SVMlight.

``read_table`` makes one record of all of them, and knows no model.
"""

import io
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from core.features import Space, SparseSchema
from core.problems import PROBLEMS_MAX, Invalid, Problem
from service.api.http import json_body, media
from service.api.rows.formats import records
from service.api.rows.formats.csv_tables import BESIDE_QUERIES, CSV_QUERIES, read_csv, text_of
from service.errors import NotTable, TooLarge
from service.runtime.rows.row_numbers import FieldPath
from service.runtime.rows.svmlight import read_lines
from service.runtime.rows.table import Table

TABLE_QUERIES = (*BESIDE_QUERIES, *CSV_QUERIES)
"""Query parameters of CSV."""
NESTED_IN_ROW, NESTED_BESIDE = 3, 6
"""Most lists and objects that one row of JSON takes (a sparse one), and the request itself."""
OF_WIDTH = " of this model's width (ONEPASS_BODY_LIMIT_MB, once they are read)"


class TableForm(NamedTuple):
    """What the tables of a route hold.

    Attributes:
        json: reads a JSON body; the second argument is whether the rows are sparse.
        records: the form of rows by name; whether every row has a label.
    """

    json: Callable[[bytes, bool], Table]
    records: records.Form[Any]


class Sent(NamedTuple):
    """A request that carries a table, as plain values.

    Attributes:
        body: the bytes.
        kind: their media type.
        query: the query parameters; those of a table name the columns of CSV that are no features.
        query_string: the same, as sent.
        key: the Idempotency-Key, or None.
        rows_max, ids_max, bytes_max: most rows, most rows with ids, largest body.
    """

    body: bytes
    kind: str
    query: Mapping[str, str]
    query_string: bytes
    key: str | None
    rows_max: int
    ids_max: int
    bytes_max: int


def read_table(form: TableForm, sent: Sent, space: Space | None) -> Table:
    """The rows of a body.

    Args:
        form: what the route reads.
        sent: the request.
        space: the model's; None: it has none, or none that matters.

    Raises:
        WrongMedia: a form that the model's rows do not have (415).
        NotJson, NotTable: the body is not what its media type says (400).
        TooLarge: more rows than a batch may have (413).
        Invalid: no rows, columns that are not there, or lists that are not one item per row.
    """
    most, sparse = rows_most(sent, space), isinstance(space, SparseSchema)
    media.check_media_type(sent.kind, sparse)
    of = "" if most == sent.rows_max else OF_WIDTH
    if sent.kind in (media.JSON, media.NDJSON) and json_body.nested_more_than(
        sent.body, NESTED_IN_ROW * most + NESTED_BESIDE
    ):
        check_size(most + 1, most, "data" if b'"data"' in sent.body else "rows", of)
    table = _read(form, sent, most, sparse)
    check_size(table.size, most, "data" if table.place is None and not sparse else "rows", of)
    return table


def rows_most(sent: Sent, space: Space | None) -> int:
    """Most rows of a request: once it is read, a row is ``raw_width`` numbers, however few it names."""
    if space is None:
        return sent.rows_max
    width = 8 * space.raw_width if isinstance(space, SparseSchema) else space.raw_width
    return min(sent.rows_max, max(1, sent.bytes_max // width))


def _read(form: TableForm, sent: Sent, most: int, sparse: bool) -> Table:
    if sent.kind == media.CSV:
        return read_csv(sent.body, sent.query, form.records.labelled, most)
    misplaced = [name for name in TABLE_QUERIES if name in sent.query]
    if misplaced:
        raise Invalid.of(misplaced[0], f"is a query parameter of {media.CSV}, which this body is not", [])
    if sent.kind == media.NPY:
        return _npy(sent.body, form.records.labelled)
    if sent.kind == media.SVMLIGHT:
        return _svmlight(sent.body, form.records.labelled, most)
    if sent.kind == media.NDJSON:
        return records.lines(form.records, sent.body, sparse, most)
    table = form.json(sent.body, sparse)
    _check_counts(table)
    return table


def names_given(ask: msgspec.Struct) -> int:
    """How many fields of a request are given: with a value other than null."""
    return sum(getattr(ask, name) is not None for name in ask.__struct_fields__)


def check_size(rows: int, most: int, field: str = "data", of: str = "") -> None:
    """Refuse an empty batch, and one over the bound.

    Args:
        rows: how many there are.
        most: how many there may be.
        field: that holds them.
        of: which rows the bound is of.

    Raises:
        Invalid: no rows.
        TooLarge: too many rows (413).
    """
    if rows == 0:
        raise Invalid.of(field, "holds no rows", ">= 1 row")
    if rows > most:
        raise TooLarge(
            f"the batch holds more than {most} rows{of}", [Problem(field, "holds too many rows", f"<= {most} rows")]
        )


def _check_counts(table: Table) -> None:
    given = (("labels", table.labels), ("ids", table.ids), ("discounts", table.discounts), ("weights", table.weights))
    for field, values in given:
        if isinstance(values, Sequence) and not isinstance(values, str) and len(values) != table.size:
            raise Invalid.of(field, f"has {len(values)} items for {table.size} rows", f"{table.size} items")


# ------------------------------------------------------------------------------------------------ .npy


def _npy(body: bytes, labelled: bool) -> Table:
    array = _array(body)
    if array.ndim != 2 or array.shape[1] < 1 + labelled:
        if labelled:
            raise Invalid.of("body", "is not a table of features and a label", "two dimensions, the label last")
        raise Invalid.of("body", "is not a table of features", "two dimensions")
    return Table(array, len(array), labels=array[:, -1].tolist() if labelled else None)


def _array(body: bytes) -> NDArray[Any]:
    """The array of an .npy body; object arrays (which would need pickle) are refused.

    numpy.load would allocate whatever size the header claims; here the claim is compared with the body first.
    """
    stream = io.BytesIO(body)
    try:
        read_header = _NPY_HEADERS[npy_format.read_magic(stream)]
        shape, by_columns, kind = read_header(stream)
    except Exception as error:  # noqa: BLE001 - the reader raises whatever a broken header makes it trip over
        raise NotTable(f"the body is not an .npy array: {type(error).__name__}") from None
    if kind.kind not in "fiu":
        raise Invalid.of("body", f"has type {kind.name}", "float64")
    if not all(type(length) is int and length >= 0 for length in shape):
        raise NotTable("the body is not an .npy array: its header holds a length that is none")
    size = math.prod(shape)
    if size * kind.itemsize != len(body) - stream.tell():
        raise NotTable("the body is not as long as its .npy header says")
    try:
        return np.frombuffer(body, kind, size, stream.tell()).reshape(shape, order="F" if by_columns else "C")
    except (ValueError, OverflowError):  # an empty array whose other length is beyond 64 bits
        raise NotTable("the body is not an .npy array: no array has the shape in its header") from None


_NPY_HEADERS: dict[Any, Any] = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}


# ------------------------------------------------------------------------------------------------ SVMlight


def _svmlight(body: bytes, labelled: bool, most: int) -> Table:
    """Rows without features of their own; ids, discounts and weights have no place in this form."""
    lines = list(islice(read_lines(text_of(body)), most + 1))
    if not labelled:
        return Table(lines, len(lines), texts=True)
    place: FieldPath = lambda row: lines[row].place(-1)  # noqa: E731
    bare = list(islice((place(row) for row, line in enumerate(lines) if line.label is None), PROBLEMS_MAX))
    if bare:
        raise Invalid(*(Problem(field, "is no label", "label name:value ...") for field in bare))
    labels = [line.label for line in lines]
    return Table(lines, len(lines), texts=True, labels=labels, label_path=place)
