"""Sparse-DFOP: accuracy beside the paper's, what RECOVER finds, what it costs: ``python -m tests.benchmarks.sparse``.

Table 3, a9a (123 names, majority 75.9 %): the ten subsets of section 6.1, each with an M of its own, for the paper's
recommended rate 2e-3 and for "auto"; full DFOP on the same rows beside it. w8a (300 names, majority 97.0 %): balanced
accuracy, the mean over the two classes, because accuracy says nothing there; the file is sorted by class for half its
length, so it is shuffled (seed 0) and learned whole. What helps its rare class (2.97 %): models with class costs, with
weights of its rows, with more columns. Then section 6.2 (tests/benchmarks/high_dimension.py) and the projection's cost.

Exits with 1 where a9a at the paper's rate is more than 0.01 away from Table 3, or a support is not recovered.
The files are read from ../shared/data beside the repository; without them their tables are left out.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from core.config import Config
from core.contract import Floats, Ints, Spec
from core.entry import Entry, Rows
from core.features import SparseSchema
from core.learners.catalogue import find
from core.model import Model, read
from core.model.apply import apply
from core.numerics.linalg import single_threaded
from tests.benchmarks.accuracy import subsets
from tests.benchmarks.high_dimension import section_6_2
from tests.benchmarks.streams import DATA, read_columns

PAPER, TOLERANCE = 0.830, 0.01
SEEDS = 5
BATCH = 5000
SETTINGS: tuple[tuple[str, int, Any], ...] = (
    ("sparse_dfop", 100, 2e-3),
    ("sparse_dfop", 100, "auto"),
    ("sparse_dfop", 50, "auto"),
    ("sparse_dfop", 200, "auto"),
    ("dfop", 0, 2e-3),
    ("dfop", 0, "auto"),
)


def stream(name: str) -> tuple[Floats, Ints]:
    """Rows (n, D) and labels (n,) in 0, 1."""
    *features, label = read_columns(f"sparse/{name}")
    return np.array(features, dtype=np.float64).T, (np.array(label, dtype=np.float64) > 0).astype(np.int64)


def learned(algorithm: str, rate: Any, X: Floats, y: Ints) -> Ints:
    """A-priori labels of rows in the learner's own columns."""
    entry = find(algorithm)
    learner = entry.build(Spec("classification", X.shape[1], entry.complete({"forgetting_rate": rate})))
    learner.add_class()
    learner.add_class()
    told: Ints = learner.learn(np.ascontiguousarray(X), y).value
    return told


def columns(setting: tuple[str, int, Any], X: Floats, seed: int) -> Floats:
    """The rows as a learner sees them: projected by the M of a seed, or as they are."""
    algorithm, d, _ = setting
    if algorithm == "dfop":
        return X
    return X @ SparseSchema(seed, d, "sign").projection.columns([str(j) for j in range(X.shape[1])]).T


def balanced(told: Ints, y: Ints) -> float:
    """Mean over the classes of the share of their rows that was predicted right."""
    return float(np.mean([(told[y == k] == k).mean() for k in (0, 1)]))


def _line(setting: tuple[str, int, Any], *scores: list[float]) -> None:
    algorithm, d, rate = setting
    name = f"{algorithm} {f'd = {d} ' if d else ''}{rate}"
    print(f"  {name:30}" + "".join(f"{np.mean(own):9.4f} +-{np.std(own):.4f}" for own in scores), flush=True)


def a9a() -> bool:
    """Table 3's a9a; whether the paper's figure is met."""
    X, y = stream("a9a")
    print(f"a9a, ten subsets, majority {1 - y.mean():.3f}: accuracy (Table 3: {PAPER}), balanced accuracy")
    met = True
    for setting in SETTINGS:
        pairs = [(learned(setting[0], setting[2], columns(setting, X[rows], k), y[rows]), y[rows]) for k, rows in
                 enumerate(subsets(len(y)))]  # fmt: skip
        accuracies = [float((told == truth).mean()) for told, truth in pairs]
        _line(setting, accuracies, [balanced(*pair) for pair in pairs])
        if setting == SETTINGS[0]:
            met = abs(float(np.mean(accuracies)) - PAPER) <= TOLERANCE
    return met


def w8a() -> None:
    """Balanced accuracy on w8a."""
    X, y = stream("w8a")
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    print(f"\nw8a, shuffled, majority {1 - y.mean():.3f}: accuracy (Table 3: .898), balanced accuracy")
    for setting in SETTINGS:
        told = [
            learned(setting[0], setting[2], columns(setting, X, seed), y) for seed in range(SEEDS if setting[1] else 1)
        ]
        _line(setting, [float((labels == y).mean()) for labels in told], [balanced(labels, y) for labels in told])


def model(d: int, X: Floats, y: Ints, costs: float | None, weight: float | None) -> tuple[Ints, dict[str, Any]]:
    """What a model says of w8a before each row, and its metrics; d = 0: dfop on all columns."""
    body: dict[str, Any] = {"algorithm": "dfop", "features": [f"x{j}" for j in range(X.shape[1])]}
    if d:
        body = {"algorithm": "sparse_dfop", "params": {"compressed_dim": d}}
    body |= {"task": "classification", "labels": [0, 1], "watch": None, "class_costs": {"1": costs} if costs else None}
    machine = Model.first(Config.parse(body))
    space = machine.prediction_schema
    if isinstance(space, SparseSchema):
        X = X @ space.projection.columns([str(j) for j in range(X.shape[1])]).T
    weights = None if weight is None else np.where(y == 1, weight, 1.0)
    assert space is not None
    told: list[Any] = []
    for version, begin in enumerate(range(0, len(y), BATCH)):
        part = slice(begin, begin + BATCH)
        given = None if weights is None else weights[part]
        rows = Rows(space.id, None, np.ascontiguousarray(X[part]), y[part].tolist(), weights=given)
        (outcome,) = apply(machine, Entry(version + 1, 0, (rows,)))
        told += outcome.predictions  # type: ignore[union-attr]
    return np.array(told), read.metrics_report(machine)["overall"]


def rare() -> None:
    """Recall, precision and balanced accuracy of the rare class of w8a, and how well it is ranked."""
    X, y = stream("w8a")
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    heads = ("recall", "precision", "balanced", "roc_auc", "avg prec.")
    print(f"\nw8a, its rare class, rate auto\n{'':38}" + "".join(f"{head:>10}" for head in heads))
    for d in (100, 200, 400, 0):
        for costs, weight in ((None, None), (10.0, None), (30.0, None), (None, 10.0)):
            told, overall = model(d, X, y, costs, weight)
            hits = ((told == 1) & (y == 1)).sum()
            line = [hits / (y == 1).sum(), hits / max((told == 1).sum(), 1), balanced(told, y)]
            line += [overall["roc_auc"], overall["average_precision"]]
            how = f"class_costs {costs:g}" if costs else f"weight {weight:g}" if weight else ""
            name = f"{f'd = {d}' if d else 'all columns'} {how}"
            print(f"  {name:36}" + "".join(f"{value:10.3f}" for value in line), flush=True)


def seconds(work: Callable[[], object]) -> float:
    """Of one call, the best of five repetitions of many."""
    work()
    best = np.inf
    for _ in range(5):
        calls, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < 0.05:
            work()
            calls += 1
        best = min(best, (time.perf_counter() - begin) / calls)
    return float(best)


def projection() -> None:
    """Microseconds per row, checked and projected."""
    print("\nprojection, us per row of 10, 100, 1000 names: checks included, in batches of 100 rows | a single row")
    for kind in ("sign", "gaussian"):
        for d in (100, 1000):
            schema = SparseSchema(0, d, kind)
            cells = []
            for count in (10, 100, 1000):
                names, values = [f"word {at}" for at in range(count)], [1.5] * count
                row = dict(zip(names, values, strict=True))
                batch = seconds(lambda: schema.lists([names] * 100, [values] * 100)) / 100  # noqa: B023
                cells.append((batch, seconds(lambda: schema.row(row))))  # noqa: B023
            table = "".join(f"{1e6 * batch:9.1f}" for batch, _ in cells) + " |"
            print(f"  {kind:9} d = {d:<14}{table}" + "".join(f"{1e6 * single:9.1f}" for _, single in cells), flush=True)


def main() -> int:
    """Print the tables, draw the figure; 1 where a figure is missed."""
    single_threaded()
    met = True
    if DATA.is_dir():
        met = a9a()
        w8a()
        rare()
    else:
        print(f"SKIPPED: a9a and w8a, no benchmark data in {DATA}", file=sys.stderr)
    found = section_6_2()
    projection()
    if not met:
        print(f"\nMISSED: a9a is more than {TOLERANCE} away from {PAPER}", file=sys.stderr)
    return 0 if met and found else 1


if __name__ == "__main__":
    sys.exit(main())
