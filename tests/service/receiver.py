"""An HTTP server that takes webhooks: it keeps what it is sent and answers what it is told to."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, NamedTuple, Self

from tests.listening import listening


class Raw(NamedTuple):
    """Bytes to answer with, which need not be HTTP, and others that follow them without end."""

    first: bytes
    endless: bytes = b""


Behaviour = Callable[[int], int | str | Raw]
"""Number of the request, from 1, to the status to answer with; "silent" answers nothing, "slow" 204."""


class Posted(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """Listens on a free port; ``posted``: every request, in order."""

    def __init__(self, behave: Behaviour = lambda _: 204) -> None:
        self._behave = behave
        self.posted: list[Posted] = []
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self.port = await self._open.enter_async_context(listening(self._serve))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._open.aclose()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?token=s3cret-token"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        exact = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
        body = await reader.readexactly(int(headers["content-length"]))
        self.posted.append(Posted(head[0].split()[1], exact, body))
        does = self._behave(len(self.posted))
        if does == "silent":
            await asyncio.sleep(3600)
        if does == "slow":
            await asyncio.sleep(0.2)
            does = 204
        if isinstance(does, Raw):
            writer.write(does.first)
            while does.endless:
                writer.write(does.endless)
                await writer.drain()
                await asyncio.sleep(0.01)
            await writer.drain()
            return
        writer.write(f"HTTP/1.1 {does} X\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()

    async def got(self, count: int) -> list[Posted]:
        """Wait until it has been sent so many requests."""
        async with asyncio.timeout(30):
            while len(self.posted) < count:
                await asyncio.sleep(0.005)
        return self.posted
