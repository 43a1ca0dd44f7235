"""States as bytes and back."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as numpy_arrays
from numpy.testing import assert_array_equal

from core.state.arrays import pack, symmetric, triangle, unpack
from core.state.container import METADATA_KEY

STATE = {
    "weights": np.arange(6.0).reshape(2, 3),
    "counts": np.array([1, -2, 3]),
    "flags": np.array([True, False]),
    "nothing": np.empty((0, 4)),
    "scalar": np.array(-0.0),
}
HEADER = {"classes": 2, "name": "ü \u2028", "nested": {"b": [1, None], "a": 0.1}}


def framed(described, body=b""):
    """Bytes with a safetensors frame around any JSON."""
    text = json.dumps(described).encode()
    return struct.pack("<Q", len(text)) + text + body


def test_round_trip():
    """Arrays of every kind and the header come back as they were, bit for bit."""
    arrays, header = unpack(pack(STATE, HEADER))
    assert HEADER == header
    assert sorted(STATE) == list(arrays)
    for name, array in STATE.items():
        assert array.dtype == arrays[name].dtype
        assert array.shape == arrays[name].shape
        assert array.tobytes() == arrays[name].tobytes()


def test_same_content_gives_the_same_bytes():
    """Neither the order of the arrays nor that of the header's keys shows in the bytes."""
    arrays = dict(reversed(STATE.items()))
    header = {"nested": {"a": 0.1, "b": [1, None]}, **dict(reversed(HEADER.items()))}
    assert pack(STATE, HEADER) == pack(arrays, header)


def test_views_are_packed_by_value():
    """A transposed or strided view is packed as the array it shows."""
    A = np.arange(12.0).reshape(3, 4)
    arrays, _ = unpack(pack({"transposed": A.T, "strided": A[:, ::2]}, {}))
    assert_array_equal(A.T, arrays["transposed"])
    assert_array_equal(A[:, ::2], arrays["strided"])


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_unpacked_arrays_are_views_that_cannot_be_written_to(kind):
    """What comes back is contiguous, aligned, of the bytes themselves and read-only, whatever buffer holds them."""
    packed = kind(pack(STATE, HEADER))
    arrays, _ = unpack(packed)
    for array in arrays.values():
        assert not array.flags.writeable
        assert array.flags.c_contiguous
        assert array.flags.aligned
    assert np.shares_memory(arrays["weights"], np.frombuffer(packed, dtype=np.uint8))


def test_every_truncation_is_refused():
    """No prefix of a packed state is a packed state."""
    packed = pack({"w": np.arange(3.0)}, {"a": 1})
    for length in range(len(packed)):
        with pytest.raises(ValueError):
            unpack(packed[:length])


@pytest.mark.parametrize(
    "corrupt",
    [
        b"\x80\x04pickle",
        b"\xff" * 64,
        pack(STATE, HEADER) + b"more",
        framed({}),
        framed({"__metadata__": {"other": "{}"}}),
        framed({"__metadata__": {METADATA_KEY: "not JSON"}}),
        framed({"__metadata__": {METADATA_KEY: "[1]"}}),
        framed({"__metadata__": {METADATA_KEY: '{"a": NaN}'}}),
        framed({"__metadata__": {METADATA_KEY: "[" * 100_000}}),
        framed({"w": {"dtype": "F64", "shape": [2], "data_offsets": [0, 8]}}, b"\0" * 8),
        framed({"w": {"dtype": "X99", "shape": [1], "data_offsets": [0, 8]}}, b"\0" * 8),
    ],
)
def test_corrupt_bytes_are_refused(corrupt):
    """Foreign, damaged or headerless bytes raise ValueError, never anything else."""
    with pytest.raises(ValueError):
        unpack(corrupt)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_refused(noise):
    """Random bytes raise ValueError, never anything else."""
    with pytest.raises(ValueError):
        unpack(noise)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 200), st.integers(0, 255))
def test_a_flipped_byte_is_refused_or_read(place, value):
    """A damaged byte is refused, or read as other content; it never raises anything else."""
    packed = bytearray(pack({"w": np.arange(9.0)}, {"a": 1}))
    packed[place % len(packed)] = value
    try:
        unpack(bytes(packed))
    except ValueError:
        return


def test_a_header_that_is_not_json_is_not_packed():
    """NaN has no place in a header."""
    with pytest.raises(ValueError):
        pack({}, {"a": float("nan")})


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12).flatmap(lambda d: numpy_arrays(np.float64, (d, d))))
def test_triangle_round_trip(A):
    """A symmetric matrix comes back bit for bit, negative zeros and all."""
    Q = np.where(np.tri(len(A), dtype=bool), A, A.T)
    assert Q.tobytes() == symmetric(triangle(Q)).tobytes()


def test_triangle_layout():
    """The lower triangle lies row by row; it is a copy."""
    Q = np.array([[1.0, 2.0, 4.0], [2.0, 3.0, 5.0], [4.0, 5.0, 6.0]])
    packed = triangle(Q)
    assert_array_equal([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], packed)
    assert not np.shares_memory(Q, packed)


@pytest.mark.parametrize("packed", [np.zeros(2), np.zeros(5), np.zeros((3, 1))])
def test_no_triangle_has_this_shape(packed):
    """Lengths that are not d (d + 1) / 2 are refused."""
    with pytest.raises(ValueError):
        symmetric(packed)
