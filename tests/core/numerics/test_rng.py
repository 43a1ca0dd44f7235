"""Draws, and random features made of them, follow from SplitMix64 with Python integers, the same on every platform."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from core.numerics.random_features import RandomFeatures, to_features
from core.numerics.rng import uniform

MASK = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15


def mix(z):
    """The finaliser."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def word(state, k=0):
    """The k-th word after a state; for a seed, k = 1 gives its first state."""
    return mix((state + k * GAMMA) & MASK)


def oracle(seed, row, purpose):
    """The equation with Python's integers."""
    return (mix(mix(word(seed, 1) ^ row) ^ purpose) >> 11) * 2.0**-53


def test_draws_follow_the_equation():
    """For seeds and rows at both ends of their ranges, with the purpose's word written in hexadecimal."""
    purpose = 0xD366D6A2B43BAD96
    for seed in (0, 1, 2**53 - 1):
        for row in (0, 1, 10**15):
            assert oracle(seed, row, purpose) == uniform(seed, row, 1, "test")[0]


def test_a_block_of_draws_is_its_rows():
    """A draw depends only on the absolute row number."""
    assert_array_equal(uniform(7, 100, 50, "x"), [uniform(7, 100 + i, 1, "x")[0] for i in range(50)])


# -- random features


def test_random_features_estimate_the_kernel():
    """Inner products of many features are near exp(-|z - z'|^2 / d), and rows keep their own columns."""
    Z = np.random.default_rng(0).normal(size=(30, 3))
    features = RandomFeatures(5, 3, 20_000)
    phi = features.expand(Z)
    assert_array_equal(Z, phi[:, :3])
    expected = np.exp(-((Z[:, None] - Z[None]) ** 2).sum(axis=2) / 3)
    assert_allclose(expected, phi[:, 3:] @ phi[:, 3:].T / 20_000, atol=0.05)


def test_random_features_are_drawn_as_documented():
    """The first draws of a seed, from integers and the formulas alone; another seed gives others."""

    def uniform(seed, k):
        return ((word(word(seed, 1) ^ 0x52616E646F6D4678, k) >> 11) + 0.5) * 2.0**-53

    features = RandomFeatures(7, 2, 3)
    assert_allclose([2 * np.pi * uniform(7, k) for k in (1, 2, 3)], features.phases, rtol=1e-15)
    radius, angle = np.sqrt(-2 * np.log(uniform(7, 4))), 2 * np.pi * uniform(7, 5)
    assert_allclose([radius * np.cos(angle), radius * np.sin(angle)], features.directions[:, 0], rtol=1e-14)
    assert (RandomFeatures(8, 2, 3).directions != features.directions).all()


@pytest.mark.parametrize("value", [0.0, 5e-324, 1e308, -1.7e308])
def test_random_features_of_wild_rows_are_finite(value):
    """Every feature stays within sqrt 2, up to round-off."""
    features = RandomFeatures(0, 4, 9).expand(np.full((1, 4), value))[:, 4:]
    assert np.abs(features).max() <= np.sqrt(2.0) * (1.0 + 1e-15)


@pytest.mark.parametrize("count", [1, 7, 100])
def test_features_are_cosines(count):
    """They equal NumPy's, for small and large angles, however many are computed together."""
    for size in (1.0, 1e3, 1e7):
        angles = np.random.default_rng(0).normal(size=count) * size
        found = angles.copy()
        to_features(found)
        assert_allclose(np.sqrt(2.0) * np.cos(angles), found, rtol=0, atol=1e-14)
        alone = angles[:1].copy()
        to_features(alone)
        assert found[0] == alone[0]
