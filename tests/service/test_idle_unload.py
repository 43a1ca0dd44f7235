"""A model that only other services are asked for leaves memory; one that is needed here, by whomever, stays."""

import asyncio
import random

import pytest
import pytest_asyncio

from service.api.live import producer
from service.runtime.idle_unload import IdleUnload
from tests.service.api_fixtures import features
from tests.service.event_client import EventClient
from tests.simulator.clock import Loop

of_a_service = pytest.mark.asyncio(loop_scope="module")
ROW = {"features": features(0), "label": "UP"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(start):
    """Two services on one store; neither unloads anything by itself."""
    return [await start(idle_unload_s=0) for _ in range(2)]


async def _until(seen):
    async with asyncio.timeout(30):
        while not seen():
            await asyncio.sleep(0.005)


def _models(api):
    return api.app.state.context.engine.models


async def _followed(pair):
    """A model that the first service learns and the second one follows: path, name, replica of the second."""
    first, second = pair
    path = await first.learnt()
    name = path.removeprefix("/models/")
    await second.get(path)
    replica = _models(second).peek(name)
    await first.post(f"{path}/feedback", ROW)
    await _until(lambda: replica.version == 4)
    return path, name, replica


def _unload(api):
    """As if whatever is followed now had been for long."""
    _models(api).unload_followed(asyncio.get_running_loop().time())


@of_a_service
async def test_a_model_that_is_only_followed_leaves_memory(pair):
    """The next request loads it again, at the head of its log; until then its log is not listened to."""
    path, name, _ = await _followed(pair)
    second, before = pair[1], pair[1].app.state.context.engine.stats.idle_unloads
    _unload(second)
    assert (None, before + 1) == (_models(second).peek(name), second.app.state.context.engine.stats.idle_unloads)
    assert name not in second.app.state.context.engine.notices._wanted
    await pair[0].post(f"{path}/feedback", ROW)
    assert await pair[0].state(path) == await second.state(path)
    assert f"onepass_idle_unloads_total {before + 1}" in (await second.ask("GET", "/metrics")).text


@of_a_service
async def test_time_counts_from_the_first_entry_that_nobody_asked_for(pair):
    """A model that was asked for since then stays, and so does one whose log has not grown."""
    first, second = pair
    path, name, replica = await _followed(pair)
    since = replica.followed_since
    await first.post(f"{path}/feedback", ROW)
    await _until(lambda: replica.version == 5)
    assert since == replica.followed_since > 0
    _models(second).unload_followed(since - 0.001)
    assert replica is _models(second).peek(name)
    await second.post(f"{path}/predict", {"features": features(0)})
    _unload(second)
    assert (replica, 0.0) == (_models(second).peek(name), replica.followed_since)
    _unload(first)
    assert name in _models(first).names_loaded


@of_a_service
@pytest.mark.parametrize("need", ["reader", "lock", "alarms", "lost", "down", "request"])
async def test_a_model_that_is_needed_stays(pair, need):
    """By one who waits for a version, a thread that works on it, alarms to be published, a store that has lost it."""
    _, name, replica = await _followed(pair)
    second = pair[1]
    waits = asyncio.create_task(replica.reach(5)) if need == "reader" else None
    sync = replica.inbox.sync() if need == "request" else None
    if need == "lock":
        await replica.lock.acquire()
    elif need == "alarms":
        replica.published, replica.on_alarm = (-1, -1, -1), print
    elif need == "lost":
        replica.lost = True
    elif need == "down":
        replica.down = "a bug"
    await asyncio.sleep(0)
    _unload(second)
    assert replica is _models(second).peek(name)
    replica.lost, replica.down, replica.published = False, None, replica.machine.outbox.last
    if need == "lock":
        replica.lock.release()
    if waits is not None:
        waits.cancel()
    if sync is not None:
        await sync
    await asyncio.sleep(0)
    _unload(second)
    assert _models(second).peek(name) is None


@of_a_service
async def test_a_model_that_a_stream_shows_counts_as_asked_for(pair, monkeypatch):
    """Where it has left memory all the same the stream goes on."""
    monkeypatch.setattr(producer, "TURN_S", 0.02)
    monkeypatch.setattr(producer, "SHARE", 1e9)
    first, second = pair
    path, name, replica = await _followed(pair)
    async with EventClient(second.app, f"{path}/stream", {}) as client:
        await _shown(client, 4)
        await first.post(f"{path}/feedback", ROW)
        await _until(lambda: replica.version == 5 and replica.followed_since == 0)
        _models(second)._drop(name)
        await first.post(f"{path}/feedback", ROW)
        await _shown(client, 6)


async def _shown(client, version):
    while (frame := await client.next()).event != "model" or frame.data["version"] != version:
        pass


class _Models:
    """What it is told."""

    def __init__(self):
        self.told = []

    def unload_followed(self, since):
        self.told.append(since)


@pytest.mark.parametrize(("idle_s", "told"), [(60, [-54, -48, -42, -36]), (0, [])])
def test_models_are_looked_at_ten_times_within_the_time(idle_s, told):
    """A model leaves at most a tenth late; without a time none ever does, and the task does not end."""
    loop, models = Loop(random.Random(1), 0.0), _Models()

    async def watch():
        task = asyncio.get_running_loop().create_task(IdleUnload(models, idle_s).run())
        await asyncio.sleep(25)
        assert not task.done()
        task.cancel()

    loop.run_until_complete(watch())
    loop.close()
    assert told == models.told
