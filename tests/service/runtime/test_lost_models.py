"""A store that comes back empty, or older: its models are lost, not deleted; memory keeps them until it is restored."""

import asyncio
import logging
from unittest.mock import AsyncMock

import pytest

from service.errors import ModelLost, NotFound
from service.store.catalog import LOST_MS
from service.store.keys import INDEX, ModelKeys
from service.store.redis import redis_errors
from service.store.redis.connection import Connection
from service.store.states.states import StateLost
from tests.service.api_fixtures import DFOP, STATE, features, problem
from tests.service.waiting import until


async def _ask(store_url, *commands):
    connection = Connection(store_url, 2.0)
    try:
        return await connection.ask(*commands)
    finally:
        await connection.close()


def _row(number, **more):
    return {"features": features(number), "label": "UP", **more}


async def _is_lost(api, path):
    await until(lambda: _lost_now(api, path))


async def _lost_now(api, path):
    return path.removeprefix("/models/") in [replica.name for replica in api.engine.models.lost]


async def _found(api, path):
    return not await _lost_now(api, path)


async def test_lost_models_are_on_their_page_of_the_list(start, store_url):
    """Between those that the store has, once, whatever the order and the page; a key sees its own."""
    api = await start(api_keys="boss:b0ss:admin,tenant:t3nant:read:b*")
    boss, tenant = {"headers": {"X-API-Key": "b0ss"}}, {"headers": {"X-API-Key": "t3nant"}}
    await _ask(store_url, ("FLUSHALL",))
    for name in ("a", "b1", "b2", "c", "d"):
        await api.client.put(f"/models/{name}", json=DFOP, **boss)
    for name in ("a", "b2", "d"):
        await _ask(store_url, ("UNLINK", ModelKeys(name, "").meta))
        await _is_lost(api, f"/models/{name}")
    down = {"a", "b2", "d"}
    for sort in ("name", "rows"):
        for limit in (1, 2, 3, 5, 1000):
            pages = [page["models"] for page in await api.pages("/models", sort=sort, limit=limit, **boss)]
            assert all(limit >= len(page) for page in pages)
            seen = [(model["name"], model["phase"] == "down") for page in pages for model in page]
            assert [(name, name in down) for name in ("a", "b1", "b2", "c", "d")] == seen
    assert ["b1", "b2"] == [model["name"] for model in (await api.get("/models", **tenant))["models"]]
    for name in down:
        assert 204 == (await api.ask("DELETE", f"/models/{name}", **boss)).status_code
    assert ["b1", "c"] == [model["name"] for model in (await api.get("/models", **boss))["models"]]


async def test_deleted_models_are_not_lost(start, store_url):
    """A service that missed the notice finds the mark that deleting leaves; it expires."""
    api, other = await start(), await start()
    path = await api.learnt(rows=2)
    replica = await other.engine.models.get(path.removeprefix("/models/"))
    other.engine.follower.on_notice = lambda *_: None
    assert 204 == (await api.ask("DELETE", path)).status_code
    mark = ModelKeys(replica.name, replica.incarnation).deleted
    (lives_ms,) = await _ask(store_url, ("PTTL", mark))
    assert 0 < lives_ms
    await other.engine.follower._look([replica.name])
    problem(await other.ask("GET", path), 404)
    assert (0, True) == (other.engine.stats.lost_models, (await other.get("/readyz"))["ready"])


def troubles(caplog, level):
    """The messages of a level and above: other tests may leave a lower one in force."""
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


@pytest.mark.parametrize("again", [False, True])
async def test_deleting_a_model_during_its_snapshot_logs_no_error(start, caplog, again):
    """Nor one whose name has been given away: there is nothing to keep."""
    api, other = await start(), await start()
    path = await api.learnt(rows=2)
    replica = api.engine.models.peek(path.removeprefix("/models/"))
    await api.post(f"{path}/feedback", _row(1, id="a"))
    assert 204 == (await other.ask("DELETE", path)).status_code
    if again:
        assert 201 == (await other.ask("PUT", path, json=DFOP)).status_code
    with caplog.at_level(logging.WARNING):
        await api.engine.snapshotter._attempt(replica)
    assert replica.gone
    assert [] == troubles(caplog, logging.WARNING)


async def test_a_model_is_created_while_an_earlier_one_of_its_name_is_loaded(start, monkeypatch):
    """Who waits for the earlier one is told that it is gone; who creates gets the new one."""
    api, other = await start(), await start()
    path = await api.learnt(rows=2)
    log = other.engine.store.log
    read, begun, goes_on = log.read_after, asyncio.Event(), asyncio.Event()

    async def read_later(*args):
        begun.set()
        await goes_on.wait()
        return await read(*args)

    monkeypatch.setattr(log, "read_after", read_later)
    async with asyncio.TaskGroup() as tasks:
        earlier = tasks.create_task(other.ask("GET", path))
        await begun.wait()
        assert 204 == (await api.ask("DELETE", path)).status_code
        created = tasks.create_task(other.ask("PUT", path, json=DFOP))
        await until(lambda: _is_there(api, path))
        await asyncio.sleep(0.05)
        goes_on.set()
    assert (404, 201) == (earlier.result().status_code, created.result().status_code)


@pytest.mark.parametrize("loaded", [False, True])
async def test_a_late_reply_about_a_new_model_drops_no_later_one(start, monkeypatch, caplog, loaded):
    """Deleted and created again before the reply came: the later one is served, and the creator of ours gets 503."""
    api, other = await start(), await start()
    path = await other.new(DFOP)
    assert 204 == (await other.ask("DELETE", path)).status_code
    catalog = api.engine.store.catalog
    create = catalog.create

    async def create_late(*args):
        found = await create(*args)
        assert 204 == (await other.ask("DELETE", path)).status_code
        assert 201 == (await other.ask("PUT", path, json=DFOP)).status_code
        if loaded:
            await api.post(f"{path}/feedback", _row(1))
        return found

    monkeypatch.setattr(catalog, "create", create_late)
    with caplog.at_level(logging.ERROR):
        assert "recreated" in problem(await api.ask("PUT", path, json=DFOP), 503)["type"]
    assert ([], 0) == (troubles(caplog, logging.ERROR), api.engine.stats.lost_models)
    assert int(loaded) == (await api.get(path))["version"]


@pytest.mark.parametrize("again", [False, True])
async def test_a_copy_that_is_deleted_while_it_is_loaded_is_not_down(start, monkeypatch, caplog, again):
    """Its first snapshot is gone with it, which no model needs any more: the next one of its name is loaded."""
    api, other = await start(), await start()
    path = await _copied(api)
    snapshots = other.engine.store.snapshots
    listed = snapshots.list

    async def list_after_deletion(*args):
        monkeypatch.setattr(snapshots, "list", listed)
        assert 204 == (await api.ask("DELETE", path)).status_code
        if again:
            assert 201 == (await api.ask("PUT", path, json=DFOP)).status_code
        return await listed(*args)

    monkeypatch.setattr(snapshots, "list", list_after_deletion)
    with caplog.at_level(logging.ERROR):
        answer = await other.ask("GET", path)
    assert ([], 0) == (troubles(caplog, logging.ERROR), other.engine.stats.down_models)
    assert (200 if again else 404) == answer.status_code
    if again:
        assert 1 == (await other.post(f"{path}/feedback", _row(1)))["version"]


async def test_a_model_that_is_down_leaves_its_name_to_the_next(start, store_url, caplog):
    """Deleted and created again elsewhere: what could not be loaded a moment ago does not keep back its successor."""
    api, other = await start(), await start()
    path = await _copied(api)
    name = path.removeprefix("/models/")
    incarnation = (await api.get(path))["incarnation"]
    await _ask(store_url, ("UNLINK", ModelKeys(name, incarnation).chunks(0)))
    for _ in range(3):
        assert "model-down" in problem(await other.ask("GET", path), 503)["type"]
    assert 1 == len([line for line in caplog.messages if "skipping the snapshot" in line])  # loaded once
    assert 204 == (await api.ask("DELETE", path)).status_code
    problem(await other.ask("GET", path), 404)
    assert 201 == (await api.ask("PUT", path, json=DFOP)).status_code
    await other.engine.models.summaries.write_down(name, incarnation)
    assert ["steady"] == [each["phase"] for each in (await other.get("/models"))["models"] if name == each["name"]]
    assert 1 == (await other.post(f"{path}/feedback", _row(1)))["version"]


async def _copied(api):
    """The path of a copy that no other service has in memory."""
    path = await api.learnt(rows=2)
    await api.post(f"{path}/copy", {"name": f"{path.removeprefix('/models/')}.copy"}, 201)
    return f"{path}.copy"


async def _is_there(api, path):
    return 200 == (await api.ask("GET", path)).status_code


async def test_a_lost_model_can_be_given_up(start, store_url):
    """DELETE at any service that holds it: all of them drop it, and the name is free."""
    api, other = await start(), await start()
    path = await api.learnt(rows=2)
    await other.get(path)
    await _ask(store_url, ("UNLINK", ModelKeys(path.removeprefix("/models/"), "").meta))
    for one in (api, other):
        await _is_lost(one, path)
    held = api.engine.models.peek(path.removeprefix("/models/"))
    assert 204 == (await api.ask("DELETE", path)).status_code
    problem(await api.ask("GET", path), 404)
    assert (held.gone, held.lost) == (True, False)  # what a request that still holds it is told
    await until(lambda: _found(other, path))
    problem(await other.ask("GET", path), 404)
    assert [True, True] == [(await one.get("/readyz"))["ready"] for one in (api, other)]
    assert 201 == (await other.ask("PUT", path, json=DFOP)).status_code
    assert 1 == (await api.post(f"{path}/feedback", _row(1)))["version"]


async def test_a_lost_model_that_is_back_is_deleted(start, store_url, monkeypatch):
    """Also by a service that has not noticed yet that the store has been restored."""
    api, other = await start(), await start()
    path = await api.learnt(rows=2)
    meta = ModelKeys(path.removeprefix("/models/"), "").meta
    await _ask(store_url, ("RENAME", meta, "aside"))
    await _is_lost(api, path)
    monkeypatch.setattr(api.engine.models, "found", lambda replica: None)
    await _ask(store_url, ("RENAME", "aside", meta))
    assert 204 == (await api.ask("DELETE", path)).status_code
    assert [0] == await _ask(store_url, ("EXISTS", meta))
    for one in (api, other):
        problem(await one.ask("GET", path), 404)


async def test_services_without_a_lost_model_keep_its_name_for_it(start, store_url):
    """A model created there would replace the only copy. DELETE gives it up there as well."""
    api, other = await start(), await start()
    path, source = await api.learnt(rows=2), await other.learnt(rows=1)
    name, state = path.removeprefix("/models/"), await other.state(source)
    await _ask(store_url, ("UNLINK", ModelKeys(name, "").meta))
    await _is_lost(api, path)
    for method, asked, how in (
        ("GET", path, {}),
        ("POST", f"{path}/predict", {"json": {"features": features(1)}}),
        ("POST", f"{path}/feedback", {"json": _row(1)}),
        ("PUT", path, {"json": DFOP}),
        ("PUT", f"{path}/state", {"content": state, "headers": STATE}),
        ("POST", f"{source}/copy", {"json": {"name": name}}),
    ):
        assert "model-lost" in problem(await other.ask(method, asked, **how), 503)["type"], asked
    (listed,) = await _ask(store_url, ("ZRANGEBYLEX", INDEX, f"[{name} ", f"[{name}!"))
    assert [f"{name} {api.engine.models.peek(name).incarnation}".encode()] == listed
    assert 0 == other.engine.stats.down_models
    assert 2 == (await api.get(path))["rows"]
    assert 204 == (await other.ask("DELETE", path)).status_code
    assert [[]] == await _ask(store_url, ("ZRANGEBYLEX", INDEX, f"[{name} ", f"[{name}!"))
    await until(lambda: _found(api, path))
    for one in (api, other):
        problem(await one.ask("GET", path), 404)
    assert 201 == (await other.ask("PUT", path, json=DFOP)).status_code


async def test_a_name_is_kept_no_longer_than_for_a_lost_model(start, store_url):
    """Not when the store has it again and it is deleted; and not for long after the last service that holds it."""
    api, other = await start(), await start()
    path = await api.learnt(rows=2)
    keys = ModelKeys(path.removeprefix("/models/"), "")
    await _ask(store_url, ("RENAME", keys.meta, "aside"))
    await _is_lost(api, path)
    (lives_ms,) = await _ask(store_url, ("PTTL", keys.lost))
    assert 0 < lives_ms <= LOST_MS
    await _ask(store_url, ("RENAME", "aside", keys.meta))
    await until(lambda: _found(api, path))
    assert 2 == (await other.get(path))["rows"]
    assert 204 == (await other.ask("DELETE", path)).status_code
    problem(await other.ask("GET", path), 404)
    assert 201 == (await other.ask("PUT", path, json=DFOP)).status_code


async def test_what_changes_a_lost_model_waits_for_the_store(start, store_url):
    """503 also for what is not found only because the store has lost it: else the client would drop its label."""
    api = await start()
    path = await api.learnt(rows=2)
    row = {"features": features(1), "track": True}
    tracked = (await api.post(f"{path}/predict", row))["prediction_id"]
    snapshot = await api.post(f"{path}/snapshots", status=201)
    await _ask(store_url, ("FLUSHALL",))
    for asked, body in (
        ("feedback", {"prediction_id": tracked, "label": "UP"}),
        ("predict", row),
        ("predict/batch", {"rows": [{"features": features(1)}], "track": True}),
        ("restore", {"version": snapshot["version"]}),
    ):
        assert "model-lost" in problem(await api.ask("POST", f"{path}/{asked}", json=body), 503)["type"], asked
    await _is_lost(api, path)
    for asked in ("log", "snapshots", "pending"):
        assert "model-lost" in problem(await api.ask("GET", f"{path}/{asked}"), 503)["type"], asked


async def test_a_lost_model_whose_name_is_taken_is_dropped(start, store_url, caplog):
    """Somebody created it anew before the loss was noticed: an error says that it is dropped, the new one is served."""
    api, other = await start(), await start()
    path = await api.learnt(rows=2)
    name = path.removeprefix("/models/")
    api.engine.follower._look = _nothing
    await _ask(store_url, ("UNLINK", ModelKeys(name, "").meta))
    assert 201 == (await other.ask("PUT", path, json=DFOP)).status_code
    with caplog.at_level(logging.ERROR):
        answer = await api.ask("POST", f"{path}/feedback", json=_row(5))
    assert "recreated" in problem(answer, 503)["type"]
    assert 1 == sum("is dropped" in line for line in caplog.messages)
    assert 1 == (await api.post(f"{path}/feedback", _row(5)))["version"]
    assert (1, []) == (api.engine.stats.lost_models, api.engine.models.lost)


async def _nothing(_):
    """In place of a look at the heads."""


async def test_a_loss_that_an_append_finds_is_answered_as_one(start, store_url):
    """Before any look at the heads: the row gets 503, and the model is kept."""
    api = await start()
    path = await api.learnt(rows=2)
    api.engine.follower._look = _nothing
    await _ask(store_url, ("UNLINK", ModelKeys(path.removeprefix("/models/"), "").meta))
    assert "model-lost" in problem(await api.ask("POST", f"{path}/feedback", json=_row(5)), 503)["type"]
    assert 2 == (await api.get(path))["rows"]
    assert "model-lost" in problem(await api.ask("GET", f"{path}?consistency=strong"), 503)["type"]
    assert "model-lost" in problem(await api.ask("POST", f"{path}/snapshots"), 503)["type"]


async def test_a_lost_model_predicts_on_though_an_entry_is_lost_with_it(start, store_url, monkeypatch):
    """What an entry names is missing, and so is the model that would be loaded again: it is not out of service."""
    api = await start()
    path = await api.learnt(rows=2)
    replica = await api.engine.models.get(path.removeprefix("/models/"))
    await _ask(store_url, ("UNLINK", ModelKeys(replica.name, "").meta))
    await _is_lost(api, path)
    monkeypatch.setattr(api.engine.loader, "apply", AsyncMock(side_effect=StateLost("it is gone")))
    with pytest.raises(NotFound):
        await api.engine.reader.apply(replica, [])
    await api.post(f"{path}/predict", {"features": features(1)})


@pytest.mark.parametrize("way", ["deleted", "lost"])
async def test_a_read_that_begins_to_wait_too_late_is_told(start, store_url, way):
    """The model has gone between the look at the head and the wait for a version: an answer at once, not after it."""
    api = await start()
    path = await api.learnt(rows=2)
    replica = await api.engine.models.get(path.removeprefix("/models/"))
    if way == "deleted":
        assert 204 == (await api.ask("DELETE", path)).status_code
    else:
        await _ask(store_url, ("UNLINK", ModelKeys(replica.name, "").meta))
        await _is_lost(api, path)
    with pytest.raises(NotFound if way == "deleted" else ModelLost):
        await replica.wait_for_version(100)


async def test_foreign_data_takes_no_model_out_of_service(start, store_url, caplog):
    """Each request is told that the store is at fault, and the next one finds the model once that is mended."""
    api = await start()
    path = await api.new(DFOP)
    await api.post(f"{path}/feedback", _row(1))
    meta = ModelKeys(path.rpartition("/")[2], "").meta
    redis_errors._tell.cache_clear()
    await _ask(store_url, ("RENAME", meta, "aside"), ("SET", meta, "foreign"))
    again = await start()
    problem(await again.ask("GET", path), 503)
    problem(await api.ask("GET", f"{path}?consistency=strong"), 503)
    assert "WRONGTYPE" in caplog.text
    await _ask(store_url, ("RENAME", "aside", meta))
    assert [1, 1] == [(await each.get(f"{path}?consistency=strong"))["rows"] for each in (again, api)]


async def test_a_model_that_the_index_has_lost_is_listed_again(start, store_url):
    """Its own server has it still: a failover of the index's took only its place there."""
    api = await start()
    path = await api.new(DFOP)
    name = path.rpartition("/")[2]
    await _ask(store_url, ("DEL", INDEX))

    async def listed():
        return name in [model["name"] for model in (await api.get("/models"))["models"]]

    await until(listed)


async def test_a_model_whose_ids_the_store_has_evicted_learns_no_row_with_an_id(start, store_url, caplog):
    """It could have learned it before."""
    api = await start()
    path = await api.new(DFOP)
    await api.post(f"{path}/feedback", _row(1, id="a"))
    ids = ModelKeys(path.rpartition("/")[2], (await api.get(path))["incarnation"]).idempotency
    await _ask(store_url, ("DEL", ids))
    refused = problem(await api.ask("POST", f"{path}/feedback", json=_row(1, id="a")), 503)
    assert "evicted" in refused["detail"]
    assert "is out of service: the store has evicted" in caplog.text
