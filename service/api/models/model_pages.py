"""Lists of one model: the entries of its log, and the predictions that are waiting for labels."""

from fastapi import APIRouter
from pydantic import BaseModel, Field

from service.api.http.context import WHOLE_MAX, Ctx, Paging, iso, no_cursor, whole
from service.api.http.route import READ, Route
from service.api.models.models import StoredModel
from service.api.schemas import Following, Incarnation, Predictable, Time, Version
from service.store.log import codec
from service.store.log.log_page import read_back

log, pending = APIRouter(route_class=Route), APIRouter(route_class=Route)


class LogEntry(BaseModel):
    """An entry of the log: everything that was committed together."""

    version: Version = Field(description="The version after this entry.")
    time: Time = Field(description="When it was committed, by the store's clock.")
    kind: str = Field(
        examples=["rows"],
        description="rows, overlap, switch begin, switch complete, switch abort, reset, configure, challenger put, "
        "challenger delete, challenger promote, restore or import. For an entry with requests of several kinds, all "
        "of them joined by ` + `.",
    )
    rows: int | None = Field(
        ge=0, examples=[1], description="Number of rows, except those whose ids were sent before; null: no rows."
    )
    writer: str = Field(
        examples=["9c0d1e2b4a685f3a"],
        description="The service process that committed it; the name changes at each start.",
    )


class LogPage(BaseModel):
    """Entries of the log, newest first."""

    entries: list[LogEntry]
    next: Following
    incarnation: Incarnation


@log.get("/models/{name}/log", tags=["models"], dependencies=[READ])
async def list_log(ctx: Ctx, replica: StoredModel, page: Paging) -> LogPage:
    """The log.

    The kept entries, newest first. Everything that is committed together is one entry and makes one version. Snapshots
    allow the log to be trimmed: entries before the oldest kept snapshot (`ONEPASS_SNAPSHOTS_KEPT`) are gone. The answer
    does not show the content of entries, nor whether the model refused a request when the entry was applied.
    """
    newest = WHOLE_MAX if page.cursor is None else (whole(page.cursor) or 0) - 1
    if newest < 0:
        raise no_cursor()
    found = await read_back(ctx.engine.store.connection, replica.name, replica.incarnation, newest, page.limit + 1)
    shown = [
        LogEntry(
            version=one.version, time=iso(one.time_ms), kind=" + ".join(one.kinds), rows=one.rows, writer=one.writer
        )
        for one in found[: page.limit]
    ]
    following = str(found[page.limit - 1].version) if len(found) > page.limit else None
    return LogPage(entries=shown, next=following, incarnation=replica.incarnation)


class PendingEntry(BaseModel):
    """A tracked prediction that is waiting for its label."""

    prediction_id: str = Field(examples=["1U_YueguCgy6HMQRlrBf"])
    prediction: Predictable
    version: Version
    expires: Time


class PendingList(BaseModel):
    """Tracked predictions that are waiting for their labels."""

    pending: list[PendingEntry]
    expired: int = Field(
        ge=0, examples=[0], description="Number of predictions that expired, or whose due label the model refused."
    )
    next: Following
    waiting: int = Field(ge=0, examples=[1], description="Number of waiting predictions, on all pages.")
    incarnation: Incarnation


@pending.get("/models/{name}/pending", tags=["one row"], dependencies=[READ])
async def list_pending(ctx: Ctx, replica: StoredModel, page: Paging) -> PendingList:
    """Tracked predictions that are waiting for their labels.

    `"track": true` makes a prediction tracked. It waits until its label arrives or it expires (`labels_due` of the
    model, else `ONEPASS_PREDICTION_TTL_S`). If `labels_due` has a label, the row is then learned with that label.
    """
    try:
        found, following = await ctx.engine.pending.list(replica.name, replica.incarnation, *page)
    except ValueError as error:
        raise no_cursor() from error
    waiting, expired = await ctx.engine.pending.counts(replica.name, replica.incarnation)
    entries = []
    for identity, expires_ms, blob in found:
        kept = codec.decode_tracked(blob)
        expires = iso(expires_ms - kept.grace_ms)
        entries.append(
            PendingEntry(
                prediction_id=identity, prediction=kept.served.prediction, version=kept.version, expires=expires
            )
        )
    return PendingList(
        pending=entries, expired=expired, next=following, waiting=waiting, incarnation=replica.incarnation
    )
