"""Models: create, list, show, delete, reset, snapshots, restore, weights, metrics, pending, and the catalogue."""

import asyncio
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from core.config import Config
from core.entry import Reset, Restore, Segment
from core.learners.catalogue import ALGORITHMS
from core.machine import Machine
from core.problems import Invalid, Problem
from service.api import bodies
from service.api.context import LIMIT_MAX, NAME, Context, freshness, iso, page
from service.api.keys import Key
from service.api.schemas import (
    Model,
    ModelList,
    PendingEntry,
    PendingList,
    Replaced,
    RestoreTo,
    SnapshotEntry,
    SnapshotList,
    Summary,
)
from service.errors import ModelDown, NotFound, RequestConflict
from service.runtime.engine import Freshness
from service.runtime.replica import Replica
from service.runtime.snapshots import THREAD_BYTES
from service.store import codec
from service.store.snapshots import SnapshotInfo

_object = msgspec.json.Decoder(dict[str, Any])
_restore = msgspec.json.Decoder(RestoreTo)
_encode = msgspec.json.Encoder().encode
STATE = "application/octet-stream"
STATE_TYPES = (STATE, "application/vnd.safetensors", "application/x-safetensors")


def answer(body: object, status: int = 200) -> Response:
    """A JSON response."""
    return Response(_encode(body), status, media_type=bodies.JSON)


async def algorithms(ctx: Context, request: Request) -> Response:
    """The catalogue."""
    return answer({"algorithms": [entry.describe() for entry in ALGORITHMS.values()]})


async def create(ctx: Context, request: Request) -> Response:
    """PUT a model: 201 when it is new, 200 when the same one was there."""
    bodies.media_type(request, (bodies.JSON,))
    body = await bodies.read_body(request, ctx.engine.bounds.body_bytes_max)
    raw = bodies.decode(body, _object)
    bodies.refuse_repeated(body, -1)
    replica, new = await ctx.engine.models.create(request.path_params["name"], Config.parse(raw))
    return answer(_model(replica), 201 if new else 200)


async def listing(ctx: Context, request: Request) -> Response:
    """A page of models, each as fresh as asked; models the key may not touch are left out."""
    limit, cursor = page(request)
    fresh = freshness(request)
    if cursor is not None and NAME.fullmatch(cursor) is None:
        raise Invalid.of("cursor", "is not a cursor of this list")
    names, following = await _visible(ctx, ctx.keys.caller(request.headers), limit, cursor)
    models = [found for name in names if (found := await _summary(ctx, name, fresh)) is not None]
    return answer(ModelList(models, following))


async def _visible(ctx: Context, caller: Key | None, limit: int, cursor: str | None) -> tuple[list[str], str | None]:
    """A page of the names that a key may know of; the cursor is one of them, too."""
    if caller is None or not caller.models:
        return await ctx.engine.models.names(limit, cursor)
    found: list[str] = []
    while True:
        names, cursor = await ctx.engine.models.names(LIMIT_MAX, cursor)
        found += [name for name in names if caller.allows(name)]
        if len(found) > limit:
            return found[:limit], found[limit - 1]
        if cursor is None:
            return found, None


async def _summary(ctx: Context, name: str, fresh: Freshness | None) -> Summary | None:
    try:
        replica = await ctx.engine.replica(name, fresh)
    except NotFound:
        return None
    except ModelDown:
        return Summary(name, "", "", -1, 0, None, "down")
    machine, config = replica.machine, replica.machine.config
    score = machine.metrics.headline()
    return Summary(name, config.algorithm_id, config.task, replica.version, machine.rows, score, machine.phase)


async def show(ctx: Context, request: Request) -> Response:
    """One model."""
    return answer(_model(await ctx.engine.replica(request.path_params["name"], freshness(request))))


def _model(replica: Replica) -> Model:
    machine = replica.machine
    return Model(
        replica.name,
        replica.incarnation,
        machine.config.to_json(),
        replica.version,
        machine.rows,
        machine.phase,
        machine.metrics.report(),
        machine.info(),
        iso(replica.created_ms),
        iso(replica.time_ms),
    )


async def delete(ctx: Context, request: Request) -> Response:
    """Delete a model and everything kept of it."""
    await ctx.engine.models.delete(request.path_params["name"])
    return Response(status_code=204)


async def metrics(ctx: Context, request: Request) -> Response:
    """Prequential metrics beside their baselines, and what the learner says of itself (the bank's weights, say)."""
    replica = await ctx.engine.replica(request.path_params["name"], freshness(request))
    machine = replica.machine
    stand = {"version": replica.version, "incarnation": replica.incarnation}
    return answer({**machine.metrics.report(), "learner": machine.learner_info(), **stand})


async def reset(ctx: Context, request: Request) -> Response:
    """Back to the first state; the version goes on, ids stay seen."""
    await bodies.require_empty(request, ctx.engine.bounds.body_bytes_max)
    replica = await ctx.engine.replica(request.path_params["name"])
    return await _commit(ctx, replica, Reset())


async def _commit(ctx: Context, replica: Replica, segment: Segment, status: int = 200) -> Response:
    reply = await ctx.engine.committer.submit(replica, segment)
    return answer(Replaced(replica.name, replica.incarnation, reply.version, reply.rows), status)


# ------------------------------------------------------------------------------------------------ snapshots and state


async def snapshots(ctx: Context, request: Request) -> Response:
    """The kept snapshots, newest first."""
    replica = await ctx.engine.replica(request.path_params["name"], freshness(request))
    kept = await ctx.engine.store.snapshots.list(replica.name, replica.incarnation)
    return answer(SnapshotList([_snapshot(info) for info in kept], replica.incarnation))


def _snapshot(info: SnapshotInfo) -> SnapshotEntry:
    return SnapshotEntry(info.version, info.rows, info.bytes, iso(info.time_ms))


async def take_snapshot(ctx: Context, request: Request) -> Response:
    """Take a snapshot now."""
    await bodies.require_empty(request, ctx.engine.bounds.body_bytes_max)
    replica = await ctx.engine.replica(request.path_params["name"])
    return answer(_snapshot(await ctx.engine.snapshotter.take(replica)), 201)


async def restore(ctx: Context, request: Request) -> Response:
    """Back to a kept snapshot, by an entry that embeds its state; the version goes on."""
    bodies.media_type(request, (bodies.JSON,))
    body = await bodies.read_body(request, ctx.engine.bounds.body_bytes_max)
    ask = bodies.decode(body, _restore)
    bodies.refuse_repeated(body, 1)
    replica = await ctx.engine.replica(request.path_params["name"])
    kept = await ctx.engine.store.snapshots.list(replica.name, replica.incarnation)
    info = next((info for info in kept if info.version == ask.version), None)
    if info is None:
        problem = Problem("version", "is not a kept snapshot", [info.version for info in kept])
        raise NotFound("there is no snapshot of this version", [problem])
    try:
        state = await ctx.engine.store.snapshots.read(replica.name, replica.incarnation, info)
        await asyncio.to_thread(Machine.from_bytes, state)
    except ValueError as error:
        raise RequestConflict(f"the snapshot of version {ask.version} cannot be used: {error}") from error
    return await _commit(ctx, replica, Restore(state, "restore"))


async def export_state(ctx: Context, request: Request) -> Response:
    """The whole state as safetensors."""
    replica = await ctx.engine.replica(request.path_params["name"], freshness(request))
    async with replica.held():
        stamp = {"incarnation": replica.incarnation, "version": replica.version, "uid": replica.uid}
        if replica.machine.nbytes > THREAD_BYTES:
            state = await asyncio.to_thread(replica.machine.to_bytes, stamp)
        else:
            state = replica.machine.to_bytes(stamp)
    headers = {
        "Content-Disposition": f'attachment; filename="{replica.name}-{stamp["version"]}.safetensors"',
        "ETag": f'"{stamp["incarnation"]}-{stamp["version"]}"',
    }
    return Response(state, headers=headers, media_type=STATE)


async def import_state(ctx: Context, request: Request) -> Response:
    """Take over an exported state; everything is checked before anything changes.

    A model that does not exist yet is created with the configuration the state carries.
    """
    bodies.media_type(request, STATE_TYPES)
    bounds = ctx.engine.bounds
    body = await bodies.read_body(request, max(bounds.body_bytes_max, bounds.model_bytes_max))
    try:
        loaded, _ = await asyncio.to_thread(Machine.from_bytes, body, ctx.engine.models.admission())
    except Invalid:
        raise
    except ValueError as error:
        raise Invalid.of("body", f"is not a state that can be taken over: {error}") from error
    name = request.path_params["name"]
    try:
        replica, new = await ctx.engine.replica(name), False
    except NotFound:
        replica, new = await ctx.engine.models.create(name, loaded.config)
    if loaded.config.canonical != replica.machine.config.canonical:
        raise RequestConflict(f"the state is of a model with another configuration than {name}")
    return await _commit(ctx, replica, Restore(body, "import"), 201 if new else 200)


# ------------------------------------------------------------------------------------------------ pending


async def pending(ctx: Context, request: Request) -> Response:
    """Tracked predictions that wait for their labels."""
    limit, cursor = page(request)
    replica = await ctx.engine.replica(request.path_params["name"], freshness(request))
    try:
        found, following = await ctx.engine.pending.list(replica.name, replica.incarnation, limit, cursor)
    except ValueError as error:
        raise Invalid.of("cursor", "is not a cursor of this list") from error
    expired = await ctx.engine.pending.expired(replica.name, replica.incarnation)
    waiting = []
    for identity, expires_ms, blob in found:
        tracked = codec.decode_tracked(blob)
        waiting.append(PendingEntry(identity, tracked.prediction, tracked.version, iso(expires_ms)))
    return answer(PendingList(waiting, expired, following, replica.incarnation))
