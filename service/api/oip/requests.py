"""Turns the body of an inference request (JSON, then binary data) into rows that a model can predict.

Binary data are little-endian, row by row, in the native size of the datatype; NaN is a missing value. JSON values are
those of the datatype, or null; the model decides which of them are valid, as in ``/predict/batch``.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats
from core.features import Schema, Space, SparseSchema
from core.features.feature import COLUMNS_MAX
from core.model import Model
from core.problems import FILLED, Invalid, lacking
from service.api.http import json_body
from service.api.oip import schemas as v2
from service.api.rows.formats.tables import NESTED_IN_ROW, Sent, rows_most
from service.errors import NotTable
from service.runtime.rows.ids import printable
from service.runtime.rows.row_validation import RowValidator
from service.runtime.rows.table import Table, check_size

LISTS_OF_INPUT = 5  # most lists and objects of one input, in addition to its rows
BINARY_BYTES = 50  # assumed memory per byte of binary data: a byte may be a number, or part of a short text
_BOUNDS: Mapping[str, tuple[float, float]] = {
    name: (float(np.finfo(kind).min), float(np.finfo(kind).max))
    if name in v2.FLOATS
    else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    for name, kind in v2.NUMBERS.items()
    if name != v2.BOOL
}
"""The smallest and the largest number of each datatype."""
TensorValues = list[Any] | NDArray[Any]


class ToInfer(NamedTuple):
    """Inputs and their elements; id and tracking of the request; its outputs, and which are binary."""

    inputs: Sequence[v2.InputTensor]
    values: Sequence[TensorValues]
    id: str | None
    track: bool
    outputs: Mapping[str, bool]


def read_tensors(json_bytes: int | None, sent: Sent, model: Model) -> ToInfer:
    """Read a request to a model; ``json_bytes`` is the length of its JSON, None: all of the body."""
    space = model.prediction_schema
    ask, blobs = _read(json_bytes, sent, space)
    values, size = _values(ask.inputs, blobs), ask.inputs[0].shape[0]
    check_size(size, rows_most(sent, space), ask.inputs[0].name)
    if odd := [own.name for own in ask.inputs if own.shape[0] != size]:
        raise Invalid.of(odd[0], "has the wrong number of rows", f"{size}, as {ask.inputs[0].name}")
    track, outputs = _flag(ask.parameters, "track", "parameters"), _outputs(ask, model.config.task)
    if track and size != 1:
        raise Invalid.of("parameters.track", "is only for one row", "a request of one row")
    return ToInfer(ask.inputs, values, printable(ask.id, "id") if ask.id else None, track, outputs)


def decoded_bytes(json_bytes: int | None, sent: Sent) -> int:
    """Roughly the most memory that reading a request takes; ``json_bytes`` as for ``read_tensors``."""
    head = sent.body if json_bytes is None else sent.body[:json_bytes]
    return json_body.decoded_bytes(head) + BINARY_BYTES * (len(sent.body) - len(head))


def _read(json_bytes: int | None, sent: Sent, space: Space | None) -> tuple[v2.InferRequest, memoryview]:
    """The JSON, and the binary data after it."""
    if json_bytes is not None and json_bytes > len(sent.body):
        raise NotTable(f"the body has {len(sent.body)} bytes; {v2.LENGTH_HEADER} says {json_bytes}")
    header = sent.body if json_bytes is None else sent.body[:json_bytes]
    inputs = len(space.names) if isinstance(space, Schema) else COLUMNS_MAX
    if json_body.nested_more_than(header, NESTED_IN_ROW * sent.rows_max + LISTS_OF_INPUT * (inputs + 1)):
        check_size(sent.rows_max + 1, sent.rows_max, "inputs")
    ask = json_body.decode(header, v2.decoder)
    if not ask.inputs or len({own.name for own in ask.inputs}) < len(ask.inputs):
        raise Invalid.of("inputs", "are empty, or contain a name twice", "one input, or one for each feature")
    return ask, memoryview(sent.body)[len(header) :]


def _outputs(ask: v2.InferRequest, task: str) -> Mapping[str, bool]:
    binary = _flag(ask.parameters, "binary_data_output", "parameters")
    names = [v2.PREDICTION] if task == "regression" else [v2.PREDICTION, v2.PROBABILITIES]
    asked = {own.name: _flag(own.parameters, "binary_data", own.name, binary) for own in ask.outputs or ()}
    if not asked.keys() <= {*names}:
        raise Invalid.of("outputs", "contain a name that this model does not have", names)
    return asked or dict.fromkeys(names, binary)


def _flag(given: Mapping[str, Any] | None, name: str, field: str, default: bool = False) -> bool:
    value = (given or {}).get(name, default)
    if not isinstance(value, bool):
        raise Invalid.of(f"{field}.{name}", "must be true or false")
    return value


def _values(inputs: Sequence[v2.InputTensor], blobs: memoryview) -> list[TensorValues]:
    """The elements of each input; everything after the JSON is binary data."""
    found, at = list[TensorValues](), 0
    for own in inputs:
        if len(own.shape) not in (1, 2) or min(own.shape) < 0:
            raise Invalid.of(f"{own.name}.shape", "is not the shape of rows", "[rows] or [rows, columns]")
        if own.datatype not in v2.DATATYPES:
            raise Invalid.of(f"{own.name}.datatype", "is not a supported datatype", v2.DATATYPES)
        size = (own.parameters or {}).get(v2.BINARY_SIZE)
        if size is not None and (type(size) is not int or size < 0 or own.data is not None):
            raise Invalid.of(f"{own.name}.parameters.{v2.BINARY_SIZE}", "is not a number of bytes that replaces data")
        found.append(_from_json(own) if size is None else _from_binary(own, blobs[at : at + size], size))
        at += size or 0
    if at < len(blobs):
        raise NotTable(f"{len(blobs) - at} bytes after the JSON belong to no input ({v2.BINARY_SIZE})")
    return found


def _from_json(own: v2.InputTensor) -> list[Any]:
    data, size = own.data, math.prod(own.shape)
    if isinstance(data, list) and {list} == {*map(type, data)} and {own.shape[-1]} == {*map(len, data)}:
        data = [*chain.from_iterable(data)]
    if not isinstance(data, list) or len(data) != size:
        raise Invalid.of(f"{own.name}.data", "is not a list of its elements", f"{size} of them, or rows of them")
    if not _all_fit(own.datatype, data):
        odd = next((at for at, value in enumerate(data) if not _fits(own.datatype, value)), None)
        if odd is not None:
            place = [odd] if len(own.shape) == 1 else [*divmod(odd, own.shape[1])]
            raise Invalid.of(f"{own.name}{''.join(f'[{at}]' for at in place)}", f"is not {own.datatype}")
    return data


def _all_fit(datatype: str, data: list[Any]) -> bool:
    """A fast check whether all elements belong to a datatype; if it fails, ``_fits`` looks at each one."""
    kinds = {*map(type, data)}
    if datatype not in _BOUNDS:
        return kinds <= {bool if datatype == v2.BOOL else str}
    if not kinds <= ({int, float} if datatype in v2.FLOATS else {int}):
        return False
    low, high = _BOUNDS[datatype]
    return low <= min(data, default=0) and max(data, default=0) <= high


def _fits(datatype: str, value: Any) -> bool:
    """Whether a JSON value belongs to a datatype: a number that it can hold, 0 and 1 for BOOL as well; null to any."""
    if value is None or datatype == v2.BYTES:
        return value is None or type(value) is str
    if datatype == v2.BOOL:
        return type(value) in (bool, int, float) and value in (0, 1)
    if type(value) not in (int, float):
        return False
    low, high = _BOUNDS[datatype]
    if low <= value <= high:
        return datatype in v2.FLOATS or value == int(value)
    if datatype not in v2.FLOATS:
        return False
    with np.errstate(over="ignore"), suppress(OverflowError):
        return bool(np.isfinite(v2.NUMBERS[datatype].type(value)))  # clients may round the largest number up
    return False


def _from_binary(own: v2.InputTensor, blob: memoryview, announced: int) -> TensorValues:
    size, kind = math.prod(own.shape), v2.NUMBERS.get(own.datatype)
    found: TensorValues = []
    with suppress(ValueError, struct.error):
        found = _texts(blob, size) if kind is None else np.frombuffer(blob, kind)
    if len(found) != size or len(blob) != announced:
        raise NotTable(f"{own.name}: {len(blob)} bytes of binary data are not {own.datatype} of shape {own.shape}")
    return found


def _texts(blob: memoryview, size: int) -> list[str]:
    """Texts, each preceded by its length."""
    found, at = list[str](), 0
    for _ in range(size):
        (length,) = struct.unpack_from("<I", blob, at)
        at += v2.LENGTH_BYTES + length
        found.append(str(blob[at - length : at], "utf-8"))
    return found if at == len(blob) else []


def rows_of(asked: ToInfer, validator: RowValidator) -> tuple[Space, Floats, dict[str, Any]]:
    """The feature space of the rows, their raw values (n, F), and the first row by name."""
    own, space, names = asked.inputs[0], validator.space, [each.name for each in asked.inputs]
    flat, width = asked.values[0], own.shape[-1]
    matrix = names == [v2.MATRIX] and len(own.shape) == 2 and not isinstance(space, SparseSchema)
    if matrix:
        known = [each for each in (space, validator.union) if isinstance(each, Schema)]
        names = next(([*each.names] for each in known if each.raw_width == width), [])
        if known and not names:
            raise Invalid.of(f"{v2.MATRIX}.shape", "does not have the columns of the model", [*known[0].names])
        plain = {bool} if own.datatype == v2.BOOL else {int, float}
        if all(each.numeric for each in known) and (isinstance(flat, np.ndarray) or plain.issuperset(map(type, flat))):
            with suppress(Invalid, OverflowError):  # reported cell by cell below
                table = Table(np.array(flat, np.float64).reshape(own.shape))
                return *validator.prediction(table), dict(zip(names, _listed(flat[:width]), strict=True))
        listed = _listed(flat)
        rows: Any = [listed[at : at + width] for at in range(0, len(listed), max(1, width))]
    elif wide := [each.name for each in asked.inputs if each.shape[1:] not in ([], [1])]:
        raise Invalid.of(f"{wide[0]}.shape", "does not have one value per row", f"[{own.shape[0]}]")
    else:
        rows = zip(*map(_listed, asked.values), strict=True)
        absent = (
            [] if validator.missing_allowed or space is None else [each for each in space.names if each not in names]
        )
        if absent:
            raise Invalid(lacking("inputs", absent, FILLED))

    def place(row: int, member: str) -> str:
        _, _, name = member.partition(".")
        return "inputs" if not name else f"features[{row}][{names.index(name)}]" if matrix else f"{name}[{row}]"

    table = Table([dict(zip(names, row, strict=False)) for row in rows], place)
    return *validator.prediction(table), table.rows[0]


def _listed(values: TensorValues) -> list[Any]:
    values = values.tolist() if isinstance(values, np.ndarray) else values
    return [None if value != value else value for value in values]  # noqa: PLR0124  NaN
