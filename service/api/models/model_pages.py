"""Lists of one model: the entries of its log, and the predictions that wait for labels."""

from fastapi import APIRouter
from pydantic import BaseModel, Field

from service.api.http.context import WHOLE_MAX, Ctx, Paging, iso, no_cursor, whole
from service.api.http.route import READ, Route
from service.api.models.models import ReadModel
from service.api.schemas import Incarnation, Predictable, Time, Version
from service.store.log import codec
from service.store.log.log_page import read_back

log, pending = APIRouter(route_class=Route), APIRouter(route_class=Route)


class LogEntry(BaseModel):
    """An entry of the log: everything that was committed together."""

    version: Version = Field(description="The version that it made.")
    time: Time = Field(description="When it was committed, by the store's clock.")
    kind: str = Field(
        examples=["rows"],
        description="rows, overlap, switch begin, switch complete, switch abort, reset, configure, challenger put, "
        "challenger delete, challenger promote, restore or import. Of an entry with "
        "requests of several kinds all of them, joined by ` + `.",
    )
    rows: int | None = Field(
        ge=0, examples=[1], description="Rows that it holds, but for those whose ids had been seen; null: no rows."
    )
    writer: str = Field(
        examples=["9c0d1e2b4a685f3a"], description="The service process that committed it; each start has another name."
    )


class LogPage(BaseModel):
    """Entries of the log, newest first."""

    entries: list[LogEntry]
    next: str | None = Field(examples=[None], description="The `cursor` of the next page.")
    incarnation: Incarnation


@log.get("/models/{name}/log", tags=["models"], dependencies=[READ])
async def list_log(ctx: Ctx, replica: ReadModel, page: Paging) -> LogPage:
    """The log.

    Its entries that are still kept, newest first: everything that was committed together is one entry, and makes one
    version. Snapshots let the log be trimmed: entries before the oldest snapshot kept (`ONEPASS_SNAPSHOTS_KEPT`) are
    gone. What entries hold is not shown, nor whether a request in them was refused by the state that it met.
    """
    newest = WHOLE_MAX if page.cursor is None else (whole(page.cursor) or 0) - 1
    if newest < 0:
        raise no_cursor()
    found = await read_back(ctx.engine.store.connection, replica.name, replica.incarnation, newest, 1, page.limit + 1)
    shown = [
        LogEntry(
            version=one.version, time=iso(one.time_ms), kind=" + ".join(one.kinds), rows=one.rows, writer=one.writer
        )
        for one in found[: page.limit]
    ]
    following = str(found[page.limit - 1].version) if len(found) > page.limit else None
    return LogPage(entries=shown, next=following, incarnation=replica.incarnation)


class PendingEntry(BaseModel):
    """A tracked prediction that waits for its label."""

    prediction_id: str = Field(examples=["1U_YueguCgy6HMQRlrBf"])
    prediction: Predictable
    version: Version
    expires: Time


class PendingList(BaseModel):
    """Tracked predictions that wait for their labels."""

    pending: list[PendingEntry]
    expired: int = Field(ge=0, examples=[0], description="How many have expired without a label.")
    next: str | None = Field(examples=[None], description="The `cursor` of the next page.")
    waiting: int = Field(ge=0, examples=[1], description="How many wait, on all pages.")
    incarnation: Incarnation


@pending.get("/models/{name}/pending", tags=["one row"], dependencies=[READ])
async def list_pending(ctx: Ctx, replica: ReadModel, page: Paging) -> PendingList:
    """Tracked predictions that wait for their labels.

    A prediction is tracked by `"track": true`. It waits until its label comes or it expires
    (`ONEPASS_PREDICTION_TTL_S`).
    """
    try:
        found, following = await ctx.engine.pending.list(replica.name, replica.incarnation, *page)
    except ValueError as error:
        raise no_cursor() from error
    waiting, expired = await ctx.engine.pending.counts(replica.name, replica.incarnation)
    entries = []
    for identity, expires_ms, blob in found:
        kept = codec.decode_tracked(blob)
        entries.append(
            PendingEntry(
                prediction_id=identity, prediction=kept.served.prediction, version=kept.version, expires=iso(expires_ms)
            )
        )
    return PendingList(
        pending=entries, expired=expired, next=following, waiting=waiting, incarnation=replica.incarnation
    )
