"""Bodies that carry rows, one or many, are read where that disturbs nobody: on the event loop, or in a thread."""

from typing import TypeVar

import msgspec
from starlette.requests import Request

from core.features import Space
from service.api.http import json_body
from service.api.http.context import Context
from service.api.rows.formats.json_tables import Form
from service.api.rows.formats.tables import Sent, read_table
from service.api.rows.identity import Identity, identity_of
from service.runtime.rows.table import Table
from service.runtime.threads import THREAD_BYTES, in_thread_if_large

T = TypeVar("T")
BATCH_IDS_MAX = 10_000
"""Most rows in one batch whose rows carry ids."""


async def read_row(ctx: Context, body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """A row to predict or a labelled one; errors as of ``json_body.large``."""
    if len(body) <= THREAD_BYTES:
        return json_body.decode(body, decoder)
    return await ctx.reader.call(json_body.large, body, decoder, json_body.ROW_VALUES_MAX)


async def read_batch(ctx: Context, request: Request, kind: str, body: bytes, form: Form, space: Space | None) -> Table:
    """The rows of a body of a media type; arguments and errors as of ``read_table``."""
    bounds = ctx.engine.bounds
    sent = Sent(body, kind, request.query_params, bounds.batch_rows_max, bounds.body_bytes_max)
    return await ctx.reader.call_if_large(len(body), read_table, form, sent, space)


async def identity_of_batch(request: Request, body: bytes, table: Table, prefix: str, *before: bytes) -> Identity:
    """What a batch is remembered by.

    Args:
        request: the request.
        body: of it.
        table: its rows.
        prefix: of the ids of these rows.
        before: what its Idempotency-Key stands for besides the query and the body.

    Raises:
        Invalid, TooLarge: as ``identity_of``.
    """
    key, whole = request.headers.get("idempotency-key"), (*before, request.scope["query_string"], b"\n", body)
    place = table.path("id")
    return await in_thread_if_large(len(body), identity_of, key, table.ids, prefix, whole, BATCH_IDS_MAX, place)
