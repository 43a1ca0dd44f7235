"""The figures of deploy/sizing.md: ``python -m tests.benchmarks.sizing [--parts cpu,core,...] [--quick]``.

    cpu      CPU time of a row over HTTP, of service and store: by algorithm, and by how rows are sent
    core     CPU time of a row of 10, 30 and 100 columns, and the size of the model: by algorithm
    models   memory of a loaded model, and what loading one costs: by algorithm
    store    what a row, an id, a tracked prediction and a model at rest take of the store, its file and the network

CPU time and bytes depend little on what else the machine does; the whole takes ten minutes on two cores. Models have
ten columns and two classes and their defaults unless a table says more.
"""

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import redis

from core.learners.catalogue import ALGORITHMS
from core.model import save
from core.numerics.linalg import single_threaded
from tests.benchmarks.harness import rows
from tests.benchmarks.harness.load import Asked, Generator
from tests.benchmarks.harness.processes import Process, Service, Used
from tests.benchmarks.one_row import Case, WarmModel
from tests.service.key_kinds import Held, held

DENSE = [one.id for one in ALGORITHMS.values() if not one.sparse]
"""The cost of a row of sparse_dfop depends on its names."""
KIB, MIB = 1024, 2**20
SHAPES = ((10, 2), (30, 2), (100, 2), (10, 10))
"""Columns and classes."""
STAMP = {"incarnation": "0" * 16, "version": 1, "uid": "0" * 24}
"""Beside the state in a snapshot; of the usual lengths."""
WAYS = {
    "1 connection": Asked("feedback", "feedback"),
    "64 connections": Asked("feedback", "feedback", 64),
    "the same, ids": Asked("feedback", "feedback", 64, ids=True),
    "batch": Asked("json", "feedback/batch"),
    "predict": Asked("predict", "predict", 64),
}
SHORT, FULL = ("64 connections", "batch", "predict"), ("dfop", "auto")
"""The ways that every algorithm is measured in, and the algorithms that are measured in all of them."""
BATCHES = {"batch": (1000, False), "batch, ids": (1000, True), "batch of 100, ids": (100, True)}
"""Rows of a batch, and whether they have ids."""
BATCHED, TRACKED, TAUGHT = 30_000, 2000, 2000
"""Rows sent in batches, tracked predictions, rows of a model whose memory is taken."""
SETTLED_S = 0.5
"""Answers to ids are stored within a tenth of a second."""
ALL_OF_THE_LOG = {"snapshot_min_kb": "1000000", "ids_max": "10000000"}


def show(name: str, cells: Iterable[Any], digits: int = 1) -> None:
    """Print a line of a table."""
    told = (f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell) for cell in cells)
    print(f"{name:28}" + "".join(f"{cell:>16}" for cell in told), flush=True)


# ---------------------------------------------------------------- cpu


def over_http(algorithms: Sequence[str], rounds: int, seconds: float, generator: Generator) -> None:
    """Microseconds of the service and, behind the stroke, of its store; every round measures each cell once."""
    cells = [(algorithm, way) for algorithm in algorithms for way in WAYS if way in SHORT or algorithm in FULL]
    found: dict[tuple[str, str], list[Used]] = {cell: [] for cell in cells}
    with Service(ids_max="10000000") as service:
        for algorithm in algorithms:
            service.create(algorithm, rows.model({}, algorithm=algorithm))
        for number in range(rounds + 1):
            for algorithm, way in cells:
                asked = WAYS[way]._replace(path=f"/models/{algorithm}/{WAYS[way].path}")
                told = generator.run(service, asked, seconds)
                if number:  # the first round compiles, and fills caches
                    found[algorithm, way].append(Used(told.service_us / asked.rows, told.store_us / asked.rows))
    print("\nCPU us a row, service | store")
    show("", WAYS)
    for algorithm in algorithms:
        own = [[*zip(*found[algorithm, way], strict=True)] if (algorithm, way) in found else () for way in WAYS]
        show(algorithm, (" | ".join(f"{median(column):.1f}" for column in columns) for columns in own))


# ---------------------------------------------------------------- core


def in_core(algorithms: Sequence[str], rounds: int) -> None:
    """A row of so many columns in a block, and what the state takes."""
    print("\nus of a row, KiB in memory, KiB stored; columns x classes")
    show("", (f"{width} x {classes}" for width, classes in SHAPES for _ in range(3)))
    for algorithm in algorithms:
        cells: list[float] = []
        for width, classes in SHAPES:
            warm = WarmModel(Case(algorithm, classes, {}), width)
            _, *spent = [warm.measure()[1] for _ in range(rounds + 1)]
            cells += [median(spent), warm.model.nbytes / KIB, len(save.to_bytes(warm.model, STAMP)) / KIB]
        show(algorithm, cells)


# ---------------------------------------------------------------- models


def in_service(algorithms: Sequence[str], models: int) -> None:
    """Memory of each of so many models, and loads of them after a start."""
    print(f"\n{models} models, {TAUGHT} rows each")
    heads = ("first, MiB", "taught, KiB", "loaded, KiB", "counted, KiB", "load, ms", "p99", "CPU, ms")
    show("", heads)
    for algorithm in algorithms:
        with Service() as service:
            show(algorithm, _loaded(service, algorithm, [f"m{number}" for number in range(models)]))


def _loaded(service: Service, algorithm: str, names: list[str]) -> list[float]:
    table = rows.to_json(rows.table(TAUGHT, 1))

    def teach(name: str) -> None:
        service.create(name, rows.model({}, algorithm=algorithm))
        service.ask("POST", f"/models/{name}/feedback/batch", table)

    begin = service.memory()
    teach("first")
    one, counted = service.memory(), service.counter("onepass_models_bytes")
    for name in names:
        teach(name)
    taught, counted = service.memory() - one, service.counter("onepass_models_bytes") - counted
    service.stop()
    service.start()
    service.ask("GET", "/models/first")  # imports what the algorithm needs
    waits, used, empty = [], service.used(), service.memory()
    for name in names:
        at = time.perf_counter()
        service.ask("GET", f"/models/{name}")
        waits.append(1e3 * (time.perf_counter() - at))
    spent = 1e3 * (service.used().service - used.service) / len(names)
    each = (size / len(names) / KIB for size in (taught, service.memory() - empty, counted))
    return [(one - begin) / MIB, *each, median(waits), sorted(waits)[int(0.99 * len(names))], spent]


# ---------------------------------------------------------------- store


def each_way(seconds: float, generator: Generator) -> None:
    """What a row leaves in the store, by the way it was sent, before anything is trimmed."""
    print("\na row: bytes, and microseconds of CPU")
    show("", ("rows", "rows/entry", "service us", "store us", "log", "ids", "file", "received", "sent"))
    for name, way in WAYS.items():
        if way.kind == "feedback":
            asked = way._replace(path="/models/dfop/feedback")
            _weighed(name, lambda service, asked=asked: generator.run(service, asked, seconds))
    for name, (size, ids) in BATCHES.items():
        _weighed(name, lambda service, size=size, ids=ids: _send(service, size, ids))


def _send(service: Service, size: int, ids: bool) -> None:
    table = rows.table(size, 1)
    for number in range(BATCHED // size):
        named = {"ids": [f"{number:06d}-abcdef-{row:06d}" for row in range(size)]} if ids else {}
        service.ask("POST", "/models/dfop/feedback/batch", {**table, **named})


def _weighed(name: str, send: Callable[[Service], object]) -> None:
    with Service(**ALL_OF_THE_LOG) as service:
        service.create("dfop", rows.model({}))
        store, used = _store(service), service.used()
        before = _totals(store)
        send(service)
        time.sleep(SETTLED_S)
        count, kinds = service.rows("dfop"), held(store)
        spent = (1e6 * (now - early) / count for now, early in zip(service.used(), used, strict=True))
        log, ids = kinds["log"], sum(kinds.get(kind, Held()).bytes for kind in ("seen", "seen_due"))
        grown = (now - early for now, early in zip(_totals(store), before, strict=True))
        show(name, (count, count / log.entries, *spent, *(size / count for size in (log.bytes, ids, *grown))))


def _totals(store: redis.Redis) -> tuple[int, int, int]:
    """Bytes of the store's file, and what it has received and sent so far."""
    info: Any = {**store.info("persistence"), **store.info("stats")}
    return info["aof_current_size"], info["total_net_input_bytes"], info["total_net_output_bytes"]


def at_rest(models: int) -> None:
    """What a tracked prediction takes, and a model that was created, that learned a row, that was written."""
    row = rows.single(1, 1)[0]
    with Service() as service:
        service.create("dfop", rows.model({}))
        service.ask("POST", "/models/dfop/feedback", row)
        for body in rows.asked(TRACKED, 1):
            service.ask("POST", "/models/dfop/predict", body[:-1] + b',"track":true}')
        kinds = held(_store(service))
    print("\nbytes of a tracked prediction; of a model at rest: created, with one row, with a snapshot")
    show("tracked", [(kinds["pending"].bytes + kinds["pending_due"].bytes) / TRACKED], 0)
    for algorithm in FULL:
        body = rows.to_json(rows.model({}, algorithm=algorithm))
        with Service() as service:
            store, found = _store(service), []
            before = store.info("memory")["used_memory"]
            for method, path, sent in (("PUT", "", body), ("POST", "/feedback", row), ("POST", "/snapshots", None)):
                for number in range(models):
                    service.ask(method, f"/models/m{number}{path}", sent)
                found.append((store.info("memory")["used_memory"] - before) / models)
        show(algorithm, found, 0)


def _store(service: Process) -> redis.Redis:
    """The service's private store, whose file is not rewritten meanwhile: it would be smaller then."""
    found = redis.Redis(unix_socket_path=str(service.socket))
    found.config_set("auto-aof-rewrite-percentage", 0)
    return found


def main() -> None:
    """Print the tables."""
    parts = ("cpu", "core", "models", "store")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=lambda text: text.split(","), default=parts, help=",".join(parts))
    parser.add_argument("--algorithms", type=lambda text: text.split(","), default=DENSE)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each cell in each round")
    parser.add_argument("--models", type=int, default=100, help="of each algorithm, in the part models")
    parser.add_argument("--quick", action="store_true", help="one short round of everything, to see that it runs")
    given = parser.parse_args()
    if unknown := {*given.parts} - {*parts}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    rounds, begun = 1 if given.quick else given.rounds, time.monotonic()
    print(f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}, load {os.getloadavg()[0]:.1f} before")
    with tempfile.TemporaryDirectory() as folder:
        generator = Generator(Path(folder))
        if "cpu" in given.parts:
            over_http(given.algorithms, rounds, given.seconds, generator)
        if "core" in given.parts:
            single_threaded()
            in_core(given.algorithms, rounds)
        if "models" in given.parts:
            in_service(given.algorithms, 10 if given.quick else given.models)
        if "store" in given.parts:
            each_way(given.seconds, generator)
            at_rest(50 if given.quick else 500)
    print(f"\n{time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
