"""What tracked rows keep for their labels, and which model is told of it."""

import numpy as np
import pytest
from msgspec.structs import replace

from core.contract import Prediction
from core.entry import ServedPrediction, Switch
from core.features import Feature
from core.features.lags import BEFORE_ALL
from core.learners.auto import kernels as mixing
from core.learners.auto.mixture import ExpertMixture
from core.model import save
from tests.core.twin import Fed

X = np.random.default_rng(5).normal(size=(80, 2))


def fed(task, algorithm="auto", **more):
    """A model of two features, with small experts."""
    params = {"size": "small"} if algorithm == "auto" else {}
    return Fed({"algorithm": algorithm, "task": task, "features": ["a", "b"], "watch": None, "params": params, **more})


def test_tracked_numbers_are_judged_by_the_awake_experts_own_predictions():
    """The kept numbers are in the order of all experts, of which the first one rests."""
    mixture = ExpertMixture(["one", "two", "three"], regression=True)
    mixture.table[mixing.WAKES, 0] = 9999.0
    mixture._settle()
    out = np.zeros((2, 2, 1))
    told = np.array([[0.0, 100.0, 1.0, 5.0]])
    mixture.learn(out, np.array([1.0]), np.empty(0), told)
    shares = mixture.table[mixing.WEIGHT]
    assert 0.0 == shares[0]
    assert shares[1] > shares[2]
    assert mixture.table[mixing.FIGURE, 1] == 0.0
    assert 16.0 == mixture.table[mixing.FIGURE, 2]


def test_the_pool_of_classes_learns_from_what_is_said_now():
    """What was served judges the experts, but does not move their weights in the pool."""
    found = []
    for kept in ([0.5] * 12, [0.9, 0.1, 0.1, 0.9] * 3, None):
        mixture = ExpertMixture(["one", "two"], regression=False)
        for _ in range(2):
            mixture.add_class()
        mixture.table[mixing.CURVATURE] = mixing.CURVATURE_MAX  # the slopes hardly move
        out = np.array([[[0.2, 0.8]], [[0.6, 0.4]]])
        told = np.empty((0, 0)) if kept is None else np.array([[0.0, 0.0, *kept]])
        mixture.learn(out, np.array([1]), np.empty(0), told)
        found.append((mixture.table[mixing.POOL], mixture.table[mixing.SQUARES], mixture.table[mixing.WEIGHT]))
    for which in range(2):
        assert found[0][which] == pytest.approx(found[2][which], rel=0.01)
        assert found[1][which] == pytest.approx(found[2][which], rel=0.01)
    assert found[0][2] != pytest.approx(found[1][2])
    assert found[0][2] != pytest.approx(found[2][2])


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_resting_expert_is_kept_with_the_mean_of_the_others_or_the_mixture(task):
    """Its columns in what is kept do not shift those of the awake experts."""
    model = fed(task)
    model.learn(X[:40], X[:40, 0] if task == "regression" else [*"ab"] * 20)
    auto = model.machine.own.space_model.own.learner
    team, E = auto.team, len(auto.team.experts)
    every = np.array(model.served(X[40:41]).past)
    team.mixture.table[mixing.WAKES, 1] = 9999.0
    team.mixture._settle()
    team.settle()
    prediction, kept = model.predict(X[40:41]), np.array(model.served(X[40:41]).past)
    if task == "regression":
        assert prediction.value[0] == kept[1]
    else:
        every, kept = (found[3:].reshape(-1, 2) for found in (every, kept))
        assert np.delete(every[:E], 1, axis=0).mean(axis=0) == pytest.approx(kept[1], abs=1.0)
        past = np.hstack([[[0.0]], auto.returned_past([model.served(X[40:41]).past])])
        told = auto._told(team, past)
        assert told[0, 2:].reshape(-1, 2).sum(axis=1) == pytest.approx(1.0, abs=1e-4)
        past[0, 2] += 1.0  # of another team
        assert np.isnan(auto._told(team, past)[0, 1:]).all()
    assert np.delete(every, 1, axis=0).tolist() == np.delete(kept, 1, axis=0).tolist()


def test_numbers_that_were_predicted_before_the_first_row_bring_no_history():
    """The lag columns of such a row are those of no row; others bring their own, and untracked rows none."""
    model = fed("regression")
    auto = model.machine.own.space_model.own.learner
    E, first = len(auto.team.experts), model.served(X[:1]).past
    model.learn(X[:20], X[:20, 0])
    found = auto.returned_past([first, model.served(X[20:21]).past, None, (np.nan,) * len(first)])
    assert E == len(first)
    assert [BEFORE_ALL] == found[0, E : E + 1].tolist()
    assert np.isfinite(found[1]).all()
    assert np.isnan(found[2:]).all()


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_in_an_overlap_only_the_old_model_is_told_what_the_experts_said(task):
    """The new model did not predict the row; it is told the last label alone."""
    model = fed(task)
    y = X[:, 0] if task == "regression" else [*"abba"] * 20
    model.learn(X[:40], y[:40])
    model.commit(Switch("begin", (Feature("b"), Feature("c")), "linear"))
    space, states = model.machine.prediction_schema, []
    served, before = model.served(X[40:41]), save.to_bytes(model.machine)
    wide = np.c_[X, X[::-1, :1]]
    for past in (served.past, None):
        model.machine, _ = save.from_bytes(before)
        model.learn(wide[41:61], y[41:61])
        model.learn(wide[40:41], y[40:41], served=replace(served, past=past))
        now = model.machine.pipeline
        states.append([repr(one.own.learner.to_arrays()) for one in (now.old, now.new)])
    assert space.id != model.machine.feedback_schema.id
    assert [False, True] == [one == other for one, other in zip(*states, strict=True)]


@pytest.mark.parametrize("algorithm", ["auto", "dfop"])
def test_after_a_change_of_features_no_one_learner_remembers(algorithm):
    """Several experts predict; the former model still reads what rows of its space were kept with."""
    model = fed("regression", algorithm)
    model.learn(X[:40], X[:40, 0])
    old, served = model.machine.prediction_schema, model.served(X[40:41])
    assert served.past
    model.commit(Switch("begin", (Feature("b"), Feature("c")), "linear"))
    union = model.machine.feedback_schema
    model.learn(np.c_[X[:30], X[:30, :1]], X[:30, 0])
    model.commit(Switch("complete"))
    assert "ensemble" == model.machine.phase
    assert model.machine.own.switching.in_force.remembering is None
    assert model.served(X[41:42]).past is None
    routes = model.machine.own.switching.routes
    assert routes[union.id].returned_past([served.past]) is None
    assert np.isfinite(routes[old.id].returned_past([served.past])).all()
    assert model.learn(np.c_[X[40:41], X[40:41, :1]], X[40:41, 0], union, served=served).learned


def test_the_last_label_is_the_one_known_when_a_row_was_predicted():
    """Before the first row there is none, also if labels are declared."""
    model = fed("classification", labels=["x", "y"])
    first = model.served(X[:1])
    model.learn(X[:3], ["y", "x", "y"])
    answers, later = model.machine.own.answers, model.served(X[:1])
    model.learn(X[:1], ["x"])
    assert ("x", None, "y") == (first.prediction, first.baselines[0], later.baselines[0])
    np.testing.assert_array_equal([0.0, 1.0, np.nan], answers.last_labels([first, later, None]))


def test_the_last_number_is_the_one_known_when_a_row_was_predicted():
    """0 before the first row; NaN for a row that was not tracked, or by an early version."""
    model = fed("regression")
    first = model.served(X[:1])
    model.learn(X[:3], np.array([1.0, 2.0, 7.0]))
    answers, later = model.machine.own.answers, model.served(X[:1])
    told = [first, later, None, ServedPrediction(0.0)]
    np.testing.assert_array_equal([0.0, 7.0, np.nan, np.nan], answers.last_labels(told))
    auto = model.machine.own.space_model.own.learner
    before = auto.team.mixture.table.copy()
    model.learn(X[:1], np.array([7.0]), served=later)
    at = auto.team.mixture.names.index("last_value")
    assert auto.team.mixture.table[mixing.FIGURE, at] < before[mixing.FIGURE, at]


@pytest.mark.parametrize("said", ["a", "b"])
def test_a_new_class_follows_the_label_that_was_the_last_when_its_row_was_predicted(said):
    """The row of a new class is learned like any other tracked row."""
    model = fed("classification")
    model.learn(X[:21], [*"ab"] * 10 + [said])
    served = model.served(X[21:22])
    model.learn(X[21:23], ["b", "a"])
    model.learn(X[21:22], ["c"], served=served)
    labels = model.machine.own.space_model.own.learner.team.mixture.labels
    assert [1.0 * (said == "a"), 1.0 * (said == "b"), 0.0] == labels[0, 1:, 2].tolist()


def test_many_rows_that_are_predicted_together_keep_nothing():
    """What is kept takes memory for each row until the prediction is answered."""
    random = {"params": {"random_features": 4}}
    for algorithm, more in (("dfop", {}), ("dfop", random), ("dynamic_odm", {}), ("dynamic_odm", random), ("auto", {})):
        model = fed("classification", algorithm, **more)
        model.learn(X[:4], [*"abab"])
        few, many = (model.machine.own.space_model.predict(np.ones((rows, 2))) for rows in (1100, 10_001))
        assert isinstance(few, Prediction)
        assert (1100, None) == (len(few.experts), many.experts)
