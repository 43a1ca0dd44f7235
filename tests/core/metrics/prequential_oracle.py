"""Shared by the tests of prequential metrics: a slow oracle over the full list of rows, and random streams."""

import json
import math
from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
from sklearn import metrics as theirs

from core.metrics.class_kernels import BRIER, CONFIDENCE, FACTS, LOSS, P_TRUE, SCORE, facts_of

SPANS = [(10, 0.9), (37, 0.999999), (2000, 0.99)]
"""Windows and fading factors other than the defaults."""


class Row(NamedTuple):
    """One row of a classifier; NaN if there were no probabilities."""

    guess: int
    truth: int
    p: float
    brier: float = math.nan
    said: float = math.nan
    score: float = math.nan
    no_change: bool = False
    majority: bool = False


def weighted(pairs):
    """The weighted mean of (weight, value) pairs; None without pairs."""
    total = math.fsum(w for w, _ in pairs)
    return math.fsum(w * x for w, x in pairs) / total if pairs else None


def beyond(p0, chance):
    """A kappa: 1 if both the model and chance are always right, None if only chance is."""
    if 1 - chance > 1e-12:
        return (p0 - chance) / (1 - chance)
    return 1.0 if p0 >= 1 - 1e-12 else None


def with_baselines(rows):
    """Each row with whether each baseline was right: the last label before it, and the most frequent, ties lowest."""
    found, last, counts = [], 0, Counter({0: 0})
    for row in rows:
        most = min(counts, key=lambda label: (-counts[label], label))
        found.append(row._replace(no_change=last == row.truth, majority=most == row.truth))
        last = row.truth
        counts[last] += 1
    return found


def class_scores(rows, weights, K):
    """All scores of one span of rows with the given weights."""
    pairs = [(w, row) for w, row in zip(weights, rows, strict=True) if row.guess != -1]
    names = "accuracy", "balanced_accuracy", "kappa", "kappa_temporal", "log_loss", "brier", "ece", "no_change"
    found = {**dict.fromkeys((*names, "majority")), "unscored": sum(weights) - sum(w for w, _ in pairs)}
    if K == 2:
        found |= ranking(pairs)
    if not pairs:
        return found
    accuracy = weighted([(w, r.guess == r.truth) for w, r in pairs])
    no_change = weighted([(w, r.no_change) for w, r in pairs])
    marginals = [
        weighted([(w, r.truth == k) for w, r in pairs]) * weighted([(w, r.guess == k) for w, r in pairs])
        for k in range(K)
    ]
    recalls = [weighted([(w, r.guess == k) for w, r in pairs if r.truth == k]) for k in range(K)]
    recalls = [recall for recall in recalls if recall is not None]
    losses = [(w, -math.log(min(max(r.p, 1e-15), 1))) for w, r in pairs if not math.isnan(r.p)]
    brier = weighted([(w, r.brier) for w, r in pairs if not math.isnan(r.brier)])
    return found | {
        "accuracy": accuracy,
        "balanced_accuracy": sum(recalls) / len(recalls),
        "kappa": beyond(accuracy, sum(marginals)),
        "kappa_temporal": beyond(accuracy, no_change),
        "log_loss": weighted(losses),
        "brier": brier if brier is None or K > 2 else brier / 2,
        "ece": calibration_error(pairs),
        "no_change": no_change,
        "majority": weighted([(w, r.majority) for w, r in pairs]),
    }


def calibration_error(pairs):
    """Over ten bins, by the probability of the predicted class."""
    pairs = [(w, r) for w, r in pairs if not math.isnan(r.said)]
    if not pairs:
        return None
    gaps = []
    for k in range(10):
        inside = [(w, r) for w, r in pairs if min(int(10 * r.said), 9) == k]
        gaps.append(abs(math.fsum(w * ((r.guess == r.truth) - r.said) for w, r in inside)))
    return math.fsum(gaps) / math.fsum(w for w, _ in pairs)


def score_bin(p):
    """The bin of a probability, a sixteenth of a unit of log-odds wide."""
    odds = math.inf if p >= 1 else -math.inf if p <= 0 else math.log(p / (1 - p))
    return min(max(math.floor(16 * min(max(odds, -99), 99) + 192), 0), 383)


def ranking(pairs):
    """The areas of scikit-learn over binned scores; None where a class is missing."""
    kept = [(r.truth == 1, score_bin(r.score), w) for w, r in pairs if not math.isnan(r.score)]
    positive, scores, weights = zip(*kept, strict=True) if kept else ((), (), ())
    areas = {"roc_auc": theirs.roc_auc_score, "average_precision": theirs.average_precision_score}
    enough = {"roc_auc": len({*positive}) == 2, "average_precision": any(positive)}
    return {
        name: area(positive, scores, sample_weight=weights) if enough[name] else None for name, area in areas.items()
    }


def fading(count, factor=0.999):
    """The weights of ``count`` rows, the newest 1."""
    return [factor ** (count - 1 - i) for i in range(count)]


def points(rows):
    """The rows at which the history of this many rows has points."""
    kept, stride = [], 10
    for row in range(10, rows + 1):
        if row % stride == 0:
            kept.append(row)
        if len(kept) == 512:
            kept, stride = kept[1::2], stride * 2
    return kept


def class_report(rows, K, window=1000, factor=0.999):
    """The whole report for a list of rows."""
    scored = with_baselines(rows)
    n, last = len(rows), scored[-window:]
    return {
        "overall": class_scores(scored, [1] * n, K),
        "window": class_scores(last, [1] * len(last), K),
        "fading": class_scores(scored, fading(n, factor), K),
    }


def flat(report):
    """The spans of a classification report, each merged with its baselines."""
    spans = {name: dict(report[name]) for name in ("overall", "window", "fading")}
    spans["overall"]["baselines"] = report["baselines"]
    for span in spans.values():
        span.update({name: scores["accuracy"] for name, scores in span.pop("baselines").items()})
    return spans


def assert_close(expected, found):
    """Check that two tables of numbers or None agree to round-off; sums of weights are rounded to three digits."""
    for name, value in expected.items():
        if value is None:
            assert found[name] is None, name
        else:
            assert value == pytest.approx(found[name], rel=1e-8, abs=6e-4 if name == "unscored" else 1e-9), name


def reg_scores(rows, weights):
    """All scores of one span of (error, truth, baseline error or None) rows with the given weights."""
    pairs = list(zip(weights, rows, strict=True))
    if not rows:
        return dict.fromkeys(("mse", "mae", "r2", "bias", "last_mse", "last_mae", "paired_mse", "paired_mae"))
    mean = weighted([(w, r[1]) for w, r in pairs])
    variance = weighted([(w, (r[1] - mean) ** 2) for w, r in pairs])
    mse = weighted([(w, r[0] ** 2) for w, r in pairs])
    based = [(w, r[2]) for w, r in pairs if r[2] is not None]
    own = [(w, r[0]) for w, r in pairs if r[2] is not None]
    return {
        "mse": mse,
        "mae": weighted([(w, abs(r[0])) for w, r in pairs]),
        "r2": 1 - mse / variance if variance else None,
        "bias": weighted([(w, r[0]) for w, r in pairs]),
        "last_mse": weighted([(w, e**2) for w, e in based]),
        "last_mae": weighted([(w, abs(e)) for w, e in based]),
        "paired_mse": weighted([(w, e**2) for w, e in own]),
        "paired_mae": weighted([(w, abs(e)) for w, e in own]),
    }


def classes_of(rows):
    """Predictions, labels and facts from (prediction, label, label's probability); another class has the rest."""
    guesses, labels, p = zip(*rows, strict=True) if rows else ((), (), ())
    predicted, truth, p_true = np.array(guesses, np.int64), np.array(labels, np.int64), np.array(p, np.float64)
    facts = np.zeros((FACTS, len(rows)))
    facts[LOSS], facts[P_TRUE], facts[BRIER] = predicted != truth, p_true, 2 * (1 - p_true) ** 2
    facts[CONFIDENCE] = np.where(predicted == truth, p_true, np.maximum(1 - p_true, 0))
    facts[SCORE] = np.where(truth == 1, p_true, np.maximum(1 - p_true, 0))
    return predicted, truth, facts


def rows_of(predicted, truth, facts):
    """The rows in three arrays, for the oracle."""
    columns = predicted, truth, facts[P_TRUE], facts[BRIER], facts[CONFIDENCE], facts[SCORE]
    return [Row(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def part(array, chosen):
    """Some rows of an array or of facts."""
    return array[..., chosen] if array.ndim == 1 or len(array) == FACTS else array[chosen]


def fed(metrics, arrays, sizes, *more):
    """The metrics after the rows, fed in blocks of the given sizes and then the rest."""
    start, n = 0, len(arrays[0])
    for size in [*sizes, n]:
        chosen = slice(start, start + size)
        metrics.absorb(*(np.ascontiguousarray(part(array, chosen)) for array in arrays), *more)
        start = min(start + size, n)
    return metrics


def bits(metrics):
    """The whole state as bytes, with the shape of every array."""
    arrays, header = metrics.to_arrays()
    return {name: (array.shape, array.tobytes()) for name, array in arrays.items()}, json.dumps(header)


def random_classes(n, K=3, seed=0):
    """Rows of a mediocre classifier on sticky labels, some without a prediction or a probability."""
    rng = np.random.default_rng(seed)
    truth = np.cumsum(rng.random(n) < 0.2) % K
    scores = rng.normal(size=(n, K)) + 1.5 * (truth[:, None] == np.arange(K))
    P = np.exp(2 * scores)
    P /= P.sum(axis=1, keepdims=True)
    predicted = np.where(rng.random(n) < 0.9, P.argmax(axis=1), rng.integers(-1, K, n))
    facts = facts_of(P, predicted, truth)
    facts[P_TRUE:, (rng.random(n) < 0.1) | (predicted < 0)] = math.nan
    return predicted.astype(np.int64), truth.astype(np.int64), facts


def random_numbers(n, seed=0):
    """Rows of a mediocre regression on a random walk."""
    rng = np.random.default_rng(seed)
    truth = np.cumsum(rng.normal(size=n)) + 50
    return truth + rng.normal(size=n), truth
