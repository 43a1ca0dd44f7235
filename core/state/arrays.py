"""A state as bytes: named arrays plus a small header, and back.

    bytes = safetensors( arrays by name, metadata {"onepass": compact JSON with sorted keys} )

The order of the arrays in the file is fixed (core.state.container) and one metadata key cannot be reordered, so the
same arrays and header give the same bytes whatever order they were collected in. A state can then be compared, and
written by two replicas at once, as bytes.

Symmetric matrices travel as their lower triangle, row by row: half the bytes, and exactly symmetric again when read.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from core.contract import Buffer, Floats, Header
from core.state import container


def pack(arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> bytes:
    """Arrays and header as bytes; the same content gives the same bytes.

    Args:
        arrays: numeric arrays of any shape, by name.
        header: JSON-able; numbers in it are finite.

    Raises:
        ValueError: the header holds NaN or infinity, or an array is of a type that safetensors does not know.
        TypeError: the header holds something that JSON does not know.
    """
    return container.write(arrays, json.dumps(dict(header), sort_keys=True, separators=(",", ":"), allow_nan=False))


def unpack(packed: Buffer) -> tuple[dict[str, NDArray[Any]], Header]:
    """The arrays and the header of ``pack``: read-only views of the bytes, sorted by name.

    Raises:
        ValueError: the bytes are truncated, are not a packed state, or hold no JSON object as their header.
    """
    arrays, text = container.read(packed)
    return arrays, _header(text)


def _header(text: str) -> Header:
    """The header that ``pack`` wrote as this text."""
    try:
        header = json.loads(text, parse_constant=_refuse_constant)
        canonical = json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the state has no readable header: {error}") from error
    if not isinstance(header, dict):
        raise ValueError("the state's header is not a JSON object")  # noqa: TRY004 - corrupt content, not a caller's type error
    if text != canonical:  # 1E3 for 1e3 would say the same, and escape a digest of what it says
        raise ValueError("the state's header is not as it was written")
    return header


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def triangle(Q: Floats) -> Floats:
    """The lower triangle of a symmetric matrix, row by row.

    Args:
        Q: (d, d), exactly symmetric.

    Returns:
        (d (d + 1) / 2,), a copy.
    """
    packed: Floats = Q[np.tri(Q.shape[0], dtype=bool)]
    return packed


def symmetric(packed: Floats) -> Floats:
    """The symmetric matrix of ``triangle``, bit for bit.

    Raises:
        ValueError: not one-dimensional, or of a length that no triangle has.
    """
    d = (math.isqrt(8 * packed.size + 1) - 1) // 2
    if packed.ndim != 1 or d * (d + 1) // 2 != packed.size:
        raise ValueError("not a packed triangle")
    mask = np.tri(d, dtype=bool)
    Q = np.empty((d, d), dtype=packed.dtype)
    Q[mask] = packed
    Q.T[mask] = packed
    return Q
