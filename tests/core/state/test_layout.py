"""Declared states: sizes, saving, loading, and refusals."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as numpy_arrays
from numpy.testing import assert_array_equal

from core.state.layout import (
    NOT_NEGATIVE,
    POSITIVE,
    WHOLE,
    Array,
    Holder,
    Layout,
    Range,
    Shares,
    Symmetric,
    Triangle,
    counts,
)
from tests.core.state.hostile import hostile

LAYOUT = Layout(
    weights=Array("m", "D", within=9.0, at="W"),
    covariance=Symmetric("D", diagonal=POSITIVE, at="Q"),
    factors=Triangle("K", "D", within=50.0, diagonal=POSITIVE),
    shares=Shares("K"),
    ranges=Array(2, "D", places={0: Range(high=0.0)}, axis=0, ordered=[(0, 1)]),
    tally=Array(3, within=NOT_NEGATIVE, places={0: WHOLE}, ordered=[(1, 2)], at="counters"),
    curve=Array("n", within=Range(0.0, 1.0, undefined=True)),
)
SIZES = {"m": 2, "D": 3}


def holder():
    """A holder with arrays that LAYOUT allows."""
    Q = np.array([[4.0, 1.0, -0.0], [1.0, 5.0, 2.0], [-0.0, 2.0, 6.0]])
    factors = np.stack([np.triu(np.arange(1.0, 10.0).reshape(3, 3)), np.triu(np.full((3, 3), 7.0))])
    return SimpleNamespace(
        W=np.arange(6.0).reshape(2, 3), Q=Q, factors=factors, shares=np.array([0.25, 0.75]),
        ranges=np.array([[-1.0, 0.0, -2.0], [1.0, 0.0, 3.0]]), counters=np.array([7.0, 0.5, 0.5]),
        curve=np.array([0.5, np.nan, 1.0]),
    )  # fmt: skip


def held(sizes):
    """A ``Holder`` of LAYOUT without arrays."""
    return type("Held", (Holder,), {"layout": LAYOUT, "_sizes": lambda _self, _found: sizes})()


def test_a_saved_state_is_loaded_bit_for_bit():
    """All attributes come back; both saved and loaded arrays are copies."""
    one, other = holder(), held(SIZES)
    arrays = LAYOUT.to_arrays(one)
    other.load_arrays(arrays, {})
    for array in arrays.values():
        array.fill(0.0)
    for name, array in vars(holder()).items():
        assert array.tobytes() == getattr(one, name).tobytes() == getattr(other, name).tobytes()


def test_matrices_travel_as_triangles():
    """Only the upper triangle is saved; loading a symmetric matrix fills the lower one."""
    one = holder()
    one.Q[np.tri(3, k=-1, dtype=bool)] = np.nan
    arrays = LAYOUT.to_arrays(one)
    assert_array_equal([4.0, 1.0, 0.0, 5.0, 2.0, 6.0], arrays["covariance"])
    assert_array_equal([1.0, 2.0, 3.0, 5.0, 6.0, 9.0], arrays["factors"][0])
    assert_array_equal(holder().Q, LAYOUT.read(arrays, **SIZES)["Q"])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12).flatmap(lambda d: numpy_arrays(np.float64, (d, d))))
def test_symmetric_matrices_come_back(A):
    """Bit for bit, including negative zeros, as copies."""
    Q, one = np.where(np.tri(len(A), dtype=bool), A, A.T), Symmetric("D")
    packed = one.pack(Q)
    assert not np.shares_memory(Q, packed)
    assert Q.tobytes() == one.unpack(packed).tobytes()


@pytest.mark.parametrize("sizes", [SIZES, {**SIZES, "K": 2, "n": 3}])
def test_every_break_of_a_declaration_is_refused(sizes):
    """Names, types, shapes and numbers; the holder stays unchanged."""
    arrays, other, tried = LAYOUT.to_arrays(holder()), held(sizes), 0
    for what, broken in hostile(LAYOUT, arrays, **sizes):
        try:
            other.load_arrays(broken, {})
        except ValueError:
            tried += 1
        else:
            pytest.fail(what)
    assert {} == vars(other)
    assert tried > 90


def test_numbers_at_the_ends_of_a_range_are_allowed():
    """Ranges include their ends."""
    arrays = LAYOUT.to_arrays(holder())
    arrays["weights"][:] = [[9.0, -9.0, 0.0]] * 2
    arrays["tally"][:] = [2.0**53 - 1.0, 0.0, 0.0]
    arrays["factors"][1] = 5e-324
    assert {"W", "Q", "factors", "shares", "ranges", "counters", "curve"} == set(LAYOUT.read(arrays, **SIZES))


def test_free_sizes_may_be_any_and_none():
    """An array without rows has a free size of 0; arrays that share a size must agree."""
    one = holder()
    one.curve = np.zeros(0)
    assert (0,) == LAYOUT.read(LAYOUT.to_arrays(one), **SIZES)["curve"].shape
    one.shares = np.array([0.2, 0.3, 0.5])
    with pytest.raises(ValueError):
        LAYOUT.read(LAYOUT.to_arrays(one), **SIZES)


def test_bytes_are_known_before_anything_is_held():
    """The sizes determine the bytes that a holder takes."""
    assert LAYOUT.held_bytes(holder()) == LAYOUT.bytes(**SIZES, K=2, n=3) == 8 * (6 + 9 + 18 + 2 + 6 + 3 + 3)


def test_a_layout_may_leave_out_arrays():
    """``without`` gives the layout of the rest."""
    rest = LAYOUT.without("curve", "tally")
    arrays = rest.to_arrays(holder())
    assert {"weights", "covariance", "factors", "shares", "ranges"} == set(arrays)
    with pytest.raises(ValueError):
        LAYOUT.read(arrays, **SIZES)


def test_counts_of_a_header():
    """It must contain exactly the requested integers; they are returned in the requested order."""
    assert (3, 0) == counts({"first": 0, "rows": 3}, rows=9, first=0)
    for broken in ({}, {"rows": 3, "first": 0, "more": 1}, {"rows": 10, "first": 0}, {"rows": -1, "first": 0},
                   {"rows": True, "first": 0}, {"rows": 3.0, "first": 0}, {"rows": 3, "first": None}):  # fmt: skip
        with pytest.raises(ValueError):
            counts(broken, rows=9, first=0)
