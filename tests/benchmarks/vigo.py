"""Mistakes of VIGO, VIGOd and VIGOw beside the published figures: ``python -m tests.benchmarks.vigo``.

Table 2 of the paper: a-priori mistakes in per cent on static sets in random order, text columns as numbers in sorted
order. The published means are over 10 permutations; sets of fewer than 5000 rows have 100 here. The learner is told the
number of classes, but no ranges.

Table 4: the paper's drifting streams (tests/benchmarks/generators.py), means over 5 seeds; the paper's Hyperplane has
10 M rows, this one 1 M. "both" is VIGOd with ``reset_on: "both"``, and in brackets are its alarms per run.

Exits with 1 where the paper's variant is more than .6 points (Table 4: .5) from a figure of ALGORITHMS.md, where that
exceeds two standard errors of a mean of ten permutations (glass: 1.9 points), too; where the defaults are worse on
average over the static sets than the paper's figures; or where SEA-A with "both" is above 2.8 %.
The sets are read from ../shared/data beside the repository; without them Table 2 is skipped.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from core.contract import Floats, Ints, Spec
from core.learners.catalogue import find
from core.numerics.linalg import single_threaded
from tests.benchmarks import generators
from tests.benchmarks.streams import DATA, read_columns

KINDS = ("vigo", "vigod", "vigow")
STATIC_TOLERANCE, STREAM_TOLERANCE, SEA_A_MAX = 0.6, 0.5, 2.8
FEW_ROWS, FEW_PERMUTATIONS, PERMUTATIONS, SEEDS = 5000, 100, 10, 5

PAPER_STATIC = {
    "balance": (11.28, 12.56, 11.28),
    "contraceptive": (50.10, 52.03, 50.22),
    "dermatology": (9.11, 6.34, 9.11),
    "glass": (45.05, 48.88, 45.05),
    "ionosphere": (10.43, 10.43, 10.43),
    "iris": (7.53, 10.13, 7.53),
    "led7digit": (33.16, 33.16, 33.16),
    "letter": (13.73, 20.85, 13.96),
    "libras": (30.64, 29.53, 30.64),
    "magic": (21.77, 22.26, 21.72),
    "marketing": (69.29, 69.05, 69.38),
    "skin_nonskin": (1.65, 1.56, 1.67),
    "tic_tac_toe": (26.96, 27.37, 27.14),
}
OURS_STATIC: dict[str, tuple[float, ...]] = {
    "balance": (11.3, 12.0),
    "glass": (45.0, 50.4),
    "ionosphere": (9.1,),
    "iris": (6.3, 11.3),
    "led7digit": (32.2,),
    "letter": (13.6, 26.3),
    "libras": (30.9, 30.0),
    "magic": (21.8, 22.7),
    "skin_nonskin": (1.64, 1.64),
}
PAPER_STREAMS = {
    "SEA": (2.99, 2.84, 2.23),
    "Random tree": (32.97, 30.66, 30.65),
    "Hyperplane": (11.70, 11.70, 12.43),
    "SEA-A": (3.93, 2.81, 2.63),
    "Random tree-A": (39.29, 36.56, 36.81),
    "Hyperplane-A": (50.00, 15.21, 17.41),
}
OURS_STREAMS: dict[str, tuple[float | None, ...]] = {
    "SEA": (2.85, 2.73, 1.97),
    "Hyperplane": (11.74, 11.73, 12.51),
    "SEA-A": (None, 3.59),
    "Hyperplane-A": (49.7, 15.3, 17.3),
}
STREAMS: dict[str, Callable[[int], generators.Stream]] = {
    "SEA": generators.sea,
    "Random tree": generators.random_tree,
    "Hyperplane": generators.hyperplane,
    "SEA-A": lambda seed: generators.sea(seed, abrupt=True),
    "Random tree-A": lambda seed: generators.random_tree(seed, abrupt=True),
    "Hyperplane-A": lambda seed: generators.hyperplane(seed, abrupt=True),
}


def static(name: str) -> tuple[Floats, Ints]:
    """A static set: rows (n, d), text as numbers, and labels (n,) in 0 ... K - 1."""
    *features, label = read_columns(f"static/{name}")
    return np.stack([_numbers(column) for column in features], axis=1), _indices(label)


def _numbers(column: list[str]) -> Floats:
    try:
        return np.array(column, dtype=np.float64)
    except ValueError:
        return _indices(column).astype(np.float64)


def _indices(column: list[str]) -> Ints:
    return np.unique(np.array(column), return_inverse=True)[1].astype(np.int64)


def mistakes(kind: str, X: Floats, y: Ints, params: Mapping[str, Any]) -> tuple[float, int]:
    """Per cent wrong a-priori, and alarms."""
    entry = find(kind)
    learner: Any = entry.build(Spec("classification", X.shape[1], entry.complete(params)))
    for _ in range(int(y.max()) + 1):
        learner.add_class()
    wrong = learner.learn(np.ascontiguousarray(X), y).value != y
    return 100.0 * float(wrong.mean()), len(learner.take_alarms())


def permuted(name: str, variant: str) -> list[tuple[float, float]]:
    """Mean and deviation over permutations, for each of the three."""
    X, y = static(name)
    orders = [
        np.random.default_rng(seed).permutation(len(y))
        for seed in range(FEW_PERMUTATIONS if len(y) < FEW_ROWS else PERMUTATIONS)
    ]
    found = []
    for kind in KINDS:
        wrong = [mistakes(kind, X[order], y[order], {"variant": variant})[0] for order in orders]
        found.append((float(np.mean(wrong)), float(np.std(wrong, ddof=1))))
    return found


def _cells(values: Sequence[float | None]) -> str:
    return "".join(f"{'-':>7}" if value is None else f"{value:7.2f}" for value in (*values, None, None)[:3]) + "  |"


def _missed(name: str, found: Sequence[float], asked: Sequence[float | None], tolerances: Sequence[float]) -> list[str]:
    pairs = zip(KINDS, found, asked, tolerances, strict=False)
    return [f"{name} {kind}" for kind, a, b, tolerance in pairs if b is not None and abs(a - b) > tolerance]


def static_sets() -> list[str]:
    """Print Table 2; what was missed."""
    print(f"{'mistakes % of':15}{'paper variant':>21}  |{'deviation':>21}  |{'ALGORITHMS.md':>21}  |", end="")
    print(f"{'paper':>21}  |{'default':>21}  |")
    missed, defaults = [], []
    for name, paper in PAPER_STATIC.items():
        found = permuted(name, "paper")
        means, deviations = zip(*found, strict=True)
        defaults.append([mean for mean, _ in permuted(name, "default")])
        ours = OURS_STATIC.get(name, ())
        columns = (means, deviations, ours, paper, defaults[-1])
        print(f"{name:15}" + "".join(_cells(values) for values in columns), flush=True)
        errors = [2.0 * deviation / math.sqrt(PERMUTATIONS) for deviation in deviations]
        missed += _missed(name, means, ours, [max(STATIC_TOLERANCE, error) for error in errors])
    average, asked = np.mean(defaults, axis=0), np.mean(list(PAPER_STATIC.values()), axis=0)
    print(f"{'average':15}{_cells(()) * 3}{_cells(asked.tolist())}{_cells(average.tolist())}")
    return missed + [f"default {kind}" for kind, a, b in zip(KINDS, average, asked, strict=True) if a > b]


def streams() -> list[str]:
    """Print Table 4; what was missed."""
    print(f"\n{'mistakes % of':15}{'paper variant':>21}  |{'ALGORITHMS.md':>21}  |", end="")
    print(f"{'paper':>21}  |{'default':>21}  |{'both':>15}")
    missed = []
    for name, stream in STREAMS.items():
        found = np.array([_on_stream(*stream(seed)) for seed in range(SEEDS)]).mean(axis=0)
        ours = OURS_STREAMS.get(name, ())
        columns = (found[:3].tolist(), ours, PAPER_STREAMS[name], found[3:6].tolist())
        both = f"{found[6]:7.2f} ({found[7]:.1f})"
        print(f"{name:15}" + "".join(_cells(values) for values in columns) + f"{both:>15}", flush=True)
        missed += _missed(name, found[:3].tolist(), ours, [STREAM_TOLERANCE] * 3)
        if name == "SEA-A" and found[6] > SEA_A_MAX:
            missed.append("SEA-A both")
    return missed


def _on_stream(X: Floats, y: Ints) -> list[float]:
    wrong = [mistakes(kind, X, y, {"variant": variant})[0] for variant in ("paper", "default") for kind in KINDS]
    return [*wrong, *mistakes("vigod", X, y, {"reset_on": "both"})]


def main() -> int:
    """Print both tables; 1 where something is missed."""
    single_threaded()
    missed = []
    if DATA.is_dir():
        missed += static_sets()
    else:
        print(f"SKIPPED: no benchmark data in {DATA}", file=sys.stderr)
    missed += streams()
    if missed:
        print(f"\nMISSED: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
