"""Challengers: learners beside a model's own, over HTTP and on every replica; promotions on request."""

import asyncio

import numpy as np
import pytest

from core.model.plans import ASKED_ROWS_MIN
from service.errors import RequestConflict
from service.runtime.snapshots import Snapshotter
from tests.service.api_fixtures import DFOP, RLS, columnar, problem
from tests.service.store.test_store_full import without_memory

VIGO = {"algorithm": "vigo"}
FORCE = {"force": True}


def turning(rows, start=0):
    """Labelled rows of two classes, on either side of a line that turns round after 300."""
    X = np.random.default_rng(0).normal(size=(start + rows, 2))[start:]
    sides = np.where(np.arange(start, start + rows) < 300, 1, -1)
    labels = np.where(sides * X[:, 0] > 0, "UP", "DOWN").tolist()
    return {"columns": ["a", "b"], "data": X.tolist(), "labels": labels}


async def put(api, path, name, body, status=201, **how):
    """The answer to a challenger that is put beside a model."""
    answer = await api.ask("PUT", f"{path}/challengers/{name}", json=body, **how)
    assert status == answer.status_code, answer.text
    return answer.json()


async def listed(api, path):
    """The challengers by name."""
    return {one["name"]: one for one in (await api.get(f"{path}/challengers"))["challengers"]}


async def test_a_challenger_is_put_shown_and_taken_away(api):
    """It begins with the next row; each step is a version; the same again is none."""
    path = await api.learnt(rows=4)
    told = await put(api, path, "other", VIGO)
    incarnation = {"incarnation": (await api.get(path))["incarnation"]}
    assert {"other": told} == {name: one | incarnation for name, one in (await listed(api, path)).items()}
    assert (5, 0) == (told["since_version"], told["rows"])
    assert {"promote": "never", "algorithm": "vigo"}.items() <= told["config"].items()
    assert {"mean": None, "low": None, "high": None, "confidence": 0.95, "rows": 0} == told["difference"]
    before = await api.get(path)
    assert told == await put(api, path, "other", VIGO, 200)
    assert before == await api.get(path)
    assert "auto" == (await put(api, path, "other", {**VIGO, "promote": "auto"}, 200))["promote"]
    problem(await api.ask("PUT", f"{path}/challengers/other", json={"algorithm": "rls"}), 409)
    await api.post(f"{path}/feedback/batch", {**columnar(6), "labels": ["UP", "DOWN"] * 3})
    shown = await api.get(f"{path}/challengers")
    assert "dfop" == shown["champion"]["algorithm"]
    assert (await api.get(f"{path}/metrics"))["overall"]["accuracy"] == shown["champion"]["score"]
    (one,) = shown["challengers"]
    assert (6, 6, 6) == (one["rows"], one["metrics"]["rows"], one["difference"]["rows"])
    assert one["difference"]["low"] <= one["difference"]["mean"] <= one["difference"]["high"]
    gone = await api.ask("DELETE", f"{path}/challengers/other")
    assert (204, b"") == (gone.status_code, gone.content)
    missing = problem(await api.ask("DELETE", f"{path}/challengers/other"), 404, "challenger")
    assert [] == missing["errors"][0]["allowed"]
    assert {} == await listed(api, path)


async def test_a_challenger_that_several_put_at_once_is_added_once(api, start):
    """201 for the request that added it, 200 for the others, whichever service they asked."""
    path, other = await api.learnt(rows=4), await start()
    await other.get(path)
    for name in ("a", "b", "c"):
        asked = [one.ask("PUT", f"{path}/challengers/{name}", json=VIGO) for one in (api, other, api)]
        assert [200, 200, 201] == sorted([answer.status_code for answer in await asyncio.gather(*asked)])
    key = {"headers": {"Idempotency-Key": "k"}}
    assert await put(api, path, "d", VIGO, 201, **key) == await put(api, path, "d", VIGO, 200, **key)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        *(({"algorithm": odd}, "algorithm") for odd in ("sparse_dfop", "none", 7)),
        ({"algorithm": "vigo", "params": {"none": 1}}, "params.none"),
        ({"algorithm": "vigo", "labels": ["UP", "SAME"]}, "labels"),
        ({"algorithm": "vigo", "features": ["a"]}, "features"),
        ({"algorithm": "vigo", "task": "regression"}, "task"),
        ({"algorithm": "dfop", "params": {"forgetting_rate": 7}}, "params.forgetting_rate"),
        ({"algorithm": "dfop", "promote": "soon"}, "promote"),
        ({"algorithm": "dfop", "colour": 1}, "colour"),
    ],
)
async def test_a_challenger_that_cannot_be_is_refused(api, body, field):
    """422 names the field, and nothing changes."""
    path = await api.shared()
    await api.refuses(f"{path}/challengers/one", 422, field, method="PUT", json=body)
    for name in ("-", "previous"):
        await api.refuses(f"{path}/challengers/{name}", 422, "challenger", method="PUT", json=VIGO)
    problem(await api.ask("PUT", "/models/nobody/challengers/one", json=VIGO), 404)


async def test_there_are_bounds_on_their_number_and_their_memory(start):
    """409 for one more, 422 for one too large."""
    small = await start(challengers_max=1, model_limit_mb=1)
    path = await small.new({**RLS, "features": [f"x{at}" for at in range(200)]})
    large = {"algorithm": "dfop", "params": {"forgetting_rate": "auto"}}
    found = problem(await small.ask("PUT", f"{path}/challengers/large", json=large), 422, "algorithm")
    assert "<= 1 MiB of state" == found["errors"][0]["allowed"]
    await put(small, path, "one", {"algorithm": "fesl_c"})
    found = problem(await small.ask("PUT", f"{path}/challengers/two", json={"algorithm": "fesl_c"}), 409)
    assert "the model has 1 of at most 1 challengers; DELETE one first" == found["detail"]


async def test_the_drift_events_of_a_challenger_name_it(api):
    """In the model's events and in the service's; the model's own name nobody."""
    path = await api.new({**DFOP, "watch": {}})
    await put(api, path, "other", {"algorithm": "rls", "watch": {"error_rate": {}}})
    for begin in range(0, 900, 300):
        await api.post(f"{path}/feedback/batch", turning(300, begin))
    events = (await api.get(f"{path}/drift"))["events"]
    assert {("other", "error_rate")} == {(one["challenger"], one["kind"]) for one in events}
    everywhere = (await api.get("/drift"))["events"]
    assert events[0]["id"] in [one["id"] for one in everywhere if one["challenger"] == "other"]
    (own,) = (await listed(api, path)).values()
    assert "drift" in [mark["kind"] for mark in own["metrics"]["marks"]]


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
    await put(api, path, "fast", FAST)
    await api.post(f"{path}/feedback/batch", moving(rows, rows))
    return path


async def promote(api, path, name="fast", **how):
    return await api.ask("POST", f"{path}/challengers/{name}/promote", **how)


async def versions(api, path):
    return [one["version"] for one in (await api.get(f"{path}/snapshots"))["snapshots"]]


async def test_a_challenger_that_is_not_shown_to_be_better_is_promoted_by_force_only(api):
    """409 says how many rows were compared, the interval, and what to send; nothing changes and nothing is written."""
    path = await contest(api)
    before = await api.state(path)
    for how in ({}, {"json": {}}, {"json": {"force": False}}, {"headers": {"Idempotency-Key": "one"}}):
        refused = problem(await promote(api, path, **how), 409, "force")
        assert True is refused["errors"][0]["allowed"]
    (one,) = (await listed(api, path)).values()
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
    missing = problem(await promote(api, path, "nobody"), 404, "challenger")
    assert ["previous"] == missing["errors"][0]["allowed"]
    assert "rls" == (await promote(api, path, "previous")).json()["config"]["algorithm"]
    assert "learner_rows" not in (await api.get(path))["info"]


async def test_only_one_of_those_who_ask_at_once_finds_a_challenger(api):
    """It is deleted, or promoted, once; for the others there is none, as for whoever asks later."""
    path = await api.learnt()
    for method, way, done in (("DELETE", "", 204), ("POST", "/promote", 200)):
        await put(api, path, "fast", VIGO)
        body = {"json": FORCE} if way else {}
        url, keys = f"{path}/challengers/fast{way}", [{"Idempotency-Key": f"{method}{number}"} for number in range(5)]
        asked = [api.ask(method, url, headers=key, **body) for key in ({}, *keys)]
        first, *others = sorted(await asyncio.gather(*asked), key=lambda answer: answer.status_code)
        assert done == first.status_code
        again = await asyncio.gather(*(api.ask(method, url, headers=key, **body) for key in keys))
        for answer in (*others, *(one for one in again if one.status_code != done)):
            assert "there is no challenger fast" == problem(answer, 404, "challenger")["detail"]


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
    assert ["fast"] == [*await listed(api, path)]
    await later.get(f"{path}?min_version=9")
    assert await api.state(path) == await later.state(path)
    await api.post(f"{path}/feedback/batch", moving(5, 60))
    assert 204 == (await api.ask(DELETED[0], f"{path}/challengers/{DELETED[1]}")).status_code
    assert [10, 8] == await versions(api, path)
    await api.post(f"{path}/restore", {"version": 10})
    assert ["fast"] == [*await listed(api, path)]


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


async def test_without_the_snapshot_nothing_changes(api, store_url, monkeypatch):
    """503, and the same request works once it can be written: by a full store, or a log that others went on with."""
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
