"""The service's own server around any app, on a free port of this machine, in the test's own loop."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import uvicorn
from uvicorn.server import ServerState

from service.server.http_protocol import Gate, bounded
from tests.listening import ends


class LocalServer:
    """One server: its port once it is ``running``, and the statuses of the answers that it gave itself."""

    tls: ssl.SSLContext | None = None
    """With it the server speaks https."""

    def __init__(self, app: Any, connections_max: int = 100) -> None:
        self.refused: list[int] = []
        self.gate = Gate(connections_max, self.refused.append)
        self.config, self.state = uvicorn.Config(app, log_config=None, access_log=False), ServerState()
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._protocols: list[Any] = []

    def protocol(self) -> asyncio.Protocol:
        self._protocols.append(bounded(self.gate)(config=self.config, server_state=self.state, app_state={}))
        return self._protocols[-1]

    async def connect(self, limit: int = 2**16) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection, closed with the server; ``limit``: bytes that are read ahead."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=limit)
        self._writers.append(writer)
        return reader, writer

    async def answer(self, sent: bytes) -> bytes:
        """Everything that comes back until the server closes."""
        reader, writer = await self.connect()
        writer.write(sent)
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        return answer

    async def close(self) -> None:
        """Close both ends of every connection."""
        for protocol in self._protocols:  # some linger, which the server does not count any more
            if protocol.transport is not None:
                protocol.transport.abort()
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in self._writers), return_exceptions=True)
        await asyncio.gather(*self.state.tasks, return_exceptions=True)


S = TypeVar("S", bound=LocalServer)


@contextlib.asynccontextmanager
async def running(made: S) -> AsyncIterator[S]:
    """A server that ends with the block."""
    server = await asyncio.get_running_loop().create_server(made.protocol, "127.0.0.1", 0, ssl=made.tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        await ends(server)
        await made.close()
