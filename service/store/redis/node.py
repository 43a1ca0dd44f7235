"""One server: a lean connection for the calls that carry rows, a pool for the others, a few more for large calls.

On each, the commands of a call go out in one write, and the replies go to the waiting calls in order. The client
library spends more time on a pipeline than the server does, so it is bypassed: hiredis packs and parses, on a plain
asyncio transport. Every call is bounded in time and nothing is sent twice. A connection whose reply did not arrive in
time, or that broke, is closed, and all calls that wait on it fail: a late reply must never be taken for that of a later
call.
"""

import asyncio
import math
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast
from weakref import WeakSet

import hiredis
from redis import RedisError
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection

from service.store.redis.redis_errors import reply_error, unavailable

Command = tuple[bytes | str | int, ...]
KEEPALIVE_S, IDLE_S = 60, 60.0
"""Seconds without traffic after which a connection is probed, and a pooled one closed: firewalls forget them."""
_NOTHING = object()


class Line(asyncio.Protocol):
    """One connection; ``hear``, if set, is called with every message and reply, and with the error that ends it."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader(replyError=reply_error, notEnoughData=_NOTHING)
        self._waiting: deque[tuple[asyncio.Future[list[Any]], int, asyncio.TimerHandle]] = deque()
        self._replies: list[Any] = []
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self.hear: Callable[[Any], None] | None = None
        self.ended: Exception | None = None  # why it can no longer be used

    def send(self, commands: Sequence[Command], timeout_s: float) -> "asyncio.Future[list[Any]]":
        """Send commands; their replies, with errors as values, have to arrive within ``timeout_s``.

        Raises OSError or RedisError if the connection has ended: then nothing was sent.
        """
        # The stub of pack_command knows tuples of one item only.
        self._write(b"".join(map(hiredis.pack_command, commands)))  # type: ignore[arg-type]
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        late = self._loop.call_later(timeout_s, self.end, TimeoutError("no reply in time"))
        self._waiting.append((future, len(commands), late))
        return future

    def tell(self, command: Command) -> None:
        """Send a command; ``hear`` gets its replies, and if the connection ends, the reason."""
        with suppress(OSError, RedisError):
            self._write(hiredis.pack_command(command))  # type: ignore[arg-type]  # as in send

    def _write(self, data: bytes) -> None:
        if self.ended is not None or self._transport is None:
            raise self.ended or ConnectionError("not connected")
        try:
            self._transport.write(data)
        except RuntimeError as error:  # uvloop's, for a connection that the server has just closed
            raise ConnectionResetError from error

    def end(self, error: Exception) -> None:
        """Close, and fail all waiting calls."""
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

    def retire(self, error: Exception) -> None:
        """Send nothing more, and close when no call is waiting."""
        self.ended = self.ended or error
        if not self._waiting:
            self.end(error)

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
        if not self._waiting:  # Redis in protected mode says so and hangs up
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
            if self.ended is not None and not self._waiting:
                self.end(self.ended)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: D102
        self.end(error or ConnectionError("connection lost"))


async def connect(where: AbstractConnection, timeout_s: float) -> Line:
    """Open a connection and log in; the caller bounds the time that this takes.

    ``where`` is a connection of the client library, of which only address, credentials and certificates are used; the
    answer to the credentials may take ``timeout_s``. Raises OSError, or an error of the library, if that fails.
    """
    loop = asyncio.get_running_loop()
    if isinstance(where, UnixDomainSocketConnection):
        _, line = await loop.create_unix_connection(Line, where.path)
    else:
        tls = where.ssl_context.get() if isinstance(where, SSLConnection) else None
        transport, line = await loop.create_connection(Line, where.host, where.port, ssl=tls)  # type: ignore[attr-defined]
        held = transport.get_extra_info("socket")
        held.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            held.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
    greeting: list[Command] = []
    if where.password is not None:
        greeting.append(("AUTH", *([where.username] if where.username else ()), where.password))
    if where.db:
        greeting.append(("SELECT", where.db))
    try:
        for reply in await line.send(greeting, timeout_s) if greeting else ():
            if isinstance(reply, Exception):
                raise reply if unavailable(reply) else ConnectionError("not let in") from reply
    except BaseException:  # also if cancelled by the time limit: close a line that will not be used
        line.end(ConnectionError("not let in"))
        raise
    return line


LARGE_CONNECTIONS_MAX = 4
"""Connections for large calls: not those of the pool, which they would fill while other calls wait for a place."""
RENEW_S = 1.0  # least time between two renewals of a server's connections
LARGE_BYTES_PER_S = 4 * 2**20  # the rate that a large call is given time for, on top of the timeout


class Pool:
    """At most ``most`` connections, each of which carries one call at a time."""

    def __init__(self, made: Callable[[], Awaitable[Line]], most: int) -> None:
        self._made, self._places = made, asyncio.Semaphore(most)
        self._free: dict[Line, float] = {}  # with the time of its last reply

    async def call(self, commands: Sequence[Command], timeout_s: float) -> list[Any]:
        """Send commands and return their replies, in ``timeout_s`` at most, including the wait for a connection.

        If the caller is cancelled, the connection stays taken until the replies have arrived.
        """
        async with asyncio.timeout(timeout_s):
            await self._places.acquire()
            try:
                old = asyncio.get_running_loop().time() - IDLE_S
                for line, since in self._free.items():
                    if since <= old:
                        line.end(ConnectionError("not used"))
                self._free = {line: since for line, since in self._free.items() if line.ended is None}
                line = self._free.popitem()[0] if self._free else await self._made()
                replies = line.send(commands, timeout_s)
            except BaseException:
                self._places.release()
                raise
            replies.add_done_callback(partial(self._give_back, line))
            return await asyncio.shield(replies)

    def _give_back(self, line: Line, replies: "asyncio.Future[list[Any]]") -> None:
        self._places.release()
        if replies.exception() is None:  # also retrieved: the caller may have been cancelled
            self._free[line] = asyncio.get_running_loop().time()


class Node:
    """A server at ``where``, the library's arguments of a connection; ``ValueError`` if one of them is not known.

    A round trip takes ``timeout_s`` at most, including the wait for one of the ``connections_max`` of the pool.
    """

    def __init__(self, where: Mapping[str, Any], timeout_s: float, connections_max: int) -> None:
        kind = where.get("connection_class", Connection)
        options = {name: value for name, value in where.items() if name != "connection_class"}
        self._where: Callable[[], AbstractConnection] = partial(kind, **options)
        try:
            self._where()
        except (TypeError, AttributeError, RedisError):
            raise ValueError("the store's URL has an unknown option, or an invalid value for an option") from None
        self._timeout_s = timeout_s
        self._lines: WeakSet[Line] = WeakSet()
        self._quick: Line | None = None
        self._connecting = asyncio.Lock()
        self._pool, self._large = Pool(self._made, connections_max), Pool(self._made, LARGE_CONNECTIONS_MAX)
        self._closed, self._renewed = False, -math.inf

    def check_tls(self) -> None:
        """``ValueError`` if certificates, keys or other options of TLS, if any, cannot be used."""
        if not isinstance(where := self._where(), SSLConnection):
            return
        tls = where.ssl_context
        files = {"ssl_ca_certs": tls.ca_certs, "ssl_certfile": tls.certfile, "ssl_keyfile": tls.keyfile}
        for option, path in files.items():
            try:
                Path(path or os.devnull).read_bytes()
            except OSError as error:
                raise ValueError(f"the store's URL: {option}: {error.strerror}") from None
        try:
            tls.get()
        except (OSError, TypeError, ValueError) as error:  # also SSLError
            wrong = "a wrong or missing ssl_password or ssl_keyfile, or an invalid value, for example of ssl_ciphers"
            if tls.keyfile and not tls.certfile:
                wrong = "ssl_keyfile needs ssl_certfile"
            why = getattr(error, "reason", None) or wrong
            raise ValueError(f"the store's URL: its TLS options cannot be used: {why}") from None

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands in one round trip; errors that the server answers are returned as values.

        After a ConnectionError, TimeoutError or OSError it is not known which commands were carried out; RedisError:
        the server refuses all.
        """
        return await self._pool.call(commands, self._timeout_s)

    async def send_large(self, commands: Sequence[Command], size: int) -> list[Any]:
        """``send`` of commands that carry, or ask for, ``size`` bytes: with time for them, apart from others."""
        return await self._large.call(commands, self._timeout_s + size / LARGE_BYTES_PER_S)

    def send_quick(self, commands: Sequence[Command]) -> Awaitable[list[Any]]:
        """``send`` over the lean connection, which any number of calls share."""
        line = self._quick
        if line is None or line.ended is not None:
            return self._reconnect_and_send(commands)
        return line.send(commands, self._timeout_s)

    async def _reconnect_and_send(self, commands: Sequence[Command]) -> list[Any]:
        async with asyncio.timeout(self._timeout_s), self._connecting:
            if self._quick is None or self._quick.ended is not None:
                self._quick = await self._made()
            line = self._quick
        return await line.send(commands, self._timeout_s)

    async def subscriber(self, hear: Callable[[Any], None]) -> Line:
        """A separate connection for published messages; see ``Line.hear``."""
        async with asyncio.timeout(self._timeout_s):
            line = await self._made()
        line.hear = hear
        return line

    async def _made(self) -> Line:
        if self._closed:
            raise ConnectionError("closed")
        line = await connect(self._where(), self._timeout_s)
        self._lines.add(line)
        return line

    def renew(self) -> None:
        """Replace all connections, at most once in RENEW_S: the server is no longer a primary, and its address may now
        lead to another one.
        """
        if (now := asyncio.get_running_loop().time()) >= self._renewed + RENEW_S:
            self._renewed = now
            for line in [*self._lines]:
                line.retire(ConnectionError("the server is not a primary"))

    def close(self) -> None:
        """Close every connection; waiting calls fail."""
        self._closed = True
        for line in [*self._lines]:
            line.end(ConnectionError("closed"))
