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

from datetime import UTC, datetime, timedelta

TIME_COLUMNS = ("hour_sin", "hour_cos", "weekday_sin", "weekday_cos", "day_of_year_sin", "day_of_year_cos", "days")
"""What the encoded columns of a time are called, behind the feature's name."""
EARLIEST, LATEST = -62_135_596_800.0, 253_402_300_799.0
"""Seconds of the first and the last moment of a year of four digits."""
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
