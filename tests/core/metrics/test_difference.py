"""Paired differences of losses, and the confidence sequence around their mean."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

from core.metrics.confidence_sequence import RHO, _log_mixture, exceeds, radius
from core.metrics.difference import BATCHES, BOUND, ROWS_MIN, SCALE_ROWS, PairedDifference


@pytest.mark.parametrize(("s", "v"), [(0.0, 0.0), (3.0, 1.0), (12.5, 40.0), (60.0, 300.0)])
def test_the_mixture_is_the_integral_over_lambda(s, v):
    """The integrand is exp(lambda s - psi(lambda) v), with proposition 9's gamma prior cut to lambda in [0, 1)."""

    def at(rate, s, v):  # with 1 - rate = exp(-t): the density is proportional to (1 - rate)^(rho - 1) exp(rho rate)
        return np.exp(rate * (s + v) + v * np.log1p(-rate) + (RHO - 1) * np.log1p(-rate) + RHO * rate - shift)

    shift = 0.0
    whole = quad(at, 0, 1, args=(0.0, 0.0))[0]
    shift = s
    assert_allclose(
        _log_mixture(s, v), np.log(quad(at, 0, 1, args=(s, v), limit=200)[0] / whole) + shift, rtol=1e-6, atol=1e-9
    )


def test_the_radius_is_where_the_mixture_is_large_enough():
    """Beyond the radius zero is excluded, within it not."""
    for v in (0.0, 2.0, 30.0, 5000.0):
        assert not exceeds(0.999 * radius(v), v)
        assert exceeds(1.001 * radius(v), v)
    assert not exceeds(-1e9, 1.0)


def test_fair_coins_are_rarely_taken_for_biased_ones():
    """In most of 100 runs of 3000 rows at no row; biased coins are found."""
    rng = np.random.default_rng(0)
    left = found = 0
    for _ in range(100):
        steps = np.where(rng.random(3000) < 0.04, np.where(rng.random(3000) < 0.5, 1.0, -1.0), 0.0)
        better = np.where(steps != 0, np.where(rng.random(3000) < 0.75, 1.0, -1.0), 0.0)
        for moves in (steps, better):
            sums, squares = moves.cumsum()[99::100], (moves**2).cumsum()[99::100]
            hits = any(exceeds(s, v) for s, v in zip(sums, squares, strict=True))
            left, found = left + (hits and moves is steps), found + (hits and moves is better)
    assert left <= 5
    assert 95 <= found


def test_losses_of_classes_are_compared_row_by_row():
    """The mean is over rows that both predicted; the interval contains it."""
    rng = np.random.default_rng(1)
    first, second = (rng.integers(0, 2, 700).astype(float) for _ in range(2))
    first[::7] = np.nan
    found = PairedDifference()
    found.absorb(first, second)
    report = found.report()
    assert 600 == report["rows"] == found.rows
    assert report["mean"] == pytest.approx(np.nanmean(first - second))
    assert report["low"] < report["mean"] < report["high"]
    assert 0.95 == report["confidence"]
    assert not found.favours_second()


def test_squared_errors_are_compared_on_the_scale_of_the_labels():
    """Each is clipped at four variances of the labels before its row; comparison starts after ten labels."""
    rng = np.random.default_rng(2)
    y = 5.0 + 3.0 * rng.normal(size=300)
    first, second = (10.0 * rng.exponential(size=300)) ** 2, rng.normal(size=300) ** 2
    found = PairedDifference()
    found.absorb(first, second, y)
    bounds = np.array([BOUND * y[:row].var() for row in range(SCALE_ROWS, 300)])
    expected = np.minimum(first[SCALE_ROWS:], bounds) - np.minimum(second[SCALE_ROWS:], bounds)
    report = found.report()
    assert (290, BOUND * y.var()) == (report["rows"], pytest.approx(report["bound"]))
    assert report["mean"] == pytest.approx(expected.mean())
    assert report["low"] > 0
    assert not found.favours_second()
    while found.rows < ROWS_MIN:
        assert not found.favours_second()
        found.absorb(first, second, y)
    assert found.favours_second()
    wild = PairedDifference()
    wild.absorb(np.full(40, 1e300), np.zeros(40), np.tile([1e300, -1e300], 20))
    assert all(np.isfinite(wild.report()[end]) for end in ("low", "mean", "high"))


@pytest.mark.parametrize("scale", [1e-60, 1.0, 1e60])
@pytest.mark.parametrize("part", ["grows", "shrinks", "jumps"])
def test_the_mean_is_that_of_the_losses_also_if_the_scale_of_the_labels_changes(part, scale):
    """The first is better on small labels, by more deviations but less in all; no interval ever excludes the mean."""
    at = np.arange(4000)
    sizes = (
        scale
        * {"grows": 30 ** (at / 4000), "shrinks": 30 ** (-at / 4000), "jumps": np.where(at < 2000, 1.0, 3.0)}[part]
    )
    better = np.where(sizes < np.median(sizes), -0.3, 0.1)
    missed = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        y = sizes * rng.choice([-1.0, 1.0], 4000) * rng.uniform(0.5, 1.5, 4000)
        first, second = (sizes**2 * (rng.uniform(0.0, 0.3, 4000) + np.maximum(sign * better, 0.0)) for sign in (1, -1))
        found, compared, before = PairedDifference(), slice(SCALE_ROWS, None), np.arange(4000)
        bounds = BOUND * ((y**2).cumsum() - y**2)[compared] / before[compared]
        bounds -= BOUND * ((y.cumsum() - y)[compared] / before[compared]) ** 2
        means = np.cumsum((sizes**2 * better)[compared]) / np.arange(1, 4000 - SCALE_ROWS + 1)
        outside = False
        for start in range(0, 4000, 250):
            block = slice(start, start + 250)
            found.absorb(first[block], second[block], y[block])
            report = found.report()
            outside |= not report["low"] <= means[report["rows"] - 1] <= report["high"]
        missed += outside
        differences = np.minimum(first[compared], bounds) - np.minimum(second[compared], bounds)
        assert report["mean"] == pytest.approx(differences.mean(), rel=1e-9)
        assert report["low"] < report["mean"] < report["high"]
    assert missed <= 1


def test_rare_large_losses_are_not_taken_to_be_absent():
    """The second is a little better on ordinary rows, and worse in all by one row of 2000, which comes late."""
    promoted = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y, first = rng.normal(size=6000), 0.01 + 7e-4 * rng.uniform(0.5, 1.5, 6000)
        second, found = np.where(rng.random(6000) < 1 / 2000, 3.0, 0.01), PairedDifference()
        for start in range(0, 6000, 200):
            block = slice(start, start + 200)
            found.absorb(first[block], second[block], y[block])
            promoted += found.favours_second()
    assert 0 == promoted


def test_equal_losses_prove_nothing():
    """The interval is as wide as the next row may be."""
    y, found = np.random.default_rng(3).normal(size=60), PairedDifference()
    found.absorb(np.zeros(60), np.zeros(60), y)
    assert found.report()["low"] < -0.1 < 0.1 < found.report()["high"]


def test_differences_that_keep_their_sign_widen_the_interval():
    """The same numbers, once shuffled and once in long runs of one sign."""
    rng = np.random.default_rng(3)
    runs = np.repeat(np.where(rng.random(40) < 0.6, 1.0, 0.0), BATCHES[1])
    mixed, in_runs = PairedDifference(), PairedDifference()
    mixed.absorb(rng.permutation(runs), np.zeros(len(runs)))
    in_runs.absorb(runs, np.zeros(len(runs)))
    assert mixed.report()["mean"] == in_runs.report()["mean"]
    assert in_runs.report()["low"] < mixed.report()["low"]


def test_there_is_no_interval_before_the_first_row():
    """Mean, low and high are None."""
    assert {"mean": None, "low": None, "high": None, "confidence": 0.95, "rows": 0} == PairedDifference().report()


def test_several_sequences_share_alpha():
    """The same sums give a wider interval; a challenger that wins alone need not win as one of eight."""
    rng = np.random.default_rng(5)
    found = PairedDifference()
    found.absorb((rng.random(ROWS_MIN) < 0.055).astype(float), (rng.random(ROWS_MIN) < 0.02).astype(float))
    reports = [found.report(of) for of in (1, 2, 8)]
    assert [0.95, 0.975, 0.99375] == [report["confidence"] for report in reports]
    assert reports[0]["low"] > reports[1]["low"] > reports[2]["low"]
    assert reports[0]["high"] < reports[1]["high"] < reports[2]["high"]
    assert [report["low"] for report in reports] == [found.interval(of)[0] for of in (1, 2, 8)]
    assert (True, False) == (found.favours_second(1), found.favours_second(8))
    for v in (0.0, 30.0):
        assert exceeds(1.001 * radius(v, 8), v, 8)
        assert not exceeds(0.999 * radius(v, 8), v, 8)
