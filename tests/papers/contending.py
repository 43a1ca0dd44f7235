"""Methods of other programs on the first repetition of each stream of classes: ``--contenders``.

What a run finds is written to contenders.csv with version and date, and stands in every report from then on. A stream
that several tables share, or that an interrupted run had finished, is not run twice: out/contenders has what is known.
"""

import csv
import hashlib
import json
import tempfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.benchmarks.harness.environments import CAPYMOA, RIVER, Environment, Unavailable, answer_of
from tests.benchmarks.harness.report import say

FOLDER = Path(__file__).parent
KNOWN, RECORDED = FOLDER / "out" / "contenders", FOLDER / "contenders.csv"
PROGRAMS = {"river": RIVER, "capymoa": CAPYMOA}
ROWS_MAX, SECONDS_MAX = 50_000, 3600.0
"""Longer streams are left out, and a program that takes so long for one is ended."""


class Contended(NamedTuple):
    """What a method of another program reached on a row of a table; ``right``: per cent, a-priori."""

    table: str
    row: str
    method: str
    right: float
    version: str
    date: str


@cache
def version_of(program: str) -> str | None:
    """The version of a program, in an environment that is made if it is not there; None where it cannot be had."""
    try:
        return PROGRAMS[program].ready()
    except Unavailable as error:
        say(f"NOT RUN  {program}: {error}")
        return None


def contended(X: Any, y: Any) -> tuple[tuple[str, float, str], ...]:
    """By method its per cent right and the program's version; none on a stream that is too long."""
    if len(y) > ROWS_MAX:
        return ()
    digest = hashlib.sha256(np.ascontiguousarray(X).tobytes() + y.astype(np.int64).tobytes()).hexdigest()[:16]
    found: list[tuple[str, float, str]] = []
    for program, environment in PROGRAMS.items():
        version = version_of(program)
        if version is None:
            continue
        path = KNOWN / f"{digest}-{program}-{version}.json"
        if not path.exists():
            try:
                said = _asked(program, environment, X, y)
            except Unavailable as error:
                say(f"NOT RUN  {program} on {len(y)} rows: {error}")
                continue
            KNOWN.mkdir(parents=True, exist_ok=True)
            path.write_text(said)
        found += [(f"{program} {name}", right, version) for name, right in json.loads(path.read_text()).items()]
    return tuple(found)


def _asked(program: str, environment: Environment, X: Any, y: Any) -> str:
    with tempfile.TemporaryDirectory() as folder:
        stream = Path(folder) / "stream.npz"
        np.savez(stream, X=X, y=y.astype(np.int64))
        command = [str(environment.python), str(FOLDER / "contender.py"), program, str(stream)]
        return answer_of(command, SECONDS_MAX).splitlines()[-1]


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
