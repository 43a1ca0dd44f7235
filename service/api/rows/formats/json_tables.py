"""JSON as tables: rows by column or by name in an object, by name in a list, or by name one per line (NDJSON).

Rows by name are decoded one by one, so that errors name the place, ``rows[3].label`` or
``line 4, label``.
"""

import io
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from core.problems import PROBLEMS_MAX, Invalid, Problem
from service.api import schemas
from service.api.http import json_body, json_pieces
from service.api.http.json_pieces import UNREADABLE
from service.errors import NotJson
from service.runtime.rows.table import RowPlace, Table, alone, plural

Names = tuple[str, ...]
REQUIRED = ("columns", "data", "rows", "labels")  # fields that an object with rows must have


class RowFormat(NamedTuple):
    """The form in which the rows of a route are sent."""

    record: "msgspec.json.Decoder[Any]"  # decodes a row by name
    body: "msgspec.json.Decoder[Any]"  # decodes an object that holds rows: none of its fields is required
    columns: Names  # the fields of an object with rows by column
    by_name: Names  # with rows by name
    sparse: Names = ()  # with rows as lists of names and values

    @property
    def labelled(self) -> bool:
        """Whether each row has a label."""
        return "labels" in self.columns


def _form(record: type[schemas.Body], *bodies: type[schemas.Body]) -> RowFormat:
    fields = {own.name: own.type | None for kind in bodies for own in msgspec.structs.fields(kind)}
    fields["rows"] = list[msgspec.Raw] | None
    optional: Any = [(name, kind, None) for name, kind in fields.items()]
    body = msgspec.json.Decoder(msgspec.defstruct("Rows", optional, forbid_unknown_fields=True))
    return RowFormat(msgspec.json.Decoder(record), body, *(kind.__struct_fields__ for kind in bodies))


FEEDBACK = _form(schemas.FeedbackRecord, schemas.FeedbackColumns, schemas.FeedbackRecords, schemas.FeedbackSparse)
PREDICT = _form(schemas.PredictRecord, schemas.PredictColumns, schemas.PredictRecords, schemas.PredictSparse)
OVERLAP = _form(schemas.OverlapRecord, schemas.OverlapBody, schemas.OverlapBody)._replace(
    columns=("columns", "data", "ids"), by_name=("rows",)
)
_list, _members = msgspec.json.Decoder(list[msgspec.Raw]), msgspec.json.Decoder(dict[str, msgspec.Raw])
_sparse_row = msgspec.json.Decoder(schemas.SparseRow)


def read_json(form: RowFormat, body: bytes, sparse: bool) -> Table:
    """The rows of a JSON body; ``sparse``: of a model whose rows may have any names.

    ``NotJson`` or ``Invalid`` if the body or a row is invalid; the error names the first invalid row.
    """
    try:
        if json_pieces.is_list(body):
            rows = json_body.read(body, _list)
            table = _by_name(form, rows, _in_list)
        else:
            ask = json_body.read(body, form.body)
            table = _table(form, ask, sparse)
            names, texts = json_body.names_in(ask), [bytes(row) for row in ask.rows or ()]  # each checked by itself
            if body.count(b":") != names + sum([text.count(b":") for text in texts]):
                json_body.refuse_repeated(body, names + json_pieces.count(b" ".join(texts), b":"))
    except NotJson as error:
        raise NotJson(error.detail, _under_rows(error.problems)) from None
    except Invalid as error:
        raise Invalid(*_under_rows(error.problems)) from None
    for name in ("labels", "ids", "discounts", "weights", "served"):
        values = getattr(table, name)
        if values is not None and len(values) != len(table.rows):
            raise Invalid.of(name, f"has {len(values)} items for {len(table.rows)} rows", f"{len(table.rows)} items")
    return table


def _under_rows(problems: Iterable[Problem]) -> list[Problem]:
    """Problems of a list as problems of its rows."""
    return [each._replace(field=f"rows{each.field}") if each.field[:1] == "[" else each for each in problems]


def _table(form: RowFormat, ask: Any, sparse: bool) -> Table:
    """The rows of an object."""
    given = [name for name in ask.__struct_fields__ if getattr(ask, name) is not None]
    if "features" in given:  # one row, for the mapping
        _check(ask, given, ("features", "id"))
        return Table([ask.features], alone, ids=None if ask.id is None else [ask.id])
    by_name = ask.rows is not None and not (sparse and ask.rows and not _is_record(ask.rows[0]))
    in_lists = sparse and ask.columns is None
    layout = form.by_name if by_name else form.sparse if in_lists else form.columns
    _check(ask, given, layout)
    beside = {name: getattr(ask, name) for name in layout if name in Table._fields and name != "rows"}
    if by_name:
        return _by_name(form, ask.rows, _in_list)._replace(**beside)
    return Table(_decoded(_sparse_row, ask.rows, _in_list) if in_lists else ask.data, **beside)


def _check(ask: Any, given: Sequence[str], layout: Names) -> None:
    """Refuse fields that exclude each other, and missing fields."""
    others = [name for name in given if name not in layout]
    if others and "rows" in given:
        others = [name for name in others if name != "rows"] or [layout[0]]
        raise Invalid.of("rows", f"exclude {', '.join(others)}: every row has its own")
    if others:
        raise Invalid(*(Problem(name, f"excludes {layout[0]}") for name in others))
    for name in layout:
        if name in REQUIRED and name not in given:
            one = "features" if hasattr(ask, "features") else ""
            raise Invalid.of(one or name, "is required", f"{one and f'{one} of one row, or '}columns and data, or rows")


def _is_record(row: msgspec.Raw) -> bool:
    """Whether a sparse row is given by name; otherwise it is a list of names and one of values."""
    try:
        return "features" in _members.decode(row)
    except UNREADABLE:
        return False


def read_lines(form: RowFormat, body: bytes, most: int) -> Table:
    """The rows of NDJSON, at most one more than ``most``; ignores blank lines.

    ``NotJson`` or ``Invalid`` names the first line that is not a valid row, counted as in a file.
    """
    numbers, lines = list[int](), list[bytes]()
    for number, line in enumerate(io.BytesIO(body), 1):
        if line.isspace():
            continue
        numbers.append(number)
        lines.append(line)
        if len(lines) > most:
            break
    place: RowPlace = lambda row, member: f"line {numbers[row]}" + (f", {member}" if member else "")  # noqa: E731
    return _by_name(form, lines, place)


def _in_list(row: int, member: str) -> str:
    """The name of a member of a row in a list, for errors: ``rows[3].label``."""
    return f"rows[{row}].{member}" if member else f"rows[{row}]"


def _decoded(decoder: "msgspec.json.Decoder[Any]", rows: Sequence[bytes | msgspec.Raw], place: RowPlace) -> list[Any]:
    """Decode rows one by one; the error for the first wrong row names its place."""
    texts = [*map(bytes, rows)]
    try:
        found = [decoder.decode(text) for text in texts]  # map() would hold the interpreter for all of them
        names = sum(map(json_body.names_in, found))
        if sum([text.count(b":") for text in texts]) == names or json_pieces.count(b" ".join(texts), b":") == names:
            return found
    except UNREADABLE:
        pass
    return [_one(decoder, text, place, row) for row, text in enumerate(texts)]


def _one(decoder: "msgspec.json.Decoder[Any]", text: bytes, place: RowPlace, row: int) -> Any:
    try:
        return json_body.decode(text, decoder)
    except NotJson as error:
        raise NotJson(error.detail.replace("the body", place(row, ""), 1), _at(place, row, error.problems)) from None
    except Invalid as error:
        raise Invalid(*_at(place, row, error.problems)) from None


def _at(place: RowPlace, row: int, problems: Iterable[Problem]) -> list[Problem]:
    return [each._replace(field=place(row, "" if each.field == "body" else each.field)) for each in problems]


def _by_name(form: RowFormat, rows: Sequence[bytes | msgspec.Raw], place: RowPlace) -> Table:
    """Rows by name as a table; ``NotJson`` or ``Invalid`` if a row is wrong, or only some rows have an id, a discount
    or a weight.
    """
    records = _decoded(form.record, rows, place)
    beside: dict[str, Any] = {
        plural(name): _column(records, name, place)
        for name in form.record.type.__struct_fields__
        if name not in ("features", "label")
    }
    labels = [record.label for record in records] if form.labelled else None
    return Table([record.features for record in records], place, labels=labels, **beside)


def _column(records: Sequence[Any], name: str, place: RowPlace) -> list[Any] | None:
    """A member of every row; None if none has it."""
    values = [*map(attrgetter(name), records)]
    absent = values.count(None)
    if absent == len(values):
        return None
    if absent and name != "served":
        without = [row for row, value in enumerate(values) if value is None][:PROBLEMS_MAX]
        raise Invalid(*(Problem(place(row, name), "is required, since other rows have one") for row in without))
    return values
