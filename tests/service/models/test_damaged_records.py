"""What something else has done to the record of one model in the store concerns that model only."""

import pytest

from service.errors import StoreDown
from service.store.catalog import Catalog
from service.store.due_labels import DueLabels
from service.store.keys import INDEX, LABELS_DUE, TOMBSTONES, meta_key
from service.store.metas import metas
from tests.service.api_fixtures import DFOP, features, problem
from tests.service.waiting import until

DAMAGES = {
    "version": ("HSET", "version", "x"),
    "no version": ("HDEL", "version"),
    "no uid": ("HDEL", "uid"),
    "uid": ("HSET", "uid", b"\xff"),
    "no config": ("HDEL", "config"),
    "created": ("HSET", "created", "x"),
    "incarnation": ("HSET", "incarnation", b"\xff\xfe"),
    "no incarnation": ("HDEL", "incarnation"),
    "snapshot": ("HSET", "snapshot", "x"),
    "origin": ("HSET", "origin", b"\xff"),
    "no hash": ("SET", "x"),
}
READABLE = ("snapshot", "origin")  # only the follower and copies read these
APPENDED = ("incarnation", "no config", "created", *READABLE)  # appends do not notice these


@pytest.fixture(scope="module")
async def apis(start):
    """Two services."""
    return [await start(), await start()]


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_record_concerns_its_own_model_only(apis, caplog, damage):
    """Every replica follows the others, lists them and learns; the model itself can be deleted and created again."""
    first, second = apis
    ask = first.engine.store.connection.ask
    good, bad = [await first.learnt(rows=2) for _ in range(2)]
    await second.get(good)
    names = [path.rpartition("/")[2] for path in (good, bad)]
    verb, *words = DAMAGES[damage]
    key = meta_key(names[1])
    (own,) = await ask(("HGET", key, "incarnation"))
    await ask(*([("DEL", key)] if verb == "SET" else []), (verb, key, *words))
    await first.engine.follower._look(names)
    row, damaged = {"features": features(1), "label": "UP"}, f"model {names[1]}: its record in the store is damaged"
    answer = await first.ask("POST", f"{bad}/feedback", json=row)
    assert damage in APPENDED or damaged == problem(answer, 503)["detail"]
    (before,) = await ask(("DUMP", key))
    assert (await first.ask("POST", f"{good}/copy", json={"name": names[1]})).status_code in (409, 503)
    if damage == "no incarnation":  # another service does not know that there was a model
        problem(await second.ask("POST", f"{good}/copy", json={"name": names[1]}), 409)
        assert [before] == await ask(("DUMP", key))
    rows = (await first.post(f"{good}/feedback", row))["rows"]

    async def follows():
        return rows == (await second.get(good))["rows"]

    await until(follows)
    assert names[0] in [model["name"] for model in (await first.get("/models"))["models"]]
    if damage not in READABLE:
        assert damaged == problem(await second.ask("GET", bad), 503)["detail"]
        problem(await second.ask("PUT", bad, json=DFOP), 503)
    await ask(*[("ZADD", INDEX, 0, f"{names[1]} {other}") for other in ("0", "z")])  # just being created
    assert 204 == (await second.ask("DELETE", bad)).status_code
    problem(await second.ask("GET", bad), 404)
    (kept,) = await ask(("KEYS", f"onepass:{{{names[1]}}}:*"))
    assert [f"onepass:{{{names[1]}}}:{own.decode()}:deleted".encode()] == kept
    assert 201 == (await second.ask("PUT", bad, json=DFOP)).status_code
    assert "died" not in caplog.text


@pytest.mark.parametrize("rows", [0, 2])
async def test_a_damaged_model_that_is_being_deleted_is_never_lost(apis, caplog, monkeypatch, rows):
    """Whatever a replica sees between the steps of the deletion."""
    first, second = apis
    bad = await first.learnt(rows=rows) if rows else await first.new(DFOP)
    name, connection = bad.rpartition("/")[2], second.engine.store.connection
    run = connection.run

    async def looked_at(*calls, **way):
        results = await run(*calls, **way)
        await first.engine.follower._look([name])
        return results

    await connection.ask(("DEL", meta_key(name)), ("SET", meta_key(name), "x"))
    monkeypatch.setattr(connection, "run", looked_at)
    assert 204 == (await second.ask("DELETE", bad)).status_code
    assert 201 == (await second.ask("PUT", bad, json=DFOP)).status_code
    assert "the store has lost model" not in caplog.text


@pytest.mark.parametrize("damage", [("HDEL", "config", "summary"), ("HSET", "version", "x")])
async def test_lists_pass_over_a_damaged_record(apis, damage):
    """Also the search for summaries that are behind, which all other models need."""
    verb, *words = damage
    api = apis[0]
    path, connection = await api.learnt(rows=2), api.engine.store.connection
    await connection.ask((verb, meta_key(path.rpartition("/")[2]), *words))
    assert 200 == (await api.ask("GET", "/models")).status_code
    await Catalog(connection).behind(1000, None)
    assert 204 == (await api.ask("DELETE", path)).status_code


async def test_a_store_that_is_down_damages_nothing():
    """Its error is not taken for a record that cannot be read."""

    class Down:
        async def run(self, calls, **_):
            return [StoreDown("the store does not answer")] * len(calls)

    with pytest.raises(StoreDown):
        await metas(Down(), ["m"], (), str)


async def test_foreign_members_of_an_index_are_passed_over(apis):
    """Neither lists nor the search for due labels fail."""
    api = apis[0]
    path, odd = await api.new(DFOP), (b"\xff\xfe bad", "nospace")
    ask = api.engine.store.connection.ask
    for index in (INDEX, LABELS_DUE):
        await ask(*[("ZADD", index, 1, member) for member in odd])
    assert path.rpartition("/")[2] in [model["name"] for model in (await api.get("/models"))["models"]]
    assert [] == await DueLabels(api.engine.store.connection).models(10)
    assert 204 == (await api.ask("DELETE", path)).status_code


@pytest.mark.parametrize("key", [INDEX, TOMBSTONES])
async def test_foreign_data_in_place_of_an_index_is_named(apis, caplog, key):
    """Models still answer and learn; what needs the index is 503 until the key that the log names is deleted."""
    api, name = apis[0], "m-foreign"
    path, ask = await api.learnt(rows=2), api.engine.store.connection.ask
    await ask(("DEL", key), ("SET", key, "x"))
    if key == INDEX:
        problem(await api.ask("GET", "/models"), 503)
        problem(await api.ask("PUT", f"/models/{name}", json=DFOP), 503)
    else:
        problem(await api.ask("DELETE", await api.new(DFOP)), 503)
    assert 3 == (await api.post(f"{path}/feedback", {"features": features(1), "label": "UP"}))["rows"]
    assert 200 == (await api.ask("GET", "/readyz")).status_code
    assert "unexpected answer from the store: WRONGTYPE" in caplog.text
    assert key in caplog.text
    await ask(("DEL", key))
    assert 201 == (await api.ask("PUT", f"/models/{name}", json=DFOP)).status_code
    assert 204 == (await api.ask("DELETE", f"/models/{name}")).status_code
