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
    costs               with class costs: sum_k c_k (n_k - r_k) / n, n_k the rows of label k, r_k the right ones of
                        them; and of the constant answer j, (sum_k c_k n_k - c_j n_j) / n, the least of all j

``roc_auc`` and ``average_precision`` take each score as the middle of its bin: exact but for rows of one bin, which
count as equal. The cheapest constant answer is known only in hindsight, so it is at least as hard a baseline as any
chosen beforehand; a model with costs is judged by it, not by its accuracy, which it gives up where errors are cheap.
A number without rows is None.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import core.metrics.class_kernels as at
from core.contract import Floats, Header, Ints
from core.metrics.prequential import DIGITS, Quality, error_ratio, number

OTHER = "other"
"""The label of all classes that share the last place of the confusion."""


class MeanCost(NamedTuple):
    """Costs per row of a span: ``mean`` of the answers, ``constant`` of the cheapest constant one, ``answer``."""

    mean: float
    constant: float
    answer: int


class Span(NamedTuple):
    """What is counted of one span; see ``class_kernels``.

    Attributes:
        sums: (SUMS,).
        tallies: (3, K).
        confusion: (S, S).
        scores: (2, B); B = 0 with more than two classes.
        places: (K,) of the classes in the confusion.
        whole: whether rows are counted, not weighed.
    """

    sums: Floats
    tallies: Floats
    confusion: Floats
    scores: Floats
    places: Ints
    whole: bool = True

    def per_scored(self, *sums: int) -> list[float]:
        """Some of the sums per scored row."""
        return [_ratio(self.sums[one], self.sums[at.SCORED]) for one in sums]

    def mean_of(self, total: int, rows: int) -> float:
        """The mean of a sum over its rows."""
        return _ratio(self.sums[total], self.sums[rows])

    @property
    def reliability(self) -> Floats:
        """Rows, sums of the answers' probabilities and right answers of the bins, (BINS, 3)."""
        return self.sums[at.BIN :].reshape(-1, 3)

    @property
    def calibration_error(self) -> float:
        """The ece; NaN where no probabilities were scored."""
        rows, p, right = self.reliability.T
        return _ratio(float(np.abs(right - p).sum()), rows.sum())

    def rows(self, count: float) -> float | int:
        """A number of rows; a sum of fading weights is rounded, so that tables can be read."""
        return int(count) if self.whole else round(float(count), DIGITS)


def report(span: Span, labels: Sequence[Any], keys: Sequence[str], costs: Floats | None = None) -> Header:
    """The scores of one span, and the baselines.

    Args:
        span: what is counted.
        labels: of all classes.
        keys: of them in JSON objects.
        costs: (at least K,) of missing each class; None: costs are not reported.
    """
    accuracy, no_change, majority = span.per_scored(at.RIGHT, at.NO_CHANGE, at.MAJORITY)
    labelled, guesses, hits = span.tallies
    brier, two = span.mean_of(at.BRIER_SUM, at.BRIER_ROWS), len(span.places) == 2
    return {
        "accuracy": number(accuracy),
        "balanced_accuracy": number(balanced_accuracy(labelled, hits)),
        "kappa": number(kappa(accuracy, labelled, guesses)),
        "kappa_temporal": number(at.beyond_chance(accuracy, no_change)),
        "log_loss": number(span.mean_of(at.LOSS_SUM, at.LOSS_ROWS)),
        "brier": number(brier / 2 if len(span.places) <= 2 else brier),
        "ece": number(span.calibration_error),
        **(_ranking(span.scores) if two else {}),
        **({} if costs is None else {"costs": _costs(mean_cost(span.tallies, costs), labels)}),
        "unscored": span.rows(span.sums[at.UNSCORED]),
        "per_class": _per_class(span, keys),
        "confusion": _confusion(span, labels),
        "reliability": [
            {"mean": p / rows, "share": right / rows, "rows": span.rows(rows)}
            for rows, p, right in span.reliability.tolist()
            if rows > 0
        ],
        "baselines": {"no_change": {"accuracy": number(no_change)}, "majority": {"accuracy": number(majority)}},
    }


def quality(window: Span, unscored: float, costs: Floats | None) -> Quality:
    """How well the model did in the window; with rows without an answer of all rows, and costs (at least K,)."""
    accuracy, *baselines = window.per_scored(at.RIGHT, at.NO_CHANGE, at.MAJORITY)
    baseline = max(baselines)
    ratio = np.nan
    if costs is None:
        ratio = error_ratio(1.0 - accuracy, 1.0 - baseline)
    elif (found := mean_cost(window.tallies, costs)) is not None:
        ratio = error_ratio(found.mean, found.constant)
    return Quality(accuracy, baseline, ratio, window.calibration_error, int(unscored))


def kappa(accuracy: float, labels: Floats, guesses: Floats) -> float:
    """Beyond the chance agreement of the marginals (K,) and (K,); NaN without rows."""
    total = labels.sum()
    return at.beyond_chance(accuracy, float(labels / total @ (guesses / total))) if total else np.nan


def balanced_accuracy(labels: Floats, hits: Floats) -> float:
    """The mean recall of the classes that have labels, from counts (K,) and (K,); NaN where there are none."""
    there = labels > 0
    return float((hits[there] / labels[there]).mean()) if there.any() else np.nan


def mean_cost(tallies: Floats, costs: Floats) -> MeanCost | None:
    """The costs of a span; None without rows; of equally cheap constant answers the one of lowest index.

    Args:
        tallies: (3, K), as of ``Span``.
        costs: (at least K,) of missing a row of each label.
    """
    labels, _, hits = tallies
    costs = costs[: len(labels)]
    rows = float(labels.sum())
    if rows == 0.0:
        return None
    unit = float(costs.max())  # sums of costs themselves may be too large for a number
    shares = costs / unit
    at_stake = shares * labels
    answer = int(np.argmax(at_stake))
    mean, constant = shares @ (labels - hits), at_stake.sum() - at_stake[answer]
    return MeanCost(unit * (float(mean) / rows), unit * (float(constant) / rows), answer)


def _costs(found: MeanCost | None, labels: Sequence[Any]) -> Header:
    if found is None:
        return {"mean": None, "constant": None, "label": None}
    return {"mean": number(found.mean), "constant": number(found.constant), "label": labels[found.answer]}


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else np.nan


def _shown(places: Ints) -> Ints:
    """The classes that have a place of their own, by index."""
    return np.flatnonzero(places < at.PLACES_MAX)


def _per_class(span: Span, keys: Sequence[str]) -> Header:
    found: Header = {}
    for k in _shown(span.places).tolist():
        labels, guesses, hits = span.tallies[:, k].tolist()
        found[keys[k]] = {
            "support": span.rows(labels),
            "precision": number(_ratio(hits, guesses)),
            "recall": number(_ratio(hits, labels)),
            "f1": number(_ratio(2.0 * hits, labels + guesses)),
        }
    return found


def _confusion(span: Span, labels: Sequence[Any]) -> Header:
    """Counts by true label (rows) and answer (columns); behind the classes shown, all others."""
    classes = _shown(span.places)
    several = len(classes) < len(span.places)
    order = [*span.places[classes].tolist(), *([at.PLACES_MAX] if several else [])]
    counts = span.confusion[np.ix_(order, order)]
    return {
        "labels": [*(labels[k] for k in classes.tolist()), *([OTHER] if several else [])],
        "counts": counts.astype(np.int64).tolist() if span.whole else counts.round(DIGITS).tolist(),
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
