"""Features of every kind over HTTP: declared, or taken from the first row."""

import pytest

from tests.service.api_fixtures import CSV, NPY, npy, problem

CHURN = {"algorithm": "dfop", "task": "classification", "missing": "mean"}
DAY = {"name": "day", "categories": ["mon", "tue"]}


async def test_the_first_row_of_csv(api):
    """A cell that is no number is a string; an empty one is refused with its declaration, and nothing is fixed."""
    path = await api.new(CHURN)
    how = {"headers": CSV, "params": {"label": "y"}}
    found = await api.refuses(f"{path}/feedback/batch", 422, "row 1, column b", content="a,b,y\n1,,no\n", **how)
    assert '{"name": "b", "type": "numeric"}' in found["detail"]
    found = await api.refuses(f"{path}/feedback/batch", 422, content="a,b,c,y\n1,,NA,no\n", **how)
    assert ["row 1, column b", "row 1, column c"] == [error["field"] for error in found["errors"]]
    content = "a,b,c,d,y\n1e3,true,inf,2026-01-31,no\n2,,,,yes\n"
    answer = await api.ask("POST", f"{path}/feedback/batch", content=content, **how)
    assert 200 == answer.status_code, answer.text
    hashed = [{"name": name, "type": "categorical", "buckets": 32} for name in "bcd"]
    assert ["a", *hashed] == (await api.get(f"{path}/features"))["current"]


@pytest.mark.parametrize("value", [None, [1], {"x": 1}])
async def test_a_first_row_with_a_value_of_no_kind(api, value):
    """422 for a single row and a batch; the model has no features yet, and the next row fixes them."""
    path = await api.new(CHURN)
    await api.refuses(f"{path}/feedback", 422, "features.b", json={"features": {"a": 1, "b": value}, "label": "x"})
    table = {"columns": ["a", "b"], "data": [[1, value], [1, 2]], "labels": ["x", "y"]}
    await api.refuses(f"{path}/feedback/batch", 422, "data[0][1]", json=table)
    await api.refuses(f"{path}/feedback", 422, "features", json={"features": {}, "label": "x"})
    unnamed = await api.ask("POST", f"{path}/feedback/batch", content=npy([[1.0, 2.0, 3.0]]), headers=NPY)
    assert "this format names none" in problem(unnamed, 409)["detail"]
    await api.post(f"{path}/feedback", {"features": {"a": "", "b": "12", "c": 1}, "label": "x"})
    assert 1 == (await api.get(path))["rows"]
    hashed = [{"name": name, "type": "categorical", "buckets": 32} for name in "ab"]
    assert [*hashed, "c"] == (await api.get(f"{path}/features"))["current"]


async def test_an_unknown_category_is_refused_where_that_is_declared(api):
    """With what there is, and what to declare."""
    path = await api.new({**CHURN, "features": [DAY, "x"], "unknown": "error"})
    assert "error" == (await api.get(path))["config"]["unknown"]
    await api.post(f"{path}/feedback", {"features": {"day": "mon", "x": 1}, "label": "a"})
    row = {"features": {"day": "sun", "x": 1}}
    for route, more in (("predict", {}), ("feedback", {"label": "a"})):
        found = await api.refuses(f"{path}/{route}", 422, "features.day", "sun", json={**row, **more})
        assert ["mon", "tue"] == found["errors"][0]["allowed"]
        assert '"unknown": "other"' in found["detail"]
    table = {"columns": ["day", "x"], "data": [["mon", 1], ["sun", 2]]}
    await api.refuses(f"{path}/predict/batch", 422, "data[1][0]", json=table)
    await api.refuses(f"{path}/predict/batch", 422, "row 1, column day", content="day,x\nsun,1\n", headers=CSV)


async def test_names_that_are_ignored(api):
    """In every way of sending rows, declared features or not; a declared feature cannot be ignored."""
    path = await api.new({**CHURN, "ignore": ["note", "id"]})
    row = {"note": ["anything"], "a": 1, "plan": "gold", "id": None}
    await api.refuses(f"{path}/feedback", 422, "features", json={"features": {"note": 1}, "label": "x"})
    await api.post(f"{path}/feedback", {"features": row, "label": "x"})
    names = [one if isinstance(one, str) else one["name"] for one in (await api.get(f"{path}/features"))["current"]]
    assert ["a", "plan"] == names
    await api.post(f"{path}/predict", {"features": {**row, "note": 1}})
    await api.post(f"{path}/predict", {"features": {"a": 1, "plan": "x"}})
    await api.post(f"{path}/predict/batch", {"columns": [*row], "data": [[*row.values()]]})
    content = "note,plan,a\nlong text,gold,1\n"
    assert 200 == (await api.ask("POST", f"{path}/predict/batch", content=content, headers=CSV)).status_code
    await api.refuses(f"{path}/predict", 422, "features.other", json={"features": {**row, "other": 1}})
    body = {**CHURN, "features": ["a", "b"], "ignore": ["note", "b"]}
    problem(await api.ask("PUT", "/models/ignoring", json=body), 422, "ignore[1]")
    for ignore in ("note", [1], [""], ["x" * 201]):
        assert 422 == (await api.ask("PUT", "/models/ignoring", json={**CHURN, "ignore": ignore})).status_code
    sparse = {"algorithm": "sparse_dfop", "task": "classification", "ignore": ["a"]}
    problem(await api.ask("PUT", "/models/ignoring", json=sparse), 422, "ignore")
