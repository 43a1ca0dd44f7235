"""The request and the answer of a single row, without what Starlette's own do around them.

Both are Starlette's to whoever handles them. Reading a header from ``Headers`` scans the list of all, and ``Response``
looks its headers up and encodes them; together that costs about what reading the row does.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.requests import Request, empty_send
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.api.answer_headers import ALWAYS, MODEL
from service.api.media import JSON
from service.api.request_id import HEADER

HEAD = (b"content-type", JSON.encode())
_CONSTANT = b"".join(b"%b: %b\r\n" % header for header in (HEAD, *ALWAYS))
_LINES = _CONSTANT + b"content-length: %d\r\n" + HEADER + b": %b\r\n" + MODEL + b": %b\r\n"


class RowRequest(Request):
    """A request whose whole body is here, or comes by ``receive``.

    Args:
        scope: of the request.
        receive: gives the body in parts; None where ``whole`` is all of it.
        whole: the bytes.

    Attributes:
        whole: the whole body, where it is here.
    """

    _stream_consumed = _is_disconnected = False
    _form = None

    def __init__(self, scope: Scope, receive: Receive | None = None, whole: bytes | None = None) -> None:
        self.scope, self._receive, self._send = scope, receive or self._at_once, empty_send
        self.whole = whole
        given: Any = _Headers(scope["headers"])
        self._headers = given

    async def _at_once(self) -> dict[str, Any]:
        return {"type": "http.request", "body": self.whole or b"", "more_body": False}


class _Headers(Mapping[str, str]):
    """The headers of a request, decoded when they are asked for: few are. Of one given twice the first one counts."""

    __slots__ = ("_given",)

    def __init__(self, lines: Sequence[tuple[bytes, bytes]]) -> None:
        self._given = dict(reversed(lines))

    def __getitem__(self, name: str) -> str:
        if (value := self.get(name)) is None:
            raise KeyError(name)
        return str(value)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a header, or the default."""
        value = self._given.get(name.encode("latin-1"))
        return default if value is None else value.decode("latin-1")

    def __contains__(self, name: object) -> bool:
        return self.get(str(name)) is not None

    def __iter__(self) -> Iterator[str]:
        return (name.decode("latin-1") for name in self._given)

    def __len__(self) -> int:
        return len(self._given)


class RowAnswer(Response):
    """200 with a short JSON body.

    Args:
        body: the JSON.

    Attributes:
        request_id: of the request; empty where another one adds the headers that every answer has.
        model: the name of the model that it is of.
    """

    request_id = model = b""

    def __init__(self, body: bytes) -> None:
        self.status_code, self.body, self.background = 200, body, None

    @property
    def raw_headers(self) -> list[tuple[bytes, bytes]]:  # type: ignore[override]  # made when they are asked for
        """The headers."""
        own = ((HEADER, self.request_id), (MODEL, self.model)) if self.request_id else ()
        return [HEAD, *ALWAYS, (b"content-length", b"%d" % len(self.body)), *own]

    @property
    def lines(self) -> bytes:
        """The headers as lines."""
        return _LINES % (len(self.body), self.request_id, self.model)

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it as two messages."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body})
