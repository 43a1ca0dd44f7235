"""From the body of a request that carries many rows to rows that one model can learn or predict.

One function per route, of the request and the model's ``RowValidator``: called on the event loop for a small body, in
the thread that reads large ones otherwise (``api.large_bodies``).
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from core.contract import Floats
from core.entry import Overlap, Rows
from core.features.feature import COLUMNS_MAX
from core.problems import Conflict, Invalid, Problem
from service.api.http import json_body
from service.api.rows.formats import records
from service.api.rows.formats.records import Form
from service.api.rows.formats.tables import Sent, TableForm, names_given, read_table
from service.api.rows.identity import ID, OVERLAP, Identity, digests_of, identity_of
from service.api.rows.interval import level_of_batch
from service.api.schemas import (
    Body,
    FeedbackColumns,
    FeedbackRecords,
    FeedbackSparse,
    OverlapBody,
    PredictColumns,
    PredictRecords,
    PredictSparse,
)
from service.runtime.rows.named_rows import as_written, named_as_first
from service.runtime.rows.row_validation import Labels, RowValidator
from service.runtime.rows.table import Table

R = TypeVar("R", Rows, Overlap)
B = TypeVar("B", bound=Body)
ReadJson = Callable[[bytes, bool], Table]
"""Reads a body of JSON; the second argument is whether the rows are sparse."""
REFUSED = (Invalid, Conflict)
"""What rows are refused by: themselves, or the model's state."""
UNLABELLED = "overlap"
"""What an id of an overlap row stands for: the row, which is compared by nothing else."""

ROW_VALUES_MAX = COLUMNS_MAX + 100
"""Most names and values in one row."""

_overlap_body = msgspec.json.Decoder(OverlapBody)


class ToPredict(NamedTuple):
    """Rows that may be predicted: raw values (n, F), and the level of their intervals where these are asked for."""

    raw: Floats
    level: float | None


class ToLearn(NamedTuple, Generic[R]):
    """Rows that may be committed, what they are remembered by, and how many there are."""

    rows: R
    identity: Identity
    size: int


class Refused(NamedTuple):
    """Rows that the model does not take.

    Attributes:
        error: why.
        identity: what the request would be remembered by.
        labels: of the rows; None where they are wrong too, or there are none.
        size: how many rows.
    """

    error: Invalid | Conflict
    identity: Identity
    labels: Labels | None
    size: int


def feedback(sent: Sent, validator: RowValidator) -> ToLearn[Rows] | Refused:
    """Labelled rows.

    Raises:
        BadBody, Invalid: the body is no table, or its ids are none.
    """
    table = read_table(_FEEDBACK, sent, validator.space)
    whole = (sent.query_string, b"\n", sent.body)
    identity = identity_of(sent.key, table.ids, ID, whole, sent.ids_max, table.id_path)
    try:
        table = _proposing(table, validator)
        rows = validator.feedback(table, identity.ids)
    except REFUSED as error:
        return _refused(error, identity, table, validator)
    return ToLearn(rows, _with_digests(identity, rows.y), table.size)


def _proposing(table: Table, validator: RowValidator) -> Table:
    """Rows of different names, where they fix the features of the model: as a table of the first row's names."""
    if table.place is None or table.columns is not None or validator.union is not None:
        return table
    columns, data = named_as_first(table.data, table.place, validator.config.ignore)
    return table._replace(columns=columns, data=data)


def _refused(error: Invalid | Conflict, identity: Identity, table: Table, validator: RowValidator) -> Refused:
    error = as_written(error, table)
    try:
        labels = validator.bare_labels(table)
    except Invalid:
        return Refused(error, identity, None, table.size)
    return Refused(error, _with_digests(identity, labels), labels, table.size)


def _with_digests(identity: Identity, labels: Labels) -> Identity:
    if identity.digests or not identity.ids:
        return identity
    return Identity(identity.ids, digests_of(labels))


def predict(sent: Sent, validator: RowValidator) -> ToPredict | Refused:
    """Rows to predict, in ``validator.space``.

    Raises:
        BadBody, Invalid: the body is no table, or asks for intervals that the model does not have.
    """
    table = read_table(_PREDICT, sent, validator.space)
    level = level_of_batch(table.interval, sent.query, validator.config.task)
    try:
        return ToPredict(validator.prediction(table)[1], level)
    except REFUSED as error:
        return Refused(as_written(error, table), Identity(), None, table.size)


def overlap(sent: Sent, validator: RowValidator) -> ToLearn[Overlap] | Refused:
    """Unlabelled rows with both sets of features.

    Raises:
        BadBody, Invalid: the body is no table, or its ids are none.
    """
    table = read_table(_OVERLAP, sent, None)
    whole = (b"overlap\n", sent.query_string, b"\n", sent.body)
    identity = identity_of(sent.key, table.ids, OVERLAP, whole, sent.ids_max, table.id_path)
    identity = Identity(identity.ids, identity.digests or (UNLABELLED,) * len(identity.ids))
    try:
        return ToLearn(validator.overlap(table, identity.ids), identity, table.size)
    except REFUSED as error:
        return Refused(as_written(error, table), identity, None, table.size)


# ------------------------------------------------------------------------------------------------ large single rows


def large_row(kind: type[B], body: bytes) -> B:
    """A row to predict or a labelled one, of no more values than a row may have.

    Raises:
        NotJson, Invalid: it is none.
    """
    json_body.refuse_many(body, ROW_VALUES_MAX)
    return json_body.decode(body, msgspec.json.Decoder(kind))


# ------------------------------------------------------------------------------------------------ JSON


def _any_of(columns: type[Body], by_name: type[Body]) -> "msgspec.json.Decoder[Any]":
    """A decoder of rows by column or by name: of the fields of both, none of them required."""
    fields = {own.name: own.type for kind in (columns, by_name) for own in msgspec.structs.fields(kind)}
    optional: Any = [(name, kind | None, None) for name, kind in fields.items()]
    return msgspec.json.Decoder(msgspec.defstruct("Rows", optional, forbid_unknown_fields=True))


def _beside(table: Table, ask: Any, kind: type[Body]) -> Table:
    """A table with what stands beside its rows in a request of a kind: their labels, or the interval asked for."""
    return table._replace(**{name: getattr(ask, name) for name in kind.__struct_fields__ if name in Table._fields})


def _json(columns: type[Body], by_name: type[Body], sparse_kind: type[Body], how: Form[Any]) -> ReadJson:
    """How rows in JSON are read: by column, by name, in a list, or sparse ones.

    Args:
        columns: an object with a list per row.
        by_name: one with an object per row.
        sparse_kind: one with the names and values of each row.
        how: the form of rows by name.
    """
    either, sparse_rows = _any_of(columns, by_name), msgspec.json.Decoder(sparse_kind)
    own = by_name.__struct_fields__

    def read_json(body: bytes, sparse: bool) -> Table:
        if records.is_list(body):
            return records.listed(body, how, sparse)
        if sparse and not records.by_name(body):
            rows: Any = json_body.decode(body, sparse_rows, lambda ask: names_given(ask) + 2 * len(ask.rows))  # type: ignore[attr-defined]
            return _beside(Table(rows.rows, len(rows.rows)), rows, sparse_kind)
        ask = _object_of(body, either, how)
        if ask.rows is not None:
            others = [name for name in ask.__struct_fields__ if name not in own and getattr(ask, name) is not None]
            if others:
                raise Invalid.of("rows", f"exclude {', '.join(others)}: every row has its own")
            return _beside(records.table(ask.rows, how, sparse, records.in_list), ask, by_name)
        for field in msgspec.structs.fields(columns):
            if field.required and getattr(ask, field.name) is None:
                raise Invalid.of(field.name, "is required", "columns and data, or rows")
        return _beside(Table(ask.data, len(ask.data), ask.columns), ask, columns)

    return read_json


def _object_of(body: bytes, decoder: "msgspec.json.Decoder[Any]", how: Form[Any]) -> Any:
    """A request for rows by column or by name; of records that are wrong the first is told."""

    def names(ask: Any) -> int:
        features = getattr(ask, "features", None) or ()
        return names_given(ask) + len(features) + sum(map(how.names, ask.rows or ()))

    try:
        return json_body.decode(body, decoder, names)
    except Invalid as error:
        records.blame(body, how, error)


def _overlap_json(body: bytes, _: bool) -> Table:
    """One row by name, or several by column or by name."""
    how = records.OVERLAP
    if records.is_list(body):
        return records.listed(body, how, sparse=False)
    ask = _object_of(body, _overlap_body, how)
    if ask.features is not None:
        _exclude(ask, "features", ("columns", "data", "ids", "rows"))
        return Table(ask.features, 1, ids=ask.id)
    if ask.rows is not None:
        _exclude(ask, "rows", ("columns", "data", "ids", "id"))
        return records.table(ask.rows, how, sparse=False, place=records.in_list)
    if ask.columns is None or ask.data is None:
        allowed = "features of one row, or columns and data, or rows"
        raise Invalid.of("features", "is required", allowed)
    _exclude(ask, "columns", ("id",))
    return Table(ask.data, len(ask.data), ask.columns, ids=ask.ids)


def _exclude(ask: OverlapBody, given: str, others: Sequence[str]) -> None:
    both = [name for name in others if getattr(ask, name) is not None]
    if both:
        raise Invalid(*(Problem(name, f"excludes {given}") for name in both))


_FEEDBACK = TableForm(_json(FeedbackColumns, FeedbackRecords, FeedbackSparse, records.FEEDBACK), records.FEEDBACK)
_PREDICT = TableForm(_json(PredictColumns, PredictRecords, PredictSparse, records.PREDICT), records.PREDICT)
_OVERLAP = TableForm(_overlap_json, records.OVERLAP)
