"""A store that comes back empty, or older: its models are lost, not deleted; memory keeps them and writes them back."""

import asyncio
import logging

import pytest

from service.errors import ModelLost, NotFound
from service.store.keys import STORE, ModelKeys
from service.store.redis.connection import Connection
from tests.service.api_fixtures import DFOP, features, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _ask(store_url, *commands):
    connection = Connection(store_url, 2.0)
    try:
        return await connection.ask(*commands)
    finally:
        await connection.close()


async def _until(look):
    """Wait until something is seen; how long that takes decides nothing."""
    async with asyncio.timeout(60):
        while not await look():
            await asyncio.sleep(0.02)


def _engine(api):
    return api.app.state.context.engine


def _row(number, **more):
    return {"features": features(number), "label": "UP", **more}


async def _is_lost(api, path):
    await _until(lambda: _lost_now(api, path))


async def _lost_now(api, path):
    return path.removeprefix("/models/") in [replica.name for replica in _engine(api).models.lost]


async def _metric(api, name):
    lines = (await api.ask("GET", "/metrics")).text.splitlines()
    (found,) = [line.split()[1] for line in lines if line.split()[0] == f"onepass_{name}"]
    return float(found)


async def _refill(api, path):
    """What a refill says of one model; services load models of other tests, too, to look for alarms in their logs."""
    return [each for each in (await api.post("/refill"))["models"] if path == f"/models/{each['name']}"]


async def _unfollowed(api):
    """Stop a service from following what others append."""
    _engine(api).follower._note = lambda *_: None


async def test_a_store_that_comes_back_empty_is_noticed_and_filled_again(start, store_url, caplog):
    """Loud, counted, not ready; predictions go on, labels are 503; written back once, every service serves it again."""
    api, other = await start(), await start()
    path = await api.learnt(rows=5)
    before = await other.post(f"{path}/predict", {"features": features(1)})
    state = await api.state(path)
    with caplog.at_level(logging.ERROR):
        await _ask(store_url, ("FLUSHALL",))
        for one in (api, other):
            await _is_lost(one, path)
            answer = await one.ask("GET", "/readyz")
            assert (503, False) == (answer.status_code, answer.json()["checks"]["store_data"])
            assert (1, 1) == (await _metric(one, "models_lost"), await _metric(one, "lost_models_total"))
            assert before == await one.post(f"{path}/predict", {"features": features(1)})
            assert 5 == (await one.get(path))["rows"]
            refused = problem(await one.ask("POST", f"{path}/feedback", json=_row(6)), 503, "name")
            assert "model-lost" in refused["type"]
            assert "POST /refill" in refused["errors"][0]["allowed"]
            config = (await one.get(path))["config"]
            assert "model-lost" in problem(await one.ask("PUT", path, json=config), 503)["type"]
        assert any("nobody has deleted" in line for line in caplog.messages)
        assert any("the store is not the one it was" in line for line in caplog.messages)

    (told,) = await _refill(api, path)
    name = path.removeprefix("/models/")
    assert (name, "refilled", 5, 5) == (told["name"], told["outcome"], told["version"], told["stored_version"])
    await _until(lambda: _found(other, path))
    assert [] == await _refill(other, path)
    await _until(lambda: _listed(other, name, 5))
    later = await start()
    for one in (api, other, later):
        assert state == await one.state(path)
        assert (await one.get("/readyz"))["ready"]
    assert 6 == (await other.post(f"{path}/feedback", _row(6)))["version"]
    assert 7 == (await later.post(f"{path}/feedback", _row(7)))["version"]
    assert await later.state(path) == await api.state(path) == await other.state(path)


async def _listed(api, name, rows):
    listed = (await api.get("/models?limit=1000"))["models"]
    return rows in [model["rows"] for model in listed if model["name"] == name]


async def _found(api, path):
    return not await _lost_now(api, path)


@pytest.mark.parametrize("first", ["behind", "ahead"])
async def test_the_highest_version_wins_in_whatever_order(start, store_url, first):
    """A service that holds less writes it back first and is replaced, or comes second and catches up."""
    ahead, behind = await start(), await start()
    path = await ahead.learnt(rows=3)
    await behind.get(path)
    await _unfollowed(behind)
    for row in (3, 4):
        await ahead.post(f"{path}/feedback", _row(row))
    state = await ahead.state(path)
    await _ask(store_url, ("FLUSHALL",))
    for one in (ahead, behind):
        await _is_lost(one, path)
    _engine(behind).follower._look = _nothing
    told = []
    for one in (behind, ahead) if first == "behind" else (ahead, behind):
        told += [(each["outcome"], each["stored_version"]) for each in await _refill(one, path)]
    assert told == ([("refilled", 3), ("replaced", 5)] if first == "behind" else [("refilled", 5), ("kept", 5)])
    del _engine(behind).follower._note, _engine(behind).follower._look
    await _engine(behind).follower._look([path.removeprefix("/models/")])
    await _until(lambda: _reached(behind, path, 5))
    assert state == await behind.state(path) == await ahead.state(path)


@pytest.mark.parametrize("asked", [False, True])
async def test_what_others_have_gone_on_from_is_kept(start, store_url, asked):
    """Rows were appended to what was written back: the replica that held more reports a lost tail, asked or not."""
    ahead, behind = await start(), await start()
    path = await ahead.learnt(rows=3)
    await behind.get(path)
    await _unfollowed(behind)
    await ahead.post(f"{path}/feedback", _row(3))
    await ahead.post(f"{path}/feedback", _row(4))
    await _ask(store_url, ("FLUSHALL",))
    for one in (ahead, behind):
        await _is_lost(one, path)
    if asked:
        _engine(ahead).follower._look = _nothing
    assert ["refilled"] == [each["outcome"] for each in await _refill(behind, path)]
    assert 4 == (await behind.post(f"{path}/feedback", _row(9)))["version"]
    if asked:
        (told,) = await _refill(ahead, path)
        assert ("kept", 5, 4) == (told["outcome"], told["version"], told["stored_version"])
    await _until(lambda: _found(ahead, path))
    assert 5 == (await ahead.post(f"{path}/feedback", _row(10)))["version"]
    assert (1, 0) == (_engine(ahead).stats.lost_tails, _engine(behind).stats.lost_tails)
    assert await behind.state(path) == await ahead.state(path)


async def _reached(api, path, version):
    return (await api.get(path))["version"] == version


async def test_a_model_comes_back_with_both_its_configurations(start, store_url):
    """The one that it was created with, and the present one: PUT knows both, as before."""
    api = await start()
    path = await api.learnt(rows=3)
    assert 200 == (await api.ask("PATCH", path, json={"missing": "zero"})).status_code
    await _ask(store_url, ("FLUSHALL",))
    await _is_lost(api, path)
    assert ["refilled"] == [each["outcome"] for each in await _refill(api, path)]
    for body in (DFOP, {**DFOP, "missing": "zero"}):
        answer = await api.ask("PUT", path, json=body)
        assert (200, "zero", 3) == (answer.status_code, answer.json()["config"]["missing"], answer.json()["rows"])


async def test_deleted_models_are_not_lost(start, store_url):
    """A service that missed the notice finds the mark that deleting leaves; it expires."""
    api, other = await start(), await start()
    path = await api.learnt(rows=2)
    replica = await _engine(other).models.get(path.removeprefix("/models/"))
    _engine(other).follower.on_notice = lambda *_: None
    assert 204 == (await api.ask("DELETE", path)).status_code
    mark = ModelKeys(replica.name, replica.incarnation).deleted
    (lives_ms,) = await _ask(store_url, ("PTTL", mark))
    assert 0 < lives_ms
    await _engine(other).follower._look([replica.name])
    problem(await other.ask("GET", path), 404)
    assert (0, True) == (_engine(other).stats.lost_models, (await other.get("/readyz"))["ready"])


async def test_a_lost_model_can_be_given_up(start, store_url):
    """DELETE at any service that holds it: all of them drop it, and the name is free."""
    api, other = await start(), await start()
    path = await api.learnt(rows=2)
    await other.get(path)
    await _ask(store_url, ("UNLINK", ModelKeys(path.removeprefix("/models/"), "").meta))
    for one in (api, other):
        await _is_lost(one, path)
    assert 204 == (await api.ask("DELETE", path)).status_code
    problem(await api.ask("GET", path), 404)
    await _until(lambda: _found(other, path))
    problem(await other.ask("GET", path), 404)
    assert 201 == (await other.ask("PUT", path, json=DFOP)).status_code
    assert 1 == (await api.post(f"{path}/feedback", _row(1)))["version"]


async def test_a_lost_model_whose_name_is_taken_is_dropped(start, store_url, caplog):
    """Somebody created it anew before the loss was noticed: an error says that it is dropped, the new one is served."""
    api, other = await start(), await start()
    path = await api.learnt(rows=2)
    name = path.removeprefix("/models/")
    _engine(api).follower._lost.all_vanished = _nothing
    await _ask(store_url, ("UNLINK", ModelKeys(name, "").meta))
    assert 201 == (await other.ask("PUT", path, json=DFOP)).status_code
    with caplog.at_level(logging.ERROR):
        answer = await api.ask("POST", f"{path}/feedback", json=_row(5))
    assert "recreated" in problem(answer, 503)["type"]
    assert 1 == sum("is dropped" in line for line in caplog.messages)
    assert 1 == (await api.post(f"{path}/feedback", _row(5)))["version"]
    assert (1, []) == (_engine(api).stats.lost_models, _engine(api).models.lost)


async def _nothing(_):
    """In place of what the sweep finds."""


async def test_a_loss_that_an_append_finds_is_answered_as_one(start, store_url):
    """Before any look at the heads: the row gets 503, and the model is kept."""
    api = await start()
    path = await api.learnt(rows=2)
    _engine(api).follower._lost.all_vanished = _nothing
    await _ask(store_url, ("UNLINK", ModelKeys(path.removeprefix("/models/"), "").meta))
    assert "model-lost" in problem(await api.ask("POST", f"{path}/feedback", json=_row(5)), 503)["type"]
    assert 2 == (await api.get(path))["rows"]
    assert "model-lost" in problem(await api.ask("GET", f"{path}?consistency=strong"), 503)["type"]
    assert "model-lost" in problem(await api.ask("POST", f"{path}/snapshots"), 503)["type"]


async def test_a_key_of_some_models_fills_those_only(start, store_url):
    """And a key without the scope admin none."""
    keys = "boss:b0ss:admin,tenant:t3nant:admin:t-*,learner:l3arn:learn"
    api = await start(api_keys=keys)
    boss, tenant, learner = ({"headers": {"X-API-Key": secret}} for secret in ("b0ss", "t3nant", "l3arn"))
    for name in ("t-lost", "u-lost"):
        await api.ask("PUT", f"/models/{name}", json=DFOP, **boss)
        await _ask(store_url, ("UNLINK", ModelKeys(name, "").meta))
        await _is_lost(api, f"/models/{name}")
    problem(await api.ask("POST", "/refill", **learner), 403)
    assert ["t-lost"] == [each["name"] for each in (await api.post("/refill", **tenant))["models"]]
    assert ["u-lost"] == [each["name"] for each in (await api.post("/refill", **boss))["models"]]


async def test_the_store_keeps_the_identity_that_it_was_given_first(start, store_url):
    """Services that come later find it; one that is gone is given anew, and reported by those who knew it."""
    api = await start()
    (first,) = await _ask(store_url, ("GET", STORE))
    other = await start()
    assert [first] == await _ask(store_url, ("GET", STORE))
    await _ask(store_url, ("UNLINK", STORE))
    for one in (api, other):
        await _until(lambda one=one: _changed(one))
    (second,) = await _ask(store_url, ("GET", STORE))
    assert second not in {None, first}
    answer = await other.get("/readyz")
    assert (True, False) == (answer["ready"], answer["checks"]["store_data"])


async def _changed(api):
    return _engine(api).stats.store_changes == 1


async def test_lost_models_stay_in_memory(start, store_url):
    """They are never evicted, and a stop writes no snapshot of them."""
    api = await start(memory_budget_mb=16)
    path = await api.learnt(rows=2)
    await _ask(store_url, ("UNLINK", ModelKeys(path.removeprefix("/models/"), "").meta))
    await _is_lost(api, path)
    engine = _engine(api)
    await api.learnt(rows=1)
    engine.models._budget_bytes = 0
    engine.models.shrink()
    assert [path.removeprefix("/models/")] == [replica.name for replica in engine.models.lost]
    await engine.snapshotter.flush()
    assert 2 == (await api.get(path))["rows"]


@pytest.mark.parametrize("way", ["deleted", "lost"])
async def test_a_read_that_begins_to_wait_too_late_is_told(start, store_url, way):
    """The model has gone between the look at the head and the wait for a version: an answer at once, not after it."""
    api = await start()
    path = await api.learnt(rows=2)
    replica = await _engine(api).models.get(path.removeprefix("/models/"))
    if way == "deleted":
        assert 204 == (await api.ask("DELETE", path)).status_code
    else:
        await _ask(store_url, ("UNLINK", ModelKeys(replica.name, "").meta))
        await _is_lost(api, path)
    with pytest.raises(NotFound if way == "deleted" else ModelLost):
        await replica.reach(100)
