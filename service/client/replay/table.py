"""A file as rows of texts: CSV, plain or gzip, from a path or standard input; Parquet.

The beginning of the file shows delimiter, encoding and how each column is written; the service gets numbers with
a decimal point and times as RFC 3339, whatever the file has. Only the first rows and one batch are in memory.
"""

import codecs
import csv
import gzip
import io
import re
import shlex
import sys
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

import httpx
from typer import Argument, Option

from service.client.display import shortened, suggested
from service.client.failures import Failed
from service.client.options import matching
from service.client.replay.columns import NAMES_SHOWN, Column, columns_of, described
from service.client.session import Refused, Session

SAMPLE_ROWS, SAMPLE_BYTES = 1000, 2**20
"""How much of a file decides what columns hold (rows), and the delimiter and encoding (bytes)."""
STDIN = Path("-")
GZIP, PARQUET = b"\x1f\x8b", b"PAR1"
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
CELL_SHOWN = 40
ODD = ("is not a number", "is not a time", "is not true or false")
"""How the problem of a cell begins that may be a word for a missing value."""
CSV_TYPE = {"Content-Type": "text/csv; charset=utf-8"}
_PLACE = re.compile(r"row (\d+)(?:, column (.*))?", re.DOTALL)

Row = tuple[dict[str, Any], str]
"""Cells by column, as the file has them, and the line they end on, such as "line 17", or in Parquet "row 17"."""

separator = matching(".|tab", "one character or tab")
form_of_dates = matching(".*%.*", "a format of dates such as %d/%m/%Y")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """A file and how to read it."""

    file: Annotated[Path, Argument(metavar="FILE", help="CSV with a header, also as gzip, or Parquet; -: stdin.")]
    label: Annotated[str, Option(metavar="COLUMN", help="The column that holds the label.")]
    drop: Annotated[str, Option(metavar="A,B", help="Columns to leave out.")] = ""
    skip_unlabelled: Annotated[bool, Option("--skip-unlabelled", help="Leave out rows without a label.")] = False
    limit: Annotated[int | None, Option(min=1, help="Stop after this many rows.")] = None
    sep: Annotated[str | None, Option(callback=separator, help="Separator of cells: a character, or tab.")] = None
    encoding: Annotated[str | None, Option(help="Encoding; default: detected from the first megabyte.")] = None
    decimal: Annotated[Literal[".", ","] | None, Option(help="Decimal mark; default: found in the first rows.")] = None
    na: Annotated[str, Option(metavar="A,B", help="Words for a missing value, besides empty cells and NA.")] = ""
    date_format: Annotated[
        str | None, Option(metavar="FORMAT", callback=form_of_dates, help="Format of dates, such as %d/%m/%Y %H:%M.")
    ] = None
    served: Annotated[str | None, Option(metavar="COLUMN", help="Predictions of a model outside Onepass.")] = None
    as_json: Annotated[bool, Option("--json", help="Print the result as JSON; texts go to stderr.")] = False

    def say(self, text: str) -> None:
        """Print a text for people."""
        print(text, file=sys.stderr if self.as_json else sys.stdout, flush=True)


class Batch(NamedTuple):
    """Rows of a file, and the same as a request body."""

    rows: Sequence[Row]
    first: int  # number of the first row, from 1
    body: bytes  # header and rows as the service reads them, CSV in UTF-8

    def send(self, session: Session, path: str, params: Mapping[str, str]) -> Any:
        """Send the rows, and return the answer; ``Failed`` if the service is unreachable or refuses some, with their
        lines and cells.
        """
        try:
            return session.ask("POST", path, params=params, headers=CSV_TYPE, content=self.body)
        except Refused as refused:
            last = self.first + len(self.rows) - 1
            lines = [f"rows {self.first} to {last}: {refused.in_words(self.located(refused.errors))}"]
            if refused.status == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
                lines.append("a smaller --batch may help")
            if words := self._odd_words(refused.errors):
                lines.append(f"if a missing value is meant: --na {shlex.quote(','.join(words))}")
            if not all(cells[params["label"]].strip() for cells, _ in self.rows):
                lines.append("rows without a label: --skip-unlabelled leaves them out")
            raise Failed("\n  ".join(lines)) from None

    def _odd_words(self, errors: Sequence[Mapping[str, Any]]) -> list[str]:
        """The cells that may be words for a missing value, in order."""
        places = [_PLACE.fullmatch(str(one.get("field"))) for one in errors if str(one.get("problem")).startswith(ODD)]
        words = {self.rows[int(place[1]) - 1][0].get(place[2], "") for place in places if place}
        return sorted(word for word in words if 0 < len(word) <= CELL_SHOWN and "," not in word)

    def located(self, errors: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Problems of the body, located by lines and cells of the file."""
        return [{**error, "field": _PLACE.sub(self._place, str(error.get("field")), count=1)} for error in errors]

    def _place(self, found: re.Match[str]) -> str:
        number, column = int(found[1]) - 1, found[2]
        if not 0 <= number < len(self.rows):
            return found[0]
        cells, place = self.rows[number]
        return f"column {column}, {cells[column][:CELL_SHOWN]!r} in {place}" if column in cells else place


class Table:
    """A file with a header and rows, which is read once.

    By default the separator is that of the header, and the encoding is UTF-8, UTF-16 if it has a byte order mark, or
    else Windows-1252. ``queries``: parameters of a request that name columns other than features. ``skipped``: rows
    without a label so far. ``Failed`` if the file cannot be read, lacks such a column, or begins without any label.
    """

    def __init__(self, given: ReadOptions, row_id: str | None = None) -> None:
        self.name = "standard input" if given.file == STDIN else given.file.name
        self.form, self.skipped, self._given = "Parquet", 0, given
        self._dropped = [name for name in given.drop.split(",") if name]
        self._rows = self._readable(given.file)
        self._sample = [*islice(self._rows, SAMPLE_ROWS)]
        if not self._sample:
            raise Failed(f"{self.name} has no rows: a header line and at least one row are needed")
        uses = {"label": given.label, "id": row_id, "served": given.served}
        self.queries = {use: name for use, name in uses.items() if name is not None}
        self._need(self._header, self._dropped)
        names = [name for name in self._header if name not in self._dropped]
        if "" in names:
            raise Failed(f"{self.name}: column {self._header.index('') + 1} has no name in the header")
        self._need(names, [*self.queries.values(), *(names if len({*names}) < len(names) else ())])
        self._cells = {name: [row[name] for row, _ in self._sample] for name in names}
        self.columns = columns_of(self._cells, given.decimal, given.date_format)
        if given.skip_unlabelled and not self.columns[given.label].given:
            first = f"{len(self._sample):,}"
            raise Failed(f"{self.name}: none of its first {first} rows has a label in column {given.label!r}")

    def declare(self, features: Mapping[str, Any]) -> None:
        """Read the features by the types of a model's ``features``; those that it lacks are numbers."""
        kinds = {column.name: features.get(column.name, {}).get("type", "number") for column in self.features}
        self.columns = columns_of(self._cells, self._given.decimal, self._given.date_format, kinds)

    @property
    def features(self) -> list[Column]:
        """The columns that are features."""
        return [column for name, column in self.columns.items() if name not in self.queries.values()]

    def __str__(self) -> str:
        apart = {name: use for use, name in self.queries.items()}
        return f"{self.name}: {self.form}\n{described(self.columns, apart, self._dropped)}"

    def _need(self, columns: Sequence[str], names: Sequence[str]) -> None:
        for name in names:
            if columns.count(name) != 1:
                times, meant = ("several columns", "") if name in columns else ("no column", suggested(name, columns))
                shown = shortened([*map(repr, columns)], NAMES_SHOWN)
                raise Failed(f"{self.name} has {times} {name!r}; its columns are {', '.join(shown)}{meant}")

    def batches(self, size: int) -> Iterator[Batch]:
        """Read rows on demand, ``size`` at a time, up to the limit; ``Failed`` at a malformed row."""
        rows, first = islice(self._labelled(), self._given.limit), 1
        while some := [*islice(rows, size)]:
            yield Batch(some, first, self.written(some, self.columns.values()))
            first += len(some)
        self._rows.close()  # the rest of the file is not read

    def written(self, rows: Sequence[Row], columns: Iterable[Column]) -> bytes:
        """Columns of rows as CSV that the service reads."""
        forms = [(column.name, column.notation.plain) for column in columns]
        body = io.StringIO(newline="")
        writer = csv.writer(body)
        writer.writerow([name for name, _ in forms])
        writer.writerows([plain(cells[name]) for name, plain in forms] for cells, _ in rows)
        return body.getvalue().encode()

    def _labelled(self) -> Iterator[Row]:
        label = self._given.label
        for cells, place in chain(self._sample, self._rows):
            if self._given.skip_unlabelled and self.columns[label].notation.is_gap(cells[label]):
                self.skipped += 1
            else:
                yield cells, place

    def _readable(self, path: Path) -> Generator[Row]:
        try:
            with cast("io.BufferedReader", sys.stdin.buffer) if path == STDIN else path.open("rb") as file:
                is_parquet = file.peek(len(PARQUET)).startswith(PARQUET)
                if is_parquet and path == STDIN:
                    raise Failed("Parquet cannot be read from standard input: give a path")
                yield from self._parquet(path) if is_parquet else self._csv(file)
        except UnicodeError as error:
            raise Failed(f"{self.name} cannot be read: {error}; --encoding names another one, e.g. latin-1") from None
        except NotImplementedError as error:  # Arrow cannot write the values of a column as text, such as lists
            raise Failed(f"{self.name} cannot be read: {error}; --drop leaves a column out") from None
        except (OSError, EOFError, ValueError, zlib.error, csv.Error, LookupError) as error:
            raise Failed(f"{self.name} cannot be read: {getattr(error, 'strerror', None) or error}") from None

    def _csv(self, file: io.BufferedReader) -> Iterator[Row]:
        packed = file.peek(len(GZIP)).startswith(GZIP)
        buffered = io.BufferedReader(gzip.GzipFile(fileobj=file) if packed else file, SAMPLE_BYTES)
        head = buffered.peek(SAMPLE_BYTES)[:SAMPLE_BYTES]
        encoding = self._given.encoding or _encoding(head)
        sep = "\t" if self._given.sep == "tab" else self._given.sep or _delimiter(head.decode(encoding, "ignore"))
        missing = {word for word in self._given.na.split(",") if word}
        self.form = f"{DELIMITERS.get(sep, repr(sep))} between cells, {encoding.removesuffix('-sig')}"
        with io.TextIOWrapper(buffered, encoding, newline="") as text:
            reader = csv.DictReader(text, strict=True, delimiter=sep)
            while reader.fieldnames == []:  # a blank line before the header
                reader.fieldnames = None
            self._header = [*(reader.fieldnames or ())]
            for cells in reader:
                place = f"line {reader.line_num}"
                if None in cells or None in cells.values():  # there are too many cells, or too few
                    self._need(self._header, [self._given.label])  # or the first line is not a header
                    raise Failed(f"{self.name}, {place}: not {len(self._header)} cells, as the header has")
                yield {name: "" if cell in missing else cell for name, cell in cells.items()}, place

    def _parquet(self, path: Path) -> Iterator[Row]:
        """Read rows as the texts of CSV: null as an empty cell, times as RFC 3339."""
        try:
            import pyarrow as pa  # noqa: PLC0415  an extra
            from pyarrow import parquet  # noqa: PLC0415
        except ImportError:
            raise Failed(f"{path} is a Parquet file: pip install '.[parquet]' in a checkout reads it") from None
        file, number = parquet.ParquetFile(path), count(1)
        self._header = file.schema_arrow.names
        texts = pa.schema([(name, pa.string()) for name in self._header if name not in self._dropped])
        for batch in file.iter_batches(SAMPLE_ROWS, columns=texts.names, use_threads=False):
            for cells in batch.cast(texts).to_pylist():
                yield {name: cell or "" for name, cell in cells.items()}, f"row {next(number)}"


def _encoding(head: bytes) -> str:
    """Guess the encoding of a text from its beginning."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the beginning may end within a character
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"


def _delimiter(text: str) -> str:
    """Guess the separator from the header; in rows a comma may be a decimal one."""
    try:
        return csv.Sniffer().sniff(text.lstrip("\r\n").partition("\n")[0], "".join(DELIMITERS)).delimiter
    except csv.Error:
        return ","
