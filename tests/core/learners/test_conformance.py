"""Every learner of the catalogue, and the worked example, keeps every promise of core.contract."""

import numpy as np
import pytest
from msgspec.structs import astuple
from numpy.testing import assert_allclose, assert_array_equal

from core.contract import Forgetful, Spec
from core.learners.auto.experts import BOOSTING, NEAREST
from core.learners.catalogue import ALGORITHMS, every, find
from core.learners.dfop.learner import Dfop
from core.state.envelope import dump, load
from tests.core.learners.passive_aggressive import ALGORITHMS as PASSIVE_AGGRESSIVE
from tests.core.learners.streams import (
    ROWS,
    D,
    Stream,
    assert_same,
    broken,
    build,
    feed,
    joined,
    learner_of,
    state,
    stream,
    with_defaults,
)
from tests.core.refusals import problems

WIDE, WIDE_ROWS = 300, 140
LABELS_BY_DENSITY = {"vigo", "vigod", "vigow"}
"""They predict the class of the largest density, which is not always the most probable class."""
(EXAMPLE,) = PASSIVE_AGGRESSIVE
LISTED = ({EXAMPLE.id: EXAMPLE, NEAREST.id: NEAREST, BOOSTING.id: BOOSTING} | ALGORITHMS).values()
CASES = [
    pytest.param(algorithm, task, classes, id=f"{algorithm.id}-{task}{classes or ''}")
    for algorithm in LISTED
    for task in algorithm.tasks
    for classes in ((1, 2, 5) if task == "classification" else (0,))
    if classes <= algorithm.class_bound
]
VARIANTS = (
    ("dfop", "random_features", 6),
    ("gdfop", "random_features", 6),
    ("odm", "random_features", 6),
    ("dfop", "forgetting_rate", 0.05),
    ("dynamic_odm", "vote", "majority"),
)
"""Parameters that put another learner behind the same algorithm."""
CASES += [
    pytest.param(with_defaults(find(name), **{param: value}), task, classes, id=f"{name}-{task}{classes or ''}-{param}")
    for name, param, value in VARIANTS
    for task, classes in (("classification", 5), ("regression", 0))
    if task in find(name).tasks
]
every_case = pytest.mark.parametrize(("algorithm", "task", "classes"), CASES)
every_algorithm = pytest.mark.parametrize("algorithm", LISTED, ids=lambda algorithm: algorithm.id)


@pytest.fixture(autouse=True)
def _with_the_example(monkeypatch):
    """List the worked example and the inner learners while they are tested here."""
    for own in (EXAMPLE, NEAREST, BOOSTING):
        monkeypatch.setitem(ALGORITHMS, own.id, ALGORITHMS.get(own.id, own))


@every_case
def test_a_block_equals_its_rows(algorithm, task, classes):
    """However a stream of few columns is cut, predictions and state have the same bits."""
    rows = stream(algorithm, task, classes)
    whole, cut, single = build(algorithm, task), build(algorithm, task), build(algorithm, task)
    expected = feed(whole, rows)
    assert_same(expected, feed(cut, rows, (1, 63, 64, 65, 200)))
    assert_same(expected, feed(single, rows, range(1, ROWS)))
    assert state(whole) == state(cut) == state(single)


@pytest.mark.slow_but(
    "dfop-regression", "gdfop-*2", "fesl_c-*2", "dynamic_odm-*2", "vigod-*2", "auto-regression", "*rate"
)
@every_case
def test_a_wide_block_equals_its_rows_to_round_off(algorithm, task, classes):
    """With many columns (matrix products) another cut gives the same numbers, and the same cut the same bits.

    Another cut gives the same bits as well if the catalogue says that rows are exact. Rows may be read-only.
    """
    rng = np.random.default_rng(3)
    rows = stream(algorithm, task, classes, WIDE_ROWS)
    wide = rows._replace(X=np.hstack([rows.X, rng.normal(size=(WIDE_ROWS, WIDE - D)) / 10]))
    spec = Spec(task, WIDE, algorithm.complete({}), seed=7)
    whole, again, cut, single = (algorithm.build(spec) for _ in range(4))
    expected = feed(whole, wide)
    for array in wide:
        if array is not None:
            array.flags.writeable = False
    assert_same(expected, feed(again, wide))
    assert state(whole) == state(again)
    for learner, cuts in ((cut, (1, 63, 64, 65, 100)), (single, range(1, WIDE_ROWS))):
        told = feed(learner, wide, cuts)
        if algorithm.row_exact(spec):
            assert_same(expected, told)
            assert state(whole) == state(learner)
        for part in ("probabilities", "std") if task == "classification" else ("value", "std"):
            if joined(expected, part) is not None:
                assert_allclose(joined(expected, part), joined(told, part), rtol=1e-6, atol=1e-8)


@every_case
def test_inputs_are_not_mutated_and_targets_may_be_a_view(algorithm, task, classes):
    """Rows, labels, discounts and weights may be read-only; a strided column is learned like a copy of it."""
    rows = stream(algorithm, task, classes)
    table = np.stack([rows.y, rows.y], axis=1)
    whole, view = build(algorithm, task), build(algorithm, task)
    expected = feed(whole, rows)
    for array in (rows.X, table, *(column for column in rows[2:] if column is not None)):
        array.flags.writeable = False
    assert_same(expected, feed(view, rows._replace(y=table[:, 0])))
    assert state(whole) == state(view)
    view.predict(rows.X)


@every_case
def test_learn_returns_what_predict_would_have(algorithm, task, classes):
    """A row's a-priori prediction equals that of predict just before it is learned."""
    rows = stream(algorithm, task, classes)
    learner = build(algorithm, task)
    feed(learner, rows.part(slice(200)))
    for i in range(200, ROWS):
        expected = learner.predict(rows.X[i : i + 1])
        assert_same([expected], [learner.learn(*rows.part(slice(i, i + 1)))])


@every_case
def test_predict_changes_nothing(algorithm, task, classes):
    """Predictions, of any number of rows, leave the state unchanged, and a row's does not depend on its neighbours."""
    rows = stream(algorithm, task, classes)
    learner = build(algorithm, task)
    feed(learner, rows)
    before = state(learner)
    together = learner.predict(rows.X)
    assert_same([together], [learner.predict(rows.X[i : i + 1]) for i in range(ROWS)])
    assert before == state(learner)


@every_case
def test_a_saved_state_continues_as_if_never_saved(algorithm, task, classes):
    """At every stage, saving and loading gives the same bits, now and after more rows."""
    rows = stream(algorithm, task, classes)
    for cut in (0, 1, 40, 190):
        learner = build(algorithm, task)
        if cut:
            feed(learner, rows.part(slice(cut)))
        restored = build(algorithm, task)
        restored.load_arrays(*load(state(learner)))
        assert state(learner) == state(restored)
        known = int(rows.y[:cut].max()) + 1 if task == "classification" and cut else 0
        rest = rows.part(slice(cut, cut + 70))
        assert_same(*(feed(one, rest, range(1, len(rest.y)), known) for one in (learner, restored)))
        assert state(learner) == state(restored)


@every_case
def test_a_saved_state_is_its_own(algorithm, task, classes):
    """Later rows do not change returned arrays, and changing loaded arrays does not change the learner."""
    rows = stream(algorithm, task, classes)
    learner = build(algorithm, task)
    feed(learner, rows)
    arrays, header = load(state(learner))
    arrays = {name: array.copy() for name, array in arrays.items()}
    given, _ = learner.to_arrays()
    before = dump(given, header)
    other = build(algorithm, task)
    other.load_arrays(arrays, header)
    for array in arrays.values():
        array.fill(0)
    learner.learn(rows.X[:5], rows.y[:5])
    assert before == dump(given, header)
    assert before == state(other)


@every_case
def test_predictions_have_the_contract_s_form(algorithm, task, classes):
    """Types, shapes, rows that sum to one; the value is the first most probable class, for some learners mostly."""
    rows = stream(algorithm, task, classes)
    learner = build(algorithm, task)
    for told in (learner.predict(rows.X), *feed(learner, rows), learner.predict(rows.X)):
        n = len(told.value)
        if task == "regression":
            assert np.float64 == told.value.dtype
            assert told.probabilities is None
            assert told.std is None or (told.std.shape == (n,) and (told.std >= 0).all())
            continue
        assert np.int64 == told.value.dtype
        if told.probabilities is not None:
            assert n == len(told.probabilities)
            if told.probabilities.shape[1]:
                np.testing.assert_allclose(np.ones(n), told.probabilities.sum(axis=1), rtol=1e-12)
                likeliest = told.probabilities.argmax(axis=1) == told.value
                assert likeliest.all() if algorithm.id not in LABELS_BY_DENSITY else likeliest.mean() > 0.8
                assert ((told.value >= 0) & (told.value < told.probabilities.shape[1])).all()
            else:
                assert_array_equal(np.full(n, -1), told.value)


@every_case
def test_it_learns(algorithm, task, classes):
    """On a stationary stream the second half is predicted better than by the best constant."""
    rows = stream(algorithm, task, max(classes, 2) if classes else 0, rows=1000, drift=False)
    half = slice(500, 1000)
    learner = build(algorithm, task)
    value = joined(feed(learner, rows), "value")[half]
    if task == "regression":
        assert ((value - rows.y[half]) ** 2).mean() < 0.5 * rows.y[half].var()
    else:
        assert (value == rows.y[half]).mean() > np.bincount(rows.y[half]).max() / 500


WILD = np.array([0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 1.7976931348623157e308, 1e75, 1e155, 1e-75, 1e-308, 5e-324])


@pytest.mark.slow_but("[03]-*5*", "[03]-*regression*")
@every_case
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.filterwarnings("error")
def test_no_finite_input_makes_a_state_non_finite(algorithm, task, classes, seed):
    """Rows drawn from the extremes of float64, mixed with ordinary ones: everything is finite, and the state loads."""
    rng = np.random.default_rng(seed)
    rows = stream(algorithm, task, classes)
    wild = rng.random(rows.X.shape) < rng.choice([0.01, 0.3, 1.0])
    X = np.where(wild, rng.choice(WILD, rows.X.shape), rows.X)
    y = rows.y
    if task == "regression":
        y = np.where(rng.random(ROWS) < 0.3, rng.choice(WILD, ROWS), y)
    learner = build(algorithm, task)
    told = [*feed(learner, rows._replace(X=X, y=y), range(1, ROWS, 7)), learner.predict(X)]
    for prediction in told:
        assert all(part is None or np.isfinite(part).all() for part in astuple(prediction))
    for name, array in learner.to_arrays()[0].items():
        assert np.isfinite(array).all(), name
    weights = learner.weights()
    assert weights is None or all(np.isfinite(part).all() for part in weights)
    restored = build(algorithm, task)
    restored.load_arrays(*load(state(learner)))
    assert_same([learner.predict(X)], [restored.predict(X)])


@pytest.mark.slow_but("*5*", "*regression*")
@every_case
def test_an_invalid_state_is_refused(algorithm, task, classes):
    """Every break of the declared layout, or another header, raises ValueError and leaves the state unchanged."""
    learner = build(algorithm, task)
    feed(learner, stream(algorithm, task, classes))
    arrays, header = learner.to_arrays()
    before = state(learner)
    for what, *wrong in broken(learner, arrays, header, Spec(task, D, algorithm.complete({})), classes):
        try:
            learner.load_arrays(*wrong)
        except ValueError:
            continue
        pytest.fail(what)
    assert before == state(learner)


@every_case
def test_a_learner_reports_itself(algorithm, task, classes):
    """Announced bytes within a tenth; info as JSON, before and after rows; copies of weights, one row per class."""
    params, learner = algorithm.complete({}), build(algorithm, task)
    dump({}, learner.info())
    feed(learner, stream(algorithm, task, classes))
    dump({}, learner.info())
    expected = learner.nbytes
    assert abs(algorithm.state_bytes(Spec(task, D, params), classes) - expected) <= expected / 10
    assert algorithm.row_cost(Spec(task, D, params), classes) > 0
    assert algorithm.state_bytes(Spec(task, 10**6, params), 2) > 10**6
    weights = learner.weights()
    if weights is not None:
        assert (classes or 1, D) == weights.coefficients.shape
        assert (classes or 1,) == weights.bias.shape
        before = state(learner)
        for part in weights:
            part.fill(0.0)
        assert before == state(learner)


@every_case
def test_a_learner_that_forgets_learns_again(algorithm, task, classes):
    """After ``forget`` the classes stay, the state loads, and a changed concept is learned sooner."""
    learner = build(algorithm, task)
    if not algorithm.forgets or classes == 1:
        return
    rows = stream(algorithm, task, classes, rows=2000, seed=2, drift=False)._replace(weights=None)
    params = {param.name: param for param in algorithm.params}
    kept, mistakes = build(algorithm, task), []
    for fed in (learner, kept):
        feed(fed, rows)
    learner.forget()
    restored = build(algorithm, task)
    restored.load_arrays(*load(state(learner)))
    batch = params.get("batch_size")  # learners that learn batch by batch need some batches
    soon = 100 if batch is None else 4 * batch.default
    later = Stream(-rows.X[:soon], rows.y[:soon])
    for fed in (learner, kept, restored):
        told = fed.learn(later.X, later.y).value
        mistakes.append(float(((told - later.y) ** 2).mean() if task == "regression" else (told != later.y).mean()))
    assert mistakes[0] < mistakes[1]
    assert mistakes[0] == mistakes[2]
    assert state(learner) == state(restored)


@pytest.mark.parametrize("name", ["fesl_c", "ga2m"])
def test_a_third_class_keeps_the_odds_of_the_first_two(name):
    """The single column of two classes is split into one for each; the new class does not change their ratio."""
    X = np.random.default_rng(2).normal(size=(500, D))
    learner = learner_of(name, D, 2)
    learner.learn(X, (X[:, 0] > 0).astype(np.int64))
    before = learner.predict(X).probabilities
    learner.add_class()
    after = learner.predict(X).probabilities
    assert_allclose(before[:, 1] / before[:, 0], after[:, 1] / after[:, 0], rtol=1e-3)


@every_algorithm
def test_algorithms_describe_themselves(algorithm):
    """Ids match their key; each parameter has a sentence, and its default passes its own check."""
    assert algorithm is find(algorithm.id)
    assert algorithm.tasks
    assert algorithm.summary.endswith(".")
    for param in algorithm.params:
        assert param.meaning.endswith(".")
        assert param.default == param.check(param.default)
    described = algorithm.describe()
    assert [param.name for param in algorithm.params] == list(described["params"]["properties"])
    dump({}, described)


def test_an_unknown_algorithm_is_refused_with_the_known_ones():
    """The refusal lists every id."""
    assert ("algorithm", "is not known", [*every()]) == problems(find, "nonsense")[0]


# -- what the catalogue derives from a learner and its parameters


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=lambda algorithm: algorithm.id)
def test_the_abilities_of_a_learner_are_read_from_it(algorithm):
    """``forgets`` is true exactly if the learner has ``forget``, for every task."""
    for task in algorithm.tasks:
        assert algorithm.forgets == isinstance(algorithm.build(Spec(task, 3, algorithm.complete({}))), Forgetful)


def test_parameters_decide_the_kind_of_model():
    """Only FESL's parameters say how a switch is made, only sparse_dfop's say that rows are sparse."""
    assert ["fesl_c", "fesl_s"] == [one.id for one in ALGORITHMS.values() if one.evolves]
    assert ["sparse_dfop"] == [one.id for one in ALGORITHMS.values() if one.sparse]
    assert (True, False) == (find("rls").forgets, find("fesl_c").forgets)


def test_costs_follow_from_a_declared_state():
    """The layout gives the bytes; without ``row_cost`` each of their numbers costs some operations."""
    rls = find("rls")
    spec = Spec("regression", 9, rls.complete({}))
    assert rls.state_bytes(spec, 0) == rls.build(spec).nbytes
    assert 0.2 < super(Dfop, Dfop).row_cost(spec, 0) / rls.row_cost(spec, 0) < 5.0
