"""Large work leaves the event loop: for a thread, or for the process that reads large bodies.

What takes some milliseconds is done where it stands. More goes to a thread: while a thread works in Python, or in a
call that lets go of the interpreter (NumPy, hashes, kernels), the loop waits a switch interval at most. A long call
into C that holds the interpreter (decoding JSON or CSV) stops the loop from a thread as well, so above
``PROCESS_BYTES`` bodies are read by a process.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from core.learners.algorithm import Algorithm
from core.learners.catalogue import ALGORITHMS, DEFAULT
from core.model import load_kernels
from core.problems import Problem
from service.errors import TooLarge
from service.runtime.rows.reader_process import ReaderProcess

T = TypeVar("T")
THREAD_BYTES = 131_072
"""A larger body is decoded and validated in a thread; below, the work takes a millisecond or two."""
PROCESS_BYTES = 262_144
"""A larger body is decoded and validated by a process: in a thread one call would hold the interpreter for several
milliseconds, and many bodies at once would each do so."""
SWITCH_INTERVAL_S = 0.001
"""How long a thread that works in Python keeps the interpreter while others wait for it: a fifth of the default. A row
takes several turns of the loop, and waits so long in each of them."""
THREAD_FLOPS = 4e6
"""Work of more floating-point operations (some milliseconds) is done in a thread: many models may have as much of it in
one turn of the loop."""


WORK_FLOPS_MAX = 5e11
"""Most work of one request: a minute or two. Nothing ends it once it is committed: not its client, nor DELETE."""
THREADS_MAX = 64
"""Threads for such work; more wait. Each model has one at most for its entries, so that many models can be at work."""


def is_long(flops: float) -> bool:
    """Whether so many floating-point operations take long enough for a thread."""
    return flops > THREAD_FLOPS


def refuse_hours(flops: float, rows: int) -> None:
    """Refuse rows whose work would keep a core, and everybody who asks for their model, for too long.

    Raises:
        TooLarge: naming how many of them may be sent at once.
    """
    if flops > WORK_FLOPS_MAX:
        fewer = max(1, int(WORK_FLOPS_MAX / flops * rows))
        raise TooLarge(
            f"{rows} rows take {flops:.2g} floating-point operations with a model of this width, of at most "
            f"{WORK_FLOPS_MAX:.2g} in one request: send fewer rows at once",
            [Problem("data", "holds too many rows for a model of this width", f"<= {fewer} rows")],
        )


async def in_thread_if_large(size: int, work: Callable[..., T], *args: object) -> T:
    """Call ``work(*args)``, in a thread if the ``size`` bytes that it reads are more than ``THREAD_BYTES``."""
    return work(*args) if size <= THREAD_BYTES else await asyncio.to_thread(work, *args)


async def in_thread_if_long(flops: float, work: Callable[..., T], *args: object) -> T:
    """Call ``work(*args)``, in a thread if it takes more floating-point operations than ``THREAD_FLOPS``."""
    return work(*args) if flops <= THREAD_FLOPS else await asyncio.to_thread(work, *args)


async def load_algorithm(config: Mapping[str, Any]) -> None:
    """Import what models with the algorithm of a configuration need, in a thread, unless that has been done.

    Args:
        config: the configuration as plain values; what is wrong with it is found by who reads it.
    """
    algorithm = ALGORITHMS.get(str(config.get("algorithm", DEFAULT)))
    if algorithm is not None and not algorithm.loaded:
        await asyncio.to_thread(_load, algorithm)


def _load(algorithm: Algorithm) -> None:
    load_kernels()
    algorithm.load()


async def in_process(reader: ReaderProcess, work: Callable[[bytes], T], body: bytes) -> T:
    """Call ``work(body)``, a function that the process can import, in the reader's process."""
    return await reader.call(work, tuple, body)


async def in_process_if_large(
    reader: ReaderProcess,
    body: bytes,
    work: Callable[..., T],
    rules: Callable[[], tuple[Any, ...]],
    inline: Callable[[], T],
) -> T:
    """Read a body: ``work(*rules(), body)`` in the reader's process if it is large, else ``inline()``.

    Args:
        reader: the process.
        body: the bytes.
        work: a function of a module that the process can import.
        rules: its other arguments, plain values; called in a thread.
        inline: what gives the same in this process.
    """
    if len(body) <= PROCESS_BYTES:
        return await in_thread_if_large(len(body), inline)
    return await reader.call(work, rules, body)
