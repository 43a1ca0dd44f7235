"""What every answer has, whatever gave it: the request's id, headers for browsers, HEAD wherever there is GET.

``identified`` does it for the short way of rows, ``LongWay`` for everything else, refusals and pages included.
"""

from collections.abc import MutableMapping
from time import perf_counter
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api import access_log, request_id
from service.api.answer_headers import ALWAYS, PAGES
from service.api.route import Handler
from service.api.row_answer import RowAnswer


def identified(handler: Handler) -> Handler:
    """A handler of the short way, whose answers have what every answer has."""

    async def handle(request: Request) -> Response:
        own = request_id.begin(request.scope)
        started = perf_counter()
        response = await handler(request)
        if type(response) is RowAnswer:
            response.request_id = own
        else:
            response.raw_headers += ((request_id.HEADER, own), *ALWAYS)
        if access_log.on:
            access_log.write(request.scope, response.status_code, perf_counter() - started)
        return response

    return handle


async def by_long_way(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Let an app answer a request."""
    own = request_id.begin(scope)
    started = perf_counter()
    answer = _Head(receive, send, own) if scope["method"] == "HEAD" else _Answer(receive, send, own)
    try:
        await app({**scope, "method": "GET"} if scope["method"] == "HEAD" else scope, answer.receive, answer.send)
    finally:
        if access_log.on:
            access_log.write(scope, answer.status, perf_counter() - started)


class _Answer:
    """An answer, and the headers that it still lacks.

    Attributes:
        status: of the answer; 0 before it begins.
    """

    def __init__(self, receive: Receive, send: Send, own: bytes) -> None:
        self._receive, self._send, self._own = receive, send, own
        self.status = 0

    async def receive(self) -> Message:
        """The next message of the client."""
        return await self._receive()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a message on, the first one with all headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = message["headers"]
            names = {name for name, _ in given}
            more = [header for header in (*ALWAYS, *PAGES) if header[0] not in names]
            message = {**message, "headers": [*given, (request_id.HEADER, self._own), *more]}
        await self._send(message)


class _Head(_Answer):
    """The answer to HEAD: that of GET, which ends with its headers, also where it would go on for ever."""

    async def receive(self) -> Message:
        """The next message; once the headers are sent the client counts as gone."""
        return {"type": "http.disconnect"} if self.status else await self._receive()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send the headers on, and an end."""
        if message["type"] == "http.response.start":
            await super().send(message)
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
