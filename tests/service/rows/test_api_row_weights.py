"""Weights of rows by every way in: one row, a label of a tracked one, batches, CSV, streams; and who refuses them."""

import pytest

from core.learners.catalogue import ALGORITHMS
from tests.service.api_fixtures import DFOP, columnar, csv, features, problem

ROWS = 12
LABELS = [("UP", "DOWN")[row % 3 == 0] for row in range(ROWS)]
WEIGHTS = [0.5 + row / 4 for row in range(ROWS)]


async def learnt(api, path):
    """The model as weights, and its scores."""
    metrics = (await api.get(f"{path}/metrics"))["overall"]
    return (await api.get(f"{path}/weights"))["weights"], metrics


async def test_every_way_in_learns_the_same(api):
    """Single rows, labels of tracked ones, a batch as JSON or CSV; rows without weights are learned otherwise."""
    single, tracked, batch, table, plain = [await api.new() for _ in range(5)]
    for row in range(ROWS):
        label = {"label": LABELS[row], "weight": WEIGHTS[row]}
        answer = await api.post(f"{single}/feedback", {"features": features(row), **label})
        assert row + 1 == answer["rows"]
        found = await api.post(f"{tracked}/predict", {"features": features(row), "track": True})
        await api.post(f"{tracked}/feedback", {"prediction_id": found["prediction_id"], **label})
    await api.post(f"{batch}/feedback/batch", {**columnar(ROWS), "labels": LABELS, "weights": WEIGHTS})
    as_csv = csv({**columnar(ROWS), "labels": LABELS}, importance=WEIGHTS)
    as_csv["params"]["weight"] = "importance"
    await api.post(f"{table}/feedback/batch", **as_csv)
    expected = await learnt(api, single)
    for path in (tracked, batch, table):
        assert expected == await learnt(api, path)
    await api.post(f"{plain}/feedback/batch", {**columnar(ROWS), "labels": LABELS})
    assert expected[0] != (await learnt(api, plain))[0]


async def test_a_retry_with_another_weight_is_the_same_row(api):
    """The label decides what an id stands for, as with a discount."""
    path = await api.new()
    body = {"features": features(0), "label": "UP", "id": "a", "weight": 2.0}
    first = await api.post(f"{path}/feedback", body)
    again = await api.post(f"{path}/feedback", {**body, "weight": 5.0})
    assert (False, True, first["version"]) == (first["duplicate"], again["duplicate"], again["version"])


async def test_null_is_no_weight(api):
    """As of a discount."""
    path, plain = await api.new(), await api.new()
    await api.post(f"{path}/feedback", {"features": features(0), "label": "UP", "weight": None})
    await api.post(f"{plain}/feedback", {"features": features(0), "label": "UP"})
    assert await learnt(api, path) == await learnt(api, plain)


@pytest.mark.parametrize(
    "algorithm", sorted(set(ALGORITHMS) - {one.id for one in ALGORITHMS.values() if one.row_weights})
)
async def test_learners_that_cannot_weigh_say_so(api, algorithm):
    """422 that names the field, in a row and in a batch; the message names those that cannot."""
    path = await api.new({**DFOP, "algorithm": algorithm})
    row = {"features": features(0), "label": "UP", "weight": 2.0}
    refused = await api.ask("POST", f"{path}/feedback", json=row)
    problem(refused, 422, "weight")
    assert "vigo, vigod and vigow" in refused.json()["errors"][0]["problem"]
    assert algorithm in ("vigo", "vigod", "vigow")
    body = {**columnar(1), "labels": ["UP"], "weights": [1.0]}
    problem(await api.ask("POST", f"{path}/feedback/batch", json=body), 422, "weights")
