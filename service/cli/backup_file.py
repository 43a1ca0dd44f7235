"""A backup on its way into a file: checked as it comes, and continued where an earlier attempt has broken off.

It is written to FILE.part, which becomes FILE once it is whole: a file of that name is whole at any time.
"""

import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from service.store.backup.contents import FRAME_BYTES_MAX, Contents, read_all
from service.store.backup.frames import Damaged, FrameReader

KEPT_S = 86_400
"""An attempt that began earlier is not continued: what it holds would be old."""
PIECE_BYTES = 2**20


class BackupFile:
    """What has come of a backup.

    Args:
        out: where it goes.

    Attributes:
        contents: what is in it.
        size: its bytes.
    """

    def __init__(self, out: IO[bytes]) -> None:
        self._out, self._reader = out, FrameReader(FRAME_BYTES_MAX)
        self.contents, self.size = Contents(), 0

    def resume(self, models: str) -> None:
        """Go on behind the last whole model of what is there; from the beginning, where that is old, or of others.

        Args:
            models: the pattern of names that is asked for.
        """
        found, reader = Contents(), FrameReader(FRAME_BYTES_MAX)
        try:
            while piece := self._out.read(PIECE_BYTES):
                read_all(reader, found, piece)
        except Damaged:
            pass  # what is whole before it is
        header = found.header
        young = header is not None and time.time() - header.time_ms / 1000 < KEPT_S
        if found.last and young and header is not None and header.models == models:
            found.model, self.contents, self.size = None, found, found.end
        self._out.seek(self.size)
        self._out.truncate()

    def write(self, piece: bytes) -> None:
        """Take in what comes next.

        Raises:
            Damaged: it is not as the service sent it, or says why there is no more; what is whole stays.
        """
        self._out.write(piece)
        self.size += len(piece)
        read_all(self._reader, self.contents, piece)


@contextmanager
def opened(name: str, models: str) -> Generator[BackupFile]:
    """The file of a backup; in the end it has its name, if it is whole. ``-`` is standard output."""
    if name == "-":
        yield BackupFile(sys.stdout.buffer)
        return
    target = Path(name)
    part = target.with_name(f"{target.name}.part")
    with part.open("r+b" if part.exists() else "x+b") as out:
        file = BackupFile(out)
        file.resume(models)
        try:
            yield file
            out.flush()
            os.fsync(out.fileno())
        finally:
            if not (file.contents.last or file.contents.finished):
                part.unlink()
    if file.contents.finished:
        part.replace(target)
