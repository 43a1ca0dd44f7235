"""A server of a test's own: when it ends, all its connections end, also one accepted in the last moment."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def ends(server: asyncio.Server) -> None:
    """Close a server once every connection that it has accepted is made.

    Closed between the two, it loses the connection without closing it (CPython's Server._attach). Three rounds of the
    event loop make it.
    """
    for listens in server.sockets:
        asyncio.get_running_loop().remove_reader(listens.fileno())
    for _ in range(3):
        await asyncio.sleep(0)
    server.close()


@asynccontextmanager
async def listening(talk: Talk, port: int = 0, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port where ``talk`` is run for every connection.

    A task cancelled before its first step never comes to its own ``finally``, so connections are closed here: one that
    is left open would fail whichever test runs when it is collected.
    """
    writers: list[asyncio.StreamWriter] = []
    tasks: list[asyncio.Future[None]] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        tasks.append(asyncio.ensure_future(talk(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", port, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await ends(server)
        for writer in writers:
            writer.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
