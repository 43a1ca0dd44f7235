"""A change of features: /models/{name}/features and /features/switch.

A switch is an entry of the log like any feedback; a request that is sent again under the same id is answered as it was
the first time.
"""

from dataclasses import replace
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from core.problems import Conflict, Invalid
from service.api import bodies, idempotency
from service.api.context import Context, freshness
from service.api.feature_schemas import FeatureSpaces, SwitchBody, SwitchedSpaces
from service.runtime import feature_switch
from service.runtime.engine import Freshness
from service.runtime.replica import Replica, Reply
from service.runtime.row_validation import digest_of_bytes


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
    ids, digests = _switch_id(ask, request.headers.get("idempotency-key"), body)
    # strong: which phase the model is in, the log says
    replica = await engine.replica(request.path_params["name"], Freshness(strong=True))
    try:
        segment = feature_switch.step(
            replica.machine, engine.models.admit_switch, ask.action, ask.features, ask.mapping
        )
    except (Invalid, Conflict) as error:
        seen = await idempotency.known(ctx, replica, ids, error)
        idempotency.same(seen, digests)
        reply = await idempotency.first_reply(ctx, replica, ids, seen)
    else:
        reply = await engine.committer.submit(replica, replace(segment, ids=ids), digests)
    return answer(_switched(ctx, replica, reply))


def _switch_id(ask: _Ask, key: str | None, body: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The id a switch is remembered by, and the digest of what it asks for."""
    if key is not None and ask.id is not None:
        raise Invalid.of("id", "excludes Idempotency-Key")
    if key is not None:
        return (idempotency.REQUEST + idempotency.printable(key, "Idempotency-Key"),), (
            digest_of_bytes(b"switch\n" + body),
        )
    if ask.id is None:
        return (), ()
    asked = _json((ask.action, ask.features, ask.mapping))
    return (idempotency.SWITCH + idempotency.printable(ask.id, "id"),), (digest_of_bytes(asked),)


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
