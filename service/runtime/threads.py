"""Large work leaves the event loop for a thread."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
THREAD_BYTES = 131_072
"""A larger body is decoded and validated in a thread. Below, the work takes no longer than the 5 ms for which a thread
keeps the interpreter anyway (``sys.getswitchinterval``)."""


async def in_thread_if_large(size: int, work: Callable[..., T], *args: object) -> T:
    """Call ``work(*args)``, in a thread if the ``size`` bytes that it reads are more than ``THREAD_BYTES``."""
    return work(*args) if size <= THREAD_BYTES else await asyncio.to_thread(work, *args)
