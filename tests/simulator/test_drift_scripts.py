"""The scripts of the drift streams in Python against those in Lua: the same calls, the same replies and streams."""

import random
import re

from core.config import Config
from service.store import unlabelled
from service.store.catalog import Catalog
from service.store.drift import NOTHING, Batch, DriftStreams, forget
from service.store.events import Event, EventKey, Reached
from service.store.keys import DRIFT, DRIFT_ALARMS, DRIFT_MARKS, ModelKeys
from service.store.unlabelled import UnlabelledEvents
from tests.service.store_fixtures import connection, server  # noqa: F401  fixtures
from tests.simulator import drift_scripts
from tests.simulator.scripts import Scripts
from tests.simulator.test_scripts import Both

CONFIG = Config.parse({"algorithm": "rls", "task": "regression", "features": ["a"]}).canonical.encode()
SEQUENCES, CALLS = 40, 30


def _batch(draw, name, incarnation):
    """Some events of a model in their order, with some later alarms, after some of them or from the first one on."""
    keys = [EventKey(version, index) for version in range(1, 6) for index in range(2)]
    after = draw.choice([NOTHING, *(Reached(*key, draw.randrange(3)) for key in keys)])
    sent = [key for key in keys if key >= after[:2]][: draw.randrange(8)]
    return Batch(name, incarnation, after, tuple(_event(draw, key, incarnation) for key in sent))


def _event(draw, key, incarnation):
    joined, held_back = draw.choice((0, 0, 1, 2, 3)), key.version == 3
    return Event(
        key, f"{incarnation}-{key}", "class_mean", 5, f"{key}".encode(), held_back, joined, b"[%d]" % joined
    )  # fmt: skip


def _timeless(held):
    """A hash without the time of day in its names and values."""
    return {re.sub(rb"\d{13}", b"time", name): re.sub(rb"\d{13}", b"time", value) for name, value in held.items()}


def _undated(values):
    """What an entry holds, without the time of day."""
    return [re.sub(rb"\d{13}", b"time", value) for value in values]


async def test_python_and_lua_publish_alike(connection, monkeypatch):  # noqa: F811  the fixture
    """Repeated, late and partial batches of alarms, a model that is deleted, streams that are full, and hints."""
    now = int((await connection.ask(("TIME",)))[0][0]) * 1000
    scripts = Scripts(lambda: now)
    drift_scripts.teach(scripts)
    both = Both(connection, scripts)
    for seed in range(SEQUENCES):
        draw, name, incarnation = random.Random(seed), f"m{seed}", f"i{seed}"
        streams = DriftStreams(both, both, model_max=draw.choice((3, 100)), service_max=100, wait_s=0.1)
        hints = UnlabelledEvents(both, 100)
        await Catalog(both).create(name, incarnation, CONFIG)
        for _ in range(CALLS):
            batch = _batch(draw, name, draw.choice((incarnation, incarnation, "other")))
            await draw.choice((streams.to_model, streams.to_service))(batch)
            if draw.random() < 0.2:
                monkeypatch.setattr(unlabelled, "PAUSE_MS", draw.choice((-(10**9), 10**9)))
                await hints.put(name, incarnation, draw.randrange(9), 5, b'{"kind":"unlabelled"}')
            if draw.random() < 0.03:
                await both.run([forget(name, incarnation)])
        for key in (DRIFT_MARKS, DRIFT_ALARMS, ModelKeys(name, incarnation).alarms):
            (kept,) = await connection.ask(("HGETALL", key))
            assert _timeless(kept) == _timeless(scripts.data.hashes.get(key, {}))
        for key in (DRIFT, ModelKeys(name, incarnation).drift, ModelKeys(name, incarnation).unlabelled):
            (real,) = await connection.ask(("XRANGE", key, "-", "+"))
            mine = [fields[1::2] for _, fields in sorted(scripts.data.logs.get(key, {}).items())]
            assert [_undated([*fields.values()]) for _, fields in real] == [*map(_undated, mine)]
    assert SEQUENCES * CALLS < both.compared
