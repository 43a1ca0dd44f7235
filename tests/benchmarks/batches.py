"""How fast one connection sends rows: ``python -m tests.benchmarks.batches [--quick]``, on two cores.

Feedback on models of d = 10 with a fixed forgetting rate and with "auto", with and without an id per row: single
requests, batches of 64 and 256 rows as NDJSON, batches of 1000 as JSON. All cells of a round follow each other on one
service with its private store; the two have the first core, the load has the other. Printed are medians over the
rounds, and the CPU time of service and store per row, which depends less on what else the machine does. Rows are
counted against what the models say they have learned.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from statistics import median
from typing import Any, NamedTuple

import psutil

from tests.benchmarks import load, rows
from tests.benchmarks.processes import Load, Service

RATES: dict[str, dict[str, Any]] = {"fixed": {"forgetting_rate": 0.01}, "auto": {}}


class Cell(NamedTuple):
    """What is measured; ``rate``: the name of the model."""

    kind: str
    rate: str
    ids: bool
    connections: int

    @property
    def rows(self) -> int:
        """Of a request."""
        return rows.BATCH_ROWS if self.kind == "json" else load.LINES.get(self.kind, 1)


@dataclass
class Found:
    """The rounds of a cell: rows per second, and the rest."""

    rates: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    service_us: list[float] = field(default_factory=list)
    store_us: list[float] = field(default_factory=list)


def cells() -> Iterator[Cell]:
    """All of them, in the order of a round."""
    for rate, ids, kind in product(RATES, (False, True), ("feedback", *load.LINES, "json")):
        if not (ids and kind == "json"):
            yield Cell(kind, rate, ids, 1)


def measure(service: Service, generator: Load, cell: Cell, seconds: float, found: Found) -> int:
    """One round of a cell; the rows that were answered."""
    before = service.used()
    route = "feedback/batch" if cell.rows > 1 else cell.kind
    job = load.Job(service.port, cell.kind, f"/models/{cell.rate}/{route}", cell.connections, seconds, ids=cell.ids)
    tally = generator.run(job)
    answered, used = tally.acknowledged * cell.rows, service.used()
    found.rates.append(tally.rate * cell.rows)
    found.p50_ms.append(tally.p50_ms)
    found.p99_ms.append(tally.p99_ms)
    found.service_us.append(1e6 * (used.service - before.service) / answered)
    found.store_us.append(1e6 * (used.store - before.store) / answered)
    return answered


def pin(service: Service) -> None:
    """Give the service and its store the first core, and this process and its load the others."""
    first, *others = sorted(os.sched_getaffinity(0))
    served = [service.system, *service.system.children(recursive=True)]
    for process in psutil.Process().children(recursive=True):
        for thread in process.threads():
            os.sched_setaffinity(thread.id, {first} if process in served else {*others} or {first})
    os.sched_setaffinity(0, {*others} or {first})


def line(cell: Cell, found: Found) -> str:
    """A line of the table."""
    return (
        f"{cell.rows:>5}{cell.rate:>8}{'ids' if cell.ids else '':>5}{median(found.rates):>11,.0f}"
        f"{median(found.p50_ms):>9.2f}{median(found.p99_ms):>9.2f}{median(found.service_us):>9.1f}"
        f"{median(found.store_us):>8.1f}{1e6 / median(found.service_us):>12,.0f}"
    )


def main() -> int:
    """Print the table; 1 where a model has not learned what was answered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each cell in each round")
    given = parser.parse_args()
    rounds, seconds = (1, 0.4) if given.quick else (given.rounds, given.seconds)
    found = {cell: Found() for cell in cells()}
    learned = dict.fromkeys(RATES, 0)
    with Service() as service, Load() as generator:
        pin(service)
        for name, params in RATES.items():
            service.create(name, rows.model(params))
        for _ in range(rounds):
            for cell, own in found.items():
                learned[cell.rate] += measure(service, generator, cell, seconds, own)
        wrong = [name for name, count in learned.items() if service.rows(name) != count]
    print(
        f"{'rows':>5}{'rate':>8}{'':>5}{'rows/s':>11}{'p50 ms':>9}{'p99':>9}{'svc us':>9}{'store':>8}{'rows/CPU s':>12}"
    )
    for cell, own in found.items():
        print(line(cell, own))
    if wrong:
        print(f"WRONG: {', '.join(wrong)} did not learn what was answered")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
