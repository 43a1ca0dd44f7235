"""Mends a file of commands of the private store that has NULs between commands, which the server refuses to load.

After a rewrite a server does not append to its file, but writes where it stands. When a write fails half-way, because
the disk is full, it cuts off what it has written of the commands, but stands behind it: its next write, which repeats
them, leaves a gap. Some file systems also leave NULs at the end after a power cut.
"""

import itertools
import logging
import os
import re
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path

logger = logging.getLogger(__name__)

_REFUSED = re.compile(r"Bad file format reading the append only file ([\w.]+\.incr\.aof):")
_NULS = re.compile(rb"\0+")


def mend(data_dir: Path, log: str) -> bool:
    """Mend the file that a server refused, as its ``log`` says; returns whether it could be mended. Raises OSError."""
    if (refused := _REFUSED.search(log)) is None:
        return False
    with suppress(ValueError):  # then the server's own words remain
        if close_gaps(data_dir / "appendonlydir" / refused[1], data_dir / "temp-rewriteaof-mended.aof"):
            logger.warning("a full disk or a power cut had left gaps in %s: they are closed", refused[1])
            return True
    return False


def close_gaps(path: Path, scratch: Path) -> bool:
    """Remove NULs between the commands of a file; returns whether there were any. ``scratch``: a path on its disk.

    ``ValueError`` if the file has something else that is no command; it is unchanged then. Raises OSError.
    """
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        if not (gaps := _gaps(data)):
            return False
        try:
            with scratch.open("wb") as mended:
                edges = [0, *itertools.chain.from_iterable(gaps), len(data)]
                for begin, end in zip(edges[::2], edges[1::2], strict=True):
                    mended.write(memoryview(data)[begin:end])
                mended.flush()
                os.fsync(mended.fileno())
        except OSError:
            scratch.unlink(missing_ok=True)  # a full disk has no room for a part of it
            raise
    scratch.replace(path)
    return True


def _gaps(data: mmap) -> list[tuple[int, int]]:
    """Where NULs between commands begin and end; the last command may be incomplete."""
    at, found = 0, list[tuple[int, int]]()
    while at < len(data):
        if (nuls := _NULS.match(data, at)) is not None:
            at = nuls.end()
            found.append(nuls.span())
        elif data[at : at + 1] == b"#":  # the server's notes of the time
            at = data.find(b"\n", at) + 1 or len(data)
        else:
            at = _end_of_command(data, at)
    return found


def _end_of_command(data: mmap, at: int) -> int:
    """The end of the command (``*2``, then ``$LENGTH`` and text twice, each line ended by CRLF) that begins here."""
    words, at = _number(data, at, b"*")
    for _ in range(words):
        if at >= len(data):
            break
        length, at = _number(data, at, b"$")
        at += length + 2
    return at


def _number(data: mmap, at: int, mark: bytes) -> tuple[int, int]:
    end = data.find(b"\r\n", at)
    if end < 0:
        return 0, len(data)
    if data[at : at + 1] != mark:
        raise ValueError("not a command")
    return int(data[at + 1 : end]), end + 2
