"""POST /models/{name}/evaluate: a model scored on rows that it does not learn."""

import math

import numpy as np
import pytest

from tests.service.api_fixtures import CSV, NPY, RLS, columnar, features, npy, problem

LABELS = ["UP", "DOWN", "DOWN", "UP", "UP"]
ROWS = len(LABELS)
TABLE = {**columnar(ROWS), "labels": LABELS}


async def test_rows_are_scored_and_not_learned(api):
    """By the predictions of the model as it is: no row changes the prediction of the next, nor anything else."""
    path = await api.learnt(rows=9)
    before = await api.get(path), (await api.ask("GET", f"{path}/state")).content
    answer = await api.post(f"{path}/evaluate", TABLE)
    found = await api.post(f"{path}/predict/batch", columnar(ROWS))
    right = [said == label for said, label in zip(found["predictions"], LABELS, strict=True)]
    p_true = [p[found["classes"].index(y)] for p, y in zip(found["probabilities"], LABELS, strict=True)]
    assert {"rows", "metrics", "version", "incarnation"} == set(answer)
    assert [ROWS, before[0]["version"]] == [answer["rows"], answer["version"]]
    assert [ROWS, 0, sum(right) / ROWS] == [answer["metrics"][name] for name in ("rows", "unscored", "accuracy")]
    assert answer["metrics"]["log_loss"] == pytest.approx(-np.mean(np.log(p_true)))
    assert before == (await api.get(path), (await api.ask("GET", f"{path}/state")).content)
    assert answer["metrics"].keys() == (await api.post(f"{path}/feedback/batch", TABLE))["metrics"].keys()


async def test_numbers_are_scored(api):
    """In every dense form of a batch; ids, which no row needs here, do not matter."""
    path, labels = await api.learnt(RLS, rows=9), [0.5, -1.0, 2.0, 0.0, 1.0]
    rows = [{"features": features(row), "label": labels[row], "id": row} for row in range(ROWS)]
    answer = await api.post(f"{path}/evaluate", rows)
    errors = np.array((await api.post(f"{path}/predict/batch", columnar(ROWS)))["predictions"]) - labels
    assert answer["metrics"]["mse"] == pytest.approx(np.mean(errors**2))
    assert answer["metrics"]["mae"] == pytest.approx(np.mean(np.abs(errors)))
    data = columnar(ROWS)["data"]
    lines = ["a,b,y", *(f"{a!r},{b!r},{y}" for (a, b), y in zip(data, labels, strict=True))]
    by_csv = await api.post(f"{path}/evaluate?label=y", content="\n".join(lines), headers=CSV)
    table = npy([[*row, y] for row, y in zip(data, labels, strict=True)])
    assert answer == by_csv == await api.post(f"{path}/evaluate", content=table, headers=NPY)


async def test_labels_that_the_model_does_not_know(api):
    """Are wrong predictions, and no new classes; with declared labels they are refused."""
    path = await api.learnt(rows=4, labels=None)
    answer = await api.post(f"{path}/evaluate", TABLE | {"labels": ["LEFT"] * ROWS})
    assert [0.0, ROWS] == [answer["metrics"]["accuracy"], answer["metrics"]["rows"]]
    assert answer["metrics"]["log_loss"] == pytest.approx(-math.log(1e-15))
    assert ["UP", "DOWN"] == (await api.get(path))["info"]["labels"]
    declared = await api.learnt(rows=4)
    refused = await api.ask("POST", f"{declared}/evaluate", json=TABLE | {"labels": [*LABELS[1:], "LEFT"]})
    assert [f"labels[{ROWS - 1}]"] == [one["field"] for one in problem(refused, 422)["errors"]]


async def test_a_model_without_rows(api):
    """No label is known yet: the rows are unscored; without features there is nothing to predict by."""
    path = await api.new(labels=None)
    assert ROWS == (await api.post(f"{path}/evaluate", TABLE))["metrics"]["unscored"]
    problem(await api.ask("POST", f"{await api.new(labels=None, features=None)}/evaluate", json=TABLE), 409)


async def test_in_an_overlap_the_old_features_are_read(api):
    """As predictions are; the new columns are passed over."""
    path = await api.learnt(rows=9)
    before = await api.post(f"{path}/evaluate", TABLE)
    await api.post(f"{path}/features/switch", {"action": "begin", "features": ["c"]})
    both = {"columns": ["a", "b", "c"], "data": [[*row, 1.0] for row in TABLE["data"]], "labels": LABELS}
    for table in (TABLE, both):
        assert before["metrics"] == (await api.post(f"{path}/evaluate", table))["metrics"]


async def test_it_waits_for_a_version(api):
    """As every read of a model."""
    path = await api.learnt(rows=3)
    version = (await api.get(path))["version"]
    assert version == (await api.post(f"{path}/evaluate?min_version={version}", TABLE))["version"]
    problem(await api.ask("POST", f"{path}/evaluate?min_version={version + 9}", json=TABLE), 504)
