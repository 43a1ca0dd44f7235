"""Sparse-DFOP: reading and projecting rows, learning them like DFOP, and recovering the weights of names."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from core.config import Config
from core.contract import Spec
from core.features import Schema, SparseSchema
from core.learners.catalogue import find
from core.learners.dfop.sparse import names_bound, recover, recover_all, sparsity_bound
from core.model import read
from core.problems import Invalid
from tests.core.features.test_projection import slow_column
from tests.core.refusals import fields, problems
from tests.core.twin import Fed

D, d = 60, 24
NAMES = [f"w{i}" for i in range(D)]
FIXED = {"forgetting_rate": 0.02, "compressed_dim": d}


def machine(task="regression", params=None, **more):
    return Fed({"algorithm": "sparse_dfop", "task": task, "params": params or FIXED, **more})


def sparse_rows(n, seed=0):
    """Rows as lists of names and values, and the same as a dense table."""
    rng = np.random.default_rng(seed)
    names, values, dense = [], [], np.zeros((n, D))
    for i in range(n):
        at = rng.choice(D, rng.integers(0, 9), replace=False)
        own = rng.normal(size=len(at))
        dense[i, at] = own
        names.append([NAMES[j] for j in at])
        values.append(own.tolist())
    return names, values, dense


# ---------------------------------------------------------------- learning


@pytest.mark.parametrize("projection", ["sign", "gaussian"])
def test_it_is_the_plain_recursion_on_a_matrix_built_by_hand(projection):
    """Algorithm 2 with a stored M: the same v, and the same predictions, clipped to the range of earlier labels."""
    names, values, dense = sparse_rows(300)
    y = dense @ np.random.default_rng(1).normal(size=D)
    model = machine(params={**FIXED, "projection": projection, "bias": False}, seed=5)
    M = np.stack([slow_column(5, name, d, projection) for name in NAMES], axis=1)
    mu, told = FIXED["forgetting_rate"], []
    v, P = np.zeros(d), 1e3 * np.eye(d)
    for x, target in zip(dense, y, strict=True):
        psi = M @ x
        before = y[: len(told)]
        reach = 0.1 * np.ptp(before) if len(told) >= 20 else np.inf
        told.append(np.clip(psi @ v, min(before, default=0.0) - reach, max(before, default=0.0) + reach))
        P = (P - mu * np.outer(P @ psi, P @ psi) / (1 - mu + mu * psi @ P @ psi)) / (1 - mu)
        v += mu * P @ psi * (target - psi @ v)
    outcome = model.learn(model.machine.prediction_schema.lists(names, values), y)
    assert_allclose(told, outcome.predictions, rtol=1e-4, atol=1e-5)
    assert_allclose(v, read.weights(model.machine.own).coefficients[0], rtol=1e-4, atol=1e-5)


def test_state_and_cost_depend_on_the_compressed_dimension_alone():
    """Ten thousand new names do not change the size of the state, which is about the announced size."""
    model = machine()
    learner = model.machine.pipeline.own.learner
    before, names = learner.nbytes, [f"new {i}" for i in range(10_000)]
    model.learn(model.machine.prediction_schema.lists([names], [[1.0] * 10_000]), np.ones(1))
    assert before == learner.nbytes
    assert 64 * 1024 > model.machine.nbytes  # including the metrics and intervals of its rows
    assert 1.0 >= learner.nbytes / model.machine.config.state_bytes(d) >= 0.5


def test_rows_of_another_projection_are_refused():
    """Another seed, dimension or kind makes another space."""
    spaces = [SparseSchema(*args) for args in ((0, d, "sign"), (1, d, "sign"), (0, d + 1, "sign"), (0, d, "gaussian"))]
    assert 4 == len({*spaces})
    assert SparseSchema(0, d, "sign") == spaces[0] != Schema
    assert "have changed since" in machine().learn(np.zeros((1, d)), np.zeros(1), spaces[1]).refusal


def test_the_configuration_goes_round():
    """Converted to JSON and back it is the same, with defaults filled in."""
    config = Config.parse({"algorithm": "sparse_dfop", "task": "regression"})
    assert config == Config.parse(config.to_json())
    expected = {"forgetting_rate": "auto", "compressed_dim": 100, "projection": "sign", "sparsity": 10}
    assert expected == {name: config.params[name] for name in expected}
    assert find("sparse_dfop").state_bytes(Spec("regression", 100, config.params), 0) < 2**21


# ---------------------------------------------------------------- reading rows


def test_all_forms_of_a_row_agree():
    """Rows by name, as lists and as texts have the same bits; absent names are 0, a row without names is all 0."""
    schema = SparseSchema(0, d, "sign")
    names, values, _ = sparse_rows(40)
    expected = schema.lists(names, values)
    single = [schema.row(dict(zip(*row, strict=True))) for row in zip(names, values, strict=True)]
    assert_array_equal(expected, np.concatenate(single))
    assert_array_equal(expected, schema.lists(names, [[*map(repr, row)] for row in values], texts=True))
    assert_array_equal(np.zeros((2, d)), schema.lists([[], ["a"]], [[], [0]]))
    assert_array_equal(np.zeros((1, d)), schema.row({}))
    assert (0, d) == schema.lists([], []).shape


def test_names_are_texts():
    """Names are compared as texts; letters of any script and colons are allowed, and order does not matter."""
    schema = SparseSchema(0, d, "sign")
    assert not np.array_equal(schema.row({"1": 1}), schema.row({"01": 1}))
    assert_array_equal(schema.row({"größe": 2, "a:b": 1}), schema.lists([["größe", "a:b"]], [[2, 1]]))
    assert_allclose(schema.row({"a": 1, "b": 2.5, "c": 3}), schema.row({"c": 3, "b": 2.5, "a": 1}), rtol=1e-12)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"\ud800": 1}, "features.\ud800"),
        ({"x" * 201: 1}, f"features.{'x' * 201}"),
        *(({"a": odd}, "features.a") for odd in (math.nan, math.inf, 10**400)),
        ([1], "features"),
    ],
)
def test_an_invalid_row_is_refused(values, field):
    """Under their name; tests/service/rows/test_api_sparse.py has those that JSON can carry."""
    assert [field] == fields(SparseSchema(0, d, "sign").row, values)


@pytest.mark.parametrize(
    ("names", "values", "named"),
    [
        ([["a", "b"]], [["1", math.nan]], ["rows[0].values[0]", "rows[0].values[1]"]),
        ([["x"]] * 30, [[None]] * 30, [f"rows[{i}].values[0]" for i in range(20)]),
        ([["x"] * 100_001], [[1] * 100_001], ["rows"]),
    ],
)
def test_invalid_lists_are_refused(names, values, named):
    """Non-numbers, too many: the first 20 are named by position."""
    assert named == fields(SparseSchema(0, d, "sign").lists, names, values)


def test_a_request_that_would_take_seconds_is_refused():
    """Names times compressed_dim is bounded, with a lower bound for the Gaussian projection."""
    names = [["a"]] * 20_000
    found = problems(SparseSchema(0, 10_000, "gaussian").lists, names, [[1]] * 20_000)
    assert ("rows", "<= 10000 in one request") == (found[0].field, found[0].allowed)


def test_contributions_add_up():
    """The contributions of a row's names add up to the row's score; the largest values stay finite."""
    schema = SparseSchema(0, d, "sign")
    w = np.random.default_rng(0).normal(size=d)
    row = {name: 1.0 + at for at, name in enumerate(NAMES)}
    parts = schema.projection.contributions(row, w)
    assert NAMES == [*parts]
    assert_allclose(schema.row(row)[0] @ w, sum(parts.values()), rtol=1e-9)
    assert {} == schema.projection.contributions({}, w)
    assert all(map(math.isfinite, schema.projection.contributions({"a": 1.7e308}, w * 1e200).values()))


# ---------------------------------------------------------------- RECOVER


def sparse_weights(names, s, seed=0):
    rng = np.random.default_rng(seed)
    w = np.zeros(names)
    w[rng.choice(names, s, replace=False)] = rng.normal(size=s) + 0.1
    return w


def matrix(names, columns=100, seed=0):
    return SparseSchema(seed, columns, "sign").projection.columns([f"n{i}" for i in range(names)])


def test_ten_of_a_thousand_are_recovered_exactly():
    """The setting of section 6.2: s = 10, d = 100, D = 1000."""
    for seed in range(2):
        M, w = matrix(1000, seed=seed), sparse_weights(1000, 10, seed)
        found = recover(M, M @ w, 10)
        assert_allclose(w, found.weights, atol=1e-6)
        assert found.residual < 1e-6


def test_recovery_does_not_depend_on_the_scale():
    """Weights of size 1e-30 or 1e30 are found like weights of size 1."""
    M, w = matrix(300), sparse_weights(300, 5)
    for scale in (1e-30, 1e30, 1e250):
        assert_allclose(w, recover(M, M @ w * scale, 5).weights / scale, atol=1e-6)


def test_few_names_are_solved_by_least_squares():
    """With at most d names there is only one solution, whatever the sparsity."""
    M, w = matrix(80), np.random.default_rng(0).normal(size=80)
    assert_allclose(w, recover(M, M @ w, 80).weights, atol=1e-9)
    assert_allclose(w[:1], recover(M[:, :1], M[:, :1] @ w[:1], 1).weights)


def test_nothing_learned_is_nothing_recovered():
    """Zero weights are recovered as zero for every name."""
    found = recover(matrix(200), np.zeros(100), 5)
    assert (200, 0.0) == (int((found.weights == 0).sum()), found.residual)


def test_two_classes_are_one_problem():
    """The second class has the negative weights of the first; with more classes each has its own."""
    M, w = matrix(200), sparse_weights(200, 5)
    first, second = recover_all(M, np.stack([M @ -w, M @ w]), 5)
    assert_array_equal(-second.weights, first.weights)
    assert 3 == len(recover_all(M, np.stack([M @ w, M @ -w, M @ w * 0]), 5))
    assert [] == recover_all(M, np.empty((0, 100)), 5)


def test_a_sparsity_that_cannot_be_recovered_says_so():
    """With s = 30, d = 100 and 1000 names l1 minimisation fails; the refusal names the bound."""
    M, w = matrix(1000), sparse_weights(1000, 30)
    assert ("sparsity", "<= 14 for compressed_dim 100 and 1000 names") == problems(recover, M, M @ w, 30)[0][::2]


def test_names_that_do_not_explain_the_model_say_so():
    """Too few names, the wrong ones or dense weights: the refusal says that the names do not explain the model."""
    M, w = matrix(1000), sparse_weights(1000, 10)
    cases = [(M, w, 1), (M[:, w == 0][:, :50], None, 10), (M, np.random.default_rng(0).normal(size=1000), 10)]
    for columns, weights, s in cases:
        with pytest.raises(Invalid, match="does not explain the model"):
            recover(columns, M @ (w if weights is None else weights), s)


def test_bounds():
    """The largest s grows with d and falls with the number of names; up to d names it is their number."""
    assert [100, 14, 10] == [sparsity_bound(100, names) for names in (100, 1000, 4000)]
    assert [1, 1] == [sparsity_bound(1, 2), sparsity_bound(1, 1)]
    assert [10_000, 2000, 200] == [names_bound(columns) for columns in (100, 1000, 10_000)]
