"""Unlabelled rows with both sets of features, which teach how old features are recovered from new ones.

They are entries of the log like any feedback; a request that is sent again under the same id is answered as it was the
first time.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from core.entry import Overlap
from core.features import Schema
from core.problems import Conflict, Invalid, Problem
from service.api import bodies, idempotency, tables
from service.api.context import Context, known_queries
from service.api.feature_schemas import OverlapBody, Taught
from service.runtime.replica import Replica, Reply
from service.runtime.row_validation import RowValidator, digest_of_bytes, matrix, same_count

_overlap = msgspec.json.Decoder(OverlapBody)
_encode = msgspec.json.Encoder().encode
UNLABELLED = "overlap"
"""What an id of an overlap row stands for: the row, which is compared by nothing else."""


class Unlabelled(NamedTuple):
    """Overlap rows as they were read, before they are checked against a model.

    Attributes:
        names: column names; None where ``data`` is one row by names, or an array.
        data: a row by names, JSON rows, CSV rows, or an array.
        ids: one per row, or None.
        size: number of rows.
    """

    names: list[str] | None
    data: Any
    ids: Sequence[str] | None
    size: int


async def teach(ctx: Context, request: Request) -> Response:
    """Unlabelled rows with both sets of features."""
    engine = ctx.engine
    kind = bodies.media_type(request, bodies.DENSE_TABLES)
    body = await bodies.read_body(request, engine.bounds.body_bytes_max)
    table = _read(kind, request, body)
    tables.check_size(table.size, engine.bounds.batch_rows_max)
    ids, digests = _overlap_ids(ctx, request, table, body)
    replica = await engine.replica(request.path_params["name"])
    try:
        segment = await _segment(ctx, replica, table, kind, ids)
    except (Invalid, Conflict) as error:
        seen = await idempotency.known(ctx, replica, ids, error)
        idempotency.same(seen, digests)
        reply = await idempotency.first_reply(ctx, replica, ids, seen)
    else:
        reply = await engine.committer.submit(replica, segment, digests)
    return Response(_encode(_taught(ctx, replica, reply, table.size)), media_type=bodies.JSON)


def _read(kind: str, request: Request, body: bytes) -> Unlabelled:
    if kind == bodies.CSV:
        header, rows = tables.csv_rows(body)
        ids = tables.pop_column(header, rows, request.query_params.get("id"), "id")
        return Unlabelled(header, rows, ids, len(rows))
    known_queries(request)
    if kind == bodies.NPY:
        array = tables.npy(body)
        return Unlabelled(None, array, None, len(array) if array.ndim else 0)
    ask = bodies.decode(body, _overlap)
    given = sum(part is not None for part in (ask.features, ask.columns, ask.data, ask.id, ask.ids))
    bodies.refuse_repeated(body, given + len(ask.features or ()))
    return _single(ask) if ask.features is not None else _columnar(ask)


def _single(ask: OverlapBody) -> Unlabelled:
    _exclude(ask, "features", "columns", "data", "ids")
    return Unlabelled(None, ask.features, None if ask.id is None else [ask.id], 1)


def _columnar(ask: OverlapBody) -> Unlabelled:
    if ask.columns is None or ask.data is None:
        raise Invalid.of("features", "is required", "features of one row, or columns and data of several")
    _exclude(ask, "columns", "id")
    if ask.ids is not None:
        same_count(ask.ids, len(ask.data), "ids")
    return Unlabelled(ask.columns, ask.data, ask.ids, len(ask.data))


def _exclude(ask: OverlapBody, given: str, *others: str) -> None:
    both = [name for name in others if getattr(ask, name) is not None]
    if both:
        raise Invalid(*(Problem(name, f"excludes {given}") for name in both))


def _overlap_ids(
    ctx: Context, request: Request, table: Unlabelled, body: bytes
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The ids of the rows, or one for all of them, and their digests."""
    whole = request.headers.get("idempotency-key")
    if whole is not None:
        if table.ids is not None:
            raise Invalid.of("ids", "exclude Idempotency-Key")
        sent = b"overlap\n" + request.scope["query_string"] + b"\n" + body
        return (idempotency.REQUEST + idempotency.printable(whole, "Idempotency-Key"),), (digest_of_bytes(sent),)
    if table.ids is None:
        return (), ()
    if isinstance(table.data, dict):
        return (idempotency.OVERLAP + idempotency.printable(table.ids[0], "id"),), (UNLABELLED,)
    tables.check_size(table.size, ctx.engine.bounds.batch_ids_max)
    return idempotency.per_row(table.ids, idempotency.OVERLAP), (UNLABELLED,) * table.size


async def _segment(ctx: Context, replica: Replica, table: Unlabelled, kind: str, ids: tuple[str, ...]) -> Overlap:
    """The rows as the model reads them; once more where the replica stood behind the log."""
    try:
        return _checked(RowValidator(ctx.engine.models, replica), table, kind, ids)
    except (Invalid, Conflict):
        if not await ctx.engine.caught_up(replica):
            raise
    return _checked(RowValidator(ctx.engine.models, replica), table, kind, ids)


def _checked(validator: RowValidator, table: Unlabelled, kind: str, ids: tuple[str, ...]) -> Overlap:
    """Overlap rows against the model as it stands.

    Raises:
        RequestConflict: no overlap is under way.
        Invalid: naming the first fields that are wrong.
    """
    if isinstance(table.data, dict):
        return validator.overlap_row(table.data, ids)
    schema = validator.overlap_schema()
    return Overlap(schema.id, _raw(validator, schema, table, kind), ids)


def _raw(validator: RowValidator, schema: Schema, table: Unlabelled, kind: str) -> Any:
    if table.names is None:
        return schema.matrix(matrix(table.data, schema.raw_width), validator.missing_allowed, "body")
    validator.all_there(table.names, "columns" if kind == bodies.JSON else "header")
    read = schema.block if kind == bodies.JSON else schema.text_cells
    return read(table.names, table.data, validator.missing_allowed)


def _taught(ctx: Context, replica: Replica, reply: Reply, size: int) -> Taught:
    return Taught(
        overlap_rows=reply.overlap_rows,
        version=reply.version,
        rows=reply.rows,
        duplicate=reply.all_duplicate,
        duplicates=size if reply.all_duplicate else reply.duplicates,
        durability=ctx.engine.durability,
        incarnation=replica.incarnation,
    )
