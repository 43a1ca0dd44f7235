"""GET /models/{name}/log: the entries of a model's log that are still kept."""

from fastapi import APIRouter
from pydantic import BaseModel, Field

from core.problems import Invalid
from service.api.context import DIGITS_MAX, Ctx, Paging, iso
from service.api.models import ReadModel
from service.api.route import READ, Route
from service.api.schemas import Incarnation, Time, Version
from service.store.log_page import read_back

router = APIRouter(route_class=Route)
NEWEST = 2**53
"""At or above every version."""


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


@router.get("/models/{name}/log", tags=["models"], dependencies=[READ])
async def list_log(ctx: Ctx, replica: ReadModel, page: Paging) -> LogPage:
    """The log.

    Its entries that are still kept, newest first: everything that was committed together is one entry, and makes one
    version. Snapshots let the log be trimmed: entries before the oldest snapshot kept (`ONEPASS_SNAPSHOTS_KEPT`) are
    gone. What entries hold is not shown, nor whether a request in them was refused by the state that it met.
    """
    newest = NEWEST if page.cursor is None else _cursor(page.cursor) - 1
    found = await read_back(ctx.engine.store.connection, replica.name, replica.incarnation, newest, 1, page.limit + 1)
    shown = [
        LogEntry(
            version=one.version, time=iso(one.time_ms), kind=" + ".join(one.kinds), rows=one.rows, writer=one.writer
        )
        for one in found[: page.limit]
    ]
    following = str(found[page.limit - 1].version) if len(found) > page.limit else None
    return LogPage(entries=shown, next=following, incarnation=replica.incarnation)


def _cursor(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX) or not 0 < int(text) <= NEWEST:
        raise Invalid.of("cursor", "is not a cursor of this list")
    return int(text)
