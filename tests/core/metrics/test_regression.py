"""Prequential metrics of a regression, and saved and loaded states, compared with a recomputation from all rows."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.metrics import ClassificationMetrics, RegressionMetrics, regression_batch
from core.metrics.regression import AS_NOW, NOTHING
from tests.core.metrics.prequential_oracle import (
    SPANS,
    assert_close,
    bits,
    fading,
    fed,
    random_classes,
    random_numbers,
    reg_scores,
)

BIG = 1.7976931348623157e308
WILD = st.sampled_from([0.0, -0.0, 1.0, BIG, -BIG, 1e150, -1e200, 5e-324, 1e-160])
FINITE = st.floats(allow_nan=False, allow_infinity=False) | WILD


@pytest.mark.parametrize(
    ("n", "window", "factor"),
    [
        *((n, 1000, 0.999) for n in (0, 1, 2, 17, 1000, 1001, 2300)),
        *((n, *spans) for spans in SPANS for n in (5, 10, 999, 1001, 2300)),
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
    metrics = fed(RegressionMetrics(), (np.zeros(2), np.array([1.0, 2.0])), [])
    metrics.absorb(np.zeros(4), np.array([3.0, 4.0, 5.0, 6.0]), np.array([1.0, AS_NOW, NOTHING, 0.5]))
    errors = [1.0 - 2.0, 1.0 - 3.0, 3.0 - 4.0, 0.5 - 6.0]
    expected = {"mse": sum(e**2 for e in errors) / 4, "mae": sum(map(abs, errors)) / 4}
    report = metrics.report()
    assert expected == pytest.approx(report["baselines"]["last_value"])
    assert expected == pytest.approx(report["window"]["baselines"]["last_value"])
    assert (6.0,) == metrics.baselines()
    assert (None,) == RegressionMetrics().baselines()


def test_r2_needs_a_variance():
    """A constant truth has no r2; a perfect prediction of a varying one has 1."""
    constant = fed(RegressionMetrics(), (np.zeros(20), np.full(20, 0.1)), [])
    assert [None] * 3 == [constant.report()[span]["r2"] for span in ("overall", "window", "fading")]
    perfect = fed(RegressionMetrics(), (np.arange(20.0), np.arange(20.0)), [])
    assert [1.0] * 3 == [perfect.report()[span]["r2"] for span in ("overall", "window", "fading")]


def test_squared_errors_stop_at_a_limit():
    """An error beyond 1e150 counts as 1e150."""
    report = fed(RegressionMetrics(), (np.array([BIG]), np.array([-BIG])), []).report()
    assert (1e150**2, 1e150, None, 1e150) == tuple(report["overall"].values())[:4]


@settings(max_examples=60)
@given(st.lists(st.tuples(FINITE, FINITE), min_size=1, max_size=60))
def test_no_finite_number_makes_a_metric_overflow(rows):
    """For any finite numbers, every number of state and report is finite or None, and the state loads."""
    predicted, truth = (np.array(column) for column in zip(*rows, strict=True))
    metrics = fed(RegressionMetrics(), (predicted, truth), [1, 10])
    restored = RegressionMetrics()
    restored.load_arrays(*metrics.to_arrays())
    for found in (metrics.report(), restored.report(), regression_batch(predicted, truth)):
        json.dumps(found, allow_nan=False)
    assert bits(metrics) == bits(restored)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_numbers_change_nothing(value):
    """NaN and infinities are refused together with all other rows of the call."""
    metrics = fed(RegressionMetrics(), random_numbers(20), [])
    before = bits(metrics)
    for predicted, truth in ((value, 0.0), (0.0, value)):
        with pytest.raises(ValueError, match="finite"):
            metrics.absorb(np.array([1.0] * 30 + [predicted]), np.array([1.0] * 30 + [truth]))
    with pytest.raises(ValueError, match="together"):
        metrics.absorb(np.zeros(2), np.zeros(1))
    with pytest.raises(ValueError, match="together"):
        metrics.absorb(np.zeros(2), np.zeros(2), np.zeros(1))
    assert before == bits(metrics)


# -- state


@pytest.mark.parametrize("n", [0, 5, 1300, 5119, 5120, 6000, 10_240])
def test_a_saved_state_continues_with_the_same_bits(n):
    """Saving, loading and continuing equals never stopping; an idle model's state is small."""
    for make, arrays, more in (
        (ClassificationMetrics, random_classes(n), (3,)),
        (RegressionMetrics, random_numbers(n), ()),
    ):
        metrics, restored = fed(make(), arrays, [], *more), make()
        saved, header = metrics.to_arrays()
        restored.load_arrays(saved, json.loads(json.dumps(header)))
        assert bits(metrics) == bits(restored)
        later = random_classes(50, seed=9) if more else random_numbers(50, seed=9)
        assert bits(fed(metrics, later, [], *more)) == bits(fed(restored, later, [3], *more))
        assert sum(array.nbytes for array in metrics.to_arrays()[0].values()) == metrics.nbytes
        assert saved["scalars"].flags.writeable
    assert 2500 > ClassificationMetrics().nbytes
