"""Retired labels: no longer predicted, kept in the metrics, and brought back."""

import numpy as np
import pytest

from core.entry import Challenge, Outcome, Promote, Reset, Restore, Rows
from core.learners.catalogue import ALGORITHMS
from core.metrics.class_kernels import P_MIN
from core.model import read, save
from core.model.plans import plan_change, refuse_on_arrival
from core.problems import Conflict, Invalid
from tests.core.twin import Fed, Twin

NAMES = ["a", "b", "c"]
SPARSE = {"features": None, "params": {"compressed_dim": 3}}
CLASSIFIERS = {
    one.id: {"algorithm": one.id, **(SPARSE if one.sparse else {})}
    for one in ALGORITHMS.values()
    if "classification" in one.tasks and one.id != "observer"
}


def stream(rows=90, seed=0):
    """Rows around three corners, labelled with the name of their corner."""
    rng = np.random.default_rng(seed)
    y = np.arange(rows) % 3
    return 2.0 * np.eye(3)[y] + 0.3 * rng.normal(size=(rows, 3)), [NAMES[k] for k in y]


class Model(Twin):
    """A classifier that has learned three corners; a twin applies every entry as well."""

    def __init__(self, rows=90, **changes):
        body = {"algorithm": "dfop", "task": "classification", "features": ["x", "y", "z"], "labels": NAMES}
        super().__init__({name: value for name, value in {**body, **changes}.items() if value is not None})
        if rows:
            self.learn(*stream(rows))

    def answers(self, x, parts=None):
        """Predictions and probabilities of rows, as clients get them."""
        own = parts or self.machine.own
        prediction = read.predict(own, np.ascontiguousarray(x))
        labels, shares = read.probabilities(own, prediction)
        named = [dict(zip(labels.labels, row, strict=True)) for row in shares.tolist()]
        return own.answers.named(prediction.value), named

    @property
    def retired(self):
        return [parts.answers.retired for parts in self.machine.learners]

    def tracked(self, x):
        """Track a prediction; the result sends its label."""
        _, (kept,) = read.predict_to_keep(self.machine, x)
        return lambda label: self.commit(Rows(self.machine.feedback_schema.id, None, x, [label], served=kept))


@pytest.mark.parametrize("body", [*CLASSIFIERS.values(), {"params": {"variant": "paper"}}], ids=[*CLASSIFIERS, "paper"])
def test_a_retired_label_is_not_answered(body):
    """By any learner, with or without probabilities: the others' add up to 1, and none is 0 or 1."""
    model = Model(**body)
    X, y = stream(30, seed=1)
    assert set(NAMES) == set(model.answers(X)[0])
    assert Outcome(90) == model.change(retire_labels=["b"])
    found, shares = model.answers(X)
    assert {"a", "c"} >= set(found)
    for one in shares:
        assert ["a", "c"] == list(one)
        assert 1.0 == pytest.approx(sum(one.values()))
        assert all(0.0 < share < 1.0 for share in one.values())
    kept = [at for at, label in enumerate(y) if label != "b"]
    assert np.mean([found[at] == y[at] for at in kept]) > 0.8
    assert {"a", "c"} >= set(model.learn(X, y).predictions)


@pytest.mark.parametrize("labels", [NAMES, None])
def test_the_others_share_its_probability(labels):
    """In proportion; metrics and learner keep the label, the model lists it, and a mark records the change."""
    model = Model(labels=labels)
    X, _ = stream(6, seed=1)
    before, report = model.answers(X)[1], model.report
    model.change(retire_labels=["b"])
    for one, other in zip(before, model.answers(X)[1], strict=True):
        assert one["a"] / (one["a"] + one["c"]) == pytest.approx(other["a"])
    after = model.report
    assert [{"row": 90, "kind": "configure", "fields": ["retire_labels"]}] == after["marks"]
    assert {**report, "marks": after["marks"]} == after
    assert (NAMES, ["b"]) == tuple(read.info(model.machine)[name] for name in ("labels", "retired_labels"))


def test_a_row_brings_an_undeclared_label_back():
    """The row is predicted without the label and scored as if it were there; the next row may be predicted with it."""
    model, steady = Model(labels=None), Model(labels=None)
    X, y = stream(12, seed=1)
    model.change(retire_labels=["b"])
    block = model.learn(X, y)
    assert ("a", "b") == (y[0], y[1])
    assert "b" not in block.predictions[:2]
    assert "b" in block.predictions[2:]
    assert P_MIN < block.p_true[1]
    assert [()] == model.retired
    rows = Model(labels=None)
    rows.change(retire_labels=["b"])
    for at in range(12):
        rows.learn(X[at : at + 1], y[at : at + 1])
    assert rows.answers(X) == model.answers(X)
    steady.learn(X, y)
    assert steady.answers(X)[0] == model.answers(X)[0]


@pytest.mark.parametrize("rows", [0, 30])
def test_a_declared_label_stays_retired_when_a_row_under_way_carries_it(rows):
    """The row was valid when it was sent, so it is learned, and scored as if the label were in use."""
    model = Model(rows)
    model.change(retire_labels=["b"])
    outcome = model.learn(2.0 * np.eye(3)[1:2], ["b"])
    assert ([1.0], True) == (outcome.losses, outcome.learned)
    assert P_MIN < outcome.p_true[0]
    assert [("b",)] == model.retired


def test_add_labels_brings_a_label_back():
    """Declared or not; the same change may add a new label and retire another one."""
    for labels in (NAMES, None):
        model = Model(labels=labels)
        X, _ = stream(9, seed=1)
        before = model.answers(X)
        model.change(retire_labels=["b"])
        assert Outcome(90) == model.change(add_labels=["b"])
        assert before == model.answers(X)
    model = Model()
    model.change(retire_labels=["b"])
    assert model.change(add_labels=["b", "d"], retire_labels=["a"]).refusal is None
    assert ([("a",)], (*NAMES, "d")) == (model.retired, model.machine.config.labels)


@pytest.mark.parametrize("labels", [NAMES, None])
def test_a_tracked_row_is_scored_after_its_label_was_retired(labels):
    """By the prediction that was returned, also if it was tracked while the label was retired."""
    model = Model(labels=labels)
    x = 2.0 * np.eye(3)[1:2]
    answer, (shares,) = model.answers(x)
    row = model.tracked(x)
    model.change(retire_labels=["b"])
    outcome = row("b")
    assert (answer, [0.0], [shares["b"]]) == (outcome.predictions, outcome.losses, outcome.p_true)
    assert [() if labels is None else ("b",)] == model.retired
    model.change(retire_labels=["b"])
    answer, (shares,) = model.answers(x)
    early, late = model.tracked(x), model.tracked(x)
    assert [shares["a"]] == early("a").p_true
    outcome = late("b")
    assert ([1.0], answer) == (outcome.losses, outcome.predictions)
    assert P_MIN < outcome.p_true[0]


@pytest.mark.parametrize("labels", [NAMES, None])
def test_challengers_have_the_same_labels(labels):
    """Existing challengers and later ones; also after a promotion."""
    model = Model(labels=labels)
    model.commit(Challenge("early", {"algorithm": "rls"}, 8))
    model.change(retire_labels=["b"])
    model.commit(Challenge("late", {"algorithm": "vigo"}, 8))
    assert [("b",)] * 3 == model.retired
    X, y = stream(60, seed=1)
    kept = [at for at, label in enumerate(y) if label != "b"]
    model.learn(X[kept], [y[at] for at in kept])
    for parts in model.machine.learners:
        assert {"a", "c"} == set(model.answers(X, parts)[0])
    model.commit(Promote("late", force=True))
    assert {"a", "c"} == set(model.answers(X)[0])
    model.learn(X, y)
    assert [() if labels is None else ("b",)] * 3 == model.retired


def test_retired_labels_are_part_of_the_state():
    """A copy has them, a restore restores them, a reset keeps them if the labels are declared."""
    model = Model()
    kept = save.to_bytes(model.machine)
    model.change(retire_labels=["b"])
    copy, _ = save.from_bytes(save.to_bytes(model.machine, copied=True))
    assert ("b",) == copy.own.answers.retired
    model.commit(Reset())
    assert [("b",)] == model.retired
    model.commit(Restore(kept, "restore"))
    assert [()] == model.retired
    seen = Model(labels=None)
    seen.change(retire_labels=["b"])
    seen.commit(Reset())
    assert [()] == seen.retired


def test_a_label_is_retired_once():
    """Retiring it again changes nothing; neither does null or an empty list."""
    model = Model()
    model.change(retire_labels=["b"])
    before = save.to_bytes(model.machine)
    for same in (["b"], [], None):
        assert Outcome(90) == model.change(retire_labels=same)
    assert before == save.to_bytes(model.machine)


def test_costs_do_not_make_a_retired_label_the_answer():
    """However expensive it is to miss it."""
    model = Model(class_costs={"b": 1000.0})
    X, y = stream(9, seed=1)
    assert {"b"} == set(model.answers(X)[0])
    model.change(retire_labels=["b"])
    assert {"a", "c"} == set(model.answers(X)[0])
    assert {"a", "c"} == set(model.learn(X, y).predictions)


def test_two_labels_must_remain():
    """Of those declared, or of those seen; a regression has no labels to retire."""
    for labels, rows in ((NAMES, 0), (None, 90)):
        with pytest.raises(Conflict, match="two labels"):
            plan_change(Model(rows, labels=labels).machine, {"retire_labels": ["a", "b"]})
    model = Model()
    model.change(retire_labels=["a"])
    assert model.change(retire_labels=["c"]).refusal is not None
    with pytest.raises(Invalid, match="numbers"):
        plan_change(Model(0, algorithm="rls", task="regression", labels=None).machine, {"retire_labels": ["a"]})


def test_the_label_of_labels_due_is_not_retired():
    """Silence would bring it back: it cannot be retired, and labels_due cannot name a retired label."""
    due = {"after_s": 60, "then": {"label": "c"}}
    model = Model(labels_due=due)
    with pytest.raises(Conflict, match="labels_due"):
        plan_change(model.machine, {"retire_labels": ["c"]})
    model.change(retire_labels=["a"])
    with pytest.raises(Conflict, match="labels_due"):
        plan_change(model.machine, {"labels_due": {**due, "then": {"label": "a"}}})
    assert plan_change(model.machine, {"labels_due": {**due, "then": "drop"}})[0].fields == ["labels_due"]


def test_the_label_of_labels_due_looks_like_no_other():
    """Its rows would be refused one by one. A change on the log is applied, as labels may have come in between."""
    model = Fed({"algorithm": "rls", "task": "classification", "features": ["a"]})
    model.learn(np.zeros((2, 1)), [True, 1])
    for label in ("true", "1"):
        assert model.change(labels_due={"after_s": 60, "then": {"label": label}}).refusal is None
        with pytest.raises(Invalid, match="looks in answers like"):
            refuse_on_arrival(model.machine, model.machine.config, ["labels_due"])
    for due in (None, {"after_s": 60, "then": "drop"}, {"after_s": 60, "then": {"label": "2"}}):
        model.change(labels_due=due)
        refuse_on_arrival(model.machine, model.machine.config, ["labels_due"])
