"""The short way of a single row through the server: from the whole body to one write, without messages of ASGI.

Its endpoints are the app's own; what is left out is what the server does to carry an answer as messages. Where the body
has not all come when its head has, and for every answer but 200, the messages are sent as usual.
"""

import asyncio
from typing import Any, Protocol

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.api.route import Handler
from service.api.row_answer import RowAnswer, RowRequest

OK = b"HTTP/1.1 200 OK\r\n"
CLOSE = b"connection: close\r\n"


class Writer(Protocol):
    """Writes answers."""

    def write_at_once(self, data: bytes) -> None:
        """Write a whole answer."""

    def close(self) -> None:
        """Close once everything is written."""


class ShortCycle(RequestResponseCycle):
    """The server's part in one request: its own class, told only what differs from request to request.

    Args:
        server: the connection's protocol.
        scope: of the request.
        handle: gives the response.
        keep_alive: whether the connection goes on after the answer.
    """

    access_log = waiting_for_100_continue = False
    disconnected = response_started = response_complete = False
    more_body = True
    chunked_encoding = None
    expected_content_length = 0

    def __init__(self, server: HttpToolsProtocol, scope: Scope, handle: Handler, keep_alive: bool) -> None:
        own: Any = scope
        self.handle = handle
        self.scope, self.transport, self.flow, self.logger = own, server.transport, server.flow, server.logger
        self.default_headers, self.on_response = server.server_state.default_headers, server.on_response_complete
        self.message_event, self.keep_alive, self.body = asyncio.Event(), keep_alive, bytearray()


def by_short_way(cycle: RequestResponseCycle, handle: Handler, app: ASGIApp, writer: Writer) -> ASGIApp:
    """An app that answers one request with ``handle``.

    Args:
        cycle: the server's, of the request.
        handle: gives the response.
        app: answers where the body has not come.
        writer: the connection.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if cycle.more_body:
            await app(scope, receive, send)
            return
        response = await handle(RowRequest(scope, whole=bytes(cycle.body)))
        if type(response) is not RowAnswer:
            await response(scope, receive, send)
            return
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        if not cycle.disconnected:
            _write(cycle, response, writer)

    return answer


def _write(cycle: RequestResponseCycle, answer: RowAnswer, writer: Writer) -> None:
    """Head and body at once, and what the server does behind an answer."""
    lines = [b"%b: %b\r\n" % header for header in cycle.default_headers]
    writer.write_at_once(b"".join((OK, *lines, answer.lines, b"" if cycle.keep_alive else CLOSE, b"\r\n", answer.body)))
    cycle.response_started = cycle.response_complete = True
    cycle.message_event.set()
    if not cycle.keep_alive:
        writer.close()
    cycle.on_response()
