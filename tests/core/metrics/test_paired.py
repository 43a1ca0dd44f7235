"""A regression is compared with ``last_value`` only on rows that both predicted, wherever they are compared."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.entry import Reset
from core.metrics import RegressionMetrics
from core.model import read
from tests.core.metrics.prequential_oracle import fed
from tests.core.twin import Fed

SPANS = ("overall", "window", "fading")


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
    pairs = [(report["paired"][name], report[name]["baselines"]["last_value"]) for name in SPANS]
    found = [own[score] / last[score] for own, last in pairs for score in last]
    point = report["history"][-1]
    found += [point["paired"] / point["last_value"], point["paired_overall"] / point["last_value"]]
    return [*found, quality.error_ratio, metrics.headline()["paired_score"] / metrics.headline()["baseline"]]


@settings(max_examples=25)
@given(
    st.integers(30, 2200),
    st.sampled_from([0.0, 1e3, -1e6, 1e9]),
    st.sampled_from([0.2, 5.0]),
    st.integers(0, 99),
)
def test_the_first_row_decides_nothing(n, level, own, seed):
    """However far labels are from 0, a model is better exactly if its errors are smaller than the last value's."""
    found = ratios(fed(RegressionMetrics(), far(n, level, own, seed), [1, 7]))
    assert all((ratio < 1.0) == (own < 1.0) for ratio in found)


@pytest.mark.parametrize("algorithm", ["auto", "rls", "dfop", "gdfop"])
def test_a_model_is_judged_on_the_rows_of_the_baseline(algorithm):
    """In its summary and its quality, from the first batch on, and again after a reset."""
    model = Fed({"algorithm": algorithm, "task": "regression", "features": ["a"], "watch": None})
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 1))
    y = (1e3 + 5.0 * X[:, 0] + 0.1 * rng.normal(size=300)).tolist()
    for _ in range(2):
        model.learn(X, y)
        summary, report = read.summary(model.machine), model.report
        assert (report["overall"]["mse"], report["paired"]["overall"]["mse"]) == (summary.score, summary.paired_score)
        assert summary.paired_score < summary.score
        first = summary.score * 300 - summary.paired_score * 299
        assert first == pytest.approx(y[0] ** 2, rel=0.01)
        assert (summary.paired_score < summary.baseline) == (read.quality(model.machine.own).error_ratio < 1.0)
        model.commit(Reset())
        assert read.summary(model.machine).paired_score is None
