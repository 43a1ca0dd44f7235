"""The scripts of the drift stream in Python against those in Lua: the same calls, the same replies and streams."""

import random
import re

from core.config import Config
from service.store.catalog import Catalog
from service.store.drift import drift
from service.store.drift.drift import NOTHING, DriftStream
from service.store.drift.events import HELD_BACK, JOINED, StreamItem
from service.store.keys import DRIFT, DRIFT_ALARMS, DRIFT_PUBLISHED, DRIFT_UNPUBLISHED, TOMBSTONES, ModelKeys
from service.store.log import alarm_index
from service.store.log.alarm_index import AlarmIndex, Entered
from service.store.redis.connection import Call
from tests.service.store_fixtures import by_name, connection, server  # noqa: F401  fixtures
from tests.simulator import drift_scripts
from tests.simulator.scripts import Scripts
from tests.simulator.test_scripts import Both

CONFIG = Config.parse({"algorithm": "rls", "task": "regression", "features": ["a"]}).canonical.encode()
SEQUENCES, CALLS = 40, 30


def _alarms(draw, incarnation):
    """How far some replica believes to have published, and alarms of a model after that, or from before on."""
    after = draw.choice([NOTHING, *((version, draw.randrange(2), draw.randrange(4)) for version in range(1, 6))])
    start = draw.choice([NOTHING, after])
    reaches = [(version, index, joined) for version in range(1, 6) for index in range(2) for joined in range(4)]
    sent = [reach for reach in reaches if reach > start and draw.random() < 0.9][: draw.randrange(20)]
    return after, [_item(draw, reach, incarnation) for reach in sent]


def _item(draw, reach, incarnation):
    version, index, joined = reach
    mark = JOINED if joined else HELD_BACK if version == 3 else ""
    body = b"" if joined and draw.random() < 0.3 else b"%d" % (10 * version + joined)
    return StreamItem(reach, f"{incarnation}-{version}-{index}", "class_mean", 5, mark, body)


def _undated(values):
    """What an entry holds, without the time of day."""
    return [re.sub(rb"\d{13}", b"time", value) for value in values]


async def _index(draw, both, name, incarnation):
    """Something is done with the index of unpublished alarms."""
    index, entered = AlarmIndex(both), Entered(name, incarnation, "w")
    await index.left(draw.choice((0, 10**6)))
    if draw.random() < 0.5:
        await both.one(Call(alarm_index._ENTER, (DRIFT_UNPUBLISHED,), [str(entered)]))
    await index.remove([entered, Entered("n", "i", "w")], draw.choice((0, 10**6)))


async def test_python_and_lua_publish_alike(connection, monkeypatch):  # noqa: F811  the fixture
    """Repeated, late and partial alarms, a model that is deleted, a stream that is full, and those without labels."""
    now = int((await connection.ask(("TIME",)))[0][0]) * 1000
    scripts = Scripts(lambda: now)
    drift_scripts.teach(scripts)
    both = Both(connection, scripts)
    for seed in range(SEQUENCES):
        draw, name, incarnation = random.Random(seed), f"m{seed}", f"i{seed}"
        stream = DriftStream(both, both, kept=draw.choice((7, 100)), wait_s=0.1)
        await Catalog(both).create(name, incarnation, CONFIG)
        for _ in range(CALLS):
            await stream.publish(name, incarnation, *_alarms(draw, incarnation))
            if draw.random() < 0.2:
                monkeypatch.setattr(drift, "UNLABELLED_PAUSE_MS", draw.choice((-(10**9), 10**9)))
                await stream.add_unlabelled(name, incarnation, draw.randrange(9), 5, b'{"kind":"unlabelled"}')
            if draw.random() < 0.2:
                await _index(draw, both, name, incarnation)
            if draw.random() < 0.02:
                await Catalog(both).delete(name)
        await AlarmIndex(both).remove([Entered(name, incarnation, "w")], 0)
        for key in (DRIFT_PUBLISHED, DRIFT_ALARMS):
            (kept,) = await connection.ask(("HGETALL", key))
            assert by_name(kept) == scripts.data.hashes.get(key, {})
        for key in (DRIFT_UNPUBLISHED, TOMBSTONES):
            (kept,) = await connection.ask(("ZRANGE", key, 0, -1))
            assert {*kept} == {*scripts.data.scores.get(key, {})}
        for key in (DRIFT, ModelKeys(name, incarnation).unlabelled):
            (real,) = await connection.ask(("XRANGE", key, "-", "+"))
            mine = [fields[1::2] for _, fields in sorted(scripts.data.logs.get(key, {}).items())]
            assert [_undated(flat[1::2]) for _, flat in real] == [*map(_undated, mine)]
    assert SEQUENCES * CALLS < both.compared
