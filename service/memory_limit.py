"""The memory that a container or another control group may take, the shares in it, and what is given back.

    PROC/self/cgroup       0::/GROUP (version 2), N:memory:/GROUP (version 1)
    CGROUPS/GROUP/memory.max, CGROUPS/memory/GROUP/memory.limit_in_bytes

Each group above GROUP limits it as well. Inside a container, GROUP may be the path on the host, while CGROUPS shows the
container's own group at its root: so paths that do not exist are skipped, and the root is read, too.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

CGROUPS, PROC = Path("/sys/fs/cgroup"), Path("/proc")
RESERVED_MB = 512  # for everything but models: the process itself, its private store, request bodies and queues
REST_MB = 256  # the least reserve: a service at rest takes AT_REST_MB, small requests little more
AT_REST_MB = 180
LIMIT_MIN_MB = 384
BODIES_SHARE = 12
"""Bodies and answers get one part in this many of a limit. Of 1536 MB that is 128; with 1024 for models, 180 for what
bodies are decoded to and 180 for the process, that is all of it."""
STORE_SHARE = 16  # a private store gets one part in this many of a limit at least
MAPPED_BYTES = 2**20  # blocks of this size get their own pages, which go back to the system when they are freed
MMAP_THRESHOLD, ARENA_MAX = -3, -8  # as malloc.h has them
MADV_DONTNEED = 4  # as mman.h has it
COMPILER = "libllvmlite.so"


class TooSmall(ValueError):
    """The limit leaves no room; the message is for the operator."""


def memory_limit(groups: Path = CGROUPS, proc: Path = PROC) -> int | None:
    """Bytes that this process and all others of its group may take; None if they may take all that the machine has."""
    found = [limit for file in _files(groups, proc) if (limit := _limit(file)) is not None]
    return min(found, default=None)


def budget_mb(wanted_mb: int, given: bool, limit: int | None) -> int:
    """The memory for loaded models, in MB: as wanted, unless a ``limit`` in bytes lowers a default.

    ``TooSmall`` if the limit leaves no room for a service, or less than was asked for (``given``).
    """
    if limit is None:
        return wanted_mb
    limit_mb = limit // 2**20
    if limit_mb < LIMIT_MIN_MB:
        raise TooSmall(f"the memory limit of this container or unit is {limit_mb} MB; Onepass needs {LIMIT_MIN_MB} MB")
    if not given:
        return min(wanted_mb, max(limit_mb - RESERVED_MB, limit_mb // 4))
    if wanted_mb + REST_MB > limit_mb:
        raise TooSmall(
            f"ONEPASS_MEMORY_BUDGET_MB: {wanted_mb} MB for models exceeds what the memory limit of this container or "
            f"unit, {limit_mb} MB, leaves for them; raise the limit to {wanted_mb + RESERVED_MB} MB, or remove the "
            "setting: the default fits the limit"
        )
    return wanted_mb


def bodies_mb(wanted_mb: int, given: bool, limit: int | None) -> int:
    """The memory for bodies and answers, in MB: as wanted, unless a ``limit`` in bytes lowers a default."""
    return wanted_mb if given or limit is None else min(wanted_mb, limit // 2**20 // BODIES_SHARE)


def store_mb(models_mb: int, bodies_mb: int, limit: int | None) -> int | None:
    """The memory for the data of a private store, in MB; None: there is no limit.

    Half of what models, bodies and the process leave: data that change while the store rewrites its file take twice
    their memory.
    """
    if limit is None:
        return None
    limit_mb = limit // 2**20
    return max((limit_mb - models_mb - bodies_mb - AT_REST_MB) // 2, limit_mb // STORE_SHARE)


def return_memory() -> None:
    """Make freed memory go back to the system, or to any thread that needs some next.

    By default glibc keeps blocks as large as any that was freed before (up to 32 MB), and a heap for each of many
    threads: a service that loads wide models and evicts them grows to several times its budget. Other C libraries have
    no such settings.
    """
    with suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(MMAP_THRESHOLD, MAPPED_BYTES)
        mallopt(ARENA_MAX, 1)


def put_compiler_away() -> None:
    """Unmap the pages of the compiler's code, 50 MB of which stay in memory once kernels have been loaded with it.

    Code is never written to: if the compiler is called again, its pages come back from the file.
    """
    with suppress(OSError, AttributeError):
        madvise = ctypes.CDLL(None).madvise
        for line in (PROC / "self/maps").read_text().splitlines():
            if line.endswith(COMPILER) and " r-xp " in line:
                start, end = (int(address, 16) for address in line.split(" ", 1)[0].split("-"))
                madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_DONTNEED)


def _files(groups: Path, proc: Path) -> Iterator[Path]:
    """Files that may hold a limit: those of this process's group and of the groups above it."""
    lines = []
    with suppress(OSError):
        lines = (proc / "self/cgroup").read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, name = groups, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = groups / "memory", "memory.limit_in_bytes"
        else:
            continue
        own = root / path.lstrip("/")
        yield from (folder / name for folder in (own, *own.parents) if folder.is_relative_to(root))


def _limit(file: Path) -> int | None:
    """The limit in a file; None: there is no such file, or no limit, for which version 1 has a huge number."""
    with suppress(OSError, ValueError):
        limit = int(file.read_text())
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return limit if limit < machine else None
    return None
