"""The line that a list shows of a model: the same figures as its metrics."""

import numpy as np
import pytest

from core.config import Config
from core.entry import Challenge
from core.model import LastDrift, Model, Summary, read
from tests.core.twin import Fed

KINDS = [{"algorithm": "dfop", "task": "classification"}, {"algorithm": "rls", "task": "regression"}]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind["task"])


@every_kind
def test_the_first_summary_needs_no_model(kind):
    """What is stored when a model is created is what its first state says."""
    for features in (None, ["a", "b"]):
        config = Config.parse({**kind, "features": features})
        assert read.summary(Model.first(config)) == Summary.first(config)


@every_kind
def test_a_summary_has_the_figures_of_the_metrics(kind):
    """Rows, the score, and of the baselines the one that is hardest to beat."""
    model, rng = Fed({**kind, "features": ["a", "b"]}), np.random.default_rng(0)
    machine = model.machine
    truth = rng.normal(size=40) if machine.regression else ["x", "y"] * 20
    model.learn(rng.normal(size=(40, 2)), truth)
    report = machine.own.metrics.report()
    best, name = (min, "mse") if machine.regression else (max, "accuracy")
    baseline = best(span[name] for span in report["baselines"].values())
    expected = Summary(kind["algorithm"], kind["task"], 40, report["overall"][name], baseline, "steady")
    paired = report["paired"]["overall"]["mse"] if machine.regression else None
    recent = tuple(float(f"{point[name]:.4g}") for point in report["history"])
    assert 4 == len(recent)
    assert expected._replace(paired_score=paired, recent=recent) == read.summary(machine)


def test_a_summary_has_the_last_points_of_a_long_history():
    """Twenty-four of them, the newest last."""
    model = Fed({**KINDS[0], "features": ["a"]})
    model.learn(np.random.default_rng(0).normal(size=(600, 1)), ["x", "x", "y"] * 200)
    history = model.machine.own.metrics.report()["history"]
    assert [float(f"{point['accuracy']:.4g}") for point in history[-24:]] == [*read.summary(model.machine).recent]


def test_a_summary_tells_of_drift_and_of_challengers_that_are_ahead():
    """The newest event, by its first alarm; a challenger is ahead once the interval of its difference says so."""
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
    for version, stop in enumerate(range(100, 2001, 100), 3):
        model.learn(X[stop - 100 : stop], truth[stop - 100 : stop])
        if version == 14:
            assert ("good", 1) == (
                next(n for n, c in machine.challengers.items() if c.difference.low() > 0),
                read.summary(machine).ahead,
            )
    newest = machine.outbox.newest
    assert newest.row > 1200
    assert LastDrift(newest.row, newest.time_ms, "error_rate", None) == read.summary(machine).drift
