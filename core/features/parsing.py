"""Numbers and times in cells: JSON values and CSV texts, one by one and by whole columns.

A table is first read *vectorised*, by whole columns; the result is None if any cell is unusual, valid or not. Then it
is read *cell by cell* (core.features.columns), which decides, and names the wrong cells. Both agree on every cell that
the first one accepts.
"""

import math
import re
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from core.contract import Floats
from core.problems import Problem

NUMBERS = frozenset({int, float})  # the types of a number: bool is a subtype of int, but ``true`` is not a number
MISSING_TEXTS = frozenset({"", "NA", "Na", "na", "N/A", "n/a", "#N/A", "<NA>", "NaN", "NAN", "nan", "-NaN", "-nan"})
MISSING_TEXTS |= {"NULL", "Null", "null", "NONE", "None", "none"}
"""CSV cells, as other programs write them, that are missing values if a number or a time is expected."""

_SHORT_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?")  # strings that a client most likely meant as numbers
EARLIEST, LATEST = -62_135_596_800.0, math.nextafter(253_402_300_800.0, 0.0)
"""Seconds since 1970 of the first and the last moment of a four-digit year."""
_EPOCH, _SECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(seconds=1)


class Unfit(Exception):
    """A cell is refused: the problem and what is allowed; the reader of the table adds its place."""

    def __init__(self, problem: str, allowed: object = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.allowed = allowed

    def at(self, field: str) -> Problem:
        """The problem, with the name of the cell."""
        return Problem(field, self.problem, self.allowed)


def number(cell: Any, texts: bool = False) -> float:
    """A JSON value or a CSV text as a number; raises ``Unfit`` if it is not one, or not finite as a double.

    The texts "nan", "inf", "1_000" and those with a decimal comma are not numbers.
    """
    try:
        if type(cell) not in NUMBERS and not (texts and cell.isascii() and "_" not in cell):
            quoted = isinstance(cell, str) and _SHORT_NUMBER.fullmatch(cell)
            raise Unfit("is not a number: send it without quotes" if quoted else "is not a number")
        found = float(cell)
    except OverflowError:
        found = math.inf
    except ValueError:
        raise Unfit("is not a number; decimal commas are not supported" if "," in cell else "is not a number") from None
    if not math.isfinite(found):
        raise Unfit("is not a finite number")
    return found


def seconds_of(text: str) -> float:
    """The seconds since 1970 of a time such as ``2026-01-31T12:00:00.5+01:00``, ``2026-01-31 12:00`` or ``2026-01-31``.

    It is read as RFC 3339, in UTC unless it has an offset. Leap seconds do not count: one is read as the second after
    it, the first of a day. ``ValueError`` for anything else, including other ISO 8601 dates: 20260131 is a number.
    """
    if not text[4:5] == "-" == text[7:8]:
        raise ValueError("not a date of RFC 3339")
    text = text.upper()
    leap = text[16:19] == ":60"  # which datetime does not know
    found = datetime.fromisoformat(f"{text[:17]}59{text[19:]}" if leap else text)
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    seconds = (found - _EPOCH) / _SECOND
    if leap and math.floor(seconds + 1) % 86_400:
        raise ValueError("a leap second is the last one of a day")
    return seconds + leap


def reads(read: Callable[..., float], *cell: Any) -> bool:
    """Whether ``read`` accepts a cell."""
    try:
        read(*cell)
    except (ValueError, Unfit):
        return False
    return True


def vectorised(cells: Sequence[Any], texts: bool, missing_allowed: bool = True) -> Floats | None:
    """Texts or JSON values as numbers (n,), missing ones as NaN; None if a cell is unusual."""
    numbers = _of_texts(cells) if texts else _of_values(cells)
    if numbers is None or (finite := np.isfinite(numbers)).all():
        return numbers
    missing: Collection[Any] = MISSING_TEXTS if texts else (None,)
    sound = missing_allowed and all(cells[at] in missing for at in np.flatnonzero(~finite).tolist())
    return numbers if sound else None


def _of_values(values: Sequence[Any]) -> Floats | None:
    if not (NUMBERS | {type(None)}).issuperset(map(type, values)):
        return None
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:
        return None


def _of_texts(cells: Sequence[str]) -> Floats | None:
    joined = "".join(cells)
    if not joined.isascii() or "_" in joined:
        return None
    complete = MISSING_TEXTS.isdisjoint(cells)
    given = cells if complete else ["nan" if cell in MISSING_TEXTS else cell for cell in cells]
    try:
        return np.fromiter(map(float, given), np.float64, len(cells))
    except ValueError:
        return None
