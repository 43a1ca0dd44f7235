"""Models over HTTP: create, list, show, delete, freshness, the catalogue."""

import gc
import weakref

import jsonschema
import pytest

from core.config import Config
from service.runtime import copies
from tests.service.api_fixtures import DFOP, STATE, problem
from tests.service.waiting import until

MODEL = {"name", "incarnation", "config", "version", "rows", "phase", "metrics", "info", "created", "updated"}


async def test_put_creates_a_model(api):
    """201 with everything that is known of it, defaults filled in."""
    body = {"algorithm": "rls", "task": "regression"}
    answer = await api.ask("PUT", "/models/first", json=body)
    assert 201 == answer.status_code
    model = answer.json()
    assert MODEL == set(model)
    assert Config.parse(body).to_json() == model["config"] != body
    assert ("first", 0, 0, "steady") == tuple(model[name] for name in ("name", "version", "rows", "phase"))
    assert model == await api.get("/models/first")


@pytest.mark.parametrize(
    "change",
    [
        *({"labels": labels} for labels in ([False, True], ["0", "1"], [1, 0], None)),
        *({"params": {"forgetting_rate": 0.02}}, {"features": ["b", "a"]}, {"seed": 1}, {"missing": "zero"}),
        *({"algorithm": "rls"}, {"task": "regression", "labels": None}, {"metrics": {"window": 51}}),
    ],
)
async def test_put_with_another_body_is_409(api, change):
    """0 is not false; nothing of the model that is there changes."""
    path = await api.learnt(labels=[0, 1])
    found = await api.refuses(path, 409, method="PUT", json={**DFOP, "labels": [0, 1], **change})
    for name in change if "task" not in change else ["task"]:
        assert any(name in error["field"] for error in found["errors"])
        assert name in found["detail"]
    assert ("missing" in change) == ("PATCH changes missing" in found["detail"])


READS = ["", "/metrics", "/weights", "/pending", "/snapshots", "/state"]


async def test_a_version_that_does_not_come_is_504(start):
    """On every read, predict and evaluate, with the version that was reached."""
    hasty = await start(wait_timeout_s=0.02)
    path = await hasty.learnt(rows=3)
    for read in READS:
        assert 3 == problem(await hasty.ask("GET", f"{path}{read}", params={"min_version": 4}), 504)["version"]
    row, table = {"features": {"a": 1, "b": 2}}, {"columns": ["a", "b"], "data": [[1, 2]]}
    for route, body in (("predict", row), ("predict/batch", table), ("evaluate", {**table, "labels": ["UP"]})):
        answer = await hasty.ask("POST", f"{path}/{route}", params={"min_version": 4}, json=body)
        assert 3 == problem(answer, 504)["version"]
    assert 3 == (await hasty.get(path, params={"min_version": 3}))["version"]


async def test_a_version_of_another_incarnation_is_409(api):
    """Whoever remembers a model that was created anew is told so, on every read."""
    path = await api.learnt()
    old = (await api.get(path))["incarnation"]
    fresh = {"min_version": 0, "incarnation": old}
    for read in READS:
        assert 200 == (await api.ask("GET", f"{path}{read}", params=fresh)).status_code
    await api.ask("DELETE", path)
    await api.ask("PUT", path, json=DFOP)
    for read in READS:
        problem(await api.ask("GET", f"{path}{read}", params=fresh), 409)


async def test_every_model_answer_names_the_incarnation(api):
    """Whatever is read of a model or done to it says which one it was."""
    path = await api.learnt()
    incarnation = (await api.get(path))["incarnation"]
    row = {"features": {"a": 1, "b": 2}}
    table = {"columns": ["a", "b"], "data": [[1, 2]]}
    bodies = {"predict": row, "feedback": {**row, "label": "UP"}, "predict/batch": table, "reset": None}
    bodies["feedback/batch"] = {**table, "labels": ["UP"]}
    answers = [await api.get(path + read) for read in ("", "/metrics", "/weights", "/pending", "/snapshots")]
    answers += [await api.post(f"{path}/{route}", body) for route, body in bodies.items()]
    assert {incarnation} == {answer["incarnation"] for answer in answers}


async def test_the_catalogue_describes_every_algorithm(api):
    """Ids, tasks, paper, equation, and params as a JSON Schema that fits the defaults."""
    catalogue = (await api.get("/algorithms"))["algorithms"]
    assert {"dfop", "gdfop", "rls"} <= {entry["id"] for entry in catalogue}
    for entry in catalogue:
        assert {"id", "tasks", "summary", "use_when", "paper", "equation", "params"} == set(entry)
        assert {"classification", "regression"} >= set(entry["tasks"])
        jsonschema.Draft202012Validator.check_schema(entry["params"])
        defaults = {name: param["default"] for name, param in entry["params"]["properties"].items()}
        jsonschema.validate(defaults, entry["params"])
        path = await api.new({"algorithm": entry["id"], "task": entry["tasks"][0], "params": defaults})
        assert defaults == (await api.get(path))["config"]["params"]


async def test_the_schema_of_params_refuses_what_the_service_refuses(api):
    """Bounds of the JSON Schema are those of PUT."""
    entries = {entry["id"]: entry["params"] for entry in (await api.get("/algorithms"))["algorithms"]}
    for params in ({"forgetting_rate": 0}, {"forgetting_rate": 0.6}, {"bias": 1}, {"mu": 0.1}):
        assert not jsonschema.Draft202012Validator(entries["dfop"]).is_valid(params)
        problem(await api.ask("PUT", "/models/never", json={**DFOP, "params": params}), 422)
    problem(await api.ask("GET", "/models/never"), 404)


async def test_the_means_of_features_are_told_where_they_are_asked_for(api):
    """Of all rows that the drift test has in its windows; without being asked for they are left out."""
    path = await api.learnt(rows=4)
    assert "means" not in await api.get(f"{path}/features")
    found = await api.get(f"{path}/features", params={"means": "true"})
    names = [own if isinstance(own, str) else own["name"] for own in found["current"]]
    assert names == [*found["means"]]
    assert all(isinstance(mean, float) for mean in found["means"].values())


async def test_a_model_that_is_replaced_whenever_it_has_loaded_is_the_last_one(api, monkeypatch):
    """None of those that were deleted meanwhile is kept."""
    path = await api.learnt()
    models, name, left = api.engine.models, path.removeprefix("/models/"), ["b", "a"]
    models._drop(name)
    load, catalog = models._loader.load, models._store.catalog

    async def and_replace(asked_for):
        found = await load(asked_for)
        if left:
            config = (await catalog.read(name)).config
            await models.delete(name)
            await catalog.create(name, left.pop(), config)
        return found

    monkeypatch.setattr(models._loader, "load", and_replace)
    assert "b" == (await api.get(path))["incarnation"]
    assert not models._outdated


@pytest.mark.parametrize("way", ["import", "copy"])
async def test_a_state_is_let_go_before_its_new_model_is_loaded(api, monkeypatch, way):
    """Memory holds it once less than it would otherwise."""
    path, models, make, states = await api.learnt(), type(api.engine.models), copies._made, []
    present = models.present

    class State(bytearray):
        """To which there may be a weak reference."""

    def made(*given):
        copy, state = make(*given)
        states.append(weakref.ref(state := State(state)))
        return copy, state

    async def loaded(*given):
        state = states.pop()
        await until(lambda: state() is None, within_s=5)  # the thread that made it lets go a moment later
        return await present(*given)

    monkeypatch.setattr(copies, "_made", made)
    monkeypatch.setattr(models, "present", loaded)
    if way == "copy":
        await api.post(f"{path}/copy", {"name": "let-go-copy"}, 201)
    else:
        state = (await api.ask("GET", f"{path}/state")).content
        assert 201 == (await api.ask("PUT", "/models/let-go/state", content=state, headers=STATE)).status_code
    assert [] == states


async def test_what_is_imported_is_freed_with_its_model(api):
    """That there was no such model before is an error that must not hold the request's frame, with body and replica."""
    path = await api.learnt()
    state = (await api.ask("GET", f"{path}/state")).content
    gc.collect()
    gc.disable()
    try:
        made = await api.ask("PUT", "/models/imported/state", content=state, headers=STATE)
        assert 201 == made.status_code
        learner = weakref.ref(api.engine.models.peek("imported").model.own)
        assert 204 == (await api.ask("DELETE", "/models/imported")).status_code
        await until(lambda: learner() is None, within_s=5)
    finally:
        gc.enable()
