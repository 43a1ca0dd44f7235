"""Intervals around predictions: compared with the plainest computation, for wild numbers, and as a state."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from core.metrics.intervals import Intervals, returned_bounds
from tests.core.metrics.prequential_oracle import SPANS, bits, fed

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
STEPS = (0.002, 0.008, 0.032, 0.128)
ETA, SIGMA, SHIFT_STEP, RING = 2.72, 0.001, 0.002, 250


class Level:
    """The share that one level leaves outside: DtACI over four steps, and a shift of the result."""

    def __init__(self, level):
        self.first = math.ceil(2 / (1 - Fraction(str(level)))) - 1
        self.target, self.shift = 1.0 - level, 0.0
        self.alphas, self.weights = [self.target] * len(STEPS), [1 / len(STEPS)] * len(STEPS)

    @property
    def uncut(self):
        found = self.shift
        for weight, alpha in zip(self.weights, self.alphas, strict=True):
            found += weight * alpha
        return found

    def learn(self, beta, outside):
        """Learn a row: shares below beta would have covered it; ``outside`` says whether the interval missed it."""
        uncut = self.uncut
        losses = [self.target * (beta - alpha) - min(beta - alpha, 0.0) for alpha in self.alphas]
        weights = [weight * math.exp(-ETA * loss) for weight, loss in zip(self.weights, losses, strict=True)]
        self.weights = [(1 - SIGMA) * weight / sum(weights) + SIGMA / len(STEPS) for weight in weights]
        moved = [alpha + step * (self.target - (alpha >= beta)) for alpha, step in zip(self.alphas, STEPS, strict=True)]
        self.alphas = [min(max(alpha, 0.0), 1.0) for alpha in moved]
        if (uncut < -0.05) if outside else (uncut > 1.05):
            return
        self.shift = min(max(self.shift + SHIFT_STEP * (self.target - outside), -0.5), 0.5)


class PlainIntervals:
    """The intervals of a regression, row by row."""

    def __init__(self):
        self.residuals = []
        self.levels = [Level(level) for level in LEVELS]

    @property
    def latest(self):
        return sorted(self.residuals[-RING:])

    def shares(self):
        """The share of every level, none larger than that of a lower level."""
        found = [1.0]
        for level in self.levels:
            found.append(min(max(level.uncut, 0.0), found[-1]))
        return found[1:]

    def offsets(self):
        """Low and high of every level; None if it has no interval yet."""
        latest, found = self.latest, []
        n = len(latest)
        for level, share in zip(self.levels, self.shares(), strict=True):
            place = min(max(math.floor((n + 1) * 0.5 * share), 1), max(n, 1))
            known = n >= level.first
            found.append((min(latest[place - 1], 0.0), max(latest[n - place], 0.0)) if known else None)
        return found

    def learn(self, residual):
        latest, offsets = self.latest, self.offsets()
        n = len(latest)
        beyond = [sum(other < residual for other in latest), sum(other > residual for other in latest)]
        own = beyond[:1] if residual > 0 else beyond[1:] if residual < 0 else [min(beyond)]
        for level, pair in zip(self.levels, offsets, strict=True):
            if pair is not None:
                level.learn(2.0 - 2.0 * own[0] / (n + 1), not pair[0] <= residual <= pair[1])
        self.residuals.append(residual)


BIG = 1.7976931348623157e308
WILD = st.sampled_from([0.0, -0.0, 1.0, BIG, -BIG, 1e300, -1e200, 5e-324])
FINITE = st.floats(allow_nan=False, allow_infinity=False) | WILD


def stream(rows, seed=0):
    """Predictions and labels whose errors are skewed, biased, and larger in the middle third."""
    rng = np.random.default_rng(seed)
    scale = np.where(np.arange(rows) // (1 + rows // 3) == 1, 4.0, 1.0)
    truth = rng.normal(size=rows) * 3
    return truth - scale * (rng.exponential(size=rows) - 0.7), truth


def offsets(intervals, levels=LEVELS):
    """The ends of the intervals relative to a prediction, (m, 2)."""
    return intervals.bounds(np.zeros(1), np.array(levels))[0]


def test_intervals_match_the_plainest_computation():
    """Before every row, at every level, while the ring fills and after it is full; coverage agrees, over any span."""
    predicted, truth = stream(1800)
    predicted[1000:1600] = truth[1000:1600]  # intervals without width cover, then those of later rows do not
    predicted[1600:] = -(1.05 ** np.arange(200))
    intervals, plain = Intervals(1000, 0.999), PlainIntervals()
    others, covered = {spans: Intervals(*spans) for spans in SPANS}, []
    for said, came in zip(predicted, truth, strict=True):
        expected = plain.offsets()
        found = [tuple(pair) for pair in offsets(intervals).tolist()]
        assert [pair or (None, None) for pair in expected] == [
            tuple(None if math.isnan(end) else end for end in pair) for pair in found
        ]
        covered.append([None if pair is None else pair[0] <= came - said <= pair[1] for pair in expected])
        for one in (intervals, *others.values()):
            one.absorb(np.array([said]), np.array([came]))
        plain.learn(came - said)
    hits = np.array([[np.nan if hit is None else hit for hit in row] for row in covered])
    for (window, factor), one in ({(1000, 0.999): intervals} | others).items():
        overall, recent, fading = ([*span.values()] for span in one.spans())
        assert np.nanmean(hits, axis=0) == pytest.approx(overall, abs=1e-12)
        assert np.nanmean(hits[-window:], axis=0) == pytest.approx(recent, abs=1e-12)
        weights = ~np.isnan(hits) * factor ** np.arange(len(hits))[::-1, None]
        assert (weights * np.nan_to_num(hits)).sum(axis=0) / weights.sum(axis=0) == pytest.approx(fading, abs=1e-9)
        assert_array_equal(intervals.residuals, one.residuals)


@settings(max_examples=60)
@given(st.lists(st.tuples(FINITE, FINITE), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_no_finite_number_makes_an_interval_overflow(rows, level):
    """For any finite numbers, intervals are finite and ordered, and the state loads."""
    predicted, truth = (np.array(column) for column in zip(*rows, strict=True))
    intervals = fed(Intervals(1000, 0.999), (predicted, truth), [1] * len(rows))
    assert bits(intervals) == bits(fed(Intervals(1000, 0.999), (predicted, truth), []))
    if (bounds := intervals.around(predicted, level)) is not None:
        assert np.isfinite(bounds).all()
        assert (bounds[:, 0] <= predicted).all()
        assert (predicted <= bounds[:, 1]).all()
    restored = Intervals(1000, 0.999)
    restored.load_arrays(*intervals.to_arrays())
    assert bits(intervals) == bits(restored)
    assert_array_equal(offsets(intervals), offsets(restored))
    json.dumps(restored.spans(), allow_nan=False)


def test_coverage_is_as_requested_also_after_changes():
    """With errors that change size and side: every level within 1.5 points, and .9 covers .82 of any 500 rows."""
    rng = np.random.default_rng(3)
    rows = 12_000
    scale, side = np.repeat([1.0, 4.0, 0.5, 8.0], rows // 4), np.repeat([0.0, 3.0, -3.0, 0.0], rows // 4)
    truth = scale * rng.standard_t(5, size=rows) + side
    intervals, hits = Intervals(1000, 0.999), []
    for came in truth:
        bounds = intervals.around(np.zeros(1), 0.9)
        hits.append(bounds is None or bounds[0, 0] <= came <= bounds[0, 1])
        intervals.absorb(np.zeros(1), np.array([came]))
    for level, share in intervals.spans()[0].items():
        assert share == pytest.approx(float(level), abs=0.015)
    sums = np.cumsum(hits)
    assert (sums[500:] - sums[:-500]).min() >= 0.82 * 500


def test_a_tracked_row_is_covered_as_it_was_served():
    """Its own served intervals count; a row served without any does not count; other rows count as usual."""
    predicted, truth = stream(300)
    wide, narrow = ((-1e9, 1e9),) * 5, ((-1e-9, 1e-9),) * 5
    before = fed(Intervals(1000, 0.999), (predicted, truth), [])
    counted = before.levels[:, 1]
    row = np.array([0.0]), np.array([5.0])
    for served, more, hits in ((wide, 1, 1), (narrow, 1, 0), (None, 0, 0), ((None,) * 4 + (wide[0],), None, None)):
        after = fed(Intervals(1000, 0.999), (predicted, truth), [])
        after.absorb(*row, returned_bounds([served]))
        told, covered = (after.levels - before.levels)[:, 1:3].T
        expected = ([more] * 5, [hits] * 5) if more is not None else ([0, 0, 0, 0, 1], [0, 0, 0, 0, 1])
        assert expected == (told.tolist(), covered.tolist())
        assert after.residuals[300 % 250] == 5.0
    untracked = fed(Intervals(1000, 0.999), (predicted, truth), [])
    untracked.absorb(*row, returned_bounds([()]))
    expected = fed(Intervals(1000, 0.999), (predicted, truth), [])
    expected.absorb(*row)
    assert bits(expected) == bits(untracked)
    assert (counted > 0).all()


def persistent(rows, phi, seed=1):
    """Errors each of which is a share phi of the one before, and noise."""
    truth = np.random.default_rng(seed).normal(size=rows)
    for row in range(1, rows):
        truth[row] += phi * truth[row - 1]
    return truth


@pytest.mark.parametrize("late", [0, 48])
def test_a_quiet_time_does_not_leave_intervals_too_narrow(late):
    """Rows without errors, as while a machine is off; the first late rows after them were served as quiet ones."""
    truth = np.random.default_rng(6).normal(size=9000)
    truth[2000:5000] = 0.0
    intervals = Intervals(1000, 0.999)
    hits = absorb_late(intervals, truth, late)[5000 + late :]
    for rows, short in ((slice(0, 250), 0.12), (slice(250, 500), 0.06), (slice(500, 1000), 0.03)):
        assert (hits[rows, 1:4].mean(axis=0) >= np.array(LEVELS[1:4]) - short).all()


def test_a_time_that_no_interval_covers_does_not_leave_intervals_too_wide():
    """Errors that grow at every row, then errors as before; the ring forgets the large ones after 250 rows."""
    truth = np.random.default_rng(6).normal(size=9000)
    truth[2000:5000] = 1.05 ** np.arange(3000)
    hits = absorb_late(Intervals(1000, 0.999), truth, 0)[5250:]
    assert hits[250:1250, 1:4].mean(axis=0) == pytest.approx(LEVELS[1:4], abs=0.03)


def absorb_late(intervals, truth, late, together=1):
    """Predict 0 for some rows together, then learn those whose labels are due: hits (n, L), NaN without an interval."""
    kept, hits, due = [], np.full((len(truth), len(LEVELS)), np.nan), 0
    for row, came in enumerate(truth):
        kept.append((intervals.served(0.0), float(intervals.rows)))
        bounds = returned_bounds(kept[row][:1])[0]
        hits[row] = np.where(np.isnan(bounds[:, 0]), np.nan, (bounds[:, 0] <= came) & (came <= bounds[:, 1]))
        while (row + 1) % together == 0 and due <= row - late:
            served, since = kept[due]
            intervals.absorb(np.zeros(1), truth[due : due + 1], returned_bounds([served]), np.array([since]))
            due += 1
    return hits


@pytest.mark.parametrize(("late", "phi"), [(20, 0.9), (100, 0.9), (2000, 0.0)])
def test_intervals_of_late_rows_cover_what_they_promise(late, phi):
    """Errors that persist are larger once their labels are due; coverage holds in every part of a stream."""
    hits = absorb_late(Intervals(1000, 0.999), persistent(4000 + 6 * late, phi), late)[:, 2]
    hits = hits[~np.isnan(hits)][1000:]
    for part in np.array_split(hits, 4):
        assert np.mean(part) == pytest.approx(0.9, abs=0.04)
    assert np.mean(hits) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(("late", "together"), [(1, 1), (48, 1), (200, 1), (0, 48)])
def test_every_level_holds_while_errors_change_before_their_labels_come(late, together):
    """The residuals known when a row is served are not those of its time."""
    hits = absorb_late(Intervals(1000, 0.999), persistent(12_000, 0.98), late, together)
    assert np.nanmean(hits[1000:], axis=0) == pytest.approx(LEVELS, abs=0.015)


def test_a_late_row_stretches_its_own_level_by_a_step_that_shrinks_with_the_delay():
    """By a hundredth if it is not very late; by nothing if its delay is unknown or none, or if a reset came since."""
    missed, half = ((5.0, 6.0),) * 5, ((-9.0, 9.0),) * 2 + ((5.0, 6.0),) * 2 + (None,)
    for served, since, step in (
        (missed, 299.0, 0.01), (missed, 100.0, 1 / 200), (missed, 0.0, 1 / 300), (half, 290.0, 0.01),
        (missed, math.nan, 0.0), (missed, 301.0, 0.0), (missed, 300.0, 0.0),
    ):  # fmt: skip
        intervals = fed(Intervals(1000, 0.999), stream(300), [])
        intervals.absorb(np.zeros(1), np.zeros(1), returned_bounds([served]), np.array([since]))
        excess = np.array([level - (served[j] is half[0]) for j, level in enumerate(LEVELS)])
        excess[[one is None for one in served]] = 0.0
        assert step * excess == pytest.approx(intervals.levels[:, 5], abs=1e-12)


def test_labels_that_are_late_no_more_leave_the_intervals_as_wide_as_they_were():
    """A level's stretch ends, exactly, after some rows that are not late; without late ones there is none."""
    intervals = Intervals(1000, 0.999)
    absorb_late(intervals, persistent(3000, 0.98), 48)
    assert (intervals.levels[:4, 5] != 0.0).all()
    fed(intervals, (np.zeros(20_000), persistent(20_000, 0.98)), [])
    assert (intervals.levels[:4, 5] == 0.0).all()
    assert fed(Intervals(1000, 0.999), stream(1000), []).levels[:, 5].tolist() == [0.0] * 5


def test_both_sides_are_stretched_alike_beyond_one():
    """However skewed the residuals are; below one, each side shrinks by the factor."""
    predicted, truth = stream(300)
    intervals = fed(Intervals(1000, 0.999), (predicted, truth + 1.0), [])
    low, high = intervals.bounds(np.zeros(1), np.array([0.9]))[0, 0]
    assert abs(high + low) > 0.5
    intervals.levels[:, 5] = np.log(2.0)
    wider = intervals.bounds(np.zeros(1), np.array([0.9]))[0, 0]
    assert wider == pytest.approx([low - (high - low) / 2, high + (high - low) / 2])
    intervals.levels[:, 5] = -0.5
    assert intervals.bounds(np.zeros(1), np.array([0.9]))[0, 0] == pytest.approx(np.exp(-0.5) * np.array([low, high]))


def test_a_batch_of_late_rows_does_not_leave_the_intervals_too_wide_for_long():
    """Its rows are late by 1 to 500, and most were missed; 1000 rows that are not late are enough to forget that."""
    intervals, truth = Intervals(1000, 0.999), np.random.default_rng(0).normal(size=(2, 1000))
    fed(intervals, (np.zeros(1000), truth[0]), [])
    served = returned_bounds([intervals.served(0.0)] * 500)
    intervals.absorb(np.zeros(500), 5.0 * truth[1, :500], served, np.full(500, 1000.0))
    assert intervals.levels[2, 5] > 1.0
    fed(intervals, (np.zeros(1000), 5.0 * truth[1]), [])
    assert 13.0 < np.diff(intervals.bounds(np.zeros(1), np.array([0.9]))[0, 0])[0] < 20.0  # 16.4 would be exact


@settings(max_examples=60)
@given(st.lists(st.floats(-0.5, 2.0), min_size=5, max_size=5), st.floats(-3.0, 3.0))
def test_stretched_intervals_contain_those_of_lower_levels_and_the_prediction(stretches, side):
    """At levels between those that adapt, too; the larger tail may be on either side."""
    predicted, truth = stream(300)
    intervals = fed(Intervals(1000, 0.999), (predicted, truth + side), [])
    intervals.levels[:, 5] = stretches
    low, high = intervals.bounds(np.zeros(1), np.linspace(0.01, 0.99, 99))[0].T
    assert (np.diff(low) <= 1e-12).all()
    assert (np.diff(high) >= -1e-12).all()
    assert (low <= 0.0).all()
    assert (high >= 0.0).all()


@pytest.mark.parametrize("unknown", [True, False])
def test_late_rows_leave_the_same_bits_in_a_block(unknown):
    """Each is as late as it is at its own place; how late a row is may be unknown, as in a record of older code."""
    rng, (block, singly) = np.random.default_rng(4), (Intervals(1000, 0.999) for _ in range(2))
    truth, since = rng.normal(size=600), np.full(300, 10.0)
    since[:: 2 if unknown else 300] = np.nan
    fed(block, (np.zeros(300), truth[:300]), [])
    fed(singly, (np.zeros(300), truth[:300]), [])
    served = returned_bounds([block.served(0.0)] * 300)
    block.absorb(np.zeros(300), truth[300:], served, since)
    for row in range(300):
        one = slice(row, row + 1)
        singly.absorb(np.zeros(1), truth[300:][one], served[one], since[one])
    assert bits(block) == bits(singly)


def test_a_row_of_unknown_delay_is_judged_as_one_without():
    """By the interval of now: whether the served one missed tells nothing if nobody knows when that was."""
    tracked, other = (fed(Intervals(1000, 0.999), stream(300), []) for _ in range(2))
    shifts = [one.levels[:, 0].copy() for one in (tracked, other)]
    assert_array_equal(*shifts)
    tracked.absorb(np.zeros(1), np.zeros(1), returned_bounds([((-1e-9, -1e-9),) * 5]), np.array([np.nan]))
    other.absorb(np.zeros(1), np.zeros(1))
    assert_array_equal(tracked.weights, other.weights)
    assert_array_equal(tracked.alphas, other.alphas)
    assert_array_equal(tracked.levels[:, 0], other.levels[:, 0])


def test_a_tracked_row_is_served_with_the_intervals_that_are_read():
    """All levels around one prediction; None for a level without an interval."""
    intervals = fed(Intervals(1000, 0.999), stream(100), [])
    served = intervals.served(2.5)
    for level, own in zip(LEVELS, served, strict=True):
        bounds = intervals.around(np.array([2.5]), level)
        assert own == (None if bounds is None else tuple(bounds[0]))
    assert None is served[4]
    assert_array_equal(returned_bounds([served])[0, :4], np.array(served[:4]))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_numbers_change_nothing(value):
    """NaN and infinities are refused together with all other rows of the call."""
    intervals = fed(Intervals(1000, 0.999), stream(20), [])
    before = bits(intervals)
    for said, came in ((value, 0.0), (0.0, value)):
        with pytest.raises(ValueError, match="finite"):
            intervals.absorb(np.array([1.0] * 30 + [said]), np.array([1.0] * 30 + [came]))
        assert before == bits(intervals)


def test_an_idle_model_is_small():
    """The ring grows with the rows, up to its bound."""
    sizes = [fed(Intervals(1000, 0.999), stream(rows), []).nbytes for rows in (0, 16, 17, 1000, 3000)]
    assert sizes[0] == sizes[1] < sizes[2] < sizes[3] == sizes[4] < 16_000
