"""Rows of an overlap that hold none of the new names: the old model learns them, the mapping nothing."""

import pytest

from tests.service.api_fixtures import CSV, DFOP, NPY, npy
from tests.service.switches import NEW, OLD, feed, label, labelled, row, steady, switch, table


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


async def test_the_old_model_learns_them_as_before_the_overlap(api):
    """Its weights are those of a model without a change of features."""
    plain, path = await steady(api), await steady(api)
    await switch(api, path)
    for one in (plain, path):
        await feed(api, one, range(20, 30), OLD)
    await switch(api, path, "abort")
    weights = [(await api.get(f"{one}/weights"))["weights"] for one in (plain, path)]
    assert weights[0] == weights[1]


async def test_batches_of_the_old_names(api):
    """As JSON, CSV and .npy, by names or by position."""
    path = await steady(api, {**DFOP, "labels": [0, 1]}, rows=0)
    await api.post(f"{path}/feedback/batch", {**table(range(6), OLD), "labels": [0, 1] * 3})
    await switch(api, path)
    truth = [int(label(n) == "UP") for n in range(4)]
    data = table(range(4), OLD)["data"]
    lines = "a,b,y\n" + "".join(f"{','.join(map(repr, line))},{y}\n" for line, y in zip(data, truth, strict=True))
    array = npy([[*line, y] for line, y in zip(data, truth, strict=True)])
    for how in (
        {"json": {**table(range(4), OLD), "labels": truth}},
        {"content": lines, "headers": CSV, "params": {"label": "y"}},
        {"content": array, "headers": NPY},
    ):
        answer = await api.ask("POST", f"{path}/feedback/batch", **how)
        assert (200, False) == (answer.status_code, answer.json().get("mapped")), answer.text
    both = await api.post(f"{path}/feedback/batch", {**table(range(3)), "labels": truth[:3]})
    assert "mapped" not in both
    assert (21, 3) == await standing(api, path)


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
