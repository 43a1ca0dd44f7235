"""Room on the disk of the private store for rows that it acknowledged while the disk became full.

With "everysec" a server acknowledges the commands during which its disk becomes full. It keeps them in memory, refuses
only later ones, and would lose them when it ends. So a file reserves some room: when a write has failed, the file is
deleted, the server writes what it keeps, and takes no more data until there is room for the file again.
"""

import logging
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from service.store_process import ask, no_link

logger = logging.getLogger(__name__)

RESERVE_BYTES = 16 * 2**20  # more than a server is sent at once
_RESERVE_BYTES_MIN = 2**20
_DISK_SHARE, _FREE_SHARE = 8, 4  # at most such a part of a disk, and of what is free at first, is reserved
_AGAIN_S = 10.0  # pause after the file could not be written although there seemed to be room: there may be a quota
_WRITTEN_S = 3.0  # how long a server may take to write what it keeps; it tries once a second
_POLL_S = 0.05


class DiskReserve:
    """The file in a data directory, for one server process behind the socket ``server``."""

    def __init__(self, data_dir: Path, server: Path) -> None:
        self._dir, self._server, self._file = data_dir, server, data_dir / "reserve"
        disk = shutil.disk_usage(data_dir)
        free = max(_RESERVE_BYTES_MIN, disk.free // _FREE_SHARE)
        self._size = min(RESERVE_BYTES, disk.total // _DISK_SHARE, free)
        self._held = False
        self._again_at = float("-inf")

    def look(self, memory_bytes: int) -> bool:
        """Give the file's room to a server that needs it, or make it again; returns whether data are refused meanwhile.

        ``memory_bytes``: the server's memory limit while it takes data. Raises OSError if the directory is missing.
        """
        if (failing := self._failing()) or not (self._whole() or self._made()):
            # First of all: what it acknowledged once it can write again could exceed the reserve.
            if not self._held and self._limit(1):
                self._held = True
                logger.error(
                    "the disk of %s (ONEPASS_DATA_DIR) is full: feedback gets 503 until %d MB are free",
                    self._dir,
                    2 * self._size // 2**20,
                )
            if self._held and failing:
                self._give_up()
        elif self._held and self._limit(memory_bytes):
            logger.info("the disk of %s has room again", self._dir)
            self._held = False
        return self._held

    def settle(self, timeout_s: float) -> None:
        """Let the server write what it keeps before it is stopped; an error is logged if it cannot."""
        deadline = time.monotonic() + min(timeout_s, _WRITTEN_S)
        while self._failing():
            self._give_up()
            if time.monotonic() > deadline:
                logger.error(
                    "no space is left on the disk of %s (ONEPASS_DATA_DIR): the last acknowledged rows are lost",
                    self._dir,
                )
                return
            time.sleep(_POLL_S)

    def _limit(self, memory_bytes: int) -> bool:
        """Set how much memory the server may take: with less than it has, it refuses whatever would need more."""
        return ask(self._server, "CONFIG", "SET", "maxmemory", str(memory_bytes)) is not None

    def _failing(self) -> bool:
        """Whether the server could not write."""
        return "aof_last_write_status:err" in (ask(self._server, "INFO", "persistence") or "")

    def _give_up(self) -> None:
        with suppress(OSError):  # the disk may have become read-only
            self._file.unlink(missing_ok=True)

    def _whole(self) -> bool:
        return self._file.is_file() and self._file.stat().st_size >= self._size

    def _made(self) -> bool:
        """Write the file, unless that would leave too little room."""
        if shutil.disk_usage(self._dir).free < 2 * self._size or time.monotonic() < self._again_at:
            return False
        try:
            with open(self._file, "wb", opener=no_link) as file:
                file.write(os.urandom(self._size))  # which no file system stores in less
        except OSError:
            self._again_at = time.monotonic() + _AGAIN_S
            self._give_up()
            return False
        return True
