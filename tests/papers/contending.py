"""Methods of other programs on the first repetition of each stream of classes: ``--contenders``.

What a run finds is written to contenders.csv with version and date, and stands in every report from then on.
"""

import csv
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tests.papers import outside

RECORDED = Path(__file__).parent / "contenders.csv"
METHODS = (("river", "HAT"), ("river", "ARF(10)"), ("capymoa", "HAT"), ("capymoa", "ARF(100)"))
ROWS_MAX, SLOW_ROWS_MAX = 50_000, 10_000
"""Longer streams are left out, and for river's forest, which learns some 100 rows a second, those above the second."""


class Contended(NamedTuple):
    """What a method of another program reached on a row of a table; ``right``: per cent, a-priori."""

    table: str
    row: str
    method: str
    right: float
    version: str
    date: str


def contended(X: Any, y: Any) -> tuple[tuple[str, float, str], ...]:
    """By method its per cent right and the program's version; none on a stream that is too long."""
    if len(y) > ROWS_MAX:
        return ()
    asked = [one for one in METHODS if one != ("river", "ARF(10)") or len(y) <= SLOW_ROWS_MAX]
    return outside.contended(X, y, asked)


def recorded(path: Path = RECORDED) -> list[Contended]:
    """What earlier runs found."""
    if not path.exists():
        return []
    with path.open(newline="") as lines:
        return [Contended(**(one | {"right": float(one["right"])})) for one in csv.DictReader(lines)]


def record(found: Sequence[Contended], path: Path = RECORDED) -> None:
    """Keep what a run found, in the place of what was known of the same rows of the same tables."""
    new = {(one.table, one.row) for one in found}
    kept = [one for one in recorded(path) if (one.table, one.row) not in new]
    with path.open("w", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(Contended._fields)
        writer.writerows(one._replace(right=round(one.right, 2)) for one in sorted([*kept, *found]))


def of_table(key: str, results: Iterable[Any]) -> list[Contended]:
    """What the rows of a table found."""
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    return [
        Contended(key, result.row.name, method, right, version, today)
        for result in results
        for method, right, version in result.measured.contended
    ]


def told(key: str, lower: bool, path: Path = RECORDED) -> list[str]:
    """A line for each row of a table that has some, in the table's terms: per cent right, or with ``lower`` wrong."""
    rows: dict[str, list[str]] = {}
    for one in recorded(path):
        if one.table == key:
            rows.setdefault(one.row, []).append(f"{one.method} {100 - one.right if lower else one.right:.2f}")
    return [f"{name}: {', '.join(figures)}" for name, figures in rows.items()]


def versions(key: str) -> str:
    """Which programs ran, and when."""
    programs = {f"{one.method.split()[0]} {one.version} ({one.date})" for one in recorded() if one.table == key}
    return ", ".join(sorted(programs))
