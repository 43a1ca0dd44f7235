"""The main figures of one run: ``python -m tests.benchmarks.bench [--parts core,http,replay,start] [--rounds N]``.

    core     one row of ten columns in core.model.apply, by algorithm (tests.benchmarks.one_row)
    http     single rows beside an echo of FastAPI and a plain ASGI answer, with ids, many models, batches; keys are on
    replay   a log of 50 000 single rows becomes a model
    start    a start of what is installed, and its memory

Every round measures every cell once, those that are compared right after each other; printed are medians over the
rounds, and those of the rounds' ratios with their range. The whole takes about five minutes. ``--checkout DIRECTORY``
measures the rows over HTTP of another checkout, which has a .venv of its own, beside this one's. Written is
tests/benchmarks/out/bench.json. A figure below its target is marked; the exit status is 1 only where an
acknowledged row was lost.
"""

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.benchmarks import one_row, recovery
from tests.benchmarks.harness import rows
from tests.benchmarks.harness.load import Asked, Generator, Measured
from tests.benchmarks.harness.processes import OUT, Echo, Process, Service
from tests.benchmarks.harness.report import Report, Row, Table, at, say

CONNECTIONS = (1, 64)
MANY = 100
ONE = "/models/m0/"
BATCHES = {"json": f"{ONE}feedback/batch", "npy": "/models/npy/feedback/batch"}
RATES_MIN = {"json": 200_000, "npy": 300_000}
LEARN_US = {
    "rls": 15, "dfop fixed": 15, "dfop auto": 30, "dfop auto, classes": 35, "dynamic_odm": 22, "vigo": 20,
    "vigo, 100 classes": 35, "fesl_c": 20,
}  # fmt: skip
REPLAYED_MIN = {"fixed rate": 300_000, "auto": 150_000}
RECOVERY_S, START_S, IDLE_MIB = 0.5, 1.5, 180
STARTS, AT_REST_S = 3, 1.0


Cell = tuple[str, Asked]
"""What is measured: the server, and what it is asked."""


class Beside(NamedTuple):
    """A figure: its cell, the cell it is compared with, what that is called, and the least ratio."""

    what: str
    cell: Cell
    other: Cell | None = None
    against: str = ""
    target: float | None = None


def _single(connections: int) -> list[Beside]:
    def cell(server: str, kind: str, path: str = "", **more: object) -> Cell:
        return server, Asked(kind, path or ONE + kind, connections, **more)

    by = at(connections)
    echo, plain = cell("echo", "feedback"), cell("echo", "feedback", "/plain")
    feedback, predict = cell("everysec", "feedback"), cell("everysec", "predict")
    most = connections > 1
    many = cell("everysec", "feedback", "/models/m%d/feedback", models=MANY)
    return [
        Beside(f"echo of FastAPI{by}", echo),
        Beside(f"plain ASGI answer{by}", plain),
        Beside(f"feedback{by}", feedback, echo, "the echo", 3.0 if most else 0.65),
        Beside(
            f"feedback with ids{by}", cell("everysec", "feedback", ids=True), echo, "the echo", 2.8 if most else None
        ),
        *([Beside(f"feedback, {MANY} models{by}", many, echo, "the echo", 2.2)] if most else []),
        Beside(f"predict{by}", predict, plain, "plain ASGI", 0.5 if most else 0.8),
        Beside(f"always{by}", cell("always", "feedback"), feedback, "everysec", 0.9 if most else None),
    ]


SINGLE = [each for connections in CONNECTIONS for each in _single(connections)]
BATCH = {
    f"{kind}{at(connections)}": ("everysec", Asked(kind, path, connections))
    for kind, path in BATCHES.items()
    for connections in (1, 4)
}


class Bench:
    """The servers, the load, and what has been found."""

    def __init__(self, generator: Generator, servers: dict[str, Process], seconds: int) -> None:
        self._generator, self._servers, self._seconds = generator, servers, seconds
        self.found: defaultdict[Cell, list[Measured]] = defaultdict(list)
        self._fed: defaultdict[tuple[str, str], int] = defaultdict(int)

    def round(self, seconds: int | None = None) -> None:
        """Every cell once, and on the other checkout what this one is asked, if there is one."""
        for own, asked in (*(each.cell for each in SINGLE), *BATCH.values()):
            for server in (own, "checkout") if own == "everysec" else (own,):
                if server in self._servers:
                    measured = self._generator.run(self._servers[server], asked, seconds or self._seconds)
                    self.found[server, asked].append(measured)
                    if "/feedback" in asked.path and server != "echo" and asked.models == 1:
                        self._fed[server, asked.path.split("/")[2]] += measured.answers * asked.rows

    def lost(self) -> list[str]:
        """Models that have learned less than was acknowledged; what was under way when time was up may be more."""
        told = {at: self._servers[at[0]].ask("GET", f"/models/{at[1]}")["rows"] for at in self._fed}
        return [f"{at}: {told[at]} rows learned, {fed} acknowledged" for at, fed in self._fed.items() if told[at] < fed]


def over_http(rounds: int, seconds: int, checkout: Path | None) -> tuple[list[Table], list[str]]:
    """The tables, and what was lost (nothing may be)."""
    with ExitStack() as stack:
        generator = Generator(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        services = {"everysec": Service(), "always": Service(durability="always")}
        services |= {"checkout": Service(checkout.resolve())} if checkout else {}
        for name, service in services.items():
            stack.enter_context(service)
            for number in range(1 if name == "always" else MANY):
                service.create(f"m{number}", rows.model(rows.FIXED))
            service.create("npy", rows.model(rows.FIXED, (0, 1)))
        bench = Bench(generator, {"echo": stack.enter_context(Echo()), **services}, seconds)
        bench.round(1)  # compiles, fills caches
        bench.found.clear()
        for number in range(rounds):
            bench.round()
            say(f"HTTP: round {number + 1} of {rounds}")
        lost = bench.lost()
    return [_single_table(bench.found, generator.name), _batch_table(bench.found)], lost


def _single_table(found: dict[Cell, list[Measured]], name: str) -> Table:
    table = Table("Single rows over HTTP", f"durable feedback, one row a request, keys on; sent by {name}")
    for what, cell, other, against, target in SINGLE:
        ratios = _ratios(found[cell], found[other]) if other else ()
        p50, p99, cpu = (
            median(column) for column in zip(*((m.p50_ms, m.p99_ms, m.cpu_us) for m in found[cell]), strict=True)
        )
        more = f"p50 {p50:.2f} ms, p99 {p99:.2f} ms, CPU {cpu:.0f} us"
        table.rows.append(Row(what, [own.rate for own in found[cell]], "rows/s", ratios, against, target, more=more))
        table.rows += _before(what, cell, found)
    return table


def _batch_table(found: dict[Cell, list[Measured]]) -> Table:
    table = Table("Batches over HTTP", f"durable feedback, {rows.BATCH_ROWS} rows of 10 columns a request")
    for what, cell in BATCH.items():
        values = [own.rate * rows.BATCH_ROWS for own in found[cell]]
        more = f"CPU {median(own.cpu_us for own in found[cell]) / rows.BATCH_ROWS:.1f} us a row"
        table.rows.append(Row(what, values, "rows/s", target=RATES_MIN.get(cell[1].kind), more=more))
        table.rows += _before(what, cell, found)
    return table


def _before(what: str, cell: Cell, found: dict[Cell, list[Measured]]) -> list[Row]:
    """This checkout beside the other one, by CPU time as well, which depends less on what else the machine does."""
    other = found.get(("checkout", cell[1])) if cell[0] == "everysec" else None
    if not other:
        return []
    cpu = median(own.cpu_us / beside.cpu_us for own, beside in zip(found[cell], other, strict=True))
    rates, ratios = [own.rate for own in found[cell]], _ratios(found[cell], other)
    return [Row(f"  {what}", rates, "req/s", ratios, "the checkout", more=f"CPU {cpu:.2f} of it")]


def _ratios(found: list[Measured], other: list[Measured]) -> list[float]:
    return [own.rate / beside.rate for own, beside in zip(found, other, strict=True)]


def core(rounds: int) -> Table:
    """One row of ten columns, by algorithm."""
    note = "CPU time of core.model.apply with one row, of one row of a block of 1000, and of a prediction"
    table = Table("One row in core", note)
    for case in one_row.CASES:
        alone, block, asked = zip(*one_row.measured(case, rounds), strict=True)
        more = f"in a block {median(block):.2f} us, predicted {median(asked):.1f} us"
        table.rows.append(Row(case, alone, "us", target=LEARN_US.get(case), at_most=True, more=more))
    return table


def replay(rounds: int, entries: int) -> Table:
    """A log of single rows with an id each, read from the store and learned."""
    table = Table("Replay and recovery", f"{entries:,} entries of one row of ten columns; CPU time is the service's")
    for name, target in REPLAYED_MIN.items():
        found = [recovery.measure(name, entries) for _ in range(rounds)]
        rates = [entries / each["cpu"] for each in found]
        table.rows.append(Row(f"replay, {name}", rates, "rows/s", target=target, more="of CPU time"))
        if name == "fixed rate":
            walls = [each["wall"] for each in found]
            table.rows.append(Row(f"recovery, {name}", walls, "s", target=RECOVERY_S, at_most=True))
    return table


def start() -> Table:
    """Starts of the service with a store of its own, until it is ready; what it holds at rest."""
    table, seconds, idle = Table("Start", "onepass serve where all is installed, until /readyz says 200"), [], []
    for _turn in range(STARTS + 1):  # the first one fills caches
        service = Service()
        seconds.append(service.start())
        time.sleep(AT_REST_S)
        idle.append(service.memory() / 2**20)
        service.stop()
        service.remove()
    table.rows.append(Row("later start", seconds[1:], "s", target=START_S, at_most=True))
    table.rows.append(Row("memory of the idle service", idle[1:], "MiB", target=IDLE_MIB, at_most=True))
    return table


def main() -> int:
    """Print the tables, write JSON."""
    parts = ("core", "http", "replay", "start")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(parts), help=",".join(parts))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=1, help="that each cell is measured in a round")
    parser.add_argument("--entries", type=int, default=recovery.ENTRIES, help="of the log that is replayed")
    parser.add_argument("--checkout", type=Path, help="another checkout whose rows over HTTP are measured beside")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    if unknown := set(given.parts) - set(parts):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    report, lost = Report(), []
    if "core" in given.parts:
        report.add(core(given.rounds))
    if "http" in given.parts:
        tables, lost = over_http(given.rounds, given.seconds, given.checkout)
        for table in tables:
            report.add(table)
    if "replay" in given.parts:
        report.add(replay(min(given.rounds, 3), given.entries))
    if "start" in given.parts:
        report.add(start())
    report.write(given.out, "bench", lost=lost)
    for each in lost:
        print(f"LOST  {each}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
