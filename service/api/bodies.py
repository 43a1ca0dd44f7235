"""The bodies of requests, before anything reads them: media type, size. Nothing here knows a model."""

from typing import cast

from starlette.requests import ClientDisconnect, Request

from core.problems import Invalid, Problem
from service.api.body_budget import BodyBudget
from service.api.media import DENSE_TABLES, JSON, SVMLIGHT
from service.errors import TooLarge, WrongMedia

SMALL_BYTES = 65_536
"""A body up to this size is not counted: the server holds as much of every connection anyway."""


def media_type(request: Request, allowed: tuple[str, ...]) -> str:
    """The body's media type; the first one allowed where the client says nothing.

    Raises:
        WrongMedia: a type the route does not read; ``allowed`` lists those it does.
    """
    given = request.headers.get("content-type")
    if given is None:
        return allowed[0]
    if given == JSON and JSON in allowed:
        return JSON
    kind = given.partition(";")[0].strip().lower()
    if kind.endswith("+json"):
        kind = JSON
    if kind not in allowed:
        problem = Problem("Content-Type", "is not a media type this route reads", list(allowed))
        raise WrongMedia(f"send one of {', '.join(allowed)}", [problem])
    return kind


def table_type(request: Request) -> str:
    """The media type of a batch, for a model that is not known yet."""
    return media_type(request, (*DENSE_TABLES, SVMLIGHT))


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body.

    One that is not small counts against the budget of all bodies until its request is answered: with the length that
    was announced at once, else as it arrives. How long it may take is the protocol's to bound.

    Raises:
        TooLarge: over the limit, as announced or as it arrives.
        BodiesFull: as many bytes of bodies are being read as may be.
    """
    length = request.headers.get("content-length")
    announced = int(length) if length is not None and length.isdecimal() else 0
    if announced > limit:
        raise too_large(limit)
    message = await request.receive()  # request.stream() would do the same through two generators, which costs more
    if message["type"] == "http.disconnect":  # than learning a row
        raise ClientDisconnect
    part: bytes = message.get("body", b"")
    if len(part) > limit:
        raise too_large(limit)
    more = message.get("more_body", False)
    if not more and len(part) <= SMALL_BYTES:
        return part
    budget: BodyBudget = request.app.state.context.budget
    _count(budget, request, max(announced, len(part)))
    return await _rest(budget, request, limit, part) if more else part


async def _rest(budget: BodyBudget, request: Request, limit: int, first: bytes) -> bytes:
    """A body of several parts, in one buffer that grows: joining hundreds of megabytes would stop everybody else."""
    whole, more = bytearray(first), True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        whole += message.get("body", b"")
        if len(whole) > limit:
            raise too_large(limit)
        _count(budget, request, len(whole))
        more = message.get("more_body", False)
    return cast("bytes", whole)  # what reads it takes both, and nobody writes to it


def _count(budget: BodyBudget, request: Request, size: int) -> None:
    if size > SMALL_BYTES:
        budget.reserve(request.scope, size)


def too_large(limit: int) -> TooLarge:
    """The error for a body over the limit."""
    return TooLarge(f"the body is larger than {limit} bytes", [Problem("body", "is too large", f"<= {limit} bytes")])


async def require_empty(request: Request, limit: int) -> None:
    """Read the body of a request that takes none; an empty object will do.

    Raises:
        Invalid: another body.
    """
    if (await read_body(request, limit)).strip() not in (b"", b"{}"):
        raise Invalid.of("body", "has nothing to say here", "no body, or {}")
