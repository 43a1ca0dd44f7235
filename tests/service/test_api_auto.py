"""Models that name no algorithm: `auto`, its experts and what they say."""

import pytest

from tests.service.api_fixtures import columnar, features

ROWS = 24


@pytest.mark.parametrize(
    ("task", "labels", "measure", "said"),
    [
        ("classification", [("UP", "DOWN")[row % 3 == 0] for row in range(ROWS)], "accuracy", "probabilities"),
        ("regression", [float(row) for row in range(ROWS)], "mse", "prediction"),
    ],
)
async def test_a_task_alone_makes_a_model_that_tells_of_its_experts(api, task, labels, measure, said):
    """Weights that add up to 1, how well each does, who rests; an explanation says what each says of a row."""
    path = await api.new({"task": task})
    config = (await api.get(path))["config"]
    assert ("auto", {"size": "medium"}) == (config["algorithm"], config["params"])
    await api.post(f"{path}/feedback/batch", {**columnar(ROWS), "labels": labels})
    experts = (await api.get(path))["info"]["experts"]
    assert {frozenset(("expert", "weight", measure, "resting"))} == {frozenset(one) for one in experts}
    assert 1.0 == pytest.approx(sum(one["weight"] for one in experts))
    assert {False} == {one["resting"] for one in experts}
    told = (await api.post(f"{path}/predict", {"features": features(0), "explain": True}))["explanation"]
    names = [one["expert"] for one in experts]
    assert [one["expert"] for one in told["experts"]] == names[: len(told["experts"])]
    assert {frozenset(("expert", "weight", said))} == {frozenset(one) for one in told["experts"]}
    said = {frozenset(one.get("probabilities", ())) for one in told["experts"]}
    assert said == {frozenset({"DOWN", "UP"} if task == "classification" else ())}
