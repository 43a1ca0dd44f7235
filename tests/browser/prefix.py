"""A proxy that serves a service under a prefix and strips it: the service does not know the prefix."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tests.listening import listening

HEAD_MAX = 2**16


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(HEAD_MAX):
                writer.write(piece)
                await writer.drain()
    finally:
        writer.close()


@contextlib.asynccontextmanager
async def proxied(port: int, prefix: str) -> AsyncIterator[str]:
    """Run the proxy and yield its address.

    Args:
        port: the port of the service on this machine.
        prefix: with a leading slash and without a trailing one.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            return
        first, rest = head.split("\r\n", 1)
        method, path, version = first.split(" ")
        if not path.startswith(f"{prefix}/"):
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            writer.close()
            return
        lines = [line for line in rest.split("\r\n") if not line.lower().startswith("connection:")]
        there, back = await asyncio.open_connection("127.0.0.1", port)
        request = "\r\n".join([f"{method} {path.removeprefix(prefix)} {version}", "Connection: close", *lines])
        back.write(request.encode("latin-1"))
        await asyncio.gather(_pipe(reader, back), _pipe(there, writer))

    async with listening(serve) as listens:
        yield f"http://127.0.0.1:{listens}{prefix}"
