"""One server: a lean connection for the calls that carry rows, a pool for the others, a few more for large calls."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import WeakSet

from redis.asyncio.connection import AbstractConnection, Connection

from service.store.redis.line import Command, Line, connect

LARGE_CONNECTIONS_MAX = 4
"""Connections for large calls: apart from the pool, which they would otherwise fill while others wait for a place."""
LARGE_BYTES_PER_S = 4 * 2**20  # the rate that a large call is given time for, on top of the timeout


class Pool:
    """At most so many connections, which carry one call each at a time."""

    def __init__(self, made: Callable[[], Awaitable[Line]], most: int) -> None:
        self._made, self._places = made, asyncio.Semaphore(most)
        self._free: list[Line] = []

    async def call(self, commands: Sequence[Command], timeout_s: float) -> list[Any]:
        """Send commands and return their replies, in ``timeout_s`` at most with waiting for a connection.

        A caller that is cancelled leaves the connection taken until the replies have come.
        """
        async with asyncio.timeout(timeout_s):
            await self._places.acquire()
            try:
                self._free = [line for line in self._free if line.ended is None]
                line = self._free.pop() if self._free else await self._made()
                replies = line.send(commands, timeout_s)
            except BaseException:
                self._places.release()
                raise
            replies.add_done_callback(partial(self._give_back, line))
            return await asyncio.shield(replies)

    def _give_back(self, line: Line, replies: "asyncio.Future[list[Any]]") -> None:
        self._places.release()
        if replies.exception() is None:  # also retrieved: the caller may have been cancelled
            self._free.append(line)


class Node:
    """A server.

    Args:
        where: the library's arguments of a connection: host and port, or path, credentials, certificates.
        timeout_s: the most a round trip may take, with waiting for a free connection and connecting.
        connections_max: size of the pool.

    Raises:
        ValueError: an argument is not known.
    """

    def __init__(self, where: Mapping[str, Any], timeout_s: float, connections_max: int) -> None:
        kind = where.get("connection_class", Connection)
        options = {name: value for name, value in where.items() if name != "connection_class"}
        self._where: Callable[[], AbstractConnection] = partial(kind, **options)
        try:
            self._where()
        except TypeError:
            raise ValueError("the store's URL has an unknown option") from None
        self._timeout_s = timeout_s
        self._lines: WeakSet[Line] = WeakSet()
        self._quick: Line | None = None
        self._connecting = asyncio.Lock()
        self._pool, self._large = Pool(self._made, connections_max), Pool(self._made, LARGE_CONNECTIONS_MAX)
        self._closed = False

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands in one round trip; errors that the server answers come as values.

        Raises:
            ConnectionError, TimeoutError, OSError: it is not known which of them were carried out.
            RedisError: the server refuses the connection.
        """
        return await self._pool.call(commands, self._timeout_s)

    async def send_large(self, commands: Sequence[Command], size: int) -> list[Any]:
        """``send`` of commands that carry, or ask for, ``size`` bytes: with time for them, apart from other calls."""
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
        """A connection of its own for published messages; see ``Line.hear``."""
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

    def close(self) -> None:
        """Close every connection; calls that wait fail."""
        self._closed = True
        for line in [*self._lines]:
            line.end(ConnectionError("closed"))
