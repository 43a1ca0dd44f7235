"""Wakes all followers of the drift stream in this process, clients of /drift/stream and webhooks, when it grows.

One reader waits for the stream to grow and wakes them; each reads on from its own position. So a slow follower needs
no buffer and does not delay the others. The number of client streams is limited, and one owner (an API key) has at most
half of them.
"""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

from service.errors import StoreDown, StreamsFull
from service.runtime.backoff import Backoff
from service.store.drift.events import StreamPosition

if TYPE_CHECKING:
    from service.store.drift.drift import DriftStream  # it imports kernels, which reading keys does not need

OWNER: ContextVar[str | None] = ContextVar("onepass_owner", default=None)
"""The name of the API key that the current request is authenticated by, if any."""
STREAMS_MAX = 100  # most client streams of a service
READ_MAX = 200  # events read in one round trip
BACKOFF_S, BACKOFF_S_MAX = 0.1, 2.0  # pause after a failure; it doubles up to the second


class EventSubscription:
    """One follower of the stream; ``over`` is set when it has to end."""

    def __init__(self) -> None:
        self._news, self.over = asyncio.Event(), asyncio.Event()

    def wake(self) -> None:
        """Report that the stream has grown."""
        self._news.set()

    def end(self) -> None:
        """Tell the follower to end."""
        self.over.set()
        self.wake()

    async def wait(self, most_s: float) -> bool:
        """Wait for news since the last call; False if none came within ``most_s`` seconds."""
        try:
            async with asyncio.timeout(most_s):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True


class Broadcast:
    """The reader and its followers."""

    def __init__(self, stream: "DriftStream") -> None:
        self._stream = stream
        self._followers: dict[EventSubscription, str | None] = {}  # client streams, with their owners
        self._own: set[EventSubscription] = set()
        self._stopping = False
        self.on_return: Callable[[], None] | None = None  # the store answers again; it may have lost its newest events

    @property
    def open(self) -> int:
        """How many client streams there are."""
        return len(self._followers)

    def follow(self) -> EventSubscription:
        """Follow for the service itself, as long as it runs."""
        self._own.add(following := EventSubscription())
        return following

    def subscribe(self) -> EventSubscription:
        """Open a client stream for the current owner, which ``leave`` ends; ``StreamsFull`` if there are too many, or
        on stop.
        """
        if self._stopping or self.open >= STREAMS_MAX:
            raise StreamsFull("the service is stopping" if self._stopping else "the maximum number of streams is open")
        owner = OWNER.get()
        if owner is not None and [*self._followers.values()].count(owner) >= max(1, STREAMS_MAX // 2):
            raise StreamsFull(f"key {owner} has the maximum number of streams open")
        subscription = EventSubscription()
        self._followers[subscription] = owner
        return subscription

    def leave(self, subscription: EventSubscription) -> None:
        """Remove a stream whose client is gone."""
        subscription.end()
        self._followers.pop(subscription, None)

    def stop(self) -> None:
        """End all client streams: a service that stops must not wait for connected clients."""
        self._stopping = True
        for subscription in self._followers:
            subscription.end()

    async def run(self) -> None:
        """Read forever; the supervisor restarts it if it dies."""
        backoff = Backoff(BACKOFF_S, BACKOFF_S_MAX)
        reached: StreamPosition | None = None
        away = True  # until the first answer, also after this task died and was restarted
        while True:
            try:
                reached = reached or await self._stream.newest()
                found = await self._stream.news(reached, READ_MAX)
                backoff.reset()
            except StoreDown:
                away = True
                await backoff.wait()
                continue
            if away and self.on_return is not None:
                self.on_return()
            away = False
            if found:
                reached = found[-1].position
                for follower in (*self._followers, *self._own):
                    follower.wake()
