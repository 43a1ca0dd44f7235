"""Work that would hold up the event loop is done in a thread."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
THREAD_BYTES = 131_072
"""A larger body is decoded and checked in a thread: that of a table is some milliseconds' work, as long as a thread may
keep the interpreter to itself anyway (``sys.getswitchinterval``)."""


async def in_thread_if_large(size: int, work: Callable[..., T], *args: object) -> T:
    """Call ``work(*args)``: in a thread where the ``size`` bytes that it reads are many, else at once."""
    return work(*args) if size <= THREAD_BYTES else await asyncio.to_thread(work, *args)
