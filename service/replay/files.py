"""Files as rows of texts: CSV, plain or gzip, from a path or standard input; Parquet.

Rows come one after the other, and no more of them are held than one read brings. Cells of CSV are not interpreted here;
those of Parquet become the texts that CSV would have.
"""

import csv
import gzip
import io
import os
import sys
import zlib
from collections.abc import Generator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from service.replay import Failed

GZIP, PARQUET = b"\x1f\x8b", b"PAR1"
STANDARD_INPUT = Path("-")
ROWS_AT_ONCE = 1000
"""Of Parquet."""
_UNREADABLE = (OSError, EOFError, zlib.error, UnicodeError, csv.Error)

Row = tuple[list[str], int]
"""The cells, and the line of the file on which they end; of Parquet the number of the row, from 1."""


class Table(Protocol):
    """A file that has rows."""

    again: bool
    """Whether it can be read from the beginning again."""
    unit: str
    """What rows are counted by."""

    def rows(self) -> Generator[Row]:
        """The header, then every row.

        Raises:
            Failed: it cannot be read.
        """

    @property
    def read(self) -> float | None:
        """The part that has been read, 0 to 1; None where nobody knows."""


def opened(path: Path, delimiter: str, encoding: str) -> Table:
    """A file, or standard input for ``-``.

    Raises:
        Failed: it is Parquet, and pyarrow is not installed.
    """
    if path != STANDARD_INPUT and path.is_file() and _begins_with(path, PARQUET):
        return ParquetTable(path)
    return CsvTable(path, delimiter, encoding)


def _begins_with(path: Path, magic: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> Failed:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    name = "standard input" if path == STANDARD_INPUT else path
    return Failed(f"{name} cannot be read: {reason}")


class CsvTable:
    """CSV with a header line, plain or gzip.

    Args:
        path: the file; ``-`` is standard input.
        delimiter: between cells.
        encoding: of the text.
    """

    unit = "line"

    def __init__(self, path: Path, delimiter: str, encoding: str) -> None:
        self._path, self._delimiter, self._encoding = path, delimiter, encoding
        self._file: BinaryIO | None = None
        self._size = 0
        self.again = path.is_file()

    def rows(self) -> Generator[Row]:
        """Header and rows, without blank lines."""
        try:
            with self._opened() as self._file:
                self._size = os.fstat(self._file.fileno()).st_size if self.again else 0
                packed = self._file.peek(2)[:2] == GZIP  # type: ignore[attr-defined]  # a BufferedReader
                stream = gzip.GzipFile(fileobj=self._file) if packed else self._file
                text = io.TextIOWrapper(cast("Any", stream), encoding=self._encoding, newline="")
                try:
                    reader = csv.reader(text, strict=True, delimiter=self._delimiter)
                    for cells in reader:
                        if cells:
                            yield cells, reader.line_num
                finally:
                    text.detach()  # standard input stays open
        except _UNREADABLE as error:
            raise _unreadable(self._path, error) from error

    def _opened(self) -> AbstractContextManager[BinaryIO]:
        if self._path == STANDARD_INPUT:
            return nullcontext(sys.stdin.buffer)
        return cast("AbstractContextManager[BinaryIO]", self._path.open("rb"))

    @property
    def read(self) -> float | None:
        """The part of the file that has been read; None of what has no length."""
        if not self._size:
            return None
        return 1.0 if self._file is None or self._file.closed else self._file.tell() / self._size


class ParquetTable:
    """A Parquet file.

    Args:
        path: the file.

    Raises:
        Failed: pyarrow is not installed, or this is no such file.
    """

    unit, again = "row", True

    def __init__(self, path: Path) -> None:
        try:
            from pyarrow import parquet  # noqa: PLC0415  an extra
        except ImportError:
            extra = "pip install '.[parquet]' in a checkout"
            raise Failed(f"{path} is a Parquet file, which needs pyarrow: {extra}") from None
        self._path, self._done = path, 0
        try:
            self._file = parquet.ParquetFile(path)
        except (OSError, ValueError) as error:
            raise Failed(f"{path} cannot be read: {error}") from error

    def rows(self) -> Generator[Row]:
        """The names of the columns, then the rows, some at a time."""
        yield [*self._file.schema_arrow.names], 0
        self._done = 0
        try:
            for batch in self._file.iter_batches(ROWS_AT_ONCE, use_threads=False):
                columns = [_texts(column) for column in batch.columns]
                for cells in zip(*columns, strict=True):
                    self._done += 1
                    yield [*cells], self._done
        except (OSError, ValueError) as error:
            raise Failed(f"{self._path} cannot be read: {error}") from error

    @property
    def read(self) -> float | None:
        """The part of the rows that have been read."""
        return self._done / max(1, int(self._file.metadata.num_rows))


def _texts(column: Any) -> list[str]:
    """A column of Parquet as the texts of CSV: null as an empty cell, times as RFC 3339, lists and the like as Python
    writes them.
    """
    import pyarrow as pa  # noqa: PLC0415  an extra

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return [_text(value) for value in column.to_pylist()]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
