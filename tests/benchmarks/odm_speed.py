"""Rows per second of ODM with robust scaling in front, on one core, beside river's models in the same run.

Two classes, a noisy linear boundary, d features. CPU times, best of several runs; every row is predicted, then learned;
river's rows are dictionaries beforehand. The bank has seen 65 536 rows, which is 15 candidates.

    odm, dynamic   one learn call of many rows      one row   calls of a single row each, dynamic
    single         the same without scaling
"""

import sys
from typing import Any

import numpy as np

from core.contract import Floats, Ints
from tests.benchmarks.odm_runs import Model
from tests.benchmarks.speed import seconds

WIDTHS = (3, 10, 100, 500)
ROWS_SEEN = 65_536
TIMES_AT_10 = 5.0
RIVER = ("LogisticRegression", "PAClassifier", "HoeffdingTreeClassifier")


def labelled(rows: int, d: int) -> tuple[Floats, Ints]:
    """Normal rows and the side of a plane they are on, with noise."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(rows, d))
    return X, (X @ rng.normal(size=d) + 0.3 * np.sqrt(d) * rng.normal(size=rows) > 0).astype(np.int64)


def _warm(algorithm: str, d: int, **params: Any) -> Model:
    model = Model(algorithm, d, **params)
    X, y = labelled(4096, d)
    for _ in range(ROWS_SEEN // len(y)):
        model.learn(X, y)
    return model


def many(algorithm: str, d: int, **params: Any) -> float:
    """Rows per second of learn calls of many rows."""
    model, (X, y) = _warm(algorithm, d, **params), labelled(max(1000, 200_000 // (d + 10)), d)
    return len(y) / seconds(lambda: model.learn(X, y))


def single(d: int) -> float:
    """Calls per second of one row each."""
    model, (X, y) = _warm("dynamic_odm", d), labelled(256, d)

    def work() -> None:
        for i in range(len(y)):
            model.learn(X[i : i + 1], y[i : i + 1])

    return len(y) / seconds(work)


def river_rows(name: str, d: int) -> float | None:
    """A model of river, a row at a time."""
    try:
        from river import linear_model, tree
    except ImportError:
        return None
    model = getattr(tree if name.startswith("Hoeffding") else linear_model, name)()
    X, y = labelled(max(40, 20_000 // (d + 10)), d)
    rows = [dict(enumerate(x.tolist())) for x in X]

    def work() -> None:
        for x, target in zip(rows, (y > 0).tolist(), strict=True):
            model.predict_one(x)
            model.learn_one(x, target)

    return len(y) / seconds(work, runs=3)


def speed() -> list[str]:
    """Print the table; what is missed."""
    print(
        f"\n{'rows/s':6}" + "".join(f"{name:>12}" for name in ("odm", "dynamic", "unscaled", "one row", "river LR")),
        end="",
    )
    print(f"{'river PA':>12}{'river HT':>12}   dynamic / each of river's")
    missed = []
    for d in WIDTHS:
        own = [many("odm", d), many("dynamic_odm", d), many("dynamic_odm", d, scaling="none"), single(d)]
        others = [river_rows(name, d) for name in RIVER]
        cells = "".join(f"{'-':>12}" if value is None else f"{value:12,.0f}" for value in (*own, *others))
        times = [own[1] / other for other in others if other]
        print(f"{d:<6}{cells}   {' '.join(f'{factor:.1f}' for factor in times)}", flush=True)
        if d == 10 and times and times[0] < TIMES_AT_10:
            missed.append(f"{TIMES_AT_10} times LogisticRegression at d = 10")
        if d == WIDTHS[0] and not times:
            print("SKIPPED: river is not installed here", file=sys.stderr)
    return missed
