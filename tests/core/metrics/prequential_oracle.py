"""What the tests of the prequential metrics share: a slow oracle over the full list of rows, and streams to feed."""

import json
import math

import numpy as np
import pytest


def weighted(pairs):
    """The weighted mean of (weight, value) pairs, None where there are none."""
    total = math.fsum(w for w, _ in pairs)
    return math.fsum(w * x for w, x in pairs) / total if pairs else None


def beyond(p0, chance):
    """Either kappa, 1 where all is right although chance is never wrong, else None."""
    if 1 - chance > 1e-12:
        return (p0 - chance) / (1 - chance)
    return 1.0 if p0 >= 1 - 1e-12 else None


def majority(labels):
    """The label most often in a list, of equals the lowest; None for an empty list."""
    return min(set(labels), key=lambda label: (-labels.count(label), label)) if labels else None


def scored_classes(rows):
    """Each row with whether the two baselines were right, from the labels before it."""
    labels = [truth for _, truth, _ in rows]
    return [
        (guess, truth, p, i > 0 and labels[i - 1] == truth, majority(labels[:i]) == truth)
        for i, (guess, truth, p) in enumerate(rows)
    ]


def class_scores(rows, weights, loss_weights):
    """Every number of one span of scored rows under some weights."""
    pairs = list(zip(weights, rows, strict=True))
    empty = dict.fromkeys(("accuracy", "kappa", "kappa_temporal", "log_loss", "no_change", "majority"))
    if not rows:
        return empty
    accuracy = weighted([(w, r[0] == r[1]) for w, r in pairs])
    no_change = weighted([(w, r[3]) for w, r in pairs])
    marginals = [
        weighted([(w, r[1] == k) for w, r in pairs]) * weighted([(w, r[0] == k) for w, r in pairs])
        for k in {r[1] for r in rows}
    ]
    losses = [-math.log(min(max(r[2], 1e-15), 1)) for r in rows if not math.isnan(r[2])]
    return {
        "accuracy": accuracy,
        "kappa": beyond(accuracy, sum(marginals)),
        "kappa_temporal": beyond(accuracy, no_change),
        "log_loss": weighted(list(zip(loss_weights[len(loss_weights) - len(losses) :], losses, strict=True))),
        "no_change": no_change,
        "majority": weighted([(w, r[4]) for w, r in pairs]),
    }


def fading(count):
    """The weights of so many rows, the newest 1."""
    return [0.999 ** (count - 1 - i) for i in range(count)]


def points(rows):
    """The rows at which a history of so many rows has its points."""
    kept, stride = [], 10
    for row in range(10, rows + 1):
        if row % stride == 0:
            kept.append(row)
        if len(kept) == 512:
            kept, stride = kept[1::2], stride * 2
    return kept


def class_report(rows):
    """The whole report of a list of (prediction, label, probability)."""
    scored = scored_classes(rows)
    n, last = len(rows), scored[-1000:]
    return {
        "overall": class_scores(scored, [1] * n, [1] * n),
        "window": class_scores(last, [1] * len(last), [1] * len(last)),
        "fading": class_scores(scored, fading(n), fading(n)),
    }


def flat(report):
    """A classification report's spans with their baselines side by side."""
    spans = {name: dict(report[name]) for name in ("overall", "window", "fading")}
    spans["overall"]["baselines"] = report["baselines"]
    for span in spans.values():
        span.update({name: scores["accuracy"] for name, scores in span.pop("baselines").items()})
    return spans


def assert_close(expected, found):
    """Two tables of numbers or None agree to round-off."""
    for name, value in expected.items():
        if value is None:
            assert found[name] is None, name
        else:
            assert value == pytest.approx(found[name], rel=1e-8, abs=1e-9), name


def reg_scores(rows, weights):
    """Every number of one span of (error, truth, baseline error or None) rows under some weights."""
    pairs = list(zip(weights, rows, strict=True))
    if not rows:
        return dict.fromkeys(("mse", "mae", "r2", "last_mse", "last_mae"))
    mean = weighted([(w, r[1]) for w, r in pairs])
    variance = weighted([(w, (r[1] - mean) ** 2) for w, r in pairs])
    mse = weighted([(w, r[0] ** 2) for w, r in pairs])
    based = [(w, r[2]) for w, r in pairs if r[2] is not None]
    return {
        "mse": mse,
        "mae": weighted([(w, abs(r[0])) for w, r in pairs]),
        "r2": 1 - mse / variance if variance else None,
        "last_mse": weighted([(w, e**2) for w, e in based]),
        "last_mae": weighted([(w, abs(e)) for w, e in based]),
    }


def classes_of(rows):
    """The three arrays of a list of (prediction, label, probability)."""
    guesses, labels, p = zip(*rows, strict=True) if rows else ((), (), ())
    return np.array(guesses, np.int64), np.array(labels, np.int64), np.array(p, np.float64)


def fed(metrics, arrays, sizes, *more):
    """The metrics after the rows, in blocks of the given sizes, the rest at once."""
    start, n = 0, len(arrays[0])
    for size in [*sizes, n]:
        metrics.absorb(*(array[start : start + size] for array in arrays), *more)
        start = min(start + size, n)
    return metrics


def bits(metrics):
    """The whole state as bytes, with every array's shape."""
    arrays, header = metrics.to_arrays()
    return {name: (array.shape, array.tobytes()) for name, array in arrays.items()}, json.dumps(header)


def random_classes(n, K=3, seed=0):
    """Rows of a mediocre classifier on sticky labels, some without a prediction or a probability."""
    rng = np.random.default_rng(seed)
    truth = np.cumsum(rng.random(n) < 0.2) % K
    predicted = np.where(rng.random(n) < 0.6, truth, rng.integers(-1, K, n))
    p = np.where(rng.random(n) < 0.1, math.nan, rng.random(n) ** 3)
    return predicted.astype(np.int64), truth.astype(np.int64), p


def random_numbers(n, seed=0):
    """Rows of a mediocre regression on a random walk."""
    rng = np.random.default_rng(seed)
    truth = np.cumsum(rng.normal(size=n)) + 50
    return truth + rng.normal(size=n), truth
