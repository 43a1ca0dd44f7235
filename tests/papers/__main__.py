"""The papers' tables, repeated: ``python -m tests.papers [--tables dfop1,odm2,...] [--quick]``.

    dfop1, dfop4   section 6.1 of DFOP: of a stream of T rows ten subsets of 4T/5 rows in a row that start at T/50, ...
                   10T/50, a fresh learner on each; mean a-priori accuracy, or squared error times 100
    dfop3          the same of Sparse-DFOP with 100 columns, an M of its own on each subset; w8a, which is sorted by
                   class, is shuffled and learned whole (its majority class has 97.0 %)
    recover        section 6.2: of the ten excited of 1000 names, how many RECOVER finds at the end of each stage
    odm2           Table 2 of dynamic ODM by the same protocol; the paper's SEA is another draw
    vigo2          Table 2 of VIGO: mistakes on static sets in random orders, text as numbers; ten orders, a hundred
                   where there are fewer than 5000 rows
    vigo4          Table 4: mistakes on generated streams, five seeds; the paper's Hyperplane has 10 M rows, this 1 M
    fesl2          Table 2 of FESL: T1 = T2 = n/2, ten overlap rows, a Gaussian image; accuracy on T2, ten runs

A line has the paper's figure, ours by the paper's variant (of dfop, gdfop and rls their own class) and the distance;
then ours by the defaults, no change (the last label or value) and majority. What is held has a bound: seven streams of
DFOP to .3 points of what was measured when it was written, a9a to 1 of the paper; ODM by its defaults at most 1 point
below; VIGO .6 points (Table 4: .5), or two standard errors of a mean of ten orders, from what was measured. Exits with
1 where a figure leaves its bound. Sets that are not in PAPERS_DATA are named and left out.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from core.contract import Floats, Learner, Spec
from core.features import SparseSchema
from core.features.scaling import Scaler
from core.learners.catalogue import find
from core.learners.dfop.sparse import recover
from core.numerics.linalg import single_threaded
from tests.benchmarks.streams import generators
from tests.papers.files import drifting, indices, numbers, read_columns, regression
from tests.papers.switches import DIMENSIONS, Life, mapped, standardised

DFOP1 = {
    "SEA": (1e-3, 87.99, 84.54), "1CDT": (0.01, 99.97, 98.79), "2CDT": (0.01, 96.36, 62.24),
    "1CHT": (0.01, 99.84, 98.49), "UG_2C_2D": (0.001, 95.59, 67.02), "GEARS_2C_2D": (0.001, 95.83, 95.84),
    "weather_noaa": (0.01, 79.23, 78.35), "powersupply": (0.3, 80.46, 69.67), "usenet1": (0.02, 69.20, 60.65),
    "luxembourg": (0.002, 99.09, 99.06), "electricity": (0.001, 76.94, 74.20),
}  # fmt: skip
"""The rate, DFOP's accuracy, and that of RLS."""
DFOP1_HELD = {
    "1CDT": 99.99, "2CDT": 96.17, "1CHT": 99.86, "UG_2C_2D": 95.58, "GEARS_2C_2D": 95.83, "weather_noaa": 79.23,
    "luxembourg": 99.26,
}  # fmt: skip
DFOP4 = (
    ("sru y1", "dfop", 0.2, 0.063),
    ("sru y2", "dfop", 0.3, 0.064),
    ("sru y1", "rls", 0, 0.306),
    ("sru y2", "rls", 0, 0.392),
)
ODM2 = {
    "SEA": 87.49, "1CDT": 99.98, "2CDT": 95.99, "1CHT": 99.90, "UG_2C_2D": 95.99, "GEARS_2C_2D": 95.98,
    "weather_noaa": 79.11, "powersupply": 75.12, "usenet1": 68.98, "luxembourg": 98.98, "electricity": 76.80,
}  # fmt: skip
ODM2_BEHIND_MAX = {"luxembourg": 1.5, "weather_noaa": math.inf}
"""What the linear model misses of Weather is told, not held."""
VIGOS = ("vigo", "vigod", "vigow")
VIGO2 = {
    "balance": (11.28, 12.56, 11.28), "contraceptive": (50.10, 52.03, 50.22), "dermatology": (9.11, 6.34, 9.11),
    "glass": (45.05, 48.88, 45.05), "ionosphere": (10.43, 10.43, 10.43), "iris": (7.53, 10.13, 7.53),
    "led7digit": (33.16, 33.16, 33.16), "letter": (13.73, 20.85, 13.96), "libras": (30.64, 29.53, 30.64),
    "magic": (21.77, 22.26, 21.72), "marketing": (69.29, 69.05, 69.38), "skin_nonskin": (1.65, 1.56, 1.67),
    "tic_tac_toe": (26.96, 27.37, 27.14),
}  # fmt: skip
VIGO2_HELD = {
    "balance": (11.3, 12.0), "glass": (45.0, 50.4), "ionosphere": (9.1,), "iris": (6.3, 11.3), "led7digit": (32.2,),
    "letter": (13.6, 26.3), "libras": (30.9, 30.0), "magic": (21.8, 22.7), "skin_nonskin": (1.64, 1.64),
}  # fmt: skip
VIGO4: dict[str, tuple[Callable[..., generators.Stream], bool, tuple[float, ...], tuple[float | None, ...]]] = {
    "SEA": (generators.sea, False, (2.99, 2.84, 2.23), (2.85, 2.73, 1.97)),
    "Random tree": (generators.random_tree, False, (32.97, 30.66, 30.65), ()),
    "Hyperplane": (generators.hyperplane, False, (11.70, 11.70, 12.43), (11.74, 11.73, 12.51)),
    "SEA-A": (generators.sea, True, (3.93, 2.81, 2.63), (None, 3.59)),
    "Random tree-A": (generators.random_tree, True, (39.29, 36.56, 36.81), ()),
    "Hyperplane-A": (generators.hyperplane, True, (50.00, 15.21, 17.41), (49.7, 15.3, 17.3)),
}
"""The generator, whether its drift is abrupt, the paper's figures, and what is held."""
FESL2 = {
    "australian": (1.0, 84.9, 84.9), "credit_g_german": (1 / 50, 70.0, 70.3), "svmguide3": (1.0, 77.9, 77.8),
    "kr_vs_kp": (1 / 100, 62.6, 63.0),
}  # fmt: skip
"""1/c of section 6.2, FESL-c, FESL-s; B is 5 or 10, the paper does not say which."""
SPARSE = {"a9a": 83.0, "w8a": 89.8}
COMPRESSED, SPARSE_RATE = 100, 2e-3
NAMES_D, EXCITED, STAGES, STAGE_ROWS = 1000, 10, 5, 500
OVERLAP, RUNS, SUBSETS, SEEDS, FEW_ROWS = 10, 10, 10, 5, 5000


class Figure(NamedTuple):
    """A row of a table.

    Attributes:
        what: stream and learner.
        paper: the paper's figure, None where it prints none.
        values: ours by the paper's form, of every repetition; their mean is compared.
        beside: means of what stands beside: the defaults, no change, majority.
        low, high: the bounds of our mean, or of the defaults' where ``held_default``.
        held_default: whether the bound is that of the defaults.
    """

    what: str
    paper: float | None
    values: list[float]
    beside: tuple[float, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    held_default: bool = False

    def show(self, held: bool) -> bool:
        """Print it; whether it keeps its bounds, if it is held to them."""
        mean = float(np.mean(self.values))
        kept = not held or self.low <= (self.beside[0] if self.held_default else mean) <= self.high
        told = (
            f"{'-':>9}{mean:9.2f}{'':9}"
            if self.paper is None
            else f"{self.paper:9.2f}{mean:9.2f}{mean - self.paper:+9.2f}"
        )
        cells = "".join(f"{cell:9.2f}" for cell in self.beside)
        print(f"{self.what:32}{told} +-{np.std(self.values):5.2f}{cells}{'' if kept else '   MISSED'}", flush=True)
        return kept


class Size(NamedTuple):
    """How much is repeated: subsets or orders or seeds at most, and rows at most."""

    runs: int = 1000
    rows: int | None = None


def learner(algorithm: str, d: int, classes: int, seed: int = 0, **given: Any) -> Learner:
    """A learner that knows its classes; 0 for regression."""
    entry = find(algorithm)
    task = "classification" if classes else "regression"
    built = entry.build(Spec(task, d, entry.complete(given), seed))
    for _ in range(classes):
        built.add_class()
    return built


def right(algorithm: str, X: Floats, y: Any, **given: Any) -> float:
    """Per cent right a-priori; `odm` and `dynamic_odm` have their scaling in front, as in a model."""
    scaling = find(algorithm).complete(given)["scaling"] if algorithm.endswith("odm") else "none"
    X = np.ascontiguousarray(X) if scaling == "none" else Scaler(scaling, X.shape[1]).absorb(np.ascontiguousarray(X))
    return float(100 * (learner(algorithm, X.shape[1], int(y.max()) + 1, **given).learn(X, y).value == y).mean())


def baselines(y: Any) -> tuple[float, float]:
    """No change and majority of the two classes so far, per cent right."""
    majority = 2 * np.cumsum(y)[:-1] > np.arange(1, len(y))
    return float(100 * (y[1:] == y[:-1]).mean()), float(100 * (majority == y[1:]).mean())


def subsets(rows: int, size: Size) -> list[slice]:
    """The ten subsets of section 6.1."""
    return [slice(k * rows // 50, k * rows // 50 + 4 * rows // 5) for k in range(1, min(SUBSETS, size.runs) + 1)]


def means(lines: list[tuple[float, ...]]) -> tuple[float, ...]:
    """Of each column."""
    return tuple(np.mean(lines, axis=0).tolist())


# ---------------------------------------------------------------- DFOP


def dfop1(size: Size) -> Iterator[Figure]:
    """Accuracy on streams that drift."""
    for name, (rate, *papers) in DFOP1.items():
        X, y = drifting(name)
        parts = [(X[part], y[part]) for part in subsets(len(y), size)]
        for algorithm, paper, given in zip(("dfop", "rls"), papers, ({"forgetting_rate": rate}, {}), strict=True):
            values = [right(algorithm, *part, **given) for part in parts]
            beside = means([(right("dfop", *part), *baselines(part[1])) for part in parts])
            held = DFOP1_HELD.get(name, math.nan) if algorithm == "dfop" else math.nan
            bounds = (-math.inf, math.inf) if math.isnan(held) else (held - 0.3, held + 0.3)
            yield Figure(f"{name} {algorithm} {rate if given else ''}", paper, values, beside, *bounds)


def dfop3(size: Size) -> Iterator[Figure]:
    """Accuracy with names that are projected."""
    for name, paper in SPARSE.items():
        *features, label = read_columns(f"sparse/{name}")
        X, y = np.array(features, dtype=np.float64).T, (np.array(label, dtype=np.float64) > 0).astype(np.int64)
        parts = subsets(len(y), size)
        if name == "w8a":
            parts = [np.random.default_rng(seed).permutation(len(y)) for seed in range(min(SEEDS, size.runs))]
        names, values = [str(j) for j in range(X.shape[1])], []
        for seed, part in enumerate(parts):
            projected = X[part] @ SparseSchema(seed, COMPRESSED, "sign").projection.columns(names).T
            values.append(right("sparse_dfop", projected, y[part], forgetting_rate=SPARSE_RATE))
        beside = means([(right("dfop", X[part], y[part]), *baselines(y[part])) for part in parts[:1]])
        yield Figure(
            f"{name} sparse_dfop {SPARSE_RATE}", paper, values, beside, *((82.0, 84.0) if name == "a9a" else ())
        )


def recovered(size: Size) -> Iterator[Figure]:
    """Rows by (23), r <- r / 10 + U(-1, 1)^10; y = r'w + N(0, .05^2), where w moves by N(0, .1) every 500 rows."""
    rng, schema = np.random.default_rng(0), SparseSchema(0, COMPRESSED, "gaussian")
    M = schema.projection.columns([f"name {j}" for j in range(NAMES_D)])
    model = learner("sparse_dfop", COMPRESSED, 0, forgetting_rate=SPARSE_RATE, bias=False)
    r, w, found = np.zeros(EXCITED), rng.normal(size=EXCITED), []
    for _ in range(min(STAGES, size.runs)):
        X = np.empty((STAGE_ROWS, EXCITED))
        for t in range(STAGE_ROWS):
            X[t] = r = r / 10 + rng.uniform(-1, 1, EXCITED)
        model.learn(X @ M[:, :EXCITED].T, X @ w + rng.normal(0, 0.05, STAGE_ROWS))
        weights = recover(M, model.weights().coefficients[0], EXCITED).weights
        found.append(float((np.argsort(-np.abs(weights))[:EXCITED] < EXCITED).sum()))
        w = w + rng.normal(0, np.sqrt(0.1), EXCITED)
    yield Figure("names found of 10", 10.0, found, (), 10.0)


def dfop4(size: Size) -> Iterator[Figure]:
    """Squared error times 100 on SRU."""
    for name, algorithm, rate, paper in DFOP4:
        X, y = regression(name)
        given, values, beside = {"bias": False, **({"forgetting_rate": rate} if rate else {})}, [], []
        for part in subsets(len(y), size):
            rows, truth = np.ascontiguousarray(X[part]), y[part]
            forms = (learner(algorithm, X.shape[1], 0, **given), learner("dfop", X.shape[1], 0))
            ours, default = (float(100 * ((one.learn(rows, truth).value - truth) ** 2).mean()) for one in forms)
            values.append(ours)
            beside.append((default, float(100 * (np.diff(truth) ** 2).mean())))
        yield Figure(f"{name} {algorithm} {rate or ''}", paper, values, means(beside))


# ---------------------------------------------------------------- ODM, VIGO, FESL


def odm2(size: Size) -> Iterator[Figure]:
    """Accuracy on streams that drift; T is known, C = 4 lambda, V_T = T/100."""
    for name, paper in ODM2.items():
        X, y = drifting(name)
        parts = [(X[part], y[part]) for part in subsets(len(y), size)]
        values = [
            right(
                "dynamic_odm",
                *part,
                variant="paper",
                horizon=float(len(part[1])),
                bound=40.0,
                variation=len(part[1]) / 100,
            )
            for part in parts
        ]
        beside = means([(right("dynamic_odm", *part), *baselines(part[1])) for part in parts])
        yield Figure(
            f"{name} dynamic_odm", paper, values, beside, paper - ODM2_BEHIND_MAX.get(name, 1.0), held_default=True
        )


def vigo2(size: Size) -> Iterator[Figure]:
    """Mistakes on static sets."""
    for name, papers in VIGO2.items():
        *features, label = read_columns(f"static/{name}")
        X, y = np.stack([numbers(column) for column in features], axis=1), indices(label)
        runs = min(size.runs, RUNS if len(y) >= FEW_ROWS else 10 * RUNS)
        orders = [np.random.default_rng(seed).permutation(len(y))[: size.rows] for seed in range(runs)]
        yield from _mistakes(name, [(X[order], y[order]) for order in orders], papers, VIGO2_HELD.get(name, ()), 0.6)


def vigo4(size: Size) -> Iterator[Figure]:
    """Mistakes on generated streams."""
    for name, (make, abrupt, papers, held) in VIGO4.items():
        given = {"abrupt": abrupt, **({"rows": size.rows} if size.rows else {})}
        streams = [make(seed, **given) for seed in range(min(SEEDS, size.runs))]
        yield from _mistakes(name, streams, papers, held, 0.5)


def _mistakes(name: str, streams: list[Any], papers: Any, held: Any, tolerance: float) -> Iterator[Figure]:
    for kind, paper, at in zip(VIGOS, papers, (*held, None, None, None), strict=False):
        values = [100 - right(kind, *stream, variant="paper") for stream in streams]
        beside = float(np.mean([100 - right(kind, *stream) for stream in streams]))
        apart = max(tolerance, 2 * float(np.std(values)) / math.sqrt(RUNS))
        bounds = (-math.inf, math.inf) if at is None else (at - apart, at + apart)
        yield Figure(f"{name} {kind}", paper, values, (beside,), *bounds)


def fesl2(size: Size) -> Iterator[Figure]:
    """Accuracy after a change of features; beside it by the defaults."""
    for name, (step, *papers) in FESL2.items():
        X, y = standardised(name)
        half, runs = len(y) // 2, range(min(RUNS, size.runs))
        streams = [mapped(X, y, DIMENSIONS[name][1], np.random.default_rng(seed)) for seed in runs]
        paper_form = {"variant": "paper", "learning_rate": step, "horizon": len(y) - half}
        for algorithm, paper in zip(("fesl_c", "fesl_s"), papers, strict=True):
            forms: list[list[float]] = []
            for given in (paper_form, {}):
                forms.append([])
                for seed, stream in enumerate(streams):
                    life = Life(stream, algorithm, seed, **given)
                    life.feed(0, half - OVERLAP)
                    life.begin()
                    life.feed(half - OVERLAP, half)
                    life.complete()
                    forms[-1].append(float(100 - 100 * life.feed(half, len(y)).mean()))
            yield Figure(f"{name} {algorithm}", paper, forms[0], (float(np.mean(forms[1])),))


TABLES: dict[str, Callable[[Size], Iterator[Figure]]] = {
    "dfop1": dfop1, "dfop3": dfop3, "dfop4": dfop4, "recover": recovered, "odm2": odm2, "vigo2": vigo2, "vigo4": vigo4,
    "fesl2": fesl2,
}  # fmt: skip


def main() -> int:
    """Print the tables; 1 where a figure leaves its bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=lambda text: text.split(","), default=list(TABLES), help=",".join(TABLES))
    parser.add_argument("--quick", action="store_true", help="one repetition of few rows, to see that it runs")
    given = parser.parse_args()
    single_threaded()
    shown = kept = 0
    for name in given.tables:
        print(f"\n{name:32}{'paper':>9}{'ours':>9}{'distance':>9}{'sd':>8}{'default':>9}{'no chng':>9}{'majority':>9}")
        try:
            for figure in TABLES[name](Size(1, 2000) if given.quick else Size()):
                shown, kept = shown + 1, kept + figure.show(not given.quick)
        except FileNotFoundError as error:
            print(f"NOT REPEATED: {error.filename} is not there", file=sys.stderr)
    print(f"\n{shown} figures, {shown - kept} of them outside their bounds")
    return 0 if kept == shown else 1


if __name__ == "__main__":
    sys.exit(main())
