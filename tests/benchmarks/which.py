"""Every algorithm of the catalogue with its defaults, on kinds of streams: ``python -m tests.benchmarks.which``.

What ``use_when`` of GET /algorithms says comes from these figures: mean a-priori accuracy in per cent over the first
10 000 rows of each stream of a group, for numbers the squared error in units of the labels' variance, and microseconds
of processor time per row in blocks of 1000, all streams together. The last lines have other parameters.

    drifting    the papers' streams, in their order
    static      the files of static/, shuffled
    turning     SEA, a hyperplane and a random tree that go back and forth every 10 000 of 30 000 rows; LED and mixed
                kinds, which change every 5000 of 20 000
    bent        classes between which no plane runs: clusters in a ring, a chess board, random trees, Gaussian mixtures
    outliers    the drifting streams, 1 % of whose rows are times 1e4
    units       the drifting streams, their columns in units from 1e-4 to 1e4
    numbers     SRU, and the price of electricity from the other columns

Frauds found are those of tests/core/machine/test_class_costs.py, by the metrics of the whole stream.

Without ../shared/data only generated streams are learned.
"""

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from core.config import Config
from core.contract import Floats, Ints
from core.entry import Entry, Rows
from core.learners.catalogue import ALGORITHMS
from core.machine import Machine
from core.numerics.linalg import single_threaded
from tests.benchmarks.generators import hyperplane, led, mixed_kinds, random_tree, sea
from tests.benchmarks.streams import CLASSIFICATION, DATA, classification, multiclass, read_columns, regression

ROWS, BLOCK = 10_000, 1000
STATIC = ("contraceptive", "letter", "magic", "led7digit", "ionosphere", "tic_tac_toe", "balance", "dermatology")

Stream = tuple[Floats, Any]


def drifting() -> Iterator[Stream]:
    """The papers' streams."""
    for name in CLASSIFICATION if DATA.is_dir() else ("SEA",):
        yield classification(name)


def static() -> Iterator[Stream]:
    """Files of examples that know no order."""
    for name in STATIC if DATA.is_dir() else ():
        yield multiclass(f"static/{name}")


def bent() -> Iterator[Stream]:
    """Classes that no plane parts."""
    rng = np.random.default_rng(0)
    angle = rng.integers(0, 12, ROWS)
    ring = 3 * np.stack([np.cos(angle * np.pi / 6), np.sin(angle * np.pi / 6)], axis=1)
    yield ring + 0.4 * rng.normal(size=ring.shape), angle % 2
    board = rng.uniform(0, 4, (ROWS, 2))
    yield board, board.astype(np.int64).sum(axis=1) % 2
    yield random_tree(0, ROWS)
    centres = rng.normal(size=(12, 6))
    of = rng.integers(0, 12, ROWS)
    yield centres[of] + 0.4 * rng.normal(size=(ROWS, 6)), of % 3


def turning() -> Iterator[Stream]:
    """Concepts that change at once, and come back or not."""
    for generated in (sea, hyperplane, random_tree):
        yield generated(0, 30_000, abrupt=True)
    yield led()
    yield mixed_kinds()


def outliers() -> Iterator[Stream]:
    """Drifting streams, some of whose rows are measured wrongly."""
    for at, (X, y) in enumerate(drifting()):
        wild = np.random.default_rng(at).random(len(X)) < 0.01
        yield np.where(wild[:, None], 1e4 * X, X), y


def units() -> Iterator[Stream]:
    """Drifting streams, each column in a unit of its own."""
    for at, (X, y) in enumerate(drifting()):
        yield X * 10.0 ** np.random.default_rng(at).uniform(-4, 4, X.shape[1]), y


def numbers() -> Iterator[Stream]:
    """Measurements of a process, and a price."""
    if not DATA.is_dir():
        return
    yield regression("sru y1")
    yield regression("sru y2")
    columns = np.array(read_columns("drift/electricity")[:-1], dtype=np.float64).T
    yield np.ascontiguousarray(np.delete(columns, 2, axis=1)), columns[:, 2]


GROUPS: dict[str, Callable[[], Iterator[Stream]]] = {
    "drifting": drifting,
    "static": static,
    "turning": turning,
    "bent": bent,
    "outliers": outliers,
    "units": units,
    "numbers": numbers,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "dfop scaled": {"algorithm": "dfop", "params": {"scaling": "robust"}},
    "dfop features": {"algorithm": "dfop", "params": {"scaling": "robust", "random_features": 100}},
    "dfop lags": {"algorithm": "dfop", "lags": 2},
    "odm features": {"algorithm": "dynamic_odm", "params": {"random_features": 100}},
    "auto small": {"algorithm": "auto", "params": {"size": "small"}},
    "auto large": {"algorithm": "auto", "params": {"size": "large"}},
}
"""Other configurations than the defaults, by the name of their line."""


def learned(own: dict[str, Any], X: Floats, y: Any) -> tuple[float, float]:
    """Accuracy in per cent or the error, and the seconds it took."""
    task = "classification" if y.dtype.kind == "i" else "regression"
    body = {**own, "task": task, "features": [f"x{at}" for at in range(X.shape[1])], "watch": None}
    machine, began = Machine(Config.parse(body)), time.process_time()
    space = machine.prediction_schema
    assert space is not None
    for at in range(0, len(y), BLOCK):
        labels = y[at : at + BLOCK]
        rows = Rows(space.id, None, X[at : at + BLOCK], labels if task == "regression" else labels.tolist())
        machine.apply(Entry(1 + at // BLOCK, 0, (rows,)))
    overall = machine.metrics_report()["overall"]
    score = 100 * overall["accuracy"] if task == "classification" else overall["mse"] / float(y.var())
    return score, time.process_time() - began


def line(name: str, streams: dict[str, list[Stream]]) -> str:
    """One line of the table."""
    own = VARIANTS.get(name, {"algorithm": name})
    entry, cells, seconds, rows = ALGORITHMS[own["algorithm"]], [], 0.0, 0
    for group, found in streams.items():
        scores = []
        for X, y in found if ("regression" if group == "numbers" else "classification") in entry.tasks else ():
            score, took = learned(own, X, y)
            scores.append(score)
            seconds, rows = seconds + took, rows + len(y)
        digits = 3 if group == "numbers" else 1
        cells.append(f"{np.mean(scores):10.{digits}f}" if scores else f"{'-':>10}")
    return f"{name:14}" + "".join(cells) + f"{1e6 * seconds / rows:10.1f}"


def shortened(X: Floats, y: Ints) -> Stream:
    """The first rows."""
    return np.ascontiguousarray(X[:ROWS]), y[:ROWS]


def main(asked: list[str]) -> int:
    """Print the table, of some algorithms or all."""
    single_threaded()
    streams = {group: [(X, y) if of is turning else shortened(X, y) for X, y in of()] for group, of in GROUPS.items()}
    print(f"{'':14}" + "".join(f"{group:>10}" for group in streams) + f"{'us a row':>10}")
    for algorithm in asked or [*(entry.id for entry in ALGORITHMS.values() if not entry.sparse), *VARIANTS]:
        print(line(algorithm, streams), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
