"""What a change of features starts from: how good the mapping is now, and whom the first predictions rely on."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.config import Config
from core.entry import Entry, Overlap, Rows, Switch
from core.features import parse_features
from core.model import Model, read
from core.model.apply import apply
from core.switching.linear_mapping import LinearMapping
from tests.core.switching.mappings import mapping_of


@pytest.mark.parametrize(("rows", "most"), [(40, 2.0), (70, 2.0), (200, 2.0)])
def test_the_mapping_s_error_is_that_of_the_mapping_in_use(rows, most):
    """An exact map of 12 columns: what is told is no more than twice the error on rows that are still to come."""
    rng = np.random.default_rng(0)
    X1, A = rng.normal(size=(rows + 500, 12)), rng.normal(size=(12, 12))
    X2 = X1 @ A
    mapping = mapping_of(LinearMapping, 12, 12)
    mapping.learn(X2[:rows], X1[:rows])
    mapping.solve()
    actual = ((mapping.recover(X2[rows:]) - X1[rows:]) ** 2).mean() / (X1[rows:] ** 2).mean()
    assert actual / most <= mapping.error <= most * actual + 0.01


def begun(algorithm, task, truth, width=1, rows=200, **more):
    """A model of ``rows`` rows of ``width`` columns, in an overlap with columns that are a linear image of them."""
    rng = np.random.default_rng(3)
    body = {"algorithm": algorithm, "task": task, "features": [f"a{j}" for j in range(width)], **more}
    machine = Model.first(Config.parse(body))
    A = rng.normal(size=(width, width)) * 3.0

    def rows_of(count, labelled=True):
        a = rng.normal(size=(count, width))
        b = a @ A + 1.0
        X = np.hstack([a, b]) if machine.phase == "overlap" else b if machine.phase == "ensemble" else a
        y = truth(a[:, 0])
        segment = Rows(machine.feedback_schema.id, None, X, y) if labelled else Overlap(machine.feedback_schema.id, X)
        step(machine, segment)
        return X, y

    rows_of(rows)
    step(machine, Switch("begin", parse_features([f"b{j}" for j in range(width)])))
    return machine, rows_of


def step(machine, segment):
    return apply(machine, Entry(1, 0, (segment,)))[0]


def weights(machine):
    return {expert["expert"]: expert["weight"] for expert in machine.own.switching.report()}


def numbers(a):
    return 2 * a


def signs(a):
    return ["up" if x > 0 else "down" for x in a]


@pytest.mark.parametrize(("task", "truth"), [("regression", numbers), ("classification", signs)])
@pytest.mark.parametrize("algorithm", ["rls", "dfop", "fesl_c"])
def test_a_new_model_without_a_labelled_row_has_no_vote(algorithm, task, truth):
    """After an overlap of unlabelled rows the old model speaks as before; with labels the new one gets its vote."""
    machine, feed = begun(algorithm, task, truth)
    feed(200, labelled=False)
    old = machine.pipeline.old
    X = np.array([[-1.3], [0.2], [1.1]])
    A = np.random.default_rng(3).normal(size=(1, 1)) * 3.0
    expected = old.predict(X)
    assert step(machine, Switch("complete")).warning is None
    found = machine.pipeline.predict(X @ A + 1.0)
    part = "value" if task == "regression" else "probabilities"
    assert_allclose(getattr(expected, part), getattr(found, part), rtol=0.02, atol=1e-3)
    assert 0.0 == weights(machine)["new"]
    feed(3)
    assert weights(machine)["new"] > 0.0


def test_the_old_model_begins_with_more_trust_where_it_was_better_in_the_overlap():
    """On recovered columns, by the predictions of labelled rows: it has learned two thousand, the new one forty."""
    machine, feed = begun("fesl_c", "classification", signs, width=4, rows=2000)
    feed(40)
    step(machine, Switch("complete"))
    assert weights(machine)["recovered"] == weights(machine)["carried"] > 2 * weights(machine)["new"] > 0.0


def test_the_new_model_begins_with_more_trust_where_it_was_better_in_the_overlap():
    """The labels have begun to follow what the old columns do not tell."""
    rng = np.random.default_rng(5)
    machine = Model.first(Config.parse({"algorithm": "rls", "task": "regression", "features": ["a"]}))
    a, b = rng.normal(size=(260, 1)), rng.normal(size=(260, 1))
    step(machine, Rows(machine.prediction_schema.id, None, a[:200], a[:200, 0]))
    step(machine, Switch("begin", parse_features(["b", "c"])))
    X = np.hstack([a, b, a])[200:]
    step(machine, Rows(machine.feedback_schema.id, None, X, b[200:, 0]))
    assert step(machine, Switch("complete")).warning is None
    assert weights(machine)["new"] > 0.8


def test_a_poor_mapping_warns_and_gets_little_trust():
    """Twelve columns and ten rows: enough to count, too few to recover anything."""
    machine, feed = begun("rls", "regression", numbers, width=12)
    feed(10)
    outcome = step(machine, Switch("complete"))
    assert machine.own.switching.mapping_error > 0.8
    assert "recovered poorly" in outcome.warning
    assert weights(machine)["recovered"] <= 0.1


def test_a_poor_mapping_and_an_untaught_new_model_are_both_told():
    """Without labels there is nobody better to rely on than the old model."""
    machine, feed = begun("rls", "regression", numbers, width=12)
    feed(10, labelled=False)
    outcome = step(machine, Switch("complete"))
    assert "no labelled row" in outcome.warning
    assert 1.0 == weights(machine)["recovered"]


def test_features_that_only_come_need_no_overlap():
    """Nothing has vanished: the old model reads what it always read, and is relied on without a warning."""
    rng = np.random.default_rng(0)
    machine = Model.first(Config.parse({"algorithm": "rls", "task": "regression", "features": ["a"]}))
    a = rng.normal(size=(100, 1))
    step(machine, Rows(machine.prediction_schema.id, None, a, 2 * a[:, 0]))
    step(machine, Switch("begin", parse_features(["a", "b"])))
    assert step(machine, Switch("complete")).warning is None
    assert_allclose([2.0], read.predict(machine.own, np.array([[1.0, 5.0]])).value, rtol=0.02)


def test_known_features_are_never_taken_for_the_first():
    """Rows of the model's own space without a route are a bug, which must not replace all that was learned."""
    machine, _ = begun("rls", "regression", numbers)
    before, space = machine.own.switching, machine.prediction_schema
    machine.own.switching.routes.clear()
    with pytest.raises(AssertionError):
        step(machine, Rows(space.id, None, np.zeros((1, space.width)), np.zeros(1)))
    assert before is machine.own.switching
