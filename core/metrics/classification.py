"""Prequential metrics of a classifier: each a-priori prediction against the label that came.

What the scores are is told in ``class_report``, how rows are counted in ``class_kernels``. Two baselines run along:
``no_change`` says the latest label known, ``majority`` the label seen most often (of equals the one of lowest index);
before any label both say the first class. Both are taken at the moment of the prediction: of a tracked row, whose label
comes late, they are what they were when the client was answered.

A row for which nothing could have been said, because no label was known, is *unscored*: it counts neither as right nor
as a miss, for the model and for the baselines alike. Of every other row all is counted; only the losses and the
reliability leave out rows whose learner gives no probabilities.
"""

from collections.abc import Mapping

import numpy as np

from core.contract import Floats, Header, Ints
from core.metrics.class_kernels import (
    CLASS_ROWS,
    FADED,
    FLAGS,
    GONE,
    GUESS,
    LAST,
    LEADER,
    LOSS_SUM,
    MAJORITY,
    NO_CHANGE,
    OVERALL,
    PLACE,
    PLACES_MAX,
    R_LOSS,
    RIGHT,
    RING,
    ROWS,
    SCALARS,
    SCORE_BINS,
    SCORED,
    SEEN,
    STRIDE,
    SUMS,
    TRUTH,
    UNSCORED,
    WEIGHT,
    absorb,
    count_window,
)
from core.metrics.class_report import Span, quality, report
from core.metrics.costs import MeanCost, mean_cost
from core.metrics.losses import FACTS
from core.metrics.prequential import STRIDE_FIRST, WINDOW, Named, PrequentialMetrics, layout
from core.metrics.quality import Quality
from core.state.layout import NOT_NEGATIVE, WHOLE, Array, Range

AS_THEY_ARE = np.empty((0, 2), dtype=np.int64)
"""What baselines were told to have said: for all rows what they say now."""
_PAIR = 2


class _Numbers:
    """Names of classes that have none: their indices."""

    def __init__(self, count: int) -> None:
        self.labels = [*range(count)]
        self.keys = [*map(str, range(count))]


class ClassificationMetrics(PrequentialMetrics):
    """The prequential metrics of a classifier, a state machine over its scored rows."""

    LAYOUT = layout(
        Array(
            SCALARS,
            places={
                ROWS: WHOLE,
                **dict.fromkeys((LAST, LEADER), Range(-1.0, whole=True)),
                WEIGHT: Range(1.0, 3.0),
                STRIDE: NOT_NEGATIVE,
            },
        ),
        ring=Array(
            "ring",
            RING,
            within=Range(float(GONE), undefined=True),
            places={
                GUESS: Range(float(GONE), whole=True),
                TRUTH: Range(0.0, whole=True),
                FLAGS: Range(0.0, 3.0, whole=True),
                **dict.fromkeys(range(R_LOSS, RING), NOT_NEGATIVE._replace(undefined=True)),
            },
        ),
        metrics=5,
        undefined=range(1, 6),
        sums=Array(2, SUMS, within=NOT_NEGATIVE),
        classes=Array(
            CLASS_ROWS,
            "K",
            within=NOT_NEGATIVE,
            places={**dict.fromkeys(range(SEEN, FADED), WHOLE), PLACE: Range(0.0, PLACES_MAX, whole=True)},
            axis=0,
        ),
        confusion=Array(2, "S", "S", within=NOT_NEGATIVE, places={0: WHOLE}, axis=0),
        scores=Array(2, 2, "B", within=NOT_NEGATIVE, places={0: WHOLE}, axis=0),
    )
    POINT = ("accuracy", "overall", "kappa", "no_change", "majority")

    def __init__(self) -> None:
        scalars = np.zeros(SCALARS)
        scalars[[LAST, LEADER]] = -1.0
        scalars[WEIGHT], scalars[STRIDE] = 1.0, STRIDE_FIRST
        super().__init__(scalars, RING)
        self._sums = np.zeros((2, SUMS))
        self._classes = np.zeros((CLASS_ROWS, 0))
        self._confusion = np.zeros((2, 0, 0))
        self._scores = np.zeros((2, 2, 0))

    def absorb(self, predicted: Ints, truth: Ints, facts: Floats, classes: int, told: Ints = AS_THEY_ARE) -> None:
        """Score n rows in order. A block leaves the same bits as its rows one at a time.

        Args:
            predicted: int64 (n,), index of the a-priori prediction; ``NOTHING`` (-1) where nothing could be said,
                ``GONE`` where the label that was said is not known any more.
            truth: int64 (n,), index of the label that came.
            facts: float64 (FACTS, n), what the probabilities said; see ``losses``.
            classes: number of classes known; never fewer than before.
            told: int64 (n, 2), what ``no_change`` and ``majority`` said when the prediction was made: an index,
                ``NOTHING``, ``GONE``, or ``AS_NOW``; or (0, 2): as now for all rows.

        Raises:
            ValueError: other shapes, indices out of range, negative or infinite probabilities; nothing changed.
        """
        n = len(truth)
        if len(predicted) != n or facts.shape != (FACTS, n) or len(told) not in {0, n} or classes < self.classes:
            raise ValueError("predictions, labels and probabilities do not go together")
        of_classes = self._classes, self._confusion, self._scores
        if classes > self.classes:
            of_classes = _with_classes(*of_classes, classes)
        ring, history = self._room(self.rows + n)
        if not absorb(predicted, truth, facts, told, self._scalars, self._sums, *of_classes, ring, history):
            raise ValueError("an index or a probability is out of range")
        self._classes, self._confusion, self._scores = of_classes
        self._ring, self._history = ring, history
        self.rows += n

    @property
    def classes(self) -> int:
        """Number of classes known when the last row was scored."""
        return int(self._classes.shape[1])

    @property
    def labels_seen(self) -> Floats:
        """Rows of each class, (K,)."""
        seen: Floats = self._classes[SEEN]
        return seen

    def baselines(self) -> tuple[int, int]:
        """What ``no_change`` and ``majority`` say now: class indices, ``NOTHING`` before the first label."""
        return int(self._scalars[LAST]), int(self._scalars[LEADER])

    def headline(self) -> float | None:
        """The overall accuracy, None before the first scored row."""
        scored = self._sums[0, SCORED]
        return float(self._sums[0, RIGHT] / scored) if scored else None

    def best_baseline(self) -> float | None:
        """The overall accuracy of ``no_change`` or ``majority``, the higher one, None before the first scored row."""
        s = self._sums[0]
        return float(max(s[NO_CHANGE], s[MAJORITY]) / s[SCORED]) if s[SCORED] else None

    def mean_cost(self, costs: Floats) -> MeanCost | None:
        """What all answers so far have cost a row, None before the first scored row.

        Args:
            costs: (at least K,) of missing each class.
        """
        labels, _, hits = self._classes[OVERALL:FADED]
        return mean_cost(labels, hits, costs[: self.classes])

    def report(self, names: Named | None = None, costs: Floats | None = None) -> Header:
        """Everything, as ``GET /models/{name}/metrics`` answers it; undefined numbers are None.

        Args:
            names: labels and JSON keys of all classes that are known; None: their indices.
            costs: of missing each of them; None: nothing is told of costs.
        """
        names = names or _Numbers(self.classes)
        places = self._classes[PLACE].astype(np.int64)
        weight = self._scalars[WEIGHT]
        overall = Span(self._sums[0], self._classes[OVERALL:FADED], self._confusion[0], self._scores[0], places)
        faded = self._sums[1], self._classes[FADED:], self._confusion[1], self._scores[1]
        sums, tallies, confusion, scores = (counts / weight for counts in faded)
        fading = Span(sums, tallies, confusion, scores, places)
        window = report(self._window(places), names, True, costs)
        return self._report(report(overall, names, True, costs), window, report(fading, names, False, costs))

    def quality(self, costs: Floats | None = None) -> Quality:
        """How well the model has done in the window; ``costs`` (K,) of missing each class, None: all alike."""
        window = self._window(self._classes[PLACE].astype(np.int64))
        return quality(window, self._sums[0, UNSCORED], None if costs is None else costs[: self.classes])

    def _window(self, places: Ints) -> Span:
        """What there is to count in the ring."""
        K, (S, B) = self.classes, (self._confusion.shape[1], self._scores.shape[2])
        counts = np.zeros(SUMS), np.zeros((3, K)), np.zeros((S, S)), np.zeros((2, B))
        count_window(self._ring, min(self.rows, WINDOW), self._classes[PLACE], *counts)
        return Span(*counts, places)

    @staticmethod
    def _check(found: Mapping[str, Floats], rows: int) -> None:
        """Indices within the classes, counts within the rows, a place for each of the classes."""
        s, classes, ring = found["_scalars"], found["_classes"], found["_ring"][: min(rows, WINDOW)]
        K, sums, places = classes.shape[1], found["_sums"], classes[PLACE]
        last = s[[LAST, LEADER]]
        if (last < (0 if rows else -1)).any() or (last >= K).any():
            raise ValueError("scalars: a label that cannot be")
        if (sums[0, :LOSS_SUM] > rows).any():
            raise ValueError("sums: more than there are rows")
        if (ring[:, [GUESS, TRUTH]] >= K).any():
            raise ValueError("ring: a class that is not there")
        if classes[SEEN].sum() != rows or (classes[OVERALL:FADED] > rows).any():
            raise ValueError("classes: they do not agree with the rows")
        if not np.array_equal(np.sort(places), np.minimum(np.arange(K), PLACES_MAX)):
            raise ValueError("classes: their places are not one for each")
        if found["_confusion"].shape[1] != _places(K) or found["_scores"].shape[2] != _score_bins(K):
            raise ValueError("confusion, scores: of another size than so many classes make")


def _places(classes: int) -> int:
    """Places in the confusion of so many classes."""
    return min(classes, PLACES_MAX + 1)


def _score_bins(classes: int) -> int:
    """Bins of the scores: there are some up to two classes."""
    return SCORE_BINS if 0 < classes <= _PAIR else 0


def _with_classes(classes: Floats, confusion: Floats, scores: Floats, count: int) -> tuple[Floats, Floats, Floats]:
    """The arrays by class, larger, for so many classes."""
    before, size = classes.shape[1], confusion.shape[1]
    wider = np.zeros((CLASS_ROWS, count))
    wider[:, :before] = classes
    wider[PLACE, before:] = np.minimum(np.arange(before, count), PLACES_MAX)
    counts = np.zeros((2, _places(count), _places(count)))
    counts[:, :size, :size] = confusion
    bins = _score_bins(count)
    return wider, counts, scores if bins == scores.shape[2] else np.zeros((2, 2, bins))
