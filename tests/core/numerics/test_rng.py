"""Draws are a function of seed, row and purpose, the same on every platform."""

import numpy as np
from numpy.testing import assert_array_equal

from core.numerics.rng import uniform
from tests.core.numerics.splitmix import mix, word


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


def test_draws_look_uniform_and_purposes_differ():
    """Mean 1/2, equal tenths, and no correlation between purposes, rows or seeds."""
    u = uniform(3, 0, 20_000, "one")
    assert 0.49 < u.mean() < 0.51
    assert np.histogram(u, 10, (0, 1))[0].min() > 1800
    for other in (uniform(3, 0, 20_000, "two"), uniform(4, 0, 20_000, "one"), uniform(3, 1, 20_000, "one")):
        assert abs(np.corrcoef(u, other)[0, 1]) < 0.03
