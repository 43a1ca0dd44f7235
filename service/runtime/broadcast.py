"""New drift events for the clients of this process: one reader of the service's stream, any number of listeners.

A listener has a bounded queue. One that does not keep up is dropped, neither waited for nor buffered without bound: its
client reconnects and resumes where it was, since the stream has everything it missed. One owner, a key of the API, has
at most half of the listeners there may be: the others are left to everybody else.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.errors import StoreDown, StreamsFull
from service.runtime.backoff import Backoff
from service.store.events import StoredEvent, StreamPosition

if TYPE_CHECKING:
    from service.store.drift import DriftStream  # it imports kernels, which those who read keys have no need of

logger = logging.getLogger(__name__)

OWNER: ContextVar[str | None] = ContextVar("onepass_owner", default=None)
"""Whose request is answered; None: nobody's in particular."""
STREAMS_MAX = 100
"""Most listeners of a service."""
QUEUE_MAX = 1000
"""Events that may wait for one listener."""
READ_MAX = 200
"""Events read in one round trip."""
BEGIN_S = 1.0
"""How long a listener waits for the reader's first read."""
BACKOFF_S, BACKOFF_S_MAX = 0.1, 2.0
"""Pause after a failure; it doubles up to the second."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Events after one position and before another that are no longer kept.

    Attributes:
        after: the last event that was seen, as the listener or its client knows it.
        first: the first one that is kept after it; None where none is.
        missed: how many are missing, of any model; None where that cannot be known.
    """

    after: str
    first: StreamPosition | None
    missed: int | None


class Listener:
    """The events that one client has not been sent yet.

    Args:
        wanted: whether a model's events are for it.
        start: the position after which every event passes through it.

    Attributes:
        over: set when it was dropped, or the service stops.
    """

    def __init__(self, wanted: Callable[[str], bool], start: StreamPosition) -> None:
        self.wanted, self.start = wanted, start
        self.over = asyncio.Event()
        self._queue: deque[StoredEvent | Gap] = deque()
        self._more = asyncio.Event()

    def put(self, item: StoredEvent | Gap) -> None:
        """Add an item; the listener ends where there is no room."""
        if isinstance(item, StoredEvent) and not self.wanted(item.model):
            return
        if len(self._queue) >= QUEUE_MAX:
            self.end()
            return
        self._queue.append(item)
        self._more.set()

    async def take(self, wait_s: float) -> StoredEvent | Gap | None:
        """The next item; None where none came within ``wait_s``, or the listener has ended."""
        if not self._queue:
            self._more.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await self._more.wait()
            except TimeoutError:
                return None
        return self._queue.popleft() if self._queue else None

    def end(self) -> None:
        """End the listener; nothing more will come."""
        self._queue.clear()
        self.over.set()
        self._more.set()


class Broadcast:
    """The reader and its listeners.

    Args:
        stream: what is read.

    Attributes:
        waiters: events that are set whenever something was read; each waiter clears its own.
    """

    def __init__(self, stream: "DriftStream") -> None:
        self._stream = stream
        self._listeners: dict[Listener, str | None] = {}  # with their owners
        self._stopping = False
        self._position: StreamPosition | None = None
        self._begun = asyncio.Event()
        self.waiters: set[asyncio.Event] = set()

    @property
    def open(self) -> int:
        """How many listeners there are."""
        return len(self._listeners)

    async def listen(self, wanted: Callable[[str], bool]) -> Listener:
        """A new listener; ``leave`` ends it.

        Raises:
            StreamsFull: there are as many as there may be, or the service stops.
            StoreDown: the stream could not be read yet.
        """
        await self._begin()
        self._check_room()
        if self._position is None:
            raise StoreDown("the store does not answer; there is nothing to stream yet")
        listener = Listener(wanted, self._position)
        self._listeners[listener] = OWNER.get()
        return listener

    def _check_room(self) -> None:
        if self._stopping or self.open >= STREAMS_MAX:
            raise StreamsFull("the service stops" if self._stopping else "as many streams are open as may be")
        owner = OWNER.get()
        if owner is not None and [*self._listeners.values()].count(owner) >= max(1, STREAMS_MAX // 2):
            raise StreamsFull(f"as many streams of key {owner} are open as one key may have")

    async def _begin(self) -> None:
        """Wait for the first read of a service that has just started."""
        try:
            async with asyncio.timeout(BEGIN_S):
                await self._begun.wait()
        except TimeoutError:
            return

    def leave(self, listener: Listener) -> None:
        """Remove a listener whose client is gone."""
        listener.end()
        self._listeners.pop(listener, None)

    def stop(self) -> None:
        """End all listeners: a service that stops must not wait for connected clients."""
        self._stopping = True
        for listener in self._listeners:
            listener.end()

    async def run(self) -> None:
        """Read for ever; the supervisor restarts it should it die, and it goes on where it was."""
        backoff = Backoff(BACKOFF_S, BACKOFF_S_MAX)
        while True:
            try:
                if self._position is None:
                    self._position = await self._stream.newest()
                    self._begun.set()
                self._tell(self._position, await self._stream.news(self._position, READ_MAX))
                backoff.reset()
            except StoreDown:
                await backoff.wait()

    def _tell(self, position: StreamPosition, found: list[StoredEvent]) -> None:
        if not found:
            return
        first = found[0].position
        if first.number > position.number + 1:
            gap = Gap(str(position), first, first.number - position.number - 1)
            for listener in self._listeners:
                listener.put(gap)
        for listener in self._listeners:
            for known in found:
                listener.put(known)
        self._position = found[-1].position
        for waiter in self.waiters:
            waiter.set()
