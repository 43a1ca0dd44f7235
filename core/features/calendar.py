"""The encoded columns of a time (core.features.times has the equations), row by row and without Python.

The civil date of a day number is computed by eras of 400 years, which have 146 097 days each; a year begins in March
there, so that the leap day is its last.

Source: Howard Hinnant, "chrono-compatible low-level date algorithms", 2013, ``civil_from_days`` and
``days_from_civil``.
"""

import math

from numba import njit

from core.contract import Floats

DAY_S = 86_400.0
FIRST_DAY = 20_454.0
"""2026-01-01, in days since 1970."""
_ERA_DAYS, _DAYS_TO_1970 = 146_097, 719_468
_THURSDAY = 3
"""The weekday of 1970-01-01, Monday being 0."""
_TURN = 2.0 * math.pi


@njit("i8(i8)", cache=True)
def year_of(day: int) -> int:
    """The year of a day since 1970."""
    shifted = day + _DAYS_TO_1970
    era = shifted // _ERA_DAYS
    of_era = shifted - era * _ERA_DAYS  # 0 to 146 096
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365  # 0 to 399
    of_year = of_era - (365 * year + year // 4 - year // 100)  # 0 is 1 March
    return year + 400 * era + (1 if of_year >= 306 else 0)


@njit("i8(i8)", cache=True)
def first_day(year: int) -> int:
    """1 January of a year, in days since 1970."""
    before = year - 1
    return 365 * before + before // 4 - before // 100 + before // 400 - 719_162


@njit("void(f8, f8[:,::1], i8, i8)", cache=True)
def time_columns(seconds: float, X: Floats, row: int, at: int) -> None:
    """The seven columns of a time in seconds since 1970, in a row of X from column ``at`` on."""
    elapsed = seconds / DAY_S
    day = math.floor(elapsed)
    year = year_of(day)
    first = first_day(year)
    hour = _TURN * (elapsed - day)
    weekday = _TURN * ((day + _THURSDAY) % 7) / 7.0
    season = _TURN * (day - first) / (first_day(year + 1) - first)
    for place, angle in enumerate((hour, weekday, season)):
        X[row, at + 2 * place], X[row, at + 2 * place + 1] = math.sin(angle), math.cos(angle)
    X[row, at + 6] = elapsed - FIRST_DAY
