"""Prequential metrics of a classifier, and what both tasks share, against a recomputation from all rows."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.metrics import ClassificationMetrics, RegressionMetrics, classification_batch, regression_batch
from tests.core.metrics.prequential_oracle import (
    assert_close,
    bits,
    class_report,
    classes_of,
    fed,
    flat,
    points,
    random_classes,
    random_numbers,
)


@pytest.mark.parametrize("n", [0, 1, 2, 15, 17, 999, 1000, 1001, 2300])
def test_classification_is_what_the_full_list_gives(n):
    """All three spans and both baselines agree with a recomputation from all rows."""
    arrays = random_classes(n)
    arrays[2][:] = np.where(np.isnan(arrays[2]), 0.5, arrays[2])
    rows = list(zip(*(array.tolist() for array in arrays), strict=True))
    report = fed(ClassificationMetrics(), arrays, [7, 1, 300], 3).report()
    found = flat(report)
    for name, span in class_report(rows).items():
        assert_close(span, found[name])
    assert (n, 1000, min(n, 1000), 0.999) == (
        report["rows"],
        report["window"]["size"],
        report["window"]["rows"],
        report["fading"]["factor"],
    )


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(-1, 2), st.integers(0, 2), st.just(math.nan) | st.floats(0, 1.01)),
        min_size=1,
        max_size=40,
    )
)
def test_short_streams_are_what_the_full_list_gives(rows):
    """Single classes, no predictions, no probabilities: every edge of the definitions, on short lists."""
    found = flat(fed(ClassificationMetrics(), classes_of(rows), [1], 3).report())
    for name, span in class_report(rows).items():
        if name == "fading":  # rows without a probability do not fade the log loss
            span["log_loss"] = class_report([row for row in rows if not math.isnan(row[2])])["fading"]["log_loss"]
        assert_close(span, found[name])


def test_a_metric_without_rows_is_none():
    """Before the first row nothing is defined, and nothing is NaN."""
    report = ClassificationMetrics().report()
    none = dict.fromkeys(("accuracy", "kappa", "kappa_temporal", "log_loss"))
    baselines = {"no_change": {"accuracy": None}, "majority": {"accuracy": None}}
    assert {
        "rows": 0,
        "overall": none,
        "window": {"size": 1000, "rows": 0, **none, "baselines": baselines},
        "fading": {"factor": 0.999, **none, "baselines": baselines},
        "baselines": baselines,
        "history": [],
        "marks": [],
    } == report
    assert (None, None) == (ClassificationMetrics().headline(), ClassificationMetrics().best_baseline())


def test_the_best_baseline_is_the_more_accurate_one():
    """``majority`` on a stream that alternates, ``no_change`` on one that changes once."""
    for labels, best in (([0, 0, 0, 1, 0, 1, 0], "majority"), ([0, 0, 0, 0, 1, 1, 1, 1, 1], "no_change")):
        metrics = fed(ClassificationMetrics(), classes_of([(0, label, 1.0) for label in labels]), [], 2)
        found = {name: span["accuracy"] for name, span in metrics.report()["baselines"].items()}
        assert (best, found[best]) == (max(found, key=found.get), metrics.best_baseline())


def test_the_first_row_is_wrong_for_the_baselines():
    """Neither baseline has anything to say before it has seen a label; then both repeat the only one."""
    report = fed(ClassificationMetrics(), classes_of([(0, 0, 1.0)] * 4), [], 1).report()
    assert {"no_change": {"accuracy": 0.75}, "majority": {"accuracy": 0.75}} == report["baselines"]
    assert (1.0, 1.0, 1.0, 0.0) == tuple(report["overall"].values())


def test_a_row_without_a_probability_counts_for_all_but_the_log_loss():
    """NaN means no probability: the loss of the others stands."""
    report = fed(
        ClassificationMetrics(), classes_of([(0, 0, math.nan), (0, 0, 0.5), (-1, 0, math.nan)]), [], 1
    ).report()
    assert (3, 2 / 3) == (report["rows"], report["overall"]["accuracy"])
    expected = [math.log(2)] * 3
    assert expected == [pytest.approx(report[span]["log_loss"]) for span in ("overall", "window", "fading")]


def test_an_impossible_label_costs_no_more_than_the_clip():
    """Probability 0 costs -ln 1e-15, and a shade above 1 costs nothing."""
    report = fed(ClassificationMetrics(), classes_of([(0, 1, 0.0), (0, 0, 1.0000001)]), [], 2).report()
    assert -math.log(1e-15) / 2 == pytest.approx(report["overall"]["log_loss"])


def test_kappa_without_a_denominator():
    """In a window of one label, kappas are 1 where all was right and undefined where the baseline cannot be beaten."""
    right = fed(ClassificationMetrics(), classes_of([(0, 0, math.nan)] * 1500), [], 1).report()["window"]
    assert (1.0, 1.0) == (right["kappa"], right["kappa_temporal"])
    wrong = fed(ClassificationMetrics(), classes_of([(0, 0, math.nan)] * 1400 + [(1, 0, math.nan)]), [], 2).report()[
        "window"
    ]
    assert (0.0, None) == (pytest.approx(wrong["kappa"]), wrong["kappa_temporal"])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 700), max_size=8), st.integers(1, 2500), st.integers(0, 5))
def test_blocks_leave_the_bits_of_rows(sizes, n, seed):
    """However the rows are cut, state, history and report are the same bits."""
    arrays = random_classes(n, seed=seed)
    single = fed(ClassificationMetrics(), arrays, [1] * n, 3)
    blocks = fed(ClassificationMetrics(), arrays, sizes, 3)
    assert bits(single) == bits(blocks)
    assert single.report() == blocks.report()
    numbers = random_numbers(n, seed)
    assert bits(fed(RegressionMetrics(), numbers, [1] * n)) == bits(fed(RegressionMetrics(), numbers, sizes))


def test_classes_may_come_on_the_way():
    """Room for classes made early or late makes no difference to any bit in the end."""
    predicted, truth, p = random_classes(400, K=2)
    early, late = ClassificationMetrics(), ClassificationMetrics()
    early.absorb(predicted, truth, p, 5)
    late.absorb(predicted[:150], truth[:150], p[:150], 2)
    late.absorb(predicted[150:], truth[150:], p[150:], 3)
    late.absorb(predicted[:0], truth[:0], p[:0], 5)
    assert bits(early) == bits(late)


@pytest.mark.parametrize(
    "row", [(2, 0, 0.5, 2), (-2, 0, 0.5, 2), (0, 2, 0.5, 2), (0, -1, 0.5, 2), (0, 0, -0.1, 2), (0, 0, math.inf, 2)]
)
def test_a_row_that_cannot_be_changes_nothing(row):
    """Indices out of range and impossible probabilities are refused with all the rows beside them."""
    metrics = fed(ClassificationMetrics(), random_classes(20, K=2), [], 2)
    before = bits(metrics)
    with pytest.raises(ValueError, match="out of range"):
        metrics.absorb(*classes_of([(0, 0, 0.5)] * 20 + [row[:3]]), row[3])
    with pytest.raises(ValueError, match="together"):
        metrics.absorb(*classes_of([(0, 0, 0.5)]), 1)
    with pytest.raises(ValueError, match="together"):
        metrics.absorb(np.zeros(2, np.int64), np.zeros(1, np.int64), np.zeros(1), 2)
    assert before == bits(metrics)


# -- history and marks


@pytest.mark.parametrize("n", [9, 10, 5119, 5120, 5130, 10_240, 20_470, 41_000])
def test_the_history_is_bounded_and_regular(n):
    """Points stand at multiples of a stride that doubles, never 512 of them, and each tells its row's metrics."""
    predicted, truth, p = random_classes(n)
    history = fed(ClassificationMetrics(), (predicted, truth, p), [], 3).report()["history"]
    assert points(n) == [point["row"] for point in history]
    right = predicted == truth
    for point in history[:: max(1, len(history) // 7)]:
        row = point["row"]
        w_truth, w_predicted = truth[max(0, row - 1000) : row], predicted[max(0, row - 1000) : row]
        assert right[:row].mean() == pytest.approx(point["overall"])
        assert (w_truth == w_predicted).mean() == pytest.approx(point["accuracy"])
        batch = classification_batch(w_predicted, w_truth, np.full(len(w_truth), math.nan))
        assert batch["kappa"] == pytest.approx(point["kappa"])
        before = np.concatenate([[-1], truth])[max(0, row - 1000) : row]
        assert (before == w_truth).mean() == pytest.approx(point["no_change"])


@pytest.mark.parametrize("n", [10, 990, 5120, 11_000])
def test_the_history_of_a_regression(n):
    """Each point tells the window's and the overall errors at its row."""
    predicted, truth = random_numbers(n)
    history = fed(RegressionMetrics(), (predicted, truth), []).report()["history"]
    assert points(n) == [point["row"] for point in history]
    for point in history[:: max(1, len(history) // 7)]:
        first, row = max(0, point["row"] - 1000), point["row"]
        errors = predicted - truth
        steps = np.diff(truth, prepend=math.nan)[first:row]
        assert (errors[first:row] ** 2).mean() == pytest.approx(point["mse"])
        assert np.abs(errors[first:row]).mean() == pytest.approx(point["mae"])
        assert (errors[:row] ** 2).mean() == pytest.approx(point["overall"])
        assert np.nanmean(steps**2) == pytest.approx(point["last_value"])


@pytest.mark.parametrize("metrics", [ClassificationMetrics(), RegressionMetrics()])
def test_marks_keep_the_newest_hundred(metrics):
    """Marks are bounded, in order, and survive the header."""
    for row in range(130):
        metrics.mark(row, "drift", action="reset")
    expected = [{"row": row, "kind": "drift", "action": "reset"} for row in range(30, 130)]
    assert expected == metrics.report()["marks"]
    restored = type(metrics)()
    arrays, header = metrics.to_arrays()
    restored.load_arrays(arrays, json.loads(json.dumps(header)))
    assert expected == restored.report()["marks"]


# -- one batch


@pytest.mark.parametrize("n", [1, 2, 300])
def test_a_batch_alone_is_a_short_stream(n):
    """The metrics of one batch are those of a model that saw nothing else."""
    predicted, truth, p = random_classes(n)
    overall = fed(ClassificationMetrics(), (predicted, truth, p), [], 3).report()["overall"]
    batch = classification_batch(predicted, truth, p)
    assert ["rows", "accuracy", "kappa", "log_loss"] == list(batch)
    assert_close({name: overall[name] for name in ("accuracy", "kappa", "log_loss")}, batch)
    numbers = random_numbers(n)
    overall, batch = fed(RegressionMetrics(), numbers, []).report()["overall"], regression_batch(*numbers)
    assert ["rows", "mse", "mae", "r2"] == list(batch)
    assert_close(overall, batch)


def test_an_empty_batch_has_no_metrics():
    """Zero rows give None, not NaN."""
    none = np.zeros(0)
    assert {"rows": 0, "accuracy": None, "kappa": None, "log_loss": None} == classification_batch(none, none, none)
    assert {"rows": 0, "mse": None, "mae": None, "r2": None} == regression_batch(none, none)
