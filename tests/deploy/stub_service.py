"""A service as a balancer sees it: it returns its name and readiness, and records its requests."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Self

from tests.listening import listening


class StubService:
    """One server on its own port, which stays the same; with ``tls`` it speaks https. ``name`` is its answer.

    ``ready``: the answer of /readyz; ``cutting``: it reads requests and hangs up; ``asked``: method and path of all
    requests but /readyz; ``goes_on``: set to let an event stream send its second event.
    """

    def __init__(self, name: str, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.name, self.port, self.ready, self.cutting = name, 0, True, False
        self.asked: list[tuple[str, str]] = []
        self.goes_on = asyncio.Event()
        self._open = contextlib.AsyncExitStack()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Run it for a while."""
        try:
            yield await self.open()
        finally:
            await self.close()

    async def open(self) -> Self:
        self.port = await self._open.enter_async_context(listening(self._connected, self.port, self._tls))
        return self

    async def close(self) -> None:
        """End as if killed: the port is closed and connections are gone."""
        await self._open.aclose()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection stays open."""
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        method, path, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        if path == "/readyz":
            _write(writer, "200 OK" if self.ready else "503 Service Unavailable", b"{}")
            return True
        self.asked.append((method, path))
        chunked = headers.get("transfer-encoding") == "chunked"
        await _body(reader, chunked, int(headers.get("content-length", 0)))
        if self.cutting:
            return False
        if path == "/drift/stream":
            await self._events(writer)
        else:
            _write(writer, "200 OK", self.name.encode())
        return True

    async def _events(self, writer: asyncio.StreamWriter) -> None:
        writer.write(_HEAD + b"Content-Type: text/event-stream\r\n\r\n" + _chunk(b"one"))
        await writer.drain()
        await self.goes_on.wait()
        writer.write(_chunk(b"two") + _chunk(b""))


_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _write(writer: asyncio.StreamWriter, status: str, body: bytes) -> None:
    writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


async def _body(reader: asyncio.StreamReader, chunked: bool, length: int) -> None:
    if chunked:
        async for _ in _chunks(reader):
            pass
    else:
        await reader.readexactly(length)


async def _chunks(reader: asyncio.StreamReader):
    while size := int(await reader.readline(), 16):
        yield (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
