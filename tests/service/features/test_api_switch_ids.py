"""What crosses a change of features: retries, tracked predictions, keys, other replicas, rows that are under way."""

import asyncio

import pytest

from service.runtime.commit import actor
from tests.service.api_fixtures import CSV, NPY, npy, problem
from tests.service.switches import BEGIN, NEW, OLD, UNION, feed, labelled, overlapping, row, steady, switch, table
from tests.service.waiting import until


def repeated(first):
    return {**first, "duplicate": True}


@pytest.mark.parametrize("how", ["id", "key"])
async def test_a_switch_sent_again_is_done_once(api, how):
    """Answered as it was the first time, whatever has happened since; with another body it is 409."""
    path = await steady(api)
    identity = {"id": 5} if how == "id" else {}
    headers = {} if how == "id" else {"Idempotency-Key": "to-new"}
    begun = await switch(api, path, {**BEGIN, **identity}, headers=headers)
    identity = {"id": "5"} if how == "id" else {}
    assert repeated(begun) == await switch(api, path, {**BEGIN, **identity}, headers=headers)
    await feed(api, path, range(8), UNION)
    done = await switch(api, path, "complete")
    assert repeated(begun) == await switch(api, path, {**BEGIN, **identity}, headers=headers)
    for other in ({**BEGIN, "mapping": "kernel"}, {"action": "begin", "features": ["x"]}, {"action": "abort"}):
        await api.refuses(f"{path}/features/switch", 409, json={**other, **identity}, headers=headers)
    assert "ensemble" == done["phase"]


async def test_a_complete_with_a_warning_says_so_again(api):
    """The first answer whole, warning and weights included, though the weights have moved on."""
    path = await steady(api)
    await switch(api, path)
    body = {"action": "complete", "force": True, "id": "done"}
    first = await switch(api, path, body)
    assert first["warning"]
    await feed(api, path, range(6), NEW)
    assert repeated(first) == await switch(api, path, body)
    problem(await api.ask("POST", f"{path}/features/switch", json={"action": "complete", "id": "other"}), 409)


async def test_the_same_switch_at_the_same_time(api):
    """Under one id one is done and the others are told so; without ids one is done and the others are refused."""
    path, bare = await steady(api), await steady(api)
    answers = await asyncio.gather(*(switch(api, path, {**BEGIN, "id": "once"}) for _ in range(10)))
    assert [False] + [True] * 9 == sorted(answer["duplicate"] for answer in answers)
    assert 1 == len({(answer["version"], answer["phase"]) for answer in answers})
    answers = await asyncio.gather(*(api.ask("POST", f"{bare}/features/switch", json=BEGIN) for _ in range(10)))
    assert [200] + [409] * 9 == sorted(answer.status_code for answer in answers)


async def test_overlap_rows_sent_again_teach_once(api):
    """By id, by ids in part, by Idempotency-Key; also when the overlap is over."""
    path = await overlapping(api)
    one = {"features": row(1), "id": 9}
    first = await api.post(f"{path}/features/overlap", one)
    assert {**first, "duplicate": True, "duplicates": 1} == await api.post(f"{path}/features/overlap", one)
    many = {**table(range(3)), "ids": ["9", "y", "z"]}
    second = await api.post(f"{path}/features/overlap", many)
    assert (11, 1, False) == (second["overlap_rows"], second["duplicates"], second["duplicate"])
    lines = "name,a,b,c,d\ny,1,2,3,4\nq,1,2,3,4\n"
    csv = {"content": lines, "headers": CSV, "params": {"id": "name"}}
    third = await api.post(f"{path}/features/overlap", **csv)
    assert (12, 1) == (third["overlap_rows"], third["duplicates"])
    key = {"content": npy(table(range(4))["data"]), "headers": {**NPY, "Idempotency-Key": "k"}}
    fourth = await api.post(f"{path}/features/overlap", **key)
    assert (16, False, 0) == (fourth["overlap_rows"], fourth["duplicate"], fourth["duplicates"])
    await switch(api, path, "complete")
    before = await api.standing(path)
    assert {**first, "duplicate": True, "duplicates": 1} == await api.post(f"{path}/features/overlap", one)
    again = await api.post(f"{path}/features/overlap", many)
    assert (True, 3, 11) == (again["duplicate"], again["duplicates"], again["overlap_rows"])
    assert {**fourth, "duplicate": True, "duplicates": 4} == await api.post(f"{path}/features/overlap", **key)
    other = {**key, "content": npy(table(range(5))["data"])}
    problem(await api.ask("POST", f"{path}/features/overlap", **other), 409)
    problem(await api.ask("POST", f"{path}/features/overlap", json={**one, "id": "new"}), 409)
    assert before == await api.standing(path)


async def test_a_row_may_map_before_its_label_comes(api):
    """The id of an overlap row and that of the labelled row are names of their own."""
    path = await overlapping(api)
    await api.post(f"{path}/features/overlap", {"features": row(1), "id": "order-1"})
    learned = await api.post(f"{path}/feedback", labelled(1, id="order-1"))
    assert (False, True) == (learned["duplicate"], learned["learned"])
    assert not (await switch(api, path, {"action": "complete", "id": "order-1"}))["duplicate"]


async def test_another_replica_learns_of_a_change_from_the_rows_it_would_refuse(start, api):
    """It stands behind the log: it reads on before it refuses rows, predictions or switches."""
    other = await start()
    path = await steady(api)
    await other.get(path)
    await switch(api, path)
    assert (await other.post(f"{path}/feedback", labelled(1)))["learned"]
    await switch(api, path, "complete")
    problem(await other.ask("POST", f"{path}/features/switch", json={"action": "abort"}), 409)
    path = await steady(api)
    await other.get(path)
    await switch(api, path)
    assert 1 == (await other.post(f"{path}/features/overlap", {"features": row(1)}))["overlap_rows"]
    await switch(api, path, "complete")
    assert (await other.post(f"{path}/predict", {"features": row(1, NEW)}))["prediction"]
    await switch(api, path, {"action": "begin", "features": ["x"]})
    assert "ensemble" == (await switch(other, path, "complete"))["phase"]
    batch = {"columns": ["x"], "data": [[1], [2]]}
    assert 2 == len((await other.post(f"{path}/predict/batch", batch))["predictions"])
    assert (await other.post(f"{path}/feedback/batch", {**batch, "labels": ["UP", "UP"]}))["learned"]
    for service in (api, other):
        found = await service.get(f"{path}/features", params={"consistency": "strong"})
        assert ("ensemble", ["x"]) == (found["phase"], found["current"])


@pytest.mark.parametrize("route", ["predict", "predict/batch"])
async def test_a_prediction_that_waits_while_the_features_change(api, route):
    """Its row was read in the old features, and the model has others when its turn comes: it is read again."""
    path = await overlapping(api)
    replica = await api.engine.replica(path.rpartition("/")[2])
    bodies = [{"features": row(1, names)} if route == "predict" else table(range(3), names) for names in (OLD, UNION)]
    async with replica.lock:
        done = asyncio.create_task(switch(api, path, "complete"))
        await until(lambda: replica.lock._waiters)
        late = [asyncio.create_task(api.ask("POST", f"{path}/{route}", json=body)) for body in bodies]
        await until(lambda: len(replica.lock._waiters) >= 3)
    assert "ensemble" == (await done)["phase"]
    for answer in await asyncio.gather(*late):
        problem(answer, 422, "features.a" if route == "predict" else "columns[0]")
    assert await api.post(f"{path}/{route}", {"features": row(1, NEW)} if route == "predict" else table(range(3), NEW))


async def test_a_large_batch_that_a_reset_overtakes_can_be_sent_again(api, monkeypatch):
    """Nothing is kept under its key: it is validated again, against the features that the model went back to."""
    path, write, rows = await overlapping(api), actor.in_pieces, range(actor.LITTLE_ROWS + 1)

    async def overtaken(*given):
        monkeypatch.setattr(actor, "in_pieces", write)
        await api.post(f"{path}/reset")
        return await write(*given)

    monkeypatch.setattr(actor, "in_pieces", overtaken)
    for names, status in ((UNION, 503), (OLD, 200)):
        body = {**table(rows, names), "labels": [labelled(number)["label"] for number in rows]}
        answer = await api.ask("POST", f"{path}/feedback/batch", json=body, headers={"Idempotency-Key": "large"})
        assert status == answer.status_code
    assert not answer.json()["duplicate"]


async def test_switches_are_counted_by_action(start):
    """On the service that committed them, once each."""
    fresh, other = await start(), await start()
    path = await overlapping(fresh)
    await switch(fresh, path, "complete")
    await switch(fresh, path, {"action": "begin", "features": ["q"], "id": "x"})
    await switch(fresh, path, {"action": "begin", "features": ["q"], "id": "x"})
    await switch(fresh, path, "abort")
    await other.get(path)
    for service, counts in ((fresh, [2.0, 1.0, 1.0]), (other, [0.0] * 3)):
        told = await service.scraped()
        assert counts == [told["onepass_switches_total", action] for action in ("begin", "complete", "abort")]
