"""The state of a model: snapshots, restore, reset, export and import."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from core.entry import Reset, Restore, Segment
from core.machine import Machine
from core.problems import Invalid, Problem
from service.api import bodies
from service.api.context import Ctx, ModelName, iso
from service.api.model_schemas import RequestBody
from service.api.models import ReadModel, WrittenModel
from service.api.openapi.examples import RESTORE
from service.api.route import ADMIN, READ, Route
from service.api.schemas import Incarnation, Rows, Time, Version
from service.errors import NotFound, RequestConflict
from service.runtime.replica import Replica
from service.runtime.threads import in_thread_if_large
from service.store.snapshots import SnapshotInfo

router = APIRouter(route_class=Route, tags=["state"])
STATE = "application/octet-stream"
STATE_TYPES = (STATE, "application/vnd.safetensors", "application/x-safetensors")
FILE: dict[str, Any] = {STATE: {"schema": {"type": "string", "format": "binary", "description": "A safetensors file."}}}


class SnapshotEntry(BaseModel):
    """A kept snapshot."""

    version: Version
    rows: Rows
    bytes: int = Field(ge=0, examples=[6096])
    time: Time


class SnapshotList(BaseModel):
    """The kept snapshots, newest first."""

    snapshots: list[SnapshotEntry]
    incarnation: Incarnation


class RestoreTo(RequestBody):
    """Which snapshot to go back to."""

    version: int = Field(ge=0, description="A version that `GET /models/{name}/snapshots` lists.")


class Replaced(BaseModel):
    """The state was replaced; the version goes on."""

    name: str = Field(examples=["demo"])
    incarnation: Incarnation
    version: Version
    rows: Rows


async def _empty(ctx: Ctx, request: Request) -> None:
    await bodies.require_empty(request, ctx.engine.bounds.body_bytes_max)


EMPTY = Depends(_empty)


async def _commit(replica: Replica, segment: Segment) -> Replaced:
    reply = await replica.inbox.submit(segment)
    return Replaced(
        name=replica.name, incarnation=replica.incarnation, version=reply.answer.version, rows=reply.answer.rows
    )


@router.post("/models/{name}/snapshots", dependencies=[ADMIN, EMPTY], status_code=201)
async def take_snapshot(ctx: Ctx, replica: WrittenModel) -> SnapshotEntry:
    """Take a snapshot now.

    Snapshots are also taken by themselves as the log grows; the newest are kept (`ONEPASS_SNAPSHOTS_KEPT`).
    """
    return _snapshot(await ctx.engine.snapshotter.take(replica))


@router.get("/models/{name}/snapshots", dependencies=[READ])
async def list_snapshots(ctx: Ctx, replica: ReadModel) -> SnapshotList:
    """List snapshots.

    Any of them can be restored.
    """
    kept = await ctx.engine.store.snapshots.list(replica.name, replica.incarnation)
    return SnapshotList(snapshots=[_snapshot(info) for info in kept], incarnation=replica.incarnation)


def _snapshot(info: SnapshotInfo) -> SnapshotEntry:
    return SnapshotEntry(version=info.version, rows=info.rows, bytes=info.bytes, time=iso(info.time_ms))


@router.post("/models/{name}/restore", dependencies=[ADMIN])
async def restore_snapshot(
    ctx: Ctx, replica: WrittenModel, body: Annotated[RestoreTo, Body(openapi_examples=RESTORE)]
) -> Replaced:
    """Go back to a snapshot.

    The model has the state, the rows and the metrics of the snapshot; the version goes on, and ids stay seen.
    """
    kept = await ctx.engine.store.snapshots.list(replica.name, replica.incarnation)
    info = next((info for info in kept if info.version == body.version), None)
    if info is None:
        problem = Problem("version", "is not a kept snapshot", [info.version for info in kept])
        raise NotFound("there is no snapshot of this version", [problem])
    try:
        state = await ctx.engine.store.snapshots.read(replica.name, replica.incarnation, info)
        await asyncio.to_thread(Machine.from_bytes, state)
    except ValueError as error:
        raise RequestConflict(f"the snapshot of version {body.version} cannot be used: {error}") from error
    return await _commit(replica, Restore(state, "restore"))


@router.get(
    "/models/{name}/state",
    dependencies=[READ],
    response_class=Response,
    response_description="The whole state",
    responses={200: {"content": FILE}},
)
async def export_state(replica: ReadModel) -> Response:
    """Export the state.

    Everything that predictions and learning depend on, as a safetensors file.
    """
    async with replica.held():
        stamp = {"incarnation": replica.incarnation, "version": replica.version, "uid": replica.uid}
        state = await in_thread_if_large(replica.machine.nbytes, replica.machine.to_bytes, stamp)
    headers = {
        "Content-Disposition": f'attachment; filename="{replica.name}-{stamp["version"]}.safetensors"',
        "ETag": f'"{stamp["incarnation"]}-{stamp["version"]}"',
    }
    return Response(state, headers=headers, media_type=STATE)


@router.put(
    "/models/{name}/state",
    dependencies=[ADMIN],
    responses={201: {"model": Replaced, "description": "The model did not exist and was created from the state"}},
    openapi_extra={"requestBody": {"required": True, "content": FILE}},
)
async def import_state(ctx: Ctx, name: ModelName, request: Request, response: Response) -> Replaced:
    """Import a state.

    A file that `GET /models/{name}/state` has given. Everything is checked before anything changes. A model that does
    not exist is created with the configuration that the state carries.
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
    try:
        replica = await ctx.engine.replica(name)
    except NotFound:
        replica, _ = await ctx.engine.models.create(name, loaded.config)
        response.status_code = 201
    if loaded.config.canonical != replica.machine.config.canonical:
        raise RequestConflict(f"the state is of a model with another configuration than {name}")
    return await _commit(replica, Restore(body, "import"))


@router.post("/models/{name}/reset", dependencies=[ADMIN, EMPTY])
async def reset_model(replica: WrittenModel) -> Replaced:
    """Reset a model to its first state.

    Rows and metrics start at 0; the version goes on, ids stay seen. After a change of features the new ones stay.
    """
    return await _commit(replica, Reset())
