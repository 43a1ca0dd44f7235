"""The rows of a file, read once: its first ones tell the kinds of its columns, and are sent like all others."""

import csv
import io
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from service.replay import Failed, files, kinds
from service.replay.files import Row
from service.replay.wording import suggested

CATEGORIES_MAX = 10_000
"""Categories of one column, as many as the service takes."""
COLUMNS_SHOWN = 20
DELIMITERS = {";": "';'", "\t": "tab", "|": "'|'", ",": ","}
"""What may part the columns of a file, as --sep takes it in a shell."""
SAMPLE_ROWS = 1000
"""First rows, which tell what the columns hold."""
_INTEGER = re.compile("0|-?[1-9][0-9]{0,17}").fullmatch

T = TypeVar("T")


class Batch(NamedTuple):
    """Some rows as a CSV body.

    Attributes:
        body: header and rows, UTF-8.
        columns: the header.
        cells: of each row.
        lines: for each row, the line of the file on which it ends.
        unit: what these are: "line" or "row".
        first: number of the first row, from 1.
        read: the part of the file that has been read, 0 to 1; None where nobody knows.
    """

    body: bytes
    columns: Sequence[str]
    cells: Sequence[Sequence[str]]
    lines: Sequence[int]
    unit: str
    first: int
    read: float | None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.lines)

    def head(self, rows: int) -> "Batch":
        """A batch of the first of these rows."""
        cells = self.cells[:rows]
        return self._replace(body=_csv(self.columns, cells), cells=cells, lines=self.lines[:rows])


class Source:
    """A file with a header and rows.

    Args:
        path: the file; ``-`` is standard input.
        drop: columns that are left out.
        limit: rows after which it ends, or None.
        delimiter: between cells of CSV.
        encoding: of CSV.

    Attributes:
        columns: names of those that are not left out.
        unit: what its rows are counted by: "line" or "row".
        skipped: rows that were left out, having no label.

    Raises:
        Failed: it cannot be read, or has no such columns.
    """

    def __init__(
        self,
        path: Path,
        drop: Sequence[str] = (),
        limit: int | None = None,
        delimiter: str = ",",
        encoding: str = "utf-8-sig",
    ) -> None:
        self._path, self._limit, self._form = path, limit, (delimiter, encoding)
        self._name = "standard input" if path == files.STANDARD_INPUT else path.name
        self._table = files.opened(path, *self._form)
        self._rows = self._table.rows()
        first = list(islice(self._rows, 1 + SAMPLE_ROWS))
        if len(first) < 2:  # said now, before a model is made for it
            raise Failed(f"{self._name} has no rows: a header line and at least one row are needed")
        self._sample, self.unit = first[1:], self._table.unit
        self.columns = first[0][0]
        self._width = len(self.columns)
        self.need(drop)
        self._kept = [at for at, name in enumerate(self.columns) if name not in drop]
        self._is_unlabelled: Callable[[Sequence[str]], bool] | None = None
        self.skipped = 0
        self.columns = [self.columns[at] for at in self._kept]

    def close(self) -> None:
        """Close the file."""
        self._rows.close()

    def need(self, names: Sequence[str]) -> None:
        """Check that each column exists exactly once and is not dropped.

        Raises:
            Failed: naming the first that is absent or there twice, and the columns of the file.
        """
        for name in names:
            if self.columns.count(name) != 1:
                shown = ", ".join(self.columns[:COLUMNS_SHOWN]) + (", ..." if len(self.columns) > COLUMNS_SHOWN else "")
                times = "several columns" if name in self.columns else "no column"
                hint = suggested(name, self.columns) or self._other_delimiter()
                raise Failed(f"{self._name} has {times} {name!r}; its columns are {shown}{hint}")

    def skip_unlabelled(self, label: str, task: str | None) -> None:
        """Leave out rows without a label: an empty cell, or where labels are numbers a word for a missing value.

        Args:
            label: the column of the labels.
            task: "classification", "regression"; None: nobody has said.

        Raises:
            Failed: none of the first rows has a label.
        """
        at = self._kept[self.columns.index(label)]
        numbers = task == "regression" or kinds.kind_of(self.first_cells(label)) == "number"
        is_gap = kinds.is_missing if numbers else _is_blank
        self._is_unlabelled = lambda row: len(row) == self._width and is_gap(row[at])
        self._sample = [*self._labelled(self._sample)]
        if not self._sample:
            raise Failed(f"{self._name}: none of its first {self.skipped} rows has a label in column {label!r}")

    def _labelled(self, rows: Iterable[Row]) -> Generator[Row]:
        """The rows that are not left out."""
        for row in rows:
            if self._is_unlabelled is not None and self._is_unlabelled(row[0]):
                self.skipped += 1
            else:
                yield row

    def _other_delimiter(self) -> str:
        """The flag for a file whose header is one column, with what parts columns elsewhere in its name."""
        within = [char for char in DELIMITERS if len(self.columns) == 1 and char in self.columns[0]]
        return f"\n  that is one column: --sep {DELIMITERS[within[0]]} reads several" if within else ""

    def kinds(self) -> dict[str, str]:
        """The kind of each column, by the first rows: number, boolean, time or string."""
        rows = [cells for cells, _ in self._sample if len(cells) == self._width]
        places = zip(self.columns, self._kept, strict=True)
        return {name: kinds.kind_of([cells[at] for cells in rows]) for name, at in places}

    def first_cells(self, name: str) -> list[str]:
        """The cells of one column in the first rows."""
        at = self._kept[self.columns.index(name)]
        return [cells[at] for cells, _ in self._sample if len(cells) == self._width]

    def begins_with_numbers(self, names: Sequence[str]) -> bool:
        """Whether the first row has numbers in some columns, so that it can say that they hold numbers."""
        first = self._sample[0][0]
        if len(first) != self._width:  # said when it is sent
            return True
        cells = {name: first[at] for name, at in zip(self.columns, self._kept, strict=True)}
        return all(kinds.is_number(cells[name]) for name in names)

    def batches(self, size: int) -> Generator[Batch]:
        """The rows, ``size`` at a time, read on demand.

        Raises:
            Failed: a row of another length, or the file turns out to be damaged.
        """
        first = 1
        with closing(self.rows()) as rows:
            while some := list(islice(rows, size)):
                cells, lines = [cells for cells, _ in some], [line for _, line in some]
                yield Batch(_csv(self.columns, cells), self.columns, cells, lines, self.unit, first, self.read)
                first += len(some)

    @property
    def read(self) -> float | None:
        """The part of the file that has been read, 0 to 1; None where nobody knows."""
        return self._table.read

    def categories(self, names: Sequence[str]) -> dict[str, list[str | int]]:
        """The distinct cells of some columns, integers as such; reads the whole file, beside what is read of it.

        Raises:
            Failed: more of them than a feature can have, or it cannot be read twice.
        """
        self.need(names)
        if not self._table.again:
            raise Failed(f"{self._name} can be read only once, and --categorical reads all of it first: leave it out")
        found: dict[str, set[str]] = {name: set() for name in names}
        places = [(self._kept[self.columns.index(name)], name) for name in names]
        with closing(files.opened(self._path, *self._form).rows()) as rows:
            next(rows)
            for cells, line in islice(rows, self._limit):
                self._check(cells, line)
                for at, name in places:
                    found[name].add(cells[at])
                    if len(found[name]) > CATEGORIES_MAX:
                        raise Failed(f"column {name!r} has more than {CATEGORIES_MAX} categories")
        return {name: _sorted(cells) for name, cells in found.items()}

    def rows(self) -> Generator[Row]:
        """The kept cells of each row, without the header; once.

        Raises:
            Failed: a row of another length, or the file turns out to be damaged.
        """
        whole = len(self._kept) == self._width
        with closing(self):
            for cells, line in islice(self._all(), self._limit):
                self._check(cells, line)
                yield cells if whole else [cells[at] for at in self._kept], line

    def _all(self) -> Generator[Row]:
        sample, self._sample = self._sample, []
        yield from sample
        yield from self._labelled(self._rows)

    def _check(self, cells: Sequence[str], line: int) -> None:
        if len(cells) != self._width:
            raise Failed(f"{self._name}, {self.unit} {line}: {len(cells)} cells; the header has {self._width}")


def _is_blank(cell: str) -> bool:
    return not cell.strip()


def _csv(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> bytes:
    body = io.StringIO(newline="")
    csv.writer(body).writerows([columns, *cells])
    return body.getvalue().encode()


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
