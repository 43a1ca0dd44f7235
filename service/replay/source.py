"""The file: opened as text, cut into batches, one of them made while the last one is learned.

Only the cells' places are looked at here: what a cell means is for the service to say.
"""

import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, TypeVar

from service.replay.failure import Failed

GZIP = b"\x1f\x8b"
CATEGORIES_MAX = 10_000
"""Categories of one column, as many as the service takes."""
_WHOLE = re.compile("0|-?[1-9][0-9]{0,17}").fullmatch
_UNREADABLE = (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error)

T = TypeVar("T")


class _Open(NamedTuple):
    """A file that is being read: its rows, the line they have come to, the part of the file that is (0 to 1)."""

    rows: Iterator[list[str]]
    line: Callable[[], int]
    read: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Batch:
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
        with self._opened() as file:
            first = list(islice(file.rows, 2))
        if len(first) < 2:  # said now, before a model is made for it
            raise Failed(f"{path.name} has no rows: a header line and at least one row are needed")
        self._header = first[0]
        self.need(drop)
        self._kept = [at for at, name in enumerate(self._header) if name not in drop]
        self.columns = [self._header[at] for at in self._kept]

    def need(self, names: Sequence[str]) -> None:
        """Make sure that there are such columns.

        Raises:
            Failed: naming the one that is not there (or there twice), and some that are.
        """
        for name in names:
            if self._header.count(name) != 1:
                shown = ", ".join(self._header[:20]) + (", ..." if len(self._header) > 20 else "")
                times = "no column" if name not in self._header else "several columns"
                raise Failed(f"{self._path.name} has {times} {name!r}; its columns are {shown}")

    def batches(self, size: int) -> Generator[Batch]:
        """The rows, so many at a time, read as they are asked for.

        Raises:
            Failed: a row of another length, or the file turns out to be damaged.
        """
        with self._opened() as file:
            rows, first = self._rows(file), 1
            while some := list(islice(rows, size)):
                body = io.StringIO(newline="")
                writer = csv.writer(body)
                writer.writerow(self.columns)
                writer.writerows(row for _, row in some)
                yield Batch(body.getvalue().encode(), [line for line, _ in some], first, file.read())
                first += len(some)

    def categories(self, names: Sequence[str]) -> dict[str, list[str | int]]:
        """The distinct cells of some columns, integers as such; reads the whole file.

        Raises:
            Failed: more of them than a feature can have.
        """
        self.need(names)
        found: dict[str, set[str]] = {name: set() for name in names}
        with self._opened() as file:
            places = [(self.columns.index(name), found[name]) for name in names]
            for _, row in self._rows(file):
                for at, cells in places:
                    cells.add(row[at])
                    if len(cells) > CATEGORIES_MAX:
                        raise Failed(f"column {self.columns[at]!r} has more than {CATEGORIES_MAX} categories")
        return {name: _sorted(cells) for name, cells in found.items()}

    def _rows(self, file: _Open) -> Iterator[tuple[int, Sequence[str]]]:
        """The kept cells of each row with the line on which it ends, the header passed over."""
        width, whole = len(self._header), len(self._kept) == len(self._header)
        pick: Callable[[list[str]], Sequence[str]] = itemgetter(*self._kept) if len(self._kept) > 1 else self._pick
        next(file.rows)
        for row in islice(file.rows, self._limit):
            if len(row) != width:
                raise Failed(f"{self._path.name}, line {file.line()}: {len(row)} cells; the header has {width}")
            yield file.line(), row if whole else pick(row)

    def _pick(self, row: list[str]) -> list[str]:
        return [row[at] for at in self._kept]

    @contextmanager
    def _opened(self) -> Generator[_Open]:
        """The file from its beginning; blank lines are no rows."""
        try:
            with self._path.open("rb") as raw:
                size = os.fstat(raw.fileno()).st_size
                stream = gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == GZIP else raw
                text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
                reader = csv.reader(text, strict=True)
                rows = (row for row in reader if row)
                yield _Open(rows, lambda: reader.line_num, lambda: min(1.0, raw.tell() / size) if size else 1.0)
        except _UNREADABLE as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise Failed(f"{self._path} cannot be read: {reason}") from error


def _sorted(cells: set[str]) -> list[str | int]:
    """Categories in an order that depends on them alone; an empty cell is a missing one."""
    texts = sorted(cells - {""})
    return [*sorted(int(cell) for cell in texts if _WHOLE(cell)), *(cell for cell in texts if not _WHOLE(cell))]


def ahead(items: Generator[T]) -> Generator[T]:
    """The same items, the next one being made while the last one is used: one, not more."""
    with closing(items), ThreadPoolExecutor(1, "onepass-ahead") as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item
