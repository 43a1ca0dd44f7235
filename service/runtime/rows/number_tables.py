"""Tables of numbers become arrays without a Python call per cell: msgspec packs the cells, NumPy checks their bytes.

Both functions return None if a cell is not a plain number, valid or not: the schema then reads the table cell by cell,
and names what is wrong with it. Every array they return holds what that reading would give.

The packing is MessagePack: an array of n rows, each a header and ``width`` cells; a float64 is the byte 0xCB and eight
more, big-endian. So a table of floats has rows of one size, and a comparison of bytes shows whether it is one.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np

from core.contract import Floats

ROWS_AT_ONCE = 2048  # rows converted at once; a thread holds the interpreter for that long
_CELL, _FLOAT = np.dtype([("kind", "u1"), ("value", ">f8")]), 0xCB
_UNREADABLE = (msgspec.MsgspecError, OverflowError, RecursionError, UnicodeEncodeError)
"""Raised for cells that are not numbers, integers of more than 64 bits, nested lists, half a surrogate pair."""
_pack = msgspec.msgpack.Encoder().encode
_rows = msgspec.json.Decoder(list[list[float]])


def from_values(rows: Sequence[Sequence[Any]], width: int) -> Floats | None:
    """Rows of finite numbers as (n, width); None if a row has another length or anything else in it."""
    found: list[Floats] = []
    for begin in range(0, len(rows) if width else 0, ROWS_AT_ONCE):
        some = rows[begin : begin + ROWS_AT_ONCE]
        part = _array(some, width) if {width}.issuperset(map(len, some)) else None
        if part is None:
            return None
        found.append(part)
    return (found[0] if len(found) == 1 else np.concatenate(found)) if found else None


def from_texts(rows: Sequence[Sequence[str]], width: int) -> Floats | None:
    """Rows of CSV texts as (n, width) if all are numbers in JSON's notation; else None."""
    if not {width}.issuperset(map(len, rows)):  # in a row that is too short, a cell "3,7" in quotes would become two
        return None
    try:
        numbers = _rows.decode(f"[[{'],['.join(map(','.join, rows))}]]")
    except _UNREADABLE:
        return None
    return from_values(numbers, width) if len(numbers) == len(rows) else None  # '1],[2' in quotes becomes two rows


def _array(rows: Sequence[Sequence[Any]], width: int) -> Floats | None:
    found = _packed(rows, width)
    if found is None:  # integers among them, perhaps
        with suppress(*_UNREADABLE):
            found = _packed(msgspec.convert(rows, list[list[float]]), width)
    return found


def _packed(rows: Sequence[Sequence[Any]], width: int) -> Floats | None:
    """Rows of finite floats as (n, width); None if anything else is in them."""
    try:
        packed = _pack(rows)
    except _UNREADABLE:
        return None
    row, start = np.dtype([("head", "u1", _header(width)), ("cells", _CELL, width)]), _header(len(rows))
    if len(packed) != start + len(rows) * row.itemsize:
        return None
    cells: Any = np.frombuffer(packed, row, offset=start)["cells"]
    found: Floats = cells["value"].astype(np.float64)
    return found if (cells["kind"] == _FLOAT).all() and np.isfinite(found).all() else None


def _header(length: int) -> int:
    """Bytes of the header of a MessagePack array of ``length`` items."""
    return 1 if length < 16 else 3 if length < 65_536 else 5
