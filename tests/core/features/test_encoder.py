"""Between rows and learners: categories, missing values and their means, scaling, and the sample of learned rows."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from core.features.encoder import Encoder
from core.features.row_sample import NUMBERS_MAX, ROWS_MIN, RowSample, sample_bytes, sample_room
from core.features.scaling import Scaler
from core.learners.parameters import SCALING
from core.state.envelope import dump
from tests.core.features.schemas import FINITE, MIXED, NAN, schema


def oracle(features, rows):
    """Encoded rows by definition: each gap is filled with the mean of all earlier values of its column."""
    seen = [[] for _ in range(features.width)]
    encoded = []
    for row in rows:
        flat = []
        for feature, value in zip(features.features, row, strict=True):
            if math.isnan(value) or not feature.categories:
                flat += [value] * feature.width
            else:
                flat += [float(i == value) for i in range(feature.width)]
        encoded.append([math.fsum(s) / max(len(s), 1) if math.isnan(x) else x for s, x in zip(seen, flat, strict=True)])
        for s, x in zip(seen, flat, strict=True):
            if not math.isnan(x):
                s.append(x)
    return encoded


def test_missing_values_become_the_means_before_them():
    """Each row is filled with the plain means of the rows before it."""
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=60), rng.integers(0, 4, 60), rng.normal(size=60)])
    X[rng.random(X.shape) < 0.3] = NAN
    encoder = Encoder(schema(MIXED), "mean")
    assert np.allclose(oracle(schema(MIXED), X), encoder.encode(X, absorb=True), atol=1e-12)
    before = encoder.to_arrays()[0]["moments"].copy()
    assert np.allclose(before[1], encoder.encode(np.full((1, 3), NAN))[0])
    assert np.array_equal(before, encoder.to_arrays()[0]["moments"])


@given(st.lists(FINITE | st.sampled_from([1.7976931348623157e308, -1.7976931348623157e308]), min_size=1, max_size=30))
def test_no_finite_value_makes_a_mean_overflow(values):
    """The running mean of any finite values stays finite and within them."""
    encoder = Encoder(schema(["a"]), "mean")
    encoder.encode(np.array(values)[:, None], absorb=True)
    mean = float(encoder.encode(np.array([[NAN]]))[0, 0])
    slack = 1e-12 * max(abs(value) for value in values)
    assert min(values) - slack <= mean <= max(values) + slack


def test_nothing_to_encode_is_passed_through():
    """Complete numeric rows are returned without a copy, unless means are kept."""
    X = np.ones((2, 3))
    assert X is Encoder(schema(), "error").encode(X, absorb=True)
    assert X is Encoder(schema(), "mean").encode(X)
    assert X is not Encoder(schema(), "mean").encode(X, absorb=True)


@pytest.mark.parametrize("X", [[[1.0, 4.0, 1.0]], [[1.0, -2.0, 1.0]], [[1.0, -0.5, 1.0]]])
def test_an_impossible_category_is_an_error(X):
    """A category index out of range raises an error instead of corrupting anything."""
    with pytest.raises(ValueError, match="category"):
        Encoder(schema(MIXED), "error").encode(np.array(X), absorb=True)


def test_a_gap_read_before_gaps_were_refused_is_filled_as_before():
    """With 0, or with the means, which stay in use; an encoder that never accepted gaps fills with 0."""
    gap, row = np.full((1, 2), NAN), np.array([[4.0, 6.0]])
    for before, fill in (("error", 0.0), ("zero", 0.0), ("mean", 4.0)):
        encoder = Encoder(schema(["a", "b"]), before)
        encoder.encode(row, absorb=True)
        encoder.configure("error")
        assert fill == encoder.encode(gap, absorb=True)[0, 0]
        loaded = Encoder(schema(["a", "b"]), "error")
        loaded.load_arrays(*encoder.to_arrays())
        assert encoder.encode(gap).tobytes() == loaded.encode(gap).tobytes()


def test_means_start_when_they_fill_gaps():
    """Switching to "mean" starts the means; switching away drops them."""
    gap, encoder = np.full((1, 2), NAN), Encoder(schema(["a", "b"]), "zero")
    encoder.encode(np.array([[100.0, 100.0]]), absorb=True)
    encoder.configure("mean")
    assert [[0.0, 0.0]] == encoder.encode(gap).tolist()
    encoder.encode(np.array([[4.0, 6.0]]), absorb=True)
    assert [[4.0, 6.0]] == encoder.encode(gap).tolist()
    encoder.configure("zero")
    assert {} == encoder.to_arrays()[0]
    assert [[0.0, 0.0]] == encoder.encode(gap).tolist()


# -- scaling


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
    assert_allclose(expected, Scaler(kind, X.shape[1]).scale(X, absorb=True), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_scale_returns_what_absorb_would_return(kind):
    """Each row is scaled as if it came next, at every stage; scaling alone changes nothing."""
    X = table(60)
    scaler = Scaler(kind, X.shape[1])
    for i in range(len(X)):
        before = dump(*scaler.to_arrays())
        seen = scaler.scale(X)
        assert before == dump(*scaler.to_arrays())
        assert_array_equal(scaler.scale(X[i : i + 1], absorb=True), seen[i : i + 1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1e-290, 1e-160, 1.0, 1e160, 1e300])
def test_units_do_not_matter(kind, size):
    """Columns of any scale give the same result, even if their squares would overflow or underflow."""
    X = np.random.default_rng(1).normal(size=(400, 3))
    assert_allclose(
        Scaler(kind, 3).scale(X, absorb=True), Scaler(kind, 3).scale(X * size, absorb=True), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [0.0, 0.1, 1e308, -1e-308, 5e-324])
def test_a_constant_column_is_zero(kind, value):
    """A column with a single value carries no information, whatever the value."""
    scaler = Scaler(kind, 1)
    assert_array_equal(np.zeros((500, 1)), scaler.scale(np.full((500, 1), value), absorb=True))
    assert_array_equal([1.0], scaler.affine()[1])


@pytest.mark.parametrize("kind", KINDS)
def test_affine_is_the_scaling(kind):
    """Inside the limits a settled scaler is affine, apart from the small effect of the row itself."""
    X = np.random.default_rng(4).normal(size=(5000, 3)) * [1.0, 50.0, 1e-6] + [0.0, 7.0, 1.0]
    scaler = Scaler(kind, 3)
    scaler.scale(X, absorb=True)
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
    assert_array_equal([[0.5, 0.0, 0.0]], scaler.scale(np.array([[1.0, 5.0, 7.0]]), absorb=True))
    assert_array_equal([[1.0, 1.0, 0.0]], scaler.scale(np.array([[9.0, 6.0, 7.0]]), absorb=True))
    assert_array_equal([[0.0, 0.5, 0.0]], scaler.scale(np.array([[-3.0, 5.5, 1.0]])))
    arrays, header = scaler.to_arrays()
    loaded = Scaler("minmax", 3, ranges)
    loaded.load_arrays(arrays, header)
    rows = np.array([[1.5, 8.0, 0.0], [0.1, 4.0, 2.0]])
    assert_array_equal(scaler.scale(rows, absorb=True), loaded.scale(rows, absorb=True))
    with pytest.raises(ValueError, match="declared ends"):
        Scaler("minmax", 3, ranges * 2).load_arrays(arrays, header)


# -- the sample of rows


ROWS = np.arange(20_000.0)[:, None]


def test_every_row_is_equally_likely():
    """Over many seeds each tenth of the rows fills a tenth of the sample; no row is kept twice."""
    kept = []
    for seed in range(60):
        sample = RowSample(seed, 1)
        sample.absorb(ROWS)
        assert 256 == len(np.unique(sample.held))
        kept.append(sample.held[:, 0])
    share = np.histogram(np.concatenate(kept), bins=10, range=(0, len(ROWS)))[0] / (60 * 256)
    assert np.abs(share - 0.1).max() < 0.012  # five deviations


def test_wide_rows_take_bounded_memory():
    """Fewer wide rows are kept, and their bytes are known in advance."""
    for width in (1, 64, 65, 5000, 20_000):
        sample = RowSample(0, width)
        sample.absorb(np.zeros((300, width)))
        assert len(sample.held) == sample_room(width) >= ROWS_MIN
        assert sample.nbytes <= sample_bytes(width)
        assert sample.held.size <= max(NUMBERS_MAX, ROWS_MIN * width)
