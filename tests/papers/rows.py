"""Rows of the papers' tables as data: the paper's figure, how ours is measured, and known reasons for the difference.

A row is *repeated* if our mean is within one standard deviation of the paper's figure, or within half a point of a
percentage, whichever is more. If it is not, why.csv gives the reason and our figure at the time it was written: a
figure that has moved since is *outside*, and so is one without a reason. A run ends with exit code 1 if a row is
outside.
"""

import csv
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

QUOTED = Path(__file__).parent / "quoted"
POINTS = 0.5
SIGNIFICANT = 0.05
REPEATED, EXPLAINED, OUTSIDE, MISSING, SHOWN = "repeated", "explained", "outside", "missing", "shown"
"""The verdicts; SHOWN: nothing to compare with, or too few repetitions to judge."""


class Quoted(NamedTuple):
    """A figure as a paper prints it; ``mark``: "+" if the paper calls its method significantly better than this one."""

    mean: float
    sd: float = 0.0
    mark: str = ""

    def __str__(self) -> str:
        """The figure as the report shows it."""
        sd = f" ± {self.sd:g}" if self.sd else ""
        return f"{self.mean:g}{sd}{' ' + self.mark if self.mark else ''}"


class Why(NamedTuple):
    """Why a row does not repeat the paper's figure, and our measurement when that was written."""

    ours: float
    text: str


class Size(NamedTuple):
    """The largest number of repetitions, whether streams have full length, and whether verdicts are given.

    ``contenders``: whether other programs run as well.
    """

    runs: int = 1000
    full: bool = False
    judged: bool = True
    contenders: bool = False


class Measured(NamedTuple):
    """The measurements of a row: the paper's variant, for every repetition; means with the defaults.

    ``auto``: on the first repetition; ``no_change``: for numbers the last value; ``contended``: other programs.
    """

    ours: tuple[float, ...] = ()
    default: float | None = None
    auto: float | None = None
    no_change: float | None = None
    majority: float | None = None
    note: str = ""
    contended: tuple[tuple[str, float, str], ...] = ()


class Row(NamedTuple):
    """A row of a table; without ``measure`` no source of its data set is known."""

    name: str
    algorithm: str
    paper: Quoted | None
    measure: Callable[[Size], Measured] | None
    why: Why | None = None
    tolerance: float | None = None


class Result(NamedTuple):
    """A measured row: its verdict, and the reason if there is one."""

    row: Row
    measured: Measured
    verdict: str
    reason: str = ""
    seconds: float = 0.0

    @property
    def mean(self) -> float | None:
        """The mean of ours."""
        return float(np.mean(self.measured.ours)) if self.measured.ours else None

    @property
    def sd(self) -> float:
        """The deviation over the repetitions."""
        return float(np.std(self.measured.ours)) if self.measured.ours else 0.0


class Table(NamedTuple):
    """A table of a paper; ``key`` is its name for ``--only``.

    ``points``: its figures are percentages, which may differ by half a point; ``contenders``: those of other methods,
    quoted; ``pairs``: algorithms that it compares, and the test, "t" or "wilcoxon"; ``lower``: lower is better.
    """

    key: str
    title: str
    unit: str
    points: bool
    rows: Sequence[Row]
    note: str = ""
    contenders: Mapping[str, str] = MappingProxyType({})
    pairs: tuple[tuple[str, str, str], ...] = ()
    lower: bool = False


@cache
def _whys() -> dict[tuple[str, str, str], Why]:
    with (QUOTED.parent / "why.csv").open(newline="") as lines:
        found = list(csv.DictReader(lines))
    return {(one["table"], one["row"], one["algorithm"]): Why(float(one["ours"]), one["why"]) for one in found}


def why(table: str, row: str, algorithm: str) -> Why | None:
    """The entry of why.csv for a row that does not repeat the paper's figure."""
    return _whys().get((table, row, algorithm))


@cache
def quoted(name: str) -> dict[str, dict[str, Quoted]]:
    """A table of a paper by row and column, from quoted/NAME.csv; a cell is a mean, maybe with deviation and mark."""
    with (QUOTED / f"{name}.csv").open(newline="") as lines:
        return {
            line.pop("row"): {column: _cell(cell) for column, cell in line.items()} for line in csv.DictReader(lines)
        }


def _cell(text: str) -> Quoted:
    mean, *more = text.split()
    mark = more.pop() if more and more[-1] in "+-" else ""
    return Quoted(float(mean), *map(float, more), *([] if more else [0.0]), mark)


def contenders(name: str, ours: Sequence[str]) -> dict[str, str]:
    """The other methods of a quoted table as text, by row."""
    return {
        row: ", ".join(f"{method} {figure}" for method, figure in cells.items() if method not in ours)
        for row, cells in quoted(name).items()
    }


def quoted_table(
    key: str, title: str, unit: str, kinds: Mapping[str, str], measure: Callable[..., Measured],
    known: Mapping[str, Any], note: str = "",
) -> Table:  # fmt: skip
    """A table of percentages from quoted/KEY.csv, with a row for each data set and each algorithm of ours.

    ``kinds`` are the algorithms, with their columns in the paper's table. ``measure`` is called with what ``known``
    says of a data set, the algorithm and the size; no source of other data sets is known.
    """
    rows = [
        Row(name, kind, cells[column], partial(measure, known[name], kind) if name in known else None,
            why(key, name, kind))
        for name, cells in quoted(key).items()
        for kind, column in kinds.items()
    ]  # fmt: skip
    return Table(key, title, unit, True, rows, note, contenders(key, (*kinds.values(),)))


def tolerance(row: Row, points: bool) -> float:
    """How far from the paper's figure still counts as repeated."""
    if row.tolerance is not None:
        return row.tolerance
    assert row.paper is not None
    return max(row.paper.sd, POINTS if points else 0.0)


def judge(row: Row, measured: Measured, points: bool, judged: bool = True) -> tuple[str, str]:
    """The verdict on a measured row, and the reason."""
    known = row.why.text if row.why else ""
    if row.paper is None or not measured.ours or not judged:
        return SHOWN, " ".join(filter(None, (known, measured.note)))
    ours, allowed = float(np.mean(measured.ours)), tolerance(row, points) + 1e-9
    if not np.isfinite(ours):
        return OUTSIDE, "not a finite figure"
    if abs(ours - row.paper.mean) <= allowed:
        return REPEATED, measured.note
    if row.why is None:
        return OUTSIDE, f"{ours - row.paper.mean:+.3g} from the paper, no explanation is recorded"
    if abs(ours - row.why.ours) <= max(allowed, 2.0 * float(np.std(measured.ours)) / len(measured.ours) ** 0.5):
        return EXPLAINED, " ".join(filter(None, (known, measured.note)))
    return OUTSIDE, f"was {row.why.ours:g} when it was explained: {known}"


def run_row(row: Row, points: bool, size: Size) -> Result:
    """Measure a row, or report that its data are missing."""
    if row.measure is None:
        return Result(row, Measured(), MISSING, "no source of this data set is known")
    begun = time.perf_counter()
    try:
        measured = row.measure(size)
    except FileNotFoundError as error:
        return Result(row, Measured(), MISSING, f"{error.filename}: {error.strerror}")
    return Result(row, measured, *judge(row, measured, points, size.judged), time.perf_counter() - begun)


def completed(results: Sequence[Result]) -> list[Result]:
    """Copy ``auto`` and the baselines, which run once per stream, to the other rows of the same stream."""
    shared = ("auto", "no_change", "majority")
    first = {one.row.name: one.measured for one in reversed(results) if one.measured.no_change is not None}
    return [
        one._replace(measured=one.measured._replace(**{name: getattr(first[one.row.name], name) for name in shared}))
        if one.measured.ours and one.measured.auto is None and one.row.name in first
        else one
        for one in results
    ]


def compared(results: Sequence[Result], first: str, second: str, test: str, lower: bool) -> dict[str, str]:
    """For each data set with both algorithms: "+" if the first is significantly better, "-" if worse, else "="."""
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    for result in results:
        found.setdefault(result.row.name, {})[result.row.algorithm] = result.measured.ours
    marks = {}
    for name, of in found.items():
        a, b = np.array(of.get(first, ())), np.array(of.get(second, ()))
        if len(a) > 1 and len(a) == len(b):
            marks[name] = _mark(b - a if lower else a - b, test)
    return marks


def _mark(ahead: np.ndarray, test: str) -> str:
    if not ahead.any():
        return "="
    if test == "t":
        p = 0.0 if np.ptp(ahead) == 0.0 else float(stats.ttest_1samp(ahead, 0.0).pvalue)
    else:
        p = float(stats.wilcoxon(ahead).pvalue)
    return "=" if p >= SIGNIFICANT else "+" if ahead.mean() > 0.0 else "-"
