"""Moves large work off the event loop: to a thread, and large bodies to their own single thread.

Work of a few milliseconds is done in the loop. More goes to a thread: while a thread works in Python, or in a call that
releases the interpreter (NumPy, hashes, kernels), the loop waits at most one switch interval. A call into C that holds
the interpreter (decoding JSON or CSV) stops the loop even from a thread, so large bodies are decoded in pieces, and one
body at a time.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from core.learners.algorithm import Algorithm
from core.learners.catalogue import DEFAULT, every
from core.model import load_kernels
from core.problems import Problem
from service.errors import BodiesFull, Busy, TooLarge

T = TypeVar("T")
THREAD_BYTES = 131_072  # a larger body is decoded and validated in a thread; below, that takes some milliseconds
TURN_BYTES = 16_384  # a body above this takes a turn of the loop of its own: many would delay small requests together
FEATURE_BYTES = 100  # assumed cost of one feature of a document, in bytes of a body
DECLARED_BYTES = 600  # the same for one feature, or category, of a configuration that is read
LARGE_THREADS = 2
"""Threads for large work: each takes its turns of the interpreter from the loop, so further work has to wait."""
LARGE_BYTES = 262_144
"""A larger body is decoded in pieces, and one at a time: a call for all of it would hold the interpreter for several
milliseconds, and many bodies at once would each do so."""
KEPT = 4  # requests that wait for their model may keep one part in this many of the room for decoding
READERS = 2
"""Threads that read the bodies in between; each takes its turns of the interpreter from the loop."""
WAITING_MAX = 256
"""Most large bodies being read or waiting to be read; ``ONEPASS_BODIES_MB`` bounds their bytes."""
SWITCH_INTERVAL_S = 0.001
"""How long a thread that works in Python keeps the interpreter while others wait for it: a fifth of the default. A row
takes several turns of the loop, and may wait this long in each of them."""
THREAD_FLOPS = 4e6
"""Work of more floating-point operations (some milliseconds) is done in a thread: many models may have that much in one
turn of the loop."""
_large = ThreadPoolExecutor(LARGE_THREADS, "onepass-large")


WORK_FLOPS_MAX = 5e11
"""Most work of one request: a minute or two. Once committed, nothing stops it, neither its client nor DELETE."""
THREADS_MAX = 64
"""Threads for such work; more work waits. Each model uses at most one for its entries, so that many can be at work."""


def size_of_features(declared: object) -> int:
    """Assumed cost, in bytes of a body, of the features that a body declares; a category counts as a feature."""
    if not isinstance(declared, list):
        return 0
    categories = [one.get("categories") for one in declared if isinstance(one, Mapping)]
    return DECLARED_BYTES * (len(declared) + sum(len(one) for one in categories if isinstance(one, list)))


def refuse_hours(flops: float, rows: int) -> None:
    """``TooLarge`` for rows whose work would occupy a core, and delay all requests to their model, for too long."""
    if flops > WORK_FLOPS_MAX:
        fewer = max(1, int(WORK_FLOPS_MAX / flops * rows))
        raise TooLarge(
            f"{rows} rows take {flops:.2g} floating-point operations with a model of this width; the limit is "
            f"{WORK_FLOPS_MAX:.2g} per request: send fewer rows at once",
            [Problem("data", "has too many rows for a model of this width", f"<= {fewer} rows")],
        )


async def in_thread_if_large(size: int, work: Callable[..., T], *args: object) -> T:
    """Call ``work(*args)``, in one of a few threads if the ``size`` bytes that it reads exceed ``THREAD_BYTES``."""
    if size <= THREAD_BYTES:
        return work(*args)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_large, work, *args)


async def in_thread_if_long(flops: float, work: Callable[..., T], *args: object) -> T:
    """Call ``work(*args)``, in a thread if it takes more floating-point operations than ``THREAD_FLOPS``."""
    return work(*args) if flops <= THREAD_FLOPS else await asyncio.to_thread(work, *args)


@asynccontextmanager
async def turn(places: asyncio.Lock | asyncio.Semaphore, most_s: float, busy: str) -> AsyncIterator[None]:
    """Hold a place for work that takes seconds: many threads in Python would leave the loop little of the interpreter.

    ``Busy``, with the text ``busy``, if no place becomes free within ``most_s`` seconds.
    """
    try:
        await asyncio.wait_for(places.acquire(), most_s)
    except TimeoutError:
        raise Busy(busy) from None
    try:
        yield
    finally:
        places.release()


async def load_algorithm(config: Mapping[str, Any]) -> None:
    """Import in a thread what models with the algorithm of a configuration need, unless that has been done.

    Errors in the configuration are left to the code that reads it.
    """
    algorithm = every().get(str(config.get("algorithm", DEFAULT)))
    if algorithm is not None and not algorithm.loaded:
        await asyncio.to_thread(_load, algorithm)


def _load(algorithm: Algorithm) -> None:
    load_kernels()
    algorithm.load()


class Places:
    """Room for tasks that take memory: ``most`` bytes in all, or one task of any size alone; the others wait in turn.

    Tasks may keep some bytes for longer; these make others wait only beyond one part in KEPT of the room.
    """

    def __init__(self, most: int) -> None:
        self.most, self.used, self.kept = most, 0, 0
        self._waiting = deque[tuple[int, asyncio.Future[None]]]()

    async def take(self, size: int) -> None:
        """Wait for ``size`` bytes, behind all earlier tasks; ``BodiesFull`` if ``WAITING_MAX`` wait."""
        if len(self._waiting) >= WAITING_MAX:
            raise BodiesFull(f"{WAITING_MAX} bodies are waiting to be decoded")
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._admit()  # others may have waited only for this one
            else:  # its turn came at the same time
                self.give(size)
            raise

    def give(self, size: int, kept: int = 0) -> None:
        """Give back bytes that were taken; keep some of them for longer, or no longer (``kept`` < 0)."""
        self.used -= size
        self.kept += kept
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.done():  # else its request was cancelled
                if self.kept > self.most // KEPT or (self.used and self.used + size > self.most):
                    return
                self.used += size
                turn.set_result(None)
            self._waiting.popleft()


class BodyReader:
    """Reads large bodies in one thread, smaller ones in ``READERS`` others; the rest wait in the order they came."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "onepass-reader")
        self._others = ThreadPoolExecutor(READERS, "onepass-readers")
        self._waiting, self._turns = 0, asyncio.Lock()

    async def call(self, work: Callable[..., T], *args: object) -> T:
        """Call ``work(*args)`` in the thread; ``BodiesFull`` if ``WAITING_MAX`` bodies are being read or wait."""
        if self._waiting >= WAITING_MAX:
            raise BodiesFull(f"{self._waiting} large bodies are being read or waiting to be read")
        loop = asyncio.get_running_loop()
        self._waiting += 1
        try:
            return await loop.run_in_executor(self._thread, work, *args)
        finally:
            self._waiting -= 1

    async def call_if_large(self, size: int, work: Callable[..., T], *args: object) -> T:
        """Call ``work(*args)`` on ``size`` bytes: in the thread if large, above ``THREAD_BYTES`` in others."""
        if size <= TURN_BYTES:
            return work(*args)
        if size <= THREAD_BYTES:
            async with self._turns:  # held while others have their turns
                await asyncio.sleep(0)
                return work(*args)
        if size > LARGE_BYTES:
            return await self.call(work, *args)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._others, work, *args)

    def stop(self) -> None:
        """Read no more bodies; may be called again."""
        for threads in (self._thread, self._others):
            threads.shutdown(wait=False, cancel_futures=True)
