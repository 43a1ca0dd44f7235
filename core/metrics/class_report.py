"""The scores of a span of a classifier's rows, from what is counted of it (class_kernels).

    accuracy            p0, the share of right answers
    balanced_accuracy   the mean of the recalls of the classes that have rows
    kappa               (p0 - pe)/(1 - pe), pe = sum_k (share of label k)(share of answer k): chance agreement
    kappa_temporal      (p0 - pn)/(1 - pn), pn the accuracy of ``no_change``
    log_loss            mean of -ln max(p, 1e-15), p the probability given to the true label
    brier               mean of sum_k (p_k - [k is the label])^2; up to two classes half of it: (p_1 - [1 is it])^2
    ece                 sum over the bins of the reliability of |right - sum of p| / rows, p given to the answer
    roc_auc             share of pairs of a row of each class in which the second class's row has the higher score
    average_precision   sum over falling scores of (gain in recall)(precision), for the second class

The last two take the scores as the middles of their bins would have them: exact but for rows of one bin, which count as
equal. A number without rows is None.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from core.contract import Floats, Header, Ints
from core.metrics.class_kernels import (
    BIN,
    BRIER_ROWS,
    BRIER_SUM,
    GUESSES,
    HITS,
    LABELS,
    LOSS_ROWS,
    LOSS_SUM,
    MAJORITY,
    NO_CHANGE,
    PLACES_MAX,
    RIGHT,
    SCORED,
    UNSCORED,
    beyond_chance,
)
from core.metrics.costs import mean_cost
from core.metrics.prequential import DIGITS, Named, number
from core.metrics.quality import Quality, error_ratio

OTHER = "other"
"""The label of all classes that share the last place of the confusion."""


class Span(NamedTuple):
    """What is counted of one span; see ``class_kernels``.

    Attributes:
        sums: (SUMS,).
        tallies: (3, K).
        confusion: (S, S).
        scores: (2, B); B = 0 with more than two classes.
        places: (K,) of the classes in the confusion.
    """

    sums: Floats
    tallies: Floats
    confusion: Floats
    scores: Floats
    places: Ints


def report(span: Span, names: Named, whole: bool, costs: Floats | None = None) -> Header:
    """The scores of one span, and the baselines; rows are integers where they count as ``whole``.

    Args:
        span: what is counted.
        names: of all classes.
        whole: whether rows are counted, or weighed.
        costs: (at least K,) of missing each class; None: nobody has said, and nothing is told of costs.
    """
    accuracy, no_change, majority = _of_scored(span.sums, RIGHT, NO_CHANGE, MAJORITY)
    brier = _ratio(span.sums[BRIER_SUM], span.sums[BRIER_ROWS])
    bins = span.sums[BIN:].reshape(-1, 3)
    return {
        "accuracy": number(accuracy),
        "balanced_accuracy": number(balanced_accuracy(span.tallies[LABELS], span.tallies[HITS])),
        "kappa": number(kappa(accuracy, span.tallies[LABELS], span.tallies[GUESSES])),
        "kappa_temporal": number(beyond_chance(accuracy, no_change)),
        "log_loss": number(_ratio(span.sums[LOSS_SUM], span.sums[LOSS_ROWS])),
        "brier": number(brier / 2 if len(span.places) <= 2 else brier),
        "ece": number(calibration_error(span.sums)),
        **(_ranking(span.scores) if len(span.places) == 2 else {}),
        **({} if costs is None else {"costs": _costs(span, names.labels, costs)}),
        "unscored": _rows(span.sums[UNSCORED], whole),
        "per_class": _per_class(span, names.keys, whole),
        "confusion": _confusion(span, names.labels, whole),
        "reliability": [
            {"mean": p / rows, "share": right / rows, "rows": _rows(rows, whole)}
            for rows, p, right in bins.tolist()
            if rows > 0
        ],
        "baselines": {"no_change": {"accuracy": number(no_change)}, "majority": {"accuracy": number(majority)}},
    }


def quality(span: Span, unscored: float, costs: Floats | None) -> Quality:
    """What ``quality`` of the metrics tells, from the window.

    Args:
        span: the window.
        unscored: rows of all.
        costs: (K,) of missing each class; None: all alike.
    """
    accuracy, no_change, majority = _of_scored(span.sums, RIGHT, NO_CHANGE, MAJORITY)
    baseline = max(no_change, majority)
    if costs is None:
        ratio = error_ratio(1.0 - accuracy, 1.0 - baseline)
    else:
        found = mean_cost(span.tallies[LABELS], span.tallies[HITS], costs)
        ratio = np.nan if found is None else error_ratio(found.mean, found.constant)
    return Quality(accuracy, baseline, ratio, calibration_error(span.sums), int(unscored))


def calibration_error(sums: Floats) -> float:
    """ece, from the sums (SUMS,) of a span; NaN where no probabilities were scored."""
    bins = sums[BIN:].reshape(-1, 3)
    return _ratio(float(np.abs(bins[:, 2] - bins[:, 1]).sum()), bins[:, 0].sum())


def kappa(accuracy: float, labels: Floats, guesses: Floats) -> float:
    """Beyond the chance agreement of the marginals (K,) and (K,); NaN where there is none to tell."""
    total = labels.sum()
    return beyond_chance(accuracy, float(labels / total @ (guesses / total))) if total else np.nan


def _costs(span: Span, labels: Sequence[Any], costs: Floats) -> Header:
    found = mean_cost(span.tallies[LABELS], span.tallies[HITS], costs[: len(span.places)])
    if found is None:
        return {"mean": None, "constant": None, "label": None}
    return {"mean": number(found.mean), "constant": number(found.constant), "label": labels[found.answer]}


def _of_scored(sums: Floats, *places: int) -> tuple[float, ...]:
    return tuple(_ratio(sums[place], sums[SCORED]) for place in places)


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else np.nan


def _rows(count: float, whole: bool) -> float | int:
    """A number of rows; a sum of fading weights is rounded, so that tables can be read."""
    return int(count) if whole else round(float(count), DIGITS)


def balanced_accuracy(labels: Floats, hits: Floats) -> float:
    """The mean recall of the classes that have labels, from counts (K,) and (K,); NaN where there are none."""
    there = labels > 0
    return float((hits[there] / labels[there]).mean()) if there.any() else np.nan


def shown(places: Ints) -> Ints:
    """The classes that have a place of their own, by index."""
    return np.flatnonzero(places < PLACES_MAX)


def _per_class(span: Span, keys: Sequence[str], whole: bool) -> Header:
    found: Header = {}
    for at in shown(span.places).tolist():
        labels, guesses, hits = span.tallies[:, at].tolist()
        found[keys[at]] = {
            "support": _rows(labels, whole),
            "precision": number(_ratio(hits, guesses)),
            "recall": number(_ratio(hits, labels)),
            "f1": number(_ratio(2.0 * hits, labels + guesses)),
        }
    return found


def _confusion(span: Span, labels: Sequence[Any], whole: bool) -> Header:
    """Counts by true label (rows) and answer (columns); behind the classes shown, all others."""
    classes = shown(span.places)
    several = len(classes) < len(span.places)
    order = [*span.places[classes].tolist(), *([PLACES_MAX] if several else [])]
    counts = span.confusion[np.ix_(order, order)]
    return {
        "labels": [*(labels[at] for at in classes.tolist()), *([OTHER] if several else [])],
        "counts": counts.astype(np.int64).tolist() if whole else counts.round(DIGITS).tolist(),
    }


def _ranking(scores: Floats) -> Header:
    """ROC AUC and average precision from rows by score, (2, B): of the first class, of the second."""
    negative, positive = scores[:, ::-1]  # the highest scores first
    positives, negatives = positive.sum(), negative.sum()
    hits, misses = positive.cumsum(), negative.cumsum()
    above = float(positive @ (negatives - misses + negative / 2))
    taken = hits + misses > 0
    precision = hits[taken] / (hits[taken] + misses[taken])
    return {
        "roc_auc": number(_ratio(above, positives * negatives)),
        "average_precision": number(_ratio(float(positive[taken] @ precision), positives)),
    }
