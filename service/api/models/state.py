"""The state of a model: snapshots, restore, reset, export and import, and a copy under another name."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from core.config import Config
from core.config.changes import differences, interchangeable
from core.contract import Buffer
from core.entry import Reset
from core.model import LearnerSpaces, save
from core.problems import PROBLEMS_MAX, Invalid, Problem
from service.api.http import bodies
from service.api.http.context import Ctx, IdempotencyKey, ModelName, iso
from service.api.http.cross_site import is_browser
from service.api.http.headers import LINES, NAME
from service.api.http.media import JSON
from service.api.http.route import ADMIN, READ, Route
from service.api.models.documents import shown
from service.api.models.models import Model, ReadModel, RequestBody, StoredModel, WrittenModel
from service.api.openapi.examples import COPY, NO_FIELDS, RESTORE
from service.api.rows.idempotency import answer_if_seen, identity_of_change
from service.api.rows.large_answers import STATE, held_answer
from service.api.schemas import Incarnation, RowsLearned, Time, Version
from service.errors import NotFound, RequestConflict
from service.runtime import admission, copies
from service.runtime.engine import Freshness
from service.runtime.replicas.named_states import take_over
from service.runtime.replicas.replica import Replica, Reply
from service.runtime.rows.ids import printable
from service.runtime.threads import in_thread_if_large
from service.store.states.snapshots import SnapshotInfo

router = APIRouter(route_class=Route, tags=["state"])
STATE_TYPES = (STATE, "application/vnd.safetensors", "application/x-safetensors")
FILE: dict[str, Any] = {STATE: {"schema": {"type": "string", "format": "binary", "description": "A safetensors file."}}}


class SnapshotEntry(BaseModel):
    """A kept snapshot."""

    version: Version
    rows: RowsLearned
    bytes: int = Field(ge=0, examples=[6096])
    time: Time


class TakenSnapshot(SnapshotEntry):
    """The snapshot that was taken."""

    incarnation: Incarnation


class SnapshotList(BaseModel):
    """The kept snapshots, newest first."""

    snapshots: list[SnapshotEntry]
    incarnation: Incarnation


class RestoreTo(RequestBody):
    """Which snapshot to go back to."""

    version: int = Field(ge=0, description="A version that `GET /models/{name}/snapshots` lists.")


class Replaced(BaseModel):
    """The state was replaced; the version continues."""

    name: str = Field(examples=["demo"])
    incarnation: Incarnation
    version: Version
    rows: RowsLearned


async def _empty(ctx: Ctx, request: Request) -> None:
    """Check that the body is empty or ``{}``; a browser may not send a type other than JSON."""
    if request.headers.get("content-type") is not None and is_browser(request.scope):
        bodies.media_type(request, (JSON,))
    if (await bodies.read_body(request, ctx.engine.bounds.body_bytes_max)).strip() not in (b"", b"{}"):
        raise Invalid.of("body", "is not used by this route", "no body, or {}")


_NOTHING = {"schema": {"type": "object", "maxProperties": 0}, "examples": NO_FIELDS}
EMPTY: dict[str, Any] = {
    "dependencies": [ADMIN, Depends(_empty)],
    "openapi_extra": {"requestBody": {"content": {JSON: _NOTHING}}},
}
"""The arguments of a route that takes no body, or an empty object."""


def _replaced(replica: Replica, reply: Reply) -> Replaced:
    return Replaced(
        name=replica.name, incarnation=replica.incarnation, version=reply.answer.version, rows=reply.answer.rows
    )


@router.post("/models/{name}/snapshots", status_code=201, **EMPTY)
async def take_snapshot(ctx: Ctx, replica: WrittenModel) -> TakenSnapshot:
    """Take a snapshot now.

    Snapshots are also taken automatically as the log grows; the newest are kept (`ONEPASS_SNAPSHOTS_KEPT`).
    """
    taken = _snapshot(await ctx.engine.snapshotter.take(replica))
    return TakenSnapshot(**dict(taken), incarnation=replica.incarnation)


@router.get("/models/{name}/snapshots", dependencies=[READ])
async def list_snapshots(ctx: Ctx, replica: StoredModel) -> SnapshotList:
    """List snapshots.

    Each of them can be restored.
    """
    kept = await ctx.engine.store.snapshots.list(replica.name, replica.incarnation)
    return SnapshotList(snapshots=[_snapshot(info) for info in kept], incarnation=replica.incarnation)


def _snapshot(info: SnapshotInfo) -> SnapshotEntry:
    return SnapshotEntry(version=info.version, rows=info.rows, bytes=info.bytes, time=iso(info.time_ms))


@router.post("/models/{name}/restore", dependencies=[ADMIN])
async def restore_snapshot(
    ctx: Ctx,
    replica: WrittenModel,
    body: Annotated[RestoreTo, Body(openapi_examples=RESTORE)],
    request: Request,
    key: IdempotencyKey,
) -> Replaced:
    """Go back to a snapshot.

    The model gets back the state, the rows, the metrics and the configuration of the snapshot; the version continues,
    and ids stay remembered.
    """
    kept = await ctx.engine.store.snapshots.list(replica.name, replica.incarnation)
    info = next((info for info in kept if info.version == body.version), None)
    identity = identity_of_change(request, key, await request.body())
    if info is None:
        await replica.inbox.sync()  # raises if the store has lost the model
        return _replaced(replica, await answer_if_seen(ctx, replica, identity, _not_kept(kept)))
    store = ctx.engine.store
    with ctx.engine.state_budget.held(info.bytes):
        try:
            state = await store.snapshots.read(replica.name, replica.incarnation, info)
            await in_thread_if_large(len(state), _config, state)
        except ValueError as error:
            left = await store.snapshots.list(replica.name, replica.incarnation)
            if info not in left:  # it was dropped for a newer one since it was listed
                raise _not_kept(left) from error
            raise RequestConflict(f"the snapshot of version {body.version} cannot be used: {error}") from error
        return _replaced(replica, await take_over(store.states, replica, state, "restore", *identity))


def _not_kept(kept: Sequence[SnapshotInfo]) -> NotFound:
    problem = Problem("version", "is not a kept snapshot", [info.version for info in kept])
    return NotFound("there is no snapshot of this version", [problem])


def _config(state: Buffer, admit: Callable[[Sequence[LearnerSpaces]], None] = lambda _: None) -> Config:
    """Validate a whole state; keep only its configuration."""
    return save.from_bytes(state, admit)[0].config


@router.get(
    "/models/{name}/state",
    dependencies=[READ],
    response_class=Response,
    response_description="The state",
    responses={200: {"content": FILE, "headers": {"Content-Disposition": {"schema": {"type": "string"}}}}},
)
async def export_state(ctx: Ctx, replica: ReadModel) -> Response:
    """Export the state.

    A safetensors file with everything that predictions and learning depend on.
    """
    with ExitStack() as counted:
        size = replica.model.nbytes
        counted.enter_context(ctx.engine.state_budget.held(size))
        async with replica.held():
            stamp = {"incarnation": replica.incarnation, "version": replica.version, "uid": replica.uid}
            state = await in_thread_if_large(size, save.to_bytes, replica.model, stamp)
        headers = {"Content-Disposition": f'attachment; filename="{replica.name}-{stamp["version"]}.safetensors"'}
        return held_answer(state, STATE, headers, counted.pop_all().close)


@router.put(
    "/models/{name}/state",
    dependencies=[ADMIN],
    responses={201: {"model": Replaced, "description": "The model did not exist; it was created from the state"}},
    openapi_extra={"requestBody": {"required": True, "content": FILE}},
)
async def import_state(ctx: Ctx, name: ModelName, request: Request, response: Response) -> Replaced:
    """Import a state.

    The body is a file from `GET /models/{name}/state` of this version of Onepass or an earlier one, up to
    `ONEPASS_MODEL_LIMIT_MB`. Everything is checked before anything changes. A model that does not exist is created with
    the configuration in the state. An existing model takes over the configuration, too; algorithm, task, parameters,
    seed, lags, metrics, features and labels must agree with its own, except for labels and categories that were added
    (409 lists the fields that differ). The answer may be 503 while other clients transfer large states.
    """
    bodies.media_type(request, STATE_TYPES)
    bounds, models = ctx.engine.bounds, ctx.engine.models
    body = await bodies.read_body(request, bounds.model_bytes_max + bounds.body_bytes_max)  # arrays, then the rest
    with ctx.engine.state_budget.held(len(body)):
        try:
            # Always in a thread: if the state is the first one of its algorithm, reading it loads the kernels.
            config = await asyncio.to_thread(_config, body, lambda found: models.admit(admission.of_state(found)))
        except Invalid:
            raise
        except ValueError as error:
            raise Invalid.of("body", f"is not a state that can be imported: {error}") from error
        try:
            replica = await ctx.engine.replica(name)
        except NotFound:
            replica, created = await copies.create(ctx.engine, name, body)
            if created:
                response.status_code = 201
                now = {"version": replica.version, "rows": replica.model.rows}
                return Replaced(name=name, incarnation=replica.incarnation, **now)
        size = len(body)
        if not await in_thread_if_large(size, interchangeable, config, replica.model.config):
            replica = await ctx.engine.replica(name, Freshness(strong=True))  # it may have been changed elsewhere
            if not await in_thread_if_large(size, interchangeable, config, replica.model.config):
                raise await in_thread_if_large(size, _other_configuration, name, replica.model.config, config)
        return _replaced(replica, await take_over(ctx.engine.store.states, replica, body, "import"))


def _other_configuration(name: str, own: Config, given: Config) -> RequestConflict:
    """The error for a state that does not fit a model, with the fields that differ."""
    problems = [
        Problem(one.field, "is not the model's value: import the state under another name", one.allowed)
        for one in differences(own, given)
        if "PATCH" not in one.problem
    ][:PROBLEMS_MAX]
    fields = ", ".join(one.field for one in problems)
    return RequestConflict(
        f"the configuration of the state differs from that of {name} ({fields}); import it under another name", problems
    )


@router.post("/models/{name}/reset", **EMPTY)
async def reset_model(replica: WrittenModel, request: Request, key: IdempotencyKey) -> Replaced:
    """Reset a model to its first state.

    Rows and metrics start at 0; the version continues, and ids stay remembered. The configuration stays; after a change
    of features, so do the new features.
    """
    identity = identity_of_change(request, key)
    return _replaced(replica, await replica.inbox.submit(Reset(identity.ids), identity.digests))


class CopyBody(RequestBody):
    """The name of a copy."""

    name: str = Field(description="Name of the copy; it must not be taken.", pattern=f"^{NAME.pattern}$")


@router.post(
    "/models/{name}/copy", dependencies=[ADMIN], status_code=201, response_model=Model, response_description="The copy"
)
async def copy_model(
    ctx: Ctx,
    name: ModelName,
    body: Annotated[CopyBody, Body(openapi_examples=COPY)],
    request: Request,
    key: IdempotencyKey,
) -> Response:
    """Copy a model.

    The copy is a new incarnation at version 0, with the rows, state, metrics and configuration that the model has at
    the head of its log; from then on it learns independently. Remembered ids, tracked predictions and drift events are
    not copied. A name that is taken is 409, unless the same request (by its Idempotency-Key) made that copy: then the
    answer shows it. To rename a model, stop its clients, copy it and DELETE it; its tracked predictions are lost. The
    key needs `admin` on both names.
    """
    ctx.keys.allow(request.scope[LINES], "admin", body.name)
    known_by = "" if key is None else printable(key, "Idempotency-Key")
    replica = await ctx.engine.replica(name, Freshness(strong=True))
    return await shown(await copies.copy(ctx.engine, replica, body.name, known_by), 201)
