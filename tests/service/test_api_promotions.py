"""Promotions on request: shown to be better or forced, and after a snapshot that is kept."""

import numpy as np

from core.model.plans import ASKED_ROWS_MIN
from service.errors import RequestConflict
from service.runtime.snapshots import Snapshotter
from tests.service.api_fixtures import RLS, problem
from tests.service.test_store_full import without_memory

FAST = {"algorithm": "dfop", "params": {"forgetting_rate": 0.05}}
FORCED = ("POST", "fast/promote", {"json": {"force": True}})
DELETED = ("DELETE", "fast", {})


def moving(rows, start=0):
    """Labelled rows of a plane that never stands still: without forgetting nothing is learned of it."""
    X, angle = np.random.default_rng(1).normal(size=(start + rows, 2))[start:], np.arange(start, start + rows) / 20
    y = X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle)
    return {"columns": ["a", "b"], "data": X.tolist(), "labels": y.tolist()}


async def contest(api, rows=20):
    """The path of a model that learned some rows, and then as many beside a challenger: version 3."""
    path = await api.new({**RLS, "features": ["a", "b"]})
    await api.post(f"{path}/feedback/batch", moving(rows))
    assert 201 == (await api.ask("PUT", f"{path}/challengers/fast", json=FAST)).status_code
    await api.post(f"{path}/feedback/batch", moving(rows, rows))
    return path


async def promote(api, path, name="fast", **how):
    return await api.ask("POST", f"{path}/challengers/{name}/promote", **how)


async def listed(api, path):
    return (await api.get(f"{path}/challengers"))["challengers"]


async def versions(api, path):
    return [one["version"] for one in (await api.get(f"{path}/snapshots"))["snapshots"]]


async def test_a_challenger_that_is_not_shown_to_be_better_is_promoted_by_force_only(api):
    """409 says how many rows were compared, the interval, and what to send; nothing changes and nothing is written."""
    path = await contest(api)
    before = await api.state(path)
    for how in ({}, {"json": {}}, {"json": {"force": False}}, {"headers": {"Idempotency-Key": "one"}}):
        refused = problem(await promote(api, path, **how), 409, "force")
        assert True is refused["errors"][0]["allowed"]
    (one,) = await listed(api, path)
    difference = one["difference"]
    assert f"{difference['rows']} rows were compared; difference {difference['mean']:.4g}, " in refused["detail"]
    needs = f"interval {difference['low']:.4g} to {difference['high']:.4g}; promotion needs {ASKED_ROWS_MIN} rows"
    assert needs in refused["detail"]
    for body in ({"force": "yes"}, {"force": 1}, {"colour": True}):
        problem(await promote(api, path, json=body), 422, next(iter(body)))
    for content, status in ((b"nonsense", 400), (b"[]", 422), (b" ", 409)):
        problem(await promote(api, path, content=content, headers={"Content-Type": "application/json"}), status)
    problem(await promote(api, path, content=b"{}", headers={"Content-Type": "text/plain"}), 415)
    problem(await promote(api, path, content=b"{}", headers={"Origin": "http://onepass"}), 415)
    assert (before, []) == (await api.state(path), await versions(api, path))
    told = await promote(api, path, json={"force": True}, headers={"Idempotency-Key": "one"})
    assert 200 == told.status_code
    model = told.json()
    assert ("dfop", 40, 20) == (model["config"]["algorithm"], model["rows"], model["info"]["learner_rows"])
    assert [3] == await versions(api, path)
    assert "rls" == (await promote(api, path, "previous")).json()["config"]["algorithm"]
    assert "learner_rows" not in (await api.get(path))["info"]


async def test_the_snapshot_before_outlives_others_and_the_log(start):
    """It is listed and restored after many others, while the log is trimmed; the next one takes its place."""
    api = await start(snapshots_kept=2)
    path = await contest(api)
    await api.post(f"{path}/challengers/fast/promote", {"force": True})  # version 4, after a snapshot of version 3
    for part in range(4):
        await api.post(f"{path}/feedback/batch", moving(5, 40 + 5 * part))
        await api.post(f"{path}/snapshots", status=201)
    assert [8, 7, 3] == await versions(api, path)
    entries = (await api.get(f"{path}/log"))["entries"]
    assert 8 == min(one["version"] for one in entries)  # the log begins behind the oldest of the others
    later = await start()
    assert await api.state(path) == await later.state(path)
    assert 9 == (await api.post(f"{path}/restore", {"version": 3}))["version"]
    back = await api.get(path)
    assert ("rls", 40) == (back["config"]["algorithm"], back["rows"])
    assert ["fast"] == [one["name"] for one in await listed(api, path)]
    await later.get(f"{path}?min_version=9")
    assert await api.state(path) == await later.state(path)
    await api.post(f"{path}/feedback/batch", moving(5, 60))
    assert 204 == (await api.ask(DELETED[0], f"{path}/challengers/{DELETED[1]}")).status_code
    assert [10, 8] == await versions(api, path)
    await api.post(f"{path}/restore", {"version": 10})
    assert ["fast"] == [one["name"] for one in await listed(api, path)]


async def test_a_retry_keeps_the_snapshot_of_before(start):
    """It is answered as the first time was, and writes none of what the model is by now."""
    api = await start(snapshots_kept=1)
    path = await contest(api)
    await api.post(f"{path}/challengers/fast/promote", {"force": True})
    key = {"headers": {"Idempotency-Key": "back"}}
    for _ in range(2):
        told = (await promote(api, path, "previous", **key)).json()
        assert (5, "rls") == (told["version"], told["config"]["algorithm"])
        assert [4] == await versions(api, path)
    problem(await promote(api, path, "previous", json={"force": True}, **key), 409)


async def test_without_the_snapshot_nothing_changes(start, store_url, monkeypatch):
    """503, and the same request works once it can be written: by a full store, or a log that others went on with."""
    api = await start()
    path = await contest(api)
    before = await api.state(path), await listed(api, path)
    async with without_memory(store_url):
        for method, end, how in (FORCED, DELETED):
            problem(await api.ask(method, f"{path}/challengers/{end}", **how), 503)
    assert before == (await api.state(path), await listed(api, path))

    async def refused(*_, **__):
        raise RequestConflict("it is behind")

    with monkeypatch.context() as patch:
        patch.setattr(Snapshotter, "take", refused)
        for method, end, how in (FORCED, DELETED):
            answer = await api.ask(method, f"{path}/challengers/{end}", **how)
            assert "nothing was changed" in problem(answer, 503)["detail"]
            assert "1" == answer.headers["retry-after"]
    assert (before, []) == ((await api.state(path), await listed(api, path)), await versions(api, path))
    for (method, end, how), status in ((FORCED, 200), (("DELETE", "previous", {}), 204)):
        assert status == (await api.ask(method, f"{path}/challengers/{end}", **how)).status_code
    assert [4, 3] == await versions(api, path)
