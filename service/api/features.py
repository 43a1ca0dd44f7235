"""A change of features: /models/{name}/features and /features/switch.

A switch is an entry of the log like any feedback; a request that is sent again under the same id is answered as it was
the first time.
"""

from dataclasses import replace
from functools import partial
from typing import Annotated

import msgspec
from fastapi import APIRouter, Body, Query, Request
from starlette.responses import Response

from service.api import documents
from service.api.conditional import NOT_MODIFIED
from service.api.context import Context, Ctx, IdempotencyKey, ModelName
from service.api.documents import json_of, stamped
from service.api.feature_schemas import FeatureSpaces, SwitchBody, SwitchedSpaces
from service.api.idempotency import answer_if_seen
from service.api.identity import SWITCH, Identity, digest, identity_of
from service.api.models import ReadModel
from service.api.openapi.examples import SWITCHES
from service.api.rendered import Rendered
from service.api.route import ADMIN, READ, Route
from service.api.row_requests import REFUSED
from service.runtime import feature_switch
from service.runtime.engine import Freshness
from service.runtime.jobs import Reply
from service.runtime.replica import Replica

router = APIRouter(route_class=Route, tags=["features"])
_json = msgspec.json.Encoder().encode


@router.get("/models/{name}/features", dependencies=[READ], response_model=FeatureSpaces, responses=NOT_MODIFIED)
async def show_features(
    replica: ReadModel,
    means: Annotated[bool, Query(description="Tell the means of the features as well.")] = False,
) -> Response:
    """Where a change of features stands.

    After a change the experts `recovered` (the old model, on old features recovered from the new ones), `new` (trained
    on the new features in the overlap) and, for linear models, `carried` (a copy of the old one in the new features)
    predict together until the next change is complete, each weighted by how well it does.
    """
    stamp, found = await stamped(replica, partial(documents.features, means=means))
    return Rendered(json_of(found), stamp)


@router.post("/models/{name}/features/switch", dependencies=[ADMIN], response_model_exclude_unset=True)
async def switch_features(
    ctx: Ctx,
    name: ModelName,
    ask: Annotated[SwitchBody, Body(openapi_examples=SWITCHES)],
    request: Request,
    key: IdempotencyKey,
) -> SwitchedSpaces:
    """Begin, complete or abort a change of features.

    `begin` declares the whole new space. From then on feedback carries the features of both spaces, predictions need
    the old ones (new ones are ignored), and the mapping between them is learned; feedback that holds none of the new
    names is learned by the old model, and answered with `"mapped": false`. After `complete` only the new features
    are sent: the old model goes on, on recovered features, beside new ones, each weighted by how well it does. `abort`
    drops the overlap and leaves the model as it was. `complete` with fewer than five rows that have taught the mapping
    is 409, unless `force` is true. Names in both spaces are kept; one that is declared with other categories or bounds
    is sent once, and read by each side as it declares it. Any number of changes, one at a time. `id` or
    Idempotency-Key make a retry safe.
    """
    engine = ctx.engine
    identity = _identity(ask, key, await request.body())
    replica = await engine.replica(name, Freshness(strong=True))  # which phase the model is in, the log says
    try:
        segment = feature_switch.step(
            replica.machine, engine.models.admit, ask.action, ask.features, ask.mapping, ask.force
        )
    except REFUSED as error:
        reply = await answer_if_seen(ctx, replica, identity, error)
    else:
        reply = await replica.inbox.submit(replace(segment, ids=identity.ids), identity.digests)
    return _switched(ctx, replica, reply)


def _identity(ask: SwitchBody, key: str | None, body: bytes) -> Identity:
    """What a switch is remembered by: its own id stands for what it asks for."""
    identity = identity_of(key, ask.id, SWITCH, (b"switch\n", body))
    asked = _json((ask.action, ask.features, ask.mapping, *([ask.force] if ask.force else [])))
    return Identity(identity.ids, identity.digests or (digest(asked),) * len(identity.ids))


def _switched(ctx: Context, replica: Replica, reply: Reply) -> SwitchedSpaces:
    warning = {} if reply.answer.warning is None else {"warning": reply.answer.warning}
    return SwitchedSpaces(
        **msgspec.json.decode(reply.answer.feature_state),
        **warning,
        version=reply.answer.version,
        incarnation=replica.incarnation,
        rows=reply.answer.rows,
        duplicate=reply.all_duplicate,
        durability=ctx.engine.durability,
    )
