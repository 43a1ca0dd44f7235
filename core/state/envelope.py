"""A whole state as bytes that cannot be mistaken for anything else.

    safetensors( named arrays, header = {"format", "digest", "config", ...stamp..., "state": {...}} )

The digest covers every array (name, type, shape, bytes) and the rest of the header, so a truncated, edited or
foreign state is refused instead of being learned from. Equal states give equal bytes. A state of an older format is
brought to this one, step by step, when it is read.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from core.contract import Buffer, Header
from core.state import arrays as packing
from core.state import container
from core.state.upgrades import UPGRADERS

FORMAT = 6
"""Version of the layout; a newer one is refused, never guessed at."""
OLDEST = 3
"""The oldest one that is read."""


def dump(arrays: Mapping[str, NDArray[Any]], header: Header) -> bytes:
    """Arrays and header as bytes, with format version and digest.

    Args:
        arrays: named arrays of any shape and numeric type.
        header: JSON-able; must not hold "format" or "digest".
    """
    body = {"format": FORMAT, **header}
    return packing.pack(arrays, {**body, "digest": _digest(arrays, body)})


def load(data: Buffer) -> tuple[dict[str, NDArray[Any]], Header]:
    """Arrays and header of bytes that ``dump`` gave, in this version or in an older one.

    Raises:
        ValueError: truncated, corrupt, not a state at all, or of a newer or too old a format version.
    """
    arrays, header = packing.unpack(data)
    found = header.pop("digest", None)
    written = header.get("format")
    if type(written) is not int or not OLDEST <= written <= FORMAT:
        read = f"{FORMAT}" if OLDEST == FORMAT else f"{OLDEST} to {FORMAT}"
        raise ValueError(f"state has format {written!r}, this version reads {read}")
    if found != _digest(arrays, header):
        raise ValueError("state is corrupt: its digest does not match its content")
    for former in range(written, FORMAT):
        try:
            arrays, header = UPGRADERS[former](arrays, header)
        except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise ValueError(f"state is not one of format {former}: {error!r}") from error
        header = {**header, "format": former + 1}
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
