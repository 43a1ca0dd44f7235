"""Keys from a file, or a mounted secret, read again while the service runs: keys come and go without a restart."""

import asyncio
import logging
import stat
from pathlib import Path

from service.api.keys import Keys

logger = logging.getLogger("onepass.audit")
LOOK_S = 2.0
"""How often the file is read; its content tells whether it has changed, since a mounted one is a link that moves."""
BYTES_MAX = 2**20


def text_of(path: Path) -> str:
    """What a file of keys or of another secret holds.

    Raises:
        OSError, ValueError: it cannot be read, is not UTF-8, or too large.
    """
    with path.open("rb") as file:
        content = file.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise ValueError(f"larger than {BYTES_MAX} bytes")
    return content.decode()


class KeyFile:
    """Follows a file.

    Args:
        path: the file.
        keys: what it holds; told of what it holds later.
        look_s: how often it is read.
    """

    def __init__(self, path: Path, keys: Keys, look_s: float = LOOK_S) -> None:
        self._path, self._keys, self._look_s = path, keys, look_s
        self._known: str | None = None
        self._failed = ""

    async def run(self) -> None:
        """Follow the file until cancelled; what cannot be read or used changes nothing, and is said once."""
        while True:
            try:
                self._take(await asyncio.to_thread(text_of, self._path))
                self._failed = ""
            except (OSError, ValueError) as error:
                self._say(f"{getattr(error, 'strerror', None) or error}")
            await asyncio.sleep(self._look_s)

    def _take(self, text: str) -> None:
        if text != self._known:
            if self._path.stat().st_mode & stat.S_IROTH:
                logger.warning("everybody on this machine may read the keys: chmod o-r %s", self._path)
            count = self._keys.replace(text)
            if self._known is not None:
                expired = self._keys.expired
                logger.info("keys were read again: %d secrets are valid, %d have expired", count - expired, expired)
                self._keys.warn_expired()
            self._known = text

    def _say(self, why: str) -> None:
        if why != self._failed:
            logger.error("the keys in %s cannot be used, those before stay valid: %s", self._path, why)
        self._failed = why
