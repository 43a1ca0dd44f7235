"""Large answers (lists with a value per row, and states) in pieces: no long text is encoded or sent at once.

Encoding holds the interpreter for the length of a call. So long lists are encoded some rows at a time, in a
thread, and the pieces are sent one by one, each after the client has read the earlier ones. They are held until then,
so the answer to many rows is counted before the rows are predicted or learned (``reserve``, then ``answered``).
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from core.contract import Buffer
from core.model import Model, read
from core.problems import Problem
from service.api.http.bodies import SMALL_BYTES
from service.api.http.context import Context
from service.api.http.json_pieces import fields_of
from service.api.http.media import JSON
from service.errors import TooLarge
from service.runtime.threads import in_thread_if_large

VALUES_AT_ONCE = 16_384  # values in one piece: about a millisecond of encoding
SENT_AT_ONCE = 65_536  # least number of bytes passed to the server at once
PIECE_BYTES = 2**20  # most bytes of a state or document passed to the connection at once
STATE = "application/octet-stream"
ROW_BYTES = 64  # assumed cost of encoding one row of an answer, in bytes of a body
ANSWER_BYTES_MAX = 64 * 2**20  # most bytes that the answer to a batch may take
NUMBER_BYTES = 24  # most bytes of a number or a short text in an answer
_encode = msgspec.json.Encoder().encode


def learnt_bytes(model: Model) -> int:
    """Roughly how many bytes a learned row takes in an answer: its prediction and its loss."""
    return _named_bytes(model) + NUMBER_BYTES


def predicted_bytes(model: Model, numbers: int = 0) -> int:
    """Roughly the bytes of a predicted row: its prediction, its deviation or probabilities, and other ``numbers``."""
    shares = 1 if model.own.answers.regression else len(read.labels_in_use(model.own).keys)
    return _named_bytes(model) + NUMBER_BYTES * (shares + numbers)


def reserve(ctx: Context, request: Request, rows: int, each: int) -> None:
    """Count an answer of ``rows`` rows, ``each`` bytes long: a request counts as the larger of its body and its answer.

    ``TooLarge`` if it would be too large, ``BodiesFull`` if there is no room for it.
    """
    size = rows * each
    if size > ANSWER_BYTES_MAX:
        raise TooLarge(
            f"the predictions of {rows} rows by this model would take some {size} bytes; the limit is "
            f"{ANSWER_BYTES_MAX} per request: send fewer rows at once",
            [Problem("data", "has too many rows for this model's answers", f"<= {ANSWER_BYTES_MAX // each} rows")],
        )
    if size > SMALL_BYTES:
        ctx.budget.reserve(request.scope, size)


def _named_bytes(model: Model) -> int:
    names = () if model.own.answers.regression else read.labels_in_use(model.own).keys
    return NUMBER_BYTES + max(map(len, names), default=0)


async def answered(ctx: Context, request: Request, rows: int, make: Callable[..., Response], *args: object) -> Response:
    """The answer to ``rows`` rows, made by ``make(*args)``; a long one counts until it has been sent."""
    answer = await in_thread_if_large(ROW_BYTES * rows, make, *args)
    if isinstance(answer, InParts):
        answer.sent = ctx.budget.keep(request.scope, answer.size)
    return answer


def encoded(answer: msgspec.Struct) -> list[bytes]:
    """The JSON of an answer whose long fields are lists, or arrays of finite numbers, in parts.

    Omits fields that are None if the struct omits defaults.
    """
    found = [b"{"]
    for own in fields_of(type(answer)):
        value = getattr(answer, own.name)
        if value is own.default and answer.__struct_config__.omit_defaults:
            continue
        found.append((b"," if len(found) > 1 else b"") + _encode(own.encode_name) + b":")
        found += list_parts(value) if isinstance(value, list | np.ndarray) else [_encode(value)]
    found.append(b"}")
    return found


def list_parts(values: Sequence[Any] | NDArray[Any]) -> Iterator[bytes]:
    """The JSON of a list, or of an array of finite numbers, in parts."""
    rows = max(1, VALUES_AT_ONCE // _width(values))
    yield b"["
    for begin in range(0, len(values), rows):
        some = values[begin : begin + rows]
        whole = _encode(some.tolist() if isinstance(some, np.ndarray) else some)
        yield (b"," if begin else b"") + whole[1:-1]
    yield b"]"


def _width(values: Sequence[Any] | NDArray[Any]) -> int:
    return values.shape[1] or 1 if isinstance(values, np.ndarray) and values.ndim == 2 else 1


def large_answer(answer: msgspec.Struct) -> Response:
    """A 200 answer; encodes its parts and sends them one by one if there are many."""
    return in_parts(encoded(answer))


def in_parts(parts: Sequence[bytes], media_type: str = JSON, headers: Mapping[str, str] | None = None) -> Response:
    """A 200 answer made of parts, which are sent one by one if there are many."""
    size = sum(map(len, parts))
    if size <= SENT_AT_ONCE:
        return Response(b"".join(parts), media_type=media_type, headers=headers)
    return InParts(_gathered(parts), size, media_type, headers or {})


def _gathered(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in larger parts."""
    waiting = bytearray()
    for part in parts:
        waiting += part
        if len(waiting) >= SENT_AT_ONCE:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting)


def held_answer(whole: Buffer, media_type: str, headers: Mapping[str, str], sent: Callable[[], None]) -> Response:
    """The answer with a state or document; ``sent`` is called when it is no longer needed, sent or not."""
    view = memoryview(whole)
    pieces = (bytes(view[at : at + PIECE_BYTES]) for at in range(0, len(view), PIECE_BYTES))
    return InParts(pieces, len(view), media_type, headers, sent)


class InParts(Response):
    """An answer in parts, ``size`` bytes in total, sent as fast as the client reads.

    ``sent`` is called when no part is needed any more, whether it was sent or not.
    """

    def __init__(
        self,
        parts: Iterable[bytes],
        size: int,
        media_type: str,
        headers: Mapping[str, str],
        sent: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(media_type=media_type, headers={**headers, "Content-Length": str(size)})
        self._parts, self.size, self.sent = parts, size, sent

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it; ``send`` waits while the client lags behind."""
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for part in self._parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
                await asyncio.sleep(0)  # a disconnected client accepts parts immediately
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self.sent()
