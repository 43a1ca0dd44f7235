"""CPU time per row over HTTP: by algorithm and way of sending, and by the number of columns in core.

Models of ten columns and two classes with their defaults. Every round measures each cell once; medians over rounds of
user and system time of the service and of its store, divided by the rows that were answered, which depends less on what
else the machine does than seconds do.
"""

import time
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from core.config import Config
from core.drift.outbox import KEPT
from core.entry import Entry, Rows
from core.model import Model, save
from core.model.apply import apply
from core.numerics.linalg import single_threaded
from tests.benchmarks import rows
from tests.benchmarks.batches import Cell, Found, measure
from tests.benchmarks.processes import Load, Service

DENSE = ("auto", "dfop", "gdfop", "rls", "dynamic_odm", "odm", "vigo", "vigod", "vigow", "ga2m", "fesl_c", "fesl_s")
"""All algorithms but sparse_dfop, whose cost depends on the names of a row."""
WIDTHS = (10, 30, 100)
BLOCK_ROWS = 1000
DRIFT_BLOCKS = 3
"""Blocks between two drifts."""
STAMP = {"incarnation": "0" * 16, "version": 1, "uid": "0" * 24}
"""Beside the state in a snapshot; of the usual lengths."""


class Way(NamedTuple):
    """A way of sending rows."""

    kind: str
    connections: int
    ids: bool = False

    def of(self, algorithm: str) -> Cell:
        """The cell of an algorithm; the name of its model is the algorithm's."""
        return Cell(self.kind, algorithm, self.ids, self.connections)


WAYS = {
    "1 connection": Way("feedback", 1),
    "64 connections": Way("feedback", 64),
    "the same, ids": Way("feedback", 64, ids=True),
    "batch": Way("json", 1),
    "predict": Way("predict", 64),
}
"""Single rows, batches of a thousand rows as JSON; predictions are single."""
SHORT = ("64 connections", "batch", "predict")
"""The ways that every algorithm is measured in; the others cost the same more or less of each."""
FULL = ("dfop", "auto")


def over_http(algorithms: Sequence[str], rounds: int, seconds: float) -> None:
    """Print a line for each algorithm: microseconds of the service and, behind the stroke, of its store."""
    found = {
        (algorithm, name): Found() for algorithm in algorithms for name in WAYS if name in SHORT or algorithm in FULL
    }
    with Service(ids_max="10000000") as service, Load() as generator:
        for algorithm in algorithms:
            service.create(algorithm, {**rows.model({}), "algorithm": algorithm})
        for number in range(rounds + 1):
            for (algorithm, name), own in found.items():
                measure(service, generator, WAYS[name].of(algorithm), seconds if number else 0.3, own)
            if not number:  # compiles, fills caches
                for key in found:
                    found[key] = Found()
    print(f"\nCPU us a row, service | store{'':3}" + "".join(f"{name:>19}" for name in WAYS))
    for algorithm in algorithms:
        cells = [found.get((algorithm, name)) for name in WAYS]
        print(f"{algorithm:32}" + "".join(f"{_cell(own):>19}" for own in cells), flush=True)


def _cell(found: Found | None) -> str:
    return "" if found is None else f"{median(found.service_us):.1f} | {median(found.store_us):.1f}"


class Learned(NamedTuple):
    """A model that has learned some blocks.

    Attributes:
        row_us: CPU time of a row in a block.
        memory: bytes of its state in memory.
        snapshot: bytes of its state as it is stored.
    """

    row_us: float
    memory: int
    snapshot: int


def learn(algorithm: str, width: int, classes: int, rounds: int) -> Learned:
    """Teach a model some blocks of rows, in this process."""
    names, labels = [f"x{at}" for at in range(width)], [f"c{at}" for at in range(classes)]
    config = Config.parse({"algorithm": algorithm, "task": "classification", "features": names, "labels": labels})
    model, rng, spent = Model.first(config), np.random.default_rng(width), []
    weights = rng.normal(size=width)
    for version in range(1, rounds + 2):
        X = rng.normal(size=(BLOCK_ROWS, width))
        ranks = np.argsort(np.argsort(X @ weights + rng.normal(size=BLOCK_ROWS)))
        entry = Entry(
            version, version, (Rows(config.space.id, None, X, [labels[k * classes // BLOCK_ROWS] for k in ranks]),)
        )
        begin = time.process_time_ns()
        apply(model, entry)
        spent.append((time.process_time_ns() - begin) / 1e3 / BLOCK_ROWS)
    return Learned(median(spent[1:]), model.nbytes, len(save.to_bytes(model, STAMP)))


def in_core(algorithms: Sequence[str], rounds: int) -> None:
    """Print a line for each algorithm: a row of so many columns, and what the state takes."""
    single_threaded()
    cases = [(width, 2) for width in WIDTHS] + [(WIDTHS[0], 10)]
    heads = "".join(f"{f'{width} x {classes}':>28}" for width, classes in cases)
    print(f"\ncolumns x classes {'':14}{heads}")
    print(f"{'':32}" + f"{'us':>8}{'KiB':>10}{'stored':>10}" * len(cases))
    for algorithm in algorithms:
        found = [learn(algorithm, width, classes, rounds) for width, classes in cases]
        cells = "".join(f"{own.row_us:8.1f}{own.memory / 1024:10.1f}{own.snapshot / 1024:10.1f}" for own in found)
        print(f"{algorithm:32}{cells}", flush=True)


def drifted() -> None:
    """Print what a model takes that has drifted until its state keeps the most events that it may."""
    names, labels, rng = [f"x{at}" for at in range(WIDTHS[0])], ["c0", "c1"], np.random.default_rng(3)
    given = {"algorithm": "rls", "task": "classification", "features": names, "labels": labels}
    model, found, version = Model.first(Config.parse(given)), [], 0
    while not found or len(model.outbox.after((0, 0, 0))) < KEPT:
        version += 1
        turned = version // DRIFT_BLOCKS % 2
        X = rng.normal(size=(BLOCK_ROWS, len(names))) + 2 * turned
        y = [labels[int(own > 0) ^ turned] for own in X @ np.linspace(-1.0, 1.0, len(names))]
        apply(model, Entry(version, version, (Rows(model.config.space.id, None, X, y),)))
        if version == DRIFT_BLOCKS:
            found.append((model.nbytes, len(save.to_bytes(model, STAMP))))
    found.append((model.nbytes, len(save.to_bytes(model, STAMP))))
    told = " -> ".join(f"memory {memory / 1024:.0f}, stored {stored / 1024:.0f}" for memory, stored in found)
    print(f"rls before and after {model.outbox.total} drifts, KiB: {told}", flush=True)
