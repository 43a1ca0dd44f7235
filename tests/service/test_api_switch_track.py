"""Tracked predictions in an overlap: a row with both sets of names teaches all that feedback of both does."""

import pytest

from tests.service.api_fixtures import DFOP
from tests.service.switches import BEGIN, FESL, NEW, OLD, UNION, label, row, steady, switch


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


@pytest.mark.parametrize("action", ["complete", "abort"])
async def test_its_label_may_come_after_the_overlap(api, action):
    """It is learned in the space in force; after another change it is scored by what was told."""
    path = await steady(api)
    await switch(api, path)
    _, first = await tracked(api, path, 1, UNION)
    _, second = await tracked(api, path, 2, UNION)
    await switch(api, path, action)
    assert (await first())["learned"]
    for other in (["c", "e"], ["f"]) if action == "complete" else (["e"],):
        await switch(api, path, {**BEGIN, "features": other})
        await switch(api, path, "complete")
    answer = await second()
    assert not answer["learned"]


async def test_new_values_that_do_not_fit_are_passed_over(api):
    """The prediction does not need them: the row is kept as it was predicted."""
    path = await steady(api)
    await switch(api, path)
    values = row(1, OLD) | {name: "broken" for name in NEW if name not in OLD}
    told = await api.post(f"{path}/predict", {"features": values, "track": True})
    answer = await api.post(f"{path}/feedback", {"prediction_id": told["prediction_id"], "label": label(1)})
    assert answer["learned"]
    assert 0 == (await api.get(f"{path}/features"))["overlap_rows"]
