"""Methods of other programs on the first repetition of each classification stream: ``--contenders``.

A run writes its results to contenders.csv with version and date, and every later report shows them.
"""

import csv
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tests.papers.contenders import outside

RECORDED = Path(__file__).parent / "contenders.csv"
METHODS = (("river", "HAT"), ("river", "ARF(10)"), ("capymoa", "HAT"), ("capymoa", "ARF(100)"))
ROWS_MAX, SLOW_ROWS_MAX = 50_000, 10_000
"""Longer streams are skipped; river's forest (some 100 rows a second) skips those above the second limit."""


class Contended(NamedTuple):
    """The result of another program's method on a row of a table; ``right``: per cent, a-priori."""

    table: str
    row: str
    method: str
    right: float
    version: str
    date: str


def contended(X: Any, y: Any) -> tuple[tuple[str, float, str], ...]:
    """Per method its per cent right and the program's version; empty for a stream that is too long."""
    if len(y) > ROWS_MAX:
        return ()
    asked = [one for one in METHODS if one != ("river", "ARF(10)") or len(y) <= SLOW_ROWS_MAX]
    return outside.contended(X, y, asked)


def recorded() -> list[Contended]:
    if not RECORDED.exists():
        return []
    with RECORDED.open(newline="") as lines:
        return [Contended(**(one | {"right": float(one["right"])})) for one in csv.DictReader(lines)]


def record(found: Sequence[Contended]) -> None:
    """Save the results of a run, replacing earlier ones of the same rows and tables."""
    new = {(one.table, one.row) for one in found}
    kept = [one for one in recorded() if (one.table, one.row) not in new]
    with RECORDED.open("w", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(Contended._fields)
        writer.writerows(one._replace(right=round(one.right, 2)) for one in sorted([*kept, *found]))


def of_table(key: str, results: Iterable[Any]) -> list[Contended]:
    """The results for the rows of a table."""
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    return [
        Contended(key, result.row.name, method, right, version, today)
        for result in results
        for method, right, version in result.measured.contended
    ]


def told(key: str, lower: bool) -> list[str]:
    """One line per row of a table with results, in the table's terms: per cent right, or wrong if ``lower``."""
    rows: dict[str, list[str]] = {}
    for one in recorded():
        if one.table == key:
            rows.setdefault(one.row, []).append(f"{one.method} {100 - one.right if lower else one.right:.2f}")
    return [f"{name}: {', '.join(figures)}" for name, figures in rows.items()]


def versions(key: str) -> str:
    """The programs that ran, with their dates."""
    programs = {f"{one.method.split()[0]} {one.version} ({one.date})" for one in recorded() if one.table == key}
    return ", ".join(sorted(programs))
