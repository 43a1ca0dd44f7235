"""Prequential metrics of a classifier, and what both tasks share, compared with a recomputation from all rows."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config import Config
from core.config.scoring import ROW_NUMBERS, WINDOW
from core.entry import Challenge
from core.metrics import ClassificationMetrics, RegressionMetrics, classification_batch, regression_batch
from core.metrics.class_kernels import AS_NOW, GONE, NOTHING, P_TRUE
from core.metrics.intervals import Intervals
from core.metrics.prequential import MARKS_MAX, Marks
from core.model import Model, read
from tests.core.metrics.prequential_oracle import (
    SPANS,
    assert_close,
    bits,
    class_report,
    classes_of,
    fed,
    flat,
    part,
    points,
    random_classes,
    random_numbers,
    rows_of,
)
from tests.core.twin import Fed


@pytest.mark.parametrize(
    ("n", "K", "window", "factor"),
    [
        *((n, K, 1000, 0.999) for K in (2, 3) for n in (0, 1, 2, 17, 1000, 2300)),
        *((n, 3, *spans) for spans in SPANS for n in (5, 10, 1001, 2300)),
    ],
)
def test_classification_metrics_match_the_full_list(n, K, window, factor):
    """All three spans and both baselines agree with a recomputation; blocks and single rows give the same bits."""
    arrays = random_classes(n, K)
    metrics = fed(ClassificationMetrics(window, factor), arrays, [7, 1, 300], K)
    report = metrics.report()
    found = flat(report)
    for name, span in class_report(rows_of(*arrays), K, window, factor).items():
        assert_close(span, found[name])
    size, rows, *_ = report["window"].values()
    assert (n, window, min(n, window), factor) == (report["rows"], size, rows, report["fading"]["factor"])
    assert bits(metrics) == bits(fed(ClassificationMetrics(window, factor), arrays, [], K))


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(-1, 2), st.integers(0, 2), st.just(math.nan) | st.floats(0, 1.01)),
        min_size=1,
        max_size=40,
    )
)
def test_metrics_of_short_streams_match_the_full_list(rows):
    """Single classes, missing predictions or probabilities: every edge case of the definitions, on short lists."""
    arrays = classes_of(rows)
    found = flat(fed(ClassificationMetrics(1000, 0.999), arrays, [1], 3).report())
    for name, span in class_report(rows_of(*arrays), 3).items():
        assert_close(span, found[name])


SCORES = ("accuracy", "balanced_accuracy", "kappa", "kappa_temporal", "log_loss", "brier", "ece")


def test_a_metric_without_rows_is_none():
    """Before the first row every metric is None, and none is NaN."""
    report = ClassificationMetrics(1000, 0.999).report()
    nothing = {"per_class": {}, "confusion": {"labels": [], "counts": []}, "reliability": []}
    none = {**dict.fromkeys(SCORES), "unscored": 0, **nothing}
    baselines = {"no_change": {"accuracy": None}, "majority": {"accuracy": None}}
    assert {
        "rows": 0, "unscored": 0, "overall": none,
        "window": {"size": 1000, "rows": 0, **none, "baselines": baselines},
        "fading": {"factor": 0.999, **none, "baselines": baselines}, "baselines": baselines, "history": [],
        "history_every": 10, "marks": [], "marks_thinned": 0,
    } == report  # fmt: skip
    assert {"score": None, "baseline": None} == ClassificationMetrics(1000, 0.999).headline()


def test_the_best_baseline_is_the_more_accurate_one():
    """``majority`` on an alternating stream, ``no_change`` on one that changes once."""
    for labels, best in (([0, 0, 0, 1, 0, 1, 0], "majority"), ([0, 0, 0, 0, 1, 1, 1, 1, 1], "no_change")):
        metrics = fed(ClassificationMetrics(1000, 0.999), classes_of([(0, label, 1.0) for label in labels]), [], 2)
        found = {name: span["accuracy"] for name, span in metrics.report()["baselines"].items()}
        assert (best, found[best]) == (max(found, key=found.get), metrics.headline()["baseline"])


def test_predicting_a_retired_label_is_wrong():
    """It counts as an error, and as a prediction of none of the current classes."""
    metrics = fed(ClassificationMetrics(1000, 0.999), classes_of([(GONE, 0, 0.5), (0, 0, 0.5)]), [], 2)
    overall = metrics.report()["overall"]
    assert (0.5, 0) == (overall["accuracy"], overall["unscored"])
    assert [[1, 0], [0, 0]] == overall["confusion"]["counts"]
    assert (2, 1.0, 0.5) == tuple(overall["per_class"]["0"].values())[:3]


def test_baselines_are_judged_by_their_prediction_of_that_time():
    """They come with the rows; AS_NOW means the current prediction, NOTHING the first class, GONE an error."""
    metrics = fed(ClassificationMetrics(1000, 0.999), classes_of([(0, 0, 0.5)] * 3), [], 2)
    predicted, truth, facts = classes_of([(1, 1, 0.5), (1, 1, 0.5), (0, 0, 0.5), (1, 1, 0.5)])
    metrics.absorb(predicted, truth, facts, 2, np.array([[1, 0], [AS_NOW, 1], [NOTHING, GONE], [0, AS_NOW]]))
    # no_change was right on 0, 0, 0, then 1 (given), 1 (the label before), 0 (nothing known), wrong on 1
    assert {"no_change": {"accuracy": 6 / 7}, "majority": {"accuracy": 4 / 7}} == metrics.report()["baselines"]
    assert (1, 0) == metrics.baselines()


def test_classes_may_come_late():
    """Making room for classes early or late makes no difference to the final bits."""
    predicted, truth, facts = random_classes(400, K=2)
    early, late = ClassificationMetrics(1000, 0.999), ClassificationMetrics(1000, 0.999)
    early.absorb(predicted, truth, facts, 60)
    for start, stop, classes in ((0, 150, 2), (150, 400, 3), (400, 400, 60)):
        late.absorb(
            *(np.ascontiguousarray(part(each, slice(start, stop))) for each in (predicted, truth, facts)), classes
        )
    assert bits(early) == bits(late)


@pytest.mark.parametrize(
    "row", [(2, 0, 0.5, 2), (-3, 0, 0.5, 2), (0, 2, 0.5, 2), (0, -1, 0.5, 2), (0, 0, -0.1, 2), (0, 0, math.inf, 2)]
)
def test_an_impossible_row_changes_nothing(row):
    """Indices out of range and impossible probabilities are refused together with all other rows of the call."""
    metrics = fed(ClassificationMetrics(1000, 0.999), random_classes(20, K=2), [], 2)
    before = bits(metrics)
    with pytest.raises(ValueError, match="out of range"):
        metrics.absorb(*classes_of([(0, 0, 0.5)] * 20 + [row[:3]]), row[3])
    with pytest.raises(ValueError, match="do not match"):
        metrics.absorb(*classes_of([(0, 0, 0.5)]), 1)
    with pytest.raises(ValueError, match="do not match"):
        metrics.absorb(np.zeros(2, np.int64), *classes_of([(0, 0, 0.5)])[1:], 2)
    for told in (np.zeros((2, 2), np.int64), np.array([[2, 0]]), np.array([[0, -4]])):
        with pytest.raises(ValueError, match="do not match|out of range"):
            metrics.absorb(*classes_of([(0, 0, 0.5)]), 2, told)
    assert before == bits(metrics)


# -- history


def loaded(metrics):
    """New metrics with this state."""
    arrays, header = metrics.to_arrays()
    restored = type(metrics)(1000, 0.999)
    restored.load_arrays(arrays, json.loads(json.dumps(header)))
    return restored


@pytest.mark.parametrize("n", [9, 10, 5119, 5120, 5130, 10_240, 20_470, 41_000])
def test_the_history_is_bounded_and_regular(n):
    """Points are at multiples of a stride that doubles, always fewer than 512, and each has the metrics at its row."""
    predicted, truth, facts = random_classes(n)
    metrics = fed(ClassificationMetrics(1000, 0.999), (predicted, truth, facts), [], 3)
    assert bits(metrics) == bits(loaded(metrics))
    report = metrics.report()
    history = report["history"]
    assert points(n) == [point["row"] for point in history]
    assert report["history_every"] == history[1]["row"] - history[0]["row"] if len(history) > 1 else 10
    before, scored = np.concatenate([[0], truth[:-1]]), predicted >= 0
    seen = np.concatenate([np.zeros((1, 3)), np.cumsum(truth[:-1, None] == np.arange(3), axis=0)])
    leader = seen.argmax(axis=1)
    for point in history[:: max(1, len(history) // 7)]:
        last = slice(max(0, point["row"] - 1000), point["row"])
        rows = (each[last][scored[last]] for each in (truth, predicted, before, leader))
        w_truth, w_predicted, w_before, w_leader = rows
        so_far = scored[: point["row"]]
        assert (predicted == truth)[: point["row"]][so_far].mean() == pytest.approx(point["overall"])
        assert (w_truth == w_predicted).mean() == pytest.approx(point["accuracy"])
        batch = classification_batch(w_predicted, w_truth, np.full(len(w_truth), math.nan))
        assert batch["kappa"] == pytest.approx(point["kappa"])
        assert (w_before == w_truth).mean() == pytest.approx(point["no_change"])
        assert (w_leader == w_truth).mean() == pytest.approx(point["majority"])


def test_points_of_rows_that_are_all_unscored_are_undefined():
    """The point exists without numbers, and the state loads."""
    metrics = fed(ClassificationMetrics(1000, 0.999), classes_of([(-1, 0, math.nan)] * 20), [], 1)
    assert [{"row": row, **dict.fromkeys(metrics.POINT)} for row in (10, 20)] == metrics.report()["history"]
    assert bits(metrics) == bits(loaded(metrics))


@pytest.mark.parametrize("n", [10, 990, 5120, 11_000])
def test_the_history_of_a_regression(n):
    """Each point has the window's and the overall errors at its row."""
    predicted, truth = random_numbers(n)
    metrics = fed(RegressionMetrics(1000, 0.999), (predicted, truth), [])
    assert bits(metrics) == bits(loaded(metrics))
    history = metrics.report()["history"]
    assert points(n) == [point["row"] for point in history]
    for point in history[:: max(1, len(history) // 7)]:
        first, row = max(0, point["row"] - 1000), point["row"]
        errors = predicted - truth
        steps = np.diff(truth, prepend=math.nan)[first:row]
        assert (errors[first:row] ** 2).mean() == pytest.approx(point["mse"])
        assert np.abs(errors[first:row]).mean() == pytest.approx(point["mae"])
        assert (errors[:row] ** 2).mean() == pytest.approx(point["overall"])
        assert np.nanmean(steps**2) == pytest.approx(point["last_value"])


# -- one batch


@pytest.mark.parametrize("n", [0, 1, 2, 300])
def test_a_batch_alone_is_a_short_stream(n):
    """The metrics of one batch equal those of a model that saw nothing else; of none they are None, not NaN."""
    predicted, truth, facts = random_classes(n)
    overall = fed(ClassificationMetrics(1000, 0.999), (predicted, truth, facts), [], 3).report()["overall"]
    batch = classification_batch(predicted, truth, facts[P_TRUE])
    assert ["rows", "unscored", "accuracy", "balanced_accuracy", "kappa", "log_loss"] == list(batch)
    assert_close({"rows": n, **{name: overall[name] for name in list(batch)[1:]}}, batch)
    numbers = random_numbers(n)
    overall, batch = fed(RegressionMetrics(1000, 0.999), numbers, []).report()["window"], regression_batch(*numbers)
    assert ["rows", "mse", "mae", "r2", "bias", "median_ae"] == list(batch)
    assert_close({name: overall[name] for name in batch}, batch)


# -- marks


@pytest.mark.parametrize("metrics", [ClassificationMetrics(1000, 0.999), RegressionMetrics(1000, 0.999)])
def test_a_hundred_marks_are_kept_and_the_rest_counted(metrics):
    """In order, including the first and the latest; they survive the header."""
    for row in range(130):
        metrics.mark(row, "drift", action="reset")
    report = metrics.report()
    rows = [mark["row"] for mark in report["marks"]]
    assert (MARKS_MAX, 30) == (len(rows), report["marks_thinned"])
    assert sorted({*rows}) == rows
    assert (0, 129) == (rows[0], rows[-1])
    assert {"row": 129, "kind": "drift", "action": "reset"} == report["marks"][-1]
    assert report == loaded(metrics).report()


def test_marks_are_thinned_evenly():
    """After ten thousand alarms no gap is larger than four times the even one."""
    marks = Marks()
    for row in range(0, 100_000, 10):
        marks.add({"row": row, "kind": "drift"})
    rows = [mark["row"] for mark in marks.kept]
    assert (MARKS_MAX, 10_000 - MARKS_MAX) == (len(rows), marks.thinned)
    assert max(after - before for before, after in pairwise(rows)) <= 4 * 100_000 / MARKS_MAX


def test_a_burst_is_thinned_before_isolated_marks():
    """The closest marks go first."""
    marks = Marks()
    alone = [{"row": 1000 * k, "kind": "drift"} for k in range(50)]
    for mark in (*alone, *({"row": 60_000 + k, "kind": "drift"} for k in range(200))):
        marks.add(mark)
    assert alone == marks.kept[:50]


def test_alarms_go_before_resets_and_switches():
    """Resets and switches stay as long as there is an alarm to drop."""
    marks = Marks()
    for row in range(300):
        marks.add({"row": row, "kind": "reset" if row % 10 == 5 else "drift"})
    assert [*range(5, 300, 10)] == [mark["row"] for mark in marks.kept if mark["kind"] == "reset"]
    for row in range(300, 500):
        marks.add({"row": row, "kind": "reset"})
    assert MARKS_MAX == len(marks.kept)
    assert 499 == marks.kept[-1]["row"]


@pytest.mark.parametrize(
    "header",
    [
        {}, {"marks": None, "marks_thinned": 0}, {"marks": [1], "marks_thinned": 0},
        {"marks": [{}], "marks_thinned": 0}, {"marks": [{"row": 1.5, "kind": "drift"}], "marks_thinned": 0},
        {"marks": [{"row": 1, "kind": "drift"}] * (MARKS_MAX + 1), "marks_thinned": 0},
        {"marks": [], "marks_thinned": -1}, {"marks": [], "marks_thinned": 1}, {"marks": [], "marks_thinned": True},
    ],
)  # fmt: skip
def test_invalid_marks_are_refused(header):
    """Another form, too many of them, or an impossible number of dropped ones."""
    with pytest.raises(ValueError, match="marks"):
        Marks.from_header(header)


# -- other windows and fading factors than the defaults


@pytest.mark.parametrize("make", [ClassificationMetrics, RegressionMetrics, Intervals])
def test_a_state_belongs_to_one_window(make):
    """It continues with the same bits, and metrics with another window refuse it."""
    more = (3,) if make is ClassificationMetrics else ()
    arrays = random_classes(150) if more else random_numbers(150)
    metrics, restored = fed(make(40, 0.9), arrays, [], *more), make(40, 0.9)
    restored.load_arrays(*metrics.to_arrays())
    assert bits(fed(metrics, arrays, [], *more)) == bits(fed(restored, arrays, [3], *more))
    with pytest.raises(ValueError, match=r"do(es)? not match|shape"):
        make(1000, 0.999).load_arrays(*metrics.to_arrays())


def test_a_weight_belongs_to_one_fading_factor():
    """The weight of the newest row shows how fast counts fade; another factor refuses it."""
    arrays, header = fed(RegressionMetrics(1000, 0.9), random_numbers(150), []).to_arrays()
    with pytest.raises(ValueError, match="weight"):
        RegressionMetrics(1000, 0.999).load_arrays(arrays, header)


def test_a_model_scores_as_its_configuration_says():
    """For both tasks, and for a challenger."""
    for task in ("classification", "regression"):
        model = Fed({"task": task, "metrics": {"window": 50, "fading": 0.95}})
        model.commit(Challenge("other", {"algorithm": "rls"}, 1))
        for report in (model.report, read.learner_metrics(model.machine.challengers["other"].parts)):
            assert (50, 0.95) == (report["window"]["size"], report["fading"]["factor"])


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_long_window_is_announced(task):
    """A configuration announces exactly what the rings of a longer window take beyond the default length."""
    held = {}
    for window in (WINDOW.default, WINDOW.le):
        config = Config.parse({"algorithm": "rls", "task": task, "metrics": {"window": window}})
        answers = Model.first(config).own.answers
        if task == "classification":
            rings = [answers.metrics.arrays(window, 2)[-2]]
        else:
            rings = [answers.metrics.arrays(window)[-2], answers.intervals.arrays(window)[-1]]
        held[window] = sum(ring.nbytes for ring in rings), config.state_bytes(3)
    (short, announced_short), (long, announced_long) = held.values()
    assert 8 * ROW_NUMBERS[task] * (WINDOW.le - WINDOW.default) == long - short == announced_long - announced_short
