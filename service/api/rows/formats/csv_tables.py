"""CSV with a header: query parameters name the special columns and those to ignore.

Decimal commas are not supported, whatever the delimiter: numbers are written as in JSON.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import compress, islice
from typing import Any

from core.problems import Invalid, suggestion
from service.errors import NotTable
from service.runtime.rows.table import RowPlace, Table, plural

BESIDE_QUERIES = ("label", "id", "discount", "weight", "served")
"""Query parameters that name columns other than features."""
CSV_QUERIES = ("delimiter", "drop")  # query parameters for reading CSV
DELIMITERS = 'one character other than a letter, digit, quote, ".", "+", "-" or line end; or "tab"'
DELIMITERS_FOUND = (";", "\t", "|", ",")  # delimiters to look for in a header of one column
HEADER_SHOWN = 100


def read_csv(body: bytes, query: Mapping[str, str], labelled: bool, most: int) -> Table:
    """The rows of a CSV body (UTF-8, with or without a byte order mark), at most one more than ``most``.

    Raises:
        NotTable: not CSV, or not UTF-8.
        Invalid: no header, or missing columns.
    """
    delimiter = delimiter_of(query)
    header, rows = _rows(body, delimiter, most)
    given = [*header]
    _refuse_other_delimiter(header, rows, delimiter, query)
    if labelled and "label" not in query:
        problem = "is required as a query parameter: the label's column"
        raise Invalid.of("label", problem, header[:HEADER_SHOWN])
    beside: dict[str, Any] = {plural(name): _pop_column(header, rows, query.get(name), name) for name in BESIDE_QUERIES}
    if "drop" in query:
        header, rows = _without(header, rows, query["drop"])
    if "" in header:
        raise Invalid.of(f"header[{given.index('')}]", "has no name; write the file without its index, or send drop=,")
    place: RowPlace = lambda row, member: f"row {row + 1}, column {query[member]}"  # noqa: E731
    return Table(rows, place, header, texts=True, **beside)


def delimiter_of(query: Mapping[str, str]) -> str:
    """The delimiter that a query names; ``Invalid`` if it cannot be one."""
    given = query.get("delimiter")
    if given is None:
        return ","
    if given == "tab":
        return "\t"
    if len(given) != 1 or given.isalnum() or given in "\"'.+-\r\n":
        raise Invalid.of("delimiter", "is not a delimiter", DELIMITERS)
    return given


def _refuse_other_delimiter(
    header: Sequence[str], rows: Sequence[Sequence[str]], delimiter: str, query: Mapping[str, str]
) -> None:
    """Refuse a table of one column whose lines contain another delimiter.

    The table is allowed if its column is the label, or if ``delimiter`` is given without ``label``.
    """
    label = query.get("label")
    if len(header) != 1 or label == header[0] or (label is None and "delimiter" in query):
        return
    lines = [header[0], *(delimiter.join(row) for row in rows[:1])]
    others = [char for char in DELIMITERS_FOUND if char != delimiter]
    if found := [char for char in others if 0 < lines[0].count(char) == lines[-1].count(char)]:
        here, expected, named = repr(found[0]), repr(delimiter), "tab" if found[0] == "\t" else found[0]
        said = f"one column: {here} stands where {expected} is expected; delimiter={named} in the query reads it"
        problem = f"is {said}" if label is None else f"names no column: the header is {said}"
        raise Invalid.of("header" if label is None else "label", problem, DELIMITERS)


def _rows(body: bytes, delimiter: str, most: int) -> tuple[list[str], list[list[str]]]:
    """Header and rows, at most one more than ``most``; ignores blank lines."""
    lines = csv.reader(io.StringIO(text_of(body), newline=""), strict=True, delimiter=delimiter)
    try:
        rows = list(islice((row for row in lines if row), most + 2))  # filter() would hold the interpreter
    except csv.Error as error:
        raise NotTable(f"the body is not CSV: {error}") from None
    if not rows:
        raise Invalid.of("body", "has no header line")
    return rows[0], rows[1:]


def text_of(body: bytes) -> str:
    """A body as text; ``NotTable`` if it is not UTF-8."""
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotTable(f"the body is not UTF-8 (byte {error.start})") from None


def _pop_column(header: list[str], rows: list[list[str]], name: str | None, query: str) -> list[str] | None:
    """Remove the column that a query parameter names from a table, in place; None if it names none."""
    if name is None:
        return None
    if header.count(name) != 1:
        told = "names several columns" if name in header else f"names no column{suggestion(name, header)}"
        raise Invalid.of(query, told, header[:HEADER_SHOWN])
    _check_lengths(header, rows)
    at = header.index(name)
    header.pop(at)
    return [row.pop(at) for row in rows]


def names_in(field: str, given: str) -> list[str]:
    """The names in a query parameter, which is one line of CSV; ``Invalid`` if it is not."""
    with suppress(csv.Error):
        if given[-1:] not in "\r\n":
            return next(csv.reader([given], strict=True))
    raise Invalid.of(field, "is not a line of CSV", "names separated by commas; quote those that contain one")


def _without(header: list[str], rows: list[list[str]], given: str) -> tuple[list[str], list[list[str]]]:
    """The table without the columns that a query parameter names."""
    dropped = frozenset(names_in("drop", given))
    if absent := [*dropped.difference(header)]:
        meant = suggestion(absent[0], header) if len(absent) == 1 else ""
        problem = "names a column that is not in the header, or that is the label, id, discount, weight or served"
        raise Invalid.of("drop", problem + meant, header[:HEADER_SHOWN])
    _check_lengths(header, rows)
    kept = [name not in dropped for name in header]
    return [*compress(header, kept)], [[*compress(row, kept)] for row in rows]


def _check_lengths(header: list[str], rows: list[list[str]]) -> None:
    """Refuse rows whose number of cells differs from the header's."""
    width = len(header)
    if not {width}.issuperset(map(len, rows)):
        number, row = next((number, row) for number, row in enumerate(rows) if len(row) != width)
        raise Invalid.of(f"row {number + 1}", f"has {len(row)} cells", f"{width} cells")
