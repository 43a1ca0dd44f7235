"""Sparse-DFOP: accuracy beside the paper's, and what RECOVER finds: ``python -m tests.benchmarks.sparse``.

Table 3, a9a (123 names, majority 75.9 %): the ten subsets of section 6.1, each with an M of its own, for the paper's
recommended rate 2e-3 and for "auto"; full DFOP on the same rows beside it. Then section 6.2
(tests/benchmarks/high_dimension.py).

Exits with 1 where a9a at the paper's rate is more than 0.01 away from Table 3, or a support is not recovered.
The files are read from ../shared/data beside the repository; without them their tables are left out.
"""

import sys
from typing import Any

import numpy as np

from core.contract import Floats, Ints, Spec
from core.features import SparseSchema
from core.learners.catalogue import find
from core.numerics.linalg import single_threaded
from tests.benchmarks.accuracy import subsets
from tests.benchmarks.high_dimension import section_6_2
from tests.benchmarks.streams import DATA, read_columns

PAPER, TOLERANCE = 0.830, 0.01
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


def main() -> int:
    """Print the tables, draw the figure; 1 where a figure is missed."""
    single_threaded()
    met = True
    if DATA.is_dir():
        met = a9a()
    else:
        print(f"SKIPPED: a9a, no benchmark data in {DATA}", file=sys.stderr)
    found = section_6_2()
    if not met:
        print(f"\nMISSED: a9a is more than {TOLERANCE} away from {PAPER}", file=sys.stderr)
    return 0 if met and found else 1


if __name__ == "__main__":
    sys.exit(main())
