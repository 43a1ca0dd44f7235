"""Rows that are scored: by a model that does not learn them (evaluate), and of a model outside Onepass (served)."""

import math

import numpy as np
import pytest

from tests.service.api_fixtures import CSV, DFOP, RLS, columnar, csv, features, forms, problem

FIVE = ["UP", "DOWN", "DOWN", "UP", "UP"]
COUNT = len(FIVE)
TABLE = {**columnar(COUNT), "labels": FIVE}


async def test_rows_are_scored_and_not_learned(api):
    """By the predictions of the model as it is: no row changes the prediction of the next, nor anything else."""
    path = await api.learnt(rows=9)
    before = await api.get(path), (await api.ask("GET", f"{path}/state")).content
    answer = await api.post(f"{path}/evaluate", TABLE)
    found = await api.post(f"{path}/predict/batch", columnar(COUNT))
    right = [said == label for said, label in zip(found["predictions"], FIVE, strict=True)]
    p_true = [p[found["classes"].index(y)] for p, y in zip(found["probabilities"], FIVE, strict=True)]
    assert {"rows", "metrics", "version", "incarnation"} == set(answer)
    assert [COUNT, before[0]["version"]] == [answer["rows"], answer["version"]]
    assert [COUNT, 0, sum(right) / COUNT] == [answer["metrics"][name] for name in ("rows", "unscored", "accuracy")]
    assert answer["metrics"]["log_loss"] == pytest.approx(-np.mean(np.log(p_true)))
    assert before == (await api.get(path), (await api.ask("GET", f"{path}/state")).content)
    assert answer["metrics"].keys() == (await api.post(f"{path}/feedback/batch", TABLE))["metrics"].keys()


async def test_numbers_are_scored(api):
    """In every dense form of a batch; ids, which no row needs here, do not matter."""
    path, labels = await api.learnt(RLS, rows=9), [0.5, -1.0, 2.0, 0.0, 1.0]
    rows = [{"features": features(row), "label": labels[row], "id": row} for row in range(COUNT)]
    answer = await api.post(f"{path}/evaluate", rows)
    errors = np.array((await api.post(f"{path}/predict/batch", columnar(COUNT)))["predictions"]) - labels
    assert answer["metrics"]["mse"] == pytest.approx(np.mean(errors**2))
    assert answer["metrics"]["mae"] == pytest.approx(np.mean(np.abs(errors)))
    for how in forms({**columnar(COUNT), "labels": labels}).values():
        assert answer == await api.post(f"{path}/evaluate", **how)


async def test_labels_that_the_model_does_not_know(api):
    """Are wrong predictions, as probable as in feedback, and no new classes; with declared labels they are refused."""
    path = await api.learnt(rows=4, labels=None)
    answer = await api.post(f"{path}/evaluate", TABLE | {"labels": ["LEFT"] * COUNT})
    assert [0.0, COUNT] == [answer["metrics"]["accuracy"], answer["metrics"]["rows"]]
    assert answer["metrics"]["log_loss"] == pytest.approx(math.log(5 * 3))  # one row of five for three labels
    assert ["UP", "DOWN"] == (await api.get(path))["info"]["labels"]
    declared = await api.learnt(rows=4)
    refused = await api.ask("POST", f"{declared}/evaluate", json=TABLE | {"labels": [*FIVE[1:], "LEFT"]})
    assert [f"labels[{COUNT - 1}]"] == [one["field"] for one in problem(refused, 422)["errors"]]


@pytest.mark.parametrize("label", ["LEFT", "AWAY"])
async def test_a_row_has_the_log_loss_that_it_has_when_it_is_learned(api, label):
    """Even if its label is new or retired."""
    path, row = await api.learnt(rows=9, labels=None), {**columnar(1), "labels": [label]}
    await api.post(f"{path}/feedback/batch", row | {"labels": ["AWAY"]})
    await api.ask("PATCH", path, json={"retire_labels": ["AWAY"]})
    found = await api.post(f"{path}/evaluate", row)
    assert found["metrics"] == (await api.post(f"{path}/feedback/batch", row))["metrics"]
    assert 0.0 < found["metrics"]["log_loss"] < 20.0


async def test_a_model_without_rows(api):
    """No label is known yet: the rows are unscored; without features there is nothing to predict by."""
    path = await api.new(labels=None)
    assert COUNT == (await api.post(f"{path}/evaluate", TABLE))["metrics"]["unscored"]
    problem(await api.ask("POST", f"{await api.new(labels=None, features=None)}/evaluate", json=TABLE), 409)


async def test_in_an_overlap_the_old_features_are_read(api):
    """As predictions are; the new columns are passed over."""
    path = await api.learnt(rows=9)
    before = await api.post(f"{path}/evaluate", TABLE)
    await api.post(f"{path}/features/switch", {"action": "begin", "features": ["c"]})
    both = {"columns": ["a", "b", "c"], "data": [[*row, 1.0] for row in TABLE["data"]], "labels": FIVE}
    for table in (TABLE, both):
        assert before["metrics"] == (await api.post(f"{path}/evaluate", table))["metrics"]


ROWS = [{"a": at % 7, "b": at % 3} for at in range(300)]
LABELS = [("DOWN", "UP")[int(row["a"] > 3)] for row in ROWS]
OFTEN_WRONG = [("DOWN", "UP")[int(row["b"] > 0)] for row in ROWS]
COLUMNS = {"columns": ["a", "b"], "data": [[*row.values()] for row in ROWS], "labels": LABELS}
OBSERVER = {"algorithm": "observer", "task": "classification"}


async def served_of(api, path):
    """The accuracy of the baseline, and the comparison."""
    found = await api.get(f"{path}/metrics")
    return found["baselines"]["served"]["accuracy"], found["served"]


async def test_every_form_of_rows_says_the_same(api):
    """One by one, by column, by name, lines and CSV: the same figures, in every replica's state."""
    share = sum(own == label for own, label in zip(OFTEN_WRONG, LABELS, strict=True)) / len(LABELS)
    records = [
        {"features": row, "label": label, "served": own}
        for row, label, own in zip(ROWS, LABELS, OFTEN_WRONG, strict=True)
    ]
    table = csv(COLUMNS, theirs=OFTEN_WRONG)
    table["params"]["served"] = "theirs"
    found = []
    for route, requests in (
        ("feedback", [{"json": record} for record in records]),
        ("feedback/batch", [{"json": {**COLUMNS, "served": OFTEN_WRONG}}]),
        ("feedback/batch", [{"json": {"rows": records}}]),
        ("feedback/batch", [table]),
    ):
        path = await api.new(DFOP, features=["a", "b"], labels=["DOWN", "UP"])
        for how in requests:
            await api.post(f"{path}/{route}", **how)
        found.append(await served_of(api, path))
    assert [found[0]] * 4 == found
    accuracy, compared = found[0]
    assert share == pytest.approx(accuracy)
    assert {"rows", "difference", "better", "since"} == {*compared}
    assert {"mean", "low", "high", "confidence"} == {*compared["difference"]}
    assert (300, 0.95, "model") == (compared["rows"], compared["difference"]["confidence"], compared["better"])


async def test_nothing_and_strange_labels(api):
    """Null is not compared, a label that nobody has seen is wrong; an integer is no string."""
    path = await api.new(DFOP, features=["a", "b"], labels=["DOWN", "UP"])
    served = ["UP", None, "SIDEWAYS", "DOWN"]
    body = {"columns": ["a", "b"], "data": [[1, 2]] * 4, "labels": ["UP"] * 4, "served": served}
    await api.post(f"{path}/feedback/batch", body)
    accuracy, compared = await served_of(api, path)
    assert (pytest.approx(1 / 3), 3) == (accuracy, compared["rows"])
    await api.refuses(f"{path}/feedback/batch", 422, "served", json={**body, "served": ["UP"]})
    await api.refuses(f"{path}/feedback/batch", 422, "served[2]", json={**body, "served": ["UP", None, 1.5, "UP"]})
    await api.refuses(f"{path}/feedback", 422, "served", json={"features": ROWS[0], "label": "UP", "served": [1]})


async def test_with_a_tracked_prediction(api):
    """It may come with the prediction or with the label, not with both; without track it has to wait for the label."""
    path = await api.new(DFOP, features=["a", "b"], labels=["DOWN", "UP"])
    first = await api.post(f"{path}/predict", {"features": ROWS[0], "track": True, "served": "UP"})
    body = {"prediction_id": first["prediction_id"], "label": "UP", "served": "DOWN"}
    await api.refuses(f"{path}/feedback", 422, "served", json=body)
    await api.post(f"{path}/feedback", {"prediction_id": first["prediction_id"], "label": "UP"})
    second = await api.post(f"{path}/predict", {"features": ROWS[0], "track": True})
    await api.post(f"{path}/feedback", {**body, "prediction_id": second["prediction_id"]})
    many = {"columns": ["a", "b"], "data": [[1, 2]] * 2, "track": True, "served": ["UP", None]}
    for one in (await api.post(f"{path}/predict/batch", many))["prediction_ids"]:
        await api.post(f"{path}/feedback", {"prediction_id": one, "label": "UP"})
    accuracy, compared = await served_of(api, path)
    assert (pytest.approx(2 / 3), 3) == (accuracy, compared["rows"])
    await api.refuses(f"{path}/predict", 422, "served", json={"features": ROWS[0], "served": "UP"})


async def test_evaluate_scores_both(api):
    """Beside the model's figures those of what was served; nothing is learned, nothing compared."""
    path = await api.new(DFOP, features=["a", "b"], labels=["DOWN", "UP"])
    await api.post(f"{path}/feedback/batch", COLUMNS)
    found = await api.post(f"{path}/evaluate", {**COLUMNS, "served": OFTEN_WRONG})
    share = sum(own == label for own, label in zip(OFTEN_WRONG, LABELS, strict=True)) / len(LABELS)
    assert share == pytest.approx(found["metrics"]["served"]["accuracy"])
    assert found["metrics"]["accuracy"] > share
    assert "served" not in await api.get(f"{path}/metrics")


async def test_an_observer(api):
    """It answers what was served, learns nothing, judges and evaluates; whatever needs a model is 409."""
    path = await api.new(OBSERVER, features=["a", "b"], labels=["DOWN", "UP"])
    told = await api.post(f"{path}/feedback", {"features": ROWS[0], "label": "UP", "served": "DOWN"})
    assert ("DOWN", 1.0, False) == tuple(told[name] for name in ("prediction", "loss", "learned"))
    silent = await api.post(f"{path}/feedback", {"features": ROWS[0], "label": "UP"})
    assert (None, None, False) == tuple(silent[name] for name in ("prediction", "loss", "learned"))
    batch = await api.post(f"{path}/feedback/batch", {**COLUMNS, "served": OFTEN_WRONG})
    assert OFTEN_WRONG == batch["predictions"]
    found = await api.get(f"{path}/metrics")
    assert (302, 1) == (found["rows"], found["unscored"])
    assert (None, None) == (found["overall"]["log_loss"], found["overall"]["ece"])
    assert found["overall"]["accuracy"] == pytest.approx(found["baselines"]["served"]["accuracy"])
    scored = await api.post(f"{path}/evaluate", {**COLUMNS, "served": OFTEN_WRONG})
    assert batch["metrics"]["accuracy"] == scored["metrics"]["accuracy"]
    for method, route, body in (
        ("POST", "predict", {"features": ROWS[0]}),
        ("POST", "predict", {"features": ROWS[0], "track": True}),
        ("POST", "predict/batch", {"columns": ["a", "b"], "data": [[1, 2]]}),
        ("PUT", "challengers/other", {"algorithm": "rls"}),
        ("POST", "features/switch", {"action": "begin", "features": ["c"]}),
        ("GET", "weights", None),
        ("GET", "posterior", None),
        ("GET", "effects", None),
    ):
        problem(await api.ask(method, f"{path}/{route}", json=body), 409)
    other = await api.new(DFOP, features=["a", "b"])
    problem(await api.ask("PUT", f"{other}/challengers/eye", json={"algorithm": "observer"}), 422, "algorithm")


async def test_an_observer_says_what_it_is_before_its_first_row(api):
    """Rather than that a row would give it features."""
    path = await api.new(OBSERVER)
    for method, route, body in (
        ("POST", f"{path}/predict", {"features": ROWS[0]}),
        ("POST", f"{path}/predict/batch", {"columns": ["a", "b"], "data": [[1, 2]]}),
        ("GET", f"{path}/posterior", None),
        ("GET", f"{path}/effects", None),
    ):
        assert problem(await api.ask(method, route, json=body), 409)["detail"].startswith("an observer ")
    tensor = {"name": "features", "datatype": "FP64", "shape": [1, 2], "data": [1, 2]}
    found = await api.ask("POST", f"/v2{path}/infer", json={"inputs": [tensor]})
    assert (409, True) == (found.status_code, found.json()["error"].startswith("an observer "))


async def test_an_observer_of_numbers(api):
    """Errors are those of what was served; a row without is not scored, and a text is refused."""
    path = await api.new({"algorithm": "observer", "task": "regression", "features": ["a", "b"]})
    await api.refuses(f"{path}/feedback", 422, "served", json={"features": ROWS[0], "label": 1, "served": "2"})
    for more in ({}, {"served": None}):
        silent = await api.post(f"{path}/feedback", {"features": ROWS[0], "label": 1, **more})
        assert (None, None, False) == tuple(silent[name] for name in ("prediction", "loss", "learned"))
    assert 4.0 == (await api.post(f"{path}/feedback", {"features": ROWS[0], "label": 1, "served": 3}))["loss"]
    batch = {"columns": ["a", "b"], "data": [[1, 2]] * 3, "labels": [1, 2, 3], "served": [None, 4, None]}
    told = await api.post(f"{path}/feedback/batch", batch)
    assert ([None, 4.0, None], [None, 4.0, None]) == (told["predictions"], told["losses"])
    assert (3, 2, 4.0) == tuple(told["metrics"][name] for name in ("rows", "unscored", "mse"))
    table = "a,b,label,served\n1,2,3,\n1,2,3,5\n"
    told = await api.post(f"{path}/feedback/batch?label=label&served=served", content=table, headers=CSV)
    assert [None, 5.0] == told["predictions"]
    found = await api.get(f"{path}/metrics")
    assert (8, 5) == (found["rows"], found["unscored"])
    assert 4.0 == found["overall"]["mse"] == found["baselines"]["served"]["mse"]
    assert 4.0 == (await api.post(f"{path}/evaluate", batch))["metrics"]["mse"]


async def test_a_tracked_table_says_what_was_served(api):
    """Its column is named as for feedback; the label that comes later is compared with it."""
    path = await api.new({"algorithm": "rls", "task": "classification", "features": ["a", "b"], "labels": ["x", "y"]})
    table = "a,b,theirs\n1,2,x\n1,2,\n"
    kept = await api.post(f"{path}/predict/batch?track=true&served=theirs", content=table, headers=CSV)
    for identity in kept["prediction_ids"]:
        await api.post(f"{path}/feedback", {"prediction_id": identity, "label": "x"})
    assert 1 == (await api.get(f"{path}/metrics"))["served"]["rows"]


async def test_each_row_of_an_observer_is_told_its_own_number(api):
    """Rows that are not learned count as well: one that is sent again is told of the rows after it, not of the last."""
    path = await api.new({"algorithm": "observer", "task": "regression", "features": ["a", "b"]})
    rows = [{"features": ROWS[0], "label": 1, "served": 2, "id": at} for at in range(3)]
    assert 3 == (await api.post(f"{path}/feedback/batch", rows))["rows"]
    assert [1, 2, 3] == [(await api.post(f"{path}/feedback", row))["rows"] for row in rows]
