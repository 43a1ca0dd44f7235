"""The line that a list shows of a model: the same figures as its metrics."""

import numpy as np
import pytest

from core.config import Config
from core.entry import Entry, Rows
from core.machine import Machine, Summary

KINDS = [{"algorithm": "dfop", "task": "classification"}, {"algorithm": "rls", "task": "regression"}]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind["task"])


@every_kind
def test_the_first_summary_needs_no_model(kind):
    """What is stored when a model is created is what its first state says."""
    for features in (None, ["a", "b"]):
        config = Config.parse({**kind, "features": features})
        assert Machine(config).summary() == Summary.first(config)


@every_kind
def test_a_summary_has_the_figures_of_the_metrics(kind):
    """Rows, the score, and of the baselines the one that is hardest to beat."""
    machine = Machine(Config.parse({**kind, "features": ["a", "b"]}))
    rng = np.random.default_rng(0)
    truth = rng.normal(size=40) if machine.regression else ["x", "y"] * 20
    rows = Rows(machine.prediction_schema.id, None, rng.normal(size=(40, 2)), truth)
    machine.apply(Entry(1, 1000, (rows,)))
    report = machine.metrics.report()
    best, name = (min, "mse") if machine.regression else (max, "accuracy")
    baseline = best(span[name] for span in report["baselines"].values())
    expected = Summary(kind["algorithm"], kind["task"], 40, report["overall"][name], baseline, "steady")
    assert expected == machine.summary()
