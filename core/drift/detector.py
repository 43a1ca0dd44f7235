r"""Drift detection: two tests per class, in constant space, on every row of a model.

**class_mean** (VIGOd's test). A class keeps a past window, all its rows up to its last batch (beta of them, mean m),
and a recent one, the |B| rows since. Each time the recent one is full, with n_h = 1 / (1/beta + 1/|B|), it is a drift
if for any column i of D, of range R_i,

    |m_i - xbar_i| >= min(R_i sqrt(l / 2 n_h),                          Hoeffding
                          sqrt(2 v_i l / n_h) + 2 R_i l / 3 n_h)        Bernstein, v_i the variance of both windows
    l = ln(4 D / delta)

for independent rows. If each row resembles the one before it, a mean varies more: it has t_i = (1 + r) / (1 - r) times
the variance, where r is the correlation of successive rows of the class, estimated in the past window from their
squared steps, r = 1 - E (x' - x)^2 / 2 v, if r is significant: more than 3 / sqrt(beta). Noise hides slow changes from
r, but not from the means b, b' of successive batches: t_i = |B| E (b' - b)^2 / 2 v if that is more than 1 + 3 sqrt(3/N)
times as large, with N such steps in the past window, without the last one, in which a drift may have begun. Hoeffding's
cut and the first term of Bernstein's are sqrt(t_i) times as large.

After a drift the recent batch becomes the past window; otherwise it joins it. R_i is the declared range, which grows
when exceeded, or without a declaration the range so far.

**error_rate**. The same per true class for z = 1[the a-priori label is wrong]: with a, b the means of z in the past and
the recent window and p of both together, it is a drift if errors have *risen*,

    b - a >= sqrt(2 t p (1 - p) l / n_h) + 2 l / 3 n_h,        l = ln(4 / delta)

Recent windows are the last |B|/4, |B|/2, |B| and 2 |B| rows of the class, each with a quarter of delta; the past one is
all rows before them, at least |B|. They are tested every |B|/8 rows, rounded down, and |B| is here 8 times that; every
row if |B| is below 8.
Errors that come in runs vary more from eighth to eighth than those of independent rows: with s the number of wrong rows
in an eighth of m rows, t = E (s' - s)^2 / 2 m p (1 - p) if that is significantly above 1, else t = 1. Significant are 3
standard deviations for independent rows, sqrt((3 + g) / N) with N steps and a binomial's excess kurtosis g. The
shortest window that shows a drift becomes the past one. If errors, averaged over the K classes, were at least
.9 (1 - 1/K), the test is off: the model is no better than guessing, so it has no accuracy to lose.

**Regression** has a single class. For the error test a row is wrong if its squared innovation is above a limit: the .9
quantile of a reference batch of |B| rows. That is the second batch after every start: in the first one the weights have
not settled. After an alarm a new limit is set the same way.

Which rows can raise an alarm depends on the labels alone (``rows_to_test``), so a model that acts on its alarms learns
up to exactly that row.

Source: Nguyen, Nguyen, Liew, Wang: Variational inference based Bayes online classifiers with concept drift adaptation,
Pattern Recognition 81, 2018, for the first test; Audibert, Munos, Szepesvari: Exploration-exploitation tradeoff using
variance estimates, Theoretical Computer Science 410, 2009, for the form of the cuts with a variance.

Deviations from the paper
- Differences are divided by ranges; the paper's test needs attributes within [0, 1].
- The Bernstein cut in addition to Hoeffding's: if a column's deviation is a small part of its range, Hoeffding's test
  misses shifts of half a deviation.
- The error test: the paper's own test misses a boundary that moves while class means stay.
- The factors t: rows of most series resemble those before them, and the tests assume independent ones.
- Windows of four lengths: a model that forgets recovers within tens of rows, which a batch of 200 does not show; a
  small lasting rise needs more rows than that.
- The limit of a regression: the first squared innovation of a model that starts from zero weights is often a thousand
  times larger than any later one, so innovations scaled to their running range would show nothing.
"""

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np

from core.contract import ALARM_COLUMNS_MAX, Alarm, Floats, Ints
from core.drift import kernels as at
from core.problems import Checked, Param
from core.state.layout import NOT_NEGATIVE, WHOLE, Array, Counts, Holder, Layout

WINDOWS = 4.0  # number of recent windows in one error test
OBJECT_BYTES = 900  # memory of the objects around the arrays


DELTA = Param("delta", "number", 0.05, "Bound on the chance of a false alarm. Default: 0.05.", gt=0.0, lt=1.0)
BATCH_SIZE = Param("batch_size", "integer", 200, "Rows of a class in a recent window. Default: 200.", ge=2, le=10_000)


class WatchTest(Checked):
    """The settings of a drift test."""

    strange: ClassVar[str] = "is not a setting of a test"
    delta: Annotated[float, DELTA] = DELTA.default
    batch_size: Annotated[int, BATCH_SIZE] = BATCH_SIZE.default


Tests = Mapping[str, WatchTest]
"""The tests that run, "class_mean" and "error_rate"; empty if the model has no drift tests."""


class DriftDetector(Holder):
    """The tests of one model: only those of ``tests`` run, others cost nothing.

    ``ranges`` (2, D) has the least and largest expected value of each encoded column, NaN if not declared. A
    classification starts with ``classes`` classes, a regression has one from the start.

    State (core.drift.kernels): ``means`` and ``counters`` per class, ``reference`` of a regression.
    """

    layout = Layout(
        means=Array("windows", "D", axis=0, ordered=[(at.LOW, at.HIGH)]),
        tallies=Array(
            "classes",
            at.COUNTERS,
            within=NOT_NEGATIVE,
            places={(at.PAST, at.RECENT, at.COUNT, at.PARTIAL): WHOLE},
            ordered=[(place, at.WRONG) for place in range(at.SUMS, at.COUNTERS)],
            at="counters",
        ),
        reference=Array("reference", within=NOT_NEGATIVE),
    )
    object_bytes = OBJECT_BYTES
    counts: Mapping[str, int] = {"started": 1}

    def __init__(self, tests: Tests, ranges: Floats, regression: bool, classes: int = 0) -> None:
        mean, error = tests.get("class_mean"), tests.get("error_rate")
        self.regression = regression
        self.limits = np.zeros(4)
        D = ranges.shape[1] if mean else 0
        if mean:
            self.limits[:2] = mean.batch_size, math.log(4.0 * D / mean.delta)
        if error:
            self.limits[2:] = error.batch_size, math.log(WINDOWS / error.delta)
        self._error_batch = error.batch_size if error else 0
        self._cell = self._error_batch // max(min(at.CELLS, self._error_batch), 1)
        self._ranges = ranges[:, :D].copy()
        self.started = 0
        classes = 1 if regression else classes
        self.means = np.zeros((at.FIRST + at.PER_CLASS * classes, D))
        self.counters = np.zeros((classes, at.COUNTERS))
        self.reference = np.zeros(at.REFERENCE + self._error_batch if regression and error else 0)

    def restart(self) -> None:
        """Empty all windows; classes and ranges are kept. Later rows are not compared with earlier ones."""
        for windows in (self.means[at.FIRST :], self.counters, self.reference):
            windows.fill(0.0)

    def forget_errors(self) -> None:
        """Empty the windows of the error test, because the definition of an error has changed."""
        self.counters[:, at.COUNT :] = 0.0
        self.reference[:] = 0.0

    def adopt(self, other: "DriftDetector", places: Ints | None = None) -> None:
        """Take over the windows of another detector with the same classes and the same batch sizes.

        ``places``: the positions of its columns among these; the others count as 0 in every row. None: same columns.
        """
        if self.means.shape[1] and other.limits[at.MEAN_BATCH] == self.limits[at.MEAN_BATCH]:
            if places is None:
                self.means[:] = other.means
            else:
                self.means[[at.LOW, at.HIGH]] = np.fmin(self._ranges[0], 0.0), np.fmax(self._ranges[1], 0.0)
                self.means[:, places] = other.means
            self.started = other.started
            self.counters[:, : at.COUNT] = other.counters[:, : at.COUNT]
        if self._cell and other.limits[at.ERROR_BATCH] == self.limits[at.ERROR_BATCH]:
            self.counters[:, at.COUNT :] = other.counters[:, at.COUNT :]
            self.reference[:] = other.reference

    @property
    def classes(self) -> int:
        """Number of classes with windows."""
        return self.counters.shape[0]

    def column_means(self) -> Floats | None:
        """Means (D,) over the rows in all classes' windows of class_mean; None without rows or without the test."""
        windows = self.means[at.FIRST :].reshape(self.classes, at.PER_CLASS, self.means.shape[1])
        past, rows = self.counters[:, at.PAST], self.counters[:, [at.PAST, at.RECENT]].sum()
        if not windows.size or not rows:
            return None
        shares = past / rows @ windows[:, at.MEAN] + (windows[:, at.TO_RECENT + at.MEAN] / rows).sum(axis=0)
        return np.asarray(self.means[at.ORIGIN] + shares)

    def add_class(self) -> None:
        """Add a class; call this before its first row."""
        self.means = np.concatenate([self.means, np.zeros((at.PER_CLASS, self.means.shape[1]))])
        self.counters = np.concatenate([self.counters, np.zeros((1, at.COUNTERS))])

    def rows_to_test(self, classes: Ints) -> int:
        """The number of rows, of classes (n,), up to and including the first that may raise an alarm."""
        return int(at.rows_to_test(classes, self.counters, self.reference, self.limits))

    def absorb(self, X: Floats, classes: Ints, loss: Floats) -> list[Alarm]:
        """Add rows after they were predicted and learned; returns the alarms, in the order of their rows.

        X (n, D) has encoded rows; ``classes`` (n,) int64 class indices, zeros for regression; ``loss`` (n,) 0 or 1, for
        regression squared innovations. All are finite.
        """
        alarms: list[Alarm] = []
        row, n, state = 0, len(X), (self.means, self.counters, self.reference, self.limits)
        if not self.started and n:
            self._start(X[0])
        while True:
            row, differ, window = at.absorb_rows(X, classes, loss, row, *state)
            if row >= n:
                return alarms
            k = int(classes[row])
            if differ:
                alarms.append(self._means_alarm(row, k))
                at.close_batch(self.means, self.counters, k, True)
            if window:
                alarms.append(self._errors_alarm(row, k, window))
                if self.regression:
                    self.forget_errors()
                else:
                    at.close_window(self.counters, k, window // self._cell, self._cell)
            row += 1

    def _start(self, x: Floats) -> None:
        """Make the first row the origin, and the range of columns without a declared one."""
        columns = self.means.shape[1]
        origin = np.clip(x[:columns], -at.VALUE_MAX, at.VALUE_MAX)
        declared = np.clip(self._ranges, -at.VALUE_MAX, at.VALUE_MAX)
        self.means[at.ORIGIN] = origin
        self.means[at.LOW] = np.fmin(declared[0] - origin, 0.0)
        self.means[at.HIGH] = np.fmax(declared[1] - origin, 0.0)
        self.started = 1

    def _means_alarm(self, row: int, k: int) -> Alarm:
        M, first = self.means, at.FIRST + at.PER_CLASS * k
        past, recent = self.counters[k, at.PAST], self.counters[k, at.RECENT]
        after = M[first + at.TO_RECENT + at.MEAN] / recent
        apart = np.abs(after - M[first + at.MEAN])
        cuts = np.array([at.mean_cut(M, first, j, past, recent, self.limits[1]) for j in range(M.shape[1])])
        spread = M[at.HIGH] - M[at.LOW]
        found = np.flatnonzero((cuts > 0.0) & (apart >= cuts))
        found = found[np.argsort(-apart[found] / spread[found], kind="stable")][:ALARM_COLUMNS_MAX]
        origin = M[at.ORIGIN, found]
        before, later = (tuple((origin + mean).tolist()) for mean in (M[first + at.MEAN, found], after[found]))
        epsilon = float(cuts[found[0]] / spread[found[0]])
        columns = tuple(found.tolist())
        return Alarm("class_mean", row, k, columns, before, later, epsilon, int(past), int(recent))

    def _errors_alarm(self, row: int, k: int, window: int) -> Alarm:
        count, wrong = self.counters[k, at.COUNT], self.counters[k, at.WRONG]
        before = self.counters[k, at.SUMS + int(count - window) // self._cell % at.KEPT]
        inflation = at.error_inflation(self.counters, k, self._cell)
        a, b, cut = at.error_cut(count - window, before, float(window), wrong - before, self.limits[3], inflation)
        return Alarm("error_rate", row, k, (), (a,), (b,), cut, int(count) - window, window)

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return super().nbytes + self._ranges.nbytes

    def _sizes(self, _found: Counts) -> Counts:
        return {"D": self.means.shape[1], "reference": len(self.reference)}

    def _check(self, held: Mapping[str, Floats], _found: Counts) -> None:
        """Check what the kernel relies on: one window per class, none of them full, no more errors than rows."""
        means, counters, reference = held["means"], held["counters"], held["reference"]
        classes = len(counters)
        if len(means) != at.FIRST + at.PER_CLASS * classes or (self.regression and classes != 1):
            raise ValueError("means: windows that do not match the classes")
        largest = np.full(len(means), at.ADDED_MAX)
        largest[at.ORIGIN], by_class = at.VALUE_MAX, largest[at.FIRST :].reshape(classes, at.PER_CLASS)
        by_class[:, at.TO_RECENT : at.LAST] *= counters[:, [at.RECENT]]
        by_class[:, at.LAST] = at.ROOT_MAX
        if (np.abs(means) > largest[:, None]).any():
            raise ValueError("means: larger than any rows can make them")
        rows = counters[:, at.COUNT]
        unfinished = (counters[:, [at.RECENT, at.PARTIAL]] >= np.maximum([self.limits[0], self._cell], 1)).any()
        larger = (counters[:, at.WRONG] > rows + counters[:, at.PARTIAL]) | (counters[:, at.STEPS] > self._cell * rows)
        if unfinished or larger.any() or (rows % max(self._cell, 1)).any():
            raise ValueError("counters: impossible counts")
        batches, collected = reference[[at.BATCHES, at.COLLECTED]] if len(reference) else (0.0, 0.0)
        if batches not in {0.0, 1.0, 2.0} or collected not in range(max(self._error_batch, 1)):
            raise ValueError("reference: impossible batches")


def detector_bytes(tests: Tests, dimension: int, classes: int, regression: bool) -> int:
    """Bytes of these tests' state for a number of encoded columns and classes (one for regression)."""
    columns = dimension if "class_mean" in tests else 0
    reference = at.REFERENCE + tests["error_rate"].batch_size if regression and "error_rate" in tests else 0
    return 8 * (columns * (at.FIRST + 2 + at.PER_CLASS * classes) + at.COUNTERS * classes + reference) + OBJECT_BYTES
