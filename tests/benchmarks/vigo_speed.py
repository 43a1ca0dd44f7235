"""Rows per second of the VIGO family beside other classifiers: ``python -m tests.benchmarks.vigo_speed``.

Test then train, row after row, on one core; CPU times of the process, the best of several runs, one BLAS thread,
everything in one process. K normal classes in D columns, each with centre and covariance of its own. river and
scikit-learn are skipped loudly where they are not installed: install them into an environment of their own that also
sees this one's packages; they are not among the project's requirements.

    vigo ...    one learn call of many rows; "one row": VIGO, a call per row
    GNB, HAT    river's GaussianNB and HoeffdingAdaptiveTreeClassifier; rows are dictionaries beforehand
    sklearn     GaussianNB.partial_fit, a row at a time; "by 100": predict and partial_fit of blocks of 100

Mistakes in per cent are those of the same first rows, as many as the slow ones can do. The second table has them on
streams that do not favour a Gaussian: Hyperplane with 10 columns and Random tree.

Exits with 1 where at D = 10, K = 2 VIGO, VIGOd or VIGOw is not 20 times each of the three, or makes more mistakes.
"""

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from core.contract import Floats, Ints, Spec
from core.learners.catalogue import find
from core.numerics.linalg import single_threaded
from tests.benchmarks import generators
from tests.benchmarks.speed import seconds
from tests.benchmarks.vigo import KINDS

SHAPES = ((3, 2), (3, 10), (10, 2), (10, 10), (50, 2), (50, 10))
HELD, TIMES = (10, 2), 20.0
SLOW_ROWS = 3000
OTHERS = ("GNB", "HAT", "sklearn")


class Told(NamedTuple):
    """What a run gave: rows per second, and per cent wrong of the first rows."""

    speed: float
    wrong: float


def gaussians(rows: int, D: int, K: int, seed: int = 0) -> tuple[Floats, Ints]:
    """K normal classes, correlated, at distances that leave some mistakes to everybody."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, rows)
    shapes = rng.normal(size=(K, D, D)) / np.sqrt(D)
    X = np.einsum("nij,nj->ni", shapes[y], rng.normal(size=(rows, D))) if D < 20 else _by_class(rng, shapes, y)
    return np.ascontiguousarray(X + rng.normal(size=(K, D))[y] * 0.5), y


def _by_class(rng: np.random.Generator, shapes: Floats, y: Ints) -> Floats:
    """The same with less memory where there are many columns."""
    X = rng.normal(size=(len(y), shapes.shape[1]))
    for k, shape in enumerate(shapes):
        X[y == k] = X[y == k] @ shape.T
    return X


def ours(kind: str, X: Floats, y: Ints, slow: int) -> Told:
    """One learn call on a fresh learner."""
    entry = find(kind)

    def work() -> Ints:
        learner: Any = entry.build(Spec("classification", X.shape[1], entry.complete({})))
        for _ in range(int(y.max()) + 1):
            learner.add_class()
        value: Ints = learner.learn(X, y).value
        return value

    return _told(work, y, slow, runs=4)


def one_row(X: Floats, y: Ints) -> float:
    """Calls per second, of one row each, of a VIGO that has learned."""
    entry = find("vigo")
    learner = entry.build(Spec("classification", X.shape[1], entry.complete({})))
    for _ in range(int(y.max()) + 1):
        learner.add_class()
    learner.learn(X, y)

    def work() -> None:
        for i in range(500):
            learner.learn(X[i : i + 1], y[i : i + 1])

    return 500 / seconds(work)


def river_rows(name: str, X: Floats, y: Ints) -> Told | None:
    """A classifier of river."""
    try:
        from river import naive_bayes, tree
    except ImportError:
        return None
    build = {"GNB": naive_bayes.GaussianNB, "HAT": partial(tree.HoeffdingAdaptiveTreeClassifier, seed=0)}[name]
    rows, labels = [dict(enumerate(x.tolist())) for x in X], y.tolist()

    def work() -> Ints:
        model, told = build(), []
        for x, label in zip(rows, labels, strict=True):
            told.append(model.predict_one(x))
            model.learn_one(x, label)
        return np.array([-1 if label is None else label for label in told])

    return _told(work, y, len(y))


def sklearn_rows(X: Floats, y: Ints, block: int = 1) -> Told | None:
    """GaussianNB of scikit-learn; the first block is not predicted, and wrong."""
    try:
        from sklearn.naive_bayes import GaussianNB
    except ImportError:
        return None
    classes = np.arange(int(y.max()) + 1)

    def work() -> Ints:
        model, told = GaussianNB(), np.full(len(y), -1)
        for i in range(0, len(y), block):
            if i:
                told[i : i + block] = model.predict(X[i : i + block])
            model.partial_fit(X[i : i + block], y[i : i + block], classes)
        return told

    with warnings.catch_warnings(action="ignore"):  # of classes without rows
        return _told(work, y, len(y))


def _told(work: Callable[[], Ints], y: Ints, slow: int, runs: int = 1) -> Told:
    """The speed of some runs, and the mistakes of the first rows in the last one."""
    found: list[Ints] = []
    speed = len(y) / seconds(lambda: found.append(work()), runs)
    return Told(speed, 100.0 * float((found[-1][:slow] != y[:slow]).mean()))


def line(X: Floats, y: Ints, slow: int) -> dict[str, Told | None]:
    """All learners on one stream; the slow ones on its first rows."""
    head, labels = X[:slow], y[:slow]
    others: dict[str, Callable[[], Told | None]] = {
        "GNB": partial(river_rows, "GNB", head, labels),
        "HAT": partial(river_rows, "HAT", head, labels),
        "sklearn": partial(sklearn_rows, head, labels),
        "by 100": partial(sklearn_rows, head, labels, 100),
    }
    return {kind: ours(kind, X, y, slow) for kind in KINDS} | {name: work() for name, work in others.items()}


def _print(name: str, told: dict[str, Told | None], single: float | None) -> None:
    speeds = "".join(f"{'-' if one is None else f'{one.speed:,.0f}':>11}" for one in told.values())
    wrongs = "".join(f"{'-' if one is None else f'{one.wrong:.2f}':>8}" for one in told.values())
    print(f"{name:15}{speeds}{'' if single is None else f'{single:,.0f}':>9}  |{wrongs}", flush=True)


def _missed(told: dict[str, Told | None]) -> list[str]:
    pairs = [(kind, told[kind], name, told[name]) for kind in KINDS for name in OTHERS]
    return [
        f"{kind} beside {name}"
        for kind, one, name, other in pairs
        if one and other and (one.speed < TIMES * other.speed or one.wrong > other.wrong)
    ]


def main() -> int:
    """Print the tables; 1 where what was asked for is missed."""
    single_threaded()
    names = (*KINDS, *OTHERS, "by 100")
    print(f"{'rows/s':15}" + "".join(f"{name:>11}" for name in names) + f"{'one row':>9}  |", end="")
    print("".join(f"{name:>8}" for name in names) + "   mistakes %")
    missed: list[str] = []
    for D, K in SHAPES:
        X, y = gaussians(200_000 if D < 50 else 20_000, D, K)
        told = line(X, y, SLOW_ROWS if D < 50 else SLOW_ROWS // 3)
        _print(f"D {D}, K {K}", told, one_row(X, y))
        if (D, K) == HELD:
            missed += _missed(told)
            if None in told.values():
                print("SKIPPED: river or scikit-learn is not installed here", file=sys.stderr)
    hyperplane = generators.hyperplane(0, 20_000, columns=10)
    for name, (X, y) in (("Hyperplane", hyperplane), ("Random tree", generators.random_tree(0, 20_000))):
        _print(name, line(X, y, 3 * SLOW_ROWS), None)
    if missed:
        print(f"\nMISSED: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
