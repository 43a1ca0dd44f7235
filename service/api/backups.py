"""GET /backup and POST /restore: all models as a stream, at one version each, and back."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from fnmatch import fnmatchcase
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.api import bodies, content_encoding
from service.api.connection import connection_of
from service.api.context import NAME, Caller, Context, Ctx
from service.api.route import ADMIN, Route
from service.api.state_file import STATE
from service.errors import BackupConflict, BackupRefused, OnepassError, TooLate
from service.runtime.backup.making import BackupMaker
from service.runtime.backup.restoring import Report, Restoring
from service.runtime.threads import in_thread_if_large
from service.store.backup.frames import Damaged, FrameReader
from service.store.pieces import PIECE_BYTES

router = APIRouter(route_class=Route, tags=["service"])
FILE: dict[str, Any] = {STATE: {"schema": {"type": "string", "format": "binary", "description": "A backup."}}}
WRITE_S = 60.0
"""How long a client may not read a backup."""
IDLE_S = 60.0
"""How long nothing may come of one."""
SENT_AT_ONCE = 2**20
"""Most bytes of a backup that are handed to the connection at once."""
PATTERN_MAX = 200
Models = Annotated[
    str,
    Query(
        max_length=PATTERN_MAX,
        description="Only models of such names: `*` stands for any characters, `?` for one, `[ab]` for one of these.",
    ),
]


class LeftOutModel(BaseModel):
    """A model that the backup lacks."""

    name: str = Field(examples=["demo"])
    detail: str = Field(examples=["model demo is out of service: applying entry 7 failed"], description="Why.")


class RestoreReport(BaseModel):
    """What became of the models of a backup; a model that could not be restored makes it a 409 or a 422."""

    restored: list[str] = Field(examples=[["demo"]], description="There were no models of these names.")
    skipped: list[str] = Field(examples=[["other"]], description="These are here, at the version of the backup.")
    left_out: list[LeftOutModel] = Field(
        examples=[[]], description="Models that could not be read when the backup was made."
    )


class BackupStream(Response):
    """A backup, frame by frame as the client takes it.

    Args:
        ctx: the handler's.
        maker: makes it.
    """

    media_type = STATE

    def __init__(self, ctx: Context, maker: BackupMaker, headers: Mapping[str, str]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no", **headers})
        del self.headers["content-length"]
        self._ctx, self._maker = ctx, maker
        ctx.places.take(self, maker.stop)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; a client that does not read is hung up on."""
        leaving = asyncio.create_task(_left(receive))
        try:
            async with aclosing(self._maker.frames()) as frames:
                await _sent(send, {"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                async for frame in frames:
                    await self._send(send, frame)
                    if leaving.done():
                        break
            await _sent(send, {"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            connection_of(scope).abort()
            await asyncio.sleep(0)  # the server learns of it
        finally:
            self._ctx.places.leave(self)
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)

    async def _send(self, send: Send, frame: bytes) -> None:
        for at in range(0, len(frame), SENT_AT_ONCE):
            await _sent(send, {"type": "http.response.body", "body": frame[at : at + SENT_AT_ONCE], "more_body": True})
            await asyncio.sleep(0)  # a client that is gone takes pieces at once


async def _left(receive: Receive) -> None:
    """Return when the client has left; to HEAD that is once the headers are sent."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _sent(send: Send, message: Any) -> None:
    async with asyncio.timeout(WRITE_S):
        await send(message)


@router.get(
    "/backup",
    dependencies=[ADMIN],
    response_class=Response,
    response_description="A backup",
    responses={200: {"content": FILE}},
)
async def make_backup(
    ctx: Ctx,
    caller: Caller,
    models: Models = "*",
    after: Annotated[
        str,
        Query(
            pattern=f"^({NAME.pattern})?$",
            description="Only models behind this name: a backup that broke off is continued.",
        ),
    ] = "",
) -> BackupStream:
    """Back up the models.

    All models that the key allows, one after the other by name, each at one version: its tracked predictions, its state
    (metrics, challengers and drift tests in it), its configuration, its remembered ids with their answers and its drift
    events, all of them cut to that version; everything that was acknowledged when the backup came to the model is in
    it. Learning goes on meanwhile. It is a stream of any length, in memory for one state at a time.

    The end of a backup says that it is whole. One that breaks off is continued by `?after=` with the last model that is
    whole, appended to the same file; `onepass backup FILE` does so. Older snapshots, entries of the log and settings of
    the service are not in it.
    """
    maker = BackupMaker(ctx.engine, _wanted(models, caller.allows if caller is not None else None), models, after)
    return BackupStream(ctx, maker, {"Content-Disposition": 'attachment; filename="onepass.backup"'})


def _wanted(pattern: str, allows: Callable[[str], bool] | None = None) -> Callable[[str], bool]:
    return lambda name: fnmatchcase(name, pattern) and (allows is None or allows(name))


@router.post(
    "/restore",
    dependencies=[ADMIN],
    openapi_extra={"requestBody": {"required": True, "content": FILE}},
)
async def restore_backup(ctx: Ctx, request: Request, models: Models = "*") -> RestoreReport:
    """Restore a backup.

    The models of a backup, of any length, by this version of the service or an earlier one. Each is there whole, with
    its incarnation, version and ids as if nothing had happened, or not at all. A model that is here at the same version
    is skipped; so a restore that was interrupted is simply sent again.

    A model of another incarnation or version under one of the names is in conflict and not touched; a model whose
    content is not as it should be is refused. The others are restored all the same. Then the answer is 409 for
    conflicts alone, else 422, and lists them all in `errors`, with `restored` and `skipped` beside. A backup that is
    damaged or cut off is 422, too: the models before that place are restored, and nothing of the others. Events of
    drift come back into the lists of their models; webhooks are not sent them again.
    """
    bodies.media_type(request, (STATE,))
    content_encoding.refuse_encoded(request.headers.get("content-encoding"))
    restoring = Restoring(ctx.engine, _wanted(models), lambda name: ctx.keys.allow(request.headers, "admin", name))
    connection = connection_of(request.scope)
    connection.stop_timing(request.scope)
    try:
        await _read(ctx, request, restoring)
    except Damaged as error:
        connection.linger(request.scope)
        raise BackupRefused(f"{restoring.behind} the backup cannot be read: {error}", [], restoring.report) from error
    except OnepassError:
        connection.linger(request.scope)
        raise
    finally:
        await restoring.drop()
    return _told(restoring.report)


async def _read(ctx: Context, request: Request, restoring: Restoring) -> None:
    """Read a backup to its end.

    Raises:
        Damaged: it is not as it was written, or cut off.
        TooLate: nothing came for long.
        ClientDisconnect: the client is gone.
    """
    reader, more = FrameReader(PIECE_BYTES + ctx.engine.bounds.body_bytes_max), True
    while more:
        try:
            async with asyncio.timeout(IDLE_S):
                message = await request.receive()
        except TimeoutError:
            raise TooLate(f"nothing of the backup came for {IDLE_S:g} s") from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        more = message.get("more_body", False)
        reader.feed(message.get("body", b""))
        if reader.held > bodies.SMALL_BYTES:
            ctx.budget.reserve(request.scope, reader.held)
        while size := reader.ready:
            if (frame := await in_thread_if_large(size, reader.next)) is None:
                break
            await restoring.take(frame)
        if reader.held <= bodies.SMALL_BYTES:
            ctx.budget.release(request.scope)
    if reader.held or not restoring.finished:
        raise Damaged("it is cut off")


def _told(report: Report) -> RestoreReport:
    """The answer.

    Raises:
        BackupConflict, BackupRefused: some models are not restored.
    """
    counts = f"{len(report.restored)} models are restored, {len(report.skipped)} were here already"
    if report.refused:
        found = [*report.refused, *report.conflicts]
        raise BackupRefused(f"{len(found)} models of the backup are not restored; {counts}", found, report)
    if report.conflicts:
        raise BackupConflict(
            f"models that are here at other versions, or of other incarnations: {len(report.conflicts)}; {counts}",
            report.conflicts,
            report,
        )
    left_out = [LeftOutModel(name=one.name, detail=one.detail) for one in report.left_out]
    return RestoreReport(restored=report.restored, skipped=report.skipped, left_out=left_out)
