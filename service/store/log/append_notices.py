"""Notices of appends: a published message for each, received over one connection per process.

None is sent if the appending process is the only listener.

A notice may be lost, if the connection breaks or before the subscription. So the caller learns of every new
subscription and compares that model's head itself; in addition a slow sweep compares the heads of all models.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from service.errors import StoreDown, StoreFull
from service.store.keys import ModelKeys
from service.store.redis.connection import Connection
from service.store.redis.node import Line
from service.store.redis.redis_errors import translated, unavailable

QUIET_S = 2.0  # a connection that has been silent for this long is pinged
CHANNELS_MAX = 500  # most channels in one command
_PREFIX, _SUFFIX = ModelKeys("|", "").notices.encode().split(b"|")


class AppendNotice(NamedTuple):
    """A new entry of the log of ``name``; ``version`` None: this incarnation was deleted."""

    name: str
    incarnation: str
    version: int | None = None
    uid: str = ""


class AppendNotices:
    """The channels of the models that a process holds; skips its own appends, whose uids begin with ``writer``.

    Attributes:
        subscribed: the models whose notices this process gets; None in a cluster, whose nodes only know their own
            subscribers. If a broken connection is still counted, another process may miss a notice: its sweep finds
            the entry.
    """

    def __init__(self, connection: Connection, writer: str) -> None:
        self._connection, self._own = connection, f" {writer}.".encode()
        self._wanted: set[str] = set()
        self._asked: set[str] = set()
        self._subscribed: set[str] = set()
        self.subscribed = self._subscribed if connection.node_key("") == "" else None
        self._changed = asyncio.Event()
        self.hearing = False  # whether the connection is subscribed
        self.heard = 0  # messages so far, subscriptions among them

    def want(self, name: str) -> None:
        """Subscribe to a model."""
        self._wanted.add(name)
        self._changed.set()

    def drop(self, name: str) -> None:
        """Unsubscribe from a model."""
        self._wanted.discard(name)
        self._subscribed.discard(name)
        self._changed.set()

    async def held(self, names: Sequence[str]) -> set[str]:
        """The models that some process, this one included, has subscribed to: every process that holds a model has.

        ``StoreDown`` or ``StoreFull`` if the store did not answer.
        """
        counts = await self._connection.listeners([ModelKeys(name, "").notices for name in names])
        return {name for name, count in zip(names, counts, strict=True) if count}

    async def listen(self, heard: Callable[[AppendNotice], None], begun: Callable[[str], None]) -> None:
        """Pass on every notice until the connection breaks, which raises ``StoreDown`` or ``StoreFull``.

        ``begun`` is called with the name of each model whose channel has just been subscribed.
        """
        loop = asyncio.get_running_loop()
        failure: asyncio.Future[Exception] = loop.create_future()
        failure.add_done_callback(lambda _: self._changed.set())
        line = await self._connection.subscriber(partial(self._hear, heard, begun, failure))
        self._asked.clear()
        self._changed.set()
        count, since, pinged = self.heard, loop.time(), False
        try:
            while not failure.done():
                with suppress(TimeoutError):
                    async with asyncio.timeout(QUIET_S):
                        await self._changed.wait()
                self._ask(line)
                if self.heard > count:
                    count, since, pinged = self.heard, loop.time(), False
                elif loop.time() >= since + QUIET_S:
                    if pinged:
                        raise StoreDown("the store did not answer in time")
                    line.tell(("PING",))
                    since, pinged = loop.time(), True
        finally:
            self.hearing = False
            self._subscribed.clear()
            line.end(ConnectionError("closed"))
        raise translated(failure.result())

    def _hear(
        self,
        heard: Callable[[AppendNotice], None],
        begun: Callable[[str], None],
        failure: "asyncio.Future[Exception]",
        message: Any,
    ) -> None:
        """Handle a message of the connection, or the error that ends it."""
        self.heard += 1
        if isinstance(message, Exception):
            # A store that cannot write to its disk refuses the ping but still publishes.
            if not isinstance(unavailable(message), StoreFull) and not failure.done():
                self._subscribed.clear()
                failure.set_result(message)
        elif message[0] == b"message" and self._own not in message[2]:
            heard(_notice(message[1], message[2]))
        elif message[0] == b"subscribe":
            self.hearing = True
            name = _name(message[1])
            if name in self._wanted:
                self._subscribed.add(name)
            begun(name)

    def _ask(self, line: Line) -> None:
        """Subscribe to the models that are wanted, and unsubscribe from the others."""
        self._changed.clear()
        new, old = self._wanted - self._asked, self._asked - self._wanted
        for verb, names in (("SUBSCRIBE", new), ("UNSUBSCRIBE", old)):
            for part in _parts([ModelKeys(name, "").notices for name in sorted(names)]):
                line.tell((verb, *part))
        self._asked = (self._asked | new) - old


def _parts(channels: list[str]) -> Iterable[list[str]]:
    return (channels[at : at + CHANNELS_MAX] for at in range(0, len(channels), CHANNELS_MAX))


def _name(channel: bytes) -> str:
    return channel.removeprefix(_PREFIX).removesuffix(_SUFFIX).decode()


def _notice(channel: bytes, text: bytes) -> AppendNotice:
    incarnation, *rest = text.decode().split(" ")
    if not rest:
        return AppendNotice(_name(channel), incarnation)
    return AppendNotice(_name(channel), incarnation, int(rest[0]), rest[1])
