"""POST /models/{name}/copy: a new model with the state of another one."""

from typing import Annotated

from fastapi import APIRouter, Body, Request
from pydantic import Field
from starlette.responses import Response

from core.problems import Invalid
from service.api.context import NAME, Ctx, IdempotencyKey, ModelName
from service.api.identity import printable
from service.api.model_schemas import Model, RequestBody
from service.api.models import shown
from service.api.openapi.examples import COPY
from service.api.route import ADMIN, Route
from service.runtime import copies
from service.runtime.engine import Freshness

router = APIRouter(route_class=Route, tags=["state"])


class CopyBody(RequestBody):
    """What a copy is called."""

    name: str = Field(
        description="Of the copy; no model has it yet.", json_schema_extra={"pattern": f"^{NAME.pattern}$"}
    )


@router.post(
    "/models/{name}/copy",
    dependencies=[ADMIN],
    status_code=201,
    response_model=Model,
    response_description="The copy",
)
async def copy_model(
    ctx: Ctx,
    name: ModelName,
    body: Annotated[CopyBody, Body(openapi_examples=COPY)],
    request: Request,
    key: IdempotencyKey,
) -> Response:
    """Copy a model.

    The copy is a new incarnation at version 0, with the rows, the state, the metrics and the configuration that the
    model has at the head of its log; it learns by itself from then on. Remembered ids, tracked predictions and drift
    events are not copied. A name that is taken is 409, unless the same request, by its Idempotency-Key, has made that
    copy: then it is shown. To rename a model, stop its clients, copy it and DELETE it; predictions that it has tracked
    go with it. The key needs `admin` on both names.
    """
    ctx.keys.allow(request.headers, "admin", body.name)
    if NAME.fullmatch(body.name) is None:
        raise Invalid.of("name", "is not a model name", NAME.pattern)
    known_by = "" if key is None else printable(key, "Idempotency-Key")
    replica = await ctx.engine.replica(name, Freshness(strong=True))
    return await shown(await copies.copy(ctx.engine, replica, body.name, known_by), 201)
