"""How far a replica is behind its log, and the readers that wait for it."""

import asyncio
from collections.abc import Callable
from functools import partial

from service.errors import OnepassError

Sync = Callable[[], "asyncio.Future[None]"]  # ``Inbox.sync``


class Lag:
    """What is known of the head of a model's log.

    Attributes:
        head: the highest version the log is known to have reached.
        since: when it passed the version applied here, by the loop's clock; 0 if it has not.
        suspect: the log may have lost its tail, whatever its version.
        awaited: readers that wait for a version, each with that version.
    """

    __slots__ = ("awaited", "head", "since", "suspect")

    def __init__(self) -> None:
        self.head, self.since, self.suspect = 0, 0.0, False
        self.awaited: dict[asyncio.Future[None], int] = {}

    def behind(self, version: int) -> bool:
        """Whether the log is known, or suspected, to differ from what was applied up to ``version``."""
        return self.head > version or self.suspect

    def note_head(self, version: int) -> None:
        """Note that the log has reached a version."""
        self.head = max(self.head, version)
        if not self.since:
            self.since = asyncio.get_running_loop().time()

    def at_head(self, version: int) -> None:
        """Note that everything on the log, up to ``version``, has been applied."""
        self.head, self.since, self.suspect = version, 0.0, False

    def applied(self, version: int) -> None:
        """Note that a version was applied, and wake the readers that wait for it."""
        if self.since and not self.behind(version):
            self.since = 0.0
        if self.awaited:
            for future, wanted in [*self.awaited.items()]:
                if wanted <= version and not future.done():
                    future.set_result(None)

    async def wait_for_version(self, version: int, read_on: Sync | None = None) -> None:
        """Wait until a version is applied, or raise the error why it never will be; the caller sets the bound.

        ``read_on``: called to read on in the log meanwhile; its error ends the wait.
        """
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.awaited[arrived] = version
        try:
            if read_on is not None:
                read_on().add_done_callback(partial(_fail, arrived))
            await arrived
        finally:
            self.awaited.pop(arrived, None)

    def refuse(self, error: OnepassError) -> None:
        """Fail the readers that wait for a version."""
        for future in self.awaited:
            if not future.done():
                future.set_exception(error)


def _fail(arrived: "asyncio.Future[None]", synced: "asyncio.Future[None]") -> None:
    """Fail a waiting reader if the log could not be read on for it."""
    error = synced.exception()
    if error is not None and not arrived.done():
        arrived.set_exception(error)
