"""Online scaling: it computes its definition, and no finite value breaks it."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from core.features.scaling import Scaler
from core.learners.parameters import SCALING
from core.state.envelope import dump

KINDS = ("standard", "robust", "minmax")


def standard(column):
    """A column's rows, each scaled by the mean and deviation of all rows up to it."""
    found = []
    for t in range(1, len(column) + 1):
        mean, deviation = column[:t].mean(), column[:t].std()
        found.append(np.clip((column[t - 1] - mean) / deviation, -10, 10) if deviation else 0.0)
    return np.array(found)


def robust(column):
    """A column's rows, scaled by the definition in ALGORITHMS."""
    found, m, v = [], 0.0, 0.0
    for t in range(1, len(column) + 1):
        x, seen = column[t - 1], column[:t]
        if t <= 20:
            m = np.median(seen)
            s = 1.4826 * np.median(np.abs(seen - m)) or seen.std()
            v = s * s
        if t == 20:
            clipped = np.clip(seen, m - 5 * s, m + 5 * s)
            m, v = clipped.mean(), clipped.var()
        if t > 20:
            inside = np.clip(x, m - 5 * math.sqrt(v), m + 5 * math.sqrt(v)) if v > 0 else x
            r = max(1 / t, 1 - 2 ** (-1 / 2000))
            d = inside - m
            m += r * d
            v = (1 - r) * (v + r * d * d)
        found.append(np.clip((x - m) / math.sqrt(v), -5, 5) if v > 0 else 0.0)
    return np.array(found)


def minmax(column):
    """A column's rows, each scaled by the smallest and largest value up to it."""
    seen = [column[:t] for t in range(1, len(column) + 1)]
    return np.array([(own[-1] - own.min()) / np.ptp(own) if np.ptp(own) else 0.0 for own in seen])


def table(rows, seed=0):
    """Normal, skewed, drifting, binary, constant, large and small columns, with outliers."""
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=rows)
    X = np.stack([
        normal,
        rng.exponential(size=rows) * 1e6,
        normal + np.arange(rows) / 300,
        (rng.random(rows) < 0.05).astype(float),
        np.full(rows, 2.0),
        normal * 1e-6 + 3.0,
        np.where(rng.random(rows) < 0.01, 1e8, normal),
    ], axis=1)  # fmt: skip
    return np.ascontiguousarray(X)


@pytest.mark.parametrize(("kind", "oracle"), [("standard", standard), ("robust", robust), ("minmax", minmax)])
def test_it_computes_its_definition(kind, oracle):
    """Every row of every kind of column equals that of the slow, literal form."""
    X = table(3000 if kind == "robust" else 500)  # its oldest rows fade from row 2886 on
    expected = np.stack([oracle(column) for column in X.T], axis=1)
    assert_allclose(expected, Scaler(kind, X.shape[1]).absorb(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_scale_returns_what_absorb_would_return(kind):
    """Each row is scaled as if it came next, at every stage; scaling alone changes nothing."""
    X = table(60)
    scaler = Scaler(kind, X.shape[1])
    for i in range(len(X)):
        before = dump(*scaler.to_arrays())
        seen = scaler.scale(X)
        assert before == dump(*scaler.to_arrays())
        assert_array_equal(scaler.absorb(X[i : i + 1]), seen[i : i + 1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1e-290, 1e-160, 1.0, 1e160, 1e300])
def test_units_do_not_matter(kind, size):
    """Columns of any scale give the same result, even if their squares would overflow or underflow."""
    X = np.random.default_rng(1).normal(size=(400, 3))
    assert_allclose(Scaler(kind, 3).absorb(X), Scaler(kind, 3).absorb(X * size), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [0.0, 0.1, 1e308, -1e-308, 5e-324])
def test_a_constant_column_is_zero(kind, value):
    """A column with a single value carries no information, whatever the value."""
    scaler = Scaler(kind, 1)
    assert_array_equal(np.zeros((500, 1)), scaler.absorb(np.full((500, 1), value)))
    assert_array_equal([1.0], scaler.affine()[1])


def test_one_wild_value_moves_robust_scaling_by_little():
    """After a value of 1e8 the next rows look almost as they would without it."""
    X = np.random.default_rng(2).normal(size=(1000, 1))
    spoiled = X.copy()
    spoiled[500] = 1e8
    expected, found = Scaler("robust", 1).absorb(X), Scaler("robust", 1).absorb(spoiled)
    assert 5.0 == found[500, 0]
    assert_allclose(expected[501:], found[501:], atol=0.1)


def test_robust_scaling_follows_drift():
    """Some half-lives after a change of level and width, columns have mean 0 and deviation 1 again."""
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(size=(10_000, 1)), 40.0 + 7.0 * rng.normal(size=(20_000, 1))])
    late = Scaler("robust", 1).absorb(X)[-5000:]
    assert_allclose([0.0, 1.0], [late.mean(), late.std()], atol=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_affine_is_the_scaling(kind):
    """Inside the limits a settled scaler is affine, apart from the small effect of the row itself."""
    X = np.random.default_rng(4).normal(size=(5000, 3)) * [1.0, 50.0, 1e-6] + [0.0, 7.0, 1.0]
    scaler = Scaler(kind, 3)
    scaler.absorb(X)
    centre, spread = scaler.affine()
    assert_allclose((X[:50] - centre) / spread, scaler.scale(X[:50]), atol=0.01)


def test_the_parameter_allows_the_kinds():
    """The choices of the parameter are exactly the kinds of scaling."""
    assert ("none", *KINDS) == SCALING.choices
    assert SCALING.default == SCALING.check(SCALING.default)


def test_declared_ends_stay():
    """Values outside are clipped and change nothing; a state with other ends is refused."""
    ranges = np.array([[0.0, np.nan, 1.0], [2.0, np.nan, 1.0]])
    scaler = Scaler("minmax", 3, ranges)
    assert_array_equal([[0.5, 0.0, 0.0]], scaler.absorb(np.array([[1.0, 5.0, 7.0]])))
    assert_array_equal([[1.0, 1.0, 0.0]], scaler.absorb(np.array([[9.0, 6.0, 7.0]])))
    assert_array_equal([[0.0, 0.5, 0.0]], scaler.scale(np.array([[-3.0, 5.5, 1.0]])))
    arrays, header = scaler.to_arrays()
    loaded = Scaler("minmax", 3, ranges)
    loaded.load_arrays(arrays, header)
    rows = np.array([[1.5, 8.0, 0.0], [0.1, 4.0, 2.0]])
    assert_array_equal(scaler.absorb(rows), loaded.absorb(rows))
    with pytest.raises(ValueError, match="declared ends"):
        Scaler("minmax", 3, ranges * 2).load_arrays(arrays, header)
