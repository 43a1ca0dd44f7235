"""Answers to HTTP/1.0, which has no chunks: those of unknown length end when the connection does (RFC 9112, 6.3)."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any


def without_chunks(scope: Any, cycle: Any) -> None:
    """Have a request of HTTP/1.0 answered without the chunks of uvicorn, which closes after each such answer.

    ``cycle`` is uvicorn's RequestResponseCycle; for an upgrade, whose head is read again, the one before it or None.
    """
    if cycle is not None and cycle.scope is scope:
        cycle.send = partial(_send, cycle, cycle.send)


async def _send(cycle: Any, send: Callable[[Any], Awaitable[None]], message: Any) -> None:
    """Make uvicorn expect what it is given; ``chunked_encoding`` still means that the length is unknown."""
    if message["type"] == "http.response.start":
        unknown = all(name.lower() != b"content-length" for name, _ in message.get("headers", ()))
    else:
        unknown = bool(cycle.chunked_encoding)
    if unknown:
        cycle.chunked_encoding, cycle.expected_content_length = False, len(message.get("body", b""))
    await send(message)
    cycle.chunked_encoding = unknown
