"""A model outside Onepass: its predictions compared with the model's, or judged alone by an observer."""

import numpy as np
import pytest
from msgspec.structs import replace

from core.entry import Challenge, Promote, Reset, ServedPrediction, Switch
from core.features import Feature
from core.metrics.outside import COMPARED_MIN, OutsideScores
from core.model import save
from tests.core.twin import Fed, Twin

N = 900
RNG = np.random.default_rng(4)
X = RNG.normal(size=(N, 2))
LABELS = [("no", "yes")[int(a > 0)] for a in X[:, 0]]
WRONG = RNG.random(N) < 0.3
SERVED = [{"no": "yes", "yes": "no"}[label] if wrong else label for label, wrong in zip(LABELS, WRONG, strict=True)]
NUMBERS = X @ [1.0, 2.0]
SERVED_NUMBERS = NUMBERS + RNG.normal(size=N)


def body(algorithm, task="classification", **more):
    return {"algorithm": algorithm, "task": task, "features": ["a", "b"], **more}


def new(*given, **more):
    return Fed(body(*given, **more))


def teach(model, part, labels, served):
    """Learn rows in one entry; return the outcome."""
    return model.learn(X[part], labels[part], outside=served[part])


def test_the_baseline_is_the_share_of_right_labels():
    """Overall, in the window and fading; an unknown label is wrong, a missing prediction does not count."""
    model, served = new("dfop"), [*SERVED]
    served[10], served[20:30] = "nobody knows it", [None] * 10
    teach(model, slice(0, N), LABELS, served)
    found = model.report
    right = [own == label for own, label in zip(served, LABELS, strict=True) if own is not None]
    weights = 0.999 ** np.arange(N - 1, -1, -1)[[own is not None for own in served]]
    assert np.mean(right) == pytest.approx(found["baselines"]["served"]["accuracy"])
    assert np.mean(right) == pytest.approx(found["window"]["baselines"]["served"]["accuracy"])
    assert weights @ right / weights.sum() == pytest.approx(found["fading"]["baselines"]["served"]["accuracy"])
    assert len(right) - 1 == found["served"]["rows"]  # the model could not predict the first row


def test_numbers_have_squared_and_absolute_errors():
    """The difference is in squared errors, served minus model."""
    model = new("rls", "regression")
    teach(model, slice(0, N), NUMBERS, SERVED_NUMBERS)
    found, errors = model.report, SERVED_NUMBERS - NUMBERS
    shown = {"mse": pytest.approx(np.mean(errors**2)), "mae": pytest.approx(np.abs(errors).mean())}
    assert shown == found["baselines"]["served"]
    assert 0.0 < found["served"]["difference"]["low"] < found["served"]["difference"]["high"]
    assert 4.0 * NUMBERS.var() == pytest.approx(found["served"]["difference"]["bound"], rel=0.2)
    assert "model" == found["served"]["better"]


def test_the_better_model_is_named_with_its_first_row():
    """The model, from a multiple of 100 rows on; the outside model if it is perfect; neither if both are."""
    model = new("dfop")
    teach(model, slice(0, N), LABELS, SERVED)
    found = model.report["served"]
    assert ("model", 0) == (found["better"], found["since"] % 100)
    assert COMPARED_MIN <= found["since"] < N
    assert 0.2 < found["difference"]["mean"] < 0.4

    perfect = new("dfop")
    noise = [("no", "yes")[int(flip)] for flip in RNG.random(N) < 0.5]
    teach(perfect, slice(0, N), noise, noise)
    assert "served" == perfect.report["served"]["better"]

    alike = new("dfop")
    teach(alike, slice(0, N), LABELS, LABELS)
    assert (None, None) == tuple(alike.report["served"][name] for name in ("better", "since"))


def test_costs_count():
    """A model that misses the expensive label is worse, although it is right more often."""
    labels = [("no", "yes")[int(at % 10 == 0)] for at in range(N)]
    model = new("dfop", class_costs={"yes": 20.0})
    teach(model, slice(0, N), labels, ["no"] * N)
    found = model.report
    assert 0.9 == pytest.approx(found["baselines"]["served"]["accuracy"])
    cost = found["overall"]["costs"]["mean"]
    assert 20.0 * 0.1 - cost == pytest.approx(found["served"]["difference"]["mean"], rel=0.05)


def test_only_rows_with_a_served_prediction_are_compared():
    """A model whose rows never had one keeps nothing; a prediction sent with a tracked row counts."""
    plain, model = new("dfop"), new("dfop")
    teach(plain, slice(0, 50), LABELS, [None] * N)
    assert plain.machine.outside is None
    model.learn(X[:50], LABELS[:50])
    assert model.machine.outside is None
    model.learn(X[50:51], LABELS[50:51], served=ServedPrediction("no", outside=LABELS[50]))
    found = model.report
    assert (1, {"accuracy": 1.0}) == (found["served"]["rows"], found["baselines"]["served"])


def test_the_comparison_restarts():
    """After a promotion and a change of costs; a reset removes it."""
    model = new("dfop")
    model.commit(Challenge("other", {"algorithm": "rls", "promote": "never"}, 8))
    teach(model, slice(0, 300), LABELS, SERVED)
    model.commit(Promote("other"))
    found = model.report
    assert (0, None) == (found["served"]["rows"], found["served"]["better"])
    assert found["baselines"]["served"]["accuracy"] > 0.5
    teach(model, slice(300, 600), LABELS, SERVED)
    assert 300 == model.report["served"]["rows"]
    model.change(class_costs={"yes": 3.0})
    assert 0 == model.report["served"]["rows"]
    model.commit(Reset())
    assert "served" not in model.report


def test_late_labels_are_compared_by_what_the_model_predicted_itself():
    """After a promotion: what it predicted as a challenger; rows that only others predicted are not compared."""
    model = new("dfop")
    teach(model, slice(0, 100), LABELS, SERVED)
    model.commit(Challenge("other", {"algorithm": "rls", "promote": "never"}, 8))
    teach(model, slice(100, 200), LABELS, SERVED)
    model.commit(Promote("other"))
    accuracy, own = model.report["baselines"]["served"]["accuracy"], model.machine.own.learner_id
    told = ServedPrediction("no", outside="no")
    for others, compared, mean in (((), 0, None), ((ServedPrediction("yes", by=own),), 1, 1.0)):
        model.learn(X[:1], ["yes"], served=replace(told, challengers=others))
        found = model.report["served"]
        assert (compared, mean) == (found["rows"], found["difference"]["mean"])
    assert 200 / 202 * accuracy == pytest.approx(model.report["baselines"]["served"]["accuracy"])


def test_an_observer_of_numbers_scores_what_was_served():
    """The figures cover only rows with a served prediction, in blocks as row by row, and every state can be saved."""
    served, known = SERVED_NUMBERS.copy(), RNG.random(N) < 0.7
    served[~known] = np.nan
    model, slow = (
        kind(body("observer", "regression", metrics={"window": 100, "fading": 0.99})) for kind in (Fed, Twin)
    )
    teach(model, slice(0, 120), NUMBERS, served)
    for row in range(120):
        teach(slow, slice(row, row + 1), NUMBERS, served)
    assert save.to_bytes(model.machine) == save.to_bytes(slow.machine)
    outcome = teach(model, slice(120, N), NUMBERS, served)
    assert [None if np.isnan(one) else one for one in served[120:]] == outcome.predictions
    assert (known[120:] == [loss is not None for loss in outcome.losses]).all()
    found, errors = model.report, (served - NUMBERS)[known]
    assert (N, N - known.sum()) == (found["rows"], found["unscored"])
    assert N - known.sum() == model.machine.own.answers.metrics.quality().unscored
    assert np.mean(errors**2) == pytest.approx(found["overall"]["mse"])
    assert 1.0 - np.mean(errors**2) / NUMBERS[known].var() == pytest.approx(found["overall"]["r2"])
    late = (served - NUMBERS)[-100:][known[-100:]]
    assert (np.abs(late).mean(), late.mean()) == pytest.approx((found["window"]["mae"], found["window"]["bias"]))
    weights = 0.99 ** np.arange(len(errors))[::-1]
    assert weights @ errors**2 / weights.sum() == pytest.approx(found["fading"]["mse"])
    last = (NUMBERS[:-1] - NUMBERS[1:])[known[1:]]
    assert np.mean(last**2) == pytest.approx(found["baselines"]["last_value"]["mse"])


def test_an_observer_finds_drift_in_the_errors_of_the_outside_model():
    """Rising errors raise an alarm; rows without a prediction do not count as errors."""
    model = new("observer", watch={"error_rate": {"delta": 0.05, "batch_size": 50}})
    worse = [*SERVED[:450], *[{"no": "yes", "yes": "no"}[label] for label in LABELS[450:]]]
    teach(model, slice(0, N), LABELS, worse)
    assert {"error_rate"} == {mark["test"] for mark in model.marks}
    silent = new("observer", watch={"error_rate": {"delta": 0.05, "batch_size": 50}})
    teach(silent, slice(0, N), LABELS, [*LABELS[:450], *[None] * 450])
    assert [] == silent.marks


def test_an_observer_has_no_challengers_and_no_switch():
    """The log refuses both, and an observer cannot be a challenger."""
    model = new("observer")
    segments = Challenge("other", {"algorithm": "rls"}, 8), Switch("begin", (Feature("c"),), "linear")
    assert all("observer" in model.commit(one).refusal for one in segments)
    assert "observer" in new("dfop").commit(Challenge("other", {"algorithm": "observer"}, 8)).refusal


def test_a_fading_mean_that_has_faded_away_is_none():
    """Not the ratio of two sums that are too small to fade on; the next prediction begins it anew."""
    scores = OutsideScores(10, 0.9)
    right, none = np.array([[0.0, 0.0]]), np.full((8000, 2), np.nan)
    scores.absorb(right + 1.0, (np.ones(1), np.zeros(1)))
    scores.absorb(none, (np.full(8000, np.nan), np.zeros(8000)))
    assert np.isnan(scores._losses.means()["fading"]).all()
    scores.absorb(right, (np.zeros(1), np.zeros(1)))
    assert [0.0, 0.0] == scores._losses.means()["fading"].tolist()
