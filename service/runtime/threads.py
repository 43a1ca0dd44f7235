"""Large work leaves the event loop for a thread."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
THREAD_BYTES = 131_072
"""A larger body is decoded and validated in a thread. Below, the work takes no longer than the 5 ms for which a thread
keeps the interpreter anyway (``sys.getswitchinterval``)."""
THREAD_FLOPS = 4e6
"""Work of more floating-point operations (some milliseconds) is done in a thread: many models may have as much of it in
one turn of the loop."""


def is_large(size: int) -> bool:
    """Whether reading so many bytes takes long enough for a thread."""
    return size > THREAD_BYTES


def is_long(flops: float) -> bool:
    """Whether so many floating-point operations take long enough for a thread."""
    return flops > THREAD_FLOPS


async def in_thread_if_large(size: int, work: Callable[..., T], *args: object) -> T:
    """Call ``work(*args)``, in a thread if the ``size`` bytes that it reads are more than ``THREAD_BYTES``."""
    return await asyncio.to_thread(work, *args) if is_large(size) else work(*args)


async def in_thread_if_long(flops: float, work: Callable[..., T], *args: object) -> T:
    """Call ``work(*args)``, in a thread if it takes more floating-point operations than ``THREAD_FLOPS``."""
    return await asyncio.to_thread(work, *args) if is_long(flops) else work(*args)
