"""Encoding: categories as ones and zeros, missing values filled in, means as state."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.features.encoder import Encoder
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
    assert np.allclose(oracle(schema(MIXED), X), encoder.absorb(X), atol=1e-12)
    before = encoder.to_arrays()[0]["moments"].copy()
    assert np.allclose(before[1], encoder.encode(np.full((1, 3), NAN))[0])
    assert np.array_equal(before, encoder.to_arrays()[0]["moments"])


@given(st.lists(FINITE | st.sampled_from([1.7976931348623157e308, -1.7976931348623157e308]), min_size=1, max_size=30))
def test_no_finite_value_makes_a_mean_overflow(values):
    """The running mean of any finite values stays finite and within them."""
    encoder = Encoder(schema(["a"]), "mean")
    encoder.absorb(np.array(values)[:, None])
    mean = float(encoder.encode(np.array([[NAN]]))[0, 0])
    slack = 1e-12 * max(abs(value) for value in values)
    assert min(values) - slack <= mean <= max(values) + slack


def test_nothing_to_encode_is_passed_through():
    """Complete numeric rows are returned without a copy, unless means are kept."""
    X = np.ones((2, 3))
    assert X is Encoder(schema(), "error").absorb(X)
    assert X is Encoder(schema(), "mean").encode(X)
    assert X is not Encoder(schema(), "mean").absorb(X)


@pytest.mark.parametrize("X", [[[1.0, 4.0, 1.0]], [[1.0, -2.0, 1.0]], [[1.0, -0.5, 1.0]]])
def test_an_impossible_category_is_an_error(X):
    """A category index out of range raises an error instead of corrupting anything."""
    with pytest.raises(ValueError, match="category"):
        Encoder(schema(MIXED), "error").absorb(np.array(X))


def test_a_gap_read_before_gaps_were_refused_is_filled_as_before():
    """With 0, or with the means, which stay in use; an encoder that never accepted gaps fills with 0."""
    gap, row = np.full((1, 2), NAN), np.array([[4.0, 6.0]])
    for before, fill in (("error", 0.0), ("zero", 0.0), ("mean", 4.0)):
        encoder = Encoder(schema(["a", "b"]), before)
        encoder.absorb(row)
        encoder.configure("error")
        assert fill == encoder.absorb(gap)[0, 0]
        loaded = Encoder(schema(["a", "b"]), "error")
        loaded.load_arrays(*encoder.to_arrays())
        assert encoder.encode(gap).tobytes() == loaded.encode(gap).tobytes()


def test_means_start_when_they_fill_gaps():
    """Switching to "mean" starts the means; switching away drops them."""
    gap, encoder = np.full((1, 2), NAN), Encoder(schema(["a", "b"]), "zero")
    encoder.absorb(np.array([[100.0, 100.0]]))
    encoder.configure("mean")
    assert [[0.0, 0.0]] == encoder.encode(gap).tolist()
    encoder.absorb(np.array([[4.0, 6.0]]))
    assert [[4.0, 6.0]] == encoder.encode(gap).tolist()
    encoder.configure("zero")
    assert {} == encoder.to_arrays()[0]
    assert [[0.0, 0.0]] == encoder.encode(gap).tolist()
