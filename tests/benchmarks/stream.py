"""Streams of rows beside single requests and batches: ``python -m tests.benchmarks.stream [--quick]``.

Feedback on models of d = 10 with a fixed forgetting rate and with "auto", with and without an id per row: single
requests at 1 and 64 connections, batches of 1000 rows as JSON, and streams at 1 and 4 connections with 1, 64 and 1024
rows in flight; then predictions. All cells of a round follow each other on one service with its private store; printed
are medians over the rounds, and the CPU time of service and store per row, which depends less on what else the machine
does. The last lines are what a single row of another model waits for beside a stream at full speed.

The load of streams comes from raw sockets (``stream_load``), that of requests from ``load``. Rows are counted against
what the models say they have learned.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import product
from statistics import median
from typing import Any, NamedTuple

from tests.benchmarks import load, rows, stream_load
from tests.benchmarks.processes import ROOT, Load, Service

RATES: dict[str, dict[str, Any]] = {"fixed": {"forgetting_rate": 0.01}, "auto": {}}
WINDOWS, CONNECTIONS = (1, 64, 1024), (1, 4)
REACH = {
    ("feedback", "fixed", False, 64): 60_000,
    ("feedback", "fixed", False, 1024): 180_000,
    ("feedback", "auto", False, 64): 45_000,
    ("feedback", "auto", False, 1024): 110_000,
    ("feedback", "fixed", True, 64): 30_000,
    ("feedback", "fixed", True, 1024): 60_000,
}
"""Rows a second of one connection that a quiet machine of two cores should reach."""


class Cell(NamedTuple):
    """What is measured; ``window``: rows in flight of each stream, 0 for requests."""

    kind: str
    rate: str
    ids: bool
    connections: int
    window: int = 0

    @property
    def name(self) -> str:
        """In a few words."""
        how = f"stream, {self.window} in flight" if self.window else {"json": "batch"}.get(self.kind, "single")
        return f"{'predict' if self.kind == 'predict' else 'feedback'} {how}"


@dataclass
class Found:
    """The rounds of a cell: rows per second, and the rest."""

    rates: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    service_us: list[float] = field(default_factory=list)
    store_us: list[float] = field(default_factory=list)
    refused: int = 0


def cells() -> Iterator[Cell]:
    """All of them, in the order of a round."""
    for rate, ids in product(RATES, (False, True)):
        for connections in (1, 64):
            yield Cell("feedback", rate, ids, connections)
        if not ids:
            for connections in CONNECTIONS:
                yield Cell("json", rate, ids, connections)
        for connections, window in product(CONNECTIONS, WINDOWS):
            yield Cell("feedback", rate, ids, connections, window)
    for connections in (1, 64):
        yield Cell("predict", "fixed", False, connections)
    for window in WINDOWS:
        yield Cell("predict", "fixed", False, 1, window)


def streamed(service: Service, cell: Cell, seconds: float) -> stream_load.Tally:
    """One job of the generator of streams."""
    path = f"/models/{cell.rate}/{cell.kind}/stream"
    job = stream_load.Job(service.port, path, cell.kind, cell.connections, cell.window, seconds, ids=cell.ids)
    command = [sys.executable, "-m", "tests.benchmarks.stream_load", json.dumps(asdict(job))]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return stream_load.Tally(**json.loads(told.stdout))


def measure(service: Service, generator: Load, cell: Cell, seconds: float, found: Found) -> int:
    """One round of a cell; the rows that were answered."""
    before = service.used()
    if cell.window:
        streams = streamed(service, cell, seconds)
        answered, each = streams.answered, 1
        rate, p50_ms, p99_ms = streams.rate, streams.p50_ms, streams.p99_ms
        found.refused += streams.refused
    else:
        route = {"json": "feedback/batch"}.get(cell.kind, cell.kind)
        path = f"/models/{cell.rate}/{route}"
        tally = generator.run(load.Job(service.port, cell.kind, path, cell.connections, seconds, ids=cell.ids))
        each = rows.BATCH_ROWS if cell.kind == "json" else 1
        answered, rate, p50_ms, p99_ms = tally.acknowledged, tally.rate, tally.p50_ms, tally.p99_ms
        found.refused += sum(tally.others.values())
    used = service.used()
    found.rates.append(rate * each)
    found.p50_ms.append(p50_ms)
    found.p99_ms.append(p99_ms)
    found.service_us.append(1e6 * (used.service - before.service) / (answered * each))
    found.store_us.append(1e6 * (used.store - before.store) / (answered * each))
    return answered * each


def beside(service: Service, generator: Load, seconds: float) -> Iterator[str]:
    """What single rows wait for while a stream brings as much as it can."""
    service.create("other", rows.model(RATES["fixed"]))
    alone = load.Job(service.port, "feedback", "/models/other/feedback", 1, seconds)
    for window in (0, *WINDOWS[1:]):
        job = stream_load.Job(service.port, "/models/fixed/feedback/stream", window=window, seconds=seconds + 1)
        command = [sys.executable, "-m", "tests.benchmarks.stream_load", json.dumps(asdict(job))]
        running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) if window else None
        tally = generator.run(alone)
        rate = json.loads(running.communicate()[0])["rate"] if running else 0.0
        waits = f"p50 {tally.p50_ms:.2f}, p99 {tally.p99_ms:.2f} ms"
        yield f"single rows of another model beside {window:>5} in flight ({rate:9,.0f} rows/s): {waits}"


def line(cell: Cell, found: Found) -> str:
    """A line of the table."""
    reach = REACH.get((cell.kind, cell.rate, cell.ids, cell.window)) if cell.connections == 1 else None
    target = "" if reach is None else f"  of {reach:,}: {median(found.rates) / reach:.2f}"
    return (
        f"{cell.name:32}{cell.rate:>6}{'ids' if cell.ids else '':>5}{cell.connections:>6}{median(found.rates):>11,.0f}"
        f"{median(found.p50_ms):>9.2f}{median(found.p99_ms):>9.2f}{median(found.service_us):>9.1f}"
        f"{median(found.store_us):>8.1f}{found.refused:>8}{target}"
    )


def main() -> int:
    """Print the table; 1 where rows were refused, or a model has not learned what was answered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each cell in each round")
    given = parser.parse_args()
    rounds, seconds = (1, 0.4) if given.quick else (given.rounds, given.seconds)
    found = {cell: Found() for cell in cells()}
    learned = dict.fromkeys(RATES, 0)
    with Service() as service, Load() as generator:
        for name, params in RATES.items():
            service.create(name, rows.model(params))
        for _ in range(rounds):
            for cell, own in found.items():
                answered = measure(service, generator, cell, seconds, own)
                learned[cell.rate] += 0 if cell.kind == "predict" else answered
        wrong = [name for name, count in learned.items() if service.rows(name) != count]
        names = f"{'rows/s':>11}{'p50 ms':>9}{'p99':>9}{'svc us':>9}{'store':>8}{'refused':>8}"
        print(f"{'':32}{'rate':>6}{'':>5}{'conns':>6}{names}")
        for cell, own in found.items():
            print(line(cell, own))
        for said in beside(service, generator, seconds):
            print(said)
    if wrong:
        print(f"WRONG: {', '.join(wrong)} did not learn what was answered")
    return 1 if wrong or any(own.refused for own in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
