"""RECOVER over HTTP: weights of the names asked for, or why there are none."""

import asyncio

import numpy as np
import pytest

from core.features import SparseSchema
from tests.service.api_fixtures import problem
from tests.service.sparse_rows import SPAM, lists


async def recoverable(api, task="regression", names=200, s=4):
    """A model that has learned a sparse rule, the names and the rule."""
    rng = np.random.default_rng(0)
    params = {"compressed_dim": 60, "forgetting_rate": 0.001, "bias": False}
    path = await api.new({"algorithm": "sparse_dfop", "task": task, "params": params})
    M = SparseSchema(0, 60, "sign").projection.columns([f"n{at}" for at in range(names)])
    w = np.zeros(names)
    w[rng.choice(names, s, replace=False)] = [2.0, -1.0, 1.5, 3.0][:s]
    X = np.where(rng.random((2000, names)) < 0.1, rng.normal(size=(2000, names)), 0.0)
    y = X @ M.T @ (M @ w)
    labels = y.tolist() if task == "regression" else [bool(value > 0) for value in y]
    rows = [{f"n{at}": value for at, value in enumerate(row) if value} for row in X.tolist()]
    await api.post(f"{path}/feedback/batch", lists(rows, labels=labels))
    return path, {f"n{at}": value for at, value in enumerate(w.tolist())}


async def test_weights_are_recovered(api):
    """A sparse rule is found again among the names given, in any order, and with what it leaves unexplained."""
    path, rule = await recoverable(api)
    names = ",".join(sorted(rule))
    for query in ({"names": names, "sparsity": 4}, {"names": names}):
        found = await api.get(f"{path}/weights", params=query)
        expected = {name: weight for name, weight in rule.items() if weight}
        assert expected == pytest.approx(
            {k: v for k, v in found["weights"]["value"].items() if k in expected}, abs=0.05
        )
        assert query.get("sparsity", 10) >= len(found["weights"]["value"])
        assert found["residual"]["value"] < 0.05
    assert {"value": 0.0} == found["bias"]


async def test_weights_of_two_classes(api):
    """One is the other's negative; before the first class there are none."""
    path, rule = await recoverable(api, "classification")
    found = await api.get(f"{path}/weights", params={"names": ",".join(rule), "sparsity": 4})
    assert {"true", "false"} == set(found["weights"]) == set(found["residual"])
    assert {name for name, weight in rule.items() if weight} == set(found["weights"]["true"])
    assert found["weights"]["true"] == {name: -weight for name, weight in found["weights"]["false"].items()}
    fresh = await api.get(f"{await api.new(SPAM)}/weights", params={"names": "a,b"})
    assert ({}, {}, {}) == (fresh["weights"], fresh["bias"], fresh["residual"])


async def test_weights_that_cannot_be_recovered(api):
    """No names, names that are none, too many, too little sparsity, names that explain nothing: each is said."""
    path, rule = await recoverable(api)
    names = ",".join(rule)
    strangers = ",".join(f"stranger{at}" for at in range(100))
    cases = [
        ({}, "names", "is required"),
        ({"names": ""}, "names", "is too short"),
        ({"names": "a,b,,c"}, "names[2]", "is not a feature name"),
        ({"names": "a,b,a"}, "names[2]", "is the same name"),
        ({"names": "," * 10_000}, "names", "are too many"),
        ({"names": names, "sparsity": "0"}, "sparsity", "is not a whole number"),
        ({"names": names, "sparsity": "many"}, "sparsity", "is not a whole number"),
        ({"names": names, "sparsity": "50"}, "sparsity", "is too large to recover"),
        ({"names": names, "sparsity": "1"}, "sparsity", "does not explain"),
        ({"names": strangers, "sparsity": "3"}, "sparsity", "does not explain"),
        ({"names": "a,b"}, "sparsity", "does not explain"),
    ]
    for query, field, words in cases:
        body = problem(await api.ask("GET", f"{path}/weights", params=query), 422, field)
        assert words in body["detail"], (query, body)
    body = problem(await api.ask("GET", f"{path}/weights", params={"names": names, "sparsity": "50"}), 422)
    assert "<= " in body["errors"][0]["allowed"]


async def test_one_recovery_at_a_time(start):
    """Others wait for their turn, and as long as a request may; then they are told to come again."""
    api = await start(wait_timeout_s=60)
    path, rule = await recoverable(api)
    query = {"names": ",".join(rule), "sparsity": 4}
    both = await asyncio.gather(*(api.get(f"{path}/weights", params=query) for _ in range(2)))
    assert both[0] == both[1]
    hurried = await start(wait_timeout_s=0.05)
    async with hurried.app.context.recovering:
        answer = await hurried.ask("GET", f"{path}/weights", params=query)
    problem(answer, 503)
    assert int(answer.headers["retry-after"]) >= 1
    assert both[0] == await hurried.get(f"{path}/weights", params=query)
