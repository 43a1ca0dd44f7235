"""Unlabelled rows with both sets of features, which teach how old features are recovered from new ones.

They are entries of the log like any feedback; a request that is sent again under the same id is answered as it was the
first time.
"""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from core.problems import Invalid, Problem
from service.api import bodies
from service.api.context import Ctx, ModelName, idempotency_key
from service.api.idempotency import OVERLAP, REFUSED, Identity, answer_if_seen, identity_of, read_rows
from service.api.openapi import examples
from service.api.openapi.raw_bodies import raw_body
from service.api.route import LEARN, Route
from service.api.schemas import OverlapBody, Taught
from service.api.tables import TableForm, names_given, read_table
from service.runtime.row_validation import Table
from service.runtime.threads import in_thread_if_large

router = APIRouter(route_class=Route, tags=["features"])
_overlap = msgspec.json.Decoder(OverlapBody)
_encode = msgspec.json.Encoder().encode
UNLABELLED = "overlap"
"""What an id of an overlap row stands for: the row, which is compared by nothing else."""


async def _csv_columns(
    id: Annotated[str | None, Query(description="text/csv only: the column of the id.")] = None,  # noqa: A002
) -> None:
    """The query of a table, for /openapi.json; ``tables`` reads it."""


@router.post(
    "/models/{name}/features/overlap",
    dependencies=[LEARN, Depends(idempotency_key), Depends(_csv_columns)],
    response_model=Taught,
    openapi_extra=raw_body(
        OverlapBody,
        shown=examples.OVERLAP,
        csv=examples.OVERLAP_CSV,
        npy="old features in their order, then the new names",
    ),
)
async def teach_mapping(ctx: Ctx, name: ModelName, request: Request) -> Response:
    """Unlabelled rows with both sets of features.

    Used only to learn the mapping from new to old features. One row by name, or several by column; also `text/csv` with
    a header (`?id=`) and `application/x-npy`, a file of `numpy.save` (float64, old features in their order, then the
    new names). Every name of both spaces has to be there.
    """
    bounds = ctx.engine.bounds
    kind = bodies.media_type(request, bodies.DENSE_TABLES)
    body = await bodies.read_body(request, bounds.body_bytes_max)
    size = len(body)
    table = await read_table(ROWS, kind, body, request.query_params, bounds)
    key, sent = request.headers.get("idempotency-key"), (b"overlap\n", request.scope["query_string"], b"\n", body)
    identity = await in_thread_if_large(
        size if key else 0, identity_of, key, table.ids, OVERLAP, sent, bounds.batch_ids_max
    )
    identity = Identity(identity.ids, identity.digests or (UNLABELLED,) * len(identity.ids))
    replica = await ctx.engine.replica(name)
    try:
        rows = await read_rows(ctx, replica, size, lambda validator: validator.overlap(table, identity.ids))
    except REFUSED as error:
        reply = await answer_if_seen(ctx, replica, identity, error)
    else:
        reply = await replica.inbox.submit(rows, identity.digests)
    answer = Taught(
        overlap_rows=reply.answer.overlap_rows,
        version=reply.answer.version,
        rows=reply.answer.rows,
        duplicate=reply.all_duplicate,
        duplicates=table.size if reply.all_duplicate else reply.duplicates,
        durability=ctx.engine.durability,
        incarnation=replica.incarnation,
    )
    return Response(_encode(answer), media_type=bodies.JSON)


def _read_json(body: bytes, _: bool) -> Table:
    """One row by names, or several by column."""
    ask = bodies.decode(body, _overlap, lambda ask: names_given(ask) + len(ask.features or ()))
    if ask.features is not None:
        _exclude(ask, "features", "columns", "data", "ids")
        return Table(ask.features, 1, ids=ask.id)
    if ask.columns is None or ask.data is None:
        raise Invalid.of("features", "is required", "features of one row, or columns and data of several")
    _exclude(ask, "columns", "id")
    return Table(ask.data, len(ask.data), ask.columns, ids=ask.ids)


ROWS = TableForm(labelled=False, json=_read_json)


def _exclude(ask: OverlapBody, given: str, *others: str) -> None:
    both = [name for name in others if getattr(ask, name) is not None]
    if both:
        raise Invalid(*(Problem(name, f"excludes {given}") for name in both))
