"""What the columns of a file hold, told by their first cells: numbers, booleans, times or strings.

A column is of a kind if at least nine in ten of its cells are, so that a few odd cells are found and not learned as
categories. Numbers come first: a column of 0 and 1 holds numbers.
"""

import math
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none"})
"""Cells that are missing values where no string is expected, in any case."""
SHARE = 0.9
CLASSES_MAX = 100
"""Different integers in the first rows up to which a label is a class: as many as a model learns."""
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}.*)?", re.IGNORECASE)


def is_missing(cell: str) -> bool:
    """Whether a cell is empty, or a word for it."""
    return len(cell) <= 4 and cell.lower() in MISSING


def is_number(cell: str) -> bool:
    """Whether a cell is a finite number, as the service reads it."""
    try:
        return cell.isascii() and "_" not in cell and math.isfinite(float(cell))
    except ValueError:
        return False


def is_boolean(cell: str) -> bool:
    """Whether a cell is true or false."""
    return cell in {"true", "false", "True", "False", "TRUE", "FALSE"}


def is_time(cell: str) -> bool:
    """Whether a cell is a time as RFC 3339 has it, or a date."""
    if _TIME.fullmatch(cell) is None:
        return False
    try:
        datetime.fromisoformat(cell.upper())
    except ValueError:
        return False
    return True


KINDS: dict[str, Callable[[str], bool]] = {"number": is_number, "boolean": is_boolean, "time": is_time}


def has_decimal_commas(cells: Sequence[str]) -> bool:
    """Whether a column of strings would be one of numbers if its commas were points."""
    given = [cell for cell in cells if not is_missing(cell)]
    return kind_of(given) == "string" and kind_of([cell.replace(",", ".") for cell in given]) == "number"


def kind_of(cells: Sequence[str]) -> str:
    """The kind of a column, by some of its cells: number, boolean, time or string; a number where all are missing."""
    given = [cell for cell in cells if not is_missing(cell)]
    wanted = SHARE * len(given)
    return next((kind for kind, fits in KINDS.items() if sum(map(fits, given)) >= wanted), "string")


def task_of(cells: Sequence[str]) -> str:
    """The task of a column of labels, by some of its cells: numbers that are no classes are to be predicted."""
    given = [cell for cell in cells if not is_missing(cell)]
    if kind_of(given) != "number" or not given:
        return "classification"
    numbers = [float(cell) for cell in given if is_number(cell)]
    whole = all(number.is_integer() for number in numbers)
    return "classification" if whole and len(set(numbers)) <= CLASSES_MAX else "regression"


def declared(name: str, kind: str) -> Any:
    """A feature of a kind, as the body of PUT declares it."""
    return name if kind == "number" else {"name": name, "type": {"string": "categorical"}.get(kind, kind)}
