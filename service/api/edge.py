"""What every answer has, whatever gave it: the request's id, its model, headers for browsers, HEAD where there is GET.

``identified`` does it for the short way of rows, ``LongWay`` for everything else, refusals and pages included.
"""

from collections.abc import MutableMapping
from time import perf_counter
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api import access_log, request_id
from service.api.answer_headers import ALWAYS, MODEL, PAGES
from service.api.context import NAME
from service.api.route import Handler
from service.api.row_answer import RowAnswer
from service.runtime.broadcast import OWNER


def identified(handler: Handler) -> Handler:
    """A handler of the short way, whose answers have what every answer has."""

    async def handle(request: Request) -> Response:
        own, model = request_id.begin(request.scope), request.scope["path_params"]["name"].encode()
        started = perf_counter()
        response = await handler(request)
        if type(response) is RowAnswer:
            response.request_id, response.model = own, model
        else:
            response.raw_headers += ((request_id.HEADER, own), (MODEL, model), *ALWAYS)
        if access_log.on:
            access_log.write(request.scope, response.status_code, perf_counter() - started)
        return response

    return handle


async def by_long_way(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Let an app answer a request."""
    request_id.begin(scope)
    OWNER.set(None)  # the key of this request, once it is known
    started = perf_counter()
    head = scope["method"] == "HEAD"
    asked = {**scope, "method": "GET"} if head else scope
    answer = _Head(receive, send, asked) if head else _Answer(receive, send, asked)
    try:
        await app(asked, answer.receive, answer.send)
    finally:
        route = getattr(asked.get("route"), "path", None)
        if access_log.on and not access_log.is_quiet(route, answer.status):
            access_log.write(scope, answer.status, perf_counter() - started)


class _Answer:
    """An answer, and the headers that it still lacks.

    Args:
        receive, send: to and from the client.
        scope: of the request; once it has a route, with the model it is of.

    Attributes:
        status: of the answer; 0 before it begins.
    """

    def __init__(self, receive: Receive, send: Send, scope: Scope) -> None:
        self._receive, self._send, self._scope = receive, send, scope
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
            own = (request_id.HEADER, self._scope[request_id.ID])
            message = {**message, "headers": [*given, own, *_model_of(self._scope), *more]}
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


def _model_of(scope: Scope) -> list[tuple[bytes, bytes]]:
    """The header that names the model, on routes of one; a name that no model can have is not repeated."""
    name = scope.get("path_params", {}).get("name", "")
    return [(MODEL, name.encode())] if NAME.fullmatch(name) else []
