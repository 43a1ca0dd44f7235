"""States of format 5: what a regression is compared with its baseline by begins with what was kept of its rows."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from core.machine import Machine
from core.metrics import RegressionMetrics
from core.metrics.regression import NOTHING
from core.state import paired_of_5
from tests.core.metrics.prequential_oracle import fed
from tests.core.state.samples import path, streams

STREAMS = dict(streams())
REGRESSION = {"config": {"task": "regression"}}
NEW = [*range(paired_of_5.STRIDE, paired_of_5.STRIDE + 4)]
"""Places of the new numbers in the scalars."""


def rows(n, late=0):
    """Predictions, labels and what the last value said, of n rows far from 0; the first ``late`` without a baseline."""
    rng = np.random.default_rng(n)
    truth = 1e6 + rng.normal(size=n)
    predicted = truth + 0.2 * rng.normal(size=n)
    predicted[:1] = 0.0
    told = np.append(NOTHING, truth)[:n]
    told[:late] = NOTHING
    return predicted, truth, told


def as_of_5(metrics):
    """The state as code of format 5 had it."""
    arrays, _ = metrics.to_arrays()
    arrays["scalars"] = np.delete(arrays["scalars"], NEW)
    arrays["history"] = np.ascontiguousarray(arrays["history"][:, :-2])
    return {f"metrics.{name}": array for name, array in arrays.items()}


def read(arrays, header):
    """The metrics of such a state."""
    new, _ = paired_of_5.upgraded(arrays, REGRESSION)
    found = RegressionMetrics()
    found.load_arrays({name.removeprefix("metrics."): array for name, array in new.items()}, header)
    return found


def again(metrics):
    """What becomes of metrics that were saved without the new numbers."""
    return read(as_of_5(metrics), metrics.to_arrays()[1])


@pytest.mark.parametrize(("n", "late"), [(0, 0), (1, 0), (2, 0), (700, 0), (1000, 0), (900, 40), (30, 30)])
def test_up_to_a_window_of_rows_nothing_is_lost(n, late):
    """The same bits as if the numbers had been kept from the first row on."""
    metrics = fed(RegressionMetrics(), rows(n, late), [])
    assert_array_equal(metrics.to_arrays()[0]["scalars"], again(metrics).to_arrays()[0]["scalars"])


@pytest.mark.parametrize(("n", "late"), [(1001, 0), (5000, 0), (7000, 0), (30_000, 3)])
def test_of_more_rows_the_first_ones_are_left_out(n, late):
    """Close to what all rows would have given, and never the first row's error; the window is exact."""
    metrics = fed(RegressionMetrics(), rows(n, late), [])
    kept, found = metrics.report(), again(metrics).report()
    assert (kept["window"], kept["paired"]["window"]) == (found["window"], found["paired"]["window"])
    for span in ("overall", "fading"):
        assert kept["paired"][span] == pytest.approx(found["paired"][span], rel=0.1), span
        assert kept[span] == found[span]
    assert len(kept["history"]) == len(found["history"])
    assert {None} == {point[score] for point in found["history"] for score in ("paired", "paired_overall")}


def test_without_a_row_of_the_baseline_nothing_is_compared():
    """More rows than a window, and none that the baseline could predict."""
    metrics = fed(RegressionMetrics(), rows(1500, 1500), [])
    assert metrics.report()["paired"] == again(metrics).report()["paired"]
    assert again(metrics).paired_score() is None


def test_challengers_are_upgraded_too():
    """All metrics in a state, and no other array; nothing that was given, and nothing of a classification."""
    arrays = as_of_5(fed(RegressionMetrics(), rows(20), []))
    arrays |= {f"challengers.0.{name}": array for name, array in arrays.items()} | {"learner.scalars": np.zeros(3)}
    copies = {name: array.copy() for name, array in arrays.items()}
    new, header = paired_of_5.upgraded(arrays, REGRESSION)
    assert header is REGRESSION
    changed = {name for name, array in new.items() if array is not arrays[name]}
    assert {f"{of}metrics.{name}" for of in ("", "challengers.0.") for name in ("scalars", "history")} == changed
    for name in ("scalars", "history"):
        assert_array_equal(new[f"metrics.{name}"], new[f"challengers.0.metrics.{name}"])
    assert all(copies[name].tobytes() == array.tobytes() for name, array in arrays.items())
    classes = {"config": {"task": "classification"}}
    assert (arrays, classes) == paired_of_5.upgraded(arrays, classes)


@pytest.mark.parametrize("name", ["rls", "dfop auto regression"])
def test_a_sample_has_the_scores_of_its_rows(name):
    """As a model of this code has that learned the same rows, but for round-off between types of CPU."""
    fresh = STREAMS[name].machine.metrics_report()["paired"]
    machine, _ = Machine.from_bytes(path(name, 5).read_bytes())
    for span in ("overall", "window", "fading"):
        assert fresh[span] == pytest.approx(machine.metrics_report()["paired"][span])


@pytest.mark.parametrize("name", ["scalars", "ring", "history"])
@pytest.mark.parametrize("how", ["gone", "empty", "wild", "flat", "nan"])
def test_a_broken_state_of_format_5_is_refused(name, how):
    """An error that the envelope or the layout makes a ValueError of, never a state."""
    if (name, how) == ("history", "wild"):
        return  # its points may be any numbers
    metrics = fed(RegressionMetrics(), rows(1500), [])
    arrays, header = as_of_5(metrics), metrics.to_arrays()[1]
    array = arrays.pop(f"metrics.{name}")
    broken = {
        "empty": array[:0],
        "wild": np.full_like(array, -1e200),
        "flat": array.reshape(-1)[:-1],
        "nan": np.full_like(array, np.nan),
    }
    if how != "gone":
        arrays[f"metrics.{name}"] = broken[how]
    with pytest.raises((ValueError, LookupError, TypeError, AttributeError, ArithmeticError)):
        read(arrays, header)
