"""A file as rows of texts: CSV, plain or gzip, from a path or standard input; Parquet.

Delimiter, encoding and how each column is written are told by the beginning of the file; the service gets numbers with
a decimal point and times as RFC 3339, whatever the file has. No more rows are held than one batch and the first ones.
"""

import codecs
import csv
import gzip
import io
import re
import sys
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, NamedTuple, cast

from service.client.display import shortened, spelt, suggested
from service.client.failures import Failed
from service.client.replay.columns import AS_FOUND, NAMES_SHOWN, Written, columns_of

SAMPLE_ROWS, SAMPLE_BYTES = 1000, 2**20
"""The first rows tell what columns hold, the first bytes delimiter and encoding."""
STDIN = Path("-")
GZIP, PARQUET = b"\x1f\x8b", b"PAR1"
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
CELL_SHOWN = 40
_PLACE = re.compile(r"row (\d+)(?:, column (.*))?", re.DOTALL)

Row = tuple[dict[str, Any], int]
"""The cells by their columns, and the line of the file on which they end; of Parquet the number of the row."""


class Batch(NamedTuple):
    """Some rows."""

    rows: Sequence[Mapping[str, str]]  # cells as the file has them
    lines: Sequence[str]  # where each row ends, such as "line 17"
    first: int  # number of the first row, from 1
    body: bytes  # header and rows as the service reads them, CSV in UTF-8

    def located(self, errors: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Problems of the body by lines and cells of the file."""
        return [{**error, "field": _PLACE.sub(self._place, str(error.get("field")), count=1)} for error in errors]

    def _place(self, found: re.Match[str]) -> str:
        number, column = int(found[1]) - 1, found[2]
        if not 0 <= number < len(self.lines):
            return found[0]
        if column not in self.rows[number]:
            return self.lines[number]
        return f"column {column}, {self.rows[number][column][:CELL_SHOWN]!r} in {self.lines[number]}"


class Table:
    """A file with a header and rows.

    Args:
        path: the file; ``-`` is standard input.
        apart: what columns are used for that are not features: "label", "id".
        drop: columns that are left out.
        written: how it is written. Where it says nothing, the header tells the separator, and the encoding is UTF-8,
            UTF-16 with its mark, or else Windows-1252.

    ``form`` says how it is read; ``skipped`` counts rows without a label. ``Failed`` where it cannot be read, or has no
    such columns.
    """

    def __init__(
        self, path: Path, apart: Mapping[str, str], drop: Sequence[str] = (), written: Written = AS_FOUND
    ) -> None:
        self.name, self.form, self.skipped = "standard input" if path == STDIN else path.name, "Parquet", 0
        self._unit, self._label = "row", ""
        self._written = written
        self._rows = self._readable(path)
        self._sample = [*islice(self._rows, SAMPLE_ROWS)]
        if not self._sample:
            raise Failed(f"{self.name} has no rows: a header line and at least one row are needed")
        self._need(self._header, drop)
        names = [name for name in self._header if name not in drop]
        self._need(names, [*apart])
        whole = [cells for cells, _ in self._sample if self._is_whole(cells)]
        self.columns = columns_of({name: [cells[name] for cells in whole] for name in names}, written)
        self.features = [column for name, column in self.columns.items() if name not in apart]

    def _need(self, columns: Sequence[str], names: Sequence[str]) -> None:
        for name in names:
            if columns.count(name) != 1:
                times, shown = "several columns" if name in columns else "no column", shortened(columns, NAMES_SHOWN)
                meant = suggested(name, columns)
                raise Failed(f"{self.name} has {times} {name!r}; its columns are {', '.join(shown)}{meant}")

    def skip_unlabelled(self, label: str) -> None:
        """Leave out rows without a label; ``Failed`` where none of the first rows has one."""
        self._label = label
        if not self.columns[label].given:
            raise Failed(f"{self.name}: none of its first {len(self._sample):,} rows has a label in column {label!r}")

    def batches(self, size: int, limit: int | None = None) -> Iterator[Batch]:
        """The rows, ``size`` at a time and at most ``limit`` of them, read once, on demand; ``Failed`` at a bad one."""
        rows, first = islice(self._whole(), limit), 1
        while some := [*islice(rows, size)]:
            body = io.StringIO(newline="")
            writer = csv.DictWriter(body, [*self.columns])
            writer.writeheader()
            plain = [(name, column.notation.plain) for name, column in self.columns.items()]
            writer.writerows({name: read(cells[name]) for name, read in plain} for cells, _ in some)
            lines = [f"{self._unit} {line}" for _, line in some]
            yield Batch([cells for cells, _ in some], lines, first, body.getvalue().encode())
            first += len(some)
        self._rows.close()  # what is left of the file is not read

    def _whole(self) -> Iterator[Row]:
        for cells, line in chain(self._sample, self._rows):
            if not self._is_whole(cells):
                raise Failed(f"{self.name}, {self._unit} {line}: not {len(self._header)} cells, as the header has")
            if self._label and self.columns[self._label].notation.is_gap(cells[self._label]):
                self.skipped += 1
            else:
                yield cells, line

    def _is_whole(self, cells: Mapping[Any, Any]) -> bool:
        return None not in cells and None not in cells.values()  # csv puts None for what is missing or too much

    def _readable(self, path: Path) -> Generator[Row]:
        try:
            with cast("io.BufferedReader", sys.stdin.buffer) if path == STDIN else path.open("rb") as file:
                if path != STDIN and file.peek(len(PARQUET)).startswith(PARQUET):
                    yield from self._parquet(path)
                    return
                self._unit = "line"
                yield from self._csv(file)
        except UnicodeError as error:
            raise Failed(f"{self.name} cannot be read: {error}; --encoding names another one, e.g. latin-1") from None
        except (OSError, EOFError, ValueError, zlib.error, csv.Error, LookupError) as error:
            raise Failed(f"{self.name} cannot be read: {getattr(error, 'strerror', None) or error}") from None

    def _csv(self, file: io.BufferedReader) -> Iterator[Row]:
        packed = file.peek(len(GZIP)).startswith(GZIP)
        buffered = io.BufferedReader(gzip.GzipFile(fileobj=file) if packed else file, SAMPLE_BYTES)
        head = buffered.peek(SAMPLE_BYTES)[:SAMPLE_BYTES]
        encoding = self._written.encoding or _encoding(head)
        sep, missing = self._written.sep or _delimiter(head.decode(encoding, "ignore")), self._written.missing
        self.form = f"{DELIMITERS.get(sep, repr(sep))} between cells, {encoding.removesuffix('-sig')}"
        with io.TextIOWrapper(buffered, encoding, newline="") as text:
            reader = csv.DictReader(text, strict=True, delimiter=sep)
            self._header = [*(reader.fieldnames or ())]
            for cells in reader:
                if missing:
                    cells = {name: "" if cell in missing else cell for name, cell in cells.items()}  # noqa: PLW2901
                yield cells, reader.line_num

    def _parquet(self, path: Path) -> Iterator[Row]:
        """The rows as the texts of CSV: null as an empty cell, times as RFC 3339."""
        try:
            import pyarrow as pa  # noqa: PLC0415  an extra
            from pyarrow import parquet  # noqa: PLC0415
        except ImportError:
            raise Failed(f"{path} is a Parquet file: pip install '.[parquet]' in a checkout reads it") from None
        file, number = parquet.ParquetFile(path), count(1)
        schema = file.schema_arrow
        self._header = [*schema.names]
        stamps = [one.with_type(pa.timestamp("us", one.type.tz)) for one in schema if pa.types.is_timestamp(one.type)]
        in_us = pa.schema([*({one.name: one for one in schema} | {one.name: one for one in stamps}).values()])
        for batch in file.iter_batches(SAMPLE_ROWS, use_threads=False):
            for cells in batch.cast(in_us, safe=False).to_pylist():
                yield {name: _text(value) for name, value in cells.items()}, next(number)


def _encoding(head: bytes) -> str:
    """The encoding of a text by its beginning."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the beginning may end within a character
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"


def _delimiter(text: str) -> str:
    """What parts the names of the header; in the rows a comma may be a decimal one."""
    try:
        return csv.Sniffer().sniff(text.partition("\n")[0], "".join(DELIMITERS)).delimiter
    except csv.Error:
        return ","


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value.isoformat() if hasattr(value, "isoformat") else spelt(value)
