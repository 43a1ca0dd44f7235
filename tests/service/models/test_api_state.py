"""Reset, snapshots, restore, export, import and copies: the state goes back or comes over, the version goes on."""

import numpy as np
import pytest
from safetensors.numpy import save as save_tensors

from core.config import Config
from core.entry import Entry, Rows
from core.model import Model, save
from core.model.apply import apply
from service.store.keys import ModelKeys
from tests.service.api_fixtures import DFOP, JSON, RLS, ROW, STATE, columnar, features, problem


async def predictions(api, path):
    """What a model says of some rows, without who says it."""
    answer = await api.post(f"{path}/predict/batch", columnar(9, 100))
    return {name: value for name, value in answer.items() if name not in {"version", "incarnation"}}


async def test_a_tracked_row_of_a_forgotten_space_is_409(api):
    """The union of a change that a reset ended is no longer the model's; the refusal is remembered with the id.

    A row of the features that the reset dropped is learned, and they are the model's again.
    """
    path = await api.learnt(features=None)
    first = await api.post(f"{path}/predict", {**ROW, "track": True})
    await api.post(f"{path}/features/switch", {"action": "begin", "features": ["new"]})
    told = await api.post(f"{path}/predict", {"features": {**ROW["features"], "new": 1.0}, "track": True})
    await api.post(f"{path}/reset")
    before = (await api.get(path))["rows"]
    for _ in range(2):
        answer = await api.ask("POST", f"{path}/feedback", json={"prediction_id": told["prediction_id"], "label": "UP"})
        problem(answer, 409)
    assert before == (await api.get(path))["rows"]
    learned = await api.post(f"{path}/feedback", {"prediction_id": first["prediction_id"], "label": "UP"})
    assert (True, first["prediction"]) == (learned["learned"], learned["prediction"])
    assert (await api.post(f"{path}/predict", ROW))["prediction"]


async def test_snapshots_are_listed_and_restored(api):
    """Newest first; what is kept can be gone back to, predictions bit for bit, and the version goes on."""
    path = await api.learnt(rows=5)
    taken = await api.post(f"{path}/snapshots", status=201)
    assert {"version", "rows", "bytes", "time", "incarnation"} == set(taken)
    then = await predictions(api, path)
    await api.post(f"{path}/feedback/batch", {**columnar(6), "labels": ["DOWN"] * 6})
    await api.post(f"{path}/snapshots", status=201)
    listed = (await api.get(f"{path}/snapshots"))["snapshots"]
    assert [6, 5] == [entry["version"] for entry in listed]
    assert [11, 5] == [entry["rows"] for entry in listed]
    assert then != await predictions(api, path)
    answer = await api.post(f"{path}/restore", {"version": 5})
    assert (7, 5) == (answer["version"], answer["rows"])
    assert then == await predictions(api, path)
    shown = await api.get(path)
    assert (7, 5, "restore") == (shown["version"], shown["rows"], shown["metrics"]["marks"][-1]["kind"])


@pytest.mark.parametrize("way", ["restore", "import"])
async def test_ids_stay_seen(api, way):
    """They belong to the name, not to the state: what was learned after it is not learned again."""
    path = await api.learnt()
    await api.post(f"{path}/snapshots", status=201)
    exported = await api.state(path)
    first = await api.post(f"{path}/feedback", {**ROW, "label": "UP", "id": "late"})
    await (api.post(f"{path}/restore", {"version": 3}) if way == "restore" else api.imports(path, exported, 200))
    assert {**first, "duplicate": True} == await api.post(f"{path}/feedback", {**ROW, "label": "UP", "id": "late"})
    assert 3 == (await api.get(path))["rows"]


async def test_a_repeated_reset_or_restore_changes_nothing(api):
    """With the same Idempotency-Key: rows that were learned in between stay learned; another body is a conflict."""
    path = await api.learnt(rows=5)
    await api.post(f"{path}/snapshots", status=201)
    for step, body in (("restore", {"version": 5}), ("reset", None)):
        once = {"headers": {"Idempotency-Key": f"{step}-1"}}
        first = await api.post(f"{path}/{step}", body, **once)
        await api.post(f"{path}/feedback/batch", {**columnar(3), "labels": ["UP"] * 3})
        standing = await api.get(path)
        assert first == await api.post(f"{path}/{step}", body, **once)
        assert standing == await api.get(path)
        assert first["version"] < (await api.post(f"{path}/{step}", body))["version"]
    problem(
        await api.ask("POST", f"{path}/restore", json={"version": 1}, headers={"Idempotency-Key": "restore-1"}), 409
    )
    problem(await api.ask("POST", f"{path}/reset", headers={"Idempotency-Key": "restore-1"}), 409)


async def test_a_version_that_is_not_kept_is_404_with_what_there_is(start):
    """Old snapshots are dropped; the error lists those that are kept."""
    frugal = await start(snapshots_kept=2)
    path = await frugal.learnt(rows=1)
    for row in range(3):
        await frugal.post(f"{path}/snapshots", status=201)
        await frugal.post(f"{path}/feedback", {"features": features(row), "label": "UP"})
    for version in (0, 1, 4, 2**60):
        found = await frugal.refuses(f"{path}/restore", 404, "version", json={"version": version})
        assert [3, 2] == found["errors"][0]["allowed"]


async def test_a_snapshot_that_is_replaced_while_it_is_read_is_404(start, monkeypatch):
    """Its pieces are gone, but nothing is damaged; if it is still listed, it is."""
    frugal = await start(snapshots_kept=1)
    path = await frugal.learnt(rows=1)
    await frugal.post(f"{path}/snapshots", status=201)
    snapshots = frugal.engine.store.snapshots

    async def read_late(*of):
        await frugal.post(f"{path}/feedback", {**ROW, "label": "UP"})
        await frugal.post(f"{path}/snapshots", status=201)
        return await read(*of)

    async def read_damaged(*of):
        raise ValueError("a piece is damaged")

    read = snapshots.read
    monkeypatch.setattr(snapshots, "read", read_late)
    found = problem(await frugal.ask("POST", f"{path}/restore", json={"version": 1}), 404, "version")
    assert [2] == found["errors"][0]["allowed"]
    monkeypatch.setattr(snapshots, "read", read_damaged)
    assert "damaged" in (await frugal.refuses(f"{path}/restore", 409, json={"version": 2}))["detail"]


@pytest.mark.parametrize("version", ["-1", "1.5", '"3"', "true", "null", '0, "version": 1'])
async def test_a_version_is_a_whole_number(api, version):
    """Anything else is refused, naming the field, as is another field."""
    path = await api.learnt()
    text = f'{{"version": {version}}}'
    problem(await api.ask("POST", f"{path}/restore", content=text, headers=JSON), 422, "version")
    problem(await api.ask("POST", f"{path}/restore", json={"version": 0, "force": True}), 422, "force")
    problem(await api.ask("POST", f"{path}/restore", json={}), 422, "version")


@pytest.mark.parametrize("kind", [DFOP, {**DFOP, "labels": None, "features": None}, RLS, {**RLS, "missing": "mean"}])
async def test_an_exported_state_goes_over_bit_for_bit(api, kind):
    """Into a new name (which creates it), or over a model of the same configuration; the version goes on."""
    source, target = await api.learnt(kind, rows=12), await api.learnt(kind, rows=2)
    told = await predictions(api, source)
    exported = await api.ask("GET", f"{source}/state")
    assert "application/octet-stream" == exported.headers["content-type"]
    assert f"{source.rpartition('/')[2]}-12.safetensors" in exported.headers["content-disposition"]
    answer = await api.ask("PUT", f"{source}.copy/state", content=exported.content, headers=STATE)
    assert (201, 0, 12) == (answer.status_code, answer.json()["version"], answer.json()["rows"])
    answer = await api.ask("PUT", f"{target}/state", content=exported.content, headers=STATE)
    assert (200, 3, 12) == (answer.status_code, answer.json()["version"], answer.json()["rows"])
    for path in (f"{source}.copy", target):
        assert told == await predictions(api, path)
        assert "import" == (await api.get(path))["metrics"]["marks"][-1]["kind"]
    config = (await api.get(source))["config"]
    assert config == (await api.get(f"{source}.copy"))["config"]
    label = 1.25 if kind["task"] == "regression" else "DOWN"
    answers = [await api.post(f"{path}/feedback", {**ROW, "label": label}) for path in (source, target)]
    assert answers[0]["prediction"] == answers[1]["prediction"]
    assert await predictions(api, source) == await predictions(api, target)


async def test_a_state_of_another_configuration_is_409(api):
    """Nothing changes, however alike the models are."""
    path = await api.learnt()
    for change in ({"seed": 1}, {"algorithm": "rls"}, {"labels": ["DOWN", "UP"]}, {"features": ["b", "a"]}):
        other = await api.state(await api.learnt(**change))
        found = await api.refuses(f"{path}/state", 409, method="PUT", content=other, headers=STATE)
        assert [*change] == [error["field"] for error in found["errors"]]
        assert f"({', '.join(change)}); import it under another name" in found["detail"]


async def test_an_import_brings_its_settings(api):
    """What PATCH can change need not agree; the model goes on with the settings of the state."""
    path = await api.learnt()
    other = await api.learnt(rows=5, missing="zero", on_drift="reset", tags={"team": "a"})
    answer = await api.ask("PUT", f"{path}/state", content=await api.state(other), headers=STATE)
    assert (200, 5) == (answer.status_code, answer.json()["rows"])
    assert (await api.get(other))["config"] == (await api.get(path))["config"]
    await api.post(f"{path}/feedback", {"features": {"a": 0.5}, "label": "UP"})


async def test_a_broken_state_is_refused_and_nothing_changes(api):
    """Truncated, changed in any part, foreign, or nothing: no model takes it, and no error repeats it."""
    path = await api.learnt(rows=6)
    before = await api.standing(path)
    whole = before[2]
    broken = [b"", b"{}", whole[:-1], whole[: len(whole) // 2], whole + b"x", save_tensors({"w": np.zeros(3)})]
    for at in range(0, len(whole), max(1, len(whole) // 40)):
        broken.append(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    secret = b'"SECRET'
    broken += [len(body).to_bytes(8, "little") + body for body in (secret + b"\xff" * 9000, b"[1, " + secret * 9000)]
    broken.append(whole.replace(b'"__metadata__"', secret + b'SECRET"', 1))
    for body in broken:
        refused = await api.ask("PUT", f"{path}/state", content=body, headers=STATE)
        problem(refused, 422, "body")
        assert "SECRET" not in refused.text
        assert len(refused.content) < 1000
        problem(await api.ask("PUT", "/models/unborn/state", content=body, headers=STATE), 422, "body")
    assert before == await api.standing(path)
    problem(await api.ask("GET", "/models/unborn"), 404)


async def test_a_state_has_a_media_type_of_its_own(api):
    """JSON is none; saying nothing is as good as saying octet-stream; the other names of safetensors are taken too."""
    path = await api.learnt()
    state = await api.state(path)
    for wrong in ("application/json", "text/csv", "application/problem+json"):
        how = {"content": state, "headers": {"Content-Type": wrong}}
        await api.refuses(f"{path}/state", 415, "Content-Type", method="PUT", **how)
    for headers in ({}, STATE, {"Content-Type": "application/vnd.safetensors"}):
        assert 200 == (await api.ask("PUT", f"{path}/state", content=state, headers=headers)).status_code


async def test_a_state_larger_than_the_model_limit_is_refused(start):
    """Its size is known from its header; it is refused before anything is allocated, declared features or not."""
    small = await start(model_limit_mb=1)
    names = [f"x{i}" for i in range(400)]
    for declared in (names, None):
        model = Model.first(Config.parse({**DFOP, "features": names if declared else None}))
        if declared is None:
            space = Model.first(Config.parse({**DFOP, "features": names})).prediction_schema
            apply(model, Entry(1, 0, (Rows(space.id, space.features, np.ones((1, 400)), ["UP"]),)))
        answer = await small.ask("PUT", "/models/large/state", content=save.to_bytes(model), headers=STATE)
        assert "<= 1 MiB of state" == problem(answer, 422, "features")["errors"][0]["allowed"]
    problem(await small.ask("GET", "/models/large"), 404)


async def test_a_state_with_too_many_classes_is_refused(start):
    """Classes that came with rows count like declared ones: two of them would fit, forty do not."""
    small = await start(model_limit_mb=1)
    model = Model.first(
        Config.parse({"algorithm": "vigo", "task": "classification", "features": [f"x{i}" for i in range(30)]})
    )
    for classes, fits in ((2, True), (40, False)):
        apply(model, Entry(1, 0, (Rows(model.feedback_schema.id, None, np.ones((classes, 30)), [*range(classes)]),)))
        answer = await small.ask("PUT", f"/models/of-{classes}/state", content=save.to_bytes(model), headers=STATE)
        if fits:
            assert 201 == answer.status_code
        else:
            assert "<= 1 MiB of state" == problem(answer, 422, "features")["errors"][0]["allowed"]


OWN = {"name", "incarnation", "version", "created", "updated"}
"""What a copy has of its own."""


async def copied(api, path, name, status=201, **how):
    """The answer to a copy."""
    answer = await api.ask("POST", f"{path}/copy", json={"name": name}, **how)
    assert status == answer.status_code, answer.text
    return answer.json()


def turned(sign):
    """Rows whose labels are those of one side of a feature, or of the other."""
    data = np.random.default_rng(0).normal(size=(300, 2)).tolist()
    labels = ["UP" if sign * a > 0 else "DOWN" for a, _ in data]
    return {"columns": ["a", "b"], "data": data, "labels": labels}


async def listed(api, name):
    """The entry of a model in the list of all."""
    (found,) = [one for one in (await api.get("/models", params={"limit": 1000}))["models"] if one["name"] == name]
    return found


def bare(model):
    """A model without what is its own."""
    return {field: value for field, value in model.items() if field not in OWN}


@pytest.mark.parametrize("kind", [DFOP, {**DFOP, "features": None, "labels": None}, RLS, {**RLS, "missing": "mean"}])
async def test_a_copy_is_as_its_model_and_goes_on_by_itself(api, kind):
    """Rows, metrics, configuration, predictions; a new incarnation at version 0; what one learns the other does not."""
    path = await api.learnt(kind, rows=12)
    before = await api.get(path)
    name = f"{before['name']}.copy"
    told = await copied(api, path, name)
    assert await api.get(f"/models/{name}") == told
    assert (name, 0, 12) == (told["name"], told["version"], told["rows"])
    assert before["incarnation"] != told["incarnation"]
    assert bare(before) == bare(told)
    answers = [await api.post(f"/models/{one}/predict/batch", columnar(5)) for one in (before["name"], name)]
    assert [bare(answers[0])] * 2 == [bare(one) for one in answers]
    label = 1.5 if kind["task"] == "regression" else "UP"
    await api.post(f"/models/{name}/feedback", {"features": features(3), "label": label})
    assert (12, 13) == ((await api.get(path))["rows"], (await api.get(f"/models/{name}"))["rows"])


async def test_ids_predictions_and_drift_events_are_not_copied(api, start):
    """The copy learns a row again that its model knows by its id, and has no predictions that wait, and no events."""
    path = await api.new(watch={"error_rate": {"batch_size": 16, "delta": 0.5}, "episode_rows": 0})
    row = {"features": features(1), "label": "UP", "id": "one"}
    await api.post(f"{path}/feedback", row)
    for sign in (1, -1):
        await api.post(f"{path}/feedback/batch", turned(sign))
    tracked = await api.post(f"{path}/predict", {"features": features(2), "track": True})
    assert (await api.get(f"{path}/drift"))["events"]
    name = f"{path.rpartition('/')[2]}.bare"
    await copied(api, path, name)
    await api.ask("PUT", f"/models/{name}.too/state", content=await api.state(path), headers=STATE)
    lists = await start()  # knows what the store has, and holds none of them
    for other in (name, f"{name}.too"):
        assert [] == (await api.get(f"/models/{other}/drift"))["events"]
        assert (await listed(lists, other))["drift"] is None
    assert [] == (await api.get(f"/models/{name}/pending"))["pending"]
    assert not (await api.post(f"/models/{name}/feedback", row))["duplicate"]
    late = {"prediction_id": tracked["prediction_id"], "label": "UP"}
    problem(await api.ask("POST", f"/models/{name}/feedback", json=late), 404)
    assert (await api.post(f"{path}/feedback", row))["duplicate"]
    await api.post(f"/models/{name}/feedback/batch", turned(1))
    events = (await api.get(f"/models/{name}/drift"))["events"]
    assert events
    assert {name} == {event["model"] for event in events}
    assert all(event["row"] > 601 for event in events)


async def test_a_state_that_cannot_be_read_back_replaces_nothing(api, monkeypatch):
    """No snapshot, no copy and no step that would need one: what is stored still holds, and the model learns on.

    A stop does not try whether it can, unless more than rows has come since that was last tried.
    """
    path = await api.learnt()
    kept = [await api.post(f"{path}/snapshots", status=201), await api.get(f"{path}/snapshots")]

    def unreadable(_):
        raise ValueError("the rows of the parts differ")

    with monkeypatch.context() as broken:
        broken.setattr(save, "from_bytes", unreadable)
        for asked, body in ((f"{path}/snapshots", None), (f"{path}/copy", {"name": "unread"})):
            found = problem(await api.ask("POST", asked, json=body), 503)
            assert "cannot be read back: the rows of the parts differ" in found["detail"]
        assert 404 == (await api.ask("GET", "/models/unread")).status_code
        assert kept[1] == await api.get(f"{path}/snapshots")
        for steps, written in ((("POST", "/feedback"),), True), ((("PATCH", ""), ("POST", "/feedback")), False):
            for method, asked in steps:
                body = {"description": "new"} if method == "PATCH" else {**ROW, "label": "UP"}
                assert 200 == (await api.ask(method, path + asked, json=body)).status_code
            await api.engine.snapshotter.flush()
            newest = (await api.get(f"{path}/snapshots"))["snapshots"][0]["version"]
            assert written == (newest == (await api.get(path))["version"])
    assert kept[0]["version"] + 3 == (await api.post(f"{path}/snapshots", status=201))["version"]


async def test_a_name_that_is_taken_is_409_unless_the_same_request_has_made_it(api, start):
    """By its key, at any replica; never the copy of another model, or by another key, or without one."""
    path, other = await api.learnt(rows=3), await api.learnt(rows=5)
    name, key = f"{path.rpartition('/')[2]}.kept", {"Idempotency-Key": "a copy"}
    problem(await api.ask("POST", f"{path}/copy", json={"name": path.rpartition("/")[2]}), 409)
    first = await copied(api, path, name, headers=key)
    await api.post(f"/models/{name}/feedback", {"features": features(1), "label": "UP"})
    for client in (api, await start()):
        again = await copied(client, path, name, headers=key)
        assert (first["incarnation"], 1, 4) == (again["incarnation"], again["version"], again["rows"])
        problem(await client.ask("POST", f"{path}/copy", json={"name": name}), 409)
        problem(await client.ask("POST", f"{path}/copy", json={"name": name}, headers={"Idempotency-Key": "b"}), 409)
        problem(await client.ask("POST", f"{other}/copy", json={"name": name}, headers=key), 409)
    assert 4 == (await api.get(f"/models/{name}"))["rows"]


async def test_a_copy_is_kept_like_any_other_model(api, start):
    """Its first snapshot is that of version 0; a service that starts later has the same state; it is listed."""
    path = await api.learnt(rows=6)
    name = f"{path.rpartition('/')[2]}.later"
    await copied(api, path, name)
    (first,) = (await api.get(f"/models/{name}/snapshots"))["snapshots"]
    assert (0, 6) == (first["version"], first["rows"])
    shown = await listed(api, name)
    assert (0, 6) == (shown["version"], shown["rows"])
    await api.post(f"/models/{name}/feedback", {"features": features(1), "label": "UP"})
    later = await start()
    assert await api.state(f"/models/{name}") == await later.state(f"/models/{name}")
    assert 200 == (await later.ask("PUT", f"/models/{name}", json=DFOP)).status_code
    await api.post(f"/models/{name}/restore", {"version": 0})
    assert 6 == (await api.get(f"/models/{name}"))["rows"]


async def test_a_copy_whose_first_snapshot_is_lost_is_out_of_service(api, start):
    """It is not taken for a model that has learned nothing."""
    path = await api.learnt(rows=6)
    name = f"{path.rpartition('/')[2]}.torn"
    told = await copied(api, path, name)
    connection = api.engine.store.connection
    await connection.ask(("UNLINK", ModelKeys(name, told["incarnation"]).chunks(0)))
    assert "first snapshot is incomplete" in problem(await (await start()).ask("GET", f"/models/{name}"), 503)["detail"]


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, "name"), ({"name": 5}, "name"), ({"name": "-x"}, "name"), ({"name": "x", "rows": 3}, "rows")],
)
async def test_a_bad_body_is_422(api, body, field):
    """The name of a model, and nothing else."""
    problem(await api.ask("POST", f"{await api.shared()}/copy", json=body), 422, field)
