"""Predictions cover all labels, never with 0 or 1, from the first row on; they are scored as returned; costs count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple
from numpy.testing import assert_allclose, assert_array_equal

from core.config import Config
from core.contract import Prediction
from core.entry import ServedPrediction
from core.features.labels import LabelSet
from core.learners.catalogue import ALGORITHMS
from core.model import read, save
from core.model.class_answers import ClassAnswers
from core.model.rows import BlockRows, predicted_by
from tests.benchmarks.streams import generators
from tests.core.twin import Fed

NO_ROWS = 10**12
"""So many rows that smoothing adds only 1e-6."""


def answers_of(seen, **fields):
    """Answers over these classes with more configuration fields; the labels are declared unless ``labels`` is given."""
    body = {"algorithm": "dfop", "task": "classification", "labels": [*seen], **fields}
    return ClassAnswers(
        Config.parse({name: value for name, value in body.items() if value is not None}), LabelSet(seen)
    )


def answered(answers, prediction, rows=NO_ROWS):
    """The answer after this many rows."""
    before, answers.metrics.rows = answers.metrics.rows, rows
    found = answers.of(prediction)
    answers.metrics.rows = before
    return found


def scored(answers, prediction, truth, weights=None, **more):
    """Score rows; the calibration learns from them."""
    return answers.absorb(prediction, truth, BlockRows(None, None, weights=weights), **more)


CLASSIFIERS = [one.id for one in ALGORITHMS.values() if "classification" in one.tasks]
DECLARED = ["no", "yes", "maybe"]


class Model(Fed):
    """A model fed with random rows of its space."""

    def __init__(self, algorithm="dfop", **more):
        features = {} if ALGORITHMS[algorithm].sparse else {"features": ["a", "b"]}
        super().__init__({"algorithm": algorithm, "task": "classification", **features, **more})
        self.rng = np.random.default_rng(0)

    def raw(self, count):
        return self.rng.normal(size=(count, self.machine.prediction_schema.raw_width))

    def say(self, labels, **more):
        """Learn rows with these labels."""
        return self.learn(self.raw(len(labels)), labels, **more)

    def returned(self):
        """One prediction as a client gets it: its label and {label: probability}."""
        served = self.served(self.raw(1))
        return served.prediction, dict(served.probabilities)


@pytest.mark.parametrize("algorithm", CLASSIFIERS)
@pytest.mark.parametrize(
    ("rows", "label", "twelfths"),
    [([], "no", [4, 4, 4]), (["no"] * 3, "no", [10, 1, 1]), (["yes"] * 3, "yes", [1, 10, 1])],
    ids=["none", "no", "yes"],
)
def test_declared_labels_stay_possible_whatever_was_seen(algorithm, rows, label, twelfths):
    """Before the first row all are equally probable; three rows make none certain; the declared order stays."""
    model = Model(algorithm, labels=DECLARED)
    if rows:
        model.say(rows)
    said, shares = model.returned()
    assert (label, DECLARED) == (said, [*shares])
    assert_allclose(twelfths, 12 * np.array([*shares.values()]))


def test_the_first_row_of_a_model_without_labels_is_not_scored():
    """Nothing is known, so nothing is predicted or scored; the second row is scored."""
    model = Model()
    assert ServedPrediction(None, None, (None, None), scored=0) == model.served(model.raw(1))
    outcome = model.say(["no", "no"])
    assert [None, "no"] == outcome.predictions
    assert [None, 0.0] == outcome.losses
    assert_array_equal([np.nan, 0.75], outcome.p_true)
    declared = Model(labels=DECLARED).say(["yes"])
    assert (["no"], [1.0]) == (declared.predictions, declared.losses)
    assert_allclose([1 / 3], declared.p_true)


def test_an_undeclared_label_is_scored_as_one_of_the_labels_it_joins():
    """Its first row has the probability it would have been given."""
    model = Model()
    outcome = model.say(["no"] * 7 + ["yes"])
    assert ["no"] * 7 == outcome.predictions[1:]
    assert 1.0 == outcome.losses[-1]
    assert_allclose(1 / 16, outcome.p_true[-1])
    assert_allclose(1 / 27, model.say(["maybe"]).p_true)


@pytest.mark.slow_but("*-dfop", "more2-dynamic_odm", "more1-fesl_c", "more0-vigod", "more1-sparse_dfop", "more2-auto")
@pytest.mark.parametrize("algorithm", CLASSIFIERS)
@pytest.mark.parametrize("more", [{}, {"labels": DECLARED}, {"labels": DECLARED, "class_costs": {"yes": 5}}])
def test_scores_match_predict(algorithm, more):
    """Row by row and in a block: the same predictions, losses and probabilities to the bit, and the same state."""
    block, single, asking = (Model(algorithm, **more) for _ in range(3))
    X = np.random.default_rng(1).normal(size=(40, block.machine.prediction_schema.raw_width))
    labels = ["yes" if x > 0 else "no" for x in X[:, 0]]
    whole = block.learn(X, labels)
    for row, label in enumerate(labels):
        before = asking.predict(X[row : row + 1])
        for model in (single, asking):
            own = model.learn(X[row : row + 1], [label])
        assert whole.predictions[row] == own.predictions[0]
        assert_array_equal(whole.losses[row], own.losses[0])
        assert_array_equal(whole.p_true[row], own.p_true[0])
        names = asking.machine.own.answers.labels.labels
        assert whole.predictions[row] == (names[before.value[0]] if before.value[0] >= 0 else None)
        if label in names[: before.probabilities.shape[1]] and whole.predictions[row] is not None:
            assert before.probabilities[0, names.index(label)] == whole.p_true[row]
    assert save.to_bytes(block.machine) == save.to_bytes(single.machine)


@pytest.mark.parametrize("algorithm", CLASSIFIERS)
@pytest.mark.parametrize(
    "more", [{}, {"class_costs": {"yes": 5}}, {"labels": DECLARED}], ids=["bare", "costs", "declared"]
)
def test_a_row_that_is_not_learned_has_the_probability_that_it_would_be_scored_by(algorithm, more):
    """To the bit, whether its label is in use, retired or new; no probability is 0."""
    model = Model(algorithm, **more)
    model.say(["no", "yes", "maybe", "no", "yes", "yes"])
    for retired in ([], ["maybe"]):
        model.change(retire_labels=retired)
        X, labels = model.raw(12), ["no", "maybe", *(["yes"] if "labels" in more else ["new"])] * 4
        before = save.to_bytes(model.machine)
        said, p_true = read.judge(model.machine.own, X, labels)
        for found, expected in zip(astuple(said), astuple(model.predict(X)), strict=True):
            assert_array_equal(expected, found)
        assert 0.0 < min(p_true)
        assert before == save.to_bytes(model.machine)
        for row, label in enumerate(labels):
            model.machine, _ = save.from_bytes(before)
            assert_array_equal(model.learn(X[row : row + 1], [label]).p_true, p_true[row : row + 1])
        model.machine, _ = save.from_bytes(before)


shares = st.integers(1, 6).flatmap(lambda K: st.lists(st.floats(0, 1), min_size=K, max_size=K))


@given(shares, st.integers(0, 10**18), st.data())
def test_any_probabilities_become_strictly_between_0_and_1(given_shares, rows, data):
    """They sum to one and keep their order, each label has its position, and missing ones share the rest."""
    p = np.array([given_shares])
    p = p / p.sum() if p.sum() > 0 else np.full_like(p, 1.0 / p.size)
    names = [f"c{k}" for k in range(p.size + data.draw(st.integers(1, 3)))]
    declared = data.draw(st.permutations(names))
    answers = answers_of(names[: p.size], labels=declared)
    value, q, *_ = astuple(answered(answers, Prediction(p.argmax(axis=1), p), rows))
    assert ((q > 0) & (q < 1)).all()
    assert_allclose(1.0, q.sum(), rtol=1e-12)
    assert q[0].argmax() == value[0]
    placed = q[0, [declared.index(name) for name in names]]
    assert (np.diff(placed[: p.size][np.argsort(p[0], kind="stable")]) >= 0).all()
    assert placed[p.size :].max() <= placed.min()


def test_costs_decide_the_prediction():
    """The label of least expected cost: a rare class that is costly to miss, long before it is probable."""
    prediction = Prediction(np.array([0, 0, 1]), np.array([[0.9, 0.1], [0.7, 0.3], [0.4, 0.6]]))
    costs = {"class_costs": {"yes": 4}}
    plain = answers_of(["no", "yes"], labels=["yes", "no"])
    assert_array_equal([1, 1, 0], answered(plain, prediction).value)
    costly = answers_of(["no", "yes"], labels=["yes", "no"], **costs)
    assert_array_equal([1, 0, 0], answered(costly, prediction).value)
    assert_array_equal(*(answered(one, prediction, 5).probabilities for one in (plain, costly)))
    named = answers_of(["no", "yes"], labels=None, **costs)
    assert_array_equal([0, 1, 1], answered(named, prediction).value)
    first = answers_of([], labels=["no", "yes"], **costs)
    assert_array_equal([1], answered(first, Prediction(np.array([-1]), np.empty((1, 0))), 0).value)


def test_a_row_of_a_new_label_is_answered_without_it():
    """As it would have been predicted: the share of the new label would change which answer costs least."""
    for seed in range(9):
        rng, model = np.random.default_rng(seed), Model("dfop", class_costs={"yes": 20})
        for row in range(1, 61):
            x = rng.normal(size=(1, 2))
            label = f"new {row}" if row > 3 and rng.random() < 0.2 else "yes" if x[0, 0] > 1.3 else "no"
            expected = model.served(x).prediction if row > 1 else None
            assert expected == model.learn(x, [label]).predictions[0]


def test_a_learner_without_probabilities_votes():
    """Its class is probable, the others stay possible."""
    answers = answers_of(["yes", "no"], labels=["no", "yes"])
    value, q, *_ = astuple(answered(answers, Prediction(np.array([0, 1]), None), 3))
    assert_array_equal([1, 0], value)
    assert_allclose([[0.125, 0.875], [0.875, 0.125]], q)


def test_a_tracked_prediction_is_scored_as_returned():
    """A label unknown at that time gets what the others left, smoothed as of now; an unknown prediction is wrong."""
    model = Model()
    model.say(["no"] * 3)
    returned = model.served(model.raw(1))
    assert (("no", 0.875),) == returned.probabilities
    model.say(["yes"] * 4)
    outcome = model.say(["yes"], served=returned)
    assert (["no"], [1.0]) == (outcome.predictions, outcome.losses)
    assert_allclose([7 / 8 * 0.125 + 1 / 16], outcome.p_true)
    both = model.served(model.raw(1))
    outcome = model.say(["no"], served=both)
    assert [dict(both.probabilities)["no"]] == list(outcome.p_true)
    nothing = model.say(["no"], served=ServedPrediction(None))
    assert [None] == nothing.predictions
    assert ([None], True) == (nothing.losses, np.isnan(nothing.p_true).all())
    strange = model.say(["no"], served=ServedPrediction("elsewhere", (("elsewhere", 0.9),)))
    assert (["elsewhere"], [1.0]) == (strange.predictions, strange.losses)
    assert 0 < strange.p_true[0] < 1


# -- classes with few rows


ROWS = 2000
STREAMS = {
    "mixed": lambda: generators.mixed_kinds(0, ROWS),
    "chess": lambda: generators.chess_board(0, ROWS),
    "led": lambda: generators.led(0, ROWS),
}


def model_of(algorithm, X):
    """A model for rows like these."""
    features = [f"x{j}" for j in range(X.shape[1])]
    return Fed({"algorithm": algorithm, "task": "classification", "features": features, "watch": None})


def drawn(name):
    X, y = STREAMS[name]()[:2]
    return np.asarray(X, dtype=np.float64), [f"c{int(k)}" for k in y]


def right(said, names, labels):
    return np.mean([names[k] == label for k, label in zip(said.value, labels, strict=True)])


@pytest.mark.slow_but("auto-mixed", "ga2m-chess", "dynamic_odm-led", "vigow-chess", "fesl_c-mixed", "dfop-led")
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("algorithm", ["auto", "ga2m", "odm", "dynamic_odm", "fesl_c", "vigow", "dfop"])
def test_one_mistyped_label_draws_no_answers(algorithm, name):
    """A label seen once gets hardly any answers or probability; the other labels stay as accurate as before."""
    X, labels = drawn(name)
    model = model_of(algorithm, X)
    model.learn(X, labels)
    before = model.predict(X)
    model.learn(X[-1:], ["fial"])
    after = model.predict(X)
    names = model.machine.labels.labels
    assert "fial" == names[-1]
    assert (after.value == len(names) - 1).mean() < 0.01
    assert after.probabilities[:, -1].mean() < 10 / ROWS
    assert right(after, names, labels) > right(before, names, labels) - 0.02


@pytest.mark.parametrize("scored", [0, 7])
def test_what_another_learner_counted_or_kept_is_not_used(scored):
    """Its prediction is scored; that no row had been learned is true for both."""
    told = ServedPrediction(1.5, lags=(1.0,), by="other", scored=scored, past=(2.0,))
    assert [told] == predicted_by("other", [told], or_returned=True)
    assert [None, None] == predicted_by("own", [told, None], or_returned=False)
    foreign = ServedPrediction(1.5, by="other", scored=None if scored else 0)
    assert [foreign, None] == predicted_by("own", [told, None], or_returned=True)
