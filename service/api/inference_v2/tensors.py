"""One tensor of a request, as JSON or as binary data, to the values of its rows.

Binary data are little-endian, row by row, in the native size of the datatype: a BOOL is a byte 0 or 1, one of BYTES its
length in four bytes and then the bytes. A missing value is null in JSON, and NaN in binary numbers.
"""

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats
from core.problems import Invalid
from service.api.inference_v2.schemas import BINARY_SIZE, InputTensor
from service.errors import NotTable

BYTES, BOOL = "BYTES", "BOOL"
LENGTH_BYTES = 4
"""Of the length before each element of BYTES."""
NUMBERS = {
    **{f"FP{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
    **{f"INT{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"UINT{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
}
"""Datatypes of numbers."""
DATATYPES = [BOOL, BYTES, *NUMBERS]


class Tensor(NamedTuple):
    """A tensor of a request.

    Attributes:
        name, datatype: as they were sent.
        shape: likewise; one or two lengths, none of them negative.
        values: the elements of JSON, row by row; None of binary data.
        blob: the binary data, or None.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    values: Sequence[Any] | None
    blob: memoryview | None

    @property
    def rows(self) -> int:
        """How many rows it says that it holds."""
        return self.shape[0]


def tensor_of(given: InputTensor, blob: memoryview | None) -> Tensor:
    """A tensor whose parts go together: shape, datatype and as many elements.

    Raises:
        Invalid: they do not, or there are neither data nor binary data, or both.
        NotTable: binary data of another size than shape and datatype say (400).
    """
    name, shape = given.name, tuple(given.shape)
    if not 1 <= len(shape) <= 2 or min(shape) < 0:
        raise Invalid.of(f"{name}.shape", "is not the shape of rows", "[rows] or [rows, columns], none negative")
    if given.datatype not in DATATYPES:
        raise Invalid.of(f"{name}.datatype", "is not one that is read here", DATATYPES)
    if (given.data is None) == (blob is None):
        how = "comes twice" if blob is not None else "is required"
        raise Invalid.of(f"{name}.data", how, f"data, or binary data of {BINARY_SIZE} bytes behind the JSON")
    if blob is not None:
        _check_size(given, shape, blob)
        return Tensor(name, given.datatype, shape, None, blob)
    return Tensor(name, given.datatype, shape, _flat(given.data, shape, name), None)


def _check_size(given: InputTensor, shape: tuple[int, ...], blob: memoryview) -> None:
    size = math.prod(shape)
    if given.datatype == BYTES:
        fits = LENGTH_BYTES * size <= len(blob)
    else:
        fits = size * _kind(given.datatype).itemsize == len(blob)
    if not fits:
        raise NotTable(f"{given.name}: {len(blob)} bytes of binary data are not {size} elements of {given.datatype}")


def _kind(datatype: str) -> np.dtype[Any]:
    return np.dtype("u1") if datatype == BOOL else NUMBERS[datatype]


def _flat(data: object, shape: tuple[int, ...], name: str) -> list[Any]:
    """The elements of a list, or of a list of rows."""
    if not isinstance(data, list):
        raise Invalid.of(f"{name}.data", "is not a list of elements", f"{math.prod(shape)} elements")
    if data and isinstance(data[0], list):
        nested = len(shape) == 2 and {list} == {*map(type, data)} and {shape[1]} == {*map(len, data)}
        if not nested:
            raise Invalid.of(f"{name}.data", "is nested in another way than the shape", f"lists of shape {list(shape)}")
        data = [*chain.from_iterable(data)]
    if len(data) != math.prod(shape):
        raise Invalid.of(f"{name}.data", f"has {len(data)} elements", f"{math.prod(shape)}, as its shape says")
    return data


# ------------------------------------------------------------------------------------------------ values


def numbers(tensor: Tensor) -> Floats:
    """The elements of a tensor of numbers or of BOOL as float64, in its shape, NaN for missing.

    Raises:
        Invalid: another datatype, or an element that is none of it.
        NotTable: a BOOL that is neither 0 nor 1.
    """
    if tensor.datatype == BYTES:
        raise Invalid.of(tensor.name, "is of datatype BYTES", "numbers, or one input for each feature")
    found: NDArray[Any] = _from_json(tensor) if tensor.blob is None else _from_binary(tensor, tensor.blob)
    return found.astype(np.float64).reshape(tensor.shape)


def column(tensor: Tensor) -> Sequence[Any]:
    """The elements of a tensor as JSON has them: texts, booleans, numbers, None for missing.

    Raises:
        Invalid: an element that is none of the tensor's datatype.
        NotTable: binary data that cannot be read.
    """
    kind = tensor.datatype
    if tensor.blob is not None:
        return _texts(tensor, tensor.blob) if kind == BYTES else _plain(_from_binary(tensor, tensor.blob))
    assert tensor.values is not None
    if kind in (BYTES, BOOL):
        _check_types(tensor, tensor.values, {str if kind == BYTES else bool, type(None)})
        return tensor.values
    return _plain(_from_json(tensor))


def _plain(found: NDArray[Any]) -> list[Any]:
    values = found.tolist()
    return [None if value != value else value for value in values] if found.dtype.kind == "f" else values  # noqa: PLR0124  NaN


def _from_json(tensor: Tensor) -> NDArray[Any]:
    """The elements of numbers or BOOL in JSON, as an array of the datatype; of float64 where one is missing."""
    values, kind = tensor.values, tensor.datatype
    assert values is not None
    if kind == BOOL:
        _check_types(tensor, values, {bool, type(None)})
        return np.array([math.nan if value is None else value for value in values])
    _check_types(tensor, values, {int, float, type(None)})
    wanted = NUMBERS[kind]
    if wanted.kind in "iu":
        return _integers(tensor, values, wanted)
    bound = float(np.finfo(wanted).max)
    try:
        found = np.array([math.nan if value is None else value for value in values], np.float64)
        fits = bool((np.abs(found) <= bound).all()) or None in values
    except OverflowError:
        fits = False
    if not fits or None in values:
        _check_each(tensor, values, lambda value: -bound <= value <= bound)
    return found.astype(wanted)


def _integers(tensor: Tensor, values: Sequence[Any], wanted: np.dtype[Any]) -> NDArray[Any]:
    if {int}.issuperset(map(type, values)):
        with suppress(OverflowError):
            return np.array(values, wanted)
    bounds = np.iinfo(wanted)
    _check_each(tensor, values, lambda value: value == int(value) and bounds.min <= value <= bounds.max)
    if None in values:
        return np.array([math.nan if value is None else value for value in values], np.float64)
    return np.array([int(value) for value in values], wanted)


def _check_types(tensor: Tensor, values: Sequence[Any], allowed: set[type]) -> None:
    if not allowed.issuperset(map(type, values)):
        raise _misfit(tensor, next(at for at, value in enumerate(values) if type(value) not in allowed))


def _check_each(tensor: Tensor, values: Sequence[Any], fits: Callable[[Any], bool]) -> None:
    for at, value in enumerate(values):
        if value is not None and not fits(value):
            raise _misfit(tensor, at)


def _misfit(tensor: Tensor, at: int) -> Invalid:
    place = at if len(tensor.shape) == 1 else f"{at // tensor.shape[1]}][{at % tensor.shape[1]}"
    return Invalid.of(f"{tensor.name}[{place}]", f"is no value of the datatype {tensor.datatype}")


def _from_binary(tensor: Tensor, blob: memoryview) -> NDArray[Any]:
    found: NDArray[Any] = np.frombuffer(blob, _kind(tensor.datatype))
    if tensor.datatype != BOOL:
        return found
    if found.size and found.max() > 1:
        raise NotTable(f"{tensor.name}: a BOOL in binary data is a byte 0 or 1")
    return found.astype(np.bool_)


def _texts(tensor: Tensor, blob: memoryview) -> list[str]:
    found, at, end = list[str](), 0, len(blob)
    for _ in range(math.prod(tensor.shape)):
        begin = at + LENGTH_BYTES
        at = begin + int.from_bytes(blob[at:begin], "little") if begin <= end else sys.maxsize
        if at > end:
            raise NotTable(f"{tensor.name}: its binary data end within element {len(found)}")
        try:
            found.append(str(blob[begin:at], "utf-8"))
        except UnicodeDecodeError:
            raise NotTable(f"{tensor.name}: element {len(found)} is not UTF-8") from None
    if at != end:
        raise NotTable(f"{tensor.name}: {end - at} bytes of its binary data are left over")
    return found
