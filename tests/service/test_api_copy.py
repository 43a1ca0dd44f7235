"""POST /models/{name}/copy: another model with the state of one."""

import numpy as np
import pytest

from service.store.keys import ModelKeys
from tests.service.api_fixtures import DFOP, RLS, columnar, features, problem

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


async def test_ids_predictions_and_drift_events_are_not_copied(api):
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
    assert [] == (await api.get(f"/models/{name}/drift"))["events"]
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
    (listed,) = [one for one in (await api.get("/models", params={"limit": 1000}))["models"] if one["name"] == name]
    assert (0, 6) == (listed["version"], listed["rows"])
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
    answer = await (await start()).ask("GET", f"/models/{name}")
    assert "began with" in problem(answer, 503)["detail"]


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, "name"), ({"name": 5}, "name"), ({"name": "-x"}, "name"), ({"name": "x", "rows": 3}, "rows")],
)
async def test_a_bad_body_is_422(api, body, field):
    """The name of a model, and nothing else."""
    path = await api.learnt()
    problem(await api.ask("POST", f"{path}/copy", json=body), 422, field)
