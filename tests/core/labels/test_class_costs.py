"""A rare class is found once missing it costs more: one line of configuration, whatever the learner."""

import numpy as np
import pytest

from core.drift.outbox import NO_ALARM
from tests.benchmarks.streams.generators import fraud
from tests.core.twin import Fed

LABELS = ["ok", "fraud"]
X, y = fraud()
SETTLED = slice(2000, None)


def said(algorithm, **more):
    """Whether each a-priori answer to the fraud stream is "fraud", the outcome, and the model."""
    names = [f"x{column}" for column in range(X.shape[1])]
    body = {"algorithm": algorithm, "task": "classification", "features": names, "labels": LABELS, **more}
    model = Fed(body)
    outcome = model.learn(X, [LABELS[k] for k in y])
    return np.array([label == "fraud" for label in outcome.predictions]), outcome, model


def rates(found):
    """Recall and precision after the model has settled."""
    hits = (found & (y == 1))[SETTLED].sum()
    return hits / (y == 1)[SETTLED].sum(), hits / max(found[SETTLED].sum(), 1)


@pytest.mark.parametrize("algorithm", ["dfop", "rls", "dynamic_odm", "vigo", "fesl_c"])
def test_one_line_of_configuration_finds_half_of_the_frauds(algorithm):
    """Every family reaches a recall of .5 at three times the precision of chance."""
    found, outcome, model = said(algorithm, class_costs={"fraud": 40})
    recall, precision = rates(found)
    assert recall >= 0.5
    assert precision >= 3 * y.mean()
    assert np.array_equal(outcome.losses, (found != (y == 1)).astype(float))
    assert np.isclose(1 - np.mean(outcome.losses), model.machine.own.metrics.report()["overall"]["accuracy"])


@pytest.mark.parametrize("on_drift", ["report", "reset"])
def test_changed_costs_are_no_drift(on_drift):
    """New costs change the errors: the error test starts over with them instead of comparing across the change."""
    rng = np.random.default_rng(3)
    body = {"algorithm": "dfop", "task": "classification", "features": ["a"], "labels": ["ok", "fail"]}
    model = Fed({**body, "watch": {"error_rate": {}}, "on_drift": on_drift})

    def learn(rows, sign=1.0):
        X = rng.normal(size=(rows, 1))
        fails = sign * X[:, 0] + 0.5 * rng.normal(size=rows) > 1.8
        model.learn(X, np.where(fails, "fail", "ok").tolist())

    def wrong_of_ok():
        return 1.0 - model.report["window"]["per_class"]["ok"]["recall"]

    learn(4000)
    before = wrong_of_ok()
    model.change(class_costs={"fail": 20})
    learn(500)
    assert wrong_of_ok() > 5 * before
    assert 0 == model.machine.outbox.total
    learn(1000, sign=-1.0)
    (event,) = model.machine.outbox.after(NO_ALARM)
    assert event.rows_before + event.rows_after <= event.row - 4000


@pytest.mark.parametrize("algorithm", ["dfop", "gdfop", "rls", "odm", "vigo", "fesl_c"])
@pytest.mark.parametrize("costs", [None, {"fraud": 40}])
def test_the_paper_s_variant_answers_with_the_learner_s_class(algorithm, costs):
    """Regardless of costs and calibration; learning a block, learning row by row and predicting agree."""
    names = [f"x{column}" for column in range(X.shape[1])]
    params = {"variant": "paper"} | ({"scaling": "none"} if algorithm != "vigo" else {})
    body = {"algorithm": algorithm, "task": "classification", "features": names, "labels": LABELS, "params": params}
    whole, single = (Fed(body | ({"class_costs": costs} if costs else {})) for _ in range(2))
    config, predicted, own = whole.machine.config, [], []
    learner = config.algorithm.build(config.spec(X.shape[1]))
    classes = dict[int, int]()
    for at in range(400, 700):
        row, label = np.ascontiguousarray(X[at : at + 1]), int(y[at])
        if classes:
            (value,) = learner.predict(row).value
            own.append(LABELS[[*classes][value]])
            predicted += single.machine.own.answers.named(single.predict(row).value)
        if label not in classes:
            classes[label] = len(classes)
            learner.add_class()
        learner.learn(row, np.array([classes[label]]))
        single.learn(row, [LABELS[label]])
    block = whole.learn(X[400:700], [LABELS[k] for k in y[400:700]])
    assert own == predicted == block.predictions[1:]


def test_the_smallest_costs_give_the_answers_of_equal_ones():
    """Costs whose products with probabilities no number can hold are compared all the same."""
    algorithm, small = "dfop", 5e-324
    tiny, equal = (said(algorithm, class_costs={"ok": cost, "fraud": cost})[1] for cost in (small, 2.0))
    assert equal.predictions == tiny.predictions
    ratio, far = (said(algorithm, class_costs={"ok": cost, "fraud": 40 * cost})[1] for cost in (1e-322, 1.0))
    assert far.predictions == ratio.predictions
    assert {"fraud"} == {*said(algorithm, class_costs={"ok": small, "fraud": 1e308})[1].predictions}
