"""Rows around a change of features: the names each phase asks for, rows without labels, tracked predictions."""

import numpy as np
import pytest

from core.problems import FILLED
from tests.service.api_fixtures import CSV, DFOP, NPY, forms, npy, problem
from tests.service.switches import (
    BEGIN,
    FESL,
    NEW,
    OLD,
    UNION,
    feed,
    label,
    labelled,
    overlapping,
    row,
    steady,
    switch,
    switched,
    table,
)


async def test_an_overlap_row_lacks_names(api):
    """422 says which, also where missing values are filled: single, JSON, CSV; a row with one of the new names."""
    for missing in ("error", "mean"):
        path = await api.new(missing=missing)
        await switch(api, path)
        found = await api.refuses(f"{path}/feedback", 422, "features", json=labelled(1, [*OLD, "d"]))
        assert ["c"] == found["errors"][0]["allowed"]
        assert "features: lacks features: c" == found["detail"]
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
    named = ", ".join(f"new{n}" for n in range(10))
    assert f"features: lacks features: {named} and 40 more; {FILLED}" == found["detail"]


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
    assert old == await api.post(f"{path}/predict/batch", table(range(4), ["d", "b", "c", "a"]))
    for names in (OLD, UNION):
        for how in forms(table(range(4), names)).values():
            assert old == await api.post(f"{path}/predict/batch", **how)
    await api.refuses(f"{path}/predict/batch", 422, "body", content=npy(np.ones((2, 3))), headers=NPY)
    bad = {"columns": ["d", "a", "b"], "data": [[0, 1, 2], ["x", 1, "y"]]}
    await api.refuses(f"{path}/predict/batch", 422, "data[1][2]", json=bad)


async def test_labelled_batches_in_an_overlap(api):
    """JSON, CSV and .npy with both sets teach model and mapping as the rows one by one do."""
    paths = [await steady_numbers(api) for _ in range(4)]
    truth = [int(label(n) == "UP") for n in range(9)]
    for n, y in enumerate(truth):
        await api.post(f"{paths[0]}/feedback", {"features": row(n), "label": y})
    for path, how in zip(paths[1:], forms({**table(range(9)), "labels": truth}).values(), strict=True):
        await api.post(f"{path}/feedback/batch", **how)
    found = [await api.get(f"{path}/features") for path in paths]
    assert [9] * 4 == [each["overlap_rows"] for each in found]
    assert 1 == len({each["mapping_error"] for each in found})
    states = [(await api.get(f"{path}/weights"))["weights"] for path in paths]
    assert [states[0]] * 4 == states
    found = await api.refuses(f"{paths[0]}/feedback/batch", 422, "body", content=npy(np.ones((2, 4))), headers=NPY)
    assert "n x 5, float64" == found["errors"][0]["allowed"]


async def steady_numbers(api):
    path = await api.new(labels=[0, 1])
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


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "features"), ({"columns": UNION}, "features"), ({"features": row(1), **table(range(2))}, "columns"),
        ({"features": row(1), "ids": ["x"]}, "ids"), ({**table(range(2)), "id": "x"}, "id"),
        ({**table(range(2)), "ids": ["x"]}, "ids"), ({**table(range(2)), "ids": ["x", ""]}, "ids[1]"),
        ({"columns": UNION, "data": []}, "data"), ({**table(range(2)), "labels": ["UP", "UP"]}, "labels"),
        ({"features": {**row(1), "x": 1}}, "features.x"), ({"features": {**row(1), "c": "1"}}, "features.c"),
        ({"features": {**row(1), "c": None}}, "features.c"),
        ({"columns": UNION, "data": [[1, 2, 3, 4], [1, 2, 3]]}, "data[1]"),
        ({"columns": UNION, "data": [[1, 2, 3, None]]}, "data[0][3]"),
    ],
)  # fmt: skip
async def test_overlap_rows_that_are_none(api, body, field):
    """422 names the field; all of it is refused."""
    path = await overlapping(api)
    await api.refuses(f"{path}/features/overlap", 422, field, json=body)


async def test_overlap_rows_beyond_the_bounds(start, monkeypatch):
    """More rows, or more with ids, than a batch may hold: 413."""
    monkeypatch.setattr("service.api.rows.batches.BATCH_IDS_MAX", 2)
    small = await start(batch_rows_max=5)
    path = await overlapping(small)
    await small.refuses(f"{path}/features/overlap", 413, "data", json=table(range(6)))
    named = {**table(range(3)), "ids": ["x", "y", "z"]}
    await small.refuses(f"{path}/features/overlap", 413, "ids", json=named)
    assert 13 == (await small.post(f"{path}/features/overlap", table(range(5))))["overlap_rows"]


async def test_weights_of_experts_that_are_not_linear(api):
    """Where none of them is: 409, and their densities explain a prediction."""
    path = await steady(api, {**DFOP, "algorithm": "vigo"})
    await switch(api, path, {**BEGIN, "mapping": "kernel"})
    await feed(api, path, range(20), UNION)
    await switch(api, path, "complete")
    assert "not a linear model" in problem(await api.ask("GET", f"{path}/weights"), 409)["detail"]
    told = await api.post(f"{path}/predict", {"features": row(1, NEW), "explain": True})
    densities = told["explanation"]["densities"]
    assert {"UP", "DOWN"} == set(densities["classes"]) >= {densities["ambiguity"]["nearest"]}


async def standing(api, path):
    """Rows learned, and rows that have taught the mapping."""
    return (await api.get(path))["rows"], (await api.get(f"{path}/features"))["overlap_rows"]


@pytest.mark.parametrize("missing", ["error", "mean"])
async def test_a_row_of_the_old_names(api, missing):
    """It is learned whatever becomes of missing values, and says that it taught no mapping; others say nothing."""
    path = await steady(api, {**DFOP, "missing": missing})
    assert "mapped" not in await api.post(f"{path}/feedback", labelled(0, OLD))
    await switch(api, path)
    answer = await api.post(f"{path}/feedback", labelled(1, OLD, id="late"))
    assert (False, True) == (answer["mapped"], answer["learned"])
    assert {**answer, "duplicate": True} == await api.post(f"{path}/feedback", labelled(1, OLD, id="late"))
    assert "mapped" not in await api.post(f"{path}/feedback", labelled(2))
    assert (9, 1) == await standing(api, path)
    await api.refuses(f"{path}/feedback", 422, "features", json=labelled(1, [*OLD, "c"]))
    await api.refuses(f"{path}/feedback", 422, "features.x", json={"features": {**row(1, OLD), "x": 1}, "label": "UP"})


async def test_batches_of_the_old_names(api):
    """As JSON, CSV and .npy, by names or by position."""
    path, truth = await steady_numbers(api), [0, 1, 1, 0]
    for how in forms({**table(range(4), OLD), "labels": truth}).values():
        assert (await api.post(f"{path}/feedback/batch", **how))["mapped"] is False
    assert "mapped" not in await api.post(f"{path}/feedback/batch", {**table(range(4)), "labels": truth})
    assert (20, 4) == await standing(api, path)


async def test_a_batch_with_an_unmapped_row_that_was_seen_gets_one_answer(api):
    """The first answer and that to the same batch again agree on ``mapped``: a row in it was of the old space."""
    path = await overlapping(api)
    await api.post(f"{path}/feedback", labelled(20, OLD, id="old"))
    body = {**table([20, 21]), "labels": [label(20), label(21)], "ids": ["old", "new"]}
    first, again = [await api.post(f"{path}/feedback/batch", body) for _ in range(2)]
    assert (False, 2, True) == (first["mapped"], len(first["predictions"]), again["duplicate"])
    assert first == {**again, "duplicate": first["duplicate"], "duplicates": 1}


async def test_complete_needs_five_rows_or_force(api):
    """409 says how many there are, and how to go on; nothing changes."""
    path = await steady(api)
    await switch(api, path)
    for number in range(4):
        await api.post(f"{path}/feedback", labelled(number))
        await api.post(f"{path}/feedback", labelled(number, OLD))
    found = await api.refuses(f"{path}/features/switch", 409, json={"action": "complete"})
    assert "4 overlap rows" in found["detail"]
    assert '"force": true' in found["detail"]
    await api.refuses(f"{path}/features/switch", 422, "force", json={"action": "abort", "force": True})
    await api.refuses(f"{path}/features/switch", 422, "force", json={"action": "complete", "force": 1})
    forced = await api.post(f"{path}/features/switch", {"action": "complete", "force": True})
    assert ("ensemble", 4) == (forced["phase"], forced["overlap_rows"])
    await switch(api, path, {"action": "begin", "features": OLD})
    for number in range(5):
        await api.post(f"{path}/features/overlap", {"features": row(number)})
    assert "ensemble" == (await switch(api, path, {"action": "complete"}))["phase"]
    assert [*OLD] == (await api.get(f"{path}/features"))["current"]


async def test_a_change_that_only_drops_names(api):
    """No name is new: every row is complete, and counts."""
    path = await steady(api)
    await switch(api, path, {"action": "begin", "features": ["b"]})
    assert "mapped" not in await api.post(f"{path}/feedback", labelled(1, OLD))
    assert 1 == (await api.get(f"{path}/features"))["overlap_rows"]
    await api.refuses(f"{path}/feedback", 422, "features", json=labelled(1, NEW[:1]))


async def tracked(api, path, number, names):
    """A row that is predicted, and then its label."""
    told = await api.post(f"{path}/predict", {"features": row(number, names), "track": True})
    feedback = {"prediction_id": told["prediction_id"], "label": label(number)}
    return told, lambda: api.post(f"{path}/feedback", feedback)


@pytest.mark.parametrize("config", [DFOP, FESL])
async def test_a_client_that_only_tracks_teaches_the_mapping(api, config):
    """Rows with every name count as overlap rows; those with the old names teach the old model, and say so."""
    path = await steady(api, config)
    await switch(api, path)
    for number in range(6):
        told, learn = await tracked(api, path, number, UNION)
        answer = await learn()
        assert told["prediction"] == answer["prediction"]
        assert (True, False) == (answer["learned"], "mapped" in answer)
    assert 6 == (await api.get(f"{path}/features"))["overlap_rows"]
    _, learn = await tracked(api, path, 7, OLD)
    answer = await learn()
    assert (True, False) == (answer["learned"], answer["mapped"])
    assert 6 == (await api.get(f"{path}/features"))["overlap_rows"]


async def test_new_values_that_do_not_fit_are_passed_over(api):
    """The prediction does not need them: the row is kept as it was predicted."""
    path = await steady(api)
    await switch(api, path)
    values = row(1, OLD) | {name: "broken" for name in NEW if name not in OLD}
    told = await api.post(f"{path}/predict", {"features": values, "track": True})
    answer = await api.post(f"{path}/feedback", {"prediction_id": told["prediction_id"], "label": label(1)})
    assert answer["learned"]
    assert 0 == (await api.get(f"{path}/features"))["overlap_rows"]
