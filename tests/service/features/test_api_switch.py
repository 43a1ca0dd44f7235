"""A change of features over HTTP: begin, overlap, complete, abort, and what is answered in each phase."""

import pytest

from core.learners.catalogue import ALGORITHMS
from tests.service.api_fixtures import DFOP, RLS, STATE, problem
from tests.service.switches import BEGIN, FESL, NEW, OLD, UNION, feed, label, overlapping, row, steady, switch, switched


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
    shown, begun = await api.get(path), await switch(api, path)
    assert (shown["version"] + 1, shown["incarnation"]) == (begun["version"], begun["incarnation"])
    assert ("overlap", OLD, NEW, 0) == tuple(begun[name] for name in ("phase", "current", "next", "overlap_rows"))
    assert (None, None) == (begun["mapping_error"], begun["ensemble"])
    assert begun == {**await api.get(f"{path}/features"), "rows": 10, "duplicate": False, "durability": "everysec"}
    (listed,) = (await api.get("/models", params={"search": shown["name"]}))["models"]
    assert ["overlap"] * 2 == [listed["phase"], (await api.get(path))["phase"]]
    await learn(range(10, 30), UNION)
    shown = await api.get(f"{path}/features")
    assert ("overlap", 20) == (shown["phase"], shown["overlap_rows"])
    assert shown["mapping_error"] == pytest.approx(0, abs=0.5)
    done = await switch(api, path, "complete")
    assert ("ensemble", NEW, None) == (done["phase"], done["current"], done["next"])
    assert "warning" not in done
    assert NEW == (await api.get(path))["config"]["features"]
    assert 1 == pytest.approx(sum(expert["weight"] for expert in done["ensemble"]))
    assert {"expert", "weight", "loss"} == {name for expert in done["ensemble"] for name in expert}
    await learn(range(30, 40), NEW)
    assert 0 < sum(expert["loss"] for expert in (await api.get(f"{path}/features"))["ensemble"])
    again = await switch(api, path, {"action": "begin", "features": ["d", "e"], "mapping": "kernel"})
    assert ("overlap", NEW, ["d", "e"], 40) == (again["phase"], again["current"], again["next"], again["rows"])
    assert "ensemble" == (await switch(api, path, "abort"))["phase"]
    third = await switch(api, path, {"action": "begin", "features": OLD})
    assert ("overlap", 0) == (third["phase"], third["overlap_rows"])


@pytest.mark.slow_but("auto", "dfop", "fesl_s", "vigod")
@pytest.mark.parametrize("algorithm", [name for name, entry in ALGORITHMS.items() if not entry.sparse])
async def test_every_algorithm_lives_through_changes(api, algorithm):
    """Rows, predictions, explanations, weights and the state itself, in every phase of two changes."""
    path = await api.new({"algorithm": algorithm, "task": "classification", "features": OLD, "labels": ["UP", "DOWN"]})
    steps = (None, BEGIN, "complete", {"action": "begin", "features": ["d", "a"], "mapping": "kernel"}, "complete")
    phases = ("steady", "overlap", "ensemble", "overlap", "ensemble")
    for step, phase in zip(steps, phases, strict=True):
        if step is not None:
            await switch(api, path, step)
        found = await api.get(f"{path}/features")
        current, names = found["current"], list(dict.fromkeys([*found["current"], *(found["next"] or [])]))
        await feed(api, path, range(12), names)
        told = await api.post(f"{path}/predict", {"features": row(5, current)})
        explained = await api.ask("POST", f"{path}/predict", json={"features": row(5, current), "explain": True})
        weights = await api.ask("GET", f"{path}/weights")
        assert (explained.status_code, weights.status_code) in {(200, 200), (200, 409)}
        assert told["prediction"] == explained.json()["prediction"]
        assert current == [one["name"] for one in explained.json()["explanation"]["features"]]
        assert {*current} == {one["name"] for one in (await api.get(f"{path}/effects"))["features"]}
        twin = await api.ask("PUT", f"{path}-twin/state", content=await api.state(path), headers=STATE)
        assert twin.status_code in {200, 201}, twin.text
        assert phase == found["phase"] == (await api.get(f"{path}-twin/features"))["phase"]
        again = await api.post(f"{path}-twin/predict", {"features": row(5, current)})
        assert told["prediction"] == again["prediction"]


async def test_a_name_in_both_is_kept_as_it_was_declared(api):
    """By its bare name or by the same declaration; ranges and categories may change, types may not."""
    day = {"name": "day", "type": "categorical", "categories": ["mon", "tue"]}
    path = await api.new(features=["a", day, {"name": "load", "min": 0, "max": 1}])
    begun = await switch(api, path, {"action": "begin", "features": ["day", "load", "c"]})
    assert [day, {"name": "load", "type": "numeric", "min": 0, "max": 1}, "c"] == begun["next"]
    await switch(api, path, "abort")
    wide = {"name": "load", "min": -5, "max": 5}
    await switch(api, path, {"action": "begin", "features": [day, wide, "c"]})
    await switch(api, path, "abort")
    for odd in ({"name": "day", "type": "boolean"}, {"name": "a", "type": "categorical", "categories": [1, 2]}):
        body = {"action": "begin", "features": [odd, "c"]}
        await api.refuses(f"{path}/features/switch", 422, "features[0]", json=body)
    clash = {"action": "begin", "features": ["c", "day=mon"]}
    await api.refuses(f"{path}/features/switch", 422, "features", json=clash)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"action": "begin"}, "features"),
        *(({"action": "begin", "features": names}, "features") for names in ([], OLD, OLD[::-1], {"c": 1}, "c")),
        ({"action": "begin", "features": ["c", "d", "c"]}, "features[2]"),
        *(({"action": "begin", "features": ["c", odd]}, "features[1]") for odd in ("", 7)),
        ({"action": "begin", "features": ["c", {"name": "d", "unit": "m"}]}, "features[1].unit"),
        (
            {"action": "begin", "features": [{"name": "d", "categories": ["x", True, "true"]}]},
            "features[0].categories[2]",
        ),
        ({**BEGIN, "mapping": "spline"}, "mapping"),
        ({**BEGIN, "when": "now"}, "when"),
        ({"action": "finish"}, "action"),
        ({}, "action"),
        ({"action": "complete", "features": NEW}, "features"),
        ({"action": "abort", "mapping": "linear"}, "mapping"),
        *(({**BEGIN, "id": odd}, "id") for odd in ("", "tab\t")),
    ],
)
async def test_a_switch_that_asks_for_the_wrong_thing(api, body, field):
    """422 names the field, and nothing changes."""
    path = await steady(api)
    await api.refuses(f"{path}/features/switch", 422, field, json=body)


async def test_a_step_that_the_phase_does_not_allow(api):
    """409 that says where the model stands: before, in and after a change, without features, with rows of any names."""
    ends = [{"action": "complete"}, {"action": "abort"}]
    for path, steps, words in (
        (await steady(api), ends, "the phase is steady"),
        (await switched(api), ends, "the phase is ensemble"),
        (await overlapping(api), [{"action": "begin", "features": ["x"]}], "to b, c, d, with 8 overlap rows"),
        (await api.new(features=None), [BEGIN], "no features yet"),
        (await api.new({"algorithm": "sparse_dfop", "task": "classification"}), [BEGIN, *ends], "any names"),
    ):
        for step in steps:
            assert words in (await api.refuses(f"{path}/features/switch", 409, json=step))["detail"]
        if words.startswith("the phase"):
            assert words in (await api.refuses(f"{path}/features/overlap", 409, json={"features": row(1)}))["detail"]
    assert ("steady", [], None) == await spaces(api, path)
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
    await small.imports(path, states[0])
    problem(await small.ask("PUT", f"{path}/state", content=states[1], headers=STATE), 422, "features")


@pytest.mark.parametrize("during", ["overlap", "ensemble", "second overlap"])
async def test_what_does_not_fit_beside_a_change_is_refused(start, during):
    """Classes, challengers and tests of drift count for each of three models; what fits is exported and imported."""
    small = await start(model_limit_mb=1)
    spaces = [[f"{space}{n}" for n in range(30)] for space in "abc"]
    path, held = await small.new({"algorithm": "vigo", "features": spaces[0], "watch": None}), set()

    async def bring(names, classes):
        for n in range(classes):
            labelled = {"features": dict.fromkeys(names, n % 7), "label": n}
            answer = await small.ask("POST", f"{path}/feedback", json=labelled)
            if answer.status_code != 200:
                assert "<= 1 MiB of state" == problem(answer, 422, "label")["errors"][0]["allowed"]
                break
            held.add(n)

    async def moves():
        name, state = path.removeprefix("/models/"), await small.state(path)
        assert 2**20 >= small.engine.models.peek(name).model.nbytes
        await small.imports("/models/other", state)
        await small.ask("DELETE", "/models/other")

    old, following, last = spaces
    await bring(old, 2)
    await switch(small, path, {"action": "begin", "features": following})
    names = [*old, *following]
    if during != "overlap":
        await bring(names, 2)
        await switch(small, path, {"action": "complete", "force": True})
        names = following
    if during == "second overlap":
        await switch(small, path, {"action": "begin", "features": last})
        names = [*following, *last]
    await bring(names, 40)
    assert 3 < len(held) < 20
    await moves()
    large, refused = {"algorithm": "vigo"}, (422, "algorithm") if during == "ensemble" else (409,)
    problem(await small.ask("PUT", f"{path}/challengers/one", json=large), *refused)
    problem(await small.ask("PATCH", path, json={"watch": {"class_mean": {}}}), 422, "watch")
    assert 200 == (await small.client.patch(path, json={"description": "as large as it may be"})).status_code
    await small.post(f"{path}/feedback", {"features": dict.fromkeys(names, 1), "label": max(held)})


async def test_a_model_is_put_again_with_the_features_of_now(api):
    """After a switch with those, or those of its creation, but no others; the settings of a PATCH with either."""
    path = await overlapping(api)
    put = {**DFOP, "features": NEW}
    problem(await api.ask("PUT", path, json=put), 409, "features")
    await switch(api, path, "complete")
    for features in (OLD, NEW):
        assert 200 == (await api.ask("PUT", path, json={**put, "features": features})).status_code
    problem(await api.ask("PUT", path, json={**put, "features": UNION}), 409, "features")
    assert 200 == (await api.client.patch(path, json={"on_drift": "reset"})).status_code
    for features in (OLD, NEW):
        assert 200 == (await api.ask("PUT", path, json={**put, "features": features, "on_drift": "reset"})).status_code


async def test_features_called_like_a_lag_column_are_refused(api):
    """Wherever they come from: a change of features, and what shows weights, would take one column for the other."""
    lagged = {"algorithm": "rls", "task": "regression", "lags": 1}
    refused = ["label", "b"], ["b", "b (t-1)"]
    for at, names in enumerate(refused):
        problem(await api.ask("PUT", f"/models/lagged{at}", json={**lagged, "features": names}), 422, "features")
        row = {"features": dict.fromkeys(names, 1.0), "label": 1.0}
        await api.refuses(f"{await api.new(lagged)}/feedback", 422, "features", json=row)
        change = {"action": "begin", "features": names}
        await api.refuses(f"{await api.new(lagged, features=['a'])}/features/switch", 422, "features", json=change)
        plain = await api.new({**lagged, "lags": 0, "features": names})
        await api.refuses(f"{plain}/challengers/lagged", 422, "features", method="PUT", json=lagged)
    await api.new({**lagged, "task": "classification", "labels": ["x", "y"], "features": refused[0]})
