"""What the store says unasked: which model's log has grown. One connection per process hears it.

A hint is only that. It may be lost (the connection breaks, nobody listened yet), so every channel that begins to be
heard is told to the caller, who looks at that model's head himself; and behind it all a slow sweep looks at every one.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from service.errors import StoreDown
from service.store.keys import ModelKeys
from service.store.redis.connection import Connection, translated

QUIET_S = 2.0
"""A connection that has said nothing for so long is asked whether it is still there."""
CHANNELS_MAX = 500
"""Most channels in one command."""
_PREFIX, _SUFFIX = ModelKeys("|", "").notices.encode().split(b"|")


class AppendNotice(NamedTuple):
    """Model ``name`` has a new entry; ``version`` None: this incarnation was deleted."""

    name: str
    incarnation: str
    version: int | None = None
    uid: str = ""


class AppendNotices:
    """The channels of the models that a process holds.

    Args:
        connection: the store.

    Attributes:
        hearing: whether the connection stands.
        heard: messages so far, subscriptions among them.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._wanted: set[str] = set()
        self._asked: set[str] = set()
        self._changed = asyncio.Event()
        self.hearing = False
        self.heard = 0

    def want(self, name: str) -> None:
        """Listen to a model from now on."""
        self._wanted.add(name)
        self._changed.set()

    def drop(self, name: str) -> None:
        """Listen no more."""
        self._wanted.discard(name)
        self._changed.set()

    async def listen(self, heard: Callable[[AppendNotice], None], begun: Callable[[str], None]) -> None:
        """Pass on every hint until the connection breaks.

        Args:
            heard: called with each hint.
            begun: called with each model from whose channel everything is heard from now on.

        Raises:
            StoreDown: always, in the end.
        """
        with translated():
            line = await self._connection.subscriber()
            self._asked.clear()
            self._changed.set()
            asking = asyncio.create_task(self._keep_asking(line))
            try:
                _heed()
                await self._read(line, heard, begun)
            finally:
                self.hearing = False
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
                await line.disconnect(nowait=True)

    async def _read(self, line: Any, heard: Callable[[AppendNotice], None], begun: Callable[[str], None]) -> None:
        asked = False
        while True:
            said = await line.read_response(timeout=QUIET_S, disconnect_on_error=False)
            if said is None:
                if asked:
                    raise StoreDown("the store did not answer in time")
                asked = True
                await line.send_command("PING")
                _heed()
                continue
            asked = False
            self.heard += 1
            if said[0] == b"message":
                heard(_notice(said[1], said[2]))
            elif said[0] == b"subscribe":
                self.hearing = True
                begun(_name(said[1]))

    async def _keep_asking(self, line: Any) -> None:
        """Subscribe to what is wanted, and unsubscribe from what is not any more."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            new, old = self._wanted - self._asked, self._asked - self._wanted
            for verb, names in (("SUBSCRIBE", new), ("UNSUBSCRIBE", old)):
                for part in _parts([ModelKeys(name, "").notices for name in sorted(names)]):
                    await line.send_command(verb, *part)
                    _heed()
            self._asked = (self._asked | new) - old


def _parts(channels: list[str]) -> Iterable[list[str]]:
    return (channels[at : at + CHANNELS_MAX] for at in range(0, len(channels), CHANNELS_MAX))


def _name(channel: bytes) -> str:
    return channel.removeprefix(_PREFIX).removesuffix(_SUFFIX).decode()


def _notice(channel: bytes, text: bytes) -> AppendNotice:
    incarnation, *rest = text.decode().split(" ")
    return AppendNotice(_name(channel), incarnation, *((int(rest[0]), rest[1]) if rest else ()))


def _heed() -> None:
    """Raise a cancellation that got lost: asyncio.wait_for, which the client library uses, loses some before 3.12."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
