"""One stream of rows: what has arrived is answered, then what has arrived meanwhile, until somebody ends it.

While a segment is settled the next one is decoded where its lines are here already; nothing is received meanwhile. The
stream ends when the body does; when its client leaves or does not read; with a last line that says why when no line
comes for long, the store or the model is away, or the service stops: what is being committed then is still answered.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.api.connection import connection_of
from service.api.context import Context
from service.api.media import NDJSON
from service.api.problems import status_of
from service.api.row_streams import answers
from service.api.row_streams.decoding import Form, Segment, decoded
from service.api.row_streams.intake import Intake
from service.api.schemas import LineRefused
from service.errors import Unavailable

logger = logging.getLogger(__name__)

KEEP_ALIVE_S = 15.0
"""After so long without an answer a blank line is sent."""
WRITE_S = 10.0
"""How long an answer may take to be written."""
LAST_WORD_S = 1.0
"""The same once the service stops."""
CONTINUE_S, APART_S = 1.0, 0.05
"""How long a client's first row is waited for that was told to continue, and a pause, before the answer begins."""


class Rows(Protocol):
    """What is done with the rows of a stream."""

    form: Form[Any]

    @property
    def most(self) -> int:
        """How many rows may be settled, and their answers written, in one go."""

    async def settle(self, segment: Segment[Any], out: list[answers.Answer]) -> None:
        """Add the answer to every row, in order; where it raises, those that are not there have none."""


class _Over(Exception):
    """The stream ends.

    Args:
        reason: what its last line says.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Unread(Exception):
    """The client does not read."""


class RowStream(Response):
    """The response.

    Args:
        ctx: the handler's.
        route: under which rows are counted.
        rows: makes what settles them; it is given the stream, which waits and writes for it.
        headers: of the request.
        told: headers of the response.
    """

    media_type = NDJSON

    def __init__(
        self,
        ctx: Context,
        route: str,
        rows: "Callable[[RowStream], Rows]",
        headers: Any,
        told: dict[str, str],
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no", **told})
        del self.headers["content-length"]
        self._ctx, self._route, self._key = ctx, route, ctx.keys.caller(headers)
        self._rows, self._most = rows(self), ctx.keys.burst(self._key)
        self._over = asyncio.Event()
        self._coming: asyncio.Task[Segment[Any] | None] | None = None
        self._taken = self._answered = 0
        self._sent_at = 0.0
        self._writing: asyncio.Timeout | None = None
        ctx.places.take(self, self.stop)

    # ---------------------------------------------------------------- the whole

    def stop(self) -> None:
        """End the stream: the service stops."""
        self._over.set()
        if self._coming is not None:
            self._coming.cancel()
        if self._writing is not None:
            self._writing.reschedule(asyncio.get_running_loop().time() + LAST_WORD_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer until the stream is over."""
        self._scope, self._send = scope, send
        bounds, budget = self._ctx.engine.bounds, self._ctx.budget
        self._intake = Intake(receive, bounds.body_bytes_max, lambda size: budget.reserve(scope, size))
        connection = connection_of(scope)
        connection.stop_timing(scope)
        beating: asyncio.Task[None] | None = None
        try:
            await self._continued(self._take_next())
            await self._write({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            beating = asyncio.create_task(self._beat())
            await self._exchange()
            if not self._intake.ended:
                connection.linger(scope)
            await self._write({"type": "http.response.body", "body": b"", "more_body": False})
        except ClientDisconnect:
            pass
        except _Unread:
            logger.warning("a stream of rows was cut: its client does not read")
            connection.abort()
            await asyncio.sleep(0)  # the server learns of it
        finally:
            self._ctx.places.leave(self)
            budget.release(scope)
            ending = [task for task in (beating, self._coming) if task is not None]
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)

    async def _continued(self, first: "asyncio.Task[Segment[Any] | None]") -> None:
        """Tell who waits for 100 Continue so, and begin the answer in a packet of its own.

        Where a proxy reads both at once, it may take the answer for whole (HAProxy 2.6 does), and its rows are lost.
        """
        await asyncio.sleep(0)
        if (b"expect", b"100-continue") in self._scope["headers"]:
            await asyncio.wait({first}, timeout=CONTINUE_S)
            await asyncio.sleep(APART_S)  # it may have sent the row unasked

    async def _exchange(self) -> None:
        """Answer segment after segment; then say why, if it is not the client that has ended the stream."""
        try:
            while (segment := await self._next()) is not None:
                await self._settle(segment)
        except _Over as over:
            await self._lines([answers.ended(over.reason, self._answered)])

    # ---------------------------------------------------------------- in

    def _take_next(self) -> "asyncio.Task[Segment[Any] | None]":
        self._coming = asyncio.create_task(self._received())
        return self._coming

    async def _received(self) -> Segment[Any] | None:
        """The next lines, as rows; None at the end of the body."""
        lines = await self._intake.take(min(self._most, self._rows.most))
        if not lines:
            return None
        first, self._taken = self._taken + 1, self._taken + len(lines)
        bounds = self._ctx.engine.bounds
        return await decoded(self._rows.form, first, lines, bounds.body_bytes_max, self._ctx.reader)

    async def _next(self) -> Segment[Any] | None:
        """The segment that was being received.

        Raises:
            _Over: none comes in time, or the service stops.
        """
        if self._over.is_set():
            raise _Over("stop")
        coming = self._coming or self._take_next()
        try:
            segment = await coming
        except TimeoutError:
            raise _Over("idle") from None
        except asyncio.CancelledError:
            if self._over.is_set() and coming.cancelled():
                raise _Over("stop") from None
            raise
        except Unavailable as error:  # a long line found no room, or nobody to read it
            await self._lines([answers.refused(self._answered + 1, error)])
            raise _Over(answers.reason_of(error)) from None
        if self._over.is_set():
            raise _Over("stop")
        self._coming = None
        if self._intake.more:  # else what arrives while this segment is settled becomes one segment, too
            self._take_next()
        return segment

    # ---------------------------------------------------------------- settled

    async def _settle(self, segment: Segment[Any]) -> None:
        """Answer a segment.

        Raises:
            _Over: it could not be settled; each of its rows that was not is told so.
        """
        out: list[answers.Answer] = []
        over: _Over | None = None
        error: Exception = Unavailable("the service stops; nothing is known to be learned: send the row again")
        try:
            await self._within_rate(len(segment.asks))
            await self._rows.settle(segment, out)
        except _Over as ends:
            over = ends
        except _Unread:
            raise
        except Exception as failed:
            if status_of(failed) == 500:
                logger.exception("%s failed", self._route)
            over, error = _Over(answers.reason_of(failed)), failed
        self._answered += len(out)
        if over is not None:
            left = range(self._answered + 1, segment.first + len(segment.asks))
            out += [answers.refused(line, error) for line in left]
        self._count(out)
        if self._coming is None and not self._intake.more:
            self._ctx.budget.release(self._scope)  # the long line, if it was one
        await self._lines(out)
        if over is not None:
            raise over

    async def flush(self, out: list[answers.Answer]) -> None:
        """Send answers that are large before their segment is settled."""
        self._answered += len(out)
        self._count(out)
        await self._lines(out)
        out.clear()

    def _count(self, out: Sequence[answers.Answer]) -> None:
        refusals = [answers.status(line) for line in out if isinstance(line, LineRefused)]
        counts = Counter(refusals)
        counts[200] = len(out) - len(refusals)
        for status, count in counts.items():
            self._ctx.telemetry.count_rows(self._route, status, count)

    async def _within_rate(self, rows: int) -> None:
        """Wait until the key may send so many rows."""
        wait_s = self._ctx.keys.spend_rows(self._key, rows)
        if wait_s > 0:
            await self.pause(wait_s)

    async def pause(self, seconds: float) -> None:
        """Wait.

        Raises:
            _Over: the service stops.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()
        if self._over.is_set():
            raise _Over("stop")

    # ---------------------------------------------------------------- out

    async def _lines(self, lines: Sequence[answers.Answer]) -> None:
        await self._write({"type": "http.response.body", "body": _encode_lines(lines), "more_body": True})

    async def _write(self, message: Any) -> None:
        """Hand something to the server, which waits while its client has not taken enough.

        Raises:
            _Unread: it does not take it.
        """
        try:
            async with asyncio.timeout(LAST_WORD_S if self._over.is_set() else WRITE_S) as self._writing:
                await self._send(message)
        except TimeoutError:
            raise _Unread from None
        finally:
            self._writing = None
        self._sent_at = asyncio.get_running_loop().time()

    async def _beat(self) -> None:
        """Send a blank line whenever nothing else was sent for long."""
        now = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(max(1.0, self._sent_at + KEEP_ALIVE_S - now()))
            if self._writing is None and now() >= self._sent_at + KEEP_ALIVE_S:
                self._sent_at = now()
                await self._send({"type": "http.response.body", "body": b"\n", "more_body": True})


_encode_lines = msgspec.json.Encoder().encode_lines
