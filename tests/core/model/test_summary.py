"""What lists and monitors show of a model: the figures of its metrics, and the cost of its errors."""

import math
import sys

import numpy as np
import pytest

from core.config import Config
from core.drift.outbox import NO_ALARM
from core.entry import Challenge, Reset, Restore
from core.metrics.classification import mean_cost
from core.model import LastDrift, Model, Summary, read, save
from tests.core.twin import Fed

KINDS = [{"algorithm": "dfop", "task": "classification"}, {"algorithm": "rls", "task": "regression"}]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind["task"])


@every_kind
def test_the_first_summary_needs_no_model(kind):
    """The summary stored when a model is created equals that of its first state."""
    for features in (None, ["a", "b"]):
        config = Config.parse({**kind, "features": features})
        assert read.summary(Model.first(config)) == Summary.first(config)


@every_kind
def test_a_summary_has_the_figures_of_the_metrics(kind):
    """Rows, score, the best baseline; the errors of the window; the last 24 points of the history, the newest last."""
    model, rng = Fed({**kind, "features": ["a", "b"]}), np.random.default_rng(0)
    machine = model.machine
    truth = rng.normal(size=1200) if machine.regression else ["x", "x", "y"] * 200 + ["x", "y"] * 300
    model.learn(rng.normal(size=(1200, 2)), truth)
    report = machine.own.metrics.report()
    best, name = (min, "mse") if machine.regression else (max, "accuracy")
    baseline = best(span[name] for span in report["baselines"].values())
    expected = Summary(kind["algorithm"], kind["task"], 1200, report["overall"][name], baseline, "steady")
    paired = report["paired"]["overall"]["mse"] if machine.regression else None
    recent = tuple(float(f"{point[name]:.4g}") for point in report["history"][-24:])
    window = report["window"]
    own = report["paired"]["window"]["mse"] if machine.regression else 1.0 - window["accuracy"]
    least = best(span[name] for span in window["baselines"].values())
    errors = {"error": own, "baseline_error": least if machine.regression else 1.0 - least}
    assert own != pytest.approx(paired or 1.0 - report["overall"]["accuracy"])  # 200 rows have left the window
    assert expected._replace(paired_score=paired, recent=recent, **errors) == read.summary(machine)


def test_a_summary_shows_the_last_drift_and_challengers_that_are_ahead():
    """The newest event, by its first alarm; a challenger is ahead once the interval of its difference is above 0."""
    config = {"algorithm": "dfop", "task": "regression", "params": {"forgetting_rate": 0.2}, "features": ["a", "b"]}
    model = Fed({**config, "watch": {"error_rate": {"batch_size": 50}}})
    machine = model.machine
    model.commit(Challenge("good", {"algorithm": "rls"}, 8))
    model.commit(Challenge("same", {"algorithm": "dfop", "params": config["params"]}, 8))
    said = read.summary(machine)
    assert (None, 2, 0) == (said.drift, said.challengers, said.ahead)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    truth = X @ [2.0, -1.0] + rng.normal(size=2000)
    truth[1200:] += 40 * rng.normal(size=800)
    for stop in range(100, 2001, 100):
        model.learn(X[stop - 100 : stop], truth[stop - 100 : stop])
        if stop == 1200:
            ahead = next(name for name, one in machine.challengers.items() if one.difference.interval()[0] > 0)
            assert ("good", 1) == (ahead, read.summary(machine).ahead)
    newest = machine.outbox.after(NO_ALARM)[-1]
    assert newest.row > 1200
    assert LastDrift(newest.row, newest.time_ms, "error_rate", None) == read.summary(machine).drift


@pytest.mark.parametrize(("source", "found_by"), [("restore", {None, "other"}), ("import", {"other"})])
def test_a_drift_of_rows_that_are_gone_is_not_the_last_drift(source, found_by):
    """After a reset, or a restore of an earlier state, new rows reach the drift's number; challengers' drifts alike."""
    watch = {} if None in found_by else {"watch": None}
    model, rng = Fed({**KINDS[0], "features": ["a"], "labels": ["x", "y"], **watch}), np.random.default_rng(0)
    model.commit(Challenge("other", {"algorithm": "rls"}, 8))

    def learn(rows, shift=0.0):
        X = rng.normal(size=(rows, 1)) + shift
        model.learn(X, np.where(X[:, 0] > shift, "x", "y").tolist())
        return read.summary(model.machine).drift

    def last():
        return model.machine.outbox.after(NO_ALARM)[-1]

    assert learn(1500) is None
    saved = save.to_bytes(model.machine)
    assert learn(500, 5.0).row == last().row > 1500
    model.commit(Restore(saved, source))
    assert learn(1000) is None
    assert learn(500, 5.0).row == last().row > 2500
    model.commit(Reset())
    assert learn(3500) is None
    assert found_by == {event.challenger for event in model.machine.outbox.after(NO_ALARM)}
    assert learn(500, 5.0).row == last().row > 3500


# -- quality


def learned(rows=1500, **body):
    """A model that has learned a stream whose second class is rare."""
    model = Fed({"algorithm": "rls", "features": ["a", "b"], "watch": None, **body})
    rng = np.random.default_rng(7)
    X = rng.normal(size=(rows, 2))
    score = X[:, 0] + 0.5 * rng.normal(size=rows)
    model.learn(X, score if model.machine.regression else np.where(score > 1.2, "rare", "often").tolist())
    return model


def test_the_quality_of_a_classifier_matches_its_report():
    """Accuracy, the better baseline, the ratio of the errors and the calibration error, all of the window."""
    model = learned(task="classification")
    window, found = model.report["window"], read.quality(model.machine.own)
    assert window["accuracy"] == found.score
    assert 0.8 < found.baseline < found.score
    assert window["ece"] == found.calibration_error
    assert found.error_ratio == pytest.approx((1.0 - found.score) / (1.0 - found.baseline))
    assert {} == read.coverage(model.machine.own)


def test_the_quality_of_a_regression_matches_its_report():
    """Mean squared errors of the window, their ratio, and the coverage of intervals."""
    model = learned(task="regression")
    report, found = model.report, read.quality(model.machine.own)
    window = report["window"]
    assert window["mse"] == found.score
    assert found.error_ratio == pytest.approx(report["paired"]["window"]["mse"] / found.baseline)
    assert math.isnan(found.calibration_error)
    assert window["coverage"] == read.coverage(model.machine.own)


@every_kind
def test_nothing_is_known_before_the_first_row(kind):
    """All numbers are NaN."""
    *unknown, unscored = read.quality(Fed({**kind, "features": ["a"]}).machine.own)
    assert all(map(math.isnan, unknown))
    assert 0 == unscored


def test_zero_errors_have_a_ratio():
    """It is 1 if both are never wrong."""
    model = learned(rows=50, task="classification")
    model.learn(np.zeros((1200, 2)), ["often"] * 1200)
    found = read.quality(model.machine.own)
    assert 1.0 == found.score == found.baseline == found.error_ratio


# -- costs


def test_costs_weigh_errors():
    """A model that predicts the rare label early is right less often than the majority, but costs less."""
    model = learned(task="classification", class_costs={"rare": 30.0})
    found = read.quality(model.machine.own)
    assert found.score < found.baseline
    classes = model.report["window"]["per_class"]
    costs = {"often": 1.0, "rare": 30.0}
    all_missed = {label: costs[label] * one["support"] for label, one in classes.items()}
    missed = sum(all_missed[label] * (1.0 - one["recall"]) for label, one in classes.items())
    assert found.error_ratio == pytest.approx(missed / (sum(all_missed.values()) - max(all_missed.values())))
    assert found.error_ratio < 1.0


@pytest.mark.parametrize("unit", [1.0, 1e-300, sys.float_info.max / 16])
def test_costs_follow_from_the_rows(unit):
    """With three labels: the cost of the misses, compared with the best constant, in any unit."""
    truth, answers = np.array([0, 0, 0, 0, 0, 0, 1, 1, 2]), np.array([0, 0, 0, 0, 0, 1, 1, 0, 0])
    costs = np.array([1.0, 15.0, 2.0])
    labels, hits = np.bincount(truth), np.bincount(truth[truth == answers], minlength=3)
    mean, constant, answer = mean_cost(np.array([labels, labels, hits], float), unit * costs)
    constants = [costs[truth[truth != label]].sum() / 9 for label in range(3)]
    assert (min(constants), 1) == (constants[1], answer)
    assert np.allclose([costs[truth[truth != answers]].sum() / 9, min(constants)], [mean / unit, constant / unit])


@pytest.mark.parametrize("costs", [None, {"fraud": 15}])
@pytest.mark.parametrize("declared", [None, ["fine", "fraud", "odd"]])
def test_a_model_reports_costs_in_every_span_and_in_its_summary(declared, costs):
    """For the labels it knows, declared or not; a model without costs reports none."""
    model = Fed({**KINDS[0], "features": ["x"], "labels": declared, "class_costs": costs})
    first = read.summary(model.machine)
    assert (None, None) == (first.mean_cost, first.baseline_cost)
    X = np.random.default_rng(0).normal(size=(300, 1))
    model.learn(X, ["fraud" if x > 1.5 else "fine" for x in X[:, 0]])
    report, summary = model.report, read.summary(model.machine)
    if costs is None:
        assert "costs" not in report["overall"]
        assert (None, None) == (summary.mean_cost, summary.baseline_cost)
        return
    span = report["overall"]
    missed = {name: own["support"] * (1 - (own["recall"] or 0)) for name, own in span["per_class"].items()}
    rows = sum(own["support"] for own in span["per_class"].values())
    assert np.isclose((missed["fine"] + 15 * missed["fraud"]) / rows, span["costs"]["mean"])
    assert (span["costs"]["mean"], span["costs"]["constant"]) == (summary.mean_cost, summary.baseline_cost)
    assert span["costs"] == report["window"]["costs"]
    assert (summary.mean_cost, summary.baseline_cost) == (summary.error, summary.baseline_error)
    assert {span["costs"]["label"]} == {report["fading"]["costs"]["label"]} <= {"fine", "fraud"}
