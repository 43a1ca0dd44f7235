"""The scripts in Python against the scripts in Lua: the same calls, the same replies, on Redis and on Valkey."""

import contextlib
import random
import re

import pytest

from core.model import STATE_VERSION
from service.errors import Recreated
from service.store.catalog import Catalog
from service.store.expiry import Expiry
from service.store.keys import ModelKeys
from service.store.log.appends import Answers, Append, NamedState, SegmentIn
from service.store.log.log import Log
from service.store.states import copies
from service.store.states.copies import Origin
from service.store.states.pieces import digest
from service.store.states.snapshots import SnapshotInfo, Snapshots
from service.store.states.states import StateLost, States
from service.store.summaries import SummaryWrite
from tests.service.store_fixtures import connection, server  # noqa: F401  fixtures
from tests.simulator.scripts import Scripts

TIMES = re.compile(rb"\d{13}")
SEQUENCES, CALLS = 120, 40
STATES = (b"one state", b"two state")


class Both:
    """A connection to a real server that compares every reply with the Python's."""

    def __init__(self, real, plain):
        self._real, self._plain = real, plain
        self.compared = 0

    async def run(self, calls, *, quick=False, safety=None, large_bytes=0):
        replies = await self._real.run(calls, quick=quick, large_bytes=large_bytes)
        for call, reply in zip(calls, replies, strict=True):
            assert _bare(reply) == _bare(self._plain.call(call)), call
            self.compared += 1
        return replies

    def node_key(self, _):
        return ""

    async def lose(self, key):
        """Drop a key from both."""
        await self._real.ask(("UNLINK", key))
        self._plain.data.unlink(key)

    async def one(self, call):
        return (await self.run([call]))[0]

    async def ask(self, *commands):
        replies = await self._real.ask(*commands)
        for command, reply in zip(commands, replies, strict=True):
            mine = self._plain.command(command)
            order = sorted if command[0] == "HVALS" else lambda found: found
            assert command[0].startswith("Z") or order(_bare(reply)) == order(_bare(mine)), command
            self.compared += 1
        return replies


def _bare(reply):
    """A reply without the time of day."""
    if isinstance(reply, list | tuple):
        return [_bare(part) for part in reply]
    if isinstance(reply, int):
        return 0 if reply > 10**12 else reply
    return TIMES.sub(b"time", reply) if isinstance(reply, bytes) else reply


def _other(state_version):
    """One of two state versions by the other."""
    return 2 * STATE_VERSION + 1 - state_version


class Writer:
    """Somebody who appends, reads on and takes snapshots, and is not always up to date."""

    def __init__(self, draw, name, store, number):
        self._draw, self._name, self._store, self._id = draw, name, store, f"w{number}"
        self._version, self._uid, self._incarnation = 0, "i0", "i0"
        self._sequence, self._last = 0, None
        self._state_version = STATE_VERSION

    async def step(self):
        """One call, most often an append."""
        weights = {"append": 8, "again": 2, "read": 2, "record": 2, "snapshot": 2, "summarise": 2}
        weights |= {
            "state": 1,
            "lookup": 1,
            "trim": 1,
            "expire": 1,
            "delete": 0.3,
            "lose": 0.3,
            "copy": 0.5,
        }
        kind = self._draw.choices([*weights], [*weights.values()])[0]
        await getattr(self, f"_{kind}")()

    def _segment(self):
        draw = self._draw
        rows = draw.choice((1, 1, 2, 3))
        count = draw.choice((0, 1, rows))
        ids = tuple(draw.choice("abcdefgh") for _ in range(count))
        pending = draw.choice((None, None, "p"))
        state = None if ids or draw.random() < 0.6 else NamedState(digest(draw.choice(STATES)), len(STATES[0]))
        return SegmentIn(bytes(draw.randrange(30)), ids, tuple(draw.choice("xxxxy") for _ in ids), rows, pending, state)

    async def _append(self):
        self._sequence += 1
        draw = self._draw
        self._last = Append(
            self._name,
            self._incarnation,
            self._version,
            self._uid,
            f"w{draw.choice('012')}" if draw.random() < 0.05 else self._id,
            self._sequence,
            f"u{draw.randrange(10**9)}",
            tuple(self._segment() for _ in range(draw.choice((1, 1, 2, 5)))),
            id_ttl_ms=draw.choice((0, 60_000, 60_000, 60_000)),
            id_cap=draw.choice((3, 1000)),
            max_bytes=draw.choice((1, 100, 10_000)),
            summary=self._summary() if draw.random() < 0.3 else b"",
            state_version=_other(self._state_version) if draw.random() < 0.02 else self._state_version,
        )
        await self._send()

    def _summary(self):
        return b"%d:17:of %s" % (self._version, self._id.encode())

    async def _send(self):
        ((answer,), _) = await self._store.log.exchange([self._last])
        if answer.code == "ok" and answer.complete:
            if self._draw.random() < 0.8:
                self._version, self._uid = answer.head, answer.head_uid
        elif answer.code == "other":  # as the first append had it
            self._state_version = _other(self._last.state_version)
        elif answer.code != "ok":
            await self._catch_up()

    async def _again(self):
        if self._last is not None:
            await self._send()

    async def _read(self):
        limits = (self._draw.choice((1, 200, 10_000)), self._draw.choice((1, 3, 100)))
        more = await self._store.log.read_after(self._name, self._incarnation, self._version, self._uid, *limits)
        if more.code == "ok" and more.entries:
            self._version, self._uid = more.entries[-1].version, more.entries[-1].uid
        elif more.code != "ok":
            await self._catch_up()

    async def _catch_up(self):
        meta = await self._store.catalog.read(self._name)
        if meta is None:
            fresh = f"i{self._draw.randrange(10**6)}"
            await self._store.catalog.create(self._name, fresh, b"{}", self._draw.choice((b"", b"[1]")))
            meta = await self._store.catalog.read(self._name)
        if self._draw.random() < 0.9:
            self._version, self._uid, self._incarnation = meta.version, meta.uid, meta.incarnation

    async def _record(self):
        found = [(i, self._draw.randrange(self._version + 1), b"told:") for i in self._draw.sample("abcdefgh", 3)]
        await self._store.log.record_answers([Answers(self._name, self._incarnation, self._version, self._uid, found)])

    async def _summarise(self):
        least = self._version + self._draw.choice((-2, 0, 1, 1, 1))
        write = SummaryWrite(self._name, self._incarnation, self._version, self._uid, least, self._summary())
        await self._store.catalog.write_summaries([write])
        await self._store.catalog.read(self._name)

    async def _expire(self):
        await self._store.expiry.sweep([(self._name, self._incarnation)], self._draw.choice((1, 2, 1000)))

    async def _lookup(self):
        await self._store.log.lookup(self._name, self._incarnation, [*"abcdefghab"])

    async def _snapshot(self):
        blob = bytes(self._draw.randrange(50))
        info = SnapshotInfo(self._version, self._uid, 0, 0, len(blob), digest(blob), self._state_version)
        keep, guard = self._draw.choice((1, 2, 3)), self._draw.random() < 0.3
        await self._store.snapshots.write(self._name, self._incarnation, info, blob, keep, guard=guard)
        for kept in await self._store.snapshots.list(self._name, self._incarnation):
            await self._store.snapshots.read(self._name, self._incarnation, kept)

    async def _trim(self):
        """What only a bug would do, seen from the other side: a version from before the log begins."""
        self._version = max(0, self._version - self._draw.randrange(4))

    async def _state(self):
        state = self._draw.choice(STATES)
        with contextlib.suppress(Recreated):
            await self._store.states.write(self._name, self._incarnation, digest(state), state)
        for state in STATES:
            with contextlib.suppress(StateLost):
                await self._store.states.read(self._name, self._incarnation, digest(state), len(state))

    async def _lose(self):
        """The store has lost the model, but not its log."""
        await self._store.both.lose(ModelKeys(self._name, "").meta)
        await self._store.catalog.deleted([(self._name, self._incarnation)])

    async def _copy(self):
        """A copy to this name, which is free now and then."""
        blob, incarnation = self._draw.choice(STATES), f"c{self._draw.randrange(10**9)}"
        info = SnapshotInfo(0, incarnation, 3, 17, len(blob), digest(blob), self._state_version)
        origin = Origin("other", "i9", 4, self._draw.choice(("", "a key")))
        copy = copies.Copy(self._name, incarnation, b"{}", origin, b"[1]", info)
        found, from_there = await copies.write(self._store.both, copy, blob)
        assert found != incarnation or from_there == origin
        await self._catch_up()

    async def _delete(self):
        await self._store.catalog.delete(self._name)


class Parts:
    def __init__(self, both):
        self.both = both
        self.log, self.catalog, self.snapshots, self.states = Log(both), Catalog(both), Snapshots(both), States(both)
        self.expiry = Expiry(both)


@pytest.mark.parametrize("part", range(4))
async def test_python_and_lua_answer_alike(connection, part):  # noqa: F811  the fixture
    """Random appends, retries, reads, records, snapshots, summaries and deletions of three writers of one model."""
    codes = 0
    for seed in range(part * SEQUENCES // 4, (part + 1) * SEQUENCES // 4):
        draw = random.Random(seed)
        now = int((await connection.ask(("TIME",)))[0][0]) * 1000
        both = Both(connection, Scripts(lambda now=now: now))
        store, name = Parts(both), f"m{seed}"
        await store.catalog.create(name, "i0", b"{}")
        writers = [Writer(draw, name, store, number) for number in range(3)]
        for _ in range(CALLS):
            await draw.choice(writers).step()
        log = ModelKeys(name, writers[0]._incarnation).log
        real = (await connection.ask(("XRANGE", log, "-", "+")))[0]
        mine = both._plain.data.logs.get(log, {})
        assert [b"%d-0" % version for version in mine] == [entry_id for entry_id, _ in real]
        assert [_bare(fields) for fields in mine.values()] == [_bare(flat) for _, flat in real]
        codes += both.compared
    assert SEQUENCES // 4 * CALLS < codes
