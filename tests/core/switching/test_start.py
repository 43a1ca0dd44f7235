"""The start after a change of features: ridge and quality of the mapping, and which model first predictions rely on."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.entry import Overlap, Switch
from core.features import parse_features
from core.model import save
from core.switching import ridge
from core.switching.linear_mapping import LinearMapping
from core.switching.ridge import RIDGE, RIDGES, chosen
from tests.core.switching.test_linear_mapping import mapping_of
from tests.core.twin import Fed


@pytest.mark.parametrize("rows", [40, 70, 200])
def test_the_reported_error_is_that_of_the_current_mapping(rows):
    """With an exact map of 12 columns the reported error is at most twice the error on later rows."""
    rng = np.random.default_rng(0)
    X1, A = rng.normal(size=(rows + 500, 12)), rng.normal(size=(12, 12))
    X2 = X1 @ A
    mapping = mapping_of(LinearMapping, 12, 12)
    mapping.learn(X2[:rows], X1[:rows])
    mapping.solve()
    actual = ((mapping.recover(X2[rows:]) - X1[rows:]) ** 2).mean() / (X1[rows:] ** 2).mean()
    assert actual / 2 <= mapping.error <= 2 * actual + 0.01


def begun(algorithm, task, truth, width=1, rows=200, **more):
    """A model with ``rows`` rows of ``width`` columns, in an overlap with columns that are a linear image of them."""
    rng = np.random.default_rng(3)
    model = Fed({"algorithm": algorithm, "task": task, "features": [f"a{j}" for j in range(width)], **more})
    A = rng.normal(size=(width, width)) * 3.0

    def feed(count, labelled=True):
        a = rng.normal(size=(count, width))
        b = a @ A + 1.0
        X = {"steady": a, "overlap": np.hstack([a, b]), "ensemble": b}[model.machine.phase]
        if labelled:
            return model.learn(X, truth(a[:, 0]))
        return model.commit(Overlap(model.machine.feedback_schema.id, X))

    feed(rows)
    begin(model, *(f"b{j}" for j in range(width)))
    return model, feed


def begin(model, *names):
    model.commit(Switch("begin", parse_features(names)))


def weights(model):
    return {expert["expert"]: expert["weight"] for expert in model.machine.own.switching.report()}


def numbers(a):
    return 2 * a


def signs(a):
    return ["up" if x > 0 else "down" for x in a]


@pytest.mark.parametrize(("task", "truth"), [("regression", numbers), ("classification", signs)])
@pytest.mark.parametrize("algorithm", ["rls", "dfop", "fesl_c"])
def test_a_new_model_without_a_labelled_row_has_no_vote(algorithm, task, truth):
    """After an overlap of unlabelled rows the old model predicts as before; with labels the new one gets its vote.

    At the first one, or in a regression once it has predicted a row well.
    """
    model, feed = begun(algorithm, task, truth)
    feed(200, labelled=False)
    old = model.machine.pipeline.old
    X = np.array([[-1.3], [0.2], [1.1]])
    A = np.random.default_rng(3).normal(size=(1, 1)) * 3.0
    expected = old.predict(X)
    assert model.commit(Switch("complete")).warning is None
    found = model.machine.pipeline.predict(X @ A + 1.0)
    part = "value" if task == "regression" else "probabilities"
    assert_allclose(getattr(expected, part), getattr(found, part), rtol=0.02, atol=1e-3)
    assert 0.0 == weights(model)["new"]
    feed(3 if task == "classification" else 30)
    assert weights(model)["new"] > 0.0


@pytest.mark.parametrize("algorithm", ["rls", "dfop"])
def test_a_new_model_without_a_labelled_row_does_not_spoil_the_first_predictions(algorithm):
    """It predicts 0 for labels of about 1000, which the old one predicts well."""
    model, feed = begun(algorithm, "regression", lambda a: 1000.0 + 2.0 * a)
    feed(200, labelled=False)
    model.commit(Switch("complete"))
    assert 0.1 > max(feed(20).losses)


@pytest.mark.parametrize("algorithm", ["fesl_c", "fesl_s"])
def test_a_carried_regression_keeps_the_weights_that_it_starts_at(algorithm):
    """Its first steps are as short as the recovered expert's, not as long as the labels, which are about 1000."""
    model, feed = begun(algorithm, "regression", lambda a: 1000.0 + 20.0 * a, width=3, rows=3000)
    feed(60)
    model.commit(Switch("complete"))
    feed(30)
    losses = {expert["expert"]: expert["loss"] for expert in model.machine.own.switching.report()}
    assert losses["carried"] / 30 < 0.01 * 20.0**2 > losses["recovered"] / 30
    carried, recovered = (model.machine.pipeline.experts[name].learner for name in ("carried", "recovered"))
    assert carried.counters is not recovered.counters
    model.machine, _ = save.from_bytes(save.to_bytes(model.machine))


def test_the_old_model_starts_with_more_weight_if_it_was_better_in_the_overlap():
    """On recovered columns, judged by labelled rows: it has learned two thousand rows, the new one forty."""
    model, feed = begun("fesl_c", "classification", signs, width=4, rows=2000)
    feed(40)
    model.commit(Switch("complete"))
    assert weights(model)["recovered"] == weights(model)["carried"] > 2 * weights(model)["new"] > 0.0


def test_the_new_model_starts_with_more_weight_if_it_was_better_in_the_overlap():
    """In the overlap labels depend on a column that the old model does not have."""
    rng = np.random.default_rng(5)
    model = Fed({"algorithm": "rls", "task": "regression", "features": ["a"]})
    a, b = rng.normal(size=(260, 1)), rng.normal(size=(260, 1))
    model.learn(a[:200], a[:200, 0])
    begin(model, "b", "c")
    model.learn(np.hstack([a, b, a])[200:], b[200:, 0])
    assert model.commit(Switch("complete")).warning is None
    assert weights(model)["new"] > 0.8


@pytest.mark.parametrize(
    ("labelled", "warned", "least", "most"),
    [(True, "recovered poorly", 0.0, 0.1), (False, "no labelled row", 1.0, 1.0)],
)
def test_a_poor_mapping_warns(labelled, warned, least, most):
    """Ten rows of twelve columns recover nothing: the old model gets little weight, unless the new one has no label."""
    model, feed = begun("rls", "regression", numbers, width=12)
    feed(10, labelled)
    outcome = model.commit(Switch("complete"))
    assert model.machine.own.switching.mapping_error > 0.8
    assert warned in outcome.warning
    assert least <= weights(model)["recovered"] <= most


def test_rows_of_small_weight_hardly_move_the_weights_of_experts():
    """Neither in the trial of the overlap nor after it, where the share of 1/t remains."""
    model, feed = begun("dfop", "regression", numbers, width=2)
    for phase in ("overlap", "ensemble"):
        feed(20)
        a, b = np.ones((1, 2)), np.zeros((1, 2))
        now = model.machine.own.switching.now
        mixture = now.trial if phase == "overlap" else now.mixture
        before, rows = mixture.weights.copy(), 1 + mixture.counters[0]
        model.learn(np.hstack([a, b]) if phase == "overlap" else b, np.array([9.0]), weights=np.array([1e-9]))
        expected = (1 - 1 / rows) * before + 1 / rows / len(before)
        assert_allclose(expected, mixture.weights, rtol=1e-6)
        if phase == "overlap":
            model.commit(Switch("complete"))


def test_added_features_need_no_overlap():
    """Nothing has vanished: the old model reads its usual columns, and there is no warning."""
    rng = np.random.default_rng(0)
    model = Fed({"algorithm": "rls", "task": "regression", "features": ["a"]})
    a = rng.normal(size=(100, 1))
    model.learn(a, 2 * a[:, 0])
    begin(model, "a", "b")
    assert model.commit(Switch("complete")).warning is None
    assert_allclose([2.0], model.predict([[1.0, 5.0]]).value, rtol=0.02)


def test_known_features_are_never_treated_as_the_first():
    """Rows of the model's own space without a route are a bug, which must not replace what was learned."""
    model, _ = begun("rls", "regression", numbers)
    before, space = model.machine.own.switching, model.machine.prediction_schema
    before.routes.clear()
    with pytest.raises(AssertionError):
        model.learn(np.zeros((1, space.width)), np.zeros(1), space)
    assert before is model.machine.own.switching


# -- the ridge


def left_out(Z, Y, penalty):
    """The sum of squared errors of rows recovered from all others: each fit is separate and has its own means."""
    total = 0.0
    for i in range(len(Z)):
        others = np.arange(len(Z)) != i
        z, y = Z[others].mean(axis=0), Y[others].mean(axis=0)
        N = np.linalg.solve(
            (Z[others] - z).T @ (Z[others] - z) + penalty * np.eye(Z.shape[1]), (Z[others] - z).T @ (Y[others] - y)
        )
        total += ((Y[i] - y - (Z[i] - z) @ N) ** 2).sum()
    return total


@pytest.mark.parametrize("rows", [3, 8, 30])
@pytest.mark.parametrize("one", [RIDGE, *RIDGES])
def test_the_closed_form_is_leaving_one_row_out(rows, one):
    """With fewer rows than columns and with more."""
    rng = np.random.default_rng(rows)
    Z, Y = rng.normal(size=(rows, 6)), rng.normal(size=(rows, 4))
    Z, Y = Z - Z.mean(axis=0), Y - Y.mean(axis=0)
    K = Z @ Z.T
    expected = left_out(Z, Y, one * np.trace(K) / rows)
    assert_allclose(expected, ridge._left_out(K, Y, one), rtol=1e-6)


@pytest.mark.parametrize(("noise", "expected"), [(0.0, min(RIDGES)), (0.1, RIDGE), (1.0, RIDGE)])
def test_a_smaller_ridge_is_chosen_if_old_columns_are_an_image_of_the_new_ones(noise, expected):
    """Not with a tenth of noise, where the best ridge varies by chance."""
    rng = np.random.default_rng(1)
    X1 = rng.normal(size=(20, 12)) * np.logspace(-3, 3, 12)  # old columns weigh the same, whatever their units
    X2 = X1 / X1.std(axis=0) @ rng.normal(size=(12, 12)) + noise * rng.normal(size=(20, 12))
    mapping = mapping_of(LinearMapping, 12, 12)
    mapping.learn(X2, X1)
    mapping.solve()
    assert expected == mapping.ridge[0]


def test_extreme_rows_do_not_change_it():
    """With heavy-tailed old columns that are independent of the new ones the ridge stays the usual one."""
    rng = np.random.default_rng(0)
    for rows in (13, 40):
        Z, Y = rng.normal(size=(rows, 12)), rng.standard_t(1, size=(rows, 12))
        Z, Y = Z - Z.mean(axis=0), Y - Y.mean(axis=0)
        assert RIDGE == chosen(Z @ Z.T, Y)


@pytest.mark.parametrize("K", [np.zeros((5, 5)), np.eye(5) - 0.2])
def test_without_variance_it_is_the_usual_one(K):
    """Either no new column varies, or no old one does."""
    assert RIDGE == chosen(K, np.zeros((5, 2)))
    assert RIDGE == chosen(np.zeros((5, 5)), np.arange(5.0)[:, None] - 2)
