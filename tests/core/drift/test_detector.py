"""The compiled drift tests agree with their definition, however rows are split and for any finite values."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.signal import lfilter

from core.drift.detector import DriftDetector, detector_bytes
from core.drift.detector import WatchTest as Settings
from tests.core.learners.streams import state


class Oracle:
    """Alarms as (kind, row, class, columns, window rows, before, after), in the order of their rows.

    ``ranges`` is (2, D) with NaN where nothing is declared; ``delta`` and ``batch`` serve both tests.
    """

    def __init__(self, ranges, regression, delta, batch, classes):
        self.low, self.high = ranges[0].copy(), ranges[1].copy()
        self.regression, self.delta, self.batch = regression, delta, batch
        self.cells = min(8, batch)
        self.cell = batch // self.cells
        self.past = [[] for _ in range(classes)]
        self.recent = [[] for _ in range(classes)]
        self.last = [None] * classes
        self.past_steps = [[] for _ in range(classes)]
        self.recent_steps = [[] for _ in range(classes)]
        self.wrong = [[] for _ in range(classes)]
        self.collected, self.limit = [], None

    def absorb(self, x, k, loss, row):
        self.low, self.high = np.fmin(self.low, x), np.fmax(self.high, x)
        return self.means(x, k, row) + self.errors(k, loss, row)

    def means(self, x, k, row):
        self.recent_steps[k].append(0 * x if self.last[k] is None else x - self.last[k])
        self.recent[k].append(x)
        self.last[k] = x
        if len(self.recent[k]) < self.batch:
            return []
        past, recent = np.array(self.past[k]), np.array(self.recent[k])
        self.recent[k] = []
        found = self.differing(past, recent, np.array(self.past_steps[k])) if len(past) else []
        self.past[k] = list(recent) if len(found) else [*self.past[k], *recent]
        self.past_steps[k] = self.recent_steps[k] if len(found) else self.past_steps[k] + self.recent_steps[k]
        self.recent_steps[k] = []
        if not len(found):
            return []
        ends = past[:, found].mean(axis=0), recent[:, found].mean(axis=0)
        return [("class_mean", row, k, tuple(found), len(past), *map(tuple, ends))]

    def differing(self, past, recent, steps):
        D = past.shape[1]
        spread = self.high - self.low
        n = 1 / (1 / len(past) + 1 / len(recent))
        logarithm = math.log(4 * D / self.delta)
        variance = np.concatenate([past, recent]).var(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            r = np.minimum(1 - (steps**2).mean(axis=0) / (2 * past.var(axis=0)), 0.999)
        t = np.where(r * math.sqrt(len(past)) > 3, (1 + r) / (1 - r), 1.0)
        moves = np.diff(past.reshape(-1, self.batch, D).mean(axis=1), axis=0)[:-1]
        if len(moves):
            of_batches = self.batch * (moves**2).mean(axis=0) / (2 * past.var(axis=0).clip(1e-300))
            t = np.where(of_batches > t * (1 + 3 * math.sqrt(3 / len(moves))), of_batches, t)
        hoeffding = spread * math.sqrt(logarithm / (2 * n)) * np.sqrt(t)
        bernstein = np.sqrt(2 * t * variance * logarithm / n) + 2 * spread * logarithm / (3 * n)
        apart = np.abs(past.mean(axis=0) - recent.mean(axis=0))
        found = np.flatnonzero((spread > 0) & (apart >= np.minimum(hoeffding, bernstein)))
        return found[np.argsort(-apart[found] / spread[found], kind="stable")][:10].tolist()

    def guesses(self):
        shares = [np.mean(z) for z in self.wrong if len(z) // self.cell * self.cell >= self.cells * self.cell]
        return len(shares) > 1 and sum(shares) >= 0.9 * (len(shares) - 1)

    def runs(self, z):
        cells, p = np.reshape(z, (-1, self.cell)).sum(axis=1), np.mean(z)
        if len(cells) < 2 or p in (0, 1):
            return 1.0
        variance = self.cell * p * (1 - p)
        t = (np.diff(cells) ** 2).mean() / (2 * variance)
        excess = max(0, (1 - 6 * p * (1 - p)) / variance)
        return t if t > 1 + 3 * math.sqrt((3 + excess) / (len(cells) - 1)) else 1.0

    def errors(self, k, loss, row):
        if self.regression and self.limit is None:
            self.collected.append(loss)
            if len(self.collected) == 2 * self.batch:
                self.limit = sorted(self.collected[self.batch :])[int(0.9 * self.batch)]
            return []
        z = self.wrong[k]
        z.append(float(loss > self.limit) if self.regression else loss)
        if len(z) % self.cell:
            return []
        for window in sorted({self.cells * eighths // 8 * self.cell for eighths in (2, 4, 8, 16)} - {0}):
            if len(z) - window >= self.cells * self.cell:
                a, b = np.mean(z[:-window]), np.mean(z[-window:])
                n = 1 / (1 / (len(z) - window) + 1 / window)
                p, logarithm = np.mean(z), math.log(4 / self.delta)
                cut = math.sqrt(2 * self.runs(z) * p * (1 - p) * logarithm / n) + 2 * logarithm / (3 * n)
                if b - a >= cut:
                    if self.guesses():
                        return []
                    self.wrong[k] = [] if self.regression else z[-window:]
                    self.collected, self.limit = [], None
                    return [("error_rate", row, k, (), len(z) - window, (a,), (b,))]
        return []


D, CLASSES = 4, 3
OPEN = np.full((2, D), np.nan)
kinds = pytest.mark.parametrize("regression", [False, True], ids=["classes", "numbers"])
batches = pytest.mark.parametrize("batch", [2, 7, 8, 20, 50])


def watch(regression=False, batch=20, ranges=OPEN, delta=0.3, kinds=("class_mean", "error_rate"), classes=CLASSES):
    built = DriftDetector({kind: Settings(delta=delta, batch_size=batch) for kind in kinds}, ranges, regression)
    for _ in range(0 if regression else classes):
        built.add_class()
    return built


def stream(regression=False, rows=3000, seed=0):
    """Rows whose first column and error rate jump back and forth, so that there are many alarms."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, D)) * [1.0, 1e-3, 1e6, 0.0] + [0.0, 5.0, -1e7, 0.1]
    jump = np.arange(rows) // 400 % 2
    X[:, 0] += 3 * jump
    if regression:
        return X, np.zeros(rows, dtype=np.int64), rng.normal(size=rows) ** 2 * (1 + 8 * jump)
    y = rng.choice(CLASSES, rows, p=[0.6, 0.3, 0.1])
    return X, y, (rng.random(rows) < 0.1 + 0.5 * jump).astype(np.float64)


def absorbed(built, X, y, loss, cuts=()):
    """Alarms, with row numbers counted from the start of the stream."""
    ends = sorted({*cuts, len(X)} - {0})
    alarms = []
    for start, stop in zip([0, *ends[:-1]], ends, strict=True):
        part = slice(start, stop)
        alarms += [alarm._replace(row=alarm.row + start) for alarm in built.absorb(X[part], y[part], loss[part])]
    return alarms


@pytest.mark.slow_but("False-2-classes", "True-7-numbers", "False-50-numbers", "True-8-classes")
@kinds
@batches
@pytest.mark.parametrize("declared", [False, True])
def test_alarms_match_the_definition(regression, batch, declared):
    """The same tests fire at the same rows, for the same columns, with the same windows and means."""
    ranges = OPEN.copy()
    if declared:
        ranges[:, 0] = -3.0, 6.0
        ranges[0, 1] = 4.0
    X, y, loss = stream(regression, 1000)
    oracle = Oracle(ranges, regression, 0.3, batch, 1 if regression else CLASSES)
    expected = [alarm for i in range(len(X)) for alarm in oracle.absorb(X[i], y[i], loss[i], i)]
    found = absorbed(watch(regression, batch, ranges), X, y, loss)
    assert [alarm[:5] for alarm in expected] == [(a.kind, a.row, a.cls, a.columns, a.n_before) for a in found]
    for alarm, other in zip(expected, found, strict=True):
        assert_allclose(alarm[5], other.before, rtol=1e-9)
        assert_allclose(alarm[6], other.after, rtol=1e-9)
    assert {"class_mean", "error_rate"} == {alarm.kind for alarm in found} or batch < 20


@kinds
@pytest.mark.parametrize("batch", [7, 8, 20, 50])
def test_alarms_come_only_at_rows_to_test(regression, batch):
    """Alarms fire only at rows that ``rows_to_test`` names, and it does not stop more often than necessary."""
    X, y, loss = stream(regression)
    alarms = {alarm.row for alarm in absorbed(watch(regression, batch, delta=0.99), X, y, loss)}
    stepwise, row, ends = watch(regression, batch, delta=0.99), 0, set()
    while row < len(X):
        stop = row + stepwise.rows_to_test(y[row:])
        ends.add(stop - 1)
        stepwise.absorb(X[row:stop], y[row:stop], loss[row:stop])
        row = stop
    assert alarms
    assert alarms <= ends
    assert max(2 * len(X) // max(batch // 8, 1), 1) >= len(ends)


@pytest.mark.parametrize("scale", [1e-298, 1e-160, 1e-80, 1.0, 1e80, 1e160, 1e290])
def test_any_scale_is_watched(scale):
    """A clear shift raises an alarm whatever the unit; a constant column never does."""
    X, y, loss = stream()
    X[:, 0] += X[:, 0] > 1.0
    X[:, 1:] = 0.1 * scale
    X[:, 0] *= scale
    alarms = absorbed(watch(kinds=("class_mean",), batch=100), X, y, loss)
    assert {(0,)} == {alarm.columns for alarm in alarms}


def test_a_level_far_from_zero_does_not_blur_the_means():
    """Values near 1e9: differences are taken from the first value, so only real drift is found, not round-off."""
    rng = np.random.default_rng(2)
    y, loss = np.zeros(4000, dtype=np.int64), np.zeros(4000)
    X = 1e9 + rng.normal(size=(4000, D))
    assert [] == absorbed(watch(batch=200, delta=0.05), X, y, loss)
    X[2000:] += 2.0
    assert absorbed(watch(batch=200, delta=0.05), X, y, loss)


def test_slow_changes_under_noise_are_no_drift():
    """Successive rows hardly resemble each other, batches of them do."""
    rng = np.random.default_rng(5)
    slow = lfilter([math.sqrt(1 - 0.99**2)], [1, -0.99], rng.normal(size=100_000))
    X = (slow + rng.normal(size=100_000))[:, None]
    built = watch(batch=200, delta=0.05, ranges=OPEN[:, :1], kinds=("class_mean",))
    assert len(built.absorb(X, np.zeros(100_000, np.int64), np.zeros(100_000))) < 0.15 * 500  # as many as .4 by r alone


def test_alarms_under_slow_changes_match_the_definition():
    """Also after drifts, whose steps from batch to batch do not count."""
    rng = np.random.default_rng(6)
    slow = lfilter([math.sqrt(1 - 0.99**2)], [1, -0.99], rng.normal(size=(6000, D)), axis=0)
    X = slow + rng.normal(size=(6000, D)) + 4.0 * (np.arange(6000)[:, None] // 700 % 2)
    y, right = np.zeros(6000, np.int64), np.zeros(6000)
    oracle = Oracle(OPEN, False, 0.3, 50, 1)
    expected = [alarm[1:5] for i in range(len(X)) for alarm in oracle.absorb(X[i], 0, 0.0, i)]
    found = absorbed(watch(False, 50, delta=0.3, classes=1), X, y, right)
    assert expected == [(a.row, a.cls, a.columns, a.n_before) for a in found]
    assert len(found) > 6


@kinds
def test_a_restart_clears_the_windows(regression):
    """Windows start over, classes and ranges stay: a jump at the restart is not drift, a later one is."""
    X, y, loss = stream(regression, 400)
    built = watch(regression)
    assert [] == built.absorb(X, y, loss)
    built.restart()
    assert (1 if regression else CLASSES) == built.classes
    assert [] == built.absorb(X + 1.0, y, np.full(400, 50.0) if regression else np.ones(400))
    assert built.absorb(X - 3.0, y, np.full(400, 5000.0) if regression else np.ones(400))


@kinds
def test_windows_that_begin_far_away_know_how_their_rows_hang_together(regression):
    """Slowly moving values at another level, of a class or after a restart, are no more of a drift than elsewhere."""
    for seed in range(20):
        noise = np.random.default_rng(seed).normal(size=800) * math.sqrt(1 - 0.98**2)
        level = np.reshape(list(itertools.accumulate(noise, lambda x, e: 0.98 * x + e)), (-1, 1))
        built, far = watch(regression, 200, OPEN[:, :1], 0.05, ("class_mean",)), np.full(800, 0 if regression else 1)
        built.absorb(np.zeros((1, 1)), far[:1] * 0, np.zeros(1))
        if regression:
            built.restart()
        assert [] == built.absorb(level + 15, far, np.zeros(800))


def test_tests_that_are_off_see_nothing():
    """Each test alone raises the alarms it raises together with the other; with both off there are none."""
    X, y, loss = stream()
    both = absorbed(watch(), X, y, loss)
    for kind in ("class_mean", "error_rate"):
        assert [alarm for alarm in both if alarm.kind == kind] == absorbed(watch(kinds=(kind,)), X, y, loss)
    assert [] == absorbed(watch(kinds=()), X, y, loss)
    assert 3000 == watch(kinds=()).rows_to_test(y)


def test_a_class_may_come_late():
    """A late class gets its own windows from its first row on; the windows of the others go on."""
    X, y, loss = stream()
    early, late = watch(), watch(classes=0)
    first = [int(np.flatnonzero(y == k)[0]) for k in range(CLASSES)]
    order = np.argsort(np.argsort(first))  # classes are known by the order in which they appear
    alarms = []
    for k in range(CLASSES):
        late.add_class()
        part = slice(sorted(first)[k], [*sorted(first), len(y)][k + 1])
        alarms += late.absorb(X[part], order[y[part]], loss[part])
    assert len(early.absorb(X, order[y], loss)) == len(alarms)
    assert state(early) == state(late)


@kinds
def test_the_announced_size_is_the_real_one(regression):
    """The detector takes exactly the bytes that ``detector_bytes`` announces."""
    built = watch(regression, batch=200)
    classes = 1 if regression else CLASSES
    tests = {kind: Settings() for kind in ("class_mean", "error_rate")}
    announced = detector_bytes(tests, D, classes, regression)
    assert announced == built.nbytes
