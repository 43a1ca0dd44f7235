"""A sealed state is loaded whole or refused, whatever happened to its bytes; safetensors is the reference."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from hypothesis.extra.numpy import arrays as numpy_arrays
from numpy.testing import assert_array_equal
from safetensors import numpy as library

from core.state.envelope import FORMAT, METADATA_KEY, PIECE_BYTES, dump, load, pieces

ARRAYS = {
    "w": np.array([[1.0, -0.0], [2.5, 1e-300]]),
    "n": np.arange(3.0),
    "nothing": np.empty((0, 2)),
    "scalar": np.array(-0.0),
}
HEADER = {
    "config": {"rate": 1e-06, "labels": ["é", 0, False, "", None], "name": "ü \u2028"},
    "state": {"rows": 3, "share": 1e22},
}
SEALED = dump(ARRAYS, HEADER)
SOME = numpy_arrays(np.float64, array_shapes(min_dims=0, min_side=0, max_side=4))
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(lambda name: name != "__metadata__")
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


def _json(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _header(packed):
    """The whole header of a state, read without the code under test."""
    length = int.from_bytes(packed[:8], "little")
    return json.loads(json.loads(packed[8 : 8 + length])["__metadata__"][METADATA_KEY])


def _same(one, other):
    assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


# ---------------------------------------------------------------- round trip


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(NAMES, SOME, max_size=5), st.dictionaries(TEXTS, TEXTS, max_size=3))
def test_the_bytes_equal_those_of_safetensors(arrays, state):
    """For any names, shapes, numbers and texts, the bytes are what safetensors writes and reads."""
    packed = dump(arrays, {"state": state})
    assert library.save(arrays, metadata={METADATA_KEY: _json(_header(packed))}) == packed
    found, header = load(packed)
    assert ({"state": state}, sorted(arrays)) == (header, list(found))
    for name, array in library.load(packed).items():
        _same(array, found[name])


def test_views_are_packed_by_value():
    """A transposed or strided view is packed as the array it shows, even if it is larger than one piece."""
    A = np.random.default_rng(0).normal(size=(600, 700))
    arrays, _ = load(dump({"A": A, "transposed": A.T, "strided": A[:, ::2]}, {}))
    assert_array_equal(A, arrays["A"])
    assert_array_equal(A.T, arrays["transposed"])
    assert_array_equal(A[:, ::2], arrays["strided"])


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_loaded_arrays_are_views_that_cannot_be_written_to(kind):
    """Bit for bit, contiguous, aligned, read-only, whatever buffer holds the bytes; the header is the same."""
    packed = kind(SEALED)
    arrays, header = load(packed)
    assert HEADER == header
    for name, array in arrays.items():
        _same(ARRAYS[name], array)
        assert not array.flags.writeable
        assert array.flags.c_contiguous
        assert array.flags.aligned
    assert np.shares_memory(arrays["w"], np.frombuffer(packed, dtype=np.uint8))


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES // 8, PIECE_BYTES // 8 + 1, 3 * PIECE_BYTES // 8])
def test_arrays_are_cut_into_bounded_pieces(size):
    """Joined they are the array, and none is longer than the bound."""
    array = np.arange(float(size))
    _, *cut = pieces({"a": array}, {})
    assert array.tobytes() == b"".join(cut)
    assert all(0 < len(piece) <= PIECE_BYTES for piece in cut)


@pytest.mark.parametrize("dtype", ["datetime64[s]", "c16", "O", ">f8", "U3", "<f4", "<i8", "?"])
def test_other_types_are_not_written(dtype):
    """Objects, text, complex numbers, another byte order: types that a state never has."""
    with pytest.raises(ValueError, match="cannot be packed"):
        dump({"x": np.zeros(2, dtype=dtype)}, {})


def test_a_header_that_is_not_json_is_not_packed():
    """A header cannot contain NaN."""
    with pytest.raises(ValueError):
        dump({}, {"a": float("nan")})


# ---------------------------------------------------------------- damaged


@pytest.mark.parametrize("bit", range(8))
def test_no_bit_can_be_flipped(bit):
    """Neither in the arrays, the header or the lengths, nor in a place that JSON would ignore."""
    for at in range(len(SEALED)):
        changed = bytearray(SEALED)
        changed[at] ^= 1 << bit
        with pytest.raises(ValueError):
            load(bytes(changed))


def test_no_byte_may_be_missing_or_added():
    """A truncated state is refused at every length, and so is one with a trailing byte."""
    for length in range(len(SEALED)):
        with pytest.raises(ValueError):
            load(SEALED[:length])
    with pytest.raises(ValueError):
        load(SEALED + b"\0")


# ---------------------------------------------------------------- edited


def _resealed(change):
    """The state with a change, written by the library."""
    arrays, header = library.load(SEALED), _header(SEALED)
    change(arrays, header)
    return library.save(arrays, metadata={METADATA_KEY: _json(header)})


@pytest.mark.parametrize(
    ("told", "change"),
    [
        ("digest", lambda arrays, header: arrays.update(v=arrays.pop("w"))),
        ("digest", lambda arrays, header: arrays.update(w=arrays["w"].reshape(4))),
        ("digest", lambda arrays, header: arrays.update(n=arrays["n"][::-1].copy())),
        ("digest", lambda arrays, header: arrays.pop("nothing")),
        ("digest", lambda arrays, header: header["config"].update(rate=2e-06)),
        ("digest", lambda arrays, header: header.pop("digest")),
        ("not a state", lambda arrays, header: arrays.update(n=arrays["n"].view(np.int64))),
    ],
)
def test_any_other_content_is_refused(told, change):
    """The digest covers names, shapes and numbers of arrays, and every field of the header; other types are refused."""
    with pytest.raises(ValueError, match=told):
        load(_resealed(change))


@pytest.mark.parametrize(
    ("written", "told"),
    [
        *((value, f"format {value}, this version reads {FORMAT}") for value in (0, 8)),
        *((value, f"format unknown, this version reads {FORMAT}")
          for value in (10**6, True, str(FORMAT), None, float(FORMAT))),
        *((value, f"^this state has format {value} of a development version; this one reads format {FORMAT} only$")
          for value in range(2, 8)),
    ],
)  # fmt: skip
def test_another_format_is_refused_by_name(written, told):
    """A newer format, no number or that of a development version: the error names what was found and what is read."""
    with pytest.raises(ValueError, match=told):
        load(_resealed(lambda _, header: header.update(format=written)))


# ---------------------------------------------------------------- foreign


@pytest.mark.parametrize(
    "foreign",
    [
        b"{}",
        b"\x80\x04pickle",
        b"\xff" * 64,
        json.dumps(HEADER).encode(),
        library.save({"weight": np.zeros(3)}),
        library.save({"weight": np.zeros(3)}, metadata={"format": "pt"}),
        *(
            library.save({"weight": np.zeros(3)}, metadata={METADATA_KEY: text})
            for text in ("[1]", "x", '{"a":NaN}', '{"a":1E3}', '{"a":1e999}', '{"a": 1}', '{"b":1,"a":1}', "[" * 10**5)
        ),
    ],
)
def test_foreign_bytes_are_refused(foreign):
    """Other JSON, other safetensors, a header that is not in canonical form."""
    with pytest.raises(ValueError, match="not a state"):
        load(foreign)


def _framed(described, buffer=b"\0" * 72):
    """A safetensors frame around any JSON."""
    text = described if isinstance(described, bytes) else json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + buffer


META = {"__metadata__": {METADATA_KEY: "{}"}}


def _tensor(**changes):
    return {**META, "w": {"dtype": "F64", "shape": [9], "data_offsets": [0, 72], **changes}}


COMPACT = _framed(_tensor())
HUGE = [2**64, 2**64]


@pytest.mark.parametrize(
    "hostile",
    [
        *(b"", b"\0" * 7, b"\0" * 8, b"\xff" * 8, COMPACT[:8], COMPACT[:-1], COMPACT + b"\0"),
        struct.pack("<Q", 2**63) + COMPACT[8:],
        *(_framed(text) for text in (b"null", b"[]", b"{}", b"\xff\xfe", b"[" * 100_000)),
        *(_framed({"__metadata__": own}) for own in (None, {METADATA_KEY: 1}, {METADATA_KEY: "{}", "more": ""})),
        _framed({**_tensor(), "__metadata__": {"other": ""}}),
        *(_framed({**META, "w": tensor}) for tensor in (None, [])),
        _framed({**_tensor(), "more": {"dtype": "F64", "shape": [1]}}),
        _framed(_tensor(more=1)),
        *(_framed(_tensor(dtype=dtype)) for dtype in ("F32", "X99", ["F64"])),
        *(
            _framed(_tensor(shape=shape))
            for shape in (None, 9, [8], [-9], [-3, -3], [9.0], ["9"], [True, 9], [1] * 65, HUGE, [2**62], [0, 2**200])
        ),
        *(_framed(_tensor(data_offsets=offsets)) for offsets in ([8, 80], [72, 0], [0, 64])),
        _framed({**_tensor(), "v": {"dtype": "F64", "shape": [9], "data_offsets": [0, 72]}}),
        _framed(json.dumps(_tensor()).encode()),
        _framed(json.dumps(_tensor(), separators=(",", ":")).encode() + b" " * 8),
        _framed(json.dumps(_tensor(), separators=(",", ":")).replace('"w"', '"w":null,"w"').encode()),
        _framed(json.dumps(_tensor(), separators=(",", ":")).replace('"w"', '"\\u0077"').encode()),
    ],
)
def test_a_hostile_frame_is_refused(hostile):
    """Truncated, too long, overlapping, with gaps, with wrong sizes, or not in canonical form."""
    with pytest.raises(ValueError, match="not a state"):
        load(hostile)


def test_the_frame_of_the_test_is_read():
    """The base of the hostile frames is refused only for its format."""
    with pytest.raises(ValueError, match="format unknown"):
        load(COMPACT)
