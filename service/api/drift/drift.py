"""Drift events: of one model, of all, and live."""

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from core.contract import Label
from core.drift.outbox import NO_ALARM
from core.problems import Invalid
from service.api.csv_answers import Format, csv_answer, drift_table
from service.api.drift import event_stream
from service.api.http.context import LIMIT_MAX, Caller, Ctx, Paging, Text, no_cursor, whole
from service.api.http.headers import NAME
from service.api.http.keys import covered_by
from service.api.http.media import JSON
from service.api.http.route import READ, Route
from service.api.models.models import ReadModel
from service.api.schemas import Following, Incarnation, Time, Version
from service.errors import Forbidden, no_model
from service.runtime.replicas.replica import Replica
from service.runtime.threads import in_thread_if_large
from service.store.drift.drift import FIRST_UNLABELLED, DriftStream
from service.store.drift.events import START, StoredEvent, StreamPosition, position, shown_of


class DriftFeature(BaseModel):
    """A feature whose mean has moved."""

    name: str = Field(examples=["price"])
    before: float = Field(examples=[0.056])
    after: float = Field(examples=[0.081])


class DriftWindows(BaseModel):
    """How many rows were compared."""

    before: int = Field(ge=0, examples=[900])
    after: int = Field(ge=0, examples=[300])


class JoinedAlarm(BaseModel):
    """One alarm of an event."""

    kind: str = Field(examples=["class_mean"], description="Which test fired: class_mean, error_rate or unlabelled.")
    label: Label | float | None = Field(
        alias="class", examples=["UP"], description="The class whose rows were compared; null for regression."
    )
    row: int = Field(
        examples=[1204], description="Number of the row that raised the alarm; the first row learned is 1."
    )
    features: list[DriftFeature] = Field(description="class_mean: the features that moved, largest change first.")


class DriftEvent(JoinedAlarm):
    """One drift: its first alarm, and the later alarms that joined it."""

    id: str = Field(
        examples=["5f3a9c0d1e2b4a68-1204-0"],
        description="Incarnation, version and index; the same each time the event is sent.",
    )
    model: str = Field(examples=["demo"])
    time: Time = Field(description="When the row that raised the alarm was committed.")
    version: int = Field(examples=[1204], description="The log entry that raised it.")
    before: float | None = Field(
        examples=[None],
        description="error_rate: the share of wrong rows before. A row counts as wrong if the learner's class before "
        "calibration (with `class_costs`, the answer) is wrong; in regression, if its squared error is above the 0.9 "
        "quantile of a reference batch. Null for other kinds.",
    )
    after: float | None = Field(examples=[None], description="error_rate: that share after; null for other kinds.")
    epsilon_cut: float = Field(
        examples=[0.018],
        description="The threshold that was exceeded: by the rise of that share, or by the mean that moved most, in "
        "units of its feature's range.",
    )
    windows: DriftWindows
    action: Literal["report", "reset", "forget"] = Field(
        description="What the model did; reset also if vigod restarted the class."
    )
    challenger: str | None = Field(
        examples=[None], description="The challenger that raised the alarm; null: the model itself."
    )
    held_back: bool = Field(
        description="True if it came within `watch.cooldown_rows` rows after another event: `on_drift` did not act on "
        "it, and it is not sent to webhooks."
    )
    alarms: list[JoinedAlarm] = Field(
        description="The first 20 later alarms, within `watch.episode_rows` rows after it. Empty in streams and "
        "webhooks, which send an event at its first alarm."
    )
    alarm_count: int = Field(ge=0, examples=[3], description="Number of later alarms so far.")


class DriftList(BaseModel):
    """Drift events of all models, in the order in which they became known."""

    events: list[DriftEvent]
    next: Following


class ModelDriftList(DriftList):
    """Drift events of one model, oldest first."""

    version: Version
    incarnation: Incarnation


router = APIRouter(route_class=Route, tags=["drift"])
MS_MIN = 10**12
"""A whole number of at least this (September 2001 in ms) that the model's version has not reached is a time."""
EventOrder = Literal["oldest", "newest"]
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
_encode = msgspec.json.Encoder().encode
TIMES = "a time (`2026-01-31T12:00:00Z`) for events at or after it"


@router.get("/models/{name}/drift", dependencies=[READ], response_model=ModelDriftList)
async def list_model_drift(
    ctx: Ctx,
    replica: ReadModel,
    page: Paging,
    since: Annotated[
        Text | None,
        Query(
            description="A version for events after it, and those of kind `unlabelled` at it: they come while the "
            "version stays, so a poll with the last answer's `version` may repeat them, with the same `id`. A whole "
            f"number of 10^12 or more that the model has not reached is a time in ms since 1970. Otherwise {TIMES}."
        ),
    ] = None,
    order: Annotated[
        EventOrder, Query(description="Whether the list starts with the oldest or the newest event.")
    ] = "oldest",
    form: Format = "json",
) -> Response:
    """Drift events of a model.

    Oldest first unless `order` is `newest`, up to the `version` in the answer. Includes every alarm raised by rows
    acknowledged before this request (on another replica, pass `min_version`). The newest 256 are kept, and 100 of kind
    `unlabelled`. An event is an episode: its first alarm, and in `alarms` those of any test and class within
    `watch.episode_rows` rows after it.

    `?format=csv` returns a table.
    """
    asked, from_ms = (0, 0) if since is None else _since_version(since)
    if asked >= MS_MIN and asked > replica.version:
        asked, from_ms = 0, asked
    after = (asked, FIRST_UNLABELLED - 1) if asked else (0, 0)
    begin = None if page.cursor is None else _cursor(position(page.cursor))
    version, found = await _of_model(replica, ctx.drift)
    await ctx.engine.models.until_published(replica)
    found = [one for one in found if after < one.key < (version + 1, 0) and one.time_ms >= from_ms]
    if order == "newest":
        found.reverse()
    if begin is not None:
        found = [one for one in found if (one.key > begin if order == "oldest" else one.key < begin)]
    listed = found[: page.limit]
    following = str(listed[-1].key) if len(found) > page.limit else None
    more = {"next": following, "version": version, "incarnation": replica.incarnation}
    return await _answer([one.shown for one in listed], form, f"{replica.name}-drift", more)


@router.get("/drift", dependencies=[READ], response_model=DriftList)
async def list_drift(
    ctx: Ctx,
    caller: Caller,
    page: Paging,
    since: Annotated[
        Text | None,
        Query(description=f"A whole number is a time in ms since 1970; otherwise {TIMES}. Compared to `time`."),
    ] = None,
    form: Format = "json",
) -> Response:
    """Drift events of all models.

    The list has the events of every model that the key covers, in the order in which they became known; those of one
    model are in order. Events stay when their model is deleted. The newest 10 000 entries are kept: events, and the
    first 20 later alarms of each.

    `?format=csv` returns a table.
    """
    from_ms = 0 if since is None else _since_ms(since)
    covers = covered_by(caller)
    limited = covers is not None
    after = START if page.cursor is None else _cursor(event_stream.located(page.cursor, limited))
    after = max(after, StreamPosition(max(0, from_ms - event_stream.SKEW_MS), 0))
    found: list[StoredEvent] = []
    while len(found) <= page.limit:
        more = await ctx.drift.after(after, LIMIT_MAX)
        mine = more if covers is None else [one for one in more if covers(one.model)]
        found += [one for one in mine if one.time_ms >= from_ms and not one.joined]
        if len(more) < LIMIT_MAX:
            break
        after = more[-1].position
    listed = found[: page.limit]
    following = event_stream.address(listed[-1].position, limited) if len(found) > page.limit else None
    later = await ctx.drift.later_alarms(listed)
    shown = [one.shown(alarms) for one, alarms in zip(listed, later, strict=True)]
    return await _answer(shown, form, "drift", {"next": following})


@router.get(
    "/drift/stream",
    dependencies=[READ],
    status_code=200,
    response_class=event_stream.EventStream,
    response_description="Events until the client disconnects",
    responses={
        200: {"content": {"text/event-stream": {"schema": {"type": "string"}, "example": event_stream.EXAMPLE}}}
    },
)
async def stream_drift(
    ctx: Ctx,
    caller: Caller,
    model: Annotated[str | None, Query(description="Only the events of this model, which must exist.")] = None,
    last: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            description="The last `id` you received; the stream resumes after it. For a position in the future, the "
            "stream begins with `start`.",
        ),
    ] = None,
) -> Response:
    """Drift events, live.

    Server-sent events: `start` at the beginning; `drift` with an event as it was at its first alarm, or with one of
    the first 20 later alarms (`{"id", "model", "kind": "joined", "alarms"}` with the id of its event); `gap`
    (`{"after", "first", "missed"}`) if some of the following events are no longer kept. The `id` of each is a position;
    send it as `Last-Event-ID` to resume after it, on any replica (browsers do this automatically). A key for some
    models only sees the times of positions, and no numbers in a `gap`: they would reveal how many events other models
    have. After 15 s without an event the service sends a comment. The service waits for slow clients; one that
    reads nothing for ten seconds is disconnected and may reconnect.
    """
    if model is not None:
        if NAME.fullmatch(model) is None:
            raise Invalid.of("model", "is not a model name", NAME.pattern)
        if caller is not None and not caller.allows(model):
            raise Forbidden(f"key {caller.name} may not use this model")
        if ctx.engine.models.peek(model) is None and await ctx.engine.store.catalog.read(model) is None:
            raise no_model(model, "model")
    covers = covered_by(caller)
    limited = covers is not None
    resume = event_stream.located(last, limited) if last else None
    if last and resume is None:
        raise Invalid.of("Last-Event-ID", "is not an event id", "an id of this stream")
    wanted = (covers or (lambda _: True)) if model is None else lambda name: name == model
    newest = await ctx.drift.newest()
    subscription = ctx.broadcast.subscribe()
    sent = event_stream.events(ctx.drift, subscription, wanted, newest, resume, limited)
    return event_stream.EventStream(sent, subscription.over, partial(ctx.broadcast.leave, subscription))


class _Listed(NamedTuple):
    """An event of a model: its version and index, the time of its entry, and its JSON."""

    key: StreamPosition
    time_ms: int
    shown: bytes


async def _of_model(replica: Replica, stream: DriftStream) -> tuple[int, list[_Listed]]:
    """The version of a model, and its events, oldest first."""
    async with replica.held():
        version, drifts, size = replica.version, replica.model.outbox.after(NO_ALARM), replica.model.outbox.nbytes
    name, incarnation = replica.name, replica.incarnation

    def listed() -> list[_Listed]:
        return [_Listed(StreamPosition(*one.place), one.time_ms, shown_of(name, incarnation, one)) for one in drifts]

    found = await in_thread_if_large(size, listed)
    found += [_Listed(one.position, one.time_ms, one.shown()) for one in await stream.unlabelled(name, incarnation)]
    return version, sorted(found)


async def _answer(shown: Sequence[bytes], form: str, name: str, more: dict[str, Any]) -> Response:
    """Events and the other fields, as JSON or as a table."""
    body = _encode({"events": [*map(msgspec.Raw, shown)], **more})
    return Response(body, media_type=JSON) if form == "json" else await csv_answer(body, drift_table, name)


def _cursor(found: StreamPosition | None) -> StreamPosition:
    if found is None:
        raise no_cursor()
    return found


def _since_version(text: str) -> tuple[int, int]:
    """``(version, 0)`` for events after a version, or ``(0, time)`` for events at or after a time."""
    if (found := whole(text)) is not None:
        return found, 0
    allowed = "a whole number (events after that version, or that time in ms), or a time as in 2026-01-31T12:00:00Z"
    return 0, _time_ms(text, "a version or a time", allowed)


def _since_ms(text: str) -> int:
    """The time in ms that a text gives, as a whole number of ms or as a time."""
    allowed = "2026-01-31T12:00:00Z, or a whole number of milliseconds since 1970"
    return _time_ms(text, "a time", allowed) if (found := whole(text)) is None else found


def _time_ms(text: str, what: str, allowed: str) -> int:
    """A time in ms; the plus sign of a zone may arrive as a blank."""
    if _TIME.fullmatch(zoned := re.sub(r" (?=\d\d:\d\d$)", "+", text)) is not None:
        with suppress(ValueError, OverflowError):
            return max(0, int(datetime.fromisoformat(zoned.upper()).astimezone(UTC).timestamp() * 1000))
    raise Invalid.of("since", f"is not {what}", allowed)
