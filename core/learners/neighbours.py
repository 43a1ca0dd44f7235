r"""The nearest of the last rows: an expert of `auto` for what no plane, bin or bell describes. Not in the catalogue.

Of the last W = 500 labelled rows, the k = 7 nearest to a row x, at Euclidean distances d_j, count with

    w_j = 1 / (.05 + d_j^2 / d_k^2)                       d_k: the largest of these distances; if it is 0, all w_j are 1
    classes   p_c = (sum_j w_j [y_j = c] + 1 / C) / (sum_j w_j + 1)
    numbers   sum_j w_j y_j / sum_j w_j                   with the weighted deviation of their labels

Before the first row classes are equally probable, and the number is 0. Columns should be on one scale; values are
clipped to +-1e6, labels to +-1e300. Of rows at the same distance the latest ones count.

Source: Fix, Hodges: Discriminatory Analysis, 1951; a window for streams: Losing, Hammer, Wersing: KNN classifier with
self adjusting memory, ICDM 2016, which keeps more than the last rows.
"""

import math
from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from numba import njit

from core.contract import CLASSES, NUMBERS_IN, ROWS_IN, TABLE, VECTOR, Floats, Header, Ints, Spec, direct
from core.learners.learner import RowLearner
from core.numerics.rows import capacity, grown
from core.state.layout import WHOLE, Array, Counts, Layout

WINDOW, NEIGHBOURS = 500, 7  # W and k
VALUE_MAX, LABEL_MAX = 1e6, 1e300
_NEAR = 0.05


@njit(cache=True, nogil=True)
def _nearest(x: Floats, held: Floats, rows: int, total: Floats, near: Ints, apart: Floats) -> int:
    """Write the rows of ``held`` (d, w) nearest to x (d,), and their squared distances, in order; return their number.

    All distances are added up column by column, in ``total`` (W,): LLVM vectorises such loops.
    """
    found, farthest, count, last = 0, np.inf, min(rows, WINDOW), (rows - 1) % WINDOW
    for i in range(count):
        total[i] = 0.0
    for j in range(x.shape[0]):
        own, column = min(max(x[j], -VALUE_MAX), VALUE_MAX), held[j]
        for i in range(count):
            away = own - column[i]
            total[i] += away * away
    for age in range(count):
        i = last - age if age <= last else last - age + count
        if total[i] < farthest:
            at = found if found < NEIGHBOURS else NEIGHBOURS - 1
            while at > 0 and apart[at - 1] > total[i]:
                near[at], apart[at] = near[at - 1], apart[at - 1]
                at -= 1
            near[at], apart[at] = i, total[i]
            found = min(found + 1, NEIGHBOURS)
            if found == NEIGHBOURS:
                farthest = apart[NEIGHBOURS - 1]
    return found


@njit(cache=True, nogil=True)
def _answer(
    labels: Floats, near: Ints, apart: Floats, found: int, row: int, numbers: bool, value: Ints, out: Floats
) -> None:
    """Write the prediction of a row from its neighbours into ``value`` and ``out``, as in ``RowLearner.run_rows``."""
    farthest, total = apart[found - 1] if found else 0.0, 0.0
    for at in range(found):
        apart[at] = 1.0 / (_NEAR + apart[at] / farthest) if farthest > 0.0 else 1.0  # w_j from here on
    if numbers:
        mean = square = 0.0
        for at in range(found):
            total += apart[at]
            mean += apart[at] / total * (labels[near[at]] - mean)
        for at in range(found):
            away = min(abs(labels[near[at]] - mean), 1e150)
            square += apart[at] / total * away * away
        out[0, row], out[1, row] = mean, math.sqrt(square)
        return
    C = out.shape[1]
    for c in range(C):
        out[row, c] = 1.0 / C
    for at in range(found):
        total += apart[at]
        out[row, int(labels[near[at]])] += apart[at]
    for c in range(C):
        out[row, c] /= total + 1.0
    value[row] = out[row].argmax()


@direct(f"void({ROWS_IN}, {NUMBERS_IN}, {TABLE}, {VECTOR}, i8, b1, {CLASSES}, {TABLE})")
def answer_and_keep(
    X: Floats, y: Floats, held: Floats, labels: Floats, rows: int, numbers: bool, value: Ints, out: Floats
) -> None:
    """Predict n rows X (n, d) from those held; with labels y (n,), each row then replaces the oldest.

    ``rows``: the number learned so far; ``numbers``: whether labels are numbers, for which ``value`` is not written.
    """
    near, apart, total = np.empty(NEIGHBOURS, dtype=np.int64), np.empty(NEIGHBOURS), np.empty(WINDOW)
    for i in range(X.shape[0]):
        found = _nearest(X[i], held, rows, total, near, apart)
        _answer(labels, near, apart, found, i, numbers, value, out)
        if y.shape[0]:
            at = rows % WINDOW
            for j in range(X.shape[1]):
                held[j, at] = min(max(X[i, j], -VALUE_MAX), VALUE_MAX)
            labels[at] = min(max(y[i], -LABEL_MAX), LABEL_MAX)
            rows += 1


class Neighbours(RowLearner):
    """The learner of the nearest rows.

    State:
        held (d, w), labels (w,)   the last rows and their labels, a ring of W once w = W
        tally (1,)                 rows learned since the last ``forget``
    """

    layout: ClassVar = Layout(
        held=Array("D", "rows", within=VALUE_MAX),
        labels=Array("rows", within=LABEL_MAX),
        tally=Array(1, within=WHOLE),
    )
    object_bytes: ClassVar = 500
    deviates: ClassVar = True

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.tally = np.zeros(1)
        self.forget()

    def forget(self) -> None:
        """Drop all rows held; the arrays start small and double up to W."""
        room = capacity(0, WINDOW)
        self.held, self.labels = np.zeros((self.spec.dimension, room)), np.zeros(room)
        self.tally[:] = 0.0

    @classmethod
    def sizes(cls, spec: Spec, classes: int) -> dict[str, int]:
        """The sizes of the layout, once the window is full."""
        del classes
        return {"rows": WINDOW, "D": spec.dimension}

    @classmethod
    def row_cost(cls, spec: Spec, classes: int) -> float:
        """The distances to all rows of the window."""
        return 3.0 * WINDOW * (spec.dimension + 2.0) + 50.0 * max(classes, 1)

    def run_rows(self, X: Floats, y: Floats, discounts: Floats, weights: Floats, value: Ints, out: Floats) -> None:
        """See ``RowLearner``. Takes no discounts and no weights."""
        del discounts, weights
        rows = int(self.tally[0])
        if len(y):
            self.labels = grown(self.labels, rows + len(y), WINDOW)
            if (more := len(self.labels) - self.held.shape[1]) > 0:
                self.held = np.pad(self.held, ((0, 0), (0, more)))
            self.tally += len(y)
        answer_and_keep(X, y, self.held, self.labels, rows, self.regression, value, out)

    def extend(self, other: Self, places: Ints) -> None:
        """Continue from a learner with fewer columns; see ``core.contract.Extensible``."""
        self.held = np.zeros((self.spec.dimension, len(other.labels)))
        self.held[places] = other.held
        self.labels, self.tally, self.classes = other.labels.copy(), other.tally.copy(), other.classes

    def info(self) -> Header:
        """Rows held."""
        return {"rows": int(min(self.tally[0], WINDOW))}

    def _sizes(self, _found: Counts) -> Counts:
        return {"D": self.spec.dimension}

    def _check(self, held: Mapping[str, Floats], found: Counts) -> None:
        if len(held["labels"]) != capacity(int(held["tally"][0]), WINDOW):
            raise ValueError("held: its length does not match the number of rows")
        if not self.regression and not np.isin(held["labels"], np.arange(max(found["classes"], 1))).all():
            raise ValueError("labels: a class that does not exist")
