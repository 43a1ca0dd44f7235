"""Challengers learn exactly what the model learns; one of them may become the model."""

from functools import partial

import numpy as np
import pytest
from msgspec.structs import replace

from core.config import Config
from core.entry import Challenge, Overlap, Promote, Reset, Restore, ServedPrediction, Switch, Withdraw
from core.features import Schema, parse_features
from core.features.feature_space import union
from core.model import Model, plans, save
from core.problems import Conflict, Invalid
from tests.core.twin import Twin

MODEL = {"algorithm": "rls", "task": "classification", "features": ["a", "b"], "on_drift": "reset"}
PRICES = {"algorithm": "rls", "task": "regression", "features": ["a", "b"]}
DFOP = {"algorithm": "dfop"}
MOST = 8


def stream(rows, seed=0, classes="uvw"):
    """Rows whose boundary flips in the middle; the third class comes late."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 2))
    side = np.where(np.arange(rows) < rows // 2, 1.0, -1.0) * X[:, 0] > 0
    y = [classes[int(one)] for one in side]
    y[rows // 3 :: 40] = [classes[2]] * len(y[rows // 3 :: 40])
    return X, y


def prices(rows, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 2))
    return X, X @ [1.0, -2.0] * np.where(np.arange(rows) < rows // 2, 1.0, -1.0) + 0.1 * rng.normal(size=rows)


def rotating(rows, regression):
    """Rows whose boundary, or plane, always rotates: a learner that does not forget learns nothing."""
    rng = np.random.default_rng(3)
    X, angle = rng.normal(size=(rows, 2)), np.arange(rows) / 100
    score = X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle)
    return (X, score) if regression else (X, ["uv"[int(one > 0)] for one in score])


def challenge(model, name, body):
    return model.commit(plans.plan_challenge(model.machine, name, body, MOST)[0])


def numbers(learner):
    """The bits of what a learner has learned and of its scores, without row numbers."""
    held = learner.parts()
    return {name: {key: part.tobytes() for key, part in held[name].to_arrays()[0].items()} for name in held}


@pytest.mark.parametrize("body", [{"algorithm": "dfop"}, {"algorithm": "vigod", "params": {"batch_size": 50}}])
def test_a_challenger_learns_as_a_model_would(body):
    """From its first row on it equals a model created then, and its model equals one without a challenger."""
    model, alone = Twin({**MODEL, "labels": ["u", "v", "w"]}), Twin({**MODEL, "labels": ["u", "v", "w"]})
    late = Twin({**MODEL, **body, "labels": ["u", "v", "w"], "on_drift": "report"})
    X, y = stream(600)
    for twin in (model, alone):
        twin.learn(X[:100], y[:100])
    challenge(model, "other", body)
    for label in model.machine.labels.labels:
        late.machine.own.add_class(label)
    for start in range(100, 600, 50):
        part = slice(start, start + 50)
        answers = [repr(twin.learn(X[part], y[part]).predictions) for twin in (model, alone, late)]
        assert answers[0] == answers[1]
    member = model.machine.challengers["other"].parts
    assert (600, 100) == (member.rows, member.rows_before_start)
    assert numbers(late.machine.own) == numbers(member)
    assert numbers(alone.machine.own) == numbers(model.machine.own)


def test_a_promotion_keeps_rows_events_and_marks():
    """The former model becomes "previous", replacing an older one; promoting it swaps the two; differences restart."""
    model = Twin(MODEL)
    X, y = stream(400)
    model.learn(X[:100], y[:100])
    challenge(model, "fast", DFOP)
    challenge(model, "other", {"algorithm": "vigod"})
    model.learn(X[100:300], y[100:300])
    machine = model.machine
    rls, dfop, events = numbers(machine.own), numbers(machine.challengers["fast"].parts), machine.outbox.total
    marks = model.report["marks"]
    assert 200 == machine.challengers["other"].difference.rows
    model.commit(Promote("fast"))
    own = machine.own
    assert (300, 100, "dfop", "2.0") == (machine.rows, own.rows_before_start, own.config.algorithm_id, own.learner_id)
    assert machine.config.on_drift == "report"
    assert ["other", "previous"] == [*machine.challengers]
    previous = machine.challengers["previous"]
    assert ("never", 300, "") == (previous.promote, previous.parts.rows, previous.parts.learner_id)
    assert {0} == {one.difference.rows for one in machine.challengers.values()}
    assert dfop.keys() == numbers(machine.own).keys()
    assert {**dfop, "metrics": 0} == {**numbers(machine.own), "metrics": 0}
    found = model.report
    promotion = {"row": 300, "kind": "promotion", "challenger": "fast", "algorithm": "dfop", "by": "request"}
    assert [*marks, promotion] == found["marks"]
    assert (300, 110) == (found["rows"], found["history"][0]["row"])
    assert events == machine.outbox.total
    assert 350 == model.learn(X[300:350], y[300:350]).rows
    model.commit(Promote("other"))
    assert ["previous"] == [*machine.challengers]
    model.commit(Promote("previous"))
    assert ("dfop", "vigod") == tuple(config.algorithm_id for config in machine.configs)
    assert rls.keys() == numbers(machine.own).keys()


def test_swapping_twice_restores_everything():
    """Except for the marks and the differences, which restart."""
    model = Twin(PRICES)
    X, y = prices(100)
    challenge(model, "fast", DFOP)
    model.learn(X, y)
    before = numbers(model.machine.own)
    model.commit(Promote("fast"))
    model.commit(Promote("previous"))
    assert before == numbers(model.machine.own)
    assert ("", "1.0") == (model.machine.own.learner_id, model.machine.challengers["previous"].parts.learner_id)


def test_every_step_of_the_model_applies_to_its_challengers():
    """Through a change of features, new settings and a reset each of them is saved, loaded and goes on."""
    model = Twin({**MODEL, "watch": None, "on_drift": "report"})
    X, y = stream(300)
    challenge(model, "fast", DFOP)
    model.learn(X[:100], y[:100])
    model.change(missing="mean", watch={"error_rate": {}})
    member = model.machine.challengers["fast"].parts
    assert ("mean", {"class_mean", "error_rate"}) == (member.config.missing, {*member.config.watch.tests})
    model.learn(np.where(X[100:110] > 1, np.nan, X[100:110]), y[100:110])
    following = parse_features(["b", "c"])
    model.commit(Switch("begin", following, "linear"))
    with pytest.raises(Conflict, match="under way"):
        plans.plan_challenge(model.machine, "late", {"algorithm": "rls"}, MOST)
    both = union(model.machine.prediction_schema, following)
    wide = np.hstack([X, X[:, :1] * 2])
    assert both == model.machine.feedback_schema == member.switching.now.feedback_schema
    model.learn(wide[110:160], y[110:160])
    model.commit(Overlap(both.id, wide[160:170]))
    assert (60, 60) == (model.machine.own.switching.overlap_rows, member.switching.overlap_rows)
    model.commit(Switch("complete"))
    challenge(model, "late", {"algorithm": "vigod"})
    model.learn(wide[170:250, 1:], y[170:250])
    assert ["ensemble", "ensemble", "steady"] == [one.switching.now.phase for one in model.machine.learners]
    model.learn(wide[250:260], y[250:260], both)  # sent before the change was complete
    model.commit(Promote("late"))
    model.commit(Reset())
    assert {(0, 0, Schema(following).id)} == {
        (one.rows, one.rows_before_start, one.switching.now.feedback_schema.id) for one in model.machine.learners
    }
    model.learn(wide[260:300, 1:], y[260:300])
    assert 39 == model.machine.challengers["fast"].difference.rows  # the first row cannot be predicted


def test_a_snapshot_restores_challengers_and_learner():
    """Also one from before a promotion; an imported state must match the current model."""
    model = Twin(MODEL)
    X, y = stream(200)
    challenge(model, "fast", DFOP)
    model.learn(X, y)
    kept = save.to_bytes(model.machine)
    model.commit(Promote("fast"))
    model.commit(Withdraw("previous"))
    assert model.commit(Restore(kept, "import")).refusal is not None
    model.commit(Restore(kept, "restore"))
    (name, fast), algorithm = *model.machine.challengers.items(), model.machine.config.algorithm_id
    assert ("rls", "fast", "1.0") == (algorithm, name, fast.parts.learner_id)
    model.commit(Restore(kept, "import"))
    assert ["7.0.0", "7.0.1"] == [one.learner_id for one in model.machine.learners]
    copied, _ = save.from_bytes(save.to_bytes(model.machine, copied=True))
    assert ["", "0.1"] == [one.learner_id for one in copied.learners]
    assert model.machine.challengers["fast"].difference.report() == copied.challengers["fast"].difference.report()


def test_an_import_of_challengers_gives_them_learner_ids_of_this_log():
    """Also where the model had none: what waits here was predicted by its own learner, not by one of another log."""
    source, model = Twin(MODEL), Twin(MODEL)
    challenge(source, "fast", DFOP)
    for twin in (source, model):
        twin.learn(*stream(50))
    assert model.commit(Restore(save.to_bytes(source.machine), "import")).refusal is None
    assert ["2.0.0", "2.0.1"] == [one.learner_id for one in model.machine.learners]


def test_a_tracked_row_is_compared_by_what_both_predicted_then():
    """Each learner is scored by its own prediction, also after a promotion; the answer is what the client got then."""
    model = Twin(PRICES)
    X, y = prices(60)
    challenge(model, "fast", DFOP)
    model.learn(X[:40], y[:40])
    machine = model.machine
    told = replace(model.served(X[40:41]), challengers=(ServedPrediction(5.0, by="1.0"),))
    assert "" == told.by
    challenge(model, "late", {"algorithm": "fesl_c"})
    model.commit(Promote("fast"))
    model.learn(X[41:], y[41:])
    before = [(one.metrics.rows, one.metrics.series[0, 2]) for one in machine.learners]
    learned = model.learn(X[40:41], y[40:41], served=told)
    assert learned.refusal is None
    assert [told.prediction] == learned.predictions
    assert [(told.prediction - y[40]) ** 2] == learned.losses
    errors = [
        one.metrics.series[0, 2] * (rows + 1) - mae * rows
        for one, (rows, mae) in zip(machine.learners, before, strict=True)
    ]
    assert [abs(5.0 - y[40]), abs(told.prediction - y[40])] == pytest.approx([errors[0], errors[2]])
    assert {"late": 9, "previous": 10} == {name: one.difference.rows for name, one in machine.challengers.items()}


@pytest.mark.parametrize("later", [[], [Promote("previous")]])
def test_a_tracked_row_is_scored_by_what_was_returned_after_an_import(later):
    """The imported learner made none of the predictions that wait, whatever the learners of both logs are called."""
    model = Twin(PRICES)
    X, y = prices(60)
    challenge(model, "fast", DFOP)
    model.learn(X[:40], y[:40])
    model.commit(Promote("fast"))
    told = replace(model.served(X[40:41]), challengers=(ServedPrediction(5.0),))
    assert "1.0" == told.by
    for segment in later:
        model.commit(segment)
    source = Twin(model.machine.config.to_json())
    source.learn(X[:30], y[:30])
    assert model.commit(Restore(save.to_bytes(source.machine), "import")).refusal is None
    metrics = model.machine.own.metrics
    before = metrics.series[0, 2]
    assert [told.prediction] == model.learn(X[40:41], y[40:41], served=told).predictions
    assert abs(told.prediction - y[40]) == pytest.approx(metrics.series[0, 2] * 31 - before * 30)


def test_an_impossible_request_is_refused_and_changes_nothing():
    """The planning refuses it, and so does apply if an earlier entry has made it impossible."""
    model = Twin(MODEL)
    plan = partial(plans.plan_challenge, model.machine)
    with pytest.raises(Invalid, match="vigo does not support regression"):
        plans.plan_challenge(Model.first(Config.parse(PRICES)), "x", {"algorithm": "vigo"}, MOST)
    sparse = Model.first(Config.parse({"algorithm": "sparse_dfop", "task": "classification", "seed": 3}))
    for body in ({}, DFOP, {"algorithm": "sparse_dfop", "seed": 4}):
        with pytest.raises(Invalid):
            plans.plan_challenge(sparse, "x", body, MOST)
    assert 3 == plans.plan_challenge(sparse, "x", {"algorithm": "sparse_dfop"}, MOST)[1].seed
    assert plan("x", {**DFOP, "task": "classification", "features": ["a", "b"]}, MOST) == plan("x", DFOP, MOST)
    asked, _ = plan("x", DFOP, 1)
    model.commit(asked)
    assert plan("x", DFOP, 1)[0] is None
    model.commit(plan("x", {**DFOP, "promote": "auto"}, 1)[0])
    assert "auto" == model.machine.challengers["x"].promote
    state = save.to_bytes(model.machine)
    for segment in (
        Challenge("x", {"algorithm": "rls", "params": {}}, 8),
        Challenge("y", DFOP, 1),
        Withdraw("y"),
        Promote("y"),
    ):
        assert model.commit(segment).refusal is not None
        assert state == save.to_bytes(model.machine)
    model.commit(asked)
    model.commit(Withdraw("x"))
    assert save.to_bytes(Model.first(Config.parse(MODEL))) == save.to_bytes(model.machine)


def test_weights_and_discounts_only_reach_learners_that_accept_them():
    """A challenger that does not accept them learns the rows as if they had none, also once it is the model."""
    model, plain = Twin({**MODEL, "algorithm": "gdfop"}), Twin({**MODEL, "algorithm": "gdfop"})
    X, y = stream(60)
    for twin in (model, plain):
        challenge(twin, "vigo", {"algorithm": "vigo"})
    given = {"weights": np.full(30, 2.0), "discounts": np.full(30, 0.9)}
    model.learn(X[:30], y[:30], **given)
    plain.learn(X[:30], y[:30])
    assert numbers(plain.machine.own) != numbers(model.machine.own)
    for twin in (model, plain):
        twin.commit(Promote("vigo"))
    assert numbers(plain.machine.own) == numbers(model.machine.own)
    model.learn(X[30:], y[30:], **given)
    plain.learn(X[30:], y[30:])
    assert numbers(plain.machine.own) == numbers(model.machine.own)
