"""What random features bring, and what they cost: ``python -m tests.benchmarks.random_features [COUNT]`` (default 100).

A-priori accuracy in per cent (friedman: squared error over the variance) of dfop, rate "auto": as it is by default;
with robust scaling; with robust scaling and random features, three seeds; and of dynamic_odm with and without them.
Then the time of a row. The first 10 000 rows of each stream; streams of files are left out where ../shared/data is not.
"""

import sys
import time

import numpy as np

from core.contract import Floats, Ints, Learner, Spec
from core.features.scaling import Scaler
from core.learners.catalogue import find
from core.numerics.linalg import single_threaded
from tests.benchmarks.generators import flipped, mixed, random_tree
from tests.benchmarks.streams import DATA, classification, multiclass

ROWS, SEEDS = 10_000, 3
FILES = ("weather_noaa", "electricity", "static/magic", "static/letter")


def ring(rng: np.random.Generator) -> tuple[Floats, Ints]:
    """Inside or outside a circle whose centre moves once; 5 % of the labels flipped."""
    X = rng.normal(size=(ROWS, 2))
    centre = np.where(np.arange(ROWS)[:, None] < ROWS // 2, 0.0, 0.7)
    return X, flipped(rng, (((X - centre) ** 2).sum(axis=1) > 1.4).astype(np.int64), 0.05)


def chess(rng: np.random.Generator) -> tuple[Floats, Ints]:
    """A board of four by four fields."""
    X = rng.random((ROWS, 2))
    return X, np.floor(4 * X).sum(axis=1).astype(np.int64) % 2


def product(rng: np.random.Generator) -> tuple[Floats, Ints]:
    """The sign of a product of two of five columns, of two others from the middle on."""
    X = rng.normal(size=(ROWS, 5))
    which = (np.arange(ROWS) >= ROWS // 2).astype(np.int64)
    return X, mixed(X, lambda X: (X[:, 0] * X[:, 1] > 0) * 1, lambda X: (X[:, 2] * X[:, 3] > 0) * 1, which)


def clusters(rng: np.random.Generator) -> tuple[Floats, Ints]:
    """Thirty normal clusters in five dimensions, of three classes."""
    at = rng.integers(0, 30, ROWS)
    centres, labels = rng.normal(size=(30, 5)) * 2, rng.integers(0, 3, 30)
    return centres[at] + rng.normal(size=(ROWS, 5)) / 2, labels[at].astype(np.int64)


def sine(rng: np.random.Generator) -> tuple[Floats, Ints]:
    """Above or below a sine; turned round from the middle on."""
    X = rng.random((ROWS, 2))
    above = (X[:, 1] > 0.5 + 0.3 * np.sin(3 * np.pi * X[:, 0])).astype(np.int64)
    return X, np.where(np.arange(ROWS) < ROWS // 2, above, 1 - above)


def friedman(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Friedman's first regression: a product, a square and two lines of ten uniform columns, noise of deviation 1."""
    X = rng.random((ROWS, 10))
    bent = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return X, bent + 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=ROWS)


GENERATED = {
    "ring": ring,
    "chess": chess,
    "product": product,
    "clusters": clusters,
    "sine": sine,
    "tree": lambda rng: random_tree(int(rng.integers(100)), ROWS),
    "friedman": friedman,
}


def stream(name: str) -> tuple[Floats, Floats | Ints]:
    """Rows (n, d) and class indices or numbers (n,)."""
    if name in GENERATED:
        return GENERATED[name](np.random.default_rng(0))
    X, y = multiclass(name) if "/" in name else classification(name)
    return np.ascontiguousarray(X[:ROWS]), y[:ROWS]


def built(algorithm: str, X: Floats, y: Floats | Ints, seed: int, **given: object) -> tuple[Scaler, Learner]:
    """Scaler and learner, all classes known."""
    entry = find(algorithm)
    params = entry.complete(given)
    task = "regression" if y.dtype == np.float64 else "classification"
    learner = entry.build(Spec(task, X.shape[1], params, seed))  # type: ignore[arg-type]
    for _ in range(0 if task == "regression" else int(y.max()) + 1):
        learner.add_class()
    return Scaler(params["scaling"], X.shape[1]), learner


def score(algorithm: str, X: Floats, y: Floats | Ints, seed: int = 0, **given: object) -> float:
    """Per cent right, or squared error over the variance."""
    scaler, learner = built(algorithm, X, y, seed, **given)
    told = learner.learn(scaler.absorb(X), y).value
    if y.dtype == np.float64:
        return float(((told - y) ** 2).mean() / y.var())
    return float(100 * (told == y).mean())


def row_us(algorithm: str, X: Floats, y: Floats | Ints, size: int, **given: object) -> float:
    """CPU time of a row in blocks of some size, microseconds."""
    scaler, learner = built(algorithm, X, y, 0, **given)
    rows = len(y) if size > 1 else 2000
    learner.learn(scaler.absorb(X[:rows]), y[:rows])
    begin = time.process_time()
    for at in range(0, rows, size):
        learner.learn(scaler.absorb(X[at : at + size]), y[at : at + size])
    return (time.process_time() - begin) / rows * 1e6


def main() -> int:
    """Print the tables."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print(f"{'':14}{'dfop':>9}{'robust':>9}{f'+ {count}':>9}{'spread':>9}{'dyn. odm':>9}{f'+ {count}':>9}")
    lines = []
    for name in (*GENERATED, *(FILES if DATA.is_dir() else ())):
        X, y = stream(name)
        rich = [score("dfop", X, y, seed, scaling="robust", random_features=count) for seed in range(SEEDS)]
        line = [score("dfop", X, y), score("dfop", X, y, scaling="robust"), float(np.mean(rich)), float(np.ptp(rich))]
        if y.dtype != np.float64:
            line += [score("dynamic_odm", X, y), score("dynamic_odm", X, y, random_features=count)]
            lines.append(line)
        print(f"{name:14}" + "".join(f"{value:9.2f}" for value in line), flush=True)
    print(f"{'mean, classes':14}" + "".join(f"{value:9.2f}" for value in np.mean(lines, axis=0)))
    X, y = stream("friedman")
    print("\nus a row of 10 columns, alone and in blocks of 1000")
    for algorithm, given in (("dfop", {}), ("dfop", {"forgetting_rate": 0.01}), ("gdfop", {})):
        for features in (0, count):
            times = [row_us(algorithm, X, y, size, random_features=features, **given) for size in (1, 1000)]
            print(f"{algorithm} {given or ''} {features:4} random features {times[0]:9.1f} {times[1]:9.1f}", flush=True)
    return 0


if __name__ == "__main__":
    with single_threaded():
        sys.exit(main())
