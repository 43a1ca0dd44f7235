"""The automatic rate against the best fixed one in hindsight, and how good the probabilities are.

Two tables of ``python -m tests.benchmarks.accuracy``. Every stream is learned once, whole, in its order; scores are
a-priori. The grid of fixed rates is finer than the bank's own and goes to the largest rate that is allowed.

Calibration: the log loss of the probability told for the true class, and the expected calibration error: rows in 15
equal bins by the probability of the predicted class, the mean difference to the share of right predictions, in points.
"""

import sys
from typing import Any

import numpy as np

from core.contract import Floats, Ints, Learner, Spec
from core.learners.catalogue import find
from tests.benchmarks.streams import CLASSIFICATION, classification, multiclass, regression

GRID = (0.0, 1e-4, 3e-4, 1e-3, 2e-3, 3e-3, 5e-3, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5)
MEAN_MIN, WORST_MIN = -0.2, -1.5
MULTICLASS = ("drifting", "static/letter", "static/led7digit", "static/marketing", "drift/powersupply")
BINS = 15


def learner(rate: float | None, X: Floats, y: Any, **params: Any) -> Learner:
    """RLS for the rate 0, the bank for None, else DFOP; with all classes."""
    entry = find("rls" if rate == 0 else "dfop")
    given = {"forgetting_rate": rate} if rate else {}
    classes = y.dtype == np.int64
    spec = Spec("classification" if classes else "regression", X.shape[1], entry.complete(given | params))
    built = entry.build(spec)
    for _ in range(int(y.max()) + 1 if classes else 0):
        built.add_class()
    return built


def score(rate: float | None, X: Floats, y: Any, **params: Any) -> float:
    """Per cent right; for regression minus the mean squared error, in per cent of the targets' variance."""
    told = learner(rate, X, y, **params).learn(X, y).value
    return float(100 * ((told == y).mean() if y.dtype == np.int64 else -((told - y) ** 2).mean() / y.var()))


def _compare(name: str, X: Floats, y: Any, **params: Any) -> float:
    """Print one line; the difference of the bank to the best fixed rate."""
    fixed = {rate: score(rate, X, y, **params) for rate in GRID}
    best, auto = max(fixed, key=lambda rate: fixed[rate]), score(None, X, y, **params)
    cells = f"{auto:9.2f}{fixed[best]:9.2f}{auto - fixed[best]:+9.2f}{best:9g}{fixed[0.01]:9.2f}{fixed[0.0]:9.2f}"
    print(f"{name:26}{cells}", flush=True)
    return auto - fixed[best]


def automatic() -> bool:
    """Print the table of the bank; whether it keeps what is asked of it on the two-class streams."""
    head = ("auto", "best", "diff", "its rate", ".01", "rls")
    print(f"\n{'accuracy %, whole stream':26}" + "".join(f"{name:>9}" for name in head))
    two = [_compare(name, *_contiguous(*classification(name))) for name in CLASSIFICATION]
    mean, worst = float(np.mean(two)), min(two)
    print(f"{'  of these streams: mean':44}{mean:+9.2f}   asked: {MEAN_MIN}")
    print(f"{'  worst':44}{worst:+9.2f}   asked: {WORST_MIN}")
    print("more than two classes (beyond the 11 streams that are asked for)")
    for name in MULTICLASS:
        _compare(name, *multiclass(name))
    print("minus the squared error, in % of the variance")
    for name in ("sru y1", "sru y2"):
        _compare(name, *regression(name), bias=False)
    if mean < MEAN_MIN or worst < WORST_MIN:
        print(
            f"\nMISSED: auto against the best rate in hindsight: mean {mean:+.2f}, worst {worst:+.2f}", file=sys.stderr
        )
        return False
    return True


def _contiguous(X: Floats, y: Ints) -> tuple[Floats, Ints]:
    return np.ascontiguousarray(X), y


def log_loss(p: Floats, y: Ints) -> float:
    """Mean -ln of the probability of the true class."""
    return float(-np.log(p[np.arange(len(y)), y]).mean())


def calibration_error(p: Floats, y: Ints) -> float:
    """Expected calibration error in points."""
    sure, right = p.max(axis=1), p.argmax(axis=1) == y
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, weights=sure - right, minlength=BINS)
    return float(100 * np.abs(gaps).sum() / len(y))


def scores(X: Floats, y: Ints) -> Floats:
    """A-priori scores of DFOP .01, a column per class or one for two: those of a regression of +-1."""
    targets = [np.where(y == k, 1.0, -1.0) for k in (range(int(y.max()) + 1) if y.max() > 1 else [1])]
    return np.stack([learner(0.01, X, own).learn(X, own).value for own in targets], axis=1)


def clipped(scores: Floats) -> Floats:
    """What squared loss suggests: (1 + score) / 2 within [.001, .999], normalised where there are several columns."""
    p = np.clip((1 + scores) / 2, 0.001, 0.999)
    return np.hstack([1 - p, p]) if p.shape[1] == 1 else p / p.sum(axis=1, keepdims=True)


def calibrated() -> None:
    """Print the table of the probabilities: of the bank, and of DFOP .01 beside the clipped score."""
    print(f"\n{'':26}{'log loss':^27}{'calibration error, points':^27}")
    print(f"{'probabilities':26}" + f"{'auto':>9}{'.01':>9}{'clipped':>9}" * 2)
    totals = []
    streams = [(name, *_contiguous(*classification(name))) for name in CLASSIFICATION]
    for name, X, y in streams + [(name, *multiclass(name)) for name in MULTICLASS]:
        auto = learner(None, X, y).learn(X, y).probabilities
        told = (auto, learner(0.01, X, y).learn(X, y).probabilities, clipped(scores(X, y)))
        line = [log_loss(p, y) for p in told] + [calibration_error(p, y) for p in told]
        totals.append(line)
        _show(name, line)
    _show("  mean of the first 11", np.mean(totals[: len(CLASSIFICATION)], axis=0).tolist())
    _show("  mean", np.mean(totals, axis=0).tolist())


def _show(name: str, line: list[float]) -> None:
    print(f"{name:26}" + "".join(f"{cell:9.3f}" for cell in line[:3]) + "".join(f"{cell:9.1f}" for cell in line[3:]))
