"""Prequential metrics of a classifier: each a-priori prediction against the label that came.

``class_report`` defines the scores, ``class_kernels`` counts the rows. There are two baselines: ``no_change`` answers
the latest label known, ``majority`` the label seen most often (of equals the one of lowest index); before any label
both answer the first class. Both are taken at the moment of the prediction: for a tracked row, whose label comes late,
when the client was answered.

A row without an answer, because no label was known, is *unscored*: it counts neither as right nor as a miss, for the
model and for the baselines alike. All other rows count everywhere; only the losses and the reliability leave out rows
whose learner gives no probabilities.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import core.metrics.class_kernels as at
from core.contract import Floats, Header, Ints
from core.metrics.class_report import Span, mean_cost, quality, report
from core.metrics.prequential import ROWS, STRIDE, WINDOW, PrequentialMetrics, Quality, history_of
from core.state.layout import NOT_NEGATIVE, WHOLE, Array, Counts, Layout, Range

AS_THEY_ARE = np.empty((0, 2), dtype=np.int64)
"""The answers of the baselines: for all rows what they answer now."""

NO_SCORES: Header = {"score": None, "baseline": None}


class ClassificationMetrics(PrequentialMetrics):
    """The prequential metrics of a classifier, a state machine over its scored rows."""

    POINT = ("accuracy", "overall", "kappa", "no_change", "majority")
    layout = Layout(
        {
            "scalars": Array(
                at.SCALARS,
                places={
                    ROWS: WHOLE,
                    **dict.fromkeys((at.LAST, at.LEADER), Range(-1.0, whole=True)),
                    at.WEIGHT: Range(1.0, 3.0),
                    STRIDE: NOT_NEGATIVE,
                },
            ),
            "sums": Array(2, at.SUMS, within=NOT_NEGATIVE),
            "classes": Array(
                at.CLASS_ROWS,
                "K",
                within=NOT_NEGATIVE,
                places={**dict.fromkeys(range(at.FADED), WHOLE), at.PLACE: Range(0.0, at.PLACES_MAX, whole=True)},
                axis=0,
                at="by_class",
            ),
            "confusion": Array(2, "S", "S", within=NOT_NEGATIVE, places={0: WHOLE}, axis=0),
            "scores": Array(2, 2, "B", within=NOT_NEGATIVE, places={0: WHOLE}, axis=0),
            "ring": Array(
                "ring",
                at.RING,
                within=Range(float(at.GONE), undefined=True),
                places={
                    at.GUESS: Range(float(at.GONE), whole=True),
                    at.TRUTH: Range(0.0, whole=True),
                    at.FLAGS: Range(0.0, 3.0, whole=True),
                    **dict.fromkeys(range(at.R_LOSS, at.RING), NOT_NEGATIVE._replace(undefined=True)),
                },
            ),
            "history": history_of(POINT),
        }
    )

    def __init__(self) -> None:
        super().__init__(at.SCALARS, at.RING)
        self.scalars[[at.LAST, at.LEADER]] = at.NOTHING
        self.scalars[at.WEIGHT] = 1.0
        self.sums = np.zeros((2, at.SUMS))
        self.by_class = np.zeros((at.CLASS_ROWS, 0))
        self.confusion = np.zeros((2, 0, 0))
        self.scores = np.zeros((2, 2, 0))

    def absorb(self, predicted: Ints, truth: Ints, facts: Floats, classes: int, baselines: Ints = AS_THEY_ARE) -> None:
        """Score n rows in order. A block leaves the same bits as its rows one at a time.

        Args:
            predicted: int64 (n,), index of the a-priori prediction; ``NOTHING`` (-1) where there was no answer,
                ``GONE`` where its label is no longer known.
            truth: int64 (n,), index of the label that came.
            facts: float64 (FACTS, n), what the probabilities said; see ``class_kernels``.
            classes: number of classes known; never fewer than before.
            baselines: int64 (n, 2), what ``no_change`` and ``majority`` predicted then: an index, ``NOTHING``,
                ``GONE``, or ``AS_NOW``; or (0, 2): as now for all rows.

        Raises:
            ValueError: other shapes, indices out of range, negative or infinite probabilities; nothing changed.
        """
        n, known, of_baselines = len(truth), self.classes, len(baselines)
        others = len(predicted) != n or (of_baselines and of_baselines != n)
        if others or facts.shape != (at.FACTS, n) or classes < known:
            raise ValueError("predictions, labels and probabilities do not go together")
        arrays = self.by_class, self.confusion, self.scores
        if classes > known:
            arrays = _with_classes(*arrays, classes)
        ring, history = self._room(n)
        if not at.absorb(predicted, truth, facts, baselines, self.scalars, self.sums, *arrays, ring, history):
            raise ValueError("an index or a probability is out of range")
        self.by_class, self.confusion, self.scores = arrays
        self.ring, self.history, self.rows = ring, history, self.rows + n

    @property
    def classes(self) -> int:
        """Number of classes known when the last row was scored."""
        return int(self.by_class.shape[1])

    @property
    def labels_seen(self) -> Floats:
        """Rows of each class, (K,)."""
        seen: Floats = self.by_class[at.SEEN]
        return seen

    def baselines(self) -> tuple[int, int]:
        """What ``no_change`` and ``majority`` answer now: class indices, ``NOTHING`` before the first label."""
        return int(self.scalars[at.LAST]), int(self.scalars[at.LEADER])

    def headline(self, costs: Floats | None = None) -> Header:
        """The overall accuracy and that of the better baseline; with costs the mean ones, too."""
        scored, right, *baselines = self.sums[0, [at.SCORED, at.RIGHT, at.NO_CHANGE, at.MAJORITY]].tolist()
        found = {"score": right / scored, "baseline": max(baselines) / scored} if scored else NO_SCORES
        cost = None if costs is None else mean_cost(self.by_class[at.OVERALL : at.FADED], costs)
        return found if cost is None else {**found, "mean_cost": cost.mean, "baseline_cost": cost.constant}

    def report(
        self, labels: Sequence[Any] | None = None, keys: Sequence[str] = (), costs: Floats | None = None
    ) -> Header:
        """The answer of ``GET /models/{name}/metrics``; undefined numbers are None.

        Args:
            labels: of all classes that are known; None: their indices.
            keys: the labels as JSON keys.
            costs: of missing each of them; None: costs are not reported.
        """
        if labels is None:
            labels = range(self.classes)
            keys = [*map(str, labels)]
        spans = self._span(0), self._window, self._span(1)
        return self._report(*(report(span, labels, keys, costs) for span in spans))

    def quality(self, costs: Floats | None = None) -> Quality:
        """How well the model did in the window."""
        return quality(self._window, self.sums[0, at.UNSCORED], costs)

    def _span(self, faded: int) -> Span:
        """Copies of what is counted of all rows, each as one or ``faded``."""
        weight, start = self.scalars[at.WEIGHT] if faded else 1.0, at.FADED if faded else at.OVERALL
        held = self.sums[faded], self.by_class[start : start + 3], self.confusion[faded], self.scores[faded]
        sums, tallies, confusion, scores = (counts / weight for counts in held)
        return Span(sums, tallies, confusion, scores, self.by_class[at.PLACE].astype(np.int64), not faded)

    @property
    def _window(self) -> Span:
        """What is counted of the rows in the ring."""
        found = self._span(0)
        for counts in found[:4]:
            counts.fill(0.0)
        at.count_window(self.ring, min(self.rows, WINDOW), self.by_class[at.PLACE], *found[:4])
        return found

    def _check(self, held: Mapping[str, Floats], found: Counts) -> None:
        """Indices within the classes, counts within the rows, a place for each of the classes."""
        super()._check(held, found)
        s, classes, sums = held["scalars"], held["by_class"], held["sums"]
        rows, K, places = int(s[ROWS]), classes.shape[1], classes[at.PLACE]
        last = s[[at.LAST, at.LEADER]]
        if (last < (0 if rows else -1)).any() or (last >= K).any():
            raise ValueError("scalars: a label that cannot be")
        if (sums[0, : at.LOSS_SUM] > rows).any():
            raise ValueError("sums: more than there are rows")
        if (held["ring"][: min(rows, WINDOW), [at.GUESS, at.TRUTH]] >= K).any():
            raise ValueError("ring: a class that is not there")
        if classes[at.SEEN].sum() != rows or (classes[at.OVERALL : at.FADED] > rows).any():
            raise ValueError("classes: they do not agree with the rows")
        if not np.array_equal(np.sort(places), np.minimum(np.arange(K), at.PLACES_MAX)):
            raise ValueError("classes: their places are not one for each")
        if (held["confusion"].shape[1], held["scores"].shape[2]) != _sizes(K):
            raise ValueError("confusion, scores: of another size than so many classes make")


def _sizes(classes: int) -> tuple[int, int]:
    """Places in the confusion of so many classes, and bins of the scores: there are some up to two classes."""
    return min(classes, at.PLACES_MAX + 1), at.SCORE_BINS if 0 < classes <= 2 else 0


def _with_classes(classes: Floats, confusion: Floats, scores: Floats, count: int) -> tuple[Floats, Floats, Floats]:
    """The arrays by class, larger, for so many classes."""
    before, size, (places, bins) = classes.shape[1], confusion.shape[1], _sizes(count)
    wider = np.zeros((at.CLASS_ROWS, count))
    wider[:, :before] = classes
    wider[at.PLACE, before:] = np.minimum(np.arange(before, count), at.PLACES_MAX)
    counts = np.zeros((2, places, places))
    counts[:, :size, :size] = confusion
    return wider, counts, scores if bins == scores.shape[2] else np.zeros((2, 2, bins))
