"""What answers cost by class_costs, beside the cheapest constant answer."""

import sys

import numpy as np
import pytest

from core.config import Config
from core.entry import Entry, Rows
from core.metrics.classification import mean_cost
from core.model import Model, read
from core.model.apply import apply

LABELS = ["fine", "fraud", "odd"]


@pytest.mark.parametrize("unit", [1.0, 1e-300, sys.float_info.max / 16])
def test_costs_are_those_of_the_rows(unit):
    """Of three labels: misses by what each costs, beside the best of the constants; in any unit."""
    truth, answers = np.array([0, 0, 0, 0, 0, 0, 1, 1, 2]), np.array([0, 0, 0, 0, 0, 1, 1, 0, 0])
    costs = np.array([1.0, 15.0, 2.0])
    labels, hits = np.bincount(truth), np.bincount(truth[truth == answers], minlength=3)
    mean, constant, answer = mean_cost(np.array([labels, labels, hits], float), unit * costs)
    constants = [costs[truth[truth != label]].sum() / 9 for label in range(3)]
    assert (min(constants), 1) == (constants[1], answer)
    assert np.allclose([costs[truth[truth != answers]].sum() / 9, min(constants)], [mean / unit, constant / unit])


def test_without_rows_there_are_none():
    """Nothing has been said that could cost."""
    assert None is mean_cost(np.zeros((3, 2)), np.ones(2))


def test_a_model_with_costs_tells_of_them_in_every_span_and_in_its_summary():
    """By the labels it knows, declared or not; a model without costs tells of none."""
    X = np.random.default_rng(0).normal(size=(300, 1))
    labels = [LABELS[1] if x > 1.5 else LABELS[0] for x in X[:, 0]]
    for declared in (None, LABELS):
        for costs in (None, {"fraud": 15}):
            body = {"algorithm": "dfop", "task": "classification", "features": ["x"], "labels": declared}
            machine = Model.first(Config.parse({**body, "class_costs": costs}))
            first = read.summary(machine)
            assert (None, None) == (first.mean_cost, first.baseline_cost)
            apply(machine, Entry(1, 0, (Rows(machine.prediction_schema.id, None, X, labels),)))
            report, summary = read.metrics_report(machine), read.summary(machine)
            if costs is None:
                assert "costs" not in report["overall"]
                assert (None, None) == (summary.mean_cost, summary.baseline_cost)
                continue
            span = report["overall"]
            missed = {name: own["support"] * (1 - (own["recall"] or 0)) for name, own in span["per_class"].items()}
            rows = sum(own["support"] for own in span["per_class"].values())
            assert np.isclose((missed["fine"] + 15 * missed["fraud"]) / rows, span["costs"]["mean"])
            assert (span["costs"]["mean"], span["costs"]["constant"]) == (summary.mean_cost, summary.baseline_cost)
            assert span["costs"] == report["window"]["costs"]
            assert {span["costs"]["label"]} == {report["fading"]["costs"]["label"]} <= {"fine", "fraud"}
