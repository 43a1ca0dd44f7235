"""PATCH /models/{name}: settings that change while the model learns."""

import pytest

from tests.service.api_fixtures import DFOP, STATE, features, problem

DAYS = {"name": "day", "type": "categorical", "categories": ["mon", "tue"]}
ERRORS_ONLY = {"error_rate": {"delta": 0.01, "batch_size": 100}}


async def patch(api, path, status=200, headers=None, **changes):
    """The answer to a change of settings."""
    answer = await api.ask("PATCH", path, json=changes, headers=headers or {})
    assert status == answer.status_code, answer.text
    return answer.json()


async def test_named_settings_are_replaced_and_the_others_stay(api):
    """Answered as GET: one version more, the same rows, and a mark that names what has changed."""
    path = await api.learnt(rows=3)
    before = await api.get(path)
    told = await patch(api, path, watch=ERRORS_ONLY, on_drift="reset", description="a note", tags={"team": "pricing"})
    assert await api.get(path) == told
    expected = {"watch": ERRORS_ONLY, "on_drift": "reset", "description": "a note", "tags": {"team": "pricing"}}
    assert {**before["config"], **expected} == told["config"]
    assert (before["version"] + 1, before["rows"]) == (told["version"], told["rows"])
    mark = {"row": 3, "kind": "configure", "fields": ["description", "on_drift", "tags", "watch"]}
    assert mark == told["metrics"]["marks"][-1]


@pytest.mark.parametrize(
    ("field", "value"), [("retire_labels", ["UP"]), ("add_categories", {"plan": ["gold"]})], ids=["labels", "features"]
)
async def test_a_state_that_does_not_allow_a_change_is_told_by_its_field(api, field, value):
    """409: fewer than two labels would be left; there are no features yet."""
    path = await api.new(labels=["UP", "DOWN"], features=None)
    before = await api.get(path)
    told = problem(await api.ask("PATCH", path, json={field: value}), 409)
    assert [field] == [one["field"] for one in told["errors"]]
    assert before == await api.get(path)


@pytest.mark.parametrize(
    ("own", "change"),
    [
        ({}, lambda number: {"class_costs": {"UP": number}}),
        (
            {"task": "regression", "labels": None},
            lambda number: {"labels_due": {"after_s": 60, "then": {"label": number}}},
        ),
    ],
    ids=["cost", "label"],
)
@pytest.mark.parametrize("number", [2**64, 10**30])
async def test_a_number_may_be_a_large_integer(api, own, change, number):
    """Larger than the log's integers; at creation and afterwards it is the same number."""
    path, created = await api.new(**own), await api.new(**own, **change(number))
    (field,) = changes = change(number)
    told = await patch(api, path, **changes)
    assert (await api.get(created))["config"][field] == told["config"][field] == change(float(number))[field]
    huge = await api.ask("PATCH", path, json=change(10**400))
    assert problem(huge, 422)["errors"][0]["field"].startswith(f"{field}.")


async def test_a_change_to_what_is_there_makes_no_version(api):
    """However it is written; with an Idempotency-Key it makes one, in which nothing changes."""
    path = await api.learnt()
    before = await api.get(path)
    for same in ({}, {"missing": "error"}, {"on_drift": None, "tags": {}}, {"watch": before["config"]["watch"]}):
        assert before == await patch(api, path, **same)
    told = await patch(api, path, headers={"Idempotency-Key": "same"}, missing="error")
    assert before["version"] + 1 == told["version"]
    assert (before["config"], before["metrics"]) == (told["config"], told["metrics"])


async def test_a_change_under_a_key_is_made_once(api):
    """A late retry does not undo what came between; another body under the key is 409."""
    path = await api.learnt()
    key = {"Idempotency-Key": "once"}
    await patch(api, path, headers=key, missing="zero")
    await patch(api, path, missing="mean")
    assert "mean" == (await patch(api, path, headers=key, missing="zero"))["config"]["missing"]
    problem(await api.ask("PATCH", path, json={"missing": "error"}, headers=key), 409)
    assert "mean" == (await api.get(path))["config"]["missing"]


@pytest.mark.parametrize(
    ("body", "field", "hint"),
    [
        ({"params": {"bias": False}}, "params", "create another model"),
        ({"algorithm": "rls"}, "algorithm", "create another model"),
        ({"task": "regression"}, "task", "create another model"),
        ({"metrics": {"window": 100}}, "metrics", "create another model"),
        ({"seed": 1, "missing": "zero"}, "seed", "create another model"),
        ({"lags": 1}, "lags", "create another model"),
        ({"features": ["a"]}, "features", "/features/switch"),
        ({"labels": ["a", "b"]}, "labels", "add_labels"),
        ({"colour": 1}, "colour", "is not a field"),
        ({"missing": "guess"}, "missing", "choices"),
        ({"watch": None, "on_drift": "reset"}, "on_drift", "has no drift test"),
        ({"watch": {"error_rate": {"delta": 7}}}, "watch.error_rate.delta", "range"),
        ({"on_drift": "explode"}, "on_drift", "choices"),
        ({"watch": {"colour": {}}}, "watch.colour", "is not a"),
        *(({"description": odd}, "description", "") for odd in ("x" * 2001, 5)),
        *(({"tags": odd}, "tags", "") for odd in (["a"], {"": "a"}, {str(at): "x" for at in range(51)})),
        *(({"tags": {"a": odd}}, "tags.a", "") for odd in (5, "x" * 501)),
        ({"add_labels": [None] * 101}, "add_labels", "101 labels"),  # counted, before any of them is looked at
        ({"retire_labels": [None] * 101}, "retire_labels", "101 labels"),
        ({"retire_labels": "UP"}, "retire_labels", ""),
        ({"retire_labels": ["e"]}, "retire_labels[0]", "is not a label of this model"),
        *(({"retire_labels": ["UP", odd]}, "retire_labels[1]", "") for odd in (1, "UP", None)),
    ],
)
async def test_what_cannot_be_changed_is_refused_with_the_way_to_go(api, body, field, hint):
    """Nothing of the model changes, not the part of the body either that could."""
    found = await api.refuses(await api.shared(), 422, field, method="PATCH", json=body)
    assert any(hint in one["problem"] for one in found["errors"]), found


async def test_rows_are_read_by_the_new_settings(api):
    """A gap that was refused is filled from the change on, and refused again after it is taken back."""
    path = await api.learnt()
    gap = {"features": {"a": 0.5}, "label": "UP"}
    problem(await api.ask("POST", f"{path}/feedback", json=gap), 422, "features.b")
    await patch(api, path, missing="mean")
    await api.post(f"{path}/feedback", gap)
    tracked = await api.post(f"{path}/predict", {"features": {"a": 0.5}, "track": True})
    await patch(api, path, missing="error")
    problem(await api.ask("POST", f"{path}/feedback", json=gap), 422, "features.b")
    assert (await api.post(f"{path}/feedback", {"prediction_id": tracked["prediction_id"], "label": "UP"}))["learned"]


async def test_names_are_passed_over_and_categories_refused_by_the_new_settings(api):
    """A name that no row may hold is passed over from the change on; a category that was taken is refused."""
    path, row = await api.new(features=["a", DAYS]), {"a": 0.5, "day": "sun"}
    await api.post(f"{path}/feedback", {"features": row, "label": "UP"})
    await api.refuses(f"{path}/predict", 422, "features.note", json={"features": {**row, "note": "x"}})
    await patch(api, path, ignore=["note"], unknown="error")
    await api.refuses(f"{path}/predict", 422, "features.day", json={"features": row})
    await api.post(f"{path}/feedback", {"features": {"a": 1, "day": "mon", "note": "x"}, "label": "DOWN"})
    for model, name in ((path, "day"), (await api.learnt(features=None), "b")):
        await api.refuses(model, 422, "ignore[0]", method="PATCH", json={"ignore": [name]})
    await patch(api, path, ignore=None, unknown=None)
    await api.post(f"{path}/predict", {"features": row})


async def test_a_name_that_a_switch_has_dropped_is_ignored(api, start):
    """Then the model can be copied, exported and imported, and loaded, and its present configuration sent; features
    are not ignored.
    """
    path = await api.new(features=["a", "b"])
    begin, complete = {"action": "begin", "features": ["b", "c"]}, {"action": "complete", "force": True}
    await patch(api, path, ignore=["c"])
    await api.refuses(f"{path}/features/switch", 422, "features[1]", json=begin)
    await patch(api, path, ignore=None)
    await api.post(f"{path}/features/switch", begin)
    await api.refuses(path, 422, "ignore[0]", method="PATCH", json={"ignore": ["c"]})
    await api.post(f"{path}/features/switch", complete)
    present = (await patch(api, path, ignore=["a"]))["config"]
    copy, imported = f"{path}.copy", f"{path}.imported"
    await api.post(f"{path}/copy", {"name": copy.rpartition("/")[2]}, 201)
    answer = await api.ask("PUT", f"{imported}/state", content=await api.state(path), headers=STATE)
    assert 201 == answer.status_code, answer.text
    other = await start()
    for client in (api, other):
        for same in (path, copy, imported):
            answer = await client.ask("PUT", same, json=present)
            assert (200, present) == (answer.status_code, answer.json()["config"])


async def test_put_knows_the_first_and_the_present_configuration(api, start):
    """Both bodies are 200, at every replica; any other is 409."""
    path = await api.new()
    other = await start()
    await other.get(path)
    present = (await patch(api, path, missing="zero", description="mine"))["config"]
    for client in (api, other):
        for body in (DFOP, present, {**DFOP, "missing": "zero", "description": "mine"}):
            answer = await client.ask("PUT", path, json=body)
            assert (200, present) == (answer.status_code, answer.json()["config"])
        problem(await client.ask("PUT", path, json={**DFOP, "missing": "zero"}), 409)


@pytest.mark.parametrize(
    ("limit_mb", "algorithm", "columns", "change"),
    [
        (1, "odm", 4000, {"watch": {"class_mean": {}}}),
        (2, "vigo", 150, {"add_labels": [f"label {at}" for at in range(60)]}),
    ],
)
async def test_a_change_that_would_not_fit_is_refused(start, limit_mb, algorithm, columns, change):
    """Windows take memory, and a state grows with its classes: the limit is asked before the change is made."""
    small = await start(model_limit_mb=limit_mb)
    body = {"algorithm": algorithm, "labels": ["a", "b"], "features": [f"x{at}" for at in range(columns)]}
    path = await small.new({**body, "watch": None})
    found = problem(await small.ask("PATCH", path, json=change), 422, next(iter(change)))
    assert f"<= {limit_mb} MiB of state" == found["errors"][0]["allowed"]
    await patch(small, path, watch={"error_rate": {}})


async def test_labels_are_added_while_the_model_learns(api, start):
    """Refused before, learned after, also by a service that has not read the change yet."""
    path, other = await api.learnt(rows=4), await start()
    await other.get(path)
    row = {"features": features(1), "label": "SAME"}
    problem(await api.ask("POST", f"{path}/feedback", json=row), 422, "label")
    told = await patch(api, path, add_labels=["SAME"])
    assert ["UP", "DOWN", "SAME"] == told["config"]["labels"]
    assert 5 == (await other.post(f"{path}/feedback", row))["rows"]
    assert told["version"] + 1 == (await patch(api, path, add_labels=["SAME", "UP"]))["version"]
    batch = {"columns": ["a", "b"], "data": [[0, 1]], "labels": ["SAME"]}
    assert 6 == (await other.post(f"{path}/feedback/batch", batch))["rows"]
    problem(await api.ask("PATCH", path, json={"add_labels": ["SAME", "SAME"]}), 422, "add_labels[1]")


async def test_a_retired_label_is_not_answered(api):
    """A row, a batch and an Open Inference answer leave it out; feedback with it is refused until it is added again."""
    path, row = await api.new(labels=["UP", "DOWN", "SAME"]), {"features": {"a": 2, "b": 0.5}}
    rows = {"columns": ["a", "b"], "data": [[at % 3, 0.5] for at in range(30)], "labels": ["UP", "DOWN", "SAME"] * 10}
    await api.post(f"{path}/feedback/batch", rows)
    told = await patch(api, path, retire_labels=["SAME"])
    assert (2, ["SAME"]) == (told["version"], told["info"]["retired_labels"])
    assert ["retire_labels"] == told["metrics"]["marks"][-1]["fields"]
    assert {"UP", "DOWN"} == set((await api.post(f"{path}/predict", row))["probabilities"])
    many = await api.post(f"{path}/predict/batch", {"columns": rows["columns"], "data": rows["data"]})
    assert (["UP", "DOWN"], {2}) == (many["classes"], {len(shares) for shares in many["probabilities"]})
    outputs = (await api.get(f"/v2{path}"))["outputs"]
    assert [["UP", "DOWN"]] == [own["parameters"]["classes"] for own in outputs if "parameters" in own]
    for route, body, field in (("feedback", {**row, "label": "SAME"}, "label"), ("feedback/batch", rows, "labels[2]")):
        found = await api.refuses(f"{path}/{route}", 422, field, json=body)
        assert "add_labels" in found["errors"][0]["problem"]
    assert "retired_labels" not in (await patch(api, path, add_labels=["SAME"]))["info"]
    assert 31 == (await api.post(f"{path}/feedback", {**row, "label": "SAME"}))["rows"]
