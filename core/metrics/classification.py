"""Prequential metrics of a classifier: each a-priori prediction against the label that came.

    accuracy          p0, the share of right predictions
    kappa             (p0 - pe)/(1 - pe), pe = sum_k (share of label k)(share of prediction k): chance agreement
    kappa_temporal    (p0 - pn)/(1 - pn), pn the accuracy of ``no_change``
    log_loss          mean of -ln max(p, 1e-15), p the probability given to the true label

Two baselines run along: ``no_change`` predicts the label of the row before, ``majority`` the label seen most often
so far (of equals the one of lowest index). Neither predicts the first row, which counts as wrong.

A kappa whose denominator is 0 (the chance or the baseline is never wrong) is 1 where every prediction was right, else
undefined (None). A row without a probability (NaN) counts for everything but the log loss. In ``fading`` a mean is
(sum of weighted values)/(sum of weights); for the log loss only rows that have one fade it.
"""

from collections.abc import Mapping

import numpy as np
from numba import njit

from core.contract import Floats, Header, Ints
from core.metrics.prequential import (
    FADING,
    READ_FLOATS,
    READ_INTS,
    STRIDE_FIRST,
    UNDEFINED,
    WINDOW,
    PrequentialMetrics,
    add_point,
    layout,
    number,
)
from core.state.layout import NOT_NEGATIVE, WHOLE, Array, Range

P_MIN = 1e-15
"""Probabilities below count as this much in the log loss, which is then at most 34.5."""

# Columns of the scalars, one array so that a call passes few.
_ROWS, _RIGHT, _NO_CHANGE, _MAJORITY, _LOSS_ROWS, _LOSS = 0, 1, 2, 3, 4, 5
_LAST, _LEADER = 6, 7  # label of the row before; label seen most often; -1 before the first row
_W_RIGHT, _W_NO_CHANGE, _W_MAJORITY = 8, 9, 10
_F_ROWS, _F_RIGHT, _F_NO_CHANGE, _F_MAJORITY, _F_LOSS_ROWS, _F_LOSS = 11, 12, 13, 14, 15, 16
_STRIDE = 17
_SCALARS = 19
# Rows of the counts (6, K): of labels and of predictions, overall, in the window, fading.
_LABELS, _GUESSES, _W_LABELS, _W_GUESSES, _F_LABELS, _F_GUESSES = 0, 1, 2, 3, 4, 5
# Columns of the ring: prediction, label, log loss or NaN, 1 for a right no_change plus 2 for a right majority.
_RING = 4
_TINY = 1e-12


@njit("f8(f8, f8)", cache=True)
def beyond_chance(p0: float, chance: float) -> float:
    """(p0 - chance)/(1 - chance), either kappa; NaN where it is undefined."""
    if 1.0 - chance > _TINY:
        return (p0 - chance) / (1.0 - chance)
    return 1.0 if p0 >= 1.0 - _TINY else np.nan


@njit("f8(f8[:,::1], i8, f8)", cache=True)
def _chance(counts: Floats, row: int, total: float) -> float:
    """Chance agreement pe from the marginals in counts[row] (labels) and counts[row + 1] (predictions)."""
    pe = 0.0
    for k in range(counts.shape[1]):
        pe += (counts[row, k] / total) * (counts[row + 1, k] / total)
    return pe


@njit("void(f8[::1], f8[:,::1], f8[::1])", cache=True)
def _leave_window(s: Floats, counts: Floats, row: Floats) -> None:
    """Take the oldest row of the ring out of the window's counts."""
    guess, y, flags = int(row[0]), int(row[1]), int(row[3])
    s[_W_RIGHT] -= 1.0 if guess == y else 0.0
    s[_W_NO_CHANGE] -= flags % 2
    s[_W_MAJORITY] -= flags // 2
    counts[_W_LABELS, y] -= 1.0
    if guess >= 0:
        counts[_W_GUESSES, guess] -= 1.0


@njit(
    f"b1({READ_INTS}, {READ_INTS}, {READ_FLOATS}, f8[::1], f8[:,::1], f8[:,::1], f8[:,::1])",
    cache=True,
)
def _absorb(
    predicted: Ints, truth: Ints, p_true: Floats, s: Floats, counts: Floats, ring: Floats, history: Floats
) -> bool:
    """Score the rows one by one; False, with nothing changed, where an index or a probability cannot be."""
    K = counts.shape[1]
    for i in range(truth.shape[0]):
        if not (0 <= truth[i] < K and -1 <= predicted[i] < K) or p_true[i] < 0.0 or p_true[i] == np.inf:
            return False
    for i in range(truth.shape[0]):
        y, guess = truth[i], predicted[i]
        # the model, no_change, majority
        hits = (1.0 if guess == y else 0.0, 1.0 if s[_LAST] == y else 0.0, 1.0 if s[_LEADER] == y else 0.0)
        loss = np.nan if np.isnan(p_true[i]) else 0.0 - np.log(min(max(p_true[i], P_MIN), 1.0))

        at = int(s[_ROWS]) % WINDOW
        if s[_ROWS] >= WINDOW:
            _leave_window(s, counts, ring[at])
        ring[at, 0], ring[at, 1], ring[at, 2], ring[at, 3] = guess, y, loss, hits[1] + 2.0 * hits[2]

        s[_ROWS] += 1.0
        s[_F_ROWS] = FADING * s[_F_ROWS] + 1.0
        for k, hit in enumerate(hits):
            s[_RIGHT + k] += hit
            s[_W_RIGHT + k] += hit
            s[_F_RIGHT + k] = FADING * s[_F_RIGHT + k] + hit
        if not np.isnan(loss):
            s[_LOSS_ROWS] += 1.0
            s[_LOSS] += (loss - s[_LOSS]) / s[_LOSS_ROWS]
            s[_F_LOSS_ROWS] = FADING * s[_F_LOSS_ROWS] + 1.0
            s[_F_LOSS] = FADING * s[_F_LOSS] + loss

        for k in range(K):
            counts[_F_LABELS, k] *= FADING
            counts[_F_GUESSES, k] *= FADING
        counts[_LABELS, y] += 1.0
        counts[_W_LABELS, y] += 1.0
        counts[_F_LABELS, y] += 1.0
        if guess >= 0:
            counts[_GUESSES, guess] += 1.0
            counts[_W_GUESSES, guess] += 1.0
            counts[_F_GUESSES, guess] += 1.0
        leader = int(s[_LEADER])
        lead = counts[_LABELS, leader] - counts[_LABELS, y] if leader >= 0 else -1.0
        if lead < 0.0 or (lead == 0.0 and y < leader):
            s[_LEADER] = y
        s[_LAST] = y

        if s[_ROWS] % s[_STRIDE] == 0.0:
            width = min(s[_ROWS], float(WINDOW))
            accuracy = s[_W_RIGHT] / width
            kappa = beyond_chance(accuracy, _chance(counts, _W_LABELS, width))
            add_point(s, history, accuracy, s[_RIGHT] / s[_ROWS], kappa, s[_W_NO_CHANGE] / width)
    return True


def log_losses(p_true: Floats) -> Floats:
    """-ln of the probabilities given to the true labels, (n,)."""
    return 0.0 - np.log(np.clip(p_true, P_MIN, 1.0))


class ClassificationMetrics(PrequentialMetrics):
    """The prequential metrics of a classifier, a state machine over its scored rows."""

    LAYOUT = layout(
        Array(
            _SCALARS,
            places={
                **dict.fromkeys((_ROWS, _RIGHT, _NO_CHANGE, _MAJORITY, _LOSS_ROWS), WHOLE),
                **dict.fromkeys((_W_RIGHT, _W_NO_CHANGE, _W_MAJORITY), Range(0.0, WINDOW, whole=True)),
                **dict.fromkeys((_LAST, _LEADER), Range(-1.0, whole=True)),
                **dict.fromkeys((_LOSS, *range(_F_ROWS, _SCALARS)), NOT_NEGATIVE),
            },
        ),
        ring=Array(
            "ring",
            _RING,
            within=UNDEFINED,
            places={
                0: Range(-1.0, whole=True),
                1: Range(0.0, whole=True),
                2: NOT_NEGATIVE._replace(undefined=True),
                3: Range(0.0, 3.0, whole=True),
            },
        ),
        undefined=3,
        counts=Array(6, "K", within=NOT_NEGATIVE, places=dict.fromkeys(range(4), WHOLE), axis=0),
    )
    POINT = ("accuracy", "overall", "kappa", "no_change")

    def __init__(self) -> None:
        scalars = np.zeros(_SCALARS)
        scalars[[_LAST, _LEADER]] = -1.0
        scalars[_STRIDE] = STRIDE_FIRST
        super().__init__(scalars, _RING)
        self._counts = np.zeros((6, 0))

    def absorb(self, predicted: Ints, truth: Ints, p_true: Floats, classes: int) -> None:
        """Score n rows in order. A block leaves the same bits as its rows one at a time.

        Args:
            predicted: int64 (n,), index of the a-priori prediction; -1 where there was none.
            truth: int64 (n,), index of the label that came.
            p_true: float64 (n,), a-priori probability of that label; NaN where there was none.
            classes: number of classes known; never fewer than before.

        Raises:
            ValueError: other lengths, indices out of range, negative or infinite probabilities; nothing changed.
        """
        n = len(truth)
        if len(predicted) != n or len(p_true) != n or classes < self._counts.shape[1]:
            raise ValueError("predictions, labels and probabilities do not go together")
        counts = self._counts
        if classes > counts.shape[1]:
            counts = np.hstack([counts, np.zeros((6, classes - counts.shape[1]))])
        ring, history = self._room(self.rows + n)
        if not _absorb(predicted, truth, p_true, self._scalars, counts, ring, history):
            raise ValueError("an index or a probability is out of range")
        self._counts, self._ring, self._history = counts, ring, history
        self.rows += n

    @property
    def classes(self) -> int:
        """Number of classes known when the last row was scored."""
        return int(self._counts.shape[1])

    def headline(self) -> float | None:
        """The overall accuracy, None before the first row."""
        return float(self._scalars[_RIGHT]) / self.rows if self.rows else None

    def best_baseline(self) -> float | None:
        """The overall accuracy of ``no_change`` or ``majority``, the higher one, None before the first row."""
        s = self._scalars
        return float(max(s[_NO_CHANGE], s[_MAJORITY])) / self.rows if self.rows else None

    def _spans(self) -> tuple[Header, Header, Header]:
        s, width = self._scalars, min(self.rows, WINDOW)
        losses = self._ring[:width, 2]
        losses = losses[~np.isnan(losses)]
        loss = s[_LOSS] if s[_LOSS_ROWS] else np.nan
        w_loss = losses.mean() if losses.size else np.nan
        f_loss = s[_F_LOSS] / s[_F_LOSS_ROWS] if s[_F_LOSS_ROWS] else np.nan
        return (
            self._scores(self.rows, s[[_RIGHT, _NO_CHANGE, _MAJORITY]], _LABELS, loss),
            self._scores(width, s[[_W_RIGHT, _W_NO_CHANGE, _W_MAJORITY]], _W_LABELS, w_loss),
            self._scores(s[_F_ROWS], s[[_F_RIGHT, _F_NO_CHANGE, _F_MAJORITY]], _F_LABELS, f_loss),
        )

    def _scores(self, total: float, right: Floats, labels: int, loss: float) -> Header:
        """The scores of one span: its rows, those right of (the model, no_change, majority), its row of the counts."""
        accuracy, no_change, majority = (right / total).tolist() if total else (np.nan, np.nan, np.nan)
        chance = _chance(self._counts, labels, total) if total else np.nan
        return {
            "accuracy": number(accuracy),
            "kappa": number(beyond_chance(accuracy, chance)),
            "kappa_temporal": number(beyond_chance(accuracy, no_change)),
            "log_loss": number(loss),
            "baselines": {"no_change": {"accuracy": number(no_change)}, "majority": {"accuracy": number(majority)}},
        }

    @staticmethod
    def _check(found: Mapping[str, Floats], rows: int) -> None:
        """Indices within the classes; counts within the rows, and those that the ring makes."""
        s, counts, ring = found["_scalars"], found["_counts"], found["_ring"][: min(rows, WINDOW)]
        classes = counts.shape[1]
        last, seen = s[[_LAST, _LEADER]], s[[_RIGHT, _NO_CHANGE, _MAJORITY, _LOSS_ROWS]]
        in_window = s[[_W_RIGHT, _W_NO_CHANGE, _W_MAJORITY]]
        if (last < (0 if rows else -1)).any() or (last >= classes).any() or (seen > rows).any():
            raise ValueError("scalars: a number that cannot be")
        if (in_window > len(ring)).any():
            raise ValueError("scalars: more rows in the window than it holds")
        if (ring[:, :2] >= classes).any():
            raise ValueError("ring: a class that is not there")
        guesses, labels = ring[:, 0].astype(np.int64), ring[:, 1].astype(np.int64)
        in_ring = [np.bincount(labels, minlength=classes), np.bincount(guesses[guesses >= 0], minlength=classes)]
        if not np.array_equal(counts[[_W_LABELS, _W_GUESSES]], in_ring) or counts[_LABELS].sum() != rows:
            raise ValueError("counts: they do not agree with the ring")
        if (counts[:4] > rows).any():
            raise ValueError("counts: more than there are rows")
