"""The drift tests of every row, compiled; their equations are in core.drift.detector.

All compiled code is in this one file, because Numba's cache watches only the file of the function it compiled.

    M (3 + 10 K, D)    per column: ORIGIN, the first value ever seen; LOW and HIGH, the range; then for each class the
                      past means of values, squares and squared steps, the same as sums of the recent batch, and the
                      last value; a step is from one row of the class to the next. Then the last batch's mean, the
                      squared step to it from that of the batch before, and the mean of such squares before that one.
                      All but the origin are relative to the origin, so that a constant column is exactly 0
    T (K, 24)         per class: PAST and RECENT, rows of the two windows of the mean test; for the error test COUNT
                      rows in whole cells, PARTIAL rows in the cell that has begun, WRONG rows of both; STEPS, the sum
                      of squared steps from the wrong rows of a cell to those of the next; from SUMS on, WRONG at the
                      ends of the last cells
    reference         regression: COLLECTED, BATCHES and LIMIT, then a batch of squared innovations; else empty
    limits (4,)       rows of a batch and logarithm in the cut, for the means and for the errors; 0 rows: no such test

No finite row makes any of it non-finite: values are held within 1e300, and within 1e150 before they are squared.
"""

import math

import numpy as np
from numba import njit

from core.contract import CLASSES_IN, NUMBERS_IN, ROWS_IN, Floats, Ints, direct

ORIGIN, LOW, HIGH, FIRST = range(4)  # rows of M: three about the columns, then those of the classes
MEAN, SQUARE, STEP, LAST, BATCH_MEAN, LATEST_STEP, BATCH_STEP = 0, 1, 2, 6, 7, 8, 9
"""Rows of a class: three means of the past window, three sums of the recent batch, and the four that follow."""
TO_RECENT = 3  # from a mean of the past window to the sum of the recent batch
PER_CLASS = 10
PAST, RECENT, COUNT, PARTIAL, WRONG, STEPS, SUMS = range(7)
CELLS = 8  # cells in a batch of the error test, if it has that many rows; it is tested at the end of each
KEPT = 2 * CELLS + 1  # number of cell ends that are kept: the longest recent window is two batches
COUNTERS = SUMS + KEPT
COLLECTED, BATCHES, LIMIT, REFERENCE = range(4)
MEAN_BATCH, MEAN_LOG, ERROR_BATCH, ERROR_LOG = range(4)
EXCEEDED = 0.1  # share of the reference batch above the limit, in regression
SIGNIFICANT = 3.0  # number of its standard deviations for independent rows that an autocorrelation must exceed
CORRELATION_MAX = 0.999
GUESSING = 0.9  # the error test is off from this share of guessing's errors on
VALUE_MAX, ROOT_MAX = 1e300, 1e150  # of a value, and of one that is squared
ADDED_MAX = 16.0 * VALUE_MAX
"""More than a row adds to a sum: values lie within 2 VALUE_MAX of the origin, squared steps within 4 ROOT_MAX ** 2."""
_RANGE_MIN = 1e-300
_SQUARES_MIN, _SQUARES_MAX = 1e-140, 1e150  # ranges in which squares neither vanish nor overflow


@njit(f"void({ROWS_IN}, {CLASSES_IN}, i8, i8, f8[:,::1])", cache=True, nogil=True)
def _join(X: Floats, classes: Ints, start: int, stop: int, M: Floats) -> None:
    """Add rows of X (n, D) to the ranges and the recent batches of their classes."""
    for i in range(start, stop):
        for j in range(M.shape[1]):
            v = min(max(X[i, j], -VALUE_MAX), VALUE_MAX) - M[ORIGIN, j]
            M[LOW, j] = v if v < M[LOW, j] else M[LOW, j]
            M[HIGH, j] = v if v > M[HIGH, j] else M[HIGH, j]
        first = FIRST + PER_CLASS * classes[i]
        for j in range(M.shape[1]):  # short loops are faster than one over several times as many rows of M
            v = min(max(X[i, j], -VALUE_MAX), VALUE_MAX) - M[ORIGIN, j]
            M[first + TO_RECENT + MEAN, j] += v
            v = min(max(v, -ROOT_MAX), ROOT_MAX)
            M[first + TO_RECENT + SQUARE, j] += v * v
        for j in range(M.shape[1]):
            v = min(max(X[i, j], -VALUE_MAX), VALUE_MAX) - M[ORIGIN, j]
            v = min(max(v, -ROOT_MAX), ROOT_MAX)
            step = v - M[first + LAST, j]
            M[first + TO_RECENT + STEP, j] += step * step
            M[first + LAST, j] = v


@njit(cache=True, nogil=True)
def _inflation(M: Floats, first: int, j: int, past: float, batch: float) -> float:
    """How much larger the variance of a mean of column j is than that of as many independent rows."""
    variance, inflation, steps = M[first + SQUARE, j] - M[first + MEAN, j] * M[first + MEAN, j], 1.0, past / batch - 2.0
    if variance <= 0.0:
        return 1.0
    correlation = min(1.0 - M[first + STEP, j] / (2.0 * variance), CORRELATION_MAX)
    if correlation * math.sqrt(past) > SIGNIFICANT:
        inflation = (1.0 + correlation) / (1.0 - correlation)
    of_batches = batch * M[first + BATCH_STEP, j] / (2.0 * variance)
    significant = steps >= 1.0 and of_batches > inflation * (1.0 + SIGNIFICANT * math.sqrt(3.0 / steps))
    return float(of_batches if significant else inflation)


@njit("f8(f8[:,::1], i8, i8, f8, f8, f8)", cache=True, nogil=True)
def mean_cut(M: Floats, first: int, j: int, past: float, recent: float, logarithm: float) -> float:
    """The least difference of column j's means that is a drift, in its own units; 0 if it cannot be tested."""
    spread = M[HIGH, j] - M[LOW, j]
    if spread < _RANGE_MIN:
        return 0.0
    n = 1.0 / (1.0 / past + 1.0 / recent)
    cut = spread * math.sqrt(logarithm / (2.0 * n))
    if _SQUARES_MIN < spread < _SQUARES_MAX:
        share = recent / (past + recent)
        mean = M[first + MEAN, j] + share * (M[first + TO_RECENT + MEAN, j] / recent - M[first + MEAN, j])
        square = M[first + SQUARE, j] + share * (M[first + TO_RECENT + SQUARE, j] / recent - M[first + SQUARE, j])
        variance, inflation = max(square - mean * mean, 0.0), _inflation(M, first, j, past, recent)
        bernstein = math.sqrt(2.0 * variance * inflation * logarithm / n) + 2.0 * spread * logarithm / (3.0 * n)
        cut = min(cut * math.sqrt(inflation), bernstein)
    return float(cut)


@njit(cache=True, nogil=True)
def _means_differ(M: Floats, T: Floats, k: int, logarithm: float) -> bool:
    first, past, recent = FIRST + PER_CLASS * k, T[k, PAST], T[k, RECENT]
    if past == 0.0:
        return False
    for j in range(M.shape[1]):
        apart = abs(M[first + TO_RECENT + MEAN, j] / recent - M[first + MEAN, j])
        if apart > 0.0:
            cut = mean_cut(M, first, j, past, recent, logarithm)
            if 0.0 < cut <= apart:
                return True
    return False


@njit("void(f8[:,::1], f8[:,::1], i8, b1)", cache=True, nogil=True)
def close_batch(M: Floats, T: Floats, k: int, drifted: bool) -> None:
    """Add the recent batch of class k to its past window, or replace the window."""
    first, recent = FIRST + PER_CLASS * k, T[k, RECENT]
    past = 0.0 if drifted else T[k, PAST]
    share = recent / (past + recent)
    for j in range(M.shape[1]):
        latest, step, mean_step = M[first + TO_RECENT + MEAN, j] / recent, 0.0, 0.0
        if past > 0.0:
            step, mean_step = min(max(latest - M[first + BATCH_MEAN, j], -ROOT_MAX), ROOT_MAX), M[first + BATCH_STEP, j]
            mean_step += (M[first + LATEST_STEP, j] - mean_step) * recent / max(past - recent, recent)
        M[first + BATCH_MEAN, j], M[first + LATEST_STEP, j], M[first + BATCH_STEP, j] = latest, step * step, mean_step
        for kind in range(TO_RECENT):
            kept = M[first + kind, j]
            M[first + kind, j] = kept + share * (M[first + TO_RECENT + kind, j] / recent - kept)
            M[first + TO_RECENT + kind, j] = 0.0
    T[k, PAST], T[k, RECENT] = past + recent, 0.0


@njit("f8(f8[:,::1], i8, i8)", cache=True, nogil=True)
def error_inflation(T: Floats, k: int, cell: int) -> float:
    """How much larger the variance of a share of wrong rows is than that of as many independent rows of class k."""
    ended = T[k, COUNT] / cell
    share = T[k, WRONG] / T[k, COUNT]
    independent = cell * share * (1.0 - share)
    if ended < 2.0 or independent <= 0.0:
        return 1.0
    inflation = T[k, STEPS] / (2.0 * (ended - 1.0) * independent)
    kurtosis = max(0.0, 1.0 / independent - 6.0 / cell)  # of a binomial, beyond a normal's: rare errors scatter more
    return inflation if inflation > 1.0 + SIGNIFICANT * math.sqrt((3.0 + kurtosis) / (ended - 1.0)) else 1.0


@njit("UniTuple(f8, 3)(f8, f8, f8, f8, f8, f8)", cache=True, nogil=True)
def error_cut(
    past: float, past_wrong: float, recent: float, recent_wrong: float, logarithm: float, inflation: float
) -> tuple[float, float, float]:
    """Shares of wrong rows in two windows and the least rise that is a drift: before, after, epsilon."""
    n = 1.0 / (1.0 / past + 1.0 / recent)
    pooled = (past_wrong + recent_wrong) / (past + recent)
    cut = math.sqrt(2.0 * pooled * (1.0 - pooled) * inflation * logarithm / n) + 2.0 * logarithm / (3.0 * n)
    return past_wrong / past, recent_wrong / recent, cut


@njit(cache=True, nogil=True)
def _guesses(T: Floats, least: float) -> bool:
    """Whether errors, averaged over the classes with enough rows, were about as frequent as when guessing."""
    classes, wrong = 0, 0.0
    for k in range(T.shape[0]):
        if T[k, COUNT] >= least:
            classes += 1
            wrong += T[k, WRONG] / (T[k, COUNT] + T[k, PARTIAL])
    return classes > 1 and wrong >= GUESSING * (classes - 1)


@njit(cache=True, nogil=True)
def _rise(T: Floats, k: int, cells: int, cell: int, logarithm: float) -> int:
    """At the end of a cell of class k: cells of the shortest recent window in which errors have risen, 0 for none."""
    T[k, COUNT] += cell
    T[k, PARTIAL] = 0.0
    ended = int(T[k, COUNT]) // cell
    if ended > 1:
        before_it, latest = T[k, SUMS + (ended - 2) % KEPT], T[k, SUMS + (ended - 1) % KEPT]
        step = (T[k, WRONG] - latest) - (latest - before_it)
        T[k, STEPS] += step * step
    T[k, SUMS + ended % KEPT] = T[k, WRONG]
    inflation = error_inflation(T, k, cell)
    for eighths in (2, 4, 8, 16):
        window = cells * eighths // 8
        if window and ended - window >= cells:
            before = T[k, SUMS + (ended - window) % KEPT]
            past, recent = float((ended - window) * cell), float(window * cell)
            a, b, cut = error_cut(past, before, recent, T[k, WRONG] - before, logarithm, inflation)
            if b - a >= cut:
                return 0 if _guesses(T, float(cells * cell)) else window
    return 0


@njit(cache=True, nogil=True)
def _collect(reference: Floats, loss: float) -> None:
    """Add a row of a regression to the batch that sets the limit, the second one."""
    at = REFERENCE + int(reference[COLLECTED])
    reference[at] = loss
    reference[COLLECTED] += 1.0
    if at + 1 == reference.shape[0]:
        reference[BATCHES] += 1.0
        reference[COLLECTED] = 0.0
        if reference[BATCHES] >= 2.0:
            values = np.sort(reference[REFERENCE:])
            reference[LIMIT] = values[int((1.0 - EXCEEDED) * values.shape[0])]
        reference[REFERENCE:] = 0.0


@direct(f"UniTuple(i8, 3)({ROWS_IN}, {CLASSES_IN}, {NUMBERS_IN}, i8, f8[:,::1], f8[:,::1], f8[::1], f8[::1])")
def absorb_rows(
    X: Floats, classes: Ints, loss: Floats, row: int, M: Floats, T: Floats, reference: Floats, limits: Floats
) -> tuple[int, int, int]:
    """Add rows X (n, D) from ``row`` on, up to and including the first at which a test fires.

    M, T and ``reference`` are updated. ``loss``: 1 if the a-priori label was wrong; for regression the squared
    innovation; NaN if there was no prediction.

    Returns the row at which a test fired, n for none; whether the means differ (0 or 1); rows of the window in which
    errors rose, 0 for none. The caller closes the windows that drifted.
    """
    mean_batch, error_batch = limits[MEAN_BATCH], int(limits[ERROR_BATCH])
    cells = min(CELLS, error_batch)
    cell = error_batch // max(cells, 1)
    regression = reference.shape[0] > 0
    collecting = regression and reference[BATCHES] < 2.0
    limit = reference[LIMIT] if regression else 0.0
    joined = row  # rows join M when a batch is full: a loop without tests is faster
    for i in range(row, X.shape[0]):
        k = classes[i]
        differ, rose = 0, 0
        if mean_batch:
            T[k, RECENT] += 1.0
            if T[k, PAST] == 0.0 and T[k, RECENT] == 1.0:  # no step leads to the first row
                for j in range(M.shape[1]):
                    v = min(max(X[i, j], -VALUE_MAX), VALUE_MAX) - M[ORIGIN, j]
                    M[FIRST + PER_CLASS * k + LAST, j] = min(max(v, -ROOT_MAX), ROOT_MAX)
            if T[k, RECENT] == mean_batch:
                _join(X, classes, joined, i + 1, M)
                joined = i + 1
                if _means_differ(M, T, k, limits[MEAN_LOG]):
                    differ = 1
                else:
                    close_batch(M, T, k, False)
        if error_batch and not np.isnan(loss[i]):
            wrong = loss[i]
            if collecting:
                _collect(reference, wrong)
                collecting = reference[BATCHES] < 2.0
                limit = reference[LIMIT]
            else:
                if regression:
                    wrong = 1.0 if wrong > limit else 0.0
                T[k, WRONG] += wrong
                T[k, PARTIAL] += 1.0
                if T[k, PARTIAL] == cell:
                    rose = _rise(T, k, cells, cell, limits[ERROR_LOG])
        if differ or rose:
            _join(X, classes, joined, i + 1, M)
            return i, differ, rose * cell
    _join(X, classes, joined, X.shape[0], M)
    return X.shape[0], 0, 0


@njit("void(f8[:,::1], i8, i8, i8)", cache=True, nogil=True)
def close_window(T: Floats, k: int, window: int, cell: int) -> None:
    """Keep only the recent window of class k, of ``window`` cells, as its past. A cell has just ended."""
    first = int(T[k, COUNT]) // cell - window
    sums = np.zeros(KEPT)
    for i in range(window + 1):
        sums[i] = T[k, SUMS + (first + i) % KEPT]
    T[k, COUNT], T[k, WRONG], T[k, STEPS] = float(window * cell), T[k, WRONG] - sums[0], 0.0
    for i in range(2, window + 1):
        step = (sums[i] - sums[i - 1]) - (sums[i - 1] - sums[i - 2])
        T[k, STEPS] += step * step
    for i in range(KEPT):
        T[k, SUMS + i] = sums[i] - sums[0] if i <= window else 0.0


@njit(f"i8({CLASSES_IN}, f8[:,::1], f8[::1], f8[::1])", cache=True, nogil=True)
def rows_to_test(classes: Ints, T: Floats, reference: Floats, limits: Floats) -> int:
    """Number of leading rows up to and including the first at which a test can fire; all if there is none."""
    n, mean_batch, error_batch = classes.shape[0], int(limits[MEAN_BATCH]), int(limits[ERROR_BATCH])
    cells = min(CELLS, error_batch)
    cell = error_batch // max(cells, 1)
    unready = 0
    if reference.shape[0]:
        batches = 2 - int(reference[BATCHES])
        unready = batches * (reference.shape[0] - REFERENCE) - int(reference[COLLECTED]) if batches > 0 else 0
    seen = np.zeros(T.shape[0], dtype=np.int64)
    for i in range(n):
        k = classes[i]
        seen[k] += 1
        if mean_batch:
            rows = int(T[k, RECENT]) + seen[k]
            if rows % mean_batch == 0 and (T[k, PAST] or rows > mean_batch):
                return i + 1
        if error_batch and i >= unready:
            count = int(T[k, COUNT] + T[k, PARTIAL]) + seen[k] - unready
            if count % cell == 0 and count // cell > cells:
                return i + 1
    return int(n)
