"""A backup of many models, in frames, one model after the other, each at one version.

The order within a model is what makes it consistent. Tracked predictions are read first, then the log to its head, then
the state is taken at that version v, and remembered ids are read last, those of versions up to v. So

- a prediction whose label came in between, and was learned by v, is in the backup twice: whoever restores it finds the
  id of its label, and drops it. Read after the state, one whose label is learned after v would be in neither;
- an id of a version up to v is in the store when the ids are read: read before the state, one that is learned in
  between would be missing, and its row learned again.

What the store has not been told yet of answers and later alarms is filled in from the replica. Nothing is written.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from importlib.metadata import version as version_of
from typing import Any, NamedTuple

from core.machine import STATE_VERSION
from service.errors import ModelDown, NotFound, OnepassError, Recreated, RequestConflict, Unavailable
from service.runtime.backoff import Backoff
from service.runtime.engine import Engine
from service.runtime.replica import Replica
from service.runtime.threads import in_thread_if_large
from service.store.backup import parts, reading
from service.store.backup.frames import FrameWriter
from service.store.backup.parts import Begin, BrokenOff, End, Events, Header, Item, LeftOut, Page, Standing, Unlabelled
from service.store.events import Event, event
from service.store.keys import ModelKeys, text
from service.store.pieces import PIECE_BYTES, digest

NAMES = 100
"""Models asked for at once."""
AGAIN_S, AGAIN_S_MAX, WAIT_S = 0.1, 2.0, 60.0
"""Pauses before a model is read again, and how long all of them may take for one."""
_FOUND = ("ok", "trimmed", "newer")
"""What the log says of a version that is on it."""


class _Moved(Exception):
    """The log has lost the version that was read: a failover came in between."""


class _Patience:
    """Pauses before something is tried again."""

    def __init__(self) -> None:
        self._backoff, self._clock = Backoff(AGAIN_S, AGAIN_S_MAX), asyncio.get_running_loop().time
        self._until = self._clock() + WAIT_S

    async def wait(self, error: Unavailable) -> None:
        """Pause.

        Raises:
            Unavailable: ``error``, after WAIT_S.
        """
        if self._clock() > self._until:
            raise error
        await self._backoff.wait()


class _Taken(NamedTuple):
    """A model at one version: what it is, and what the store may not have of it yet."""

    version: int
    uid: str
    time_ms: int
    rows: int
    state: bytes
    digest: str
    answers: dict[str, bytes]
    newest: Event | None


class BackupMaker:
    """Makes one backup.

    Args:
        engine: of the models.
        wanted: whether a model is to be in it.
        pattern: how its header describes that.
        after: the models after this name; empty: all.
    """

    def __init__(self, engine: Engine, wanted: Callable[[str], bool], pattern: str = "*", after: str = "") -> None:
        self._engine, self._wanted, self._pattern, self._after = engine, wanted, pattern, after
        self._frames, self._stopping = FrameWriter(), False
        self._connection = engine.store.connection

    async def frames(self) -> AsyncGenerator[bytes]:
        """The backup, frame by frame; where it breaks off, its last frame says why."""
        header = Header(version_of("onepass"), STATE_VERSION, int(time.time() * 1000), self._pattern, self._after)
        yield self._frame(b"H", header)
        models = left_out = 0
        try:
            async for name in self._names():
                async for kind, payload in self._patiently(name):
                    if self._stopping:
                        raise Unavailable("the service stops")
                    models, left_out = models + (kind == b"E"), left_out + (kind == b"L")
                    yield await in_thread_if_large(len(payload), self._frames.frame, kind, payload)
        except Unavailable as error:
            yield self._frame(b"F", BrokenOff(error.detail))
            return
        yield self._frame(b"T", parts.Trailer(models, left_out))

    def stop(self) -> None:
        """Break off: the service stops."""
        self._stopping = True

    def _frame(self, kind: bytes, part: Any) -> bytes:
        return self._frames.frame(kind, parts.encode(part))

    async def _names(self) -> AsyncIterator[str]:
        after: str | None = self._after or None
        while True:
            found, after = await self._listed(after)
            for name, _ in found:
                if self._wanted(name):
                    yield name
            if after is None:
                return

    async def _listed(self, after: str | None) -> tuple[list[tuple[str, str]], str | None]:
        """A page of the models there are.

        Raises:
            Unavailable: the store is away for long.
        """
        patience = _Patience()
        while True:
            try:
                return await self._engine.store.catalog.names(NAMES, after)
            except Unavailable as error:
                await patience.wait(error)

    async def _patiently(self, name: str) -> AsyncIterator[tuple[bytes, bytes]]:
        """The parts of a model, begun again while the store is away or others hold too much memory.

        Raises:
            Unavailable: they do so for long.
        """
        patience = _Patience()
        while True:
            try:
                async for found in self._of_model(name):
                    yield found
            except NotFound:
                pass  # deleted meanwhile
            except ModelDown as error:
                yield b"L", parts.encode(LeftOut(name, error.detail[:2000]))
            except (_Moved, Recreated, RequestConflict, Unavailable) as error:
                detail = error.detail if isinstance(error, OnepassError) else "its log keeps losing its tail"
                await patience.wait(Unavailable(f"model {name} could not be read: {detail}"))
                continue
            return

    async def _of_model(self, name: str) -> AsyncIterator[tuple[bytes, bytes]]:
        """The parts of a model.

        Raises:
            NotFound, ModelDown, Unavailable, _Moved: it cannot be read, or not as it was a moment ago.
        """
        store, meta = self._engine.store, await self._engine.store.catalog.read(name)
        if meta is None:
            return
        keys = ModelKeys(name, meta.incarnation)
        yield b"M", parts.encode(Begin(name, meta.incarnation))
        _, expired = await self._engine.pending.counts(name, meta.incarnation)
        pending = 0
        async for items in reading.pages(self._connection, keys.pending, keys.pending_due):
            pending += len(items)
            yield b"P", await _page(items)
        replica = await self._at_head(name)
        if replica.incarnation != meta.incarnation:
            raise Recreated(f"model {name} was created again")
        with self._engine.state_budget.held(replica.machine.nbytes):
            taken = await _take(replica)
            kept = await reading.kept(self._connection, name, meta.incarnation)
            standing = Standing(
                taken.version, taken.uid, taken.time_ms, taken.rows, meta.config, meta.created_ms, expired, kept.origin,
                _up_to(kept.published, taken.newest), len(taken.state), taken.digest, STATE_VERSION,
            )  # fmt: skip
            yield b"S", parts.encode(standing)
            for at in range(0, len(taken.state), PIECE_BYTES):
                yield b"C", taken.state[at : at + PIECE_BYTES]
        taken = taken._replace(state=b"")
        ids = events = unlabelled = 0
        async for items in reading.pages(self._connection, keys.idempotency, keys.idempotency_expiry):
            own = await in_thread_if_large(sum(len(value) for *_, value in items), _cut, items, taken)
            ids += len(own)
            if own:
                yield b"I", await _page(own)
        async for found in reading.events(self._connection, keys.drift, keys.alarms, taken.version):
            events += len(found)
            yield b"D", parts.encode(Events([_event(known, later, taken.newest) for known, later in found]))
        async for early in reading.unlabelled(self._connection, keys.unlabelled, taken.version):
            unlabelled += len(early)
            yield b"U", parts.encode(Unlabelled(early))
        if await store.log.joins(name, meta.incarnation, taken.version, taken.uid) not in _FOUND:
            raise _Moved
        yield b"E", parts.encode(End(pending, ids, events, unlabelled))

    async def _at_head(self, name: str) -> Replica:
        """A replica that has everything that is on the log now: the one in memory, or one that is loaded aside."""
        replica = self._engine.models.peek(name)
        if replica is None:
            return await self._engine.loader.load(name)
        await replica.inbox.sync()
        return replica


async def _take(replica: Replica) -> _Taken:
    async with replica.held():
        machine, version, uid = replica.machine, replica.version, replica.uid
        stamp = {"incarnation": replica.incarnation, "version": version, "uid": uid}
        time_ms, rows, drift = replica.time_ms, machine.rows, machine.outbox.newest
        state = await in_thread_if_large(machine.nbytes, machine.to_bytes, stamp)
    answers = {identity: answer for identity, _, answer in replica.answers.up_to(version)}
    checksum = await in_thread_if_large(len(state), digest, state)
    newest = None if drift is None else event(replica.name, replica.incarnation, drift)
    return _Taken(version, uid, time_ms, rows, state, checksum, answers, newest)


async def _page(items: list[Item]) -> bytes:
    return await in_thread_if_large(sum(len(value) for *_, value in items), parts.encode, Page(items))


def _cut(items: list[Item], taken: _Taken) -> list[Item]:
    """Ids of versions up to that of the state, each with its answer."""
    own: list[Item] = []
    for identity, due, record in items:
        if int(record.partition(b":")[0]) <= taken.version:
            lacking = record.endswith(b":") and record.count(b":", 0, len(record)) == 4
            own.append((identity, due, record + taken.answers.get(text(identity), b"") if lacking else record))
    return own


def _event(known: Any, later: bytes, newest: Event | None) -> Any:
    """An event with the later alarms that it had at the version of the state: only the newest one can have got more."""
    place = (known.position[0], known.position[1])
    if newest is not None and place == tuple(newest.key):
        later = b"%d %b" % (newest.joined, newest.alarms) if newest.joined else b""
    return place, known.time_ms, known.body, known.held_back, later


def _up_to(published: str, newest: Event | None) -> str:
    """How far the events up to the version of the state are published, where ``published`` may be of a later one."""
    if not published or newest is None:
        return ""
    place, joined = published.split(" ")
    version, index = map(int, place.split("-"))
    version, index, count = min((version, index, int(joined)), (*newest.key, newest.joined))
    return f"{version}-{index} {count}"
