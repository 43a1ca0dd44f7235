"""A sealed state is taken whole or refused, whatever happened to its bytes."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from core.state import arrays as packing
from core.state.envelope import FORMAT, dump, load

ARRAYS = {"w": np.array([[1.0, -0.0], [2.5, 1e-300]]), "n": np.arange(3, dtype=np.int64), "none": np.empty((0, 2))}
HEADER = {"config": {"rate": 1e-06, "labels": ["é", 0, False, ""]}, "state": {"rows": 3, "share": 1e22}}
SEALED = dump(ARRAYS, HEADER)


def test_what_was_sealed_comes_back():
    """Arrays bit for bit, types and shapes included, and the header as it was."""
    arrays, header = load(SEALED)
    assert {"format": FORMAT, **HEADER} == header
    assert sorted(ARRAYS) == list(arrays)
    for name, array in ARRAYS.items():
        assert (array.dtype, array.shape, array.tobytes()) == (
            arrays[name].dtype, arrays[name].shape, arrays[name].tobytes(),
        )  # fmt: skip


def test_equal_states_are_equal_bytes():
    """Whatever order arrays and names were collected in."""
    backwards = dump(dict(reversed(ARRAYS.items())), dict(reversed(HEADER.items())))
    assert SEALED == backwards
    assert SEALED == dump(*load(SEALED))


@pytest.mark.parametrize("bit", range(8))
def test_no_bit_can_be_flipped(bit):
    """Not in the arrays, not in the header, not in the lengths, not in a way that JSON would not notice."""
    for at in range(len(SEALED)):
        changed = bytearray(SEALED)
        changed[at] ^= 1 << bit
        with pytest.raises(ValueError):
            load(bytes(changed))


@given(at=st.integers(0, len(SEALED) - 1), mask=st.integers(1, 255))
def test_no_byte_can_be_changed_into_another_state(at, mask):
    """A changed byte is refused, or (white space in the padding) says exactly the same."""
    changed = bytearray(SEALED)
    changed[at] ^= mask
    try:
        found = load(bytes(changed))
    except ValueError:
        return
    assert SEALED == dump(*found)


def test_no_end_may_be_missing():
    """A truncated state is refused at every length, and so is one with something behind it."""
    for length in range(len(SEALED)):
        with pytest.raises(ValueError):
            load(SEALED[:length])
    with pytest.raises(ValueError):
        load(SEALED + b"\0")


def _resealed(change):
    arrays, header = packing.unpack(SEALED)
    change(arrays, header)
    return packing.pack(arrays, header)


def _renamed(arrays, header):
    arrays["v"] = arrays.pop("w")


def _reshaped(arrays, header):
    arrays["w"] = arrays["w"].reshape(4)


def _retyped(arrays, header):
    arrays["n"] = arrays["n"].view(np.float64)


def _dropped(arrays, header):
    del arrays["none"]


def _other_config(arrays, header):
    header["config"]["rate"] = 2e-06


def _without_digest(arrays, header):
    del header["digest"]


@pytest.mark.parametrize("change", [_renamed, _reshaped, _retyped, _dropped, _other_config, _without_digest])
def test_the_digest_covers_everything(change):
    """Names, shapes and types of arrays, and every word of the header."""
    with pytest.raises(ValueError, match="digest"):
        load(_resealed(change))


@pytest.mark.parametrize("written", [FORMAT - 1, FORMAT + 1, True, str(FORMAT), None, float(FORMAT)])
def test_another_format_is_refused_by_name(written):
    """Older, newer or no number: it is not guessed at; the error says which one was found and which is read."""

    def change(arrays, header):
        header["format"] = written

    with pytest.raises(ValueError, match=rf"format {written!r}, this version reads {FORMAT}"):
        load(_resealed(change))


@pytest.mark.parametrize(
    "foreign",
    [
        b"",
        b"{}",
        json.dumps(HEADER).encode(),
        save({"weight": np.zeros(3)}),
        save({"weight": np.zeros(3)}, metadata={"format": "pt"}),
        save({"weight": np.zeros(3)}, metadata={"onepass": "[1]"}),
        save({"weight": np.zeros(3)}, metadata={"onepass": "not json"}),
    ],
)
def test_what_is_no_state_is_refused(foreign):
    """Other JSON, other safetensors, nothing at all."""
    with pytest.raises(ValueError):
        load(foreign)
