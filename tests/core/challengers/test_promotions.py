"""When a challenger becomes the model: judged by the cost of errors, on request once shown to be better, or forced."""

import numpy as np
import pytest

from core.entry import Entry, Promote, Reset, Restore, Rows, Switch
from core.features import parse_features
from core.model import Challenger, plans, read, save
from core.model.apply import apply
from core.model.learn import TEST_EVERY, promotable
from core.model.plans import ASKED_ROWS_MIN, PREVIOUS
from tests.core.challengers.test_challengers import DFOP, MODEL, PRICES, challenge, numbers, rotating
from tests.core.twin import Twin

FEATURES = ["a", "b", "c", "d"]
COSTLY = {"algorithm": "dfop", "task": "classification", "features": FEATURES, "labels": ["usual", "rare"]}
COSTS = {"class_costs": {"rare": 3}}
SLOW = {"algorithm": "fesl_c", "params": {"learning_rate": 1e-9}}
IDLE = {**SLOW, "promote": "auto"}


def rare_rows(rows, seed=2):
    """Rows of which one in nine belongs to a class that can be recognised in part."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4))
    rare = rng.random(rows) < 1.0 / (1.0 + np.exp(2.6 - X @ [1.0, 0.6, -0.4, 0.0]))
    return X, ["rare" if one else "usual" for one in rare]


def learn(model, X, y, step=250):
    """Learn rows in entries of ``step`` rows; return the kinds of the model's marks."""
    for start in range(0, len(X), step):
        model.learn(X[start : start + step], y[start : start + step])
    return [mark["kind"] for mark in model.marks]


def cost(learner):
    return read.learner_metrics(learner)["overall"]["costs"]["mean"]


def test_with_class_costs_errors_are_compared_by_their_cost():
    """A learner that learns nothing is wrong less often but costs more: it is not promoted."""
    X, y = rare_rows(3000)
    found = {}
    for name, costs in (("costs", COSTS), ("none", {})):
        model = Twin({**COSTLY, **costs})
        challenge(model, "idle", IDLE)
        found[name] = model
        assert "promotion" not in learn(model, X, y)
    machine = found["costs"].machine
    one = machine.challengers["idle"]
    assert cost(machine.own) < cost(one.parts)
    report = plans.difference_report(machine, "idle")
    assert cost(machine.own) - cost(one.parts) == pytest.approx(report["mean"])
    assert report["low"] < report["mean"] < min(0.0, report["high"])
    without = found["none"].machine
    wrong = [1.0 - read.learner_metrics(one)["overall"]["accuracy"] for one in without.learners]
    assert wrong[0] - wrong[1] == pytest.approx(plans.difference_report(without, "idle")["mean"])


@pytest.mark.parametrize(("labels", "costs", "most"), [(None, {"rare": 0.2}, 1.0), (["rare", "usual"], {}, 1.0)])
def test_the_unit_is_the_most_expensive_possible_error(labels, costs, most):
    """Labels without a cost count if they may still come; if all labels have costs, the largest counts."""
    body = {key: value for key, value in COSTLY.items() if key != "labels"} | {"labels": labels, "class_costs": costs}
    assert most == Twin(body).machine.config.cost_max
    named = {**COSTLY, "class_costs": {"rare": 0.2, "usual": 0.1}}
    assert 0.2 == Twin(named).machine.config.cost_max


def test_changed_costs_restart_the_differences():
    """Earlier sums are of other losses; other settings, and the same costs again, keep them."""
    model = Twin({**COSTLY, **COSTS})
    challenge(model, "idle", {**IDLE, "promote": "never"})
    X, y = rare_rows(300)
    learn(model, X, y)

    def rows():
        return model.machine.challengers["idle"].difference.rows

    kept = save.to_bytes(model.machine)
    for change in ({"missing": "mean"}, COSTS, {"tags": {"a": "b"}}):
        model.change(**change)
        assert 300 == rows()
    for change in ({"class_costs": {"rare": 4}}, {"class_costs": None}):
        model.change(**change)
        assert 0 == rows()
        learn(model, X[:20], y[:20])
        assert 20 == rows()
    model.commit(Restore(kept, "restore"))
    assert (300, COSTS["class_costs"]) == (rows(), model.machine.config.class_costs)
    model.change(class_costs={"usual": 0.5, "rare": 0.9})
    learn(model, X[:20], y[:20])
    model.change(add_labels=["third"])  # its cost is 1, more than the others'
    assert 0 == rows()
    model.commit(Reset())
    assert 0 == rows()


def test_a_request_is_refused_until_the_challenger_is_shown_to_be_better():
    """The refusal reports the comparison; force promotes, as do entries of earlier versions; "previous" needs none."""
    model = Twin({**PRICES, "on_drift": "report"})
    challenge(model, "fast", DFOP)
    X, y = rotating(2000, regression=True)
    told = []
    for stop in (0, ASKED_ROWS_MIN - 50, 1000):
        learn(model, X[model.machine.rows : stop], y[model.machine.rows : stop], 50)
        before = save.to_bytes(model.machine)
        if stop == 1000:
            break
        refused = model.commit(Promote("fast", force=False))
        assert refused.refusal is not None
        assert before == save.to_bytes(model.machine)
        told.append(refused.refusal)
    assert "0 rows were compared;" in told[0]
    report = plans.difference_report(model.machine, "fast")
    assert f"{ASKED_ROWS_MIN - 60} rows were compared; difference" in told[1]  # comparison starts after ten labels
    assert all('"force": true' in one and f"{ASKED_ROWS_MIN} rows" in one for one in told)
    assert 0 < report["low"]
    model.commit(Promote("fast", force=False))
    assert "dfop" == model.machine.config.algorithm_id
    model.commit(Promote(PREVIOUS, force=False))
    assert "rls" == model.machine.config.algorithm_id
    model.commit(Promote(PREVIOUS))
    learn(model, X[1000:], y[1000:])
    challenge(model, "other", {"algorithm": "fesl_c"})
    assert model.commit(Promote("other", force=False)).refusal is not None
    model.commit(Promote("other"))
    assert "fesl_c" == model.machine.config.algorithm_id
    assert 0 == read.info(model.machine)["learner_rows"]
    learn(model, X[:5], y[:5])
    assert (5, 2005) == (read.info(model.machine)["learner_rows"], model.machine.rows)


def test_an_automatic_promotion_keeps_the_former_model():
    """It becomes "previous" with all it had learned; with more challengers a promotion takes more rows."""
    X, y = rotating(3000, regression=True)
    promoted = []
    for beside in (0, 6):
        model = Twin({**PRICES, "on_drift": "report"})
        challenge(model, "fast", {**DFOP, "promote": "auto"})
        for at in range(beside):
            challenge(model, f"other{at}", {"algorithm": "rls"})
        alone = Twin({**PRICES, "on_drift": "report"})
        while PREVIOUS not in model.machine.challengers:
            part = slice(model.machine.rows, model.machine.rows + 100)
            for one in (model, alone):
                one.learn(X[part], y[part])
        promoted.append(model.machine.rows)
        (mark,) = [mark for mark in model.marks if mark["kind"] == "promotion"]
        assert {"challenger": "fast", "algorithm": "dfop", "by": "auto"}.items() < mark.items()
        assert 0 == mark["row"] % TEST_EVERY
        assert [*(f"other{at}" for at in range(beside)), PREVIOUS] == [*model.machine.challengers]
        former, own = (numbers(one) for one in (model.machine.challengers[PREVIOUS].parts, alone.machine.own))
        assert {**own, "metrics": 0} == {**former, "metrics": 0}
        assert "never" == model.machine.challengers[PREVIOUS].promote
    assert promoted[0] <= promoted[1]


def test_late_labels_are_answered_alike_whether_or_not_they_come_with_the_row_that_promotes():
    """A label unknown at the prediction gets a share that falls with the rows of the learner of the moment."""
    X, y = rotating(1400, regression=False)
    together, apart = (Twin({**MODEL, "on_drift": "report"}) for _ in range(2))
    for model in (together, apart):
        model.learn(X[:150], y[:150])
        challenge(model, "fast", {**DFOP, "promote": "auto"})
        model.learn(X[150:1100], y[150:1100])
        _, told = read.predict_to_keep(model.machine, X[1100:])
        model.learn(X[:1], ["w"])
    space = together.machine.feedback_schema.id
    rows = [Rows(space, None, X[at : at + 1], ["w"], served=one) for at, one in enumerate(told, 1100)]
    answered = apply(together.machine, Entry(9, 0, tuple(rows)))
    assert PREVIOUS in together.machine.challengers
    assert answered == [apart.commit(one) for one in rows]


def test_a_challenger_with_larger_squared_errors_is_not_promoted_automatically():
    """One row in a hundred is off by twenty deviations: 17 times the error, which clipped errors hardly show."""
    rng = np.random.default_rng(7)
    y, truth = rng.normal(size=(2, 5000))
    off = np.where(np.arange(5000) % 100 == 50, 20.0 * y.std(), 0.0)
    first, second = 0.25 * y**2, np.maximum(0.16 * truth**2, off**2)
    assert 17.0 == pytest.approx(second.mean() / first.mean(), abs=1.0)
    one = Challenger(Twin(PRICES).machine, "auto")
    one.difference.absorb(first, second, y)
    assert one.difference.interval()[0] > 0
    assert promotable({"wild": one}) is None
    tame = Challenger(one.parts, "auto")
    tame.difference.absorb(first, 0.16 * truth**2, y)
    assert "tame" == promotable({"wild": one, "tame": tame})


def test_rows_of_an_overlap_are_mapped_even_if_one_of_them_promotes():
    """They also train the mapping of the new model's own learner, and the outcome says so."""
    model = Twin({**SLOW, "task": "regression", "features": ["a", "b"]})
    challenge(model, "dfop", {"algorithm": "dfop", "promote": "auto"})
    model.commit(Switch("begin", parse_features(["c", "d"]), "linear"))
    X = np.random.default_rng(0).normal(size=(1200, 4))
    outcome = model.learn(X, X @ [1.0, -2.0, 0.1, 0.1])
    assert "promotion" in [mark["kind"] for mark in model.marks]
    assert "overlap" == model.machine.phase
    assert outcome.mapped


@pytest.mark.parametrize("aborted", [False, True])
def test_tracked_rows_of_features_from_before_a_challenger_are_scored_after_its_promotion(aborted):
    """It never had these features: the label counts for the metrics, and is not refused."""
    model, (X, y) = Twin({**COSTLY, "features": ["a", "b"]}), (np.eye(2), ["usual", "rare"])
    model.learn(X, y)
    old, served = model.machine.prediction_schema, model.served(X[:1])
    model.commit(Switch("begin", parse_features(["b", "c"]), "linear"))
    union = model.machine.feedback_schema
    model.commit(Switch("complete"))
    if aborted:
        model.commit(Switch("begin", parse_features(["d"]), "linear"))
        model.commit(Switch("abort"))
    challenge(model, "other", {"algorithm": "dfop"})
    model.commit(Promote("other", force=True))
    for space, learned in ((old, False), (union, not aborted)):
        outcome = model.learn(np.ones((1, space.raw_width)), ["rare"], space, served=served)
        assert (None, learned, [served.prediction]) == (outcome.refusal, outcome.learned, outcome.predictions)
