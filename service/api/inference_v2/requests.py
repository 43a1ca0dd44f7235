"""From the body of an inference request to rows that one model can predict.

``infer`` is one of the forms of ``large_bodies``: called by the event loop, a thread or the process that reads large
bodies, so that nothing here imports the machine or the server.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from core.contract import Floats
from core.features import COLUMNS_MAX, Schema, Space, SparseSchema
from core.problems import Invalid, Problem
from service.api import json_body
from service.api.identity import Identity, printable
from service.api.inference_v2.schemas import (
    BINARY,
    BINARY_OUTPUT,
    BINARY_SIZE,
    TRACK,
    InferRequest,
    InputTensor,
    decoder,
)
from service.api.inference_v2.tensors import Tensor, column, numbers, tensor_of
from service.api.row_requests import REFUSED, Refused
from service.api.tables import NESTED_IN_ROW, Sent, check_size, names_given, rows_most
from service.errors import NotTable
from service.runtime.rows.named_rows import SparseRow
from service.runtime.rows.row_validation import RowValidator
from service.runtime.rows.table import Table

MATRIX = "features"
"""The input that holds all features of a row; another name is that of one feature."""
PREDICTION, PROBABILITIES = "prediction", "probabilities"
LISTS_OF_INPUT = 5
"""Most lists and objects that one input takes beside its rows."""
BY_POSITION = ("numeric", "boolean", "time")
"""Types of features whose values are numbers, so that they may stand in a matrix."""


class How(NamedTuple):
    """What is asked beside the rows.

    Attributes:
        id: of the request, or None.
        track: whether its one row is kept until its label comes.
        outputs: names of the outputs that are wanted, and whether each comes as binary data.
    """

    id: str | None
    track: bool
    outputs: Mapping[str, bool]


class ToInfer(NamedTuple):
    """Rows that may be predicted: raw values (n, F); of one that is tracked, its values by name."""

    raw: Floats
    how: How
    values: dict[str, Any]


def infer(json_bytes: int | None, sent: Sent, validator: RowValidator) -> ToInfer | Refused:
    """The rows of a request, in ``validator.space``.

    Args:
        json_bytes: how many of the body are JSON; None: all of them.
        sent: the request.
        validator: of the model.

    Raises:
        BadBody, Invalid: the request is none, or its tensors are not what they say.
    """
    ask, tensors = _read(json_bytes, sent, validator.space)
    how = _how(ask, validator.config.task)
    size = _rows(tensors, rows_most(sent, validator.space))
    if how.track and size != 1:
        raise Invalid.of(f"parameters.{TRACK}", "is for one row", "a request of one row")
    try:
        table = _table(tensors, validator, size)
        raw = validator.prediction(table)[1]
    except REFUSED as error:
        return Refused(_as_sent(error, tensors), Identity(), None, size)
    return ToInfer(raw, how, _by_name(table, validator) if how.track else {})


# ------------------------------------------------------------------------------------------------ the request


def _read(json_bytes: int | None, sent: Sent, space: Space | None) -> tuple[InferRequest, list[Tensor]]:
    whole = len(sent.body)
    if json_bytes is not None and json_bytes > whole:
        raise NotTable(f"the body has {whole} bytes; Inference-Header-Content-Length says {json_bytes}")
    header = sent.body if json_bytes is None else sent.body[:json_bytes]
    inputs = len(space.names) if isinstance(space, Schema) else COLUMNS_MAX
    if json_body.nested_more_than(header, NESTED_IN_ROW * sent.rows_max + LISTS_OF_INPUT * (inputs + 1)):
        check_size(sent.rows_max + 1, sent.rows_max, "inputs")
    ask = json_body.decode(header, decoder, _names)
    if not ask.inputs:
        raise Invalid.of("inputs", "holds no tensor", ">= 1 input")
    return ask, _tensors(ask.inputs, memoryview(sent.body)[len(header) :])


def _names(ask: InferRequest) -> int:
    """How many names such a body holds."""
    members = [*ask.inputs, *(ask.outputs or ())]
    return sum(names_given(own) + len(own.parameters or ()) for own in (ask, *members))


def _tensors(inputs: Sequence[InputTensor], blobs: memoryview) -> list[Tensor]:
    """The inputs, each with its part of the binary data, which are all that stands behind the JSON."""
    found, at = list[Tensor](), 0
    if len({own.name for own in inputs}) < len(inputs):
        raise Invalid.of("inputs", "hold a name twice", "one input for each feature")
    for own in inputs:
        size = (own.parameters or {}).get(BINARY_SIZE)
        if size is None:
            found.append(tensor_of(own, None))
            continue
        if type(size) is not int or size < 0:
            raise Invalid.of(f"{own.name}.parameters.{BINARY_SIZE}", "is not a number of bytes", "an integer >= 0")
        if at + size > len(blobs):
            raise NotTable(f"{own.name}: its {size} bytes of binary data are not there: {len(blobs) - at} are left")
        found.append(tensor_of(own, blobs[at : at + size]))
        at += size
    if at < len(blobs):
        raise NotTable(f"{len(blobs) - at} bytes behind the JSON belong to no input ({BINARY_SIZE})")
    return found


def _how(ask: InferRequest, task: str) -> How:
    given = ask.parameters or {}
    track, binary = _flag(given, TRACK, "parameters"), _flag(given, BINARY_OUTPUT, "parameters")
    names = [PREDICTION] if task == "regression" else [PREDICTION, PROBABILITIES]
    wanted = dict.fromkeys(names, binary)
    if ask.outputs:
        asked = {own.name: _flag(own.parameters or {}, BINARY, own.name, binary) for own in ask.outputs}
        strange = [name for name in asked if name not in names]
        if strange:
            raise Invalid.of("outputs", "name one that is none of this model's", names)
        wanted = {name: asked[name] for name in names if name in asked}
    return How(printable(ask.id, "id") if ask.id else None, track, wanted)


def _flag(given: Mapping[str, Any], name: str, field: str, default: bool = False) -> bool:
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise Invalid.of(f"{field}.{name}", "must be true or false")
    return value


# ------------------------------------------------------------------------------------------------ rows


def _rows(tensors: Sequence[Tensor], most: int) -> int:
    """How many rows all tensors have."""
    size = tensors[0].rows
    for own in tensors:
        check_size(own.rows, most, own.name)
        if own.rows != size:
            raise Invalid.of(own.name, f"has {own.rows} rows, {tensors[0].name} {size}", "as many in every input")
    return size


def _table(tensors: Sequence[Tensor], validator: RowValidator, size: int) -> Table:
    if len(tensors) == 1 and tensors[0].name == MATRIX and len(tensors[0].shape) == 2:
        return _matrix(tensors[0], validator)
    wide = [own for own in tensors if own.shape[1:] not in ((), (1,))]
    if wide:
        raise Invalid.of(f"{wide[0].name}.shape", "is not a value for each row", f"[{size}]")
    rows, names = [*zip(*map(column, tensors), strict=True)], [own.name for own in tensors]
    if isinstance(validator.space, SparseSchema):
        return Table([SparseRow(names, [*row]) for row in rows], size)
    return Table(rows, size, names)


def _matrix(tensor: Tensor, validator: RowValidator) -> Table:
    space = validator.space
    if isinstance(space, Schema):
        mixed = [own.name for own in space.features if own.type not in BY_POSITION]
        if mixed:
            allowed = f"one input of shape [{tensor.rows}] for each feature"
            raise Invalid.of(MATRIX, f"are not all numbers: {mixed[0]} is categorical", allowed)
    elif space is not None:
        raise Invalid.of(MATRIX, "have names of their own in each row", "one input for each name")
    return Table(numbers(tensor), tensor.rows)


def _by_name(table: Table, validator: RowValidator) -> dict[str, Any]:
    """The one row of a table by names, as ``/predict`` would be sent it."""
    (row,) = table.data
    if isinstance(row, SparseRow):
        return dict(zip(row.names, row.values, strict=True))
    if table.columns is not None:
        return dict(zip(table.columns, row, strict=True))
    space, union = validator.space, validator.union
    assert space is not None
    names = space.names if len(row) == space.raw_width or union is None else union.names
    return {name: None if value != value else value for name, value in zip(names, row.tolist(), strict=True)}  # noqa: PLR0124  NaN


_CELL, _SPARSE = re.compile(r"data\[(\d+)\]\[(\d+)\]"), re.compile(r"rows\[(\d+)\]\.(?:names|values)\[(\d+)\]")
_COLUMN = re.compile(r"columns\[(\d+)\]")


def _as_sent(error: Exception, tensors: Sequence[Tensor]) -> Any:
    """What is wrong with a table, told in the names of the tensors that it was made of."""
    if not isinstance(error, Invalid):
        return error
    return Invalid(*(_told(problem, [own.name for own in tensors]) for problem in error.problems))


def _told(problem: Problem, names: Sequence[str]) -> Problem:
    field = problem.field
    if (cell := _CELL.fullmatch(field) or _SPARSE.fullmatch(field)) is not None:
        return problem._replace(field=f"{names[int(cell[2])]}[{cell[1]}]")
    if (named := _COLUMN.fullmatch(field)) is not None:
        return problem._replace(field=f"input {names[int(named[1])]}")
    if field == "columns":
        return problem._replace(field="inputs")
    if field == "body" or field.startswith("body["):
        return problem._replace(field=MATRIX + field[len("body") :])
    return problem
