"""One connection for the calls that carry every row: commands in one write, replies in order, nothing else.

The client library spends more time on a pipeline than the server does (`python -m tests.benchmarks.service` shows it),
so the committer's round trips bypass it: hiredis, its packer and parser, on a plain asyncio transport. The
rules are those of connection.py: bounded in time, nothing is ever sent twice.

A connection whose reply did not come in time, or that broke, is closed, and everything that waits on it fails: replies
that come late must never be taken for those of a later call.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import hiredis
from redis import exceptions

Command = tuple[bytes | str | int, ...]
_NOTHING = object()
_NAMED: dict[str, type[exceptions.ResponseError]] = {
    "NOSCRIPT": exceptions.NoScriptError,
    "MOVED": exceptions.MovedError,
    "ASK": exceptions.AskError,
    "READONLY": exceptions.ReadOnlyError,
    "CLUSTERDOWN": exceptions.ClusterDownError,
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and what it wants to hear first.

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
            who = () if self.username is None else (self.username,)
            commands.append(("AUTH", *who, self.password))
        if self.db:
            commands.append(("SELECT", self.db))
        return commands


class Channel:
    """Sends commands over one connection, made on demand and made anew after a failure.

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
        return await line.call(commands, self._timeout_s)

    async def subscription(self) -> "Subscription":
        """A connection of its own for what the server says unasked.

        Raises:
            ConnectionError, TimeoutError, OSError: it cannot be made.
            RedisError: the server refuses it.
        """
        async with asyncio.timeout(self._timeout_s):
            return Subscription(await self._made())

    def close(self) -> None:
        """Close the connection; what waits on it fails."""
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
            await self._greet(line)
        except BaseException:  # cancelled by the time limit as well: a line that nobody will use is closed
            line.end(ConnectionError("not let in"))
            raise
        return line

    async def _greet(self, line: "_Line") -> None:
        greeting = self._address.greeting()
        for reply in await line.call(greeting, self._timeout_s) if greeting else ():
            if isinstance(reply, Exception):
                raise reply


class Subscription:
    """A connection that is subscribed to something; the library's, as far as it is needed, at a tenth of the cost."""

    def __init__(self, line: "_Line") -> None:
        self._line = line
        self._said: deque[Any] = deque()
        self._new = asyncio.Event()
        line.hear = self._hear

    def _hear(self, said: Any) -> None:
        self._said.append(said)
        self._new.set()

    async def send_command(self, *words: str) -> None:
        """Send a command; what it is answered is read like everything else."""
        self._line.write(words)

    async def read_response(self, timeout: float, *, disconnect_on_error: bool) -> Any:  # noqa: ARG002, ASYNC109
        """What the server says next, or None where it says nothing for so long.

        Raises:
            ConnectionError, OSError, RedisError: the connection broke, or the server refuses what was asked.
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
    """One connection: who waits for how many replies, first come first served."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader(replyError=_error, notEnoughData=_NOTHING)
        self._waiting: deque[tuple[asyncio.Future[list[Any]], int]] = deque()
        self._replies: list[Any] = []
        self._transport: asyncio.Transport | None = None
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
        future, count = self._waiting[0]
        if len(self._replies) == count:
            self._waiting.popleft()
            replies, self._replies = self._replies, []
            if not future.done():
                future.set_result(replies)

    def connection_lost(self, error: Exception | None) -> None:
        self.end(error or ConnectionError("connection lost"))

    def end(self, error: Exception) -> None:
        """Close, and let everything that waits fail."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()
        if self.hear is not None:
            self.hear(error)
        while self._waiting:
            future, _ = self._waiting.popleft()
            if not future.done():
                future.set_exception(error)

    def write(self, command: Command) -> None:
        """Send a command whose replies nobody waits for one by one."""
        if self.closed or self._transport is None:
            raise ConnectionError("connection lost")
        self._transport.write(hiredis.pack_command(command))  # type: ignore[arg-type]  # as in call

    async def call(self, commands: Sequence[Command], timeout_s: float) -> list[Any]:
        if self.closed or self._transport is None:
            raise ConnectionError("connection lost")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Any]] = loop.create_future()
        self._waiting.append((future, len(commands)))
        late = loop.call_later(timeout_s, self.end, TimeoutError("no reply in time"))
        # The stub of pack_command knows tuples of one item only.
        self._transport.write(b"".join([hiredis.pack_command(command) for command in commands]))  # type: ignore[arg-type]
        try:
            return await future
        finally:
            late.cancel()


def _error(text: str) -> exceptions.ResponseError:
    """A server's error as the client library would raise it, as far as the difference matters."""
    word, _, rest = text.partition(" ")
    if word in _NAMED:
        return _NAMED[word](rest)
    return exceptions.ResponseError(text)
