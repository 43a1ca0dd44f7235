"""Parquet and Arrow IPC, read by pyarrow (the extra ``onepass[arrow]``) in the process that reads bodies.

A few bytes of either can stand for billions of cells. So the numbers of rows and columns are looked at before anything
is unpacked, rows are unpacked some thousand at a time, texts stay in dictionaries, and meanwhile the process may take
only so much more memory. What a file says of itself is checked before it is believed.
"""

import math
import resource
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.features import COLUMNS_MAX
from core.problems import PROBLEMS_MAX, Invalid, Problem
from service.api import media
from service.api.csv_tables import BESIDE_QUERIES, HEADER_SHOWN, names_in, no_column
from service.errors import NotTable, TooLarge
from service.runtime.rows.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE = 4096
BYTES_PER_CELL = 4
"""A batch has at most a quarter as many cells as a body may have bytes: eight million of 32 MiB."""
MEMORY_BASE, MEMORY_FACTOR = 2**28, 24
"""Bytes that reading may take, beside so many for each that a body may have: about what JSON takes."""
COLUMN_TYPES = "numbers, booleans, strings, dates and timestamps"
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_S = 86_400.0


def read_arrow(body: bytes, kind: str, query: Mapping[str, str], labelled: bool, most: int, bytes_max: int) -> Table:
    """The rows of a Parquet or Arrow IPC body.

    Times become seconds since 1970 (those without a zone are taken as UTC), null and NaN missing values.

    Args:
        body: the bytes.
        kind: the media type.
        query: the query parameters, which name the columns of labels, ids and discounts, and others to pass over.
        labelled: whether every row has a label.
        most: rows.
        bytes_max: largest body; bounds cells and memory.

    Raises:
        NotTable: the body is not what its media type says, or damaged.
        TooLarge: more rows, cells or memory than a batch may take.
        Invalid: columns that are not there, or of a type that no feature has.
    """
    import pyarrow as pa  # noqa: PLC0415  an extra, and loaded by the process that reads bodies alone

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    with _memory_for(bytes_max):
        try:
            return _read(pa.py_buffer(body), kind, query, labelled, most, bytes_max // BYTES_PER_CELL)
        except MemoryError:
            raise TooLarge(
                "the body unpacks to more memory than reading it may take (ONEPASS_BODY_LIMIT_MB)",
                [Problem("body", "is too large", "fewer or shorter rows")],
            ) from None
        except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
            raise NotTable(f"the body is not {kind} that can be read: {type(error).__name__}") from None


@contextmanager
def _memory_for(bytes_max: int) -> Iterator[None]:
    """Bound what the process that reads bodies may take; the service itself, where a thread reads, is not bounded."""
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        yield
        return
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = pages * resource.getpagesize() + MEMORY_BASE + MEMORY_FACTOR * bytes_max
    own = wanted if soft == resource.RLIM_INFINITY else min(soft, wanted)
    resource.setrlimit(resource.RLIMIT_DATA, (own, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _read(buffer: "pa.Buffer", kind: str, query: Mapping[str, str], labelled: bool, most: int, cells_max: int) -> Table:
    file = (_Parquet if kind == media.PARQUET else _Ipc)(buffer, kind)
    if file.rows is not None:
        _check_size(file.rows, len(file.schema.names), most, cells_max)
    names = _kept(file.schema.names, query, labelled)
    _check_types(file.schema, names)
    columns: list[list[Any]] = [[] for _ in names]
    rows = 0
    for batch in file.batches(names):
        rows += batch.num_rows
        _check_size(rows, len(names), most, cells_max)
        batch.validate(full=True)
        for column, name in zip(columns, names, strict=True):
            column.extend(_values(batch.column(name)))
    return _table(rows, names, columns, query)


class _Parquet:
    """A Parquet file."""

    def __init__(self, buffer: "pa.Buffer", _: str) -> None:
        from pyarrow import parquet  # noqa: PLC0415  see read_arrow

        self._open = partial(parquet.ParquetFile, buffer)
        file = self._open()
        self.schema: pa.Schema = file.schema_arrow
        self.rows: int | None = file.metadata.num_rows

    def batches(self, names: list[str]) -> "Iterator[pa.RecordBatch]":
        """Some columns, some thousand rows at a time; texts as they are kept, each of them once."""
        texts = [name for name in names if _is_text(self.schema.field(name).type)]
        found: Iterator[pa.RecordBatch] = self._open(read_dictionary=texts).iter_batches(
            ROWS_AT_ONCE, columns=names, use_threads=False
        )
        return found


class _Ipc:
    """A stream or a file of Arrow IPC; how many rows it has is not said before they come."""

    rows = None

    def __init__(self, buffer: "pa.Buffer", kind: str) -> None:
        from pyarrow import ipc  # noqa: PLC0415  see read_arrow

        self._options, self._is_stream = ipc.IpcReadOptions, kind == media.ARROW_STREAM
        self._open = partial(ipc.open_stream if self._is_stream else ipc.open_file, buffer)
        self.schema: pa.Schema = self._open().schema

    def batches(self, names: list[str]) -> "Iterator[pa.RecordBatch]":
        """Some columns, in the batches in which they were written."""
        fields = [self.schema.get_field_index(name) for name in names]
        reader = self._open(options=self._options(use_threads=False, included_fields=fields))
        if self._is_stream:
            return iter(reader)
        return (reader.get_batch(at) for at in range(reader.num_record_batches))


def _check_size(rows: int, columns: int, most: int, cells_max: int) -> None:
    """Refuse a table by what it says of its size; of no rows more is said later."""
    if rows > most:
        raise TooLarge(f"the batch holds more than {most} rows", [Problem("rows", "holds too many rows", f"<= {most}")])
    if columns > COLUMNS_MAX:
        raise TooLarge(f"the batch has more than {COLUMNS_MAX} columns", [Problem("columns", "are too many")])
    if rows * columns > cells_max:
        raise TooLarge(
            f"the batch holds more than {cells_max} cells (a quarter of the bytes of ONEPASS_BODY_LIMIT_MB)",
            [Problem("rows", "holds too many cells", f"<= {cells_max // max(1, columns)} rows of so many columns")],
        )


# ------------------------------------------------------------------------------------------------ columns


def _kept(names: Sequence[str], query: Mapping[str, str], labelled: bool) -> list[str]:
    """The columns that are not passed over.

    Raises:
        Invalid: a query parameter names no column, or several; or the label is not named.
    """
    listed = [*names[:HEADER_SHOWN]]
    if labelled and "label" not in query:
        raise Invalid.of("label", "is required as a query parameter: the column that holds the label", listed)
    dropped = names_in(query["drop"]) if "drop" in query else frozenset()
    taken: list[str] = []
    for name in BESIDE_QUERIES:
        if name in query and (names.count(query[name]) != 1 or query[name] in taken):
            raise Invalid(no_column(name, query[name], [each for each in names if each not in taken]))
        taken += [query[name]] if name in query else []
    if "drop" in query and not (dropped and dropped <= {*names} - {*taken}):
        problem = "names a column that is not there, or that is the label, the id or the discount"
        raise Invalid.of("drop", problem, listed)
    kept = [name for name in names if name not in dropped]
    twice = sorted(name for name, times in Counter(kept).items() if times > 1)
    if twice:
        raise Invalid(*(Problem(f"column {name}", "is there twice") for name in twice[:PROBLEMS_MAX]))
    return kept


def _check_types(schema: "pa.Schema", names: Sequence[str]) -> None:
    strange = [name for name in names if not _is_read(schema.field(name).type)]
    if strange:
        problem = "is of a type that is not read; ?drop= passes over columns"
        raise Invalid(*(Problem(f"column {name}", problem, COLUMN_TYPES) for name in strange[:PROBLEMS_MAX]))


def _is_text(kind: "pa.DataType") -> bool:
    from pyarrow import types  # noqa: PLC0415  see read_arrow

    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_time(kind: "pa.DataType") -> bool:
    from pyarrow import types  # noqa: PLC0415  see read_arrow

    return bool(types.is_timestamp(kind) or types.is_date(kind))


def _is_read(kind: "pa.DataType") -> bool:
    from pyarrow import types  # noqa: PLC0415  see read_arrow

    if types.is_dictionary(kind):
        return _is_read(kind.value_type) and not types.is_dictionary(kind.value_type)
    numbers = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind)
    return numbers or _is_text(kind) or _is_time(kind) or types.is_null(kind)


def _values(column: "pa.Array") -> list[Any]:
    """A column as JSON would have it: null and NaN as None, times as seconds."""
    import pyarrow as pa  # noqa: PLC0415  see read_arrow

    kind = column.type
    if pa.types.is_dictionary(kind):
        known = [*_values(column.dictionary), None]
        return [known[code] for code in column.indices.cast(pa.int64()).fill_null(len(known) - 1).to_pylist()]
    if _is_time(kind):
        return _seconds(column)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values: list[Any] = column.cast(pa.float64()).to_numpy(zero_copy_only=False).tolist()
        return [None if math.isnan(value) else value for value in values]
    whole = column.null_count == 0 and (pa.types.is_integer(kind) or pa.types.is_boolean(kind))
    found: list[Any] = column.to_numpy(zero_copy_only=False).tolist() if whole else column.to_pylist()
    return found


def _seconds(column: "pa.Array") -> list[Any]:
    import pyarrow as pa  # noqa: PLC0415  see read_arrow

    if pa.types.is_date32(column.type):
        return [None if value is None else value * _DAY_S for value in column.cast(pa.int32()).to_pylist()]
    per_second = _PER_SECOND["ms" if pa.types.is_date64(column.type) else column.type.unit]
    return [None if value is None else value / per_second for value in column.cast(pa.int64()).to_pylist()]


def _table(rows: int, names: list[str], columns: list[list[Any]], query: Mapping[str, str]) -> Table:
    beside: dict[str, Any] = {}
    for name in BESIDE_QUERIES:
        beside[f"{name}_path"] = _path(query.get(name, ""))
        if name in query:
            at = names.index(query[name])
            names.pop(at)
            beside[f"{name}s"] = columns.pop(at)
    if "ids" in beside:
        beside["ids"] = _ids(beside["ids"], query["id"])
    data = [*zip(*columns, strict=True)] if columns else [()] * rows
    return Table(data, rows, names, place=_place, **beside)


def _ids(ids: Sequence[Any], column: str) -> list[str]:
    """Ids as texts."""
    if not {str, int}.issuperset(map(type, ids)):
        row = next(at for at, one in enumerate(ids) if type(one) not in (str, int))
        raise Invalid.of(_path(column)(row), "is not an id", "a string or an integer in every row")
    return [*map(str, ids)]


def _path(column: str) -> Callable[[int], str]:
    return lambda row: f"row {row + 1}, column {column}"


def _place(row: int, member: str) -> str:
    """How errors name a cell, as in CSV; the whole of the columns where no cell is meant."""
    return "columns" if member in ("", "features") else f"row {row + 1}, column {member.removeprefix('features.')}"
