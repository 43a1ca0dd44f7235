"""Rows over HTTP: single ones beside echoes, many models, what a store costs that syncs always; batches.

Every round measures every cell once, those that are compared right after each other; a ratio is the median of the
rounds' ratios. The model has ten columns; its rate is fixed unless it says auto.
"""

import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.benchmarks import rows
from tests.benchmarks.bench.generator import Asked, Generator, Measured
from tests.benchmarks.bench.table import Row, Table
from tests.benchmarks.load import Job
from tests.benchmarks.processes import Echo, Load, Process, Service

CONNECTIONS = (1, 16, 64)
MANY = 100
FIXED = {"forgetting_rate": 0.01}
ONE = "/models/m0/"


class Cell(NamedTuple):
    """What is measured: the server, and what it is asked."""

    server: str
    asked: Asked


def _single(connections: int) -> dict[str, Cell]:
    return {
        "echo": Cell("echo", Asked("feedback", f"{ONE}feedback", connections)),
        "bare": Cell("echo", Asked("feedback", "/bare/m0/feedback", connections)),
        "feedback": Cell("everysec", Asked("feedback", f"{ONE}feedback", connections)),
        "ids": Cell("everysec", Asked("feedback", f"{ONE}feedback", connections, ids=True)),
        "always": Cell("always", Asked("feedback", f"{ONE}feedback", connections)),
        "predict": Cell("everysec", Asked("predict", f"{ONE}predict", connections)),
    }


SINGLE = {connections: _single(connections) for connections in CONNECTIONS}
MODELS = Cell("everysec", Asked("feedback", "/models/m%d/feedback", 64, MANY))
BATCHES = {
    (kind, connections): Cell("everysec", Asked(kind, path, connections))
    for kind, path in (
        ("json", f"{ONE}feedback/batch"),
        ("csv", f"{ONE}feedback/batch?label=class"),
        ("npy", "/models/npy/feedback/batch"),
    )
    for connections in (1, 4)
}
BATCH_TARGETS = {"json": 200_000, "npy": 300_000}


class Bench:
    """The servers, the load and what has been found."""

    def __init__(self, generator: Generator, servers: dict[str, Process], seconds: int) -> None:
        self._generator, self._servers, self._seconds = generator, servers, seconds
        self.found: defaultdict[Cell, list[Measured]] = defaultdict(list)
        self._fed: defaultdict[tuple[str, str], int] = defaultdict(int)

    def cells(self) -> list[Cell]:
        """All, in the order in which a round measures them."""
        single = [cell for cells in SINGLE.values() for cell in cells.values()]
        many = [MODELS] if self._generator.many_models else []
        return [*single, *many, *BATCHES.values()]

    def round(self, seconds: int | None = None) -> None:
        """Everything once."""
        for cell in self.cells():
            measured = self._generator.run(self._servers[cell.server], cell.asked, seconds or self._seconds)
            self.found[cell].append(measured)
            self._count(cell, measured.answers)

    def _count(self, cell: Cell, answers: int) -> None:
        if cell.server != "echo" and cell.asked.kind != "predict" and cell.asked.models == 1:
            batch = rows.BATCH_ROWS if cell.asked.path.partition("?")[0].endswith("batch") else 1
            self._fed[cell.server, cell.asked.path.split("/")[2]] += answers * batch

    def lost(self) -> list[str]:
        """Models that have learned less than was acknowledged; what was under way when time was up may be more."""
        told = [(at, self._service(at[0]).rows(at[1]), fed) for at, fed in self._fed.items()]
        return [f"{at}: {learned} rows learned, {fed} acknowledged" for at, learned, fed in told if learned < fed]

    def _service(self, name: str) -> Service:
        service = self._servers[name]
        assert isinstance(service, Service)
        return service


def measure(rounds: int, seconds: int, say: Callable[[str], None]) -> tuple[list[Table], list[str]]:
    """The tables, and what was lost (nothing may be)."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        generator = stack.enter_context(Generator(folder))
        everysec, always = stack.enter_context(Service()), stack.enter_context(Service(durability="always"))
        bench = Bench(generator, {"echo": stack.enter_context(Echo()), "everysec": everysec, "always": always}, seconds)
        _create(everysec, always)
        bench.round(1)  # compiles, fills caches
        bench.found.clear()
        for number in range(rounds):
            bench.round()
            say(f"HTTP: round {number + 1} of {rounds}")
        lost = bench.lost()
    return [_single_table(bench.found, generator), _batch_table(bench.found)], lost


def _create(everysec: Service, always: Service) -> None:
    with Load() as load:
        names = tuple(f"m{number}" for number in range(MANY))
        load.run(Job(everysec.port, "create", connections=16, models=names, params=FIXED))
    always.create("m0", rows.model(FIXED))
    everysec.create("npy", rows.model(FIXED, (0, 1)))


# ------------------------------------------------------------------------------------------------ tables


def _single_table(found: dict[Cell, list[Measured]], generator: Generator) -> Table:
    note = "durable feedback, one row a request; echo: an endpoint of FastAPI with pydantic models, bare: plain ASGI; "
    note += f"sent by {generator.name}"
    table = Table("Single rows over HTTP", note)
    for connections, cells in SINGLE.items():
        at = f"{connections} connection{'s' if connections > 1 else ''}"
        feedback, echo = found[cells["feedback"]], found[cells["echo"]]
        table.rows += [
            Row(f"echo, {at}", _rates(echo), "rows/s", more=_latencies(echo)),
            Row(f"bare, {at}", _rates(found[cells["bare"]]), "rows/s", more=_latencies(found[cells["bare"]])),
            _beside(f"feedback, {at}", feedback, echo, "the echo", {1: 0.4, 64: 2.0}.get(connections)),
            _beside(f"feedback with ids, {at}", found[cells["ids"]], echo, "the echo", {64: 1.6}.get(connections)),
            _beside(f"predict, {at}", found[cells["predict"]], found[cells["bare"]], "bare", 0.45),
            _beside(f"always, {at}", found[cells["always"]], feedback, "everysec", {64: 0.75}.get(connections)),
        ]
    table.rows.append(_p99(found[SINGLE[16]["feedback"]], found[SINGLE[16]["echo"]]))
    if MODELS in found:
        one = found[SINGLE[64]["feedback"]]
        table.rows.append(_beside(f"{MANY} models, 64 connections", found[MODELS], one, "one model", 0.75))
    else:
        table.missing.append(f"{MANY} models: only wrk asks them in turn (apt install wrk)")
    return table


def _beside(what: str, found: list[Measured], other: list[Measured], against: str, target: float | None) -> Row:
    ratios = [own.rate / beside.rate for own, beside in zip(found, other, strict=True)]
    return Row(what, _rates(found), "rows/s", ratios, against, target, more=_latencies(found))


def _p99(found: list[Measured], echo: list[Measured]) -> Row:
    values = [own.p99_ms for own in found]
    ratios = [own.p99_ms / beside.p99_ms for own, beside in zip(found, echo, strict=True)]
    return Row("p99 of feedback, 16 connections", values, "ms", ratios, "the echo's", 2.5, at_most=True)


def _rates(found: list[Measured]) -> list[float]:
    return [own.rate for own in found]


def _latencies(found: list[Measured]) -> str:
    p50, p99, cpu = (
        sorted(column)[len(found) // 2] for column in zip(*(own[1:3] + own[4:] for own in found), strict=True)
    )
    return f"p50 {p50:.2f} ms, p99 {p99:.2f} ms, CPU {cpu:.0f} us"


def _batch_table(found: dict[Cell, list[Measured]]) -> Table:
    table = Table("Batches over HTTP", f"durable feedback, {rows.BATCH_ROWS} rows of 10 columns a request")
    for (kind, connections), cell in BATCHES.items():
        values = [own.rate * rows.BATCH_ROWS for own in found[cell]]
        cpu_us = median(own.cpu_us for own in found[cell]) / rows.BATCH_ROWS
        name = f"{'.npy' if kind == 'npy' else kind.upper()}, {connections} connection{'s' if connections > 1 else ''}"
        more = f"CPU {cpu_us:.1f} us a row"
        table.rows.append(Row(name, values, "rows/s", target=BATCH_TARGETS.get(kind), more=more))
    return table
