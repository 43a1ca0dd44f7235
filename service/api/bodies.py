"""The bodies of requests, before anything reads them: media type, size. Nothing here knows a model."""

from starlette.requests import ClientDisconnect, Request

from core.problems import Invalid, Problem
from service.api.media import DENSE_TABLES, JSON, SVMLIGHT
from service.errors import TooLarge, WrongMedia


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

    Raises:
        TooLarge: over the limit, as announced or as it arrives.
    """
    announced = request.headers.get("content-length")
    if announced is not None and announced.isdecimal() and int(announced) > limit:
        raise too_large(limit)
    parts: list[bytes] = []
    size = 0
    while True:  # request.stream() would do the same through two generators, which costs more than learning a row
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise too_large(limit)
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


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
