"""The bodies of requests, before anything reads them: media type, encoding, size. Nothing here knows a model."""

from typing import cast

from starlette.requests import ClientDisconnect, Request

from core.problems import Invalid, Problem
from service.api import content_encoding
from service.api.body_budget import BodyBudget
from service.api.cross_site import is_browser
from service.api.media import DENSE_TABLES, JSON, SVMLIGHT, wrong_media
from service.errors import TooLarge

SMALL_BYTES = 65_536
"""A body up to this size is not counted: the server holds as much of every connection anyway."""
AHEAD_BYTES = 2**20
"""So much of a body that was announced is counted before it has come."""


def media_type(request: Request, allowed: tuple[str, ...]) -> str:
    """The body's media type; the first one allowed where the client says nothing.

    Raises:
        WrongMedia: a type the route does not read, or none from a browser; ``allowed`` lists those it does.
    """
    given = request.headers.get("content-type")
    if given is None:
        if is_browser(request.scope):  # any page may send a body without one
            raise wrong_media(allowed)
        return allowed[0]
    if given == JSON and JSON in allowed:
        return JSON
    kind = given.partition(";")[0].strip().lower()
    if kind.endswith("+json"):
        kind = JSON
    if kind not in allowed:
        raise wrong_media(allowed)
    return kind


def table_type(request: Request) -> str:
    """The media type of a batch, for a model that is not known yet."""
    return media_type(request, (*DENSE_TABLES, SVMLIGHT))


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body, unpacked where it is gzip.

    One that is not small counts against the budget of all bodies until its request is answered: as it arrives, with
    AHEAD_BYTES of what was announced, and as it is unpacked. How long it may take is the protocol's to bound.

    Raises:
        WrongEncoding: compressed, but not by gzip.
        TooLarge: over the limit, as announced, as it arrives or as it is unpacked.
        NotGzip: it cannot be unpacked.
        BodiesFull: as many bytes of bodies are being read as may be.
    """
    coding = request.headers.get("content-encoding")
    packed = coding is not None and content_encoding.is_gzip(coding)
    length = request.headers.get("content-length")
    announced = int(length) if length is not None and length.isdecimal() else 0
    if announced > limit:
        raise too_large(limit)
    message = await request.receive()  # request.stream() would do the same through two generators, which costs more
    if message["type"] == "http.disconnect":  # than learning a row
        raise ClientDisconnect
    body: bytes = message.get("body", b"")
    if len(body) > limit:
        raise too_large(limit)
    more = message.get("more_body", False)
    if more or len(body) > SMALL_BYTES:
        budget: BodyBudget = request.app.state.context.budget
        _count(budget, request, max(len(body), min(announced, len(body) + AHEAD_BYTES)))
        if more:
            body = await _rest(budget, request, limit, body, announced)
    return await _unpacked(request, limit, body) if packed else body


async def _unpacked(request: Request, limit: int, packed: bytes) -> bytes:
    budget: BodyBudget = request.app.state.context.budget
    whole = await content_encoding.unpacked(packed, limit, lambda held: _count(budget, request, held))
    if len(whole) > limit:
        raise too_large(limit, "unpacks to more")
    return whole


async def _rest(budget: BodyBudget, request: Request, limit: int, first: bytes, announced: int) -> bytes:
    """A body of several parts, in one buffer that grows: joining hundreds of megabytes would stop everybody else."""
    whole, more = bytearray(first), True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        whole += message.get("body", b"")
        if len(whole) > limit:
            raise too_large(limit)
        _count(budget, request, max(len(whole), min(announced, len(whole) + AHEAD_BYTES)))
        more = message.get("more_body", False)
    return cast("bytes", whole)  # what reads it takes both, and nobody writes to it


def _count(budget: BodyBudget, request: Request, size: int) -> None:
    if size > SMALL_BYTES:
        budget.reserve(request.scope, size)


def too_large(limit: int, how: str = "is larger") -> TooLarge:
    """The error for a body over the limit."""
    return TooLarge(f"the body {how} than {limit} bytes", [Problem("body", "is too large", f"<= {limit} bytes")])


async def require_empty(request: Request, limit: int) -> None:
    """Read the body of a request that takes none; an empty object will do.

    Raises:
        WrongMedia: a browser sends it as something else.
        Invalid: another body.
    """
    if request.headers.get("content-type") is not None and is_browser(request.scope):
        media_type(request, (JSON,))
    if (await read_body(request, limit)).strip() not in (b"", b"{}"):
        raise Invalid.of("body", "has nothing to say here", "no body, or {}")
