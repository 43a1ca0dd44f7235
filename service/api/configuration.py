"""PATCH /models/{name}: settings that change while the model learns, by an entry of its log."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from starlette.responses import Response

from core.config import ModelChanges
from core.model import Model as CoreModel
from service.api.context import Ctx, IdempotencyKey, ModelName
from service.api.documents import FEATURE_BYTES
from service.api.idempotency import answer_if_seen
from service.api.identity import REQUEST, identity_of
from service.api.model_schemas import Model, sent_as
from service.api.models import shown
from service.api.openapi.examples import CHANGES
from service.api.route import ADMIN, Route
from service.api.row_requests import REFUSED
from service.runtime import configuration
from service.runtime.engine import Freshness
from service.runtime.threads import in_thread_if_large

router = APIRouter(route_class=Route, tags=["models"])


@router.patch(
    "/models/{name}",
    dependencies=[ADMIN],
    response_model=Model,
    response_description="The model as it is now",
)
async def configure_model(
    ctx: Ctx,
    name: ModelName,
    body: Annotated[dict[str, Any], sent_as(ModelChanges), Body(openapi_examples=CHANGES)],
    request: Request,
    key: IdempotencyKey,
) -> Response:
    """Change settings.

    The fields that are named are replaced, the others stay; null gives a field's default back, and turns `watch` off.
    The change is an entry of the log: it holds from one row on, on every replica, and is a mark in the metrics. A row
    that is on its way is taken if it is valid before the change or after it. A model that has these values already
    stays at its version, unless the request carries an Idempotency-Key. Labels and categories can be added; else
    features are changed by a switch, and algorithm, parameters, task and seed never change. A reset keeps the present
    configuration; a restore brings back the one of its version.
    """
    engine = ctx.engine
    identity = identity_of(key, None, REQUEST, (b"configure\n", await request.body()))
    replica = await engine.replica(name, Freshness(strong=True))  # what the model has by now, the log says
    version = 0
    try:
        segment = await in_thread_if_large(
            FEATURE_BYTES * _features(replica.machine),
            configuration.plan,
            replica.machine,
            engine.models.admit,
            body,
            identity.ids,
        )
    except REFUSED as error:
        await answer_if_seen(ctx, replica, identity, error)
    else:
        if segment is not None:
            version = (await replica.inbox.submit(segment, identity.digests)).answer.version
    return await shown(await engine.replica(name, Freshness(min_version=version)))


def _features(machine: CoreModel) -> int:
    """Features that a change may have to be checked against."""
    return 0 if machine.prediction_schema is None else machine.prediction_schema.raw_width
