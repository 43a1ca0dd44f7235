"""How far behind its logs a service is: what readiness and metrics say of it, and how its rows are answered."""

import asyncio
from dataclasses import replace

import pytest

from service.errors import StoreDown, Unavailable
from service.runtime.engine import LAG_S_MAX
from service.runtime.replicas.follower import READS_MAX
from service.runtime.replicas.log_reader import LogReader
from tests.service.api_fixtures import features, problem
from tests.service.waiting import until


async def _lagging(api, path, entries, seconds):
    """Let a replica know of entries that nobody has appended."""
    replica = await api.engine.models.get(path.removeprefix("/models/"))
    replica.progress.note_head(replica.version + entries)
    replica.progress.since = asyncio.get_running_loop().time() - seconds
    return replica


async def test_lag_is_told_and_late_replicas_are_not_ready(start):
    """One model of three that is late is its own trouble; two of three are the service's."""
    api = await start()
    paths = [await api.learnt() for _ in range(3)]
    api.engine.follower._compare = lambda *_: None  # the sweep would find the truth
    await _lagging(api, paths[0], 7, LAG_S_MAX + 1)
    shown = await api.get("/readyz")
    assert (7, True, True) == (shown["lag"], shown["checks"]["lag"], shown["ready"])
    await _lagging(api, paths[1], 9, LAG_S_MAX + 1)
    answer = await api.ask("GET", "/readyz")
    assert (503, 9, False) == (answer.status_code, answer.json()["lag"], answer.json()["checks"]["lag"])
    told = (await api.ask("GET", "/metrics")).text.splitlines()
    names = [path.removeprefix("/models/") for path in paths]
    assert "onepass_models_lagging 2.0" in told
    assert "onepass_lag_entries 9.0" in told
    assert f'onepass_model_lag_entries{{model="{names[1]}"}} 9.0' in told
    assert not any(names[2] in line for line in told if line.startswith("onepass_model_lag"))


async def test_a_lag_that_is_none_ends_with_the_next_look(api):
    """A notice of entries that a failover has lost meanwhile is dropped when the head is read."""
    path = await api.learnt()
    replica = await _lagging(api, path, 5, 0)
    engine = api.engine
    await engine.follower._look([replica.name])
    assert (0, False, 0.0) == (replica.lag, replica.behind, replica.progress.since)
    assert [] == engine.lags


async def test_a_row_is_answered_by_a_replica_that_is_far_behind(start):
    """What others appended before the row is more than one reply holds: it reads on up to the row, not over it."""
    api, other = await start(), await start()
    path = await api.learnt()
    engine = api.engine
    engine.follower._note = lambda *_: None  # notices and the sweep would find what others append
    for row in range(3, 7):
        await other.post(f"{path}/feedback", {"features": features(row), "label": "UP"})
    replica = await engine.models.get(path.removeprefix("/models/"))
    shared = replica.inbox._shared
    replica.inbox._shared = replace(shared, limits=replace(shared.limits, read_bytes_max=1))
    assert 3 == replica.version
    answer = await api.post(f"{path}/feedback", {"features": features(7), "label": "UP"})
    assert (8, 8) == (answer["version"], answer["rows"])
    assert await other.state(path) == await api.state(path)


async def _behind(start, monkeypatch, **settings):
    """A replica that reads on by one entry at a time, 5 entries behind, and another service that appends."""
    api, other = await start(**settings), await start()
    path = await api.learnt()
    engine = api.engine
    engine.follower._note = lambda *_: None  # notices and the sweep would find what others append
    replica, log = await engine.models.get(path.removeprefix("/models/")), engine.store.log
    read_after = log.read_after
    monkeypatch.setattr(log, "read_after", lambda *asked, **how: read_after(*asked[:-1], 1, **how))

    async def append():
        await other.post(f"{path}/feedback", {"features": features(4), "label": "UP"})

    for _ in range(5):
        await append()
    return api, path, replica, append


async def test_reading_on_ends_though_others_go_on_appending(start, monkeypatch):
    """As far as the log had come when it was asked for; rows that are sent here meanwhile have their turn."""
    api, path, replica, append = await _behind(start, monkeypatch)
    apply, reading = LogReader.apply, asyncio.Event()

    async def outrun(self, model, *entries):
        if model is replica:
            reading.set()
            await append()
        await apply(self, model, *entries)

    monkeypatch.setattr(LogReader, "apply", outrun)
    async with asyncio.timeout(20):
        reads = asyncio.gather(*(api.get(path, params=how) for how in ({"consistency": "strong"}, {"min_version": 4})))
        await reading.wait()
        learned = await api.post(f"{path}/feedback", {"features": features(4), "label": "UP"})
        strong, least = await reads
    assert 8 <= strong["version"] < 40
    assert 4 <= least["version"] < 40
    assert 9 <= learned["version"] < 40


async def test_a_read_of_a_replica_that_is_far_behind_takes_a_bounded_time(start, monkeypatch):
    """It is answered once its version is there, or told which is; the replica reads on meanwhile, and gets there."""
    api, path, replica, _ = await _behind(start, monkeypatch, wait_timeout_s=0.2)
    apply, go_on = LogReader.apply, asyncio.Event()

    async def held_up(self, model, *entries):
        await apply(self, model, *entries)
        if model is replica:
            await go_on.wait()

    monkeypatch.setattr(LogReader, "apply", held_up)
    async with asyncio.timeout(20):
        assert 4 == (await api.get(path, params={"min_version": 4}))["version"]
        for query in ({"min_version": 8}, {"consistency": "strong"}):
            assert 4 == problem(await api.ask("GET", path, params=query), 504)["version"]
        with pytest.raises(Unavailable, match="is at version 4"):
            await api.engine.caught_up(replica)
        patient = replica.inbox.sync()
        go_on.set()
        await patient
    assert 8 == replica.version == (await api.get(path, params={"consistency": "strong"}))["version"]


async def test_a_read_whose_reading_on_fails_says_why(start, monkeypatch):
    """At once: waiting longer brings no version."""
    api, path, _, _ = await _behind(start, monkeypatch)

    async def fail(*_, **how):
        raise StoreDown("no reply")

    monkeypatch.setattr(api.engine.store.log, "read_after", fail)
    for query in ({"min_version": 8}, {"consistency": "strong"}):
        assert "no reply" in problem(await api.ask("GET", path, params=query), 503)["detail"]


async def test_a_model_that_reads_on_for_long_leaves_the_others_theirs(start, monkeypatch):
    """However often it is noticed meanwhile, it reads on once at a time, and once more afterwards."""
    api, _, replica, append = await _behind(start, monkeypatch)
    follower, apply, go_on = api.engine.follower, LogReader.apply, asyncio.Event()
    monkeypatch.undo()
    del follower._note
    compare = follower._compare
    follower._compare = lambda one, *more: one is replica or compare(one, *more)  # the sweep would find what is left

    async def held_up(self, model, *entries):
        if model is replica:
            await go_on.wait()
        await apply(self, model, *entries)

    monkeypatch.setattr(LogReader, "apply", held_up)
    for _ in range(READS_MAX + 1):
        follower._note(replica, replica.version + 1)
        follower._flush()
    light = await api.learnt()
    other = await start()
    await other.post(f"{light}/feedback", {"features": features(4), "label": "UP"})
    async with asyncio.timeout(20):
        while (await api.get(light))["version"] < 4:
            await asyncio.sleep(0.01)
        assert 3 == replica.version
        await append()
        while replica.progress.head < 9 or follower._gathered:
            await asyncio.sleep(0.01)
        go_on.set()
        while replica.version < 9:
            await asyncio.sleep(0.01)


async def test_what_others_append_during_a_reload_is_read_after_it(start, monkeypatch):
    """Without another notice: the reload ends at the head that the log had when it began."""
    api, _, replica, append = await _behind(start, monkeypatch)
    engine, rebuild = api.engine, api.engine.loader._rebuild
    follower = engine.follower
    monkeypatch.undo()
    del follower._note
    follower._compare = lambda *_: None  # the sweep would find it
    follower._pull = lambda: None  # a reload is a step of the model's actor, which reads on afterwards

    async def outrun(loaded):
        await rebuild(loaded)
        await append()
        while replica not in follower._behind:
            await asyncio.sleep(0.01)

    monkeypatch.setattr(engine.loader, "_rebuild", outrun)
    async with asyncio.timeout(20):
        await engine.loader.reload(replica)
        assert 8 == replica.version
        del follower._pull
        follower._pull()
        while replica.version < 9:
            await asyncio.sleep(0.01)


async def test_a_look_at_a_store_that_hangs_takes_one_timeout(start, monkeypatch):
    """Its questions wait at the same time, so that /readyz tells soon."""
    api, asked = await start(), []

    async def hangs():
        asked.append(1)
        await until(lambda: len(asked) >= 3, 2)
        raise StoreDown("the store does not answer")

    for name in ("ping", "durability", "eviction_ok"):
        monkeypatch.setattr(api.engine.store.connection, name, hangs)
    await api.engine._look_at_store()
    assert 503 == (await api.ask("GET", "/readyz")).status_code
