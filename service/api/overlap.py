"""Unlabelled rows with both sets of features, which teach how old features are recovered from new ones.

They are entries of the log like any feedback; a request that is sent again under the same id is answered as it was the
first time.
"""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from service.api import bodies, large_bodies, row_requests
from service.api.context import Ctx, ModelName, Text, idempotency_key
from service.api.csv_queries import csv_form
from service.api.idempotency import answer_if_seen
from service.api.media import DENSE_TABLES, JSON
from service.api.openapi import examples
from service.api.openapi.document import raw_body
from service.api.route import LEARN, Route
from service.api.row_requests import Refused
from service.api.schemas import OverlapBody, OverlapRecord, Taught

router = APIRouter(route_class=Route, tags=["features"])
_encode = msgspec.json.Encoder().encode


async def _csv_columns(
    id: Annotated[Text | None, Query(description="text/csv only: the column of the id.")] = None,  # noqa: A002
) -> None:
    """The query of a table, for /openapi.json; ``tables`` reads it."""


@router.post(
    "/models/{name}/features/overlap",
    dependencies=[LEARN, Depends(idempotency_key), Depends(_csv_columns), Depends(csv_form)],
    response_model=Taught,
    openapi_extra=raw_body(
        OverlapBody,
        shown=examples.OVERLAP,
        record=OverlapRecord,
        lines=examples.OVERLAP_LINES,
        csv=examples.OVERLAP_CSV,
        npy="old features in their order, then the new names",
    ),
)
async def teach_mapping(ctx: Ctx, name: ModelName, request: Request) -> Response:
    """Unlabelled rows with both sets of features.

    Used only to learn the mapping from new to old features. One row by name, or several by column or by name; also
    `application/x-ndjson` (one row by name a line), `text/csv` with a header (`?id=`, `?drop=`, `?delimiter=`),
    and `application/x-npy`, a file of `numpy.save` (float64, old features in their order, then the new names). Every
    name of both spaces has to be there.
    """
    kind = bodies.media_type(request, DENSE_TABLES)
    body = await bodies.read_body(request, ctx.engine.bounds.body_bytes_max)
    replica = await ctx.engine.replica(name)
    found, _ = await large_bodies.read(ctx, replica, row_requests.overlap, large_bodies.sent(ctx, request, kind, body))
    if isinstance(found, Refused):
        reply = await answer_if_seen(ctx, replica, found.identity, found.error)
    else:
        reply = await replica.inbox.submit(found.rows, found.identity.digests)
    answer = Taught(
        overlap_rows=reply.answer.overlap_rows,
        version=reply.answer.version,
        rows=reply.answer.rows,
        duplicate=reply.all_duplicate,
        duplicates=found.size if reply.all_duplicate else reply.duplicates,
        durability=ctx.engine.durability,
        incarnation=replica.incarnation,
    )
    return Response(_encode(answer), media_type=JSON)
