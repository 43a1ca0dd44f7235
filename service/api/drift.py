"""Drift events: of one model, of all, and live."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from core.problems import Invalid
from service.api import bodies
from service.api.context import DIGITS_MAX, LIMIT_MAX, NAME, Context, freshness, page
from service.api.event_stream import EventStream, Resume, frames
from service.errors import no_model
from service.store.drift import BEFORE_FIRST
from service.store.events import START, EventKey, StoredEvent, StreamPosition, is_event_id, position

SKEW_MS = 60_000
"""Servers of a cluster may disagree so much about the time."""
MS_MIN = 10**12
"""A whole number from here on (September 2001 in ms) that no version of the model has reached is a time."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
_encode = msgspec.json.Encoder().encode


async def of_model(ctx: Context, request: Request) -> Response:
    """The events of one model, oldest first; its alarms up to the answer's version are among them."""
    limit, cursor = page(request)
    since = request.query_params.get("since")
    asked, from_ms = (0, 0) if since is None else _since_version(since)
    begin = BEFORE_FIRST if cursor is None else EventKey(*_cursor(cursor))
    replica = await ctx.engine.replica(request.path_params["name"], freshness(request))
    version = replica.version
    if asked >= MS_MIN and asked > version:
        asked, from_ms = 0, asked
    after = max(begin, BEFORE_FIRST if asked == 0 else EventKey(asked, 2**53))
    await ctx.engine.models.alarms.until_published(replica)
    found: list[StoredEvent] = []
    while len(found) <= limit:
        more = await ctx.drift.of_model(replica.name, replica.incarnation, after, LIMIT_MAX)
        found += [known for known in more if known.time_ms >= from_ms]
        if len(more) < LIMIT_MAX:
            break
        after = EventKey(*more[-1].position)
    return _answer({**_page(found, limit), "version": version, "incarnation": replica.incarnation})


async def of_all(ctx: Context, request: Request) -> Response:
    """The events of every model that the key may touch, in the order in which they became known."""
    limit, cursor = page(request)
    freshness(request)  # checked alone: what the store has is what is answered
    since = request.query_params.get("since")
    from_ms = 0 if since is None else _time_ms(since, "a time")
    after = START if cursor is None else _cursor(cursor)
    after = max(after, StreamPosition(max(0, from_ms - SKEW_MS), 0))
    wanted = _wanted(ctx, request)
    found: list[StoredEvent] = []
    while len(found) <= limit:
        more = await ctx.drift.of_service(after, LIMIT_MAX)
        found += [known for known in more if known.time_ms >= from_ms and wanted(known.model)]
        if len(more) < LIMIT_MAX:
            break
        after = more[-1].position
    return _answer(_page(found, limit))


async def stream(ctx: Context, request: Request) -> Response:
    """The same, live."""
    model = request.query_params.get("model")
    if model is not None:
        if NAME.fullmatch(model) is None:
            raise Invalid.of("model", "is not a model name", NAME.pattern)
        ctx.keys.allow(request.headers, "read", model)
        if ctx.engine.models.peek(model) is None and await ctx.engine.store.catalog.read(model) is None:
            raise no_model(model, "model")
    resume = await _resume(ctx, request.headers.get("last-event-id"))
    allowed = _wanted(ctx, request)
    listener = await ctx.broadcast.listen(allowed if model is None else lambda name: name == model)
    return EventStream(ctx.broadcast, listener, frames(ctx.drift, listener, resume))


def _answer(body: object) -> Response:
    return Response(_encode(body), media_type=bodies.JSON)


def _wanted(ctx: Context, request: Request) -> Callable[[str], bool]:
    """Whether the request's key may know of a model."""
    caller = ctx.keys.caller(request.headers)
    return (lambda _: True) if caller is None else caller.allows


def _page(found: list[StoredEvent], limit: int) -> dict[str, Any]:
    shown = found[:limit]
    following = str(shown[-1].position) if len(found) > limit else None
    return {"events": [msgspec.Raw(known.body) for known in shown], "next": following}


def _cursor(text: str) -> StreamPosition:
    found = position(text)
    if found is None:
        raise Invalid.of("cursor", "is not a cursor of this list")
    return found


def _since_version(text: str) -> tuple[int, int]:
    """A version, whose own events are not wanted any more, or a time, whose events are; the other one is 0."""
    if text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX and int(text) <= 2**53:
        return int(text), 0
    return 0, _time_ms(text, "a version or a time", digits=False)


def _time_ms(text: str, what: str, *, digits: bool = True) -> int:
    """A time in ms; a plus sign of the zone may have come as a blank."""
    if digits and text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX and int(text) <= 2**53:
        return int(text)
    allowed = (
        "2026-01-31T12:00:00Z, or a whole number of milliseconds since 1970"
        if digits
        else "a whole number (events after that version, or that time in ms), or a time as in 2026-01-31T12:00:00Z"
    )
    if _TIME.fullmatch(zoned := re.sub(r" (?=\d\d:\d\d$)", "+", text)) is not None:
        try:
            return max(0, int(datetime.fromisoformat(zoned.upper()).astimezone(UTC).timestamp() * 1000))
        except (ValueError, OverflowError):
            pass
    raise Invalid.of("since", f"is not {what}", allowed)


async def _resume(ctx: Context, given: str | None) -> Resume | None:
    if given is None or given == "":
        return None
    found = position(given)
    if found is None and not is_event_id(given):
        raise Invalid.of("Last-Event-ID", "is not the id of an event", "an id of this stream, or of an event")
    return Resume(given, found if found is not None else await ctx.drift.find(given))
