"""A whole state as bytes that cannot be mistaken for anything else.

    safetensors( named arrays, header = {"format", "digest", "config", ...stamp..., "state": {...}} )

The digest covers every array (name, type, shape, bytes) and the rest of the header, so a truncated, edited or
foreign state is refused instead of being learned from. Equal states give equal bytes. A state of another format is
refused, whether older or newer.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from core.contract import Buffer, Header
from core.state import arrays as packing
from core.state import container

FORMAT = 7
"""Version of the layout; another one is refused, never guessed at."""


def dump(arrays: Mapping[str, NDArray[Any]], header: Header) -> bytes:
    """Arrays and header as bytes, with format version and digest.

    Args:
        arrays: named arrays of any shape and numeric type.
        header: JSON-able; must not hold "format" or "digest".
    """
    body = {"format": FORMAT, **header}
    return packing.pack(arrays, {**body, "digest": _digest(arrays, body)})


def load(data: Buffer) -> tuple[dict[str, NDArray[Any]], Header]:
    """Arrays and header of bytes that ``dump`` gave, in this version.

    Raises:
        ValueError: truncated, corrupt, not a state at all, or of another format version.
    """
    arrays, header = packing.unpack(data)
    found = header.pop("digest", None)
    written = header.get("format")
    if type(written) is not int or written != FORMAT:
        raise ValueError(f"state has format {written!r}, this version reads {FORMAT}")
    if found != _digest(arrays, header):
        raise ValueError("state is corrupt: its digest does not match its content")
    return arrays, header


def _digest(arrays: Mapping[str, NDArray[Any]], header: Header) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        for piece in container.pieces(array):  # hashing one lets other threads run
            digest.update(piece)
    digest.update(json.dumps(header, sort_keys=True).encode())
    return digest.hexdigest()
