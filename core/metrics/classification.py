"""Prequential metrics of a classifier: each a-priori prediction compared with its label.

    accuracy            p0, the share of correct predictions
    balanced_accuracy   the mean of the recalls of the classes that have rows
    kappa               (p0 - pe)/(1 - pe), pe = sum_k (share of label k)(share of answer k): chance agreement
    kappa_temporal      (p0 - pn)/(1 - pn), pn the accuracy of ``no_change``
    log_loss            mean of -ln max(p, 1e-15), p the probability of the true label
    brier               mean of sum_k (p_k - [k is the label])^2; up to two classes half of it: (p_1 - [1 is it])^2
    ece                 sum over the bins of the reliability of |right - sum of p| / rows, p given to the answer
    roc_auc             share of pairs, one row of each class, in which the second class's row has the higher score
    average_precision   sum over falling scores of (gain in recall)(precision), for the second class
    costs               with class costs: sum_k c_k (n_k - r_k) / n, n_k the rows of label k, r_k those answered
                        right; and for a constant answer j, (sum_k c_k n_k - c_j n_j) / n, the least over all j

``roc_auc`` and ``average_precision`` replace each score by the middle of its bin: they are exact except that rows in
one bin count as equal. The cheapest constant prediction is known only in hindsight, so it is at least as hard a
baseline as any chosen beforehand; a model with costs is judged by it, not by its accuracy, which it gives up where
errors are cheap. A score without rows is None.

There are two baselines: ``no_change`` predicts the latest known label, ``majority`` the most frequent one (the one
with the lowest index if several are); before any label both predict the first class. Both predict when the model does:
for a tracked row, whose label arrives late, when the client got its answer.

A row that could not be predicted, because no label was known, is *unscored*: it counts neither as right nor as wrong,
for the model and for the baselines. All other rows count everywhere; only the losses and the reliability leave out rows
whose learner gives no probabilities. ``class_kernels`` counts the rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import core.metrics.class_kernels as at
from core.contract import Floats, Header, Ints, unlike
from core.metrics.prequential import DIGITS, ROWS, STRIDE, PrequentialMetrics, Quality, error_ratio, history_of, number
from core.state.layout import NOT_NEGATIVE, WHOLE, Array, Counts, Layout, Range

CountArrays = tuple[Floats, Floats, Floats, Floats, Floats, Floats, Floats]
"""The arrays of a state, from the scalars to the history."""
AS_THEY_ARE = np.empty((0, 2), dtype=np.int64)  # the baselines' predictions: the current ones, for all rows
OTHER = "other"  # the label of all classes that share the last row of the confusion
NO_SCORES: Header = {"score": None, "baseline": None}
NO_COSTS: Header = {"mean": None, "constant": None, "label": None}


class ClassSpan(NamedTuple):
    """The counts of one span (``class_kernels``); ``whole``: rows are counted, not weighted."""

    sums: Floats  # (SUMS,)
    tallies: Floats  # (3, K)
    confusion: Floats  # (S, S)
    scores: Floats  # (2, B); B = 0 with more than two classes
    places: Ints  # (K,) of the classes in the confusion
    whole: bool

    def mean(self, total: int, rows: int = at.SCORED) -> float:
        """One of the sums per row; ``rows``: the sum that counts them."""
        return _ratio(self.sums[total], self.sums[rows])

    @property
    def reliability(self) -> Floats:
        """Rows, sums of the answers' probabilities and right answers of the bins, (BINS, 3)."""
        return self.sums[at.BIN :].reshape(-1, 3)

    @property
    def calibration_error(self) -> float:
        """The ece; NaN if no probabilities were scored."""
        rows, p, right = self.reliability.T
        return _ratio(float(np.abs(right - p).sum()), rows.sum())

    def rows(self, count: float) -> float | int:
        """A number of rows; a sum of fading weights is rounded, so that tables stay readable."""
        return int(count) if self.whole else round(float(count), DIGITS)

    def report(self, labels: Sequence[Any], keys: Sequence[str], costs: Floats | None) -> Header:
        """The scores and the baselines; the arguments are those of ``ClassificationMetrics.report``."""
        accuracy, no_change, majority = map(self.mean, (at.RIGHT, at.NO_CHANGE, at.MAJORITY))
        labelled, guesses, hits = self.tallies
        K, brier = len(self.places), self.mean(at.BRIER_SUM, at.BRIER_ROWS)
        return {
            "accuracy": number(accuracy),
            "balanced_accuracy": number(balanced_accuracy(labelled, hits)),
            "kappa": number(kappa(accuracy, labelled, guesses)),
            "kappa_temporal": number(at.beyond_chance(accuracy, no_change)),
            "log_loss": number(self.mean(at.LOSS_SUM, at.LOSS_ROWS)),
            "brier": number(brier / 2 if K <= 2 else brier),
            "ece": number(self.calibration_error),
            **(_ranking(self.scores) if K == 2 else {}),
            **({} if costs is None else {"costs": self._costs(labels, costs)}),
            "unscored": self.rows(self.sums[at.UNSCORED]),
            "per_class": self._per_class(keys),
            "confusion": self._confusion(labels),
            "reliability": [
                {"mean": p / rows, "share": right / rows, "rows": self.rows(rows)}
                for rows, p, right in self.reliability.tolist()
                if rows > 0
            ],
            "baselines": {"no_change": {"accuracy": number(no_change)}, "majority": {"accuracy": number(majority)}},
        }

    def _costs(self, labels: Sequence[Any], costs: Floats) -> Header:
        found = mean_cost(self.tallies, costs)
        if found is None:
            return NO_COSTS
        mean, constant, answer = found
        return {"mean": number(mean), "constant": number(constant), "label": labels[answer]}

    @property
    def _shown(self) -> Ints:
        """The classes that have their own place, by index."""
        return np.flatnonzero(self.places < at.PLACES_MAX)

    def _per_class(self, keys: Sequence[str]) -> Header:
        found: Header = {}
        for k in self._shown.tolist():
            labels, guesses, hits = self.tallies[:, k].tolist()
            found[keys[k]] = {
                "support": self.rows(labels),
                "precision": number(_ratio(hits, guesses)),
                "recall": number(_ratio(hits, labels)),
                "f1": number(_ratio(2.0 * hits, labels + guesses)),
            }
        return found

    def _confusion(self, labels: Sequence[Any]) -> Header:
        """Counts by true label (rows) and answer (columns); the classes shown come first, then one for all others."""
        classes = self._shown
        others = len(classes) < len(self.places)
        order = [*self.places[classes].tolist(), *([at.PLACES_MAX] if others else [])]
        counts = self.confusion[np.ix_(order, order)]
        return {
            "labels": [*(labels[k] for k in classes.tolist()), *([unlike(OTHER, labels)] if others else [])],
            "counts": counts.astype(np.int64).tolist() if self.whole else counts.round(DIGITS).tolist(),
        }


class ClassificationMetrics(PrequentialMetrics):
    """The prequential metrics of a classifier, a state machine over its scored rows."""

    POINT = ("accuracy", "overall", "kappa", "no_change", "majority")
    layout = Layout(
        scalars=Array(
            at.SCALARS,
            places={
                ROWS: WHOLE,
                (at.LAST, at.LEADER): Range(-1.0, whole=True),
                at.WEIGHT: Range(1.0),
                STRIDE: NOT_NEGATIVE,
            },
        ),
        sums=Array(2, at.SUMS, within=NOT_NEGATIVE),
        classes=Array(
            at.CLASS_ROWS,
            "K",
            within=NOT_NEGATIVE,
            places={(*range(at.FADED),): WHOLE, at.PLACE: Range(0.0, at.PLACES_MAX, whole=True)},
            axis=0,
            at="by_class",
        ),
        confusion=Array(2, "S", "S", within=NOT_NEGATIVE, places={0: WHOLE}, axis=0),
        scores=Array(2, 2, "B", within=NOT_NEGATIVE, places={0: WHOLE}, axis=0),
        ring=Array(
            "ring",
            at.RING,
            within=Range(float(at.GONE), undefined=True),
            places={
                at.GUESS: Range(float(at.GONE), whole=True),
                at.TRUTH: Range(0.0, whole=True),
                at.FLAGS: Range(0.0, 3.0, whole=True),
                (*range(at.R_LOSS, at.RING),): NOT_NEGATIVE._replace(undefined=True),
            },
        ),
        history=history_of(POINT),
    )

    def __init__(self, window: int, fading: float) -> None:
        super().__init__(at.SCALARS, at.RING, window, fading)
        self.scalars[[at.LAST, at.LEADER]] = at.NOTHING
        self.scalars[at.WEIGHT] = 1.0
        self.sums = np.zeros((2, at.SUMS))
        self.by_class = np.zeros((at.CLASS_ROWS, 0))
        self.confusion = np.zeros((2, 0, 0))
        self.scores = np.zeros((2, 2, 0))

    def absorb(self, predicted: Ints, truth: Ints, facts: Floats, classes: int, baselines: Ints = AS_THEY_ARE) -> None:
        """Score n rows in order. A block leaves the same bits as its rows one at a time.

        Args:
            predicted: int64 (n,), index of the a-priori prediction; ``NOTHING`` (-1) if there was no answer,
                ``GONE`` if its label is no longer known.
            truth: int64 (n,), index of the true label.
            facts: (FACTS, n), facts about the probabilities; see ``class_kernels``.
            classes: number of classes known; never fewer than before.
            baselines: int64 (n, 2), what ``no_change`` and ``majority`` predicted then: an index, ``NOTHING``,
                ``GONE``, or ``AS_NOW``; or (0, 2): what they predict now, for all rows.

        Raises:
            ValueError: other shapes, indices out of range, negative or infinite probabilities; nothing changes.
        """
        n, sound = len(truth), facts.shape == (at.FACTS, len(truth)) and classes >= self.classes
        if len(predicted) != n or len(baselines) not in {0, n} or not sound:
            raise ValueError("predictions, labels and probabilities do not match")
        arrays = self.arrays(n, classes)
        if not at.absorb(predicted, truth, facts, baselines, *arrays, self.fading):
            raise ValueError("an index or a probability is out of range")
        self.counted(arrays, n)

    def arrays(self, more: int, classes: int) -> CountArrays:
        """The arrays in which ``class_kernels.absorb`` counts rows, with room for ``more`` rows and for ``classes``."""
        by_class = self.by_class, self.confusion, self.scores
        if classes > self.by_class.shape[1]:
            by_class = _with_classes(*by_class, classes)
        return self.scalars, self.sums, *by_class, *self.room(more)

    def counted(self, arrays: CountArrays, rows: int) -> None:
        """Continue with ``arrays``, in which this many more rows are counted."""
        _, _, self.by_class, self.confusion, self.scores, self.ring, self.history = arrays
        self.rows += rows

    @property
    def classes(self) -> int:
        """Number of classes known when the last row was scored."""
        return int(self.by_class.shape[1])

    def baselines(self) -> tuple[int, int]:
        """What ``no_change`` and ``majority`` answer now: class indices, ``NOTHING`` before the first label."""
        return int(self.scalars[at.LAST]), int(self.scalars[at.LEADER])

    def headline(self, costs: Floats | None = None) -> Header:
        """The overall accuracy and that of the better baseline; with costs, also both mean costs."""
        scored, right, *baselines = self.sums[0, [at.SCORED, at.RIGHT, at.NO_CHANGE, at.MAJORITY]].tolist()
        found = {"score": right / scored, "baseline": max(baselines) / scored} if scored else NO_SCORES
        cost = None if costs is None else mean_cost(self.by_class[at.OVERALL : at.FADED], costs)
        return found if cost is None else {**found, "mean_cost": cost[0], "baseline_cost": cost[1]}

    def report(
        self, labels: Sequence[Any] | None = None, keys: Sequence[str] = (), costs: Floats | None = None
    ) -> Header:
        """The answer of ``GET /models/{name}/metrics``; undefined numbers are None.

        ``labels``: those of all known classes, None for their indices; ``keys``: the labels as JSON keys; ``costs``:
        (at least K,) what missing each class costs, None: not reported.
        """
        if labels is None:
            labels = range(self.classes)
            keys = [*map(str, labels)]
        spans = self._span(0), self._window, self._span(1)
        return self._report(*(span.report(labels, keys, costs) for span in spans))

    def quality(self, costs: Floats | None = None) -> Quality:
        """How well the model did in the window."""
        window, ratio = self._window, error_ratio(*self.window_errors(costs))
        accuracy, *baselines = map(window.mean, (at.RIGHT, at.NO_CHANGE, at.MAJORITY))
        return Quality(accuracy, max(baselines), ratio, window.calibration_error, int(self.sums[0, at.UNSCORED]))

    def window_errors(self, costs: Floats | None = None) -> tuple[float, float]:
        """The shares of wrong rows of the model and of the better baseline in the window, or mean costs; NaN: none."""
        tallies, *right = at.window_tallies(self.ring, min(self.rows, self.window), self.classes)
        if costs is not None:
            return (mean_cost(tallies, costs) or (np.nan, np.nan))[:2]
        scored = tallies[at.LABELS].sum()
        return 1.0 - _ratio(tallies[at.HITS].sum(), scored), 1.0 - _ratio(max(right), scored)

    def _span(self, faded: int) -> ClassSpan:
        """Copies of the counts of all rows, each counted as one or ``faded``."""
        weight, start = self.scalars[at.WEIGHT] if faded else 1.0, at.FADED if faded else at.OVERALL
        held = self.sums[faded], self.by_class[start : start + 3], self.confusion[faded], self.scores[faded]
        sums, tallies, confusion, scores = (counts / weight for counts in held)
        return ClassSpan(sums, tallies, confusion, scores, self.by_class[at.PLACE].astype(np.int64), not faded)

    @property
    def _window(self) -> ClassSpan:
        """The counts of the rows in the ring."""
        found = self._span(0)
        for counts in found[:4]:
            counts.fill(0.0)
        at.count_window(self.ring, min(self.rows, self.window), self.by_class[at.PLACE], *found[:4])
        return found

    def _check(self, held: Mapping[str, Floats], found: Counts) -> None:
        """Indices within the classes, counts within the rows, a place for each of the classes."""
        super()._check(held, found)
        s, classes, sums = held["scalars"], held["by_class"], held["sums"]
        rows, K, places = int(s[ROWS]), classes.shape[1], classes[at.PLACE]
        self._check_weight(s[at.WEIGHT])
        last = s[[at.LAST, at.LEADER]]
        if (last < (0 if rows else -1)).any() or (last >= K).any():
            raise ValueError("scalars: an impossible label")
        if (sums[0, : at.LOSS_SUM] > rows).any():
            raise ValueError("sums: more than there are rows")
        if (held["ring"][: min(rows, self.window), [at.GUESS, at.TRUTH]] >= K).any():
            raise ValueError("ring: a class that does not exist")
        if classes[at.SEEN].sum() != rows or (classes[at.OVERALL : at.FADED] > rows).any():
            raise ValueError("classes: they do not match the rows")
        if not np.array_equal(np.sort(places), np.minimum(np.arange(K), at.PLACES_MAX)):
            raise ValueError("classes: each must have its own place")
        if (held["confusion"].shape[1], held["scores"].shape[2]) != _sizes(K):
            raise ValueError("confusion, scores: their sizes do not match the number of classes")


def _sizes(classes: int) -> tuple[int, int]:
    """Places in the confusion of so many classes, and bins of the scores, which exist only up to two classes."""
    return min(classes, at.PLACES_MAX + 1), at.SCORE_BINS if 0 < classes <= 2 else 0


def _with_classes(classes: Floats, confusion: Floats, scores: Floats, count: int) -> tuple[Floats, Floats, Floats]:
    """The arrays by class, enlarged to ``count`` classes."""
    before, size, (places, bins) = classes.shape[1], confusion.shape[1], _sizes(count)
    wider = np.zeros((at.CLASS_ROWS, count))
    wider[:, :before] = classes
    wider[at.PLACE, before:] = np.minimum(np.arange(before, count), at.PLACES_MAX)
    counts = np.zeros((2, places, places))
    counts[:, :size, :size] = confusion
    return wider, counts, scores if bins == scores.shape[2] else np.zeros((2, 2, bins))


def kappa(accuracy: float, labels: Floats, guesses: Floats) -> float:
    """Accuracy beyond the chance agreement of the marginals (K,) and (K,); NaN without rows."""
    total = labels.sum()
    return at.beyond_chance(accuracy, float(labels / total @ (guesses / total))) if total else np.nan


def balanced_accuracy(labels: Floats, hits: Floats) -> float:
    """The mean recall of the classes that have labels, from counts (K,) and (K,); NaN if there are none."""
    there = labels > 0
    return float((hits[there] / labels[there]).mean()) if there.any() else np.nan


def mean_cost(tallies: Floats, costs: Floats) -> tuple[float, float, int] | None:
    """Costs per row of a span with tallies (3, K), for costs (at least K,) of missing each label; None without rows.

    Returns the cost of the answers, that of the cheapest constant answer, and the (first) answer that is cheapest.
    """
    labels, _, hits = tallies
    costs = costs[: len(labels)]
    rows = float(labels.sum())
    if rows == 0.0:
        return None
    unit = float(costs.max())  # sums of the costs themselves may overflow
    shares = costs / unit
    at_stake = shares * labels
    answer = int(np.argmax(at_stake))
    mean, constant = shares @ (labels - hits), at_stake.sum() - at_stake[answer]
    return unit * (float(mean) / rows), unit * (float(constant) / rows), answer


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else np.nan


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
