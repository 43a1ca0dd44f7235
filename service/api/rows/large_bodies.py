"""Reads the rows of a request where that disturbs nobody: on the event loop, or in the thread for large bodies."""

from collections.abc import Callable
from typing import TypeVar

from starlette.requests import Request

from service.api.http.context import Context
from service.api.rows.formats.tables import Sent
from service.api.rows.row_requests import Refused
from service.runtime.replicas.replica import Replica
from service.runtime.rows import row_rules
from service.runtime.rows.row_validation import RowValidator

T = TypeVar("T")
Form = Callable[[Sent, RowValidator], T]
"""One of the functions of ``row_requests``."""
BATCH_IDS_MAX = 10_000
"""Most rows in one batch whose rows carry ids."""


def sent(ctx: Context, request: Request, kind: str, body: bytes) -> Sent:
    """A request as plain values."""
    bounds, key = ctx.engine.bounds, request.headers.get("idempotency-key")
    query, most = dict(request.query_params), bounds.body_bytes_max
    query_string: bytes = request.scope["query_string"]
    return Sent(body, kind, query, query_string, key, bounds.batch_rows_max, BATCH_IDS_MAX, most)


async def read(ctx: Context, replica: Replica, form: Form[T], given: Sent) -> tuple[T | Refused, RowValidator]:
    """The rows of a request, and the validator they were read by; once more if they are refused and the replica was
    behind its log, where another replica may have committed what makes them valid.

    Raises:
        OnepassError, Invalid: as ``form``.
    """
    version = replica.version
    found, validator = await _read(ctx, replica, form, given)
    if not isinstance(found, Refused):
        return found, validator
    if not await ctx.engine.caught_up(replica) and replica.version == version:
        return found, validator
    return await _read(ctx, replica, form, given)


async def _read(ctx: Context, replica: Replica, form: Form[T], given: Sent) -> tuple[T | Refused, RowValidator]:
    validator = row_rules.validator_of(ctx.engine.models, replica)
    return await ctx.reader.call_if_large(len(given.body), form, given, validator), validator
