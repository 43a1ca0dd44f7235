"""A change of features over HTTP: begin, overlap, complete, abort, and what is answered in each phase."""

import numpy as np
import pytest

from tests.service.api_fixtures import CSV, DFOP, NPY, RLS, npy, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

OLD, NEW, UNION = ["a", "b"], ["b", "c", "d"], ["a", "b", "c", "d"]
BEGIN = {"action": "begin", "features": NEW}
FESL = {**DFOP, "algorithm": "fesl_c"}


def row(number, names=UNION):
    """A row of a small stream in some names; c and d are linear in a and b."""
    a, b = ((number * 37) % 11) / 11 - 0.5, ((number * 53) % 13) / 13 - 0.5
    values = {"a": a, "b": b, "c": 2 * a - b, "d": 0.3 - a}
    return {name: values[name] for name in names}


def label(number):
    return "UP" if row(number)["a"] > row(number)["b"] else "DOWN"


def labelled(number, names=UNION, **more):
    return {"features": row(number, names), "label": label(number), **more}


def table(numbers, names=UNION):
    return {"columns": names, "data": [[*row(number, names).values()] for number in numbers]}


async def feed(api, path, numbers, names):
    for number in numbers:
        await api.post(f"{path}/feedback", labelled(number, names))


async def switch(api, path, body=BEGIN, **how):
    return await api.post(f"{path}/features/switch", body if isinstance(body, dict) else {"action": body}, **how)


async def steady(api, config=DFOP, rows=6):
    """A model that has learned some rows of the old space."""
    path = await api.new(config)
    await feed(api, path, range(rows), OLD)
    return path


async def overlapping(api, config=DFOP, rows=8):
    """One in an overlap, with some rows of it."""
    path = await steady(api, config)
    await switch(api, path)
    await feed(api, path, range(rows), UNION)
    return path


async def switched(api, config=DFOP, rows=8):
    """One whose change is complete."""
    path = await overlapping(api, config, rows)
    await switch(api, path, "complete")
    return path


async def spaces(api, path):
    found = await api.get(f"{path}/features")
    return found["phase"], found["current"], found["next"]


@pytest.mark.parametrize("config", [DFOP, FESL, RLS])
async def test_a_change_from_begin_to_the_next(api, config):
    """Steady, overlap, ensemble, overlap: each answer says where the model stands, the same as GET."""
    path = await api.new(config)
    assert ("steady", OLD, None) == await spaces(api, path)
    target = (lambda n: row(n)["a"]) if config is RLS else label

    async def learn(numbers, names):
        for n in numbers:
            await api.post(f"{path}/feedback", {"features": row(n, names), "label": target(n)})

    await learn(range(10), OLD)
    begun = await switch(api, path)
    assert ("overlap", OLD, NEW, 0) == tuple(begun[name] for name in ("phase", "current", "next", "overlap_rows"))
    assert (None, None) == (begun["mapping_error"], begun["ensemble"])
    assert begun == {**await api.get(f"{path}/features"), "rows": 10, "duplicate": False, "durability": "everysec"}
    await learn(range(10, 30), UNION)
    shown = await api.get(f"{path}/features")
    assert ("overlap", 20) == (shown["phase"], shown["overlap_rows"])
    assert shown["mapping_error"] == pytest.approx(0, abs=0.5)
    done = await switch(api, path, "complete")
    assert ("ensemble", NEW, None) == (done["phase"], done["current"], done["next"])
    assert "warning" not in done
    assert 1 == pytest.approx(sum(expert["weight"] for expert in done["ensemble"]))
    assert {"expert", "weight", "loss"} == {name for expert in done["ensemble"] for name in expert}
    await learn(range(30, 40), NEW)
    assert 0 < sum(expert["loss"] for expert in (await api.get(f"{path}/features"))["ensemble"])
    again = await switch(api, path, {"action": "begin", "features": ["d", "e"], "mapping": "kernel"})
    assert ("overlap", NEW, ["d", "e"], 40) == (again["phase"], again["current"], again["next"], again["rows"])
    assert "ensemble" != (await switch(api, path, "abort"))["phase"]
    third = await switch(api, path, {"action": "begin", "features": OLD})
    assert ("overlap", 0) == (third["phase"], third["overlap_rows"])


async def test_every_answer_says_version_and_incarnation(api):
    """A switch is one entry of the log; the model, the list and the features tell the same phase."""
    path = await steady(api)
    shown = await api.get(path)
    begun = await switch(api, path)
    assert (shown["version"] + 1, shown["incarnation"]) == (begun["version"], begun["incarnation"])
    after = await api.get(path, params={"min_version": begun["version"]})
    assert ("overlap", begun["version"]) == (after["phase"], after["version"])
    listed = {found["name"]: found["phase"] for found in (await api.get("/models", params={"limit": 1000}))["models"]}
    assert "overlap" == listed[path.rpartition("/")[2]]
    found = await api.get(f"{path}/features", params={"consistency": "strong"})
    assert begun["version"] == found["version"]


async def test_a_name_in_both_is_kept_as_it_was_declared(api):
    """By its bare name or by the same declaration; ranges may change, types and categories may not."""
    day = {"name": "day", "type": "categorical", "categories": ["mon", "tue"]}
    path = await api.new(features=["a", day, {"name": "load", "min": 0, "max": 1}])
    begun = await switch(api, path, {"action": "begin", "features": ["day", "load", "c"]})
    assert [day, {"name": "load", "type": "numeric", "min": 0, "max": 1}, "c"] == begun["next"]
    await switch(api, path, "abort")
    wide = {"name": "load", "min": -5, "max": 5}
    await switch(api, path, {"action": "begin", "features": [day, wide, "c"]})
    await switch(api, path, "abort")
    for odd in ({**day, "categories": ["mon", "wed"]}, {"name": "a", "type": "categorical", "categories": [1, 2]}):
        body = {"action": "begin", "features": [odd, "c"]}
        await api.refuses(f"{path}/features/switch", 422, "features[0]", json=body)
    clash = {"action": "begin", "features": ["c", "day=mon"]}
    await api.refuses(f"{path}/features/switch", 422, "features", json=clash)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"action": "begin", "features": []}, "features"),
        ({"action": "begin"}, "features"),
        ({"action": "begin", "features": OLD}, "features"),
        ({"action": "begin", "features": OLD[::-1]}, "features"),
        ({"action": "begin", "features": ["c", "d", "c"]}, "features[2]"),
        ({"action": "begin", "features": ["c", ""]}, "features[1]"),
        ({"action": "begin", "features": ["c", 7]}, "features[1]"),
        ({"action": "begin", "features": ["c", {"name": "d", "unit": "m"}]}, "features[1].unit"),
        ({"action": "begin", "features": {"c": 1}}, "features"),
        ({**BEGIN, "mapping": "spline"}, "mapping"),
        ({**BEGIN, "when": "now"}, "when"),
        ({"action": "finish"}, "action"),
        ({}, "action"),
        ({"action": "complete", "features": NEW}, "features"),
        ({"action": "abort", "mapping": "linear"}, "mapping"),
        ({**BEGIN, "id": ""}, "id"),
        ({**BEGIN, "id": "tab\t"}, "id"),
    ],
)
async def test_a_switch_that_asks_for_the_wrong_thing(api, body, field):
    """422 names the field, and nothing changes."""
    path = await steady(api)
    await api.refuses(f"{path}/features/switch", 422, field, json=body)


@pytest.mark.parametrize("action", ["complete", "abort"])
async def test_complete_and_abort_without_begin(api, action):
    """409 in the steady phase, and again once a change is complete."""
    for path in (await steady(api), await switched(api)):
        await api.refuses(f"{path}/features/switch", 409, json={"action": action})


async def test_begin_while_in_overlap(api):
    """409 with what is under way."""
    path = await overlapping(api)
    found = await api.refuses(f"{path}/features/switch", 409, json={"action": "begin", "features": ["x"]})
    assert "b, c, d" in found["detail"]
    assert "8 overlap rows" in found["detail"]


async def test_begin_before_there_are_features(api):
    """409: there is nothing to change from; the first row fixes them, and then it works."""
    path = await api.new(features=None)
    await api.refuses(f"{path}/features/switch", 409, json=BEGIN)
    assert ("steady", [], None) == await spaces(api, path)
    await feed(api, path, range(3), OLD)
    assert "overlap" == (await switch(api, path))["phase"]


async def test_a_model_of_sparse_rows_has_no_features_to_change(api):
    """409 with the reason, whatever the action."""
    path = await api.new({"algorithm": "sparse_dfop", "task": "classification"})
    assert ("steady", [], None) == await spaces(api, path)
    for body in (BEGIN, {"action": "complete"}):
        found = await api.refuses(f"{path}/features/switch", 409, json=body)
        assert "any names" in found["detail"]
    await api.refuses(f"{path}/features/overlap", 409, json={"features": row(1)})


async def test_a_new_space_that_does_not_fit(start):
    """422 names the limit: three models and the mapping have to fit while a change is under way."""
    small = await start(model_limit_mb=1)
    path = await small.new({"algorithm": "rls", "task": "regression", "features": OLD})
    wide = {"action": "begin", "features": [f"x{n}" for n in range(300)]}
    found = await small.refuses(f"{path}/features/switch", 422, "features", json=wide)
    assert "1 MiB" in found["errors"][0]["allowed"]
    assert "overlap" == (await switch(small, path, {**wide, "features": wide["features"][:50]}))["phase"]


async def test_an_imported_state_that_does_not_fit(start, api):
    """What is in the middle of a change counts both models and the mapping, though each alone would fit."""
    small, config = await start(model_limit_mb=1), {"algorithm": "rls", "task": "regression"}
    path = await api.new(config, features=[f"x{n}" for n in range(120)])
    states = [await api.state(path)]
    await switch(api, path, {"action": "begin", "features": [f"y{n}" for n in range(120)]})
    states.append(await api.state(path))
    await api.ask("DELETE", path)
    head = {"Content-Type": "application/octet-stream"}
    assert 201 == (await small.ask("PUT", f"{path}/state", content=states[0], headers=head)).status_code
    problem(await small.ask("PUT", f"{path}/state", content=states[1], headers=head), 422, "features")


async def test_complete_with_too_few_overlap_rows(api):
    """It is done, with a warning: the new model is relied on."""
    path = await steady(api)
    await switch(api, path)
    done = await switch(api, path, "complete")
    assert ("ensemble", 0) == (done["phase"], done["overlap_rows"])
    assert "0" in done["warning"]
    assert await api.post(f"{path}/predict", {"features": row(1, NEW)})


async def test_abort_goes_back(api):
    """The old features again, and no trace of the others; a change may begin once more."""
    path, twin = await overlapping(api), await steady(api)
    gone = await switch(api, path, "abort")
    assert ("steady", OLD, None, None) == tuple(gone[n] for n in ("phase", "current", "next", "ensemble"))
    await feed(api, twin, range(8), OLD)
    for kind in ("weights", "metrics"):
        own, other = [await api.get(f"{p}/{kind}") for p in (path, twin)]
        assert other.get("weights", other.get("overall")) == own.get("weights", own.get("overall"))
    await api.refuses(f"{path}/feedback", 422, "features.c", json=labelled(1))
    await feed(api, path, range(3), OLD)
    assert "overlap" == (await switch(api, path))["phase"]


async def test_marks_tell_of_a_switch_and_metrics_go_on(api):
    """Every row counts, before, during and after it."""
    path = await switched(api)
    await feed(api, path, range(5), NEW)
    found = await api.get(f"{path}/metrics")
    assert 19 == found["rows"]
    assert {"switch"} == {mark["kind"] for mark in found["marks"]}


# ------------------------------------------------------------------------------------------------ rows


async def test_an_overlap_row_lacks_names(api):
    """422 says which, also where missing values are filled: single, JSON, CSV."""
    for missing in ("error", "mean"):
        path = await api.new(missing=missing)
        await switch(api, path)
        found = await api.refuses(f"{path}/feedback", 422, "features", json=labelled(1, OLD))
        assert ["c", "d"] == found["errors"][0]["allowed"]
        found = await api.refuses(f"{path}/features/overlap", 422, "features", json={"features": row(1, NEW)})
        assert ["a"] == found["errors"][0]["allowed"]
        body = {**table(range(2), NEW), "labels": ["UP", "DOWN"]}
        for route, json in (("feedback/batch", body), ("features/overlap", table(range(2), NEW))):
            found = await api.refuses(f"{path}/{route}", 422, "columns", json=json)
            assert ["a"] == found["errors"][0]["allowed"]
        lines = "b,c,d,y\n1,2,3,UP\n"
        await api.refuses(f"{path}/feedback/batch", 422, "header", content=lines, headers=CSV, params={"label": "y"})
        await api.refuses(f"{path}/features/overlap", 422, "header", content="b,c,d\n1,2,3\n", headers=CSV)
    await api.post(f"{path}/feedback", {"features": {**row(1), "c": None}, "label": "UP"})


async def test_after_complete_a_row_with_old_names_only(api):
    """422 says which names are missing, however many there are."""
    path = await switched(api)
    found = await api.refuses(f"{path}/feedback", 422, "features.c", json=labelled(1, OLD))
    assert {"features.a", "features.c", "features.d"} == {error["field"] for error in found["errors"]}
    await api.refuses(f"{path}/predict", 422, "features.d", json={"features": row(1, OLD)})
    wide = await api.new(features=[f"old{n}" for n in range(50)])
    await switch(api, wide, {"action": "begin", "features": [f"new{n}" for n in range(50)]})
    await switch(api, wide, "complete")
    old = {"features": {f"old{n}": 1 for n in range(50)}, "label": "UP"}
    found = await api.refuses(f"{wide}/feedback", 422, "features", json=old)
    assert [f"new{n}" for n in range(50)] == found["errors"][0]["allowed"]


async def test_a_row_may_go_to_predict_and_feedback_alike(api):
    """In an overlap predict passes over new names, whatever stands there; in other phases they are refused."""
    path = await steady(api)
    body = {"features": {**row(1), "c": "anything"}}
    await api.refuses(f"{path}/predict", 422, "features.c", json=body)
    await switch(api, path)
    bare = await api.post(f"{path}/predict", {"features": row(1, OLD)})
    assert bare == await api.post(f"{path}/predict", body)
    await api.refuses(f"{path}/predict", 422, "features.x", json={"features": {**row(1), "x": 1}})
    await api.refuses(f"{path}/predict", 422, "features.a", json={"features": row(1, NEW)})


async def test_batches_to_predict_in_an_overlap(api):
    """The columns of both spaces or of the old one: the same answers, in every form."""
    path = await overlapping(api)
    old = await api.post(f"{path}/predict/batch", table(range(4), OLD))
    assert old == await api.post(f"{path}/predict/batch", table(range(4)))
    assert old == await api.post(f"{path}/predict/batch", table(range(4), ["d", "b", "c", "a"]))
    for names in (OLD, UNION):
        found = table(range(4), names)
        text = "\n".join(",".join(map(repr, line)) for line in found["data"])
        lines = f"{','.join(names)}\n{text}\n"
        assert old == await api.post(f"{path}/predict/batch", content=lines, headers=CSV)
        assert old == await api.post(f"{path}/predict/batch", content=npy(found["data"]), headers=NPY)
    await api.refuses(f"{path}/predict/batch", 422, "body", content=npy(np.ones((2, 3))), headers=NPY)
    bad = {"columns": ["d", "a", "b"], "data": [[0, 1, 2], ["x", 1, "y"]]}
    await api.refuses(f"{path}/predict/batch", 422, "data[1][2]", json=bad)


async def test_labelled_batches_in_an_overlap(api):
    """JSON, CSV and .npy with both sets teach model and mapping as the rows one by one do."""
    config = {**DFOP, "labels": [0, 1]}
    paths = [await steady_numbers(api, config) for _ in range(4)]
    truth = [int(label(n) == "UP") for n in range(9)]
    data = table(range(9))["data"]
    lines = "a,b,c,d,y\n" + "".join(f"{','.join(map(repr, line))},{y}\n" for line, y in zip(data, truth, strict=True))
    for n, y in enumerate(truth):
        await api.post(f"{paths[0]}/feedback", {"features": row(n), "label": y})
    await api.post(f"{paths[1]}/feedback/batch", {**table(range(9)), "labels": truth})
    await api.post(f"{paths[2]}/feedback/batch", content=lines, headers=CSV, params={"label": "y"})
    array = npy([[*line, y] for line, y in zip(data, truth, strict=True)])
    await api.post(f"{paths[3]}/feedback/batch", content=array, headers=NPY)
    found = [await api.get(f"{path}/features") for path in paths]
    assert [9] * 4 == [each["overlap_rows"] for each in found]
    assert 1 == len({each["mapping_error"] for each in found})
    states = [(await api.get(f"{path}/weights"))["weights"] for path in paths]
    assert [states[0]] * 4 == states
    await api.refuses(f"{paths[0]}/feedback/batch", 422, "body", content=npy(np.ones((2, 3))), headers=NPY)


async def steady_numbers(api, config):
    path = await api.new(config)
    await api.post(f"{path}/feedback/batch", {**table(range(4), OLD), "labels": [0, 1, 1, 0]})
    await switch(api, path)
    return path


async def test_overlap_rows_teach_the_mapping_only(api):
    """One by name, columns, CSV, .npy: they are counted and map, and the model has not learned a row."""
    path = await steady(api)
    await switch(api, path)
    before = await api.get(f"{path}/weights")
    one = await api.post(f"{path}/features/overlap", {"features": row(0)})
    assert (1, 6, False) == (one["overlap_rows"], one["rows"], one["duplicate"])
    two = await api.post(f"{path}/features/overlap", table(range(1, 5)))
    lines = "d,c,b,a\n" + "".join(",".join(map(repr, [*row(n).values()][::-1])) + "\n" for n in range(5, 8))
    three = await api.post(f"{path}/features/overlap", content=lines, headers=CSV)
    four = await api.post(f"{path}/features/overlap", content=npy(table(range(8, 12))["data"]), headers=NPY)
    assert [5, 8, 12] == [found["overlap_rows"] for found in (two, three, four)]
    assert (one["version"] + 3, 6) == (four["version"], four["rows"])
    shown = await api.get(f"{path}/features")
    assert (12, True) == (shown["overlap_rows"], shown["mapping_error"] < 0.5)
    after = await api.get(f"{path}/weights")
    assert before["weights"] == after["weights"]
    assert (6, 6) == ((await api.get(path))["rows"], (await api.get(f"{path}/metrics"))["rows"])


async def test_overlap_rows_outside_an_overlap(api):
    """409 that says where the model stands."""
    for path, phase in ((await steady(api), "steady"), (await switched(api), "ensemble")):
        found = await api.refuses(f"{path}/features/overlap", 409, json={"features": row(1)})
        assert phase in found["detail"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "features"),
        ({"columns": UNION}, "features"),
        ({"features": row(1), **table(range(2))}, "columns"),
        ({"features": row(1), "ids": ["x"]}, "ids"),
        ({**table(range(2)), "id": "x"}, "id"),
        ({**table(range(2)), "ids": ["x"]}, "ids"),
        ({**table(range(2)), "ids": ["x", ""]}, "ids[1]"),
        ({"columns": UNION, "data": []}, "data"),
        ({**table(range(2)), "labels": ["UP", "UP"]}, "labels"),
        ({"features": {**row(1), "x": 1}}, "features.x"),
        ({"features": {**row(1), "c": "1"}}, "features.c"),
        ({"features": {**row(1), "c": None}}, "features.c"),
        ({"columns": UNION, "data": [[1, 2, 3, 4], [1, 2, 3]]}, "data[1]"),
        ({"columns": UNION, "data": [[1, 2, 3, None]]}, "data[0][3]"),
    ],
)
async def test_overlap_rows_that_are_none(api, body, field):
    """422 names the field; all of it is refused."""
    path = await overlapping(api)
    await api.refuses(f"{path}/features/overlap", 422, field, json=body)


async def test_overlap_rows_beyond_the_bounds(start):
    """More rows, or more with ids, than a batch may hold: 413."""
    small = await start(batch_rows_max=5, batch_ids_max=2)
    path = await overlapping(small)
    await small.refuses(f"{path}/features/overlap", 413, "data", json=table(range(6)))
    named = {**table(range(3)), "ids": ["x", "y", "z"]}
    await small.refuses(f"{path}/features/overlap", 413, "data", json=named)
    assert 13 == (await small.post(f"{path}/features/overlap", table(range(5))))["overlap_rows"]


async def test_weights_of_experts_that_are_not_linear(api):
    """Behind a kernel mapping the old model is not linear in the new features: 409, and 422 for an explanation."""
    path = await steady(api)
    await switch(api, path, {**BEGIN, "mapping": "kernel"})
    await feed(api, path, range(20), UNION)
    await switch(api, path, "complete")
    found = problem(await api.ask("GET", f"{path}/weights"), 409)
    assert "experts" in found["detail"]
    body = {"features": row(1, NEW), "explain": True}
    found = await api.refuses(f"{path}/predict", 422, "explain", json=body)
    assert "experts" in found["detail"]


async def test_weights_and_explanations_in_each_phase(api):
    """In an overlap those of the old space; after it those of the new one."""
    path = await steady(api)
    body = {"features": row(1, OLD), "explain": True}
    for begin in (False, True):
        if begin:
            await switch(api, path)
        assert {"a", "b"} == set((await api.get(f"{path}/weights"))["weights"]["UP"])
        assert {"a", "b"} == set((await api.post(f"{path}/predict", body))["explanation"]["contributions"])
    await feed(api, path, range(20), UNION)
    await switch(api, path, "complete")
    await feed(api, path, range(5), NEW)
    found = await api.get(f"{path}/weights")
    told = await api.post(f"{path}/predict", {"features": row(1, NEW), "explain": True})
    assert {"b", "c", "d"} == set(found["weights"]["UP"])
    assert {"b", "c", "d"} == set(told["explanation"]["contributions"])
