"""Ids may be integers: 17 and "17" are one id, wherever an id is given."""

import pytest

from tests.service.api_fixtures import CSV, columnar
from tests.service.switches import BEGIN, overlapping, row, steady, switch, table

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROW = {"features": {"a": 0.25, "b": -0.5}, "label": "UP"}


@pytest.mark.parametrize(("first", "again"), [(17, "17"), ("17", 17), (0, "0"), (-3, -3), (2**63 + 5, str(2**63 + 5))])
async def test_a_number_and_its_text_are_one_id(api, first, again):
    """The row is learned once, and answered as the first time."""
    path = await api.learnt()
    learned = await api.post(f"{path}/feedback", {**ROW, "id": first})
    assert {**learned, "duplicate": True} == await api.post(f"{path}/feedback", {**ROW, "id": again})
    assert 4 == (await api.get(path))["rows"]


async def test_a_batch_takes_both_at_once(api):
    """As JSON and as CSV; a number in a later request is found by its text, and the other way round."""
    path = await api.learnt()
    body = {**columnar(3), "labels": ["UP", "DOWN", "UP"], "ids": [1, "2", 0]}
    learned = await api.post(f"{path}/feedback/batch", body)
    again = await api.post(f"{path}/feedback/batch", {**body, "ids": ["1", 2, "0"]})
    assert (learned["predictions"], True) == (again["predictions"], again["duplicate"])
    content = "id,a,b,y\n2,1,2,DOWN\n3,1,2,UP\n"
    found = await api.ask(
        "POST", f"{path}/feedback/batch", content=content, headers=CSV, params={"label": "y", "id": "id"}
    )
    assert 1 == found.json()["duplicates"]
    assert 7 == (await api.get(path))["rows"]


async def test_one_id_in_both_forms_within_a_batch_is_learned_once(api):
    """1 and "1" are one row, which was sent twice."""
    path = await api.learnt()
    answer = await api.post(f"{path}/feedback/batch", {**columnar(2), "labels": ["UP", "UP"], "ids": [1, "1"]})
    assert (4, 1) == (answer["rows"], answer["duplicates"])


async def test_overlap_rows_and_switches_take_them(api):
    """Of one row, of several, and of a step in a change of features."""
    path = await steady(api)
    begun = await switch(api, path, {**BEGIN, "id": 5})
    assert {**begun, "duplicate": True} == await switch(api, path, {**BEGIN, "id": "5"})
    path = await overlapping(api)
    await api.post(f"{path}/features/overlap", {"features": row(1), "id": 9})
    assert (await api.post(f"{path}/features/overlap", {"features": row(1), "id": "9"}))["duplicate"]
    several = await api.post(f"{path}/features/overlap", {**table(range(2)), "ids": ["9", 10]})
    assert 1 == several["duplicates"]


async def test_a_number_is_a_prediction_id_that_nobody_was_given(api):
    """404 as any other text that is none, not 422."""
    path = await api.learnt()
    await api.refuses(f"{path}/feedback", 404, "prediction_id", json={"prediction_id": 17, "label": "UP"})
