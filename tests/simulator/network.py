"""The connection between one process and the store, and everything that goes wrong on it."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from redis import exceptions

from service.errors import StoreDown
from service.store.redis.connection import Call, Safety
from service.store.redis.redis_errors import unavailable
from tests.simulator.lua_store import LuaStore

TIMEOUT_S = 0.2
"""The service's timeout for the store."""


@dataclass(eq=False)
class Trip:
    """One pipeline on the connection for rows: its calls, their replies if there were any, and its time by the loop."""

    calls: Sequence[Call]
    begin: float
    end: float | None = None
    replies: list[Any] | None = None


@dataclass
class Weather:
    """The probability of each fault of a round trip; ``notice``: of losing a notice of an append."""

    lost_request: float = 0.0
    lost_reply: float = 0.0
    late: float = 0.0
    twice: float = 0.0
    slow: float = 0.0
    notice: float = 0.0

    @classmethod
    def drawn(cls, draw: random.Random) -> "Weather":
        """Draw often fair weather, sometimes one fault, sometimes all."""
        if draw.random() < 0.2:
            return cls()
        worst = draw.choice((0.02, 0.1, 0.3))
        return cls(*(worst * draw.choice((0, 0, 0.5, 1)) for _ in range(5)), draw.choice((0, 0, 0.3, 1)))


class World:
    """One store, its clock, its subscribers, and the weather between it and all processes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, draw: random.Random, weather: Weather) -> None:
        self.loop, self.draw, self.weather = loop, draw, weather
        self.store = LuaStore(lambda: 10**12 + int(1000 * loop.time()), self._publish, self._listening)
        self.lines: list[Line] = []
        self.up = True

    def _listening(self, channel: str) -> int:
        return sum(channel in line.channels for line in self.lines)

    def _publish(self, channel: str, text: bytes) -> None:
        for line in self.lines:
            if channel in line.channels and self.draw.random() >= self.weather.notice:
                self.loop.call_later(self.draw.uniform(0, 0.005), line.receive, [b"message", channel.encode(), text])


class Way:
    """Replaces service.store.redis.connection.Connection for one process.

    ``dead``: the process has crashed, so that nothing reaches or leaves it; ``trips``: the pipelines with rows so far.
    """

    def __init__(self, world: World, heard: Callable[[Call, Any], None] = lambda _call, _reply: None) -> None:
        self._world, self.heard = world, heard
        self.dead = False
        self.trips: list[Trip] = []

    full = False

    def node_key(self, key: str) -> str:
        return ""

    async def run(
        self, calls: Sequence[Call], *, quick: bool = False, safety: Safety | None = None, large_bytes: int = 0
    ) -> list[Any]:
        trip = Trip(calls, self._world.loop.time())
        if quick:
            self.trips.append(trip)
        try:
            trip.replies = await self.every(calls)
        except StoreDown as down:
            return [down] * len(calls)
        finally:
            trip.end = self._world.loop.time()
        return trip.replies

    async def listeners(self, channels: Sequence[str]) -> list[int]:
        lines = self._world.lines
        return await self._trip(lambda: [sum(channel in line.channels for line in lines) for channel in channels])

    async def one(self, call: Call) -> Any:
        return (await self.every([call]))[0]

    async def every(self, calls: Sequence[Call]) -> list[Any]:
        replies = await self._trip(lambda: [self._world.store.call(call) for call in calls])
        for call, reply in zip(calls, replies, strict=True):
            self.heard(call, reply)
        return replies

    async def ask(self, *commands: Sequence[Any]) -> list[Any]:
        return await self._trip(lambda: [self._world.store.command(command) for command in commands])

    async def ping(self) -> None:
        await self.ask(("PING",))

    async def durability(self) -> str:
        return "always"

    async def eviction_ok(self) -> bool:
        return True

    async def subscriber(self, hear: Callable[[Any], None]) -> "Line":
        await self._trip(list)
        line = Line(self._world, hear)
        self._world.lines.append(line)
        return line

    async def close(self) -> None:
        self.dead = True

    async def _trip(self, execute: Callable[[], list[Any]]) -> list[Any]:
        """Make a round trip, or lose it on the way."""
        world, weather, draw = self._world, self._world.weather, self._world.draw
        if self.dead:
            await world.loop.create_future()
        chance, there = draw.random(), draw.uniform(0.0002, 0.002)
        if not world.up or (chance := chance - weather.lost_request) < 0:
            await self._nothing(TIMEOUT_S)
        if (chance := chance - weather.late) < 0:  # a packet from the past: carried out after its sender has given up
            world.loop.call_later(draw.uniform(0.5, 4) * TIMEOUT_S, execute)
            await self._nothing(TIMEOUT_S)
        await asyncio.sleep(there)
        if self.dead and draw.random() < 0.5:
            await world.loop.create_future()
        replies = execute()
        if (chance := chance - weather.twice) < 0:
            world.loop.call_later(draw.uniform(0, 3) * TIMEOUT_S, execute)
        if (chance := chance - weather.lost_reply) < 0:
            await self._nothing(TIMEOUT_S - there)
        if chance - weather.slow < 0:
            await asyncio.sleep(draw.uniform(0, TIMEOUT_S / 2))
        await asyncio.sleep(draw.uniform(0.0002, 0.002))
        if self.dead:
            await world.loop.create_future()
        return replies

    async def _nothing(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        if self.dead:
            await self._world.loop.create_future()
        raise unavailable(exceptions.TimeoutError("no reply in time")) or AssertionError


class Line:
    """A connection for notices."""

    def __init__(self, world: World, hear: Callable[[Any], None]) -> None:
        self._world, self._hear = world, hear
        self.channels: set[str] = set()

    def tell(self, command: tuple[str, ...]) -> None:
        verb, *channels = command
        if verb == "PING":
            self.receive([b"pong", b""])
        for channel in channels:
            (self.channels.add if verb == "SUBSCRIBE" else self.channels.discard)(channel)
            self.receive([verb.lower().encode(), channel.encode(), len(self.channels)])

    def receive(self, message: Any) -> None:
        self._world.loop.call_soon(self._hear, message)

    def cut(self) -> None:
        self.channels.clear()
        self.receive(ConnectionError("cut"))

    def end(self, _: Exception) -> None:
        if self in self._world.lines:
            self._world.lines.remove(self)
