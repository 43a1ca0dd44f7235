"""The safetensors container: named arrays and one text as bytes, and back.

    8 bytes    length of the head, little-endian
    head       JSON {"__metadata__": {"onepass": text}, NAME: {"dtype", "shape", "data_offsets"}, ...}, padded with
               spaces to a multiple of 8 bytes
    buffer     the arrays without gaps, in the order of the head: by type (``_TYPES``), then by name

The bytes are those of the safetensors library, which can read them. It is not used here, since it copies an array of
any size without letting another thread run; here no step that holds the interpreter is longer than a copy of
``PIECE_BYTES``. What is read has to be, byte for byte, what ``write`` gives for the same arrays and text.
"""

import json
import math
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.contract import Buffer

METADATA_KEY = "onepass"
PIECE_BYTES = 2**20
"""Most bytes that are copied at a time while other threads wait."""
HEAD_BYTES_MAX = 100_000_000
"""Longest head, as in the library."""
_LENGTH_BYTES = 8
_TYPES = {
    np.dtype(code): name
    for code, name in {
        "|b1": "BOOL", "|u1": "U8", "|i1": "I8", "<i2": "I16", "<u2": "U16", "<f2": "F16", "<i4": "I32", "<u4": "U32",
        "<f4": "F32", "<f8": "F64", "<i8": "I64", "<u8": "U64",
    }.items()
}  # fmt: skip
_NAMED = {name: dtype for dtype, name in _TYPES.items()}
_RANKS = {name: rank for rank, name in enumerate(_TYPES.values())}

Kind = tuple[str, tuple[int, ...]]
"""Type, by its name in the head, and shape of an array."""


def write(arrays: Mapping[str, NDArray[Any]], text: str) -> bytes:
    """Arrays and text as bytes; the same content gives the same bytes.

    Raises:
        ValueError: an array is of a type that the format does not know, or a name or the text is no Unicode.
    """
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    try:
        kinds = {name: (_TYPES[array.dtype], array.shape) for name, array in contiguous.items()}
    except KeyError as error:
        raise ValueError(f"arrays of type {error} cannot be packed") from error
    packed = BytesIO()
    packed.write(_head(kinds, text))
    for name in _in_order(kinds):
        for piece in pieces(contiguous[name]):
            packed.write(piece)
    return packed.getvalue()


def read(packed: Buffer) -> tuple[dict[str, NDArray[Any]], str]:
    """The arrays, by name and in the order of their names, and the text.

    Args:
        packed: what ``write`` gave.

    Returns:
        Arrays that are read-only views of the bytes.

    Raises:
        ValueError: anything but what ``write`` gives.
    """
    view = memoryview(packed).toreadonly()
    length = int.from_bytes(view[:_LENGTH_BYTES], "little")
    start = _LENGTH_BYTES + length
    if len(view) < _LENGTH_BYTES or length > min(len(view) - _LENGTH_BYTES, HEAD_BYTES_MAX):
        raise ValueError("not a packed state: it is shorter than its head says")
    kinds, text = _described(bytes(view[_LENGTH_BYTES:start]))
    ends = _offsets(kinds)
    if view[:start] != _head(kinds, text) or len(view) != start + sum(map(_bytes, kinds.values())):
        raise ValueError("not a packed state: its head is not as it was written")
    return {
        name: np.frombuffer(view[start + ends[name][0] : start + ends[name][1]], _NAMED[kinds[name][0]]).reshape(
            kinds[name][1]
        )
        for name in sorted(kinds)
    }, text


def pieces(array: NDArray[Any]) -> Iterator[memoryview]:
    """The bytes of an array in C order, in pieces of at most ``PIECE_BYTES``, without a copy of one in that order."""
    plain = np.asarray(array, order="C").reshape(-1).view(np.uint8).data
    for at in range(0, len(plain), PIECE_BYTES):
        yield plain[at : at + PIECE_BYTES]


def _head(kinds: Mapping[str, Kind], text: str) -> bytes:
    """The length and the head."""
    described: dict[str, Any] = {"__metadata__": {METADATA_KEY: text}}
    for name, (low, high) in _offsets(kinds).items():
        dtype, shape = kinds[name]
        described[name] = {"dtype": dtype, "shape": shape, "data_offsets": (low, high)}
    head = json.dumps(described, ensure_ascii=False, separators=(",", ":")).encode()
    head += b" " * (-len(head) % _LENGTH_BYTES)
    return len(head).to_bytes(_LENGTH_BYTES, "little") + head


def _in_order(kinds: Mapping[str, Kind]) -> list[str]:
    """The names in the order of the buffer."""
    return sorted(kinds, key=lambda name: (-_RANKS[kinds[name][0]], name))


def _offsets(kinds: Mapping[str, Kind]) -> dict[str, tuple[int, int]]:
    """Where in the buffer each array begins and ends, in its order."""
    found, at = {}, 0
    for name in _in_order(kinds):
        found[name] = at, at + _bytes(kinds[name])
        at += _bytes(kinds[name])
    return found


def _bytes(kind: Kind) -> int:
    return _NAMED[kind[0]].itemsize * math.prod(kind[1])


def _described(head: bytes) -> tuple[dict[str, Kind], str]:
    """The kinds of the arrays and the text that a head names.

    Raises:
        ValueError: it cannot be a head.
    """
    try:
        described = json.loads(head.decode())
        text = described.pop("__metadata__")[METADATA_KEY]
        kinds = {name: (each["dtype"], tuple(each["shape"])) for name, each in described.items()}
        sizes = [size for _, shape in kinds.values() for size in shape]
        known = all(dtype in _NAMED for dtype, _ in kinds.values())
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"not a packed state: {error!r}") from error
    if type(text) is not str or not known or any(type(size) is not int or size < 0 for size in sizes):
        raise ValueError("not a packed state: its head describes no arrays")
    return kinds, text
