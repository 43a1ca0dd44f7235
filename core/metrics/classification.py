"""Prequential metrics of a classifier: each a-priori prediction against the label that came.

    accuracy          p0, the share of right predictions
    kappa             (p0 - pe)/(1 - pe), pe = sum_k (share of label k)(share of prediction k): chance agreement
    kappa_temporal    (p0 - pn)/(1 - pn), pn the accuracy of ``no_change``
    log_loss          mean of -ln max(p, 1e-15), p the probability given to the true label

Two baselines run along: ``no_change`` predicts the label of the row before, ``majority`` the label seen most often
so far (of equals the one of lowest index). Both have nothing to say on the first row, which counts as wrong.

A kappa whose denominator is 0 (the chance or the baseline is never wrong) is 1 where every prediction was right, else
undefined (None). A row without a probability (NaN) counts for everything but the log loss. In ``fading`` a mean is
(sum of weighted values)/(sum of weights); for the log loss only rows that have one fade it.
"""

from collections.abc import Mapping
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header, Ints
from core.metrics.scores import (
    FADING,
    POINTS_MAX,
    STRIDE_FIRST,
    WINDOW,
    Marks,
    capacity,
    checked,
    grown,
    number,
    points_expected,
    require_integers,
    thin,
)

P_MIN = 1e-15
"""Probabilities below count as this much in the log loss, which is then at most 34.5."""

# Columns of the scalars, one array so that a call passes few.
_ROWS, _RIGHT, _NO_CHANGE, _MAJORITY, _LOSS_ROWS, _LOSS = 0, 1, 2, 3, 4, 5
_LAST, _LEADER = 6, 7  # label of the row before; label seen most often; -1 before the first row
_W_RIGHT, _W_NO_CHANGE, _W_MAJORITY = 8, 9, 10
_F_ROWS, _F_RIGHT, _F_NO_CHANGE, _F_MAJORITY, _F_LOSS_ROWS, _F_LOSS = 11, 12, 13, 14, 15, 16
_STRIDE, _POINTS = 17, 18
_SCALARS = 19
# Rows of the counts (6, K): of labels and of predictions, overall, in the window, fading.
_LABELS, _GUESSES, _W_LABELS, _W_GUESSES, _F_LABELS, _F_GUESSES = 0, 1, 2, 3, 4, 5
# Columns of the ring: prediction, label, log loss or NaN, 1 for a right no_change plus 2 for a right majority.
_RING = 4
# Columns of the history: row, window accuracy, overall accuracy, window kappa, window accuracy of no_change.
_HISTORY = 5
_TINY = 1e-12

_F1 = numba.types.Array(numba.float64, 1, "C")
_F2 = numba.types.Array(numba.float64, 2, "C")
_F1_READ = numba.types.Array(numba.float64, 1, "C", readonly=True)
_I1_READ = numba.types.Array(numba.int64, 1, "C", readonly=True)


@numba.njit(numba.float64(numba.float64, numba.float64), cache=True)
def beyond_chance(p0: float, chance: float) -> float:
    """(p0 - chance)/(1 - chance), either kappa; NaN where it is undefined."""
    if 1.0 - chance > _TINY:
        return (p0 - chance) / (1.0 - chance)
    return 1.0 if p0 >= 1.0 - _TINY else np.nan


@numba.njit(numba.float64(_F2, numba.int64, numba.float64), cache=True)
def _chance(counts: Floats, row: int, total: float) -> float:
    """Chance agreement pe from the marginals in counts[row] (labels) and counts[row + 1] (predictions)."""
    pe = 0.0
    for k in range(counts.shape[1]):
        pe += (counts[row, k] / total) * (counts[row + 1, k] / total)
    return pe


@numba.njit(numba.void(_F1, _F2, _F1), cache=True)
def _leave_window(s: Floats, counts: Floats, row: Floats) -> None:
    """Take the oldest row of the ring out of the window's counts."""
    guess, y, flags = int(row[0]), int(row[1]), int(row[3])
    s[_W_RIGHT] -= 1.0 if guess == y else 0.0
    s[_W_NO_CHANGE] -= flags % 2
    s[_W_MAJORITY] -= flags // 2
    counts[_W_LABELS, y] -= 1.0
    if guess >= 0:
        counts[_W_GUESSES, guess] -= 1.0


@numba.njit(numba.void(_F1, _F2, _F2), cache=True)
def _add_point(s: Floats, counts: Floats, history: Floats) -> None:
    """One more point of the history; a full one loses every second."""
    point, width = int(s[_POINTS]), min(s[_ROWS], float(WINDOW))
    accuracy = s[_W_RIGHT] / width
    history[point, 0], history[point, 1], history[point, 2] = s[_ROWS], accuracy, s[_RIGHT] / s[_ROWS]
    history[point, 3] = beyond_chance(accuracy, _chance(counts, _W_LABELS, width))
    history[point, 4] = s[_W_NO_CHANGE] / width
    s[_POINTS] += 1.0
    if s[_POINTS] == POINTS_MAX:
        s[_POINTS] = thin(history, POINTS_MAX)
        s[_STRIDE] *= 2.0


@numba.njit(numba.boolean(_I1_READ, _I1_READ, _F1_READ, _F1, _F2, _F2, _F2), cache=True)
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
        right = 1.0 if guess == y else 0.0
        no_change = 1.0 if s[_LAST] == y else 0.0
        majority = 1.0 if s[_LEADER] == y else 0.0
        loss = np.nan if np.isnan(p_true[i]) else 0.0 - np.log(min(max(p_true[i], P_MIN), 1.0))

        at = int(s[_ROWS]) % WINDOW
        if s[_ROWS] >= WINDOW:
            _leave_window(s, counts, ring[at])
        ring[at, 0], ring[at, 1], ring[at, 2], ring[at, 3] = guess, y, loss, no_change + 2.0 * majority

        s[_ROWS] += 1.0
        s[_RIGHT] += right
        s[_NO_CHANGE] += no_change
        s[_MAJORITY] += majority
        s[_W_RIGHT] += right
        s[_W_NO_CHANGE] += no_change
        s[_W_MAJORITY] += majority
        s[_F_ROWS] = FADING * s[_F_ROWS] + 1.0
        s[_F_RIGHT] = FADING * s[_F_RIGHT] + right
        s[_F_NO_CHANGE] = FADING * s[_F_NO_CHANGE] + no_change
        s[_F_MAJORITY] = FADING * s[_F_MAJORITY] + majority
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
            _add_point(s, counts, history)
    return True


def log_losses(p_true: Floats) -> Floats:
    """-ln of the probabilities given to the true labels, (n,)."""
    return 0.0 - np.log(np.clip(p_true, P_MIN, 1.0))


class ClassificationMetrics:
    """The prequential metrics of a classifier, a state machine over its scored rows."""

    def __init__(self) -> None:
        self.rows = 0
        self._scalars = _empty_scalars()
        self._counts = np.zeros((6, 0))
        self._ring = np.zeros((capacity(0, WINDOW), _RING))
        self._history = np.zeros((capacity(0, POINTS_MAX), _HISTORY))
        self._marks = Marks()

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
        counts, ring, history = self._with_room(self.rows + n, classes)
        if not _absorb(predicted, truth, p_true, self._scalars, counts, ring, history):
            raise ValueError("an index or a probability is out of range")
        self._counts, self._ring, self._history = counts, ring, history
        self.rows += n

    def _with_room(self, rows: int, classes: int) -> tuple[Floats, Floats, Floats]:
        """The counts, the ring and the history, larger where so many rows and classes need it."""
        counts = self._counts
        if classes > counts.shape[1]:
            counts = np.hstack([counts, np.zeros((6, classes - counts.shape[1]))])
        return counts, grown(self._ring, rows, WINDOW), grown(self._history, rows // STRIDE_FIRST, POINTS_MAX)

    @property
    def classes(self) -> int:
        """Number of classes known when the last row was scored."""
        return int(self._counts.shape[1])

    def mark(self, row: int, kind: str, **extra: Any) -> None:
        """Remember that something (a drift, a switch, a reset) happened after ``row`` rows."""
        self._marks.add(row, kind, **extra)

    def headline(self) -> float | None:
        """The overall accuracy, None before the first row."""
        return float(self._scalars[_RIGHT]) / self.rows if self.rows else None

    def report(self) -> Header:
        """Everything, as ``GET /models/{name}/metrics`` answers it; undefined numbers are None."""
        s, width = self._scalars, min(self.rows, WINDOW)
        losses = self._ring[:width, 2]
        losses = losses[~np.isnan(losses)]
        loss = s[_LOSS] if s[_LOSS_ROWS] else np.nan
        w_loss = losses.mean() if losses.size else np.nan
        f_loss = s[_F_LOSS] / s[_F_LOSS_ROWS] if s[_F_LOSS_ROWS] else np.nan
        overall = self._scores(self.rows, s[[_RIGHT, _NO_CHANGE, _MAJORITY]], _LABELS, loss)
        window = self._scores(width, s[[_W_RIGHT, _W_NO_CHANGE, _W_MAJORITY]], _W_LABELS, w_loss)
        fading = self._scores(s[_F_ROWS], s[[_F_RIGHT, _F_NO_CHANGE, _F_MAJORITY]], _F_LABELS, f_loss)
        baselines = overall.pop("baselines")
        return {
            "rows": self.rows,
            "overall": overall,
            "window": {"size": WINDOW, "rows": width, **window},
            "fading": {"factor": FADING, **fading},
            "baselines": baselines,
            "history": self._points(),
            "marks": self._marks.to_list(),
        }

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

    def _points(self) -> list[dict[str, float | int | None]]:
        filled = self._history[: int(self._scalars[_POINTS])].tolist()
        return [
            {"row": int(row), "accuracy": accuracy, "overall": overall, "kappa": number(kappa), "no_change": no_change}
            for row, accuracy, overall, kappa, no_change in filled
        ]

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The whole state: copies of its arrays, and the marks as header."""
        arrays = {"scalars": self._scalars, "counts": self._counts, "ring": self._ring, "history": self._history}
        return {name: array.copy() for name, array in arrays.items()}, {"marks": self._marks.to_list()}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state that ``to_arrays`` gave.

        Raises:
            ValueError: shapes or values that no such state can have; the state is unchanged.
        """
        scalars = checked(arrays, "scalars", (_SCALARS,))
        if not np.isfinite(scalars).all():
            raise ValueError("scalars: a number that cannot be")
        require_integers(scalars[:1], "scalars", 0, 2**53)
        rows, classes = int(scalars[_ROWS]), np.size(arrays.get("counts", ())) // 6
        counts = checked(arrays, "counts", (6, classes))
        ring = checked(arrays, "ring", (capacity(rows, WINDOW), _RING))
        history = checked(arrays, "history", (capacity(rows // STRIDE_FIRST, POINTS_MAX), _HISTORY))
        _check(scalars, counts, ring[: min(rows, WINDOW)], history)
        self._marks = Marks.from_header(header)
        self.rows, self._scalars, self._counts, self._ring, self._history = rows, scalars, counts, ring, history

    @property
    def nbytes(self) -> int:
        """Bytes of memory the arrays hold."""
        return self._scalars.nbytes + self._counts.nbytes + self._ring.nbytes + self._history.nbytes


def _empty_scalars() -> Floats:
    scalars = np.zeros(_SCALARS)
    scalars[[_LAST, _LEADER]] = -1.0
    scalars[_STRIDE] = STRIDE_FIRST
    return scalars


def _check(s: Floats, counts: Floats, ring: Floats, history: Floats) -> None:
    """What the compiled kernel takes on trust: indices in range, counts that agree with the ring."""
    rows, classes = int(s[_ROWS]), counts.shape[1]
    require_integers(s[[_RIGHT, _NO_CHANGE, _MAJORITY, _LOSS_ROWS]], "scalars", 0, rows)
    require_integers(s[[_LAST, _LEADER]], "scalars", 0 if rows else -1, classes - 1)
    require_integers(s[[_W_RIGHT, _W_NO_CHANGE, _W_MAJORITY]], "scalars", 0, len(ring))
    if (int(s[_STRIDE]), int(s[_POINTS])) != points_expected(rows) or (s[_F_ROWS:] < 0).any() or s[_LOSS] < 0:
        raise ValueError("scalars: a number that cannot be")
    require_integers(counts[:4], "counts", 0, rows)
    require_integers(ring[:, 0], "ring", -1, classes - 1)
    require_integers(ring[:, 1], "ring", 0, classes - 1)
    require_integers(ring[:, 3], "ring", 0, 3)
    guesses, labels = ring[:, 0].astype(np.int64), ring[:, 1].astype(np.int64)
    in_ring = [np.bincount(labels, minlength=classes), np.bincount(guesses[guesses >= 0], minlength=classes)]
    if not np.array_equal(counts[[_W_LABELS, _W_GUESSES]], in_ring) or counts[_LABELS].sum() != rows:
        raise ValueError("counts: they do not agree with the ring")
    if not np.isfinite(counts).all() or (counts < 0).any() or np.isinf(ring).any() or (ring[:, 2] < 0).any():
        raise ValueError("counts or ring: a number that cannot be")
    filled = history[: int(s[_POINTS])]
    if np.isinf(history).any() or np.isnan(filled[:, [0, 1, 2, 4]]).any():
        raise ValueError("history: a number that cannot be")
