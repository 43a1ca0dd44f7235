"""A row that does not fit its features is told what to declare, so that such rows do."""

import json

import pytest

from tests.service.api_fixtures import CSV, DFOP


@pytest.mark.parametrize(("value", "kind"), [("gold", "categorical"), ("", "categorical"), (True, "boolean")])
async def test_what_is_no_number_names_the_declaration_that_takes_it(api, value, kind):
    """For a single row and a batch: of the very feature, as it stands in the body of PUT."""
    path = await api.learnt()
    declaration = json.dumps({"name": "b", "type": kind})
    batch = {"columns": ["a", "b"], "data": [[1, value]], "labels": ["UP"]}
    for route, body, field in (
        ("predict", {"features": {"a": 1, "b": value}}, "features.b"),
        ("feedback", {"features": {"a": 1, "b": value}, "label": "UP"}, "features.b"),
        ("feedback/batch", batch, "data[0][1]"),
    ):
        found = await api.refuses(f"{path}/{route}", 422, field, json=body)
        (error,) = found["errors"]
        assert error["problem"].endswith(f"declare {declaration}")
        assert declaration in found["detail"]
        assert "a finite number" == error["allowed"]


async def test_a_text_in_csv_names_it_too(api):
    """A cell of a numeric column."""
    path = await api.learnt()
    found = await api.refuses(f"{path}/predict/batch", 422, content="a,b\n1,gold\n", headers=CSV)
    assert '{"name": "b", "type": "categorical"}' in found["detail"]


@pytest.mark.parametrize("row", [{"a": 1, "b": None}, {"a": 1}])
async def test_a_missing_value_names_what_fills_it(api, row):
    """Null, or a name that is not there."""
    path = await api.learnt()
    found = await api.refuses(f"{path}/predict", 422, "features.b", json={"features": row})
    assert 'declare "missing": "mean" or "zero"' in found["detail"]


async def test_a_misspelt_name_is_told_the_one_that_was_meant(api):
    """In a row, in the columns of a table, in a CSV header; else what passes over it."""
    path = await api.new({**DFOP, "features": ["temperature", "humidity"]})
    row = {"Temprature": 1, "humidity": 2}
    found = await api.refuses(f"{path}/predict", 422, "features.Temprature", json={"features": row})
    assert "is not a feature of this model; did you mean temperature?" == found["errors"][0]["problem"]
    table = {"columns": [*row], "data": [[1, 2]]}
    found = await api.refuses(f"{path}/predict/batch", 422, "columns[0]", json=table)
    assert found["errors"][0]["problem"].endswith("did you mean temperature?")
    found = await api.refuses(
        f"{path}/predict/batch", 422, "header[1]", content="temperature,humid\n1,2\n", headers=CSV
    )
    assert found["errors"][0]["problem"].endswith("did you mean humidity?")
    found = await api.refuses(f"{path}/predict", 422, json={"features": {"x": 1, "humidity": 2}})
    assert found["errors"][0]["problem"].endswith('declare it in "ignore" to have it passed over')


async def test_a_misspelt_field_of_a_declaration(api):
    """And a type that is none."""
    features = [{"name": "a", "categorys": ["x", "y"]}, {"name": "b", "type": "category"}]
    answer = await api.ask("PUT", "/models/misspelt", json={**DFOP, "features": features})
    assert 422 == answer.status_code
    problems = {error["field"]: error["problem"] for error in answer.json()["errors"]}
    assert problems["features[0].categorys"].endswith("did you mean categories?")
    assert problems["features[1].type"].endswith("did you mean categorical?")
