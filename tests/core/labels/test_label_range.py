"""What a regression answers: predictions near the labels seen, and intervals in every phase."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from core.config import Config
from core.contract import Spec
from core.features.label_range import BEYOND, ROWS, SPAN_ROWS
from core.features.labels import LabelSet
from core.learners.catalogue import ALGORITHMS, find
from core.model import read, save
from core.model.number_answers import NumberAnswers
from core.model.rows import BlockRows
from tests.core.learners.streams import state
from tests.core.switching.switch_streams import Driver
from tests.core.twin import Fed

LEARNERS = [
    (name, params)
    for name, algorithm in sorted(ALGORITHMS.items())
    if "regression" in algorithm.tasks and not algorithm.sparse
    for params in ({}, *([{"forgetting_rate": 0.2}] if name in {"dfop", "gdfop"} else []))
]
every_learner = pytest.mark.parametrize(("algorithm", "params"), LEARNERS)
HELD_AT_ONCE = [("auto", {}), ("dfop", {}), ("ga2m", {})]  # the others' first predictions are their own


def spiky(rows=400):
    """A column that is silent while others are learned, then huge: any weight it has is wrong."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(rows, 3))
    X[:, 2] *= 1e-3
    X[SPAN_ROWS + 5 :: 50, 2] = 1e6
    return X, X[:, 0] - X[:, 1] + rng.normal(size=rows) / 10


def model(algorithm, params):
    return Fed({"algorithm": algorithm, "task": "regression", "params": params, "features": ["a", "b", "c"]})


def learned(fed, X, y, *, block):
    """The predictions of predict before each block, and of feedback for every row."""
    before, told = [], []
    for start in range(0, len(y), block):
        part = slice(start, start + block)
        before += fed.predict(X[part][:1]).value.tolist()
        told += fed.learn(X[part], y[part]).predictions
    return np.array(before), np.array(told)


@every_learner
def test_predictions_stay_near_the_labels_seen(algorithm, params):
    """A tenth of the range beyond it, at first more; predict and feedback, rows and blocks give the same bits."""
    X, y = spiky()
    X, y = np.insert(X, 0, X[:9] + 1.0, axis=0), np.insert(y, 0, y[:9]) + 1013.0
    one, whole = model(algorithm, params), model(algorithm, params)
    before, told = learned(one, X, y, block=1)
    assert_array_equal(before, told)
    assert_array_equal(told, learned(whole, X, y, block=100)[1])
    assert save.to_bytes(one.machine) == save.to_bytes(whole.machine)
    begin = 1 if (algorithm, params) in HELD_AT_ONCE else SPAN_ROWS
    low, high = (of.accumulate(y)[begin - 1 : -1] for of in (np.minimum, np.maximum))
    reach = np.maximum(BEYOND, 4.0 / np.arange(begin, len(y)) - BEYOND) * (high - low)
    assert (low - reach <= told[begin:] + 1e-9).all()  # shares may add up to a little more or less than 1
    assert (told[begin:] <= high + reach + 1e-9).all()


@pytest.mark.parametrize(("algorithm", "params"), HELD_AT_ONCE)
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e9])
@pytest.mark.parametrize("offset", [-1e4, 100.0, 1e4])
def test_the_first_rows_hardly_depend_on_where_the_labels_lie(algorithm, params, offset, unit):
    """Row 0 is predicted as 0. The others cost a few variances of the labels, not the square of what they are."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 3))
    y = offset + X @ [0.6, 0.5, 0.3] + rng.normal(size=40) / 2
    told = np.array(model(algorithm, params).learn(X, y * unit).predictions) / unit
    assert 0.0 == told[0]
    assert y[0] == pytest.approx(told[1], rel=1e-12)
    assert np.square(told[1:] - y[1:]).mean() < 15.0 * y.var()


@pytest.mark.parametrize(("algorithm", "params"), [("rls", {}), ("dfop", {"forgetting_rate": 0.2})])
def test_the_first_predictions_of_other_learners_are_their_own(algorithm, params):
    """They are held from row 20 on only: until then rls, say, is the closed form."""
    X, y = spiky(SPAN_ROWS)
    fed = model(algorithm, params)
    alone = find(algorithm).build(Spec("regression", 3, fed.machine.config.params))
    told = fed.learn(X, y + 1013.0).predictions
    assert_array_equal(alone.learn(X, y + 1013.0).value, told)
    assert min(told[1:]) < 900.0


@every_learner
def test_learning_is_not_limited(algorithm, params):
    """The learner equals one that learns the rows alone; one that would predict far more is among them."""
    X, y = spiky()
    scales = any(param.name == "scaling" for param in find(algorithm).params)
    fed = model(algorithm, {**params, **({"scaling": "none"} if scales else {})})
    learned(fed, X, y, block=100)
    machine = fed.machine
    alone = find(algorithm).build(Spec("regression", 3, machine.config.params))
    told = alone.learn(X, y).value
    assert state(alone) == state(machine.pipeline.own.learner)
    if params or algorithm == "gdfop":
        assert np.abs(told).max() > 10 * np.abs(y).max()


def test_a_wild_label_widens_the_range_once():
    """One label of 1e30 moves an end by one width; a change of level is reached within some rows."""
    held = NumberAnswers(Config.parse({"task": "regression"}), LabelSet())
    for labels in (np.linspace(0.0, 1.0, 100), np.array([1e30])):
        held.absorb(None, labels, BlockRows(None, labels))
    assert [0.0, 2.0, 101.0] == held.span.tolist()
    held.absorb(None, np.full(20, 1e6), BlockRows(None, None))
    assert [0.0, 1e6, 121.0] == held.span.tolist()


@pytest.mark.parametrize("at", range(6))
def test_a_wild_label_is_limited_from_the_first_row_on(at):
    """The range does not keep it, wherever it is among the first."""
    for sign in (1.0, -1.0):
        labels = sign * np.insert(np.linspace(0.0, 1.0, 100), at, 1e30)
        held = NumberAnswers(Config.parse({"task": "regression"}), LabelSet())
        held.absorb(None, labels, BlockRows(None, labels))
        assert 1.0 == np.ptp(held.span[:2])
        assert 101.0 == held.span[ROWS]


def test_first_labels_that_differ_by_rounding_have_no_width():
    """The next one is not wild: the range follows the labels at once, as if the first two were equal."""
    labels = np.concatenate([[20.0, np.nextafter(20.0, 21.0)], np.linspace(15.0, 25.0, 30)])
    held = NumberAnswers(Config.parse({"task": "regression"}), LabelSet())
    held.absorb(None, labels, BlockRows(None, labels))
    assert [15.0, 25.0, 32.0] == held.span.tolist()


@pytest.mark.parametrize("labels", [*itertools.permutations([0.0, 1.0, 1e30])])
def test_the_third_label_tells_which_one_is_wild(labels):
    """The range is that of any order."""
    held = NumberAnswers(Config.parse({"task": "regression"}), LabelSet())
    held.absorb(None, np.array(labels), BlockRows(None, np.array(labels)))
    assert [0.0, 2.0, 3.0] == held.span.tolist()


@pytest.mark.parametrize("labels", [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 10.0, 4.0], [10.0, 0.0, 9.0]])
def test_three_labels_of_one_size_are_taken_whole(labels):
    """None is far from the range of the others."""
    held = NumberAnswers(Config.parse({"task": "regression"}), LabelSet())
    held.absorb(None, np.array(labels), BlockRows(None, np.array(labels)))
    assert [min(labels), max(labels), 3.0] == held.span.tolist()


@pytest.mark.parametrize(
    ("algorithm", "at"), [*((name, at) for name in ("auto", "dfop") for at in (0, 1, 5, 19)), ("ga2m", 2), ("ga2m", 5)]
)
def test_a_wild_label_among_the_first_costs_as_little_as_later(algorithm, at):
    """Six hundred rows later, predictions are nearly as good as without it."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1000, 3))
    y = X @ [1.0, 2.0, -1.0] + rng.normal(size=1000) / 3
    wild = y.copy()
    wild[at] = 3e3 * y.std()
    plain, spoiled = (np.array(model(algorithm, {}).learn(X, labels).predictions) for labels in (y, wild))
    errors = [np.mean(np.square(told - y)[600:]) for told in (plain, spoiled)]
    assert errors[1] <= 1.5 * errors[0]


# -- intervals


LEVEL = 0.8
every_algorithm = pytest.mark.parametrize("algorithm", [*dict.fromkeys(name for name, _ in LEARNERS)])


def interval(driver, row=0):
    """The interval around a row of the stream; None without one."""
    machine = driver.machine
    prediction = read.predict(machine.own, driver.raw(machine.prediction_schema, row, row + 1))
    bounds = read.intervals_of(machine.own, prediction, LEVEL)
    return None if bounds is None else tuple(bounds[0])


def covering(driver, rows):
    """Learn rows one by one; return whether the interval read before each covered it."""
    hits = []
    for _ in range(rows):
        low, high = interval(driver, driver.at)
        hits.append(low <= driver.labels[driver.at] <= high)
        assert driver.learn(1).refusal is None
    return hits


@every_algorithm
def test_intervals_go_on_in_every_phase(algorithm):
    """Coverage counts the intervals as read before each row, and one range has all labels: whatever the phase."""
    driver = Driver(algorithm, "regression", rows=900)
    assert None is interval(driver)
    driver.learn(60)
    before = driver.machine.own.answers.intervals.levels[1].copy()
    hits = []
    for step in (lambda: None, lambda: driver.begin(1), driver.complete, lambda: driver.begin(2), driver.abort):
        step()
        hits += covering(driver, 40)
    told, covered = (driver.machine.own.answers.intervals.levels[1] - before)[1:3]
    assert 200 == told
    # An algorithm that draws an expert for each row learns another prediction than predict shows.
    assert driver.machine.config.algorithm.selects or sum(hits) == covered
    assert driver.machine.rows == driver.machine.own.answers.intervals.rows == 260
    seen = driver.labels[:260]
    assert [seen.min(), seen.max(), 260.0] == driver.machine.own.answers.span.tolist()
    assert save.to_bytes(driver.machine) == save.to_bytes(driver.reborn().machine)


def test_a_drift_that_resets_the_learner_leaves_the_residuals():
    """Intervals follow the predictions of any learner; they widen by the residuals of the new learner's first rows."""
    config = {"watch": {"error_rate": {"batch_size": 40}}, "on_drift": "reset"}
    driver = Driver("rls", "regression", rows=1200, **config)
    driver.labels = np.where(np.arange(1200) < 600, driver.labels, -20.0 * driver.labels)
    driver.learn(600)
    driver.learn(300)
    assert "drift" in [mark["kind"] for mark in driver.report["marks"]]
    assert 900 == driver.machine.own.answers.intervals.rows
    assert driver.report["window"]["coverage"]["0.9"] > 0.8


def test_tracked_and_untracked_rows_of_one_entry_are_kept_apart():
    """Learned in one entry they leave the same state as in separate entries."""
    one, together = Driver("rls", "regression"), Driver("rls", "regression")
    for driver in (one, together):
        driver.learn(60)
    served = one.served(5)
    segments = [together.rows(2), together.rows(1, served=served), together.rows(3)]
    for segment in segments:
        one.apply(segment)
    together.apply(*segments)
    assert save.to_bytes(one.machine) == save.to_bytes(together.machine)


def test_a_classification_has_none():
    """There are no intervals in its state and no coverage in its report."""
    driver = Driver("dfop", "classification")
    driver.learn(60)
    assert not hasattr(driver.machine.own.answers, "intervals")
    assert "intervals" not in driver.machine.own.parts()
    assert "coverage" not in driver.report["overall"]
