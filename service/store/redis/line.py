"""One connection to a server: the commands of a call in one write, the replies to the waiting calls in order.

The client library spends more time on a pipeline than the server does, so nothing here goes through it: hiredis, its
packer and parser, on a plain asyncio transport. Every call is bounded in time and nothing is sent twice. A connection
whose reply did not come in time, or that broke, is closed, and all calls that wait on it fail: a late reply must never
be taken for that of a later call.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

import hiredis
from redis import RedisError
from redis.asyncio.connection import AbstractConnection, SSLConnection, UnixDomainSocketConnection

from service.store.redis.redis_errors import reply_error, unavailable

Command = tuple[bytes | str | int, ...]
_NOTHING = object()


class Line(asyncio.Protocol):
    """One connection.

    Attributes:
        hear: if set, it is given every message and reply, and the error that ends the connection.
        ended: why it can be used no more; None while it can.
    """

    def __init__(self) -> None:
        self._reader = hiredis.Reader(replyError=reply_error, notEnoughData=_NOTHING)
        self._waiting: deque[tuple[asyncio.Future[list[Any]], int, asyncio.TimerHandle]] = deque()
        self._replies: list[Any] = []
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self.hear: Callable[[Any], None] | None = None
        self.ended: Exception | None = None

    def send(self, commands: Sequence[Command], timeout_s: float) -> "asyncio.Future[list[Any]]":
        """Send commands; their replies, errors among them as values, have to come within ``timeout_s``.

        Raises:
            ConnectionError, OSError, RedisError: the connection has ended; nothing was sent.
        """
        # The stub of pack_command knows tuples of one item only.
        self._write(b"".join(map(hiredis.pack_command, commands)))  # type: ignore[arg-type]
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        late = self._loop.call_later(timeout_s, self.end, TimeoutError("no reply in time"))
        self._waiting.append((future, len(commands), late))
        return future

    def tell(self, command: Command) -> None:
        """Send a command whose replies ``hear`` is given, as it is why the connection has ended."""
        with suppress(OSError, RedisError):
            self._write(hiredis.pack_command(command))  # type: ignore[arg-type]  # as in send

    def _write(self, data: bytes) -> None:
        if self.ended is not None or self._transport is None:
            raise self.ended or ConnectionError("not connected")
        try:
            self._transport.write(data)
        except RuntimeError as error:  # uvloop's, for a connection that the server has closed a moment ago
            raise ConnectionResetError from error

    def end(self, error: Exception) -> None:
        """Close, and fail all calls that wait."""
        self.ended = self.ended or error
        if self._transport is not None:
            self._transport.abort()
        if self.hear is not None:
            hear, self.hear = self.hear, None
            hear(error)
        while self._waiting:
            future, _, late = self._waiting.popleft()
            late.cancel()
            if not future.done():
                future.set_exception(error)

    # ---------------------------------------------------------------- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # noqa: D102
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has the methods, not the base class

    def data_received(self, data: bytes) -> None:  # noqa: D102
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not _NOTHING:
                self._take(reply)
        except hiredis.HiredisError:
            self.end(ConnectionError("not the store's protocol"))

    def _take(self, reply: Any) -> None:
        if self.hear is not None:
            self.hear(reply)
            return
        if not self._waiting:  # nobody has asked: in protected mode Redis says so, and hangs up
            self.end(reply if isinstance(reply, Exception) else ConnectionError("an unexpected reply"))
            return
        self._replies.append(reply)
        future, count, late = self._waiting[0]
        if len(self._replies) == count:
            self._waiting.popleft()
            late.cancel()
            replies, self._replies = self._replies, []
            if not future.done():
                future.set_result(replies)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: D102
        self.end(error or ConnectionError("connection lost"))


async def connect(where: AbstractConnection, timeout_s: float) -> Line:
    """A connection that the server has let in; the caller bounds the time that it takes to make it.

    Args:
        where: a connection of the client library's, which is not used but for what it knows: address, credentials,
            certificates.
        timeout_s: the most that the answer to the credentials may take.

    Raises:
        ConnectionError, TimeoutError, OSError: it cannot be made.
        RedisError: the server refuses it.
    """
    loop = asyncio.get_running_loop()
    if isinstance(where, UnixDomainSocketConnection):
        _, line = await loop.create_unix_connection(Line, where.path)
    else:
        tls = where.ssl_context.get() if isinstance(where, SSLConnection) else None
        _, line = await loop.create_connection(Line, where.host, where.port, ssl=tls)  # type: ignore[attr-defined]
    greeting: list[Command] = []
    if where.password is not None:
        greeting.append(("AUTH", *([where.username] if where.username else ()), where.password))
    if where.db:
        greeting.append(("SELECT", where.db))
    try:
        for reply in await line.send(greeting, timeout_s) if greeting else ():
            if isinstance(reply, Exception):
                raise reply if unavailable(reply) else ConnectionError("not let in") from reply
    except BaseException:  # cancelled by the time limit as well: a line that nobody will use is closed
        line.end(ConnectionError("not let in"))
        raise
    return line
