"""How far the probabilities are from what comes true: ``python -m tests.benchmarks.calibration [ALGORITHM ...]``.

Every stream is learned once, whole, in its order, by a model as clients create it. Of the probability that each answer
was given a priori, in 10 equal bins, the expected calibration error: the mean difference between it and the share of
right answers, in points; beside it, of the probabilities that the learner itself gave, in brackets, and below both
their mean log losses. A perfect forecaster has an error of some 40 / sqrt(rows) points, 1 on the shortest streams.

The streams are those of tests/benchmarks/streams.py and the fraud stream of tests/benchmarks/generators.py; named
sparse rows have a9a. Without ../shared/data beside the repository only generated ones are learned. Exits with 1 where a
stream of two classes and 10 000 rows or more has an error above 3 points.
"""

import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from core.config import Config
from core.contract import Floats, Ints
from core.entry import Entry, Rows
from core.learners.catalogue import ALGORITHMS
from core.machine import Machine
from core.metrics.losses import LOSS, P_SAID, P_TRUE
from core.numerics.linalg import single_threaded
from tests.benchmarks.generators import fraud
from tests.benchmarks.streams import CLASSIFICATION, DATA, classification, multiclass

MULTICLASS = ("drifting", "static/letter", "static/marketing", "drift/powersupply")
BINS, ERROR_MAX, ROWS_MIN = 10, 3.0, 10_000


class Told(NamedTuple):
    """What a model said of a stream: error in points and log loss, of what is said and of the learner's own."""

    error: float
    loss: float
    own_error: float
    own_loss: float


def streams() -> Iterator[tuple[str, Floats, Ints]]:
    """All of them by name: rows (n, d) and labels (n,)."""
    names = CLASSIFICATION if DATA.is_dir() else ("SEA",)
    for name in names:
        yield name, *classification(name)
    yield "fraud", *fraud()
    for name in MULTICLASS if DATA.is_dir() else MULTICLASS[:1]:
        yield name, *multiclass(name)


def error_points(given: Floats, right: Ints) -> float:
    """Expected calibration error of the probabilities (n,) that answers were given, in points."""
    bins = np.minimum((given * BINS).astype(int), BINS - 1)
    return float(100 * np.abs(np.bincount(bins, weights=given - right, minlength=BINS)).sum() / len(given))


def told(algorithm: str, X: Floats, y: Ints) -> Told:
    """Learn a stream, and compare what was said with what came."""
    labels = [int(k) for k in range(int(y.max()) + 1)]
    body = {"algorithm": algorithm, "task": "classification", "labels": labels, "watch": None}
    if ALGORITHMS[algorithm].sparse:  # rows that are as dense as the columns: the projection is that of their names
        body["params"] = {"compressed_dim": X.shape[1]}
    else:
        body["features"] = [f"x{column}" for column in range(X.shape[1])]
    machine = Machine(Config.parse(body))
    space, answers, seen = machine.prediction_schema, machine.answers, []
    assert space is not None
    score = answers.score

    def spy(prediction, truth, before, given):  # type: ignore[no-untyped-def]
        answered = score(prediction, truth, before, given)
        seen.append((prediction, truth, answered))
        return answered

    answers.score = spy  # type: ignore[method-assign]
    rows = Rows(space.id, None, np.ascontiguousarray(X, dtype=np.float64), [int(label) for label in y])
    machine.apply(Entry(1, 0, (rows,)))
    facts = np.concatenate([answered.facts for _, _, answered in seen], axis=1)
    known = [(own, truth) for own, truth, _ in seen if own.probabilities.shape[1] > truth.max()]
    theirs, true = (
        np.concatenate([own.probabilities[np.arange(len(truth)), of(own, truth)] for own, truth in known])
        for of in (lambda own, _: own.value, lambda _, truth: truth)
    )
    hits = np.concatenate([own.value == truth for own, truth in known])
    error, loss = error_points(facts[P_SAID], facts[LOSS] == 0.0), float(-np.log(facts[P_TRUE]).mean())
    return Told(error, loss, error_points(theirs, hits), float(-np.log(np.maximum(true, 1e-15)).mean()))


def main() -> int:
    """Print the table; 1 where an error is too large."""
    single_threaded()
    asked = sys.argv[1:] or [one.id for one in ALGORITHMS.values() if "classification" in one.tasks]
    given = list(streams())
    print(f"{'error, points (own); log loss (own)':22}" + "".join(f"{name.rpartition('/')[2]:>24}" for name in asked))
    wrong = []
    for name, X, y in given:
        cells = []
        for algorithm in asked:
            found = told(algorithm, X, y)
            cells.append(f"{found.error:7.1f} ({found.own_error:4.1f}) {found.loss:.3f} ({found.own_loss:.3f})")
            if found.error > ERROR_MAX and len(y) >= ROWS_MIN and y.max() == 1:
                wrong.append(f"{algorithm} on {name}: {found.error:.1f}")
        print(f"{name:14}{len(y):8}" + "".join(f"{cell:>27}" for cell in cells), flush=True)
    if wrong:
        print(f"\nMISSED: more than {ERROR_MAX:g} points: {', '.join(wrong)}", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
