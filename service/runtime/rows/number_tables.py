"""Tables of numbers become arrays without a Python call per cell: msgspec packs the cells, NumPy checks their bytes.

Both functions give None where a cell is no plain number, right or wrong: the schema then reads the table cell by cell,
and names what is wrong with it. Every array they give holds what that reading would.

The packing is MessagePack: an array of n rows, each a header and ``width`` cells; a float64 is the byte 0xCB and eight
more, big-endian. So a table of floats has rows of one size, and one comparison of bytes shows that it is one.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from core.contract import Floats
from core.features.parsing import MISSING_TEXTS

ROWS_AT_ONCE = 2048
"""A thread that reads a large table holds the interpreter for as long as so many rows take."""
_FLOAT = 0xCB
_EMPTY = frozenset({""})
_UNPACKABLE = (OverflowError, RecursionError, UnicodeEncodeError)
"""An integer of more than 64 bits; lists in lists; half a surrogate pair."""
_pack = msgspec.msgpack.Encoder().encode
_rows, _rows_with_null = msgspec.json.Decoder(list[list[float]]), msgspec.json.Decoder(list[list[float | None]])
_MINUS_ZERO = re.compile(r"-0(?![.\d])")
"""JSON reads it as the integer 0, CSV as the float -0.0."""


def from_values(rows: Sequence[Sequence[Any]], width: int) -> Floats | None:
    """Rows of finite numbers as (n, width); None where a row is longer or shorter, or holds anything else."""
    return _joined(_of_values(part, width) for part in _parts(rows))


def from_texts(rows: Sequence[Sequence[str]], width: int, missing_allowed: bool) -> Floats | None:
    """Rows of CSV texts that are numbers as JSON writes them, as (n, width), missing ones as NaN where that is allowed.

    None where a row is longer or shorter, or holds anything else.
    """
    return _joined(_of_texts(part, width, missing_allowed) for part in _parts(rows))


def _parts(rows: Sequence[Sequence[Any]]) -> Iterator[Sequence[Sequence[Any]]]:
    return (rows[begin : begin + ROWS_AT_ONCE] for begin in range(0, len(rows), ROWS_AT_ONCE))


def _joined(parts: Iterator[Floats | None]) -> Floats | None:
    """All parts as one array; None where there is none, or one of them is None."""
    found: list[Floats] = []
    for part in parts:
        if part is None:
            return None
        found.append(part)
    if len(found) == 1:
        return found[0]
    return np.concatenate(found) if found else None


def _of_values(rows: Sequence[Sequence[Any]], width: int) -> Floats | None:
    if not {width}.issuperset(map(len, rows)):
        return None
    found = _packed(rows, width)
    if found is None:  # integers among them, perhaps
        with suppress(msgspec.ValidationError, *_UNPACKABLE):
            found = _packed(msgspec.convert(rows, list[list[float]]), width)
    return found


def _of_texts(rows: Sequence[Sequence[str]], width: int, missing_allowed: bool) -> Floats | None:
    missing = sum(row.count("") for row in rows) if missing_allowed else 0
    found = _of_numbers(rows, width, missing, _EMPTY)
    if found is None and missing_allowed:  # some are missing by a word, perhaps
        missing = sum(sum(map(MISSING_TEXTS.__contains__, row)) for row in rows)
        found = _of_numbers(rows, width, missing, MISSING_TEXTS) if missing else None
    return found


def _of_numbers(rows: Sequence[Sequence[str]], width: int, missing: int, words: frozenset[str]) -> Floats | None:
    """Rows of texts, of which ``missing`` are some words, and the others numbers."""
    cells: Iterable[Iterable[str]] = rows
    if missing:
        cells = (["null" if cell in words else cell for cell in row] for row in rows)
    joined = "],[".join(map(",".join, cells))
    try:
        numbers: list[list[Any]] = (_rows_with_null if missing else _rows).decode(f"[[{joined}]]")
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return None
    if len(numbers) != len(rows):  # '1],[2' in quotes would be two rows
        return None
    found = _with_null(numbers, width, missing) if missing else _packed(numbers, width)
    return None if found is None or (not found.all() and _MINUS_ZERO.search(joined)) else found


def _with_null(rows: Sequence[Sequence[float | None]], width: int, missing: int) -> Floats | None:
    """Rows of numbers as (n, width), null as NaN; None where they are others, or not as many nulls as missing texts."""
    if not {width}.issuperset(map(len, rows)) or sum(row.count(None) for row in rows) != missing:
        return None
    return np.array(rows, dtype=np.float64)


# ------------------------------------------------------------------------------------------------ MessagePack


def _packed(rows: Sequence[Sequence[Any]], width: int) -> Floats | None:
    """Rows of finite floats alone as (n, width); None for others."""
    try:
        packed = _pack(rows)
    except _UNPACKABLE:
        return None
    form, head = _row_form(width)
    start = len(_header(len(rows)))
    if not rows or not width or len(packed) != start + len(rows) * form.itemsize:
        return None
    table: NDArray[Any] = np.frombuffer(packed, form, len(rows), start)
    cells = table["cells"]
    if (table["head"] != head).any() or (cells["kind"] != _FLOAT).any():
        return None
    found: Floats = cells["value"].astype(np.float64)
    return found if np.isfinite(found).all() else None


@lru_cache(maxsize=64)
def _row_form(width: int) -> tuple[np.dtype[Any], NDArray[np.uint8]]:
    """How a row of floats is packed, and its header."""
    head = np.frombuffer(_header(width), np.uint8)
    cell = np.dtype([("kind", "u1"), ("value", ">f8")])
    return np.dtype([("head", "u1", len(head)), ("cells", cell, width)]), head


def _header(length: int) -> bytes:
    """The header of an array of so many items."""
    if length < 16:
        return bytes([0x90 | length])
    return b"\xdc" + length.to_bytes(2, "big") if length < 65_536 else b"\xdd" + length.to_bytes(4, "big")
