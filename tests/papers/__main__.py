"""The papers' tables, repeated: ``python -m tests.papers [--only dfop1,odm2] [--quick] [--full] [--contenders]``.

Every row of a table is next to the paper's figure; a deviation is explained or counted as outside (rows.py).
The report is tests/papers/out/report.html and report.md; progress goes to stderr. Missing data sets are fetched first.
Exits with 1 if a row is outside or a bound does not hold. A complete run with all data writes its counts to
recorded.txt, which README and the guide quote.
"""

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from core.numerics.linalg import single_threaded
from tests.papers import dfop, fesl, figures, odm, theory, vigo
from tests.papers.charts import Figure
from tests.papers.contenders import contending, outside
from tests.papers.report import Ran, counts, summary, write
from tests.papers.rows import OUTSIDE, Result, Size, Table, completed, run_row
from tests.papers.sets.fetching import fetch_all
from tests.papers.sets.manifest import missing

OUT = Path(__file__).parent / "out"
RECORDED = Path(__file__).parent / "recorded.txt"
"""The counts of the last complete run."""
TABLES: dict[str, Callable[[], Table]] = {**dfop.TABLES, **odm.TABLES, **vigo.TABLES, **fesl.TABLES}
FIGURES: dict[str, Callable[[], Figure]] = {**figures.FIGURES, **theory.BOUNDS}
QUICK_RUNS, WORKERS = 2, 2


def say(text: str) -> None:
    """Print progress to stderr."""
    print(text, file=sys.stderr, flush=True)


def repeat(tables: Sequence[Table], size: Size, workers: int) -> Iterator[Ran]:
    """Run all rows in several processes; yield the tables in their order."""
    if workers < 2:
        yield from (Ran(table, [_told(run_row(row, table.points, size)) for row in table.rows]) for table in tables)
        return
    with ProcessPoolExecutor(workers, initializer=single_threaded) as pool:
        waiting = [(table, [pool.submit(run_row, row, table.points, size) for row in table.rows]) for table in tables]
        for table, futures in waiting:
            say(f"{table.title} ...")
            yield Ran(table, [_told(future.result()) for future in futures])


def _told(result: Result) -> Result:
    ours = "" if result.mean is None else f"{result.mean:9.3f}"
    paper = "" if result.row.paper is None else f"{result.row.paper.mean:9.3f}"
    say(f"  {result.row.name:28}{result.row.algorithm:13}{paper:>9}{ours:>9} {result.seconds:6.1f} s  {result.verdict}")
    return result


def run(
    tables: Sequence[Table],
    drawings: Mapping[str, Callable[[], Figure]],
    size: Size,
    folder: Path,
    workers: int = 1,
    record: Path | None = None,
) -> int:
    """Run tables and drawings, write the report, and the counts to ``record``; return the exit code."""
    begun = time.monotonic()
    ran = [one._replace(results=completed(one.results)) for one in repeat(tables, size, workers)]
    if size.contenders:
        contending.record([found for one in ran for found in contending.of_table(one.table.key, one.results)])
    drawn = []
    for key, make in drawings.items():
        say(f"{key} ...")
        try:
            drawn.append(make())
        except FileNotFoundError as error:
            say(f"  not drawn: {error.filename} does not exist")
    spent = (
        f"{(time.monotonic() - begun) / 60:.1f} minutes on {os.cpu_count()} cores, Python {platform.python_version()}"
    )
    judged = "" if size.judged else " A quick run: too few repetitions to judge."
    write(folder, ran, drawn, f"{spent}.{judged}")
    if record is not None:
        record.write_text(f"{summary(ran)}\n")
    say(f"{summary(ran)}; {folder / 'report.html'} and report.md")
    return 1 if counts(ran)[OUTSIDE] or any(figure.holds is False for figure in drawn) else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [*TABLES, *FIGURES]
    parser.add_argument("--only", type=lambda text: text.split(","), default=known, help=",".join(known))
    parser.add_argument("--quick", action="store_true", help="two repetitions; nothing is judged")
    parser.add_argument("--offline", action="store_true", help="fetch no data sets; missing ones are listed")
    parser.add_argument("--contenders", action="store_true", help="run river and CapyMOA (Java) too; some 20 minutes")
    parser.add_argument("--full", action="store_true", help="generated streams at the paper's length")
    given = parser.parse_args()
    if unknown := sorted({*given.only} - {*known}):
        parser.error(f"--only: {', '.join(unknown)} not among {', '.join(known)}")
    single_threaded()
    if not given.offline and missing():
        fetch_all(say=say)
    if given.contenders:
        for program in outside.PROGRAMS:  # made before the workers need them
            outside.version_of(program)
    size = Size(QUICK_RUNS if given.quick else 1000, given.full, not given.quick, given.contenders)
    drawn = {key: make for key, make in FIGURES.items() if key in given.only}
    tables = [make() for key, make in TABLES.items() if key in given.only]
    whole = given.only == known and size.judged and not given.full and not missing()
    return run(tables, drawn, size, OUT, min(WORKERS, os.cpu_count() or 1), RECORDED if whole else None)


if __name__ == "__main__":
    sys.exit(main())
