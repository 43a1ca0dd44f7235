"""The file: CSV with a header line, plain or gzip, read in batches that keep the text of its cells.

Cells are not interpreted here; the service does that.
"""

import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from service.replay import Failed

GZIP = b"\x1f\x8b"
CATEGORIES_MAX = 10_000
"""Categories of one column, as many as the service takes."""
COLUMNS_SHOWN = 20
_INTEGER = re.compile("0|-?[1-9][0-9]{0,17}").fullmatch
_UNREADABLE = (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error)

T = TypeVar("T")
Row = tuple[list[str], int]
"""The cells, and the line of the file on which they end."""


class Batch(NamedTuple):
    """Some rows as a CSV body.

    Attributes:
        body: header and rows, UTF-8.
        lines: for each row, the line of the file on which it ends.
        first: number of the first row, from 1.
        read: the part of the file that has been read, 0 to 1.
    """

    body: bytes
    lines: Sequence[int]
    first: int
    read: float

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.lines)


class Source:
    """A CSV file with a header line, plain or gzip.

    Args:
        path: the file.
        drop: columns that are left out.
        limit: rows after which it ends, or None.

    Raises:
        Failed: it cannot be read, or has no such columns.
    """

    def __init__(self, path: Path, drop: Sequence[str] = (), limit: int | None = None) -> None:
        self._path, self._limit = path, limit
        if path.exists() and not path.is_file():
            raise Failed(f"{path} is not a regular file; it is opened more than once")
        with closing(self._read()) as rows:
            first = list(islice(rows, 2))
        if len(first) < 2:  # said now, before a model is made for it
            raise Failed(f"{path.name} has no rows: a header line and at least one row are needed")
        self.columns = first[0][0]
        self._width = len(self.columns)
        self.need(drop)
        self._kept = [at for at, name in enumerate(self.columns) if name not in drop]
        self.columns = [self.columns[at] for at in self._kept]

    def need(self, names: Sequence[str]) -> None:
        """Check that each column exists exactly once and is not dropped.

        Raises:
            Failed: naming the first that is absent or there twice, and the columns of the file.
        """
        for name in names:
            if self.columns.count(name) != 1:
                shown = ", ".join(self.columns[:COLUMNS_SHOWN]) + (", ..." if len(self.columns) > COLUMNS_SHOWN else "")
                times = "several columns" if name in self.columns else "no column"
                raise Failed(f"{self._path.name} has {times} {name!r}; its columns are {shown}")

    def batches(self, size: int) -> Generator[Batch]:
        """The rows, ``size`` at a time, read on demand.

        Raises:
            Failed: a row of another length, or the file turns out to be damaged.
        """
        first = 1
        with closing(self.rows()) as rows:
            while some := list(islice(rows, size)):
                body = io.StringIO(newline="")
                csv.writer(body).writerows([self.columns, *(cells for cells, _ in some)])
                yield Batch(body.getvalue().encode(), [line for _, line in some], first, self.read)
                first += len(some)

    @property
    def read(self) -> float:
        """The part of the file that has been read, 0 to 1."""
        return 1.0 if self._file.closed else self._file.tell() / os.fstat(self._file.fileno()).st_size

    def categories(self, names: Sequence[str]) -> dict[str, list[str | int]]:
        """The distinct cells of some columns, integers as such; reads the whole file.

        Raises:
            Failed: more of them than a feature can have.
        """
        self.need(names)
        found: dict[str, set[str]] = {name: set() for name in names}
        places = [(self.columns.index(name), name) for name in names]
        for cells, _ in self.rows():
            for at, name in places:
                found[name].add(cells[at])
                if len(found[name]) > CATEGORIES_MAX:
                    raise Failed(f"column {name!r} has more than {CATEGORIES_MAX} categories")
        return {name: _sorted(cells) for name, cells in found.items()}

    def rows(self) -> Generator[Row]:
        """The kept cells of each row, without the header.

        Raises:
            Failed: a row of another length, or the file turns out to be damaged.
        """
        whole = len(self._kept) == self._width
        with closing(self._read()) as rows:
            next(rows)
            for cells, line in islice(rows, self._limit):
                if len(cells) != self._width:
                    raise Failed(f"{self._path.name}, line {line}: {len(cells)} cells; the header has {self._width}")
                yield cells if whole else [cells[at] for at in self._kept], line

    def _read(self) -> Generator[Row]:
        """Header and rows from the beginning, without blank lines."""
        try:
            with self._path.open("rb") as self._file:
                stream = gzip.GzipFile(fileobj=self._file) if self._file.peek(2)[:2] == GZIP else self._file
                reader = csv.reader(io.TextIOWrapper(stream, encoding="utf-8-sig", newline=""), strict=True)
                for cells in reader:
                    if cells:
                        yield cells, reader.line_num
        except _UNREADABLE as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise Failed(f"{self._path} cannot be read: {reason}") from error


def _sorted(cells: set[str]) -> list[str | int]:
    """Categories in an order that depends on them alone, without the empty cell, which is a missing value."""
    texts = sorted(cells - {""})
    return [*sorted(int(cell) for cell in texts if _INTEGER(cell)), *(cell for cell in texts if not _INTEGER(cell))]


def ahead(items: Generator[T]) -> Generator[T]:
    """The same items; while one is used, one more is produced in another thread."""
    with closing(items), ThreadPoolExecutor(1, "onepass-ahead") as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item
