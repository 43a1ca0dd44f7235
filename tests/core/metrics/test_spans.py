"""Other windows and fading factors than the defaults, compared with a recomputation from all rows."""

import numpy as np
import pytest

from core.config import Config
from core.config.scoring import FADING, ROW_NUMBERS, WINDOW
from core.contract import LEVELS
from core.metrics import ClassificationMetrics, RegressionMetrics, prequential
from core.metrics.intervals import RING, Intervals
from core.model import Model
from tests.core.metrics.prequential_oracle import SPANS, bits, fading, fed, random_classes, random_numbers
from tests.core.twin import Fed


@pytest.mark.parametrize(("window", "factor"), SPANS)
def test_intervals_are_counted_over_any_window(window, factor):
    """Coverage counts the rows of the window; the residuals behind the intervals do not depend on it."""
    predicted, truth = random_numbers(600)
    usual, other, covered = Intervals(), Intervals(window, factor), []
    for row in zip(predicted.reshape(-1, 1), truth.reshape(-1, 1), strict=True):
        low, high = usual.bounds(row[0], np.array(LEVELS))[0].T
        covered.append(np.where(np.isnan(low), np.nan, (low <= row[1]) & (row[1] <= high)))
        usual.absorb(*row)
        other.absorb(*row)
    assert (RING, True) == (len(other.residuals), np.array_equal(usual.residuals, other.residuals))
    expected = np.nanmean(covered[-window:], axis=0)
    assert expected == pytest.approx([*other.spans()[1].values()])
    weights = np.where(np.isnan(covered), 0.0, np.array(fading(600, factor))[:, None])
    assert (weights * np.nan_to_num(covered)).sum(axis=0) / weights.sum(axis=0) == pytest.approx(
        [*other.spans()[2].values()]
    )


@pytest.mark.parametrize("make", [ClassificationMetrics, RegressionMetrics, Intervals])
def test_a_state_belongs_to_one_window(make):
    """It continues with the same bits, and metrics with another window refuse it."""
    more = (3,) if make is ClassificationMetrics else ()
    arrays = random_classes(150) if more else random_numbers(150)
    metrics, restored = fed(make(40, 0.9), arrays, [], *more), make(40, 0.9)
    restored.load_arrays(*metrics.to_arrays())
    assert bits(fed(metrics, arrays, [], *more)) == bits(fed(restored, arrays, [3], *more))
    with pytest.raises(ValueError, match=r"another length|shape"):
        make().load_arrays(*metrics.to_arrays())


def test_a_weight_belongs_to_one_fading_factor():
    """The weight of the newest row shows how fast counts fade; another factor refuses it."""
    arrays, header = fed(RegressionMetrics(1000, 0.9), random_numbers(150), []).to_arrays()
    with pytest.raises(ValueError, match="weight"):
        RegressionMetrics().load_arrays(arrays, header)


def test_a_model_scores_as_its_configuration_says():
    """For both tasks; the defaults of the configuration equal those of the metrics."""
    assert (prequential.WINDOW, prequential.FADING) == (WINDOW.default, FADING.default)
    for task in ("classification", "regression"):
        report = Fed({"task": task, "metrics": {"window": 50, "fading": 0.95}}).report
        assert (50, 0.95) == (report["window"]["size"], report["fading"]["factor"])


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_long_window_is_announced(task):
    """A configuration announces exactly what the rings of a longer window take beyond the default length."""
    held = {}
    for window in (WINDOW.default, WINDOW.maximum):
        config = Config.parse({"algorithm": "rls", "task": task, "metrics": {"window": window}})
        answers = Model.first(config).own.answers
        if task == "classification":
            rings = [answers.metrics.arrays(window, 2)[-2]]
        else:
            rings = [answers.metrics.arrays(window)[-2], answers.intervals.arrays(window)[-1]]
        held[window] = sum(ring.nbytes for ring in rings), config.state_bytes(3)
    (short, announced_short), (long, announced_long) = held.values()
    assert 8 * ROW_NUMBERS[task] * (WINDOW.maximum - WINDOW.default) == long - short == announced_long - announced_short
