"""Summaries follow their models: with appends, by the writer, on eviction, on stop; lists load nothing."""

import asyncio

import pytest

from service.errors import StoreDown
from service.runtime.replicas import summaries
from service.store.keys import ModelKeys
from service.store.summaries import decode
from tests.service.api_fixtures import DFOP, RLS, columnar, features, problem, running
from tests.service.runtime.test_newer_code import DEADLY_ROW, break_core
from tests.service.waiting import until

WAIT_S = 30.0
"""Bound of a wait that a failure would leave without an end."""


def name_of(path):
    return path.removeprefix("/models/")


async def line(api, path):
    """A model's line in the list, but for what only this process knows."""
    models = (await api.get("/models", params={"limit": 1000}))["models"]
    (found,) = [model for model in models if model["name"] == name_of(path)]
    return {name: value for name, value in found.items() if name != "rows_per_s"}


async def standing(api, path):
    """Its phase and rows, as the list has them."""
    found = await line(api, path)
    return found["phase"], found["rows"]


async def stored(api, path):
    """A model's record in the store, as it is."""
    return decode((await api.engine.store.catalog.read(name_of(path))).summary)


async def is_written(api, path, version):
    """Wait until the stored summary is of a version."""
    async with asyncio.timeout(WAIT_S):
        while (found := await stored(api, path)).version < version:
            await asyncio.sleep(0.02)
    assert version == found.version
    return found


async def learn(api, path, row):
    await api.post(f"{path}/feedback", {"features": features(row), "label": ("UP", "DOWN")[row % 2]})


@pytest.mark.parametrize("body", [DFOP, RLS], ids=["classification", "regression"])
async def test_the_writer_follows_the_model(api, body):
    """What was learned last is written without any further request; all of it is of one version."""
    path = await api.learnt(body, rows=7)
    found = await is_written(api, path, 7)
    shown = await api.get(path)
    metrics = shown["metrics"]
    score, best = ("accuracy", max) if body is DFOP else ("mse", min)
    baseline = best(span[score] for span in metrics["baselines"].values())
    assert (7, metrics["overall"][score], baseline, "steady") == found.figures[2:6]
    assert (metrics["paired"]["overall"]["mse"] if body is RLS else None) == found.figures.paired_score


async def test_a_stop_leaves_no_summary_behind(store_url):
    """The next process lists what the last one has learned."""
    async with running(store_url) as api:
        path = await api.learnt(DFOP, rows=5)
        before = await line(api, path)
    async with running(store_url) as api:
        assert (5, before) == (before["rows"], await line(api, path))
        assert 0 == api.engine.stats.loads


async def test_a_model_that_leaves_memory_is_summarised_at_once(api):
    """What it has learned since its last summary is written although nothing holds it any more."""
    path = await api.learnt(rows=6)
    models = api.engine.models
    assert 6 > (await stored(api, path)).version
    models._drop(name_of(path))
    assert models.peek(name_of(path)) is None
    await models.summaries.flush()
    assert 6 == (await stored(api, path)).version


async def test_a_busy_model_sends_a_summary_with_an_append_once_in_a_while(api, monkeypatch):
    """Not with every append, and then of the state before it; the writer has nothing to send."""
    path = await api.new()
    engine, sent, turns = api.engine, [], []
    append, write = engine.store.log.append, engine.store.catalog.write_summaries

    async def appended(requests, *more, **how):
        sent.extend((request.version, decode(request.summary)) for request in requests)
        return await append(requests, *more, **how)

    async def written(writes):
        turns.extend(writes)
        return await write(writes)

    monkeypatch.setattr(engine.store.log, "append", appended)
    monkeypatch.setattr(engine.store.catalog, "write_summaries", written)
    for row in range(30):
        await learn(api, path, row)
    riding = [(version, summary) for version, summary in sent if summary is not None]
    assert 30 == len(sent)
    assert [1] == [version for version, _ in riding][:1]  # the first append that finds the summary behind
    assert 15 > len(riding)
    assert all((version, version) == (summary.version, summary.figures.rows) for version, summary in riding)
    riding_before = len(riding)
    replica = engine.models.peek(name_of(path))
    replica.summary.rode = float("-inf")  # as a second later
    await learn(api, path, 30)
    assert (riding_before + 1, 30) == (len([1 for _, summary in sent if summary is not None]), sent[-1][1].version)
    assert 30 == (await stored(api, path)).version == replica.summary.written
    assert [] == [write for write in turns if write.name == name_of(path) and write.version == 30]


async def test_a_replica_that_follows_writes_when_the_process_that_appended_has_died(start, monkeypatch):
    """Its writer never ran again; the replica that followed stores what both knew."""
    one, other = await start(), await start()
    path = await one.new()
    await other.get(path)
    dead = one.engine.models.summaries
    monkeypatch.setattr(dead, "turn", lambda: asyncio.sleep(0))
    for row in range(4):
        await learn(one, path, row)
    await other.get(path, params={"min_version": 4})
    assert 4 == (await is_written(other, path, 4)).figures.rows


async def test_a_model_of_an_earlier_store_is_listed_without_figures(api):
    """What its meta tells, nothing loaded; once it is loaded its summary is written."""
    path = await api.learnt(DFOP, rows=3)
    engine = api.engine
    known = await line(api, path)
    await engine.models.summaries.flush()
    engine.models._drop(name_of(path))
    await engine.models.summaries.turn()
    await engine.store.connection.ask(("HDEL", ModelKeys(name_of(path), "").meta, "summary"))
    figures = dict.fromkeys(("rows", "score", "baseline", "error", "baseline_error"))
    unknown = {**known, **figures, "recent": []}
    assert (unknown, None) == (await line(api, path), engine.models.peek(name_of(path)))
    await api.get(path)
    assert ("steady", 3) == await standing(api, path)
    found = await until(lambda: stored(api, path))
    assert (3, 3) == (found.version, found.figures.rows)


async def test_a_model_out_of_service_is_listed_as_down_by_every_service(store_url):
    """With its last figures, without loading it; mended code brings it back by itself."""
    async with running(store_url) as other:
        with pytest.MonkeyPatch.context() as bug:
            break_core(bug)
            async with running(store_url) as api:
                path = await api.learnt(DFOP, rows=5)
                await is_written(api, path, 5)
                problem(await api.ask("POST", f"{path}/feedback", json=DEADLY_ROW), 503)
                assert ("down", 5) == await standing(api, path)
                async with asyncio.timeout(WAIT_S):
                    while (await line(other, path))["phase"] != "down":
                        await asyncio.sleep(0.02)
            async with running(store_url) as api:
                assert "down" == (await line(api, path))["phase"]
                problem(await api.ask("GET", path), 503)
        assert ("down", 5) == await standing(other, path)
        assert other.engine.models.peek(name_of(path)) is None
    async with running(store_url) as mended:
        assert 6 == (await mended.get(path))["rows"]
        assert ("steady", 6) == await standing(mended, path)
        assert "steady" == (await is_written(mended, path, 6)).figures.phase


async def test_a_model_that_cannot_be_loaded_is_listed_as_down(store_url):
    """The figures are those of its last summary."""
    async with running(store_url) as api:
        path = await api.learnt(DFOP, rows=4)
        await api.post(f"{path}/snapshots", status=201)
    with pytest.MonkeyPatch.context() as bug:
        bug.setattr("core.model.save.from_bytes", lambda *_: (_ for _ in ()).throw(RuntimeError("corrupt")))
        async with running(store_url) as api:
            assert "steady" == (await line(api, path))["phase"]
            problem(await api.ask("GET", path), 503)
            assert ("down", 4) == await standing(api, path)
            async with asyncio.timeout(WAIT_S):
                while (await stored(api, path)).figures.phase != "down":
                    await asyncio.sleep(0.02)
    async with running(store_url) as api:
        assert ("down", 4) == await standing(api, path)
        await api.get(path)
        assert "steady" == (await line(api, path))["phase"]


async def test_a_summary_is_not_taken_from_a_half_applied_entry(api, monkeypatch):
    """While the model is held the writer waits for its turn, and so does the list."""
    path = await api.learnt(rows=2)
    await is_written(api, path, 2)
    replica = api.engine.models.peek(name_of(path))
    writer = api.engine.models.summaries
    await api.post(f"{path}/feedback/batch", {**columnar(3), "labels": ["UP"] * 3})
    async with replica.lock:
        replica.model.own.rows_before_start += 100  # as a thread would, half way
        writer._changed[replica] = float("-inf")
        await writer.turn()
        assert 2 == (await stored(api, path)).version
        assert 2 == (await line(api, path))["version"]
        replica.model.own.rows_before_start -= 100
    assert (3, 5) == ((found := await is_written(api, path, 3)).version, found.figures.rows)


async def test_what_could_not_be_written_is_written_later(start, monkeypatch):
    """A server that is down fails its own models' summaries; a round trip that fails ends the turn."""
    api = await start()
    engine = api.engine
    writer, write, sent = engine.models.summaries, engine.store.catalog.write_summaries, []
    monkeypatch.setattr(writer, "turn", lambda: asyncio.sleep(0))
    monkeypatch.setattr(summaries, "STEP", 2)
    names = [name_of(await api.learnt(rows=1)) for _ in range(4)]

    async def first_fails(writes):
        sent.append([one.name for one in writes])
        return [
            StoreDown("away") if len(sent) == 1 and one.name == names[0] else (await write([one]))[0] for one in writes
        ]

    monkeypatch.setattr(engine.store.catalog, "write_summaries", first_fails)
    await writer.flush()
    assert [names[:2]] == sent
    await writer.flush()
    assert [names[2:], names[:1]] == sent[1:]
    await writer.flush()
    assert 3 == len(sent)
