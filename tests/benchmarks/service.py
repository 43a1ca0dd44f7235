"""Throughput and latency of the service: ``python -m tests.benchmarks.service [--quick]``.

Single-row feedback at 1, 16 and 64 connections, with the private store syncing every second and always, without ids
and with one per row, beside an echo service of the same style: as an endpoint of FastAPI (echo), and as a plain route
(bare), which is how the service answers this one. In every round each cell follows the echoes of its number of
connections; what is printed are medians over the rounds, and a ratio is the median of the rounds' ratios. Then batches
and predictions. Rows are counted against what the models say they have learned.

Exits with 1 where a target is missed: the cells marked * at 0.7 of the echo, JSON batches at 20 times single rows.
CPU is what the service and its store have used per row: it hardly depends on what else the machine does.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from tests.benchmarks import rows
from tests.benchmarks.load import Job, Tally
from tests.benchmarks.processes import Echo, Load, Process, Service

CONNECTIONS = (1, 16, 64)
ECHOES = ("echo", "bare")
ECHO_SHARE_MIN = 0.7
BATCH_FACTOR_MIN = 20.0
BATCH_CONNECTIONS = 4
PARAMS = {"forgetting_rate": 0.01}
"""One learner of d = 10, some microseconds a row: what is measured is the service."""


class Cell(NamedTuple):
    """What is measured."""

    kind: str
    connections: int
    durability: str = "-"
    ids: bool = False

    @property
    def held(self) -> bool:
        """Whether the ratio to the echo is a target; ids are work that no echo does, and are reported beside it."""
        return self.kind == "feedback" and self.connections == 16 and self.durability == "everysec" and not self.ids

    @property
    def model(self) -> str:
        """The model it feeds."""
        return "npy" if self.kind == "npy" else "batches" if self.kind in ("json", "csv") else "single"


@dataclass
class Found:
    """The rounds of one cell."""

    tallies: list[Tally] = field(default_factory=list)
    to_echo: list[float] = field(default_factory=list)
    to_bare: list[float] = field(default_factory=list)
    service_s: float = 0.0
    store_s: float = 0.0

    def median(self, name: str) -> float:
        """Median over the rounds."""
        return median(getattr(tally, name) for tally in self.tallies)

    @property
    def cpu_us(self) -> tuple[float, float]:
        """CPU per answer, of the service and of its store."""
        answers = sum(tally.acknowledged for tally in self.tallies)
        return 1e6 * self.service_s / answers, 1e6 * self.store_s / answers


STORES = [(durability, ids) for durability in ("everysec", "always") for ids in (False, True)]
SINGLE = {connections: [Cell("feedback", connections, *store) for store in STORES] for connections in CONNECTIONS}
OTHERS = (
    Cell("json", BATCH_CONNECTIONS, "everysec"),
    Cell("csv", BATCH_CONNECTIONS, "everysec"),
    Cell("npy", BATCH_CONNECTIONS, "everysec"),
    Cell("predict", 1, "everysec"),
    Cell("predict", 16, "everysec"),
)


class Plan(NamedTuple):
    """How much is measured, and how long."""

    connections: tuple[int, ...]
    rounds: int
    seconds: float


FULL = Plan(CONNECTIONS, 5, 1.0)
QUICK = Plan((16,), 5, 0.25)


class Bench:
    """The servers, the load and what has been found."""

    def __init__(self, load: Load, echo: Echo, services: dict[str, Service], plan: Plan) -> None:
        self._load, self._echo, self._services, self._plan = load, echo, services, plan
        self.found: defaultdict[Cell, Found] = defaultdict(Found)
        self._fed: defaultdict[tuple[str, str], int] = defaultdict(int)

    def prepare(self) -> None:
        """Create the models and warm everything up."""
        for service in self._services.values():
            service.create("single", rows.model(PARAMS))
            service.create("batches", rows.model(PARAMS))
            service.create("npy", rows.model(PARAMS, (0, 1)))
        for cell in (*_echoes(16), *SINGLE[16], *OTHERS):
            self._measure(cell, 0.2)
        self.found.clear()

    def round(self) -> None:
        """Everything once."""
        seconds = self._plan.seconds
        for connections in self._plan.connections:
            echo, bare = (self._measure(cell, seconds).rate for cell in _echoes(connections))
            for cell in SINGLE[connections]:
                rate = self._measure(cell, seconds).rate
                self.found[cell].to_echo.append(rate / echo)
                self.found[cell].to_bare.append(rate / bare)
        for cell in OTHERS:
            self._measure(cell, seconds)

    def _measure(self, cell: Cell, seconds: float) -> Tally:
        server: Process = self._services.get(cell.durability, self._echo)
        kind = "feedback" if cell.kind in ECHOES else cell.kind
        warm_s = min(0.1, seconds / 3)
        job = Job(server.port, kind, _path(cell), cell.connections, seconds, warm_s, cell.ids)
        before = server.used()
        tally = self._load.run(job)
        found, after = self.found[cell], server.used()
        found.tallies.append(tally)
        found.service_s += after.service - before.service
        found.store_s += after.store - before.store
        if cell.kind not in ("predict", *ECHOES):
            self._fed[cell.durability, cell.model] += tally.acknowledged * _rows(cell)
        return tally

    def lost(self) -> list[str]:
        """Models that have not learned exactly what was acknowledged."""
        told = [(at, self._services[at[0]].rows(at[1]), fed) for at, fed in self._fed.items()]
        return [f"{at}: {learned} rows learned, {fed} acknowledged" for at, learned, fed in told if learned != fed]


def _echoes(connections: int) -> list[Cell]:
    return [Cell(kind, connections) for kind in ECHOES]


def _rows(cell: Cell) -> int:
    return rows.BATCH_ROWS if cell.kind in ("json", "csv", "npy") else 1


def _path(cell: Cell) -> str:
    if cell.kind in ("predict", "bare"):
        return "/models/single/predict" if cell.kind == "predict" else "/bare/single/feedback"
    batch = "" if cell.kind in ("echo", "feedback") else "/batch"
    return f"/models/{cell.model}/feedback{batch}" + ("?label=class" if cell.kind == "csv" else "")


def print_single(found: dict[Cell, Found], plan: Plan) -> None:
    """The table of single rows."""
    print(f"\n{'single rows':12}{'store':>10}{'ids':>5}{'rows/s':>9}{'p50 ms':>9}{'p99 ms':>9}", end="")
    print(f"{'CPU us':>9}{'+ store':>9}{'/ bare':>9}{'/ echo':>9}  lowest to highest")
    for connections in plan.connections:
        for cell in (*_echoes(connections), *SINGLE[connections]):
            name = f"{connections:>3} {cell.kind}{'*' if cell.held else ''}"
            print(f"{name:12}{cell.durability:>10}{'yes' if cell.ids else '-':>5}", end="")
            print(_figures(cell, found[cell]) + _ratio(found[cell]))


def _figures(cell: Cell, found: Found) -> str:
    service_us, store_us = found.cpu_us
    return (
        f"{found.median('rate') * _rows(cell):9.0f}{found.median('p50_ms'):9.2f}{found.median('p99_ms'):9.2f}"
        f"{service_us / _rows(cell):9.1f}{store_us / _rows(cell):9.1f}"
    )


def _ratio(found: Found) -> str:
    if not found.to_echo:
        return ""
    spread = f"{min(found.to_echo):.2f} to {max(found.to_echo):.2f}"
    return f"{median(found.to_bare):9.2f}{median(found.to_echo):9.2f}  {spread}"


def print_others(found: dict[Cell, Found], single_rate: float) -> None:
    """The table of batches and predictions."""
    print(f"\n{'everysec':12}{'rows each':>10}{'':>5}{'rows/s':>9}{'p50 ms':>9}{'p99 ms':>9}", end="")
    print(f"{'CPU us':>9}{'+ store':>9}{'x single':>9}")
    for cell in OTHERS:
        name = f"{cell.connections:>3} {cell.kind}"
        times = found[cell].median("rate") * _rows(cell) / single_rate
        print(f"{name:12}{_rows(cell):>10}{'':>5}{_figures(cell, found[cell])}{times:9.1f}")


def missed(found: dict[Cell, Found], single_rate: float) -> Iterable[str]:
    """The targets that were missed."""
    for cell in SINGLE[16]:
        share = median(found[cell].to_echo)
        if cell.held and share < ECHO_SHARE_MIN:
            yield f"single rows at 16 connections: {share:.2f} of the echo, target {ECHO_SHARE_MIN}"
    factor = found[OTHERS[0]].median("rate") * rows.BATCH_ROWS / single_rate
    if factor < BATCH_FACTOR_MIN:
        yield f"JSON batches: {factor:.1f} times single rows, target {BATCH_FACTOR_MIN:g}"


def main() -> int:
    """Print the tables; 1 where a target is missed or a row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="16 connections only: half a minute instead of some")
    plan = QUICK if parser.parse_args().quick else FULL
    always, everysec = Service(durability="always"), Service(durability="everysec")
    with Load() as load, Echo() as echo, everysec, always:
        bench = Bench(load, echo, {"everysec": everysec, "always": always}, plan)
        bench.prepare()
        for number in range(plan.rounds):
            bench.round()
            print(f"round {number + 1} of {plan.rounds}", file=sys.stderr)
        problems = bench.lost()
    single_rate = bench.found[SINGLE[16][0]].median("rate")
    print_single(bench.found, plan)
    print_others(bench.found, single_rate)
    problems += missed(bench.found, single_rate)
    for problem in problems:
        print(f"MISSED  {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
