"""Labels are values: 0, false and "" are ordinary ones, 1.0 is 1, and false is not 0; and the classes that rows add."""

import asyncio
import itertools

import pytest

from tests.service.api_fixtures import DFOP, NPY, RLS, ROW, columnar, features, npy, problem

ODD = [0, False, ""]


def same(expected, found):
    """Equal in value and in type: Python would take False for 0."""
    return [(type(value), value) for value in expected] == [(type(value), value) for value in found]


@pytest.mark.parametrize("declared", [ODD, None])
async def test_odd_labels_are_ordinary_ones(api, declared):
    """Learned, predicted, tracked, listed and weighed like any other."""
    path = await api.new(labels=declared)
    for row in range(12):
        await api.post(f"{path}/feedback", {"features": features(row), "label": ODD[row % 3]})
    answer = await api.post(f"{path}/predict", {**ROW, "track": True})
    assert {"0", "false", ""} == set(answer["probabilities"])
    assert any(same([answer["prediction"]], [label]) for label in ODD)
    assert same(ODD, (await api.get(path))["info"]["labels"])
    assert {"0", "false", ""} == set((await api.get(f"{path}/weights"))["weights"])
    told = await api.post(f"{path}/feedback", {"prediction_id": answer["prediction_id"], "label": answer["prediction"]})
    assert (0.0, True) == (told["loss"], same([answer["prediction"]], [told["prediction"]]))
    batch = await api.post(f"{path}/predict/batch", columnar(5))
    assert same(ODD, batch["classes"])


async def test_two_labels_under_one_json_key_are_refused(api):
    """Whether declared, in one batch or one after the other; the answer says which label it looks like."""
    for labels in ([0, "0"], [False, "false"], [True, "true", 1]):
        body = {"algorithm": "dfop", "task": "classification", "labels": labels}
        problem(await api.ask("PUT", "/models/clash", json=body), 422, "labels[1]")
    path = await api.new(labels=None)
    await api.refuses(f"{path}/feedback/batch", 422, "labels[2]", json={**columnar(3), "labels": [0, 1, "0"]})
    await api.post(f"{path}/feedback", {**ROW, "label": True})
    (said,) = (await api.refuses(f"{path}/feedback", 422, "label", json={**ROW, "label": "true"}))["errors"]
    assert "looks in answers like the boolean true, another label of the model" in said["problem"]
    assert [True] == said["allowed"]


async def test_more_classes_than_the_algorithm_learns_are_409(api):
    """Undeclared classes are bounded; the request that would exceed the bound changes nothing."""
    path = await api.new(labels=None)
    await api.post(f"{path}/feedback/batch", {**columnar(100), "labels": [*range(100)]})
    await api.refuses(f"{path}/feedback", 409, json={**ROW, "label": "one more"})
    await api.refuses(f"{path}/feedback/batch", 409, json={**columnar(2), "labels": [5, 100]})
    path, body = await api.new(labels=None), {**columnar(101), "labels": [*range(101)]}
    problem(await api.ask("POST", f"{path}/feedback/batch", json=body), 409)


async def test_the_last_column_of_npy_is_the_label(api):
    """A number: an integer for classes, anything finite for a regression."""
    for declared, labels in itertools.product(([0, 1], None), ([0, 1, 1],)):
        path = await api.new(labels=declared)
        await api.post(f"{path}/feedback/batch", content=npy([[1, 2, y] for y in labels]), headers=NPY)
        assert same([0, 1], (await api.get(path))["info"]["labels"])
    path = await api.new(RLS)
    answer = await api.post(f"{path}/feedback/batch", content=npy([[1, 2, 0.5], [2, 3, -1e300]]), headers=NPY)
    assert 2 == answer["rows"]


@pytest.mark.parametrize("label", [0.5, float("nan"), float("inf"), -float("inf"), 2.0, 1e300, 0])
async def test_npy_labels_that_are_none_are_named(api, label):
    """Fractions, NaN and infinities are no classes, 2 is not declared, and texts cannot be told."""
    path = await api.new(labels=["0", "1"] if label == 0 else [0, 1])
    await api.refuses(f"{path}/feedback/batch", 422, "labels[1]", content=npy([[1, 2, 0], [1, 2, label]]), headers=NPY)


OPEN = {"algorithm": "dfop", "task": "classification"}
VALUES = {"a": 0.25, "b": -0.5}


async def told(api, path, label, **more):
    """The new labels that the answer to one row names; None where it has no such field."""
    answer = await api.post(f"{path}/feedback", {"features": VALUES, "label": label, **more})
    return answer.get("new_labels")


async def test_a_row_names_the_class_that_it_adds(api):
    """The first row of each class, whatever its type, and again where it is retried; declared ones are no news."""
    path, declared = await api.new(OPEN), await api.new(DFOP)
    assert [["UP"], None, ["DWON"], None] == [await told(api, path, label) for label in ("UP", "UP", "DWON", "DWON")]
    assert [[3], None] == [await told(api, path, label) for label in (3, 3)]
    assert [["new"], ["new"], None] == [await told(api, path, "new", id=name) for name in ("x", "x", "y")]
    assert [None, None] == [await told(api, declared, label) for label in ("UP", "DOWN")]


async def test_a_batch_names_them_in_order(api):
    """Also where some of its rows were learned before, and where all were."""
    path = await api.new(OPEN)
    rows = {"columns": ["a", "b"], "data": [[1, 2]] * 4, "labels": ["x", "y", "x", "z"], "ids": ["1", "2", "3", "4"]}
    first = {name: rows[name][1:3] if name != "columns" else rows[name] for name in rows}
    assert ["y", "x"] == (await api.post(f"{path}/feedback/batch", first))["new_labels"]
    for _ in range(2):
        assert ["y", "x", "z"] == (await api.post(f"{path}/feedback/batch", rows))["new_labels"]
    later = {**rows, "ids": ["5", "6", "7", "8"]}
    assert "new_labels" not in await api.post(f"{path}/feedback/batch", later)


async def test_rows_with_one_id_name_a_class_once(api):
    """In the first answer and when all is sent again; 1 and true are two classes."""
    path = await api.new(OPEN)
    labels = {"labels": ["x", "x", 1, True, True], "ids": ["1", "1", "2", "3", "3"]}
    for _ in range(2):
        answer = await api.post(f"{path}/feedback/batch", {"columns": ["a", "b"], "data": [[1, 2]] * 5, **labels})
        assert same(["x", 1, True], answer["new_labels"])


async def test_retired_classes_count(api):
    """Where no other class can be added, the error says how many are retired, and what frees their places."""
    labels = [f"c{at}" for at in range(100)]
    path, declared = await api.new(OPEN), await api.new(labels=labels)
    await api.post(f"{path}/feedback/batch", {"columns": ["a", "b"], "data": [[1, 2]] * 100, "labels": labels})
    refused = await api.ask("POST", f"{path}/feedback", json={"features": VALUES, "label": "new"})
    assert refused.json()["detail"].endswith("the model has 100")
    for model in (path, declared):
        assert (await api.ask("PATCH", model, json={"retire_labels": labels[2:]})).is_success
    refused = await api.ask("POST", f"{path}/feedback", json={"features": VALUES, "label": "new"})
    assert (409, True) == (refused.status_code, "has 100 (98 of them retired: a reset" in refused.json()["detail"])
    refused = await api.ask("PATCH", declared, json={"add_labels": ["new"]})
    assert (422, True) == (
        refused.status_code,
        "makes 101 labels (98 of them retired: create" in refused.json()["detail"],
    )
    await api.post(f"{path}/reset")
    assert ["new"] == await told(api, path, "new")


async def test_with_challengers_and_tracked_rows(api):
    """They change nothing of it."""
    path = await api.new(OPEN)
    assert ["UP"] == await told(api, path, "UP")
    assert 201 == (await api.ask("PUT", f"{path}/challengers/other", json={"algorithm": "rls"})).status_code
    assert ["DOWN"] == await told(api, path, "DOWN")
    tracked = (await api.post(f"{path}/predict", {"features": VALUES, "track": True}))["prediction_id"]
    answer = await api.post(f"{path}/feedback", {"prediction_id": tracked, "label": "LEFT"})
    assert ["LEFT"] == answer["new_labels"]


NAMES = [f"x{at}" for at in range(60)]
VIGO = {"algorithm": "vigo", "task": "classification", "features": NAMES}
"""A matrix per class."""
MANY = 40


def row(label, at=0):
    """A row of so many columns."""
    return {"features": {name: features(at + column)["a"] for column, name in enumerate(NAMES)}, "label": label}


def batch(labels):
    """A table of rows with these labels."""
    rows = [[*row(None, at)["features"].values()] for at in range(len(labels))]
    return {"columns": NAMES, "data": rows, "labels": labels}


async def most_declared(small):
    """How many classes may be declared at most."""
    for classes in range(2, MANY):
        answer = await small.ask("PUT", f"/models/of-{classes}", json={**VIGO, "labels": [*range(classes)]})
        if answer.status_code != 201:
            problem(answer, 422, "features")
            return classes - 1
    return MANY


async def test_the_class_that_would_pass_the_limit_is_refused(start):
    """As many classes are learned one by one as may be declared; then new ones are refused, and known ones learned."""
    small = await start(model_limit_mb=1)
    path, most = await small.new(VIGO), await most_declared(small)
    assert 5 < most < 20
    for label in range(most):
        await small.post(f"{path}/feedback", row(label, label))
    found = await small.refuses(f"{path}/feedback", 422, "label", json=row(most))
    assert "<= 1 MiB of state" == found["errors"][0]["allowed"]
    await small.refuses(f"{path}/feedback/batch", 422, "labels[2]", json=batch([0, 1, most, most + 1, 0]))
    assert 2 == len((await small.post(f"{path}/feedback/batch", batch([0, most - 1])))["predictions"])
    assert most + 3 == (await small.post(f"{path}/feedback", row(most - 1)))["rows"]
    assert [*range(most)] == (await small.get(path))["info"]["labels"]
    told = await small.post(f"{path}/predict", {"features": row(0)["features"], "track": True})
    label = {"prediction_id": told["prediction_id"], "label": most}
    await small.refuses(f"{path}/feedback", 422, "label", json=label)
    await small.post(f"{path}/feedback", {**label, "label": 0})


@pytest.mark.parametrize("tracked", [False, True])
async def test_classes_that_come_together_are_counted_together(start, tracked):
    """Labels of rows and of tracked predictions, and challengers: no more get in than one by one."""
    small = await start(model_limit_mb=1)
    path, alone, rows = await small.new(VIGO), await small.new(VIGO), [row(label, label) for label in range(40)]
    most = [(await small.ask("POST", f"{alone}/feedback", json=one)).status_code for one in rows].count(200)
    assert 5 < most < 20
    if tracked:
        await small.post(f"{path}/feedback", rows.pop(0))
        asked = [{"features": one["features"], "track": True} for one in rows]
        ids = [(await small.post(f"{path}/predict", one))["prediction_id"] for one in asked]
        rows = [{"prediction_id": own, "label": one["label"]} for own, one in zip(ids, rows, strict=True)]
    answers = await asyncio.gather(*(small.ask("POST", f"{path}/feedback", json=one) for one in rows))
    assert most - tracked == sum(answer.status_code == 200 for answer in answers)
    assert 2**20 >= small.engine.models.peek(path.removeprefix("/models/")).model.nbytes
    one, other = await small.new({**VIGO, "labels": [0, 1]}), await small.new({**VIGO, "labels": [0, 1]})
    names, vigo = [f"challengers/c{at}" for at in range(8)], {"algorithm": "vigo"}
    alone = [(await small.ask("PUT", f"{one}/{name}", json=vigo)).status_code for name in names]
    together = await asyncio.gather(*(small.ask("PUT", f"{other}/{name}", json=vigo) for name in names))
    assert 0 < alone.count(201) == [answer.status_code for answer in together].count(201) < len(names)


async def test_the_classes_of_a_first_batch_are_counted(start):
    """The columns it proposes and the classes it brings are reckoned together."""
    small = await start(model_limit_mb=1)
    path = await small.new(VIGO, features=None)
    await small.refuses(f"{path}/feedback/batch", 422, "labels[0]", json=batch([*range(MANY)]))
    assert 2 == (await small.post(f"{path}/feedback/batch", batch([0, 1])))["rows"]


async def test_known_labels_are_not_reckoned_again(start, monkeypatch):
    """Only a new class costs the question whether it fits."""
    small = await start(model_limit_mb=1)
    path, models, asked = await small.new(VIGO), small.engine.models, []
    monkeypatch.setattr(models, "admit", lambda demand: asked.append((demand.field, demand.what)))
    for label in (0, 0, 1, 0, 1):
        await small.post(f"{path}/feedback", row(label))
    await small.post(f"{path}/feedback/batch", batch([0, 1, 2, 3, 1]))
    assert ["label", "label", "labels[2]"] == [field for field, _ in asked]
    assert ["with 1", "with 2", "with 4"] == [what.split("; ")[1][:6] for _, what in asked]


async def test_booleans_that_were_learned_are_read_in_csv(api):
    """The classes stay the same, however the cells are written; so does the outside model's prediction."""
    path = await api.new(labels=None)
    await api.post(f"{path}/feedback", {"features": VALUES, "label": True})
    lines = [
        f"{index},{','.join(map(str, VALUES.values()))},{cell},TRUE" for index, cell in enumerate(["True", "FALSE"])
    ]
    body = "\n".join([f"i,{','.join(VALUES)},y,theirs", *lines]) + "\n"
    where, csv = f"{path}/feedback/batch?label=y&id=i&served=theirs", {"Content-Type": "text/csv"}
    for repeated in (False, True):
        answer = await api.ask("POST", where, content=body, headers=csv)
        assert (200, repeated) == (answer.status_code, answer.json()["duplicate"]), answer.text
    model = await api.get(path)
    assert [True, False] == model["info"]["labels"]
    assert 0.5 == model["metrics"]["baselines"]["served"]["accuracy"]
