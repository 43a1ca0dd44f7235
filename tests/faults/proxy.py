"""A proxy between service and store that disturbs one append as a network might."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import hiredis

from service.store.log.appends import APPEND

Fate = Literal["drop", "delay", "swallow", "cut", "garble"]
"""What happens to the picked append:

    drop      it is carried out; its reply is dropped and the connection is cut
    delay     it is carried out; its reply waits for ``release``
    swallow   it never reaches the store, and there is no answer
    cut       it never reaches the store; the connection is cut
    garble    it is carried out; its reply is garbled
"""


class Proxy:
    """Listens on its own socket, in its own thread, before the store's.

    ``hit``: set once the picked append has met its fate; ``open``: nothing passes while it is cleared; ``paused``:
    set once ``pause_before`` has cleared it; ``release``: delayed replies continue once it is set.
    """

    def __init__(self, listen: Path, upstream: Path) -> None:
        self._listen, self._upstream = str(listen), str(upstream)
        self._fate: Fate | None = None
        self._left = 0
        self.hit, self.open, self.release = threading.Event(), threading.Event(), threading.Event()
        self.paused = threading.Event()
        self.open.set()
        self._stop_word: bytes | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    @property
    def url(self) -> str:
        return f"unix://{self._listen}"

    def start(self) -> "Proxy":
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(30)

    def arm(self, fate: Fate, number: int = 1) -> None:
        """Pick the ``number``-th append from now on."""
        self.hit.clear()
        self.release.clear()
        self._fate, self._left = fate, number

    def pause_before(self, word: str) -> None:
        """Stop forwarding at the next command that begins with this word or calls the script with this hash."""
        self.paused.clear()
        self._stop_word = word.encode()

    async def _run(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_unix_server(self._serve, self._listen)
        self._ready.set()
        await self._ended.wait()
        server.close()

    def _pick(self, command: list[bytes]) -> Fate | None:
        if self._fate is None or command[:2] != [b"EVALSHA", APPEND.sha.encode()]:
            return None
        self._left -= 1
        if self._left:
            return None
        fate, self._fate = self._fate, None
        return fate

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_unix_connection(self._upstream)
        except OSError:
            writer.close()
            return
        link = _Link(self, reader, writer, up_reader, up_writer)
        ways = [asyncio.ensure_future(way) for way in (link.forth(), link.back())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for end in (writer, up_writer):
                end.close()


class _Link:
    """One connection through the proxy."""

    def __init__(self, proxy, reader, writer, up_reader, up_writer) -> None:
        self._proxy = proxy
        self._reader, self._writer = reader, writer
        self._up_reader, self._up_writer = up_reader, up_writer
        self._sent = 0
        self._picked: tuple[int, Fate] | None = None

    async def forth(self) -> None:
        async for command in _commands(self._reader):
            if self._proxy._stop_word in command[:2]:
                self._proxy._stop_word = None
                self._proxy.open.clear()
                self._proxy.paused.set()
            while not self._proxy.open.is_set():
                await asyncio.sleep(0.005)
            fate = self._proxy._pick(command)
            if fate == "cut":
                self._proxy.hit.set()
                return
            if fate == "swallow":
                self._proxy.hit.set()
                await self._reader.read()  # until the service hangs up
                return
            self._sent += 1
            if fate is not None:
                self._picked = (self._sent, fate)
            self._up_writer.write(hiredis.pack_command(tuple(command)))
            await self._up_writer.drain()

    async def back(self) -> None:
        replies, answered = hiredis.Reader(), 0
        while data := await self._up_reader.read(1 << 16):
            replies.feed(data)
            while replies.gets() is not False:
                answered += 1
            if self._picked is not None:
                if answered < self._picked[0]:
                    continue  # hold earlier replies back, too: the service must not learn how far the store has come
                fate = self._picked[1]
                self._proxy.hit.set()
                if fate == "drop":
                    return
                if fate == "garble":
                    data = b"\x00nonsense\r\n"
                while fate == "delay" and not self._proxy.release.is_set():
                    await asyncio.sleep(0.005)
                self._picked = None
            self._writer.write(data)
            await self._writer.drain()


async def _commands(reader: asyncio.StreamReader) -> AsyncIterator[list[bytes]]:
    """The commands that arrive on a connection."""
    parser = hiredis.Reader()
    while data := await reader.read(1 << 16):
        parser.feed(data)
        while (command := parser.gets()) is not False:
            yield command
