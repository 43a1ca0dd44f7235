"""How the columns of a file are written, judging by their first cells: numbers, booleans, times or strings."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from service.client.display import grid, shortened
from service.client.failures import Failed

SHARE = 0.9
"""Share of cells that decides the kind of a column, so that a few odd cells are refused, not learned as categories."""
CLASSES_MAX = 100  # most distinct whole numbers in the first rows for a label to be a class: as many as a model learns
ID_SHARE, ID_ROWS = 0.9, 20
"""A column of strings looks like an id if this share of its cells differ, in this many rows or more."""
NAMES_SHOWN = 8
MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none"})
"""Cells, in upper or lower case, that are missing values unless a string is expected."""
_PLAIN = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE)
_COMMA = re.compile(r"[+-]?([1-9]\d{0,2}(\.\d{3})+|\d+)(,\d+)?")
_POINT = re.compile(r"[+-]?([1-9]\d{0,2}(,\d{3})+|\d+)(\.\d+)?")
_DOTTED = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(.*)")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}.*)?", re.IGNORECASE)


class Notation(NamedTuple):
    """A way to write values: its kind, words for an unusual one, which cells fit, and their form for the service."""

    kind: str
    words: str
    fits: Callable[[str], object]
    plain: Callable[[str], str] = str

    def is_gap(self, cell: str) -> bool:
        """Whether a cell is a missing value; in a column of strings a word such as NA is a string."""
        return not cell.strip() if self.kind == "string" else is_missing(cell)


def is_missing(cell: str) -> bool:
    """Whether a cell is empty or a word such as NA."""
    return cell.lower() in MISSING


def _is_time(cell: str) -> bool:
    with suppress(ValueError):
        return _TIME.fullmatch(cell) is not None and datetime.fromisoformat(cell.upper()) is not None
    return False


def _with_point(cell: str) -> str:
    return cell.replace(".", "").replace(",", ".") if _COMMA.fullmatch(cell) else cell


def _without_commas(cell: str) -> str:
    return cell.replace(",", "") if _POINT.fullmatch(cell) else cell


def _year_first(cell: str) -> str:
    return _DOTTED.sub(lambda found: f"{found[3]}-{found[2]:0>2}-{found[1]:0>2}{found[4]}", cell)


NUMBER = Notation("number", "", _PLAIN.fullmatch)
COMMAS = Notation("number", "decimal comma", _COMMA.fullmatch, _with_point)
POINTS = Notation("number", "", lambda cell: NUMBER.fits(cell) or _POINT.fullmatch(cell), _without_commas)
BOOLEAN = Notation("boolean", "", {"true", "false", "True", "False", "TRUE", "FALSE"}.__contains__)
TIME = Notation("time", "", _is_time)
DATES = Notation("time", "DD.MM.YYYY", lambda cell: _is_time(_year_first(cell)), _year_first)
STRING = Notation("string", "", bool)


def _dates(form: str) -> Notation:
    """The notation of dates in a format of strptime."""

    def plain(cell: str) -> str:
        with suppress(ValueError):
            return datetime.strptime(cell, form).isoformat()  # noqa: DTZ007  the service takes it as UTC
        return cell

    return Notation("time", form, lambda cell: _is_time(plain(cell)), plain)


class Column(NamedTuple):
    """A column of a file: notation, the first cells that are not missing, and the number of those that are."""

    name: str
    notation: Notation
    given: Sequence[str]
    gaps: int

    @property
    def feature(self) -> Any:
        """The column as a feature of a configuration."""
        kind = self.notation.kind
        return self.name if kind == "number" else {"name": self.name, "type": {"string": "categorical"}.get(kind, kind)}

    @property
    def task(self) -> str:
        """The task for labels of this kind: regression if they are fractions or very many numbers."""
        numbers = {self.notation.plain(cell) for cell in self.given}
        if self.notation.kind != "number" or not numbers:
            return "classification"
        whole = all(NUMBER.fits(cell) and float(cell).is_integer() for cell in numbers)
        return "classification" if whole and len(numbers) <= CLASSES_MAX else "regression"


def columns_of(
    cells: Mapping[str, Sequence[str]],
    decimal: str | None = None,
    dates: str | None = None,
    kinds: Mapping[str, str] = {},
) -> dict[str, Column]:
    """The columns of a file by name, judging by their first cells.

    If one has decimal commas, points separate thousands in all of them; ``Failed`` if the commas may do so themselves.
    ``decimal`` ("." or ",") and ``dates`` (a format of strptime) are not guessed if they are given. ``kinds`` are those
    of a model's features: a categorical feature is read as strings, whatever they look like, and only a time feature is
    read as times.
    """
    numbers = {None: (NUMBER, COMMAS), ".": (POINTS,), ",": (COMMAS, NUMBER)}[decimal]
    known = (*numbers, BOOLEAN, TIME, DATES if dates is None else _dates(dates))
    fitting = {"categorical": (), "time": known}
    found = {name: _column(name, own, fitting.get(kinds.get(name, "time"), known[:-2])) for name, own in cells.items()}
    with_commas = [one for one in found.values() if decimal is None and one.notation is COMMAS]
    if not with_commas:
        return found
    is_certain = any(COMMAS.fits(cell) and not POINTS.fits(cell) for one in with_commas for cell in one.given)
    parted = [(one.name, cell) for one in with_commas for cell in one.given if "," in cell and POINTS.fits(cell)]
    if parted and not is_certain:
        name, cell = parted[0]
        texts = f"{_with_point(cell)} or {_without_commas(cell)}"
        raise Failed(f"column {name}: {cell!r} may be {texts}; --decimal , or --decimal . says which")
    return columns_of(cells, ",", dates, kinds)


def _column(name: str, cells: Sequence[str], known: Sequence[Notation]) -> Column:
    """A column in the notation that fits nearly all cells that are not missing; numbers if all are missing."""
    some = [cell for cell in cells if not is_missing(cell)]
    notation = next((one for one in known if sum(map(bool, map(one.fits, some))) >= SHARE * len(some)), STRING)
    given = [cell for cell in cells if not notation.is_gap(cell)]
    return Column(name, notation, given, len(cells) - len(given))


def described(columns: Mapping[str, Column], apart: Mapping[str, str], dropped: Sequence[str]) -> str:
    """Say how each column is read, a line per kind; then gaps, and strings that nearly always differ."""
    lines: dict[str, list[str]] = {}
    for column in columns.values():
        words = f" ({column.notation.words})" if column.notation.words else ""
        lines.setdefault(apart.get(column.name, column.notation.kind), []).append(column.name + words)
    lines["left out"] = [*dropped]
    lines["missing values"] = [f"{one.name} ({one.gaps:,})" for one in columns.values() if one.gaps]
    lines["an id?"] = [
        f"{name}: nearly every row has a different one; --drop {name} leaves it out"
        for name, one in columns.items()
        if one.notation is STRING and name not in apart
        if len(one.given) >= ID_ROWS and len({*one.given}) >= ID_SHARE * len(one.given)
    ]
    return grid([(kind, ", ".join(shortened(names, NAMES_SHOWN))) for kind, names in lines.items() if names])
