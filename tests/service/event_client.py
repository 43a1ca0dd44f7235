"""A client of event streams without a server in between: it decides when to read, and when to leave."""

import asyncio
import json
from contextlib import asynccontextmanager
from typing import Any, Self

PATIENCE_S = 8.0


class Frame:
    """One event of a stream."""

    def __init__(self, text: str) -> None:
        fields = dict(line.split(": ", 1) for line in text.splitlines())
        self.event, self.id, self.data = fields["event"], fields.get("id"), json.loads(fields["data"])

    @property
    def value(self) -> float:
        """The first feature of the row that raised the event."""
        return self.data["features"][0]["after"]


class EventClient:
    """One open stream; ``reading`` is cleared while the client does not read.

    ``ended``: whether the service has ended the stream in good order.
    """

    def __init__(self, app: Any, path: str, headers: dict[str, str]) -> None:
        self._app, self._path, self._given = app, path, headers
        self._frames: asyncio.Queue[str] = asyncio.Queue()
        self._left, self._started = asyncio.Event(), asyncio.Event()
        self.reading = asyncio.Event()
        self.reading.set()
        self.ended = False
        self.status, self.headers = 0, {}
        self.body = b""
        self._rest = ""

    async def __aenter__(self) -> Self:
        path, _, query = self._path.partition("?")
        headers = [(name.lower().encode(), value.encode()) for name, value in self._given.items()]
        asked = {"method": "GET", "path": path, "raw_path": path.encode(), "query_string": query.encode()}
        there = {"scheme": "http", "root_path": "", "server": ("onepass", 80), "client": ("127.0.0.1", 1)}
        protocol = {"type": "http", "http_version": "1.1", "asgi": {"version": "3.0", "spec_version": "2.3"}}
        scope = {**protocol, **there, **asked, "headers": headers}
        self.task = asyncio.create_task(self._app(scope, self._receive, self._send))
        async with asyncio.timeout(PATIENCE_S):
            await self._started.wait()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._left.set()
        self.reading.set()
        async with asyncio.timeout(PATIENCE_S):
            await self.task

    async def _receive(self) -> dict[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            self._started.set()
            return
        await self.reading.wait()
        self.body += message["body"]
        self._rest += message["body"].decode()
        *frames, self._rest = self._rest.split("\n\n")
        for frame in frames:
            if not frame.startswith(":"):
                self._frames.put_nowait(frame)
        self.ended = not message.get("more_body", False)

    async def next(self) -> Frame:
        async with asyncio.timeout(PATIENCE_S):
            return Frame(await self._frames.get())

    async def values(self, count: int) -> list[float]:
        """The first features of the next ``count`` drift events."""
        return [(await self.next()).value for _ in range(count)]

    async def over(self) -> None:
        """Wait until the service has ended the stream."""
        async with asyncio.timeout(PATIENCE_S):
            await self.task


@asynccontextmanager
async def listening(api: Any, path: str = "/drift/stream", last: str | None = None, **headers: str):
    """An open stream of a service, from now on, or behind the id ``last``."""
    given = {**headers, **({} if last is None else {"Last-Event-ID": last})}
    async with EventClient(api.app, path, given) as client:
        assert 200 == client.status, client.body
        if last is None:
            client.start = await client.next()
            assert "start" == client.start.event
        yield client
