"""A state as bytes: named arrays and a JSON header in a safetensors file, with a digest over both.

    8 bytes    length of the head, little-endian
    head       JSON {"__metadata__": {"onepass": header}, NAME: {"dtype": "F64", "shape", "data_offsets"}, ...}, padded
               with spaces to a multiple of 8 bytes; the header is a text, compact JSON with sorted keys:
               {"format", "digest", "config", ...stamp..., "state": {...}}
    buffer     the arrays without gaps, in the order of their names

Equal states give equal bytes, and only these bytes are read: a state that is truncated, edited, foreign or of another
format is refused instead of being learned from. The safetensors library writes and reads the same bytes. It is not used
here, because it copies arrays of any size without letting another thread run, and needs twice the memory. The state
of a holder with parts is flat: the arrays of a part are named ``part.name``.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.contract import Buffer, Header

FORMAT = 1
"""Version of the layout; any other is refused, never guessed. The next one is 8."""
_FORMATS = 10**6
DEVELOPMENT_FORMATS = range(2, 8)  # formats of versions before the first release
METADATA_KEY = "onepass"
PIECE_BYTES = 2**20  # most bytes that are copied at a time while other threads wait
HEAD_BYTES_MAX = 100_000_000  # longest head, as in the library
_LENGTH_BYTES = 8


def dump(arrays: Mapping[str, NDArray[Any]], header: Header) -> bytes:
    """Arrays (float64, of any shape) and header as bytes, with format version and digest; equal ones give equal bytes.

    ``ValueError`` if the header has NaN or infinity, an array is not float64, or a name is not valid Unicode;
    ``TypeError`` if the header has a value that JSON does not support.
    """
    body = {"format": FORMAT, **header}
    packed = BytesIO()
    packed.writelines(pieces(arrays, {**body, "digest": _digest(arrays, body)}))
    return packed.getvalue()


def load(data: Buffer) -> tuple[dict[str, NDArray[Any]], Header]:
    """The arrays and header that ``dump`` wrote; the arrays are read-only views of the bytes, sorted by name.

    ``ValueError`` if the bytes are truncated, corrupt, not a state at all, or of another format version.
    """
    arrays, header = _read(memoryview(data).toreadonly())
    digest, written = header.pop("digest", None), header.get("format")
    if written in DEVELOPMENT_FORMATS:
        raise ValueError(
            f"this state has format {written} of a development version; this one reads format {FORMAT} only"
        )
    if type(written) is not int or written != FORMAT:
        named = written if type(written) is int and 0 <= written < _FORMATS else "unknown"  # never repeat other values
        raise ValueError(f"state has format {named}, this version reads {FORMAT}")
    if digest != _digest(arrays, header):
        raise ValueError("state is corrupt: its digest does not match its content")
    del header["format"]
    return arrays, header


def pieces(arrays: Mapping[str, NDArray[Any]], header: object) -> Iterator[bytes | memoryview]:
    """The bytes of a state: its length and head, then the arrays in C order, at most ``PIECE_BYTES`` at a time."""
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False)
    described: dict[str, Any] = {"__metadata__": {METADATA_KEY: text}}
    end = 0
    for name in sorted(arrays):
        if arrays[name].dtype != np.float64:
            raise ValueError(f"an array of type {arrays[name].dtype} cannot be packed")
        start, end = end, end + arrays[name].nbytes
        described[name] = {"dtype": "F64", "shape": arrays[name].shape, "data_offsets": (start, end)}
    head = json.dumps(described, ensure_ascii=False, separators=(",", ":")).encode()
    head += b" " * (-len(head) % _LENGTH_BYTES)
    yield len(head).to_bytes(_LENGTH_BYTES, "little") + head
    for name in sorted(arrays):
        plain = np.asarray(arrays[name], order="C").reshape(-1).view(np.uint8).data
        for at in range(0, len(plain), PIECE_BYTES):
            yield plain[at : at + PIECE_BYTES]


def _digest(arrays: Mapping[str, NDArray[Any]], header: Header) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for piece in pieces(arrays, header):
        digest.update(piece)
    return digest.hexdigest()


def _read(view: memoryview) -> tuple[dict[str, NDArray[Any]], Header]:
    """Arrays and header of bytes that ``pieces`` can produce; ``ValueError`` for others."""
    end = _LENGTH_BYTES + min(int.from_bytes(view[:_LENGTH_BYTES], "little"), HEAD_BYTES_MAX)
    try:
        described = json.loads(bytes(view[_LENGTH_BYTES:end]))
        header = json.loads(described.pop("__metadata__")[METADATA_KEY])
        arrays, at = {}, end
        for name, each in described.items():
            arrays[name] = np.ndarray(each["shape"], np.float64, view, at)
            at += arrays[name].nbytes
        head = next(pieces(arrays, header))
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise ValueError("not a state: its head cannot be read") from error
    if not isinstance(header, dict) or view[:end] != head or len(view) != at:
        raise ValueError("not a state: it has been modified")
    return arrays, header


def flatten(parts: Mapping[str, Any]) -> tuple[dict[str, NDArray[Any]], Header]:
    """The states of named parts as one: arrays as ``part.name``, headers by part."""
    states = {part: holder.to_arrays() for part, holder in parts.items()}
    arrays = {f"{part}.{name}": array for part, (own, _) in states.items() for name, array in own.items()}
    return arrays, {part: header for part, (_, header) in states.items()}


def unflatten(parts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
    """Load named parts from the result of ``flatten``; raises ``ValueError`` if it is not the state of these parts."""
    if any(name.partition(".")[0] not in parts for name in arrays):
        raise ValueError("the state has parts that this model does not have")
    for part, holder in parts.items():
        start = f"{part}."
        own = {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
        holder.load_arrays(own, header[part])


class Nested(ABC):
    """A holder whose state is the state of its parts."""

    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """The existing parts, by their names in a state."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return sum(part.nbytes for part in self.parts().values())

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state of the parts, each under its name."""
        return flatten(self.parts())

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Any) -> None:
        """Load a state from ``to_arrays``; after a ``ValueError`` the holder is unusable."""
        parts = self.parts()
        if not isinstance(header, dict) or header.keys() != parts.keys():
            raise ValueError(f"the state must have exactly the parts {sorted(parts)}")
        unflatten(parts, arrays, header)
