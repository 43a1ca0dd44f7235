"""Rows as records: objects of one row each, in a list, under ``rows``, or one a line (NDJSON).

What is wrong with one is told with its place, ``rows[3].label`` or ``line 4, label``: where not all records can be
decoded together, the first one at fault is looked for.
"""

import io
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

import msgspec

from core.problems import PROBLEMS_MAX, Invalid, Problem
from service.api.http import json_body
from service.api.schemas import FeedbackRecord, OverlapRecord, PredictRecord
from service.errors import NotJson
from service.runtime.rows.named_rows import Place, columns_of
from service.runtime.rows.table import Table

R = TypeVar("R", bound=msgspec.Struct)
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Form(NamedTuple, Generic[R]):
    """How the records of a route are read.

    Attributes:
        one: decodes one.
        many: decodes a list of them.
        names: how many names one holds.
        beside: members beside features and label, which all rows have or none.
        labelled: whether each has a label.
    """

    one: "msgspec.json.Decoder[R]"
    many: "msgspec.json.Decoder[list[R]]"
    names: Callable[[R], int]
    beside: tuple[str, ...] = ()
    labelled: bool = False


def form(kind: type[R], labelled: bool = False) -> Form[R]:
    """The form of one kind of records."""
    beside = tuple(name for name in kind.__struct_fields__ if name not in ("features", "label"))

    def names(record: Any) -> int:
        return 1 + labelled + len(record.features) + sum([getattr(record, name) is not None for name in beside])

    decoder: Any = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
    return Form(msgspec.json.Decoder(kind), decoder, names, beside, labelled)


FEEDBACK, PREDICT, OVERLAP = form(FeedbackRecord, labelled=True), form(PredictRecord), form(OverlapRecord)


class _Rows(msgspec.Struct):
    """A body whose rows are not looked at yet."""

    rows: list[msgspec.Raw] = []


_rows, _raws = msgspec.json.Decoder(_Rows), msgspec.json.Decoder(list[msgspec.Raw])
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = re.compile(rb"[ \t\r\n]*\[")


def is_list(body: bytes) -> bool:
    """Whether JSON is a list."""
    return _LIST.match(body) is not None


def by_name(body: bytes) -> bool:
    """Whether the rows of a JSON object are records; False where the first one is none, or there is none."""
    try:
        rows = _rows.decode(body).rows
        return bool(rows) and "features" in _members.decode(rows[0])
    except _UNREADABLE:
        return False


# ------------------------------------------------------------------------------------------------ from bytes


def listed(body: bytes, how: Form[R], sparse: bool) -> Table:
    """The rows of a JSON list.

    Args:
        body: the list.
        how: the form of the records.
        sparse: of a model whose rows may hold any names.

    Raises:
        NotJson, Invalid: it is none, or a record is wrong; the first one is named.
    """
    try:
        records = json_body.decode(body, how.many, lambda found: sum(map(how.names, found)))
    except NotJson as error:
        raise NotJson(error.detail, _under_rows(error.problems)) from None
    except Invalid as error:
        _blame(_raws.decode(body), how)
        raise Invalid(*_under_rows(error.problems)) from None
    return table(records, how, sparse, in_list)


def blame(body: bytes, how: Form[R], error: Invalid) -> NoReturn:
    """Raise what is wrong with a JSON object that may hold records: with the first wrong one, else ``error``."""
    try:
        found = _rows.decode(body).rows
    except _UNREADABLE:
        raise error from None
    _blame(found, how)
    raise error


def lines(how: Form[R], body: bytes, sparse: bool, most: int) -> Table:
    """The rows of NDJSON, at most one more than ``most``; blank lines are passed over.

    Raises:
        NotJson, Invalid: naming the first line that is no such record, as a file counts lines.
    """
    numbers, found = _lines(body, most)
    place: Place = lambda row, member: f"line {numbers[row]}" + (f", {member}" if member else "")  # noqa: E731
    try:
        records = [how.one.decode(line) for line in found]  # no map: it would hold the interpreter for all lines
        sound = sum([line.count(b":") for line in found]) == sum(map(how.names, records))
    except _UNREADABLE:
        sound = False
    if not sound:
        records = [_one(line, how, place, row) for row, line in enumerate(found)]
    return table(records, how, sparse, place)


def _lines(body: bytes, most: int) -> tuple[list[int], list[bytes]]:
    """The lines that are not blank, and their numbers."""
    numbers, found = list[int](), list[bytes]()
    for number, line in enumerate(io.BytesIO(body), 1):
        if line.isspace():
            continue
        numbers.append(number)
        found.append(line)
        if len(found) > most:
            break
    return numbers, found


def in_list(row: int, member: str) -> str:
    """How errors name a member of a record in a list: ``rows[3].label``."""
    return f"rows[{row}].{member}" if member else f"rows[{row}]"


def _blame(found: Iterable[msgspec.Raw], how: Form[R]) -> None:
    """Raise what is wrong with the first record that is none."""
    for row, raw in enumerate(found):
        try:
            how.one.decode(raw)
        except msgspec.ValidationError:
            _one(bytes(raw), how, in_list, row)


def _one(body: bytes, how: Form[R], place: Place, row: int) -> R:
    """One record; what is wrong with it is told with its place."""
    try:
        return json_body.decode(body, how.one, how.names)
    except NotJson as error:
        raise NotJson(error.detail.replace("the body", place(row, ""), 1), _at(place, row, error.problems)) from None
    except Invalid as error:
        raise Invalid(*_at(place, row, error.problems)) from None


def _at(place: Place, row: int, problems: Iterable[Problem]) -> list[Problem]:
    return [each._replace(field=place(row, "" if each.field == "body" else each.field)) for each in problems]


def _under_rows(problems: Iterable[Problem]) -> list[Problem]:
    """Problems of a list as those of the rows that it holds."""
    return [each._replace(field=f"rows{each.field}") if each.field[:1] == "[" else each for each in problems]


# ------------------------------------------------------------------------------------------------ to a table


def table(records: Sequence[Any], how: Form[Any], sparse: bool, place: Place) -> Table:
    """Records as a table.

    Args:
        records: the rows.
        how: their form.
        sparse: of a model whose rows may hold any names.
        place: how errors name their members.

    Raises:
        Invalid: some rows have an id, a discount or a weight, and others none.
    """
    features = [record.features for record in records]
    columns, data = (columns_of(features, sparse) if features else None) or (None, features)
    labels = [record.label for record in records] if how.labelled else None
    beside: dict[str, Any] = {f"{name}s": _column(records, name, place) for name in how.beside}
    paths: dict[str, Any] = {f"{name}_path": _path(place, name) for name in ("label", *how.beside)}
    return Table(data, len(records), columns, labels=labels, place=place, **beside, **paths)


def _path(place: Place, member: str) -> Callable[[int], str]:
    return lambda row: place(row, member)


def _column(records: Sequence[Any], name: str, place: Place) -> list[Any] | None:
    """A member of every record; None where none has it."""
    values = [*map(getattr, records, repeat(name))]
    absent = values.count(None)
    if absent == len(values):
        return None
    if absent:
        without = [row for row, value in enumerate(values) if value is None][:PROBLEMS_MAX]
        raise Invalid(*(Problem(place(row, name), "is required, since other rows have one") for row in without))
    return values
