"""VIGO's prior and floor, and its speed with many columns: ``python -m tests.benchmarks.vigo_prior``.

A-priori accuracy in per cent of the paper's variant (V = I, no floor) and of other scales of V, in squared ranges, and
of the floor, in variances, than the default's .1 and .01: static sets in three random orders (5000 rows at most), the
first 8000 rows of drifting streams, and classes around random centres, few rows of each. Then rows per second.
"""

import sys
import time

import numpy as np

from core.contract import Floats, Ints
from core.learners.vigo import learner
from core.numerics.linalg import single_threaded
from tests.benchmarks.odm import clusters
from tests.benchmarks.streams import CLASSIFICATION, DATA, classification
from tests.benchmarks.vigo import PAPER_STATIC, mistakes, static

ORDERS, ROWS_MAX, STREAM_ROWS = 3, 5000, 8000
SETTINGS = ((0.1, 0.01), (0.01, 0.01), (0.03, 0.01), (0.3, 0.01), (1.0, 0.01), (0.1, 0.003), (0.1, 0.03))
"""Scale of the prior and of the floor; the first are the defaults."""
Runs = list[tuple[Floats, Ints]]


def sets() -> dict[str, Runs]:
    """The streams by name."""
    found: dict[str, Runs] = {}
    for name in PAPER_STATIC if DATA.is_dir() else ():
        X, y = static(name)
        orders = [np.random.default_rng(seed).permutation(len(y))[:ROWS_MAX] for seed in range(ORDERS)]
        found[name] = [(np.ascontiguousarray(X[order]), y[order]) for order in orders]
    for name in CLASSIFICATION if DATA.is_dir() else ("SEA",):
        X, y = classification(name)
        found[name] = [(np.ascontiguousarray(X[:STREAM_ROWS]), y[:STREAM_ROWS])]
    for rows, classes, columns in ((400, 8, 10), (1000, 20, 15)):
        found[f"{classes} clusters"] = [clusters(seed, rows, classes, columns) for seed in range(ORDERS)]
    return found


def prior() -> None:
    """Print accuracies."""
    heads = ["paper", *(f"{size:g}, {floor:g}" for size, floor in SETTINGS)]
    print(f"{'accuracy %':16}" + "".join(f"{head:>11}" for head in heads))
    lines = []
    for name, runs in sets().items():
        line = [np.mean([100 - mistakes("vigo", X, y, {"variant": "paper"})[0] for X, y in runs])]
        for learner.PRIOR_RANGES, learner.FLOOR in SETTINGS:
            line.append(np.mean([100 - mistakes("vigo", X, y, {})[0] for X, y in runs]))
        learner.PRIOR_RANGES, learner.FLOOR = SETTINGS[0]
        lines.append(line)
        print(f"{name:16}" + "".join(f"{value:11.2f}" for value in line), flush=True)
    print(f"{'mean':16}" + "".join(f"{value:11.2f}" for value in np.mean(lines, axis=0)))


def speed() -> None:
    """Print rows per second of processor time, two classes that overlap the more, the more columns there are."""
    print(f"\n{'columns':10}{'mistakes %':>12}{'rows/s':>10}")
    for columns in (10, 32, 64, 128, 256, 512):
        rng = np.random.default_rng(0)
        rows = 4000 if columns < 512 else 2000
        y = rng.integers(0, 2, rows)
        X = (rng.normal(size=(2, columns)) * 3 / np.sqrt(columns))[y] + rng.normal(size=(rows, columns))
        begin = time.process_time()
        wrong, _ = mistakes("vigo", X, y, {})
        print(f"{columns:<10}{wrong:12.1f}{rows / (time.process_time() - begin):10.0f}", flush=True)


def main() -> int:
    """Print both tables."""
    single_threaded()
    prior()
    speed()
    return 0


if __name__ == "__main__":
    sys.exit(main())
