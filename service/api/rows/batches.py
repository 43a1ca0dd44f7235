"""Reads bodies with one or many rows: small ones on the event loop, large ones in a thread."""

from typing import TypeVar

import msgspec
from starlette.requests import Request

from core.contract import Floats
from service.api.http import bodies, json_body
from service.api.http.context import Context
from service.api.http.media import DENSE_TABLES, JSON, SVMLIGHT
from service.api.rows.formats.json_tables import OVERLAP, RowFormat
from service.api.rows.formats.tables import Sent, decoded_bytes, read_table
from service.runtime.engine import Freshness
from service.runtime.replicas.replica import Replica
from service.runtime.rows.ids import Identity, identity_of
from service.runtime.rows.table import Table
from service.runtime.threads import THREAD_BYTES, in_thread_if_large

T = TypeVar("T")
BATCH_IDS_MAX = 10_000  # most rows in a batch with ids


async def read_row(
    ctx: Context, request: Request, body: bytes | None, decoder: "msgspec.json.Decoder[T]"
) -> tuple[T, bytes]:
    """A row to predict or a labelled one, and its body, which is read unless it is given; raises the errors of
    ``json_body.large``.
    """
    if body is None:
        bodies.media_type(request, (JSON,))
        body = await bodies.read_body(request, ctx.engine.bounds.body_bytes_max)
    if len(body) <= THREAD_BYTES:
        return json_body.decode(body, decoder), body
    return await ctx.reader.call(json_body.large, body, decoder, json_body.ROW_VALUES_MAX), body


async def read_batch(
    ctx: Context, request: Request, name: str, form: RowFormat, fresh: Freshness | None = None, again: bytes = b""
) -> tuple[Replica, Table, bytes]:
    """A model, the rows sent to it, and their body (``again`` if it was read before). Raises as ``read_table``."""
    bounds, teaching = ctx.engine.bounds, form is OVERLAP
    kind = bodies.media_type(request, DENSE_TABLES if teaching else (*DENSE_TABLES, SVMLIGHT))
    body = again or await bodies.read_body(request, bounds.body_bytes_max)
    replica = await ctx.engine.replica(name, fresh)
    columns = max(len(parts.row_columns) for parts in replica.model.learners)
    sent = Sent(body, kind, request.query_params, bounds.batch_rows_max, bounds.body_bytes_max, columns)
    space = None if teaching else replica.model.prediction_schema
    await ctx.budget.decode(request.scope, body, await in_thread_if_large(len(body), decoded_bytes, sent, space))
    return replica, await ctx.reader.call_if_large(len(body), read_table, form, sent, space), body


def let_go(ctx: Context, request: Request, table: Table, raw: Floats) -> None:
    """Free the rows of a table that have been read as ``raw``, an array."""
    if isinstance(table.rows, list):
        table.rows.clear()
    ctx.budget.settle(request.scope, raw.nbytes)


async def identity_of_batch(
    ctx: Context, request: Request, body: bytes, table: Table, prefix: str, *before: bytes
) -> Identity:
    """The identity of a batch, used to recognise a retry; raises the errors of ``identity_of``.

    ``prefix`` is put before the ids of its rows; an Idempotency-Key covers ``before``, the query and the body.
    """
    key, whole = request.headers.get("idempotency-key"), (*before, request.scope["query_string"], b"\n", body)
    most, place = min(BATCH_IDS_MAX, ctx.engine.bounds.committer.ids_max), table.path("id")
    return await in_thread_if_large(len(body), identity_of, key, table.ids, prefix, whole, most, place)
