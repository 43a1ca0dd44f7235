"""The safetensors container, compared with the library, and everything that it refuses."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from hypothesis.extra.numpy import arrays as numpy_arrays
from numpy.testing import assert_array_equal
from safetensors.numpy import load, save

from core.state.container import METADATA_KEY, PIECE_BYTES, pieces, read, write

TYPES = [np.bool_, *(f"<{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)), "<f2", "<f4", "<f8"]
SOME = st.sampled_from(TYPES).flatmap(
    lambda dtype: numpy_arrays(dtype, array_shapes(min_dims=0, min_side=0, max_side=4))
)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(lambda name: name != "__metadata__")
WEIGHTS = {"w": np.arange(6.0).reshape(2, 3), "n": np.arange(3, dtype=np.int64)}
PACKED = write(WEIGHTS, "{}")


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(NAMES, SOME, max_size=5), st.text(st.characters(codec="utf-8"), max_size=20))
def test_bytes_are_those_of_the_library(arrays, text):
    """Any names, types, shapes and text: what is written is what safetensors writes, and reads."""
    packed = write(arrays, text)
    assert save(arrays, metadata={METADATA_KEY: text}) == packed
    found, told = read(packed)
    assert (text, sorted(arrays)) == (told, list(found))
    for name, array in load(packed).items():
        assert (array.dtype, array.shape, array.tobytes()) == (
            found[name].dtype, found[name].shape, found[name].tobytes(),
        )  # fmt: skip


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
def test_arrays_are_cut_into_bounded_pieces(size):
    """Together they are the array, and none is longer than the bound."""
    array = np.arange(size, dtype=np.uint8)
    cut = [*pieces(array)]
    assert array.tobytes() == b"".join(cut)
    assert all(0 < len(piece) <= PIECE_BYTES for piece in cut)


def test_an_array_of_many_pieces_comes_back():
    """A matrix larger than one piece, and its transpose by value."""
    A = np.random.default_rng(0).normal(size=(600, 700))
    found, _ = read(write({"A": A, "transposed": A.T}, ""))
    assert_array_equal(A, found["A"])
    assert_array_equal(A.T, found["transposed"])


@pytest.mark.parametrize("dtype", ["datetime64[s]", "c16", "O", ">f8", "U3"])
def test_other_types_are_not_written(dtype):
    """Objects, text, complex numbers, another byte order."""
    with pytest.raises(ValueError, match="cannot be packed"):
        write({"x": np.zeros(2, dtype=dtype)}, "")


def _framed(described, buffer=b"\0" * 72):
    text = described if isinstance(described, bytes) else json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + buffer


META = {"__metadata__": {METADATA_KEY: "{}"}}


def _tensor(**changes):
    return {**META, "w": {"dtype": "F64", "shape": [9], "data_offsets": [0, 72], **changes}}


@pytest.mark.parametrize(
    "hostile",
    [
        b"",
        b"\0" * 7,
        b"\0" * 8,
        b"\xff" * 8,
        PACKED[:8],
        PACKED[:-1],
        PACKED + b"\0",
        struct.pack("<Q", 2**63) + PACKED[8:],
        _framed(b"null"),
        _framed(b"[]"),
        _framed(b"{}"),
        _framed(b"\xff\xfe"),
        _framed(b"[" * 100_000),
        _framed({"__metadata__": None}),
        _framed({"__metadata__": {METADATA_KEY: 1}}),
        _framed({"__metadata__": {METADATA_KEY: "{}", "more": ""}}),
        _framed({**_tensor(), "__metadata__": {"other": ""}}),
        _framed({**META, "w": None}),
        _framed({**META, "w": []}),
        _framed({**_tensor(), "more": {"dtype": "F64", "shape": [1]}}),
        _framed(_tensor(more=1)),
        _framed(_tensor(dtype="F32")),
        _framed(_tensor(dtype="X99")),
        _framed(_tensor(dtype=["F64"])),
        _framed(_tensor(shape=None)),
        _framed(_tensor(shape=9)),
        _framed(_tensor(shape=[8])),
        _framed(_tensor(shape=[-9])),
        _framed(_tensor(shape=[-3, -3])),
        _framed(_tensor(shape=[9.0])),
        _framed(_tensor(shape=["9"])),
        _framed(_tensor(shape=[True, 9])),
        _framed(_tensor(shape=[2**64, 2**64])),
        _framed(_tensor(shape=[0, 2**200])),
        _framed(_tensor(data_offsets=[8, 80])),
        _framed(_tensor(data_offsets=[72, 0])),
        _framed(_tensor(data_offsets=[0, 64])),
        _framed({**_tensor(), "v": {"dtype": "F64", "shape": [9], "data_offsets": [0, 72]}}),
        _framed(json.dumps(_tensor()).encode()),
        _framed(json.dumps(_tensor(), separators=(",", ":")).encode() + b" " * 8),
        _framed(json.dumps(_tensor(), separators=(",", ":")).replace('"w"', '"w":null,"w"').encode()),
        _framed(json.dumps(_tensor(), separators=(",", ":")).replace('"w"', '"\\u0077"').encode()),
    ],
)
def test_anything_else_is_refused(hostile):
    """Truncated, too long, overlapping, with gaps, of other sizes than it says, or written in another way."""
    with pytest.raises(ValueError):
        read(hostile)


def test_the_frame_of_the_test_is_read():
    """What the hostile frames are made from is itself no hostile one."""
    found, _ = read(_framed(_tensor()))
    assert (9,) == found["w"].shape
