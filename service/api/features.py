"""A change of features: /models/{name}/features and /features/switch.

A switch is an entry of the log like any feedback; a request that is sent again under the same id is answered as it was
the first time.
"""

from dataclasses import replace
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from service.api import bodies
from service.api.context import Context, freshness
from service.api.feature_schemas import FeatureSpaces, SwitchBody, SwitchedSpaces
from service.api.idempotency import REFUSED, SWITCH, Identity, answer_if_seen, digest, identity_of
from service.runtime import feature_switch
from service.runtime.engine import Freshness
from service.runtime.replica import Replica, Reply


class _Ask(SwitchBody):
    """A switch whose features are read by ``core.features``, which names what is wrong with each."""

    features: list[Any] | None = None


_switch = msgspec.json.Decoder(_Ask)
_json = msgspec.json.Encoder().encode


def answer(body: object) -> Response:
    """A JSON response."""
    return Response(_json(body), media_type=bodies.JSON)


async def show(ctx: Context, request: Request) -> Response:
    """Where a model stands in a change of features."""
    replica = await ctx.engine.replica(request.path_params["name"], freshness(request))
    async with replica.held():
        feature_state, version = feature_switch.feature_state(replica.machine), replica.version
    return answer(FeatureSpaces(**feature_state, version=version, incarnation=replica.incarnation))


# ------------------------------------------------------------------------------------------------ the switch


async def switch(ctx: Context, request: Request) -> Response:
    """Begin, complete or abort a change of features."""
    engine = ctx.engine
    bodies.media_type(request, (bodies.JSON,))
    body = await bodies.read_body(request, engine.bounds.body_bytes_max)
    ask = bodies.decode(body, _switch)
    bodies.refuse_repeated(body, -1)
    identity = _identity(ask, request.headers.get("idempotency-key"), body)
    # strong: which phase the model is in, the log says
    replica = await engine.replica(request.path_params["name"], Freshness(strong=True))
    try:
        segment = feature_switch.step(
            replica.machine, engine.models.admit_switch, ask.action, ask.features, ask.mapping
        )
    except REFUSED as error:
        reply = await answer_if_seen(ctx, replica, identity, error)
    else:
        reply = await engine.committer.submit(replica, replace(segment, ids=identity.ids), identity.digests)
    return answer(_switched(ctx, replica, reply))


def _identity(ask: _Ask, key: str | None, body: bytes) -> Identity:
    """What a switch is remembered by: its own id stands for what it asks for."""
    identity = identity_of(key, ask.id, SWITCH, (b"switch\n", body))
    asked = _json((ask.action, ask.features, ask.mapping))
    return Identity(identity.ids, identity.digests or (digest(asked),) * len(identity.ids))


def _switched(ctx: Context, replica: Replica, reply: Reply) -> SwitchedSpaces:
    return SwitchedSpaces(
        **msgspec.json.decode(reply.feature_state),
        version=reply.version,
        incarnation=replica.incarnation,
        rows=reply.rows,
        duplicate=reply.all_duplicate,
        durability=ctx.engine.durability,
        warning=reply.warning,
    )
