"""Prequential metrics of a regression, its median error and its baseline, compared with a computation from all rows."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.metrics import RegressionMetrics, regression_batch
from core.metrics.error_sketch import OCTAVES, PER_OCTAVE, ZERO, bin_of
from core.metrics.regression import AS_NOW, NOTHING
from tests.core.metrics.prequential_oracle import (
    SPANS,
    assert_close,
    bits,
    fading,
    fed,
    random_numbers,
    reg_scores,
)

BIG = 1.7976931348623157e308
WILD = st.sampled_from([0.0, -0.0, 1.0, BIG, -BIG, 1e150, -1e200, 5e-324, 1e-160])
FINITE = st.floats(allow_nan=False, allow_infinity=False) | WILD


@pytest.mark.parametrize(
    ("n", "window", "factor"),
    [
        *((n, 1000, 0.999) for n in (0, 1, 2, 17, 1000, 2300)),
        *((n, *spans) for spans in SPANS for n in (5, 10, 1001, 2300)),
    ],
)
def test_regression_metrics_match_the_full_list(n, window, factor):
    """All three spans and the baseline agree with a recomputation from all rows."""
    predicted, truth = random_numbers(n)
    rows = [
        (p - t, t, None if i == 0 else truth[i - 1] - t) for i, (p, t) in enumerate(zip(predicted, truth, strict=True))
    ]
    metrics = fed(RegressionMetrics(window, factor), (predicted, truth), [7, 1, 300])
    report = metrics.report()
    report["overall"]["baselines"] = report["baselines"]
    last = rows[-window:]
    spans = {"overall": (rows, [1] * n), "window": (last, [1] * len(last)), "fading": (rows, fading(n, factor))}
    for name, (span, weights) in spans.items():
        last, paired = report[name]["baselines"]["last_value"], report["paired"][name]
        beside = {f"last_{score}": last[score] for score in last} | {f"paired_{score}": paired[score] for score in last}
        assert_close(reg_scores(span, weights), {**report[name], **beside})
        scored = sum(w for w, row in zip(weights, span, strict=True) if row[2] is not None)
        assert paired["rows"] == pytest.approx(scored, abs=6e-4)
    assert (n, report["overall"]["mse"]) == (report["rows"], metrics.headline()["score"])
    assert report["baselines"]["last_value"]["mse"] == metrics.headline()["baseline"]
    middle = np.median(np.abs(predicted - truth)[-window:]) if n else None
    assert middle == report["window"]["median_ae"]


def test_the_baseline_is_judged_by_its_prediction_of_that_time():
    """It comes with the rows; AS_NOW means the number before, NOTHING leaves the row out."""
    metrics = fed(RegressionMetrics(1000, 0.999), (np.zeros(2), np.array([1.0, 2.0])), [])
    metrics.absorb(np.zeros(4), np.array([3.0, 4.0, 5.0, 6.0]), np.array([1.0, AS_NOW, NOTHING, 0.5]))
    errors = [1.0 - 2.0, 1.0 - 3.0, 3.0 - 4.0, 0.5 - 6.0]
    expected = {"mse": sum(e**2 for e in errors) / 4, "mae": sum(map(abs, errors)) / 4}
    report = metrics.report()
    assert expected == pytest.approx(report["baselines"]["last_value"])
    assert expected == pytest.approx(report["window"]["baselines"]["last_value"])
    assert (6.0,) == metrics.baselines()
    assert (None,) == RegressionMetrics(1000, 0.999).baselines()


def test_r2_needs_a_variance():
    """A constant truth has no r2; a perfect prediction of a varying one has 1."""
    constant = fed(RegressionMetrics(1000, 0.999), (np.zeros(20), np.full(20, 0.1)), [])
    assert [None] * 3 == [constant.report()[span]["r2"] for span in ("overall", "window", "fading")]
    perfect = fed(RegressionMetrics(1000, 0.999), (np.arange(20.0), np.arange(20.0)), [])
    assert [1.0] * 3 == [perfect.report()[span]["r2"] for span in ("overall", "window", "fading")]


def test_squared_errors_stop_at_a_limit():
    """An error beyond 1e150 counts as 1e150."""
    report = fed(RegressionMetrics(1000, 0.999), (np.array([BIG]), np.array([-BIG])), []).report()
    assert (1e150**2, 1e150, None, 1e150) == tuple(report["overall"].values())[:4]


@settings(max_examples=60)
@given(st.lists(st.tuples(FINITE, FINITE), min_size=1, max_size=60))
def test_no_finite_number_makes_a_metric_overflow(rows):
    """For any finite numbers, every number of state and report is finite or None, and the state loads."""
    predicted, truth = (np.array(column) for column in zip(*rows, strict=True))
    metrics = fed(RegressionMetrics(1000, 0.999), (predicted, truth), [1, 10])
    restored = RegressionMetrics(1000, 0.999)
    restored.load_arrays(*metrics.to_arrays())
    for found in (metrics.report(), restored.report(), regression_batch(predicted, truth)):
        json.dumps(found, allow_nan=False)
    assert bits(metrics) == bits(restored)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_numbers_change_nothing(value):
    """NaN and infinities are refused together with all other rows of the call."""
    metrics = fed(RegressionMetrics(1000, 0.999), random_numbers(20), [])
    before = bits(metrics)
    for predicted, truth in ((value, 0.0), (0.0, value)):
        with pytest.raises(ValueError, match="finite"):
            metrics.absorb(np.array([1.0] * 30 + [predicted]), np.array([1.0] * 30 + [truth]))
    with pytest.raises(ValueError, match="do not match"):
        metrics.absorb(np.zeros(2), np.zeros(1))
    with pytest.raises(ValueError, match="do not match"):
        metrics.absorb(np.zeros(2), np.zeros(2), np.zeros(1))
    assert before == bits(metrics)


# -- compared with ``last_value``, on rows that both predicted

SPAN_NAMES = ("overall", "window", "fading")


def far(n, level, own, seed=0):
    """Predictions and labels of n rows around a level, the first prediction 0; ``own`` scales the errors."""
    rng = np.random.default_rng(seed)
    truth = level + rng.normal(size=n)
    predicted = truth + own * rng.normal(size=n)
    predicted[0] = 0.0
    return predicted, truth


def ratios(metrics):
    """The model's error relative to the baseline's, from every figure that is reported."""
    report, quality = metrics.report(), metrics.quality()
    report["overall"]["baselines"] = report["baselines"]
    pairs = [(report["paired"][name], report[name]["baselines"]["last_value"]) for name in SPAN_NAMES]
    found = [own[score] / last[score] for own, last in pairs for score in last]
    point = report["history"][-1]
    found += [point["paired"] / point["last_value"], point["paired_overall"] / point["last_value"]]
    return [*found, quality.error_ratio, metrics.headline()["paired_score"] / metrics.headline()["baseline"]]


@settings(max_examples=25)
@given(st.integers(30, 2200), st.sampled_from([0.0, 1e3, -1e6, 1e9]), st.sampled_from([0.2, 5.0]), st.integers(0, 99))
def test_the_first_row_decides_nothing(n, level, own, seed):
    """However far labels are from 0, a model is better exactly if its errors are smaller than the last value's."""
    found = ratios(fed(RegressionMetrics(1000, 0.999), far(n, level, own, seed), [1, 7]))
    assert all((ratio < 1.0) == (own < 1.0) for ratio in found)


# -- the median of errors, from bounded counts

RELATIVE = 1 / 32


def told(errors, sizes=()):
    """The metrics of rows with these errors."""
    return fed(RegressionMetrics(1000, 0.999), (np.asarray(errors, dtype=float), np.zeros(len(errors))), sizes)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 3e7, 1e15])
def test_the_median_is_that_of_the_weights(scale):
    """Half of the weight is below it, up to the width of a bin, whatever the unit and while the range grows."""
    errors = scale * np.random.default_rng(4).lognormal(size=3000) * np.linspace(30, 1, 3000)
    errors[1:900:2] = 0.0
    report, order = told(errors, [7, 900]).report(), np.argsort(errors)
    for span, factor in (("overall", 1.0), ("fading", 0.999)):
        weights = np.array(fading(3000, factor))[order]
        expected = errors[order][np.searchsorted(weights.cumsum(), weights.sum() / 2)]
        assert expected == pytest.approx(report[span]["median_ae"], rel=RELATIVE)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([0.0] * 3, 0.0), ([0.0, 0.0, 1.0], 0.0), ([1e-30, 1e-30, 1.0], 0.0), ([1e-30] * 3, None), ([1e-300], None),
        ([1e-19] * 3, 1e-19), ([1e19] * 3, 1e19), ([1e19, 1e19, 1e300], 1e19), ([1e20] * 3, None), ([1e100] * 3, None),
    ],
)  # fmt: skip
def test_a_median_beyond_the_range_is_unknown(errors, expected):
    """Beside larger errors one that is too small counts as 0."""
    report = told(errors).report()
    for span in ("overall", "fading"):
        found = report[span]["median_ae"]
        assert expected == (found and pytest.approx(found, rel=RELATIVE))
    assert np.median(errors) == report["window"]["median_ae"]


def test_memory_grows_with_the_octaves_in_use():
    """Errors of one magnitude take little memory, and errors of all magnitudes a bounded amount."""
    assert 6_000 > told([1.0, 1.5, 0.0]).nbytes
    assert 2 * 8 * (1 + OCTAVES * PER_OCTAVE) + 6_000 > told([1e-300, 1e-19, 1.0, 1e300]).nbytes


@given(st.floats(0, 1e25))
def test_a_bin_covers_its_range(error):
    """There are sixteen bins of equal width between powers of two."""
    place = bin_of(error)
    if place == ZERO:
        assert error < 2.0**-64
    elif error < 2.0**64:
        octave, part = divmod(place, PER_OCTAVE)
        low = math.ldexp(1 + part / PER_OCTAVE, octave - 64)
        assert low <= error < low + math.ldexp(1 / PER_OCTAVE, octave - 64)
