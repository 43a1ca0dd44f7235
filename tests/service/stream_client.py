"""A client of a stream of rows over a socket, which sends and reads when it is told to; and the server it talks to."""

import asyncio
import contextlib
import json
from collections.abc import Iterable
from typing import Any

from tests.service.local_server import LocalServer, running

WAIT_S = 20.0


def lines_of(rows: Iterable[Any]) -> bytes:
    """Rows as lines of JSON."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


class StreamClient:
    """One stream, open.

    Attributes:
        head: status line and headers of the answer, once they were read.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.head = b""
        self._left = b""
        self.over = False

    async def open(self, path: str, headers: str = "", media_type: str = "application/x-ndjson") -> "StreamClient":
        """Send the head of the request, and read that of the answer."""
        self.writer.write(
            f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: {media_type}\r\n{headers}"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        self.head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), WAIT_S)
        return self

    @property
    def status(self) -> int:
        return int(self.head.split(b" ", 2)[1])

    def header(self, name: str) -> str:
        """A header of the answer."""
        lines = [line.partition(": ") for line in self.head.decode().split("\r\n")]
        return next(value for key, _, value in lines if key.lower() == name)

    async def send(self, data: bytes) -> None:
        """Send a part of the body, as a chunk of its own."""
        self.writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await asyncio.wait_for(self.writer.drain(), WAIT_S)

    async def end(self) -> None:
        """End the body."""
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def read(self) -> bytes | None:
        """The next chunk of the answer; None at its end."""
        size = int(await asyncio.wait_for(self.reader.readuntil(b"\r\n"), WAIT_S), 16)
        data = (await asyncio.wait_for(self.reader.readexactly(size + 2), WAIT_S))[:-2]
        self.over = size == 0
        return data or None

    async def line(self, blank: bool = False) -> Any:
        """The next line of the answer; None at its end, "" for a blank one where those are wanted."""
        while True:
            line, end, rest = self._left.partition(b"\n")
            if end:
                self._left = rest
                if line or blank:
                    return json.loads(line) if line else ""
            elif (chunk := await self.read()) is None:
                assert b"" == self._left
                return None
            else:
                self._left += chunk

    async def lines(self, count: int) -> list[Any]:
        """The next lines."""
        return [await self.line() for _ in range(count)]

    async def rest(self) -> list[Any]:
        """All lines up to the end."""
        found = []
        while (line := await self.line()) is not None:
            found.append(line)
        return found

    async def ask(self, rows: Iterable[Any]) -> list[Any]:
        """Send rows at once, and read as many answers."""
        sent = [*rows]
        await self.send(lines_of(sent))
        return await self.lines(len(sent))


class StreamServer(LocalServer):
    """A server whose streams are opened."""

    async def client(self, limit: int = 2**26) -> StreamClient:
        """A connection for one stream."""
        return StreamClient(*await self.connect(limit))

    async def stream(self, path: str, **how: Any) -> StreamClient:
        """A stream that is open."""
        return await (await self.client()).open(path, **how)


def serving(app: Any) -> contextlib.AbstractAsyncContextManager[StreamServer]:
    """A server of one app, which ends with the block."""
    return running(StreamServer(app))
