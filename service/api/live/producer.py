"""Makes documents as they change, and hands each to all streams that show it.

A producer begins with its first stream and ends with its last. It looks once a second, and makes what has changed:
each document is computed and encoded once, however many streams there are. All producers of a process together may
take a small share of its time; where that is not enough for one turn a second, they make their documents less often.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from time import perf_counter
from typing import NamedTuple

from fastapi.sse import format_sse_event

from service.api.event_stream import EventStream
from service.api.live.viewers import Viewer
from service.errors import ModelDown, NotFound, Recreated, Unavailable
from service.runtime.stream_places import StreamPlaces

logger = logging.getLogger(__name__)

TURN_S = 1.0
"""Least time between two documents of the same event."""
SHARE = 0.04
"""Of a process's time, for all producers together."""
PAUSE_S_MAX = 15.0
"""Longest pause between two turns of a producer, however much its documents cost."""
DELETED, RECREATED, DOWN, STOPPED, FAILED, SLOW = "deleted", "recreated", "down", "stopped", "failed", "slow"
"""Why a stream ends."""


class _Sent(NamedTuple):
    compared: bytes
    frame: bytes


class Producer(ABC):
    """Documents for some streams.

    Args:
        live: all producers of the process.

    Attributes:
        viewers: the streams.
    """

    def __init__(self, live: "Live") -> None:
        self._live = live
        self.viewers: set[Viewer] = set()
        self._sent: dict[str, _Sent] = {}
        self._task: asyncio.Task[None] | None = None
        self._cost_s = 0.0
        self._due = float("-inf")

    @abstractmethod
    async def turn(self, due: bool) -> None:
        """Publish what has changed.

        Args:
            due: whether costly documents may be made; what is cheap, or urgent, may be made in every turn.

        Raises:
            NotFound, Recreated, ModelDown: there is nothing to show any more.
            Unavailable: try again.
        """

    def join(self, viewer: Viewer) -> None:
        """Show a stream all documents, and then what changes."""
        for event, sent in self._sent.items():
            viewer.put(event, sent.frame)
        self.viewers.add(viewer)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), context=Context())

    def stop(self) -> None:
        """End without a word: the last stream has left."""
        if self._task is not None:
            self._task.cancel()

    def publish(self, event: str, number: int | None, document: bytes, compared: bytes | None = None) -> None:
        """Send a document to all streams where it is another than the last one.

        Args:
            event: its name.
            number: its version, if it has one.
            document: its JSON.
            compared: what tells it from another one; None: the whole of it.
        """
        known, compared = self._sent.get(event), compared or document
        if known is not None and known.compared == compared:
            return
        frame = format_sse_event(event=event, data_str=document.decode(), id=None if number is None else str(number))
        self._sent[event] = _Sent(compared, frame)
        for viewer in self.viewers:
            viewer.put(event, frame)

    def cost(self, seconds: float) -> None:
        """Note what a document has cost."""
        self._cost_s += seconds

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure what a document costs."""
        begun = perf_counter()
        try:
            yield
        finally:
            self.cost(perf_counter() - begun)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                begun = loop.time()
                await self._turn(begun)
                await asyncio.sleep(max(0.0, begun + TURN_S - loop.time()))
        except (NotFound, Recreated, ModelDown) as error:
            self._end(RECREATED if isinstance(error, Recreated) else DOWN if isinstance(error, ModelDown) else DELETED)
        except Exception:
            logger.exception("documents could not be made; their streams end")
            self._end(FAILED)

    async def _turn(self, now: float) -> None:
        due, self._cost_s = now >= self._due, 0.0
        try:
            await self.turn(due)
        except Unavailable as error:
            if isinstance(error, Recreated):
                raise
            logger.debug("a turn of some streams is left out: %s", error.detail)
        if due:
            self._due = now + min(PAUSE_S_MAX, self._cost_s * len(self._live) / SHARE)
        for viewer in [*self.viewers]:
            if viewer.stuck:
                viewer.end(SLOW)

    def _end(self, reason: str) -> None:
        self._live.forget(self)
        for viewer in self.viewers:
            viewer.end(reason)


class Live:
    """The producers of one process.

    Args:
        places: of which each stream takes one.
    """

    def __init__(self, places: StreamPlaces) -> None:
        self._places = places
        self._producers: dict[Hashable, Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def open(self, key: Hashable, make: Callable[[], Producer]) -> EventStream:
        """A stream of the documents that ``key`` stands for.

        Args:
            key: equal for streams that show the same.
            make: makes their producer, where there is none.

        Raises:
            StreamsFull: there are as many streams as there may be, or the service stops.
        """
        viewer = Viewer()
        self._places.take(viewer, partial(viewer.end, STOPPED))
        producer = self._producers.get(key)
        if producer is None:
            producer = self._producers[key] = make()
        producer.join(viewer)
        return EventStream(viewer.frames(), viewer.over, partial(self._leave, producer, viewer))

    def _leave(self, producer: Producer, viewer: Viewer) -> None:
        self._places.leave(viewer)
        producer.viewers.discard(viewer)
        if not producer.viewers:
            producer.stop()
            self.forget(producer)

    def forget(self, producer: Producer) -> None:
        """Whoever comes from now on gets another producer."""
        for key, known in [*self._producers.items()]:
            if known is producer:
                del self._producers[key]
