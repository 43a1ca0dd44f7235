"""What monitoring is told of a model's window agrees with the report, and weighs errors by their costs."""

import math

import numpy as np
import pytest

from core.config import Config
from core.entry import Entry, Rows
from core.model import Model, read
from core.model.apply import apply


def learned(rows=1500, **body):
    """A model that has learned a stream whose second class is rare."""
    machine = Model.first(Config.parse({"algorithm": "rls", "features": ["a", "b"], "watch": None, **body}))
    rng = np.random.default_rng(7)
    X = rng.normal(size=(rows, 2))
    score = X[:, 0] + 0.5 * rng.normal(size=rows)
    y = score.tolist() if machine.regression else np.where(score > 1.2, "rare", "often").tolist()
    apply(machine, Entry(1, 0, (Rows(machine.feedback_schema.id, None, X, y),)))
    return machine


def test_a_classifier_is_told_as_in_its_report():
    """Accuracy, the better baseline, the ratio of the errors, and the calibration error, all of the window."""
    machine = learned(task="classification")
    window, found = read.metrics_report(machine)["window"], read.quality(machine.own)
    assert window["accuracy"] == found.score
    assert 0.8 < found.baseline < found.score
    assert window["ece"] == found.calibration_error
    assert found.error_ratio == pytest.approx((1.0 - found.score) / (1.0 - found.baseline))
    assert {} == read.coverage(machine.own)


def test_a_regression_is_told_as_in_its_report():
    """Mean squared errors of the window, their ratio, and how often intervals held."""
    machine = learned(task="regression")
    report, found = read.metrics_report(machine), read.quality(machine.own)
    window = report["window"]
    assert window["mse"] == found.score
    assert found.error_ratio == pytest.approx(report["paired"]["window"]["mse"] / found.baseline)
    assert math.isnan(found.calibration_error)
    assert window["coverage"] == read.coverage(machine.own)


def test_costs_weigh_errors():
    """A model that answers the rare label early has fewer right rows than the majority, and still the lesser costs."""
    machine = learned(task="classification", class_costs={"rare": 30.0})
    found = read.quality(machine.own)
    assert found.score < found.baseline
    classes = read.metrics_report(machine)["window"]["per_class"]
    costs = {"often": 1.0, "rare": 30.0}
    all_missed = {label: costs[label] * one["support"] for label, one in classes.items()}
    missed = sum(all_missed[label] * (1.0 - one["recall"]) for label, one in classes.items())
    assert found.error_ratio == pytest.approx(missed / (sum(all_missed.values()) - max(all_missed.values())))
    assert found.error_ratio < 1.0


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_nothing_is_known_before_the_first_row(task):
    """All numbers are NaN."""
    machine = Model.first(Config.parse({"algorithm": "rls", "task": task, "features": ["a"]}))
    score, baseline, ratio, calibration, unscored = read.quality(machine.own)
    assert all(map(math.isnan, (score, baseline, ratio, calibration)))
    assert 0 == unscored


def test_errors_of_zero_have_a_ratio():
    """Equal where both are never wrong; without end where the baseline alone is."""
    machine = learned(rows=50, task="classification")
    X = np.zeros((1200, 2))
    apply(machine, Entry(2, 0, (Rows(machine.feedback_schema.id, None, X, ["often"] * 1200),)))
    assert (
        1.0
        == read.quality(machine.own).score
        == read.quality(machine.own).baseline
        == read.quality(machine.own).error_ratio
    )
