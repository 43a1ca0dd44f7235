"""Times: how they are read, and what learners see of them.

A raw value is the number of seconds since 1970-01-01T00:00:00Z, without leap seconds; a text is read as RFC 3339, in
UTC where it names no offset. With h the part of the UTC day that has passed, w the day of the week (Monday is 0) and y
the part of the year that has passed when the day begins, the encoded columns are

    hour          sin 2 pi h,    cos 2 pi h
    weekday       sin 2 pi w/7,  cos 2 pi w/7
    day of year   sin 2 pi y,    cos 2 pi y
    days          days since 2026-01-01T00:00:00Z, with their fraction

so that midnight is beside midnight and December beside January, and numbers stay small.
"""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from core.contract import Floats
from core.features.parsing import (
    MISSING_TEXTS,
    Bools,
    Unfit,
    column_of,
    filled,
    number,
    text_number,
    vectorised_texts,
    vectorised_values,
)

TIME_COLUMNS = ("hour_sin", "hour_cos", "weekday_sin", "weekday_cos", "day_of_year_sin", "day_of_year_cos", "days")
"""What the encoded columns of a time are called, behind the feature's name."""
EARLIEST, LATEST = -62_135_596_800.0, 253_402_300_799.0
"""Seconds of the first and the last moment of a year of four digits."""
_TIME = 'RFC 3339 such as "2026-01-31T12:00:00Z", or seconds since 1970'
_OUT_OF_YEARS = "is not a time of the years 1 to 9999: numbers are seconds, not milliseconds"
_EPOCH, _SECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(seconds=1)


def seconds_of(text: str) -> float:
    """The seconds since 1970 of a time such as ``2026-01-31T12:00:00.5+01:00``, ``2026-01-31 12:00`` or ``2026-01-31``.

    Raises:
        ValueError: no such time.
    """
    found = datetime.fromisoformat(text.upper())
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return (found - _EPOCH) / _SECOND


def is_time(text: str) -> bool:
    """Whether a text is a time, as ``seconds_of`` reads it."""
    try:
        seconds_of(text)
    except ValueError:
        return False
    return True


class TimeCells:
    """Cells of a time: RFC 3339, or seconds since 1970."""

    def value(self, value: object, missing_allowed: bool) -> float:
        """Seconds since 1970. Raises: Unfit."""
        return filled(math.nan, missing_allowed) if value is None else _seconds(value)

    def text(self, cell: str, missing_allowed: bool) -> float:
        """Seconds since 1970. Raises: Unfit."""
        return filled(math.nan, missing_allowed) if cell in MISSING_TEXTS else _seconds_of_text(cell)

    def vectorised(self, cells: Sequence[Any], missing_allowed: bool, texts: bool) -> Floats | None:
        """Seconds since 1970 (n,)."""
        found = (vectorised_texts if texts else vectorised_values)(cells, missing_allowed)
        if found is None:
            read = self.text if texts else self.value
            return column_of((read(cell, missing_allowed) for cell in cells), len(cells), missing_allowed)
        return None if self.numbers(found)[1].any() else found

    misfit = _OUT_OF_YEARS, _TIME

    def numbers(self, column: Floats) -> tuple[Floats, Bools]:
        """The seconds themselves."""
        return column, (column < EARLIEST) | (column > LATEST)


def _seconds(value: object) -> float:
    if isinstance(value, str):
        try:
            return _in_years(seconds_of(value))
        except ValueError:
            raise Unfit("is not a time", _TIME) from None
    try:
        found = number(value)
    except Unfit:
        raise Unfit("is not a time", _TIME) from None
    return _in_years(found)


def _seconds_of_text(cell: str) -> float:
    try:
        found = text_number(cell)
    except Unfit:
        return _seconds(cell)
    return _in_years(found)


def _in_years(seconds: float) -> float:
    if not EARLIEST <= seconds <= LATEST:
        raise Unfit(_OUT_OF_YEARS, _TIME)
    return seconds
