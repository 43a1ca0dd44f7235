"""One server: a bounded pool of the client library's connections, a few more for large calls, and a lean connection for
the calls that carry rows.

The client library spends more time on a pipeline than the server does, so the committer's round trips bypass it:
hiredis, its packer and parser, on a plain asyncio transport. On both ways every round trip is bounded in time and
nothing is ever sent twice.

A round trip through the pool is a task of its own. A request that is cancelled in the middle of it leaves it to finish:
cut off, it would cost the connection, and sometimes the place in the pool as well. A lean connection whose reply did
not come in time, or that broke, is closed, and all calls that wait on it fail: a late reply must never be taken for
that of a later call.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import hiredis
from redis import exceptions
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

Command = tuple[bytes | str | int, ...]
LARGE_CONNECTIONS_MAX = 4
"""Connections for large calls: apart from the pool, which they would otherwise fill while others wait for a place."""
LARGE_BYTES_PER_S = 4 * 2**20
"""The rate that a large call is given time for, on top of the timeout."""
_NOTHING = object()
_NAMED: dict[str, type[exceptions.ResponseError]] = {
    "NOSCRIPT": exceptions.NoScriptError,
    "MOVED": exceptions.MovedError,
    "ASK": exceptions.AskError,
    "READONLY": exceptions.ReadOnlyError,
    "CLUSTERDOWN": exceptions.ClusterDownError,
}


class Node:
    """A server.

    Args:
        where: the library's arguments of a connection: host and port, or path, credentials, certificates.
        timeout_s: the most a round trip may take, with waiting for a free connection and connecting.
        connections_max: size of the pool.

    Attributes:
        send_quick: ``send`` over the lean connection; through the pool where the server has none.

    Raises:
        ValueError: an argument is not known.
    """

    def __init__(self, where: Mapping[str, Any], timeout_s: float, connections_max: int) -> None:
        self._pool = _pool(where, timeout_s, connections_max)
        self._large_pool = _pool(where, timeout_s, LARGE_CONNECTIONS_MAX, {"timeout": None, "socket_timeout": None})
        self._timeout_s = timeout_s
        address = _address(where)
        self._channel = None if address is None else Channel(address, timeout_s)
        self.send_quick: Callable[[Sequence[Command]], Awaitable[list[Any]]] = (
            self.send if self._channel is None else self._channel.call
        )
        self._under_way: set[asyncio.Task[list[Any]]] = set()
        self.client: Redis = Redis(connection_pool=self._pool)
        self._large_client: Redis = Redis(connection_pool=self._large_pool)
        try:
            self._pool.make_connection()  # type: ignore[no-untyped-call]  # does not connect: it only checks the options
        except TypeError:
            raise ValueError("the store's URL holds an option that is not known") from None

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands in one round trip; errors that the server answers come as values.

        Raises:
            RedisError, OSError: it is not known which of them were carried out.
        """
        return await self._sent(self.client, commands, self._timeout_s)

    async def send_large(self, commands: Sequence[Command], size: int) -> list[Any]:
        """``send`` of commands that carry, or ask for, ``size`` bytes: with time for them, and over connections that
        nothing else waits for.

        Raises:
            RedisError, OSError: it is not known which of them were carried out.
        """
        return await self._sent(self._large_client, commands, self._timeout_s + size / LARGE_BYTES_PER_S)

    async def _sent(self, client: Redis, commands: Sequence[Command], timeout_s: float) -> list[Any]:
        task = asyncio.create_task(_executed(client, commands, timeout_s))
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        done, _ = await asyncio.wait({task}, timeout=timeout_s)
        if not done:
            task.cancel()
            raise TimeoutError
        return task.result()

    async def subscriber(self, ignored: bytes) -> "AbstractConnection | Subscription":
        """A connection of its own for published messages; the caller reads it and disconnects it.

        Args:
            ignored: messages that contain these bytes may be left out.

        Raises:
            RedisError, OSError: it cannot be made.
        """
        if self._channel is not None:
            return await self._channel.subscription(ignored)
        made: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        await made.connect()  # type: ignore[no-untyped-call]
        return made

    async def close(self) -> None:
        """Give up what is under way and close every connection."""
        if self._channel is not None:
            self._channel.close()
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        for client, pool in ((self.client, self._pool), (self._large_client, self._large_pool)):
            await client.aclose()
            await pool.aclose()

    def _ended(self, task: "asyncio.Task[list[Any]]") -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, since nobody may be waiting any more


def _pool(
    where: Mapping[str, Any], timeout_s: float, connections_max: int, more: Mapping[str, Any] | None = None
) -> BlockingConnectionPool:
    return BlockingConnectionPool(
        **{
            **where,
            "timeout": timeout_s,
            "max_connections": connections_max,
            "socket_timeout": timeout_s,
            "socket_connect_timeout": timeout_s,
            "retry": Retry(NoBackoff(), 0),
            "retry_on_timeout": False,
            "retry_on_error": [],
            "health_check_interval": 0,
            "decode_responses": False,
            "protocol": 2,  # 3 adds a handshake per connection and nothing that is used here
            **(more or {}),
        }
    )


async def _executed(client: Redis, commands: Sequence[Command], timeout_s: float) -> list[Any]:
    """The results of a pipeline; a task that goes on without its caller ends at the same time."""
    try:
        async with asyncio.timeout(timeout_s), client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            results: list[Any] = await pipeline.execute(raise_on_error=False)
    except RuntimeError as error:  # uvloop's, for writing to a connection that the server has closed meanwhile
        raise ConnectionResetError from error
    return results


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and how to log in.

    Attributes:
        path: of a Unix socket, or None.
        host, port: where there is no path.
        username, password: None where none is wanted.
        db: number of the database.
    """

    path: str | None
    host: str
    port: int
    username: str | None
    password: str | None
    db: int

    def greeting(self) -> list[Command]:
        """Commands that every new connection begins with."""
        commands: list[Command] = []
        if self.password is not None:
            user = () if self.username is None else (self.username,)
            commands.append(("AUTH", *user, self.password))
        if self.db:
            commands.append(("SELECT", self.db))
        return commands


def _address(where: Mapping[str, Any]) -> Address | None:
    """The address for lean connections; None where TLS or options of the URL are the library's to handle."""
    known = {"path", "host", "port", "username", "password", "db", "connection_class"}
    if not where.keys() <= known or "SSL" in getattr(where.get("connection_class"), "__name__", ""):
        return None
    return Address(
        path=where.get("path"),
        host=where.get("host", "localhost"),
        port=int(where.get("port", 6379)),
        username=where.get("username"),
        password=where.get("password"),
        db=int(where.get("db", 0)),
    )


class Channel:
    """The lean connection to one server, made on demand, and again after a failure.

    Args:
        address: where to connect.
        timeout_s: the most a call may take, with connecting.
    """

    def __init__(self, address: Address, timeout_s: float) -> None:
        self._address, self._timeout_s = address, timeout_s
        self._line: _Line | None = None
        self._connecting = asyncio.Lock()

    async def call(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands in one write and return their replies, errors among them as values.

        Raises:
            ConnectionError, TimeoutError, OSError: it is not known which of them were carried out.
            RedisError: the server refuses the connection.
        """
        line = self._line
        if line is None or line.closed:
            async with asyncio.timeout(self._timeout_s), self._connecting:
                line = await self._connected()
        return await line.send(commands, self._timeout_s)

    async def subscription(self, ignored: bytes) -> "Subscription":
        """A connection of its own for published messages; those that contain ``ignored`` are left out.

        Raises:
            ConnectionError, TimeoutError, OSError: it cannot be made.
            RedisError: the server refuses it.
        """
        async with asyncio.timeout(self._timeout_s):
            return Subscription(await self._made(), ignored)

    def close(self) -> None:
        """Close the connection; calls that wait on it fail."""
        if self._line is not None:
            self._line.end(ConnectionError("closed"))

    async def _connected(self) -> "_Line":
        if self._line is None or self._line.closed:
            self._line = await self._made()
        return self._line

    async def _made(self) -> "_Line":
        loop = asyncio.get_running_loop()
        if self._address.path is not None:
            _, line = await loop.create_unix_connection(_Line, self._address.path)
        else:
            _, line = await loop.create_connection(_Line, self._address.host, self._address.port)
        try:
            greeting = self._address.greeting()
            for reply in await line.send(greeting, self._timeout_s) if greeting else ():
                if isinstance(reply, Exception):
                    raise reply
        except BaseException:  # cancelled by the time limit as well: a line that nobody will use is closed
            line.end(ConnectionError("not let in"))
            raise
        return line


class Subscription:
    """A subscribed connection with the methods of the library's that are needed here, at a tenth of the cost."""

    def __init__(self, line: "_Line", ignored: bytes) -> None:
        self._line, self._ignored = line, ignored
        self._said: deque[Any] = deque()
        self._new = asyncio.Event()
        line.hear = self._hear

    def _hear(self, said: Any) -> None:
        if type(said) is list and said[0] == b"message" and self._ignored in said[2]:
            return
        self._said.append(said)
        self._new.set()

    async def send_command(self, *words: str) -> None:
        """Send a command; its reply is read like every message."""
        self._line.write(words)

    async def read_response(self, timeout: float, *, disconnect_on_error: bool) -> Any:  # noqa: ARG002, ASYNC109
        """The next message or reply, or None where none comes within ``timeout`` seconds.

        Raises:
            ConnectionError, OSError, RedisError: the connection broke, or the server refused a command.
        """
        if not self._said:
            self._new.clear()
            try:
                async with asyncio.timeout(timeout):
                    await self._new.wait()
            except TimeoutError:
                return None
        said = self._said.popleft()
        if isinstance(said, Exception):
            raise said
        return said

    async def disconnect(self, *, nowait: bool) -> None:  # noqa: ARG002  the library's argument
        """Close the connection."""
        self._line.end(ConnectionError("closed"))


class _Line(asyncio.Protocol):
    """One connection: replies go to the waiting calls in order."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader(replyError=_error, notEnoughData=_NOTHING)
        self._waiting: deque[tuple[asyncio.Future[list[Any]], int, asyncio.TimerHandle]] = deque()
        self._replies: list[Any] = []
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self.hear: Callable[[Any], None] | None = None
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has the methods, not the base class

    def data_received(self, data: bytes) -> None:
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
        if not self._waiting:
            self.end(ConnectionError("a reply nobody asked for"))
            return
        self._replies.append(reply)
        future, count, late = self._waiting[0]
        if len(self._replies) == count:
            self._waiting.popleft()
            late.cancel()
            replies, self._replies = self._replies, []
            if not future.done():
                future.set_result(replies)

    def connection_lost(self, error: Exception | None) -> None:
        self.end(error or ConnectionError("connection lost"))

    def end(self, error: Exception) -> None:
        """Close, and fail all calls that wait."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()
        if self.hear is not None:
            self.hear(error)
        while self._waiting:
            future, _, late = self._waiting.popleft()
            late.cancel()
            if not future.done():
                future.set_exception(error)

    def write(self, command: Command) -> None:
        """Send a command whose replies are read elsewhere."""
        if self.closed or self._transport is None:
            raise ConnectionError("connection lost")
        self._transport.write(hiredis.pack_command(command))  # type: ignore[arg-type]  # as in call

    def send(self, commands: Sequence[Command], timeout_s: float) -> "asyncio.Future[list[Any]]":
        """Send commands; the replies have to come within ``timeout_s``, or the connection ends."""
        if self.closed or self._transport is None:
            raise ConnectionError("connection lost")
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        late = self._loop.call_later(timeout_s, self.end, TimeoutError("no reply in time"))
        self._waiting.append((future, len(commands), late))
        # The stub of pack_command knows tuples of one item only.
        self._transport.write(b"".join(map(hiredis.pack_command, commands)))  # type: ignore[arg-type]
        return future


def _error(text: str) -> exceptions.ResponseError:
    """A server's error as the client library would raise it, as far as the difference matters."""
    word, _, rest = text.partition(" ")
    if word in _NAMED:
        return _NAMED[word](rest)
    return exceptions.ResponseError(text)
