"""The request of a row route, a leaner version of Starlette's.

It is Starlette's to all that handles it. Reading a header from ``Headers`` scans the list of all, and a body comes by
two generators; together that costs about what reading a row does.
"""

from collections.abc import Mapping
from typing import Any

from starlette.requests import ClientDisconnect, Request, empty_send
from starlette.types import Receive, Scope

from service.api.http.bodies import SMALL_BYTES
from service.api.http.lines import lines_of


class RowRequest(Request):
    """A request whose body arrives through ``receive``.

    Args:
        scope: of the request.
        receive: gives the body in parts.

    Attributes:
        lines: its header lines.
    """

    _stream_consumed = _is_disconnected = False
    _form = None
    _left: Any = None

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope, self._receive, self._send = scope, receive, empty_send
        self.lines = lines_of(scope)

    async def receive(self) -> Any:  # in Starlette a property that returns a function
        """The next message of the client, or one that ``small_json`` left."""
        if self._left is not None:
            message, self._left = self._left, None
            return message
        return await self._receive()

    async def small_json(self, limit: int) -> bytes | None:
        """The body if it is plain JSON, complete, and too small to be counted; otherwise it can still be read.

        Raises:
            ClientDisconnect: the client has gone.
        """
        lines, bound = self.lines, min(limit, SMALL_BYTES)
        message: Mapping[str, Any] = await self._receive()
        while message.get("more_body", False) and max(len(message["body"]), self._announced()) <= bound:
            more = await self._receive()
            if more["type"] == "http.disconnect":
                raise ClientDisconnect
            message = {**more, "body": message["body"] + more.get("body", b"")}
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body: bytes = message.get("body", b"")
        if (
            len(body) <= bound
            and not message.get("more_body", False)
            and lines.get(b"content-type") == b"application/json"
            and b"content-encoding" not in lines
        ):
            return body
        self._left = message
        return None

    def _announced(self) -> int:
        """The length that the client has announced, in bytes; 0: none."""
        length = self.lines.get(b"content-length", b"")
        return int(length) if length.isdigit() else 0
