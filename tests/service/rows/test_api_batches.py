"""Batches over HTTP: JSON by column, CSV and .npy say the same as the rows one by one."""

import numpy as np
import pytest

from tests.service.api_fixtures import CSV, NPY, RLS, columnar, csv, features, forms, npy, problem

LABELS = ["UP", "DOWN", "DOWN", "UP", "UP", "DOWN", "UP"]
ROWS = len(LABELS)


TABLE = {**columnar(ROWS), "labels": LABELS}


async def test_a_batch_of_json(api):
    """Every field of the contract; rows in order, each tested, then trained, and one version for all."""
    path, single = await api.new(), await api.new()
    answer = await api.post(f"{path}/feedback/batch", TABLE)
    assert {
        "predictions", "losses", "version", "rows", "metrics", "duplicate", "duplicates", "learned", "durability",
        "incarnation",
    } == set(answer)  # fmt: skip
    one_by_one = [
        await api.post(f"{single}/feedback", {"features": features(row), "label": LABELS[row]}) for row in range(ROWS)
    ]
    assert [one["prediction"] for one in one_by_one] == answer["predictions"]
    assert [one["loss"] for one in one_by_one] == answer["losses"]
    assert (1, ROWS, False, 0) == tuple(answer[name] for name in ("version", "rows", "duplicate", "duplicates"))
    right, unscored = answer["losses"].count(0.0), answer["losses"].count(None)
    told = [answer["metrics"][name] for name in ("rows", "unscored", "accuracy")]
    assert [ROWS, unscored, right / (ROWS - unscored)] == told
    assert (await api.get(f"{single}/metrics"))["overall"] == (await api.get(f"{path}/metrics"))["overall"]
    assert await weights(api, single) == await weights(api, path)


async def weights(api, path):
    found = await api.get(f"{path}/weights")
    return found["weights"], found["bias"]


@pytest.mark.parametrize("kind", ["json", "csv", "npy"])
async def test_predictions_of_a_batch(api, kind):
    """The same as one by one, in the order of the rows, with the classes the probabilities are of."""
    path = await api.learnt(rows=9)
    answer = await api.post(f"{path}/predict/batch", **forms(columnar(ROWS))[kind])
    assert {"predictions", "classes", "probabilities", "version", "incarnation"} == set(answer)
    assert ["UP", "DOWN"] == answer["classes"]
    for row in range(ROWS):
        one = await api.post(f"{path}/predict", {"features": features(row)})
        assert one["prediction"] == answer["predictions"][row]
        assert one["probabilities"] == dict(zip(answer["classes"], answer["probabilities"][row], strict=True))


async def test_predictions_of_a_batch_before_the_first_row(api):
    """The declared labels, equally probable; without any nulls, no classes, and so no probabilities for any row."""
    answer = await api.post(f"{await api.new()}/predict/batch", columnar(2))
    assert (["UP", "UP"], ["UP", "DOWN"]) == (answer["predictions"], answer["classes"])
    assert [[0.5, 0.5]] * 2 == answer["probabilities"]
    answer = await api.post(f"{await api.new(labels=None)}/predict/batch", columnar(2))
    assert ([None, None], [], [[], []]) == (answer["predictions"], answer["classes"], answer["probabilities"])


async def test_predictions_of_a_regression_are_numbers_with_deviations(api):
    """Of a row as of the same row in a batch, without probabilities."""
    path = await api.learnt(RLS, rows=5)
    answer = await api.post(f"{path}/predict/batch", columnar(3))
    assert {"predictions", "std", "version", "incarnation"} == set(answer)
    one = await api.post(f"{path}/predict", {"features": features(2)})
    assert {"prediction", "std", "version", "incarnation"} == set(one)
    assert (one["prediction"], one["std"]) == (answer["predictions"][2], answer["std"][2])
    assert [float, float] == [type(one["prediction"]), type(one["std"])]


async def test_csv_says_the_same_as_json(api):
    """Columns in any order, quoted or not, with another line ending, with a byte order mark, blank lines in between."""
    expected = await api.new()
    await api.post(f"{expected}/feedback/batch", TABLE)
    turned = {"columns": ["b", "a"], "data": [row[::-1] for row in TABLE["data"]], "labels": LABELS}
    plain, reordered = csv(TABLE)["content"], csv(turned)["content"]
    quoted = reordered.replace("\n", "\r\n\r\n").replace("UP", '"UP"')
    for content in (f"{plain}\n", quoted, b"\xef\xbb\xbf" + plain.encode()):
        path = await api.new()
        answer = await api.post(f"{path}/feedback/batch?label=y", content=content, headers=CSV)
        assert ROWS == answer["rows"]
        assert await weights(api, expected) == await weights(api, path)


async def test_csv_carries_ids_and_discounts(api):
    """In columns that the query names; what is neither is a feature."""
    path = await api.new(algorithm="gdfop")
    other = await api.new(algorithm="gdfop")
    ids, discounts = [f"r{row}" for row in range(ROWS)], [0.5 + row / 20 for row in range(ROWS)]
    plain = csv(TABLE, key=ids, weight=discounts)
    table = {**plain, "params": {"label": "y", "id": "key", "discount": "weight"}}
    answer = await api.post(f"{path}/feedback/batch", **table)
    assert (ROWS, 0) == (answer["rows"], answer["duplicates"])
    same = await api.post(f"{other}/feedback/batch", {**TABLE, "ids": ids, "discounts": discounts})
    assert answer["predictions"] == same["predictions"]
    assert await weights(api, path) == await weights(api, other)
    again = await api.post(f"{path}/feedback/batch", **table)
    assert (True, ROWS, answer["predictions"]) == (again["duplicate"], again["duplicates"], again["predictions"])
    problem(await api.ask("POST", f"{path}/feedback/batch", **plain), 422, "header[2]")


@pytest.mark.parametrize("how", ["c", "fortran", "float32", "wide", "big endian", "integers"])
async def test_npy_says_the_same_as_json(api, how):
    """Any real type and either order; columns as the schema has them, the label last."""
    rows = [[row % 3, -row, row % 2] for row in range(ROWS)]
    kinds = {"float32": np.float32, "wide": np.longdouble, "big endian": ">f8", "integers": np.int16}
    array = np.array(rows, dtype=kinds.get(how, "<f8"))
    body = npy(np.asfortranarray(array) if how == "fortran" else array, array.dtype)
    path, other = await api.new(labels=[0, 1]), await api.new(labels=[0, 1])
    answer = await api.post(f"{path}/feedback/batch", content=body, headers=NPY)
    table = {"columns": ["a", "b"], "data": [row[:2] for row in rows], "labels": [row[2] for row in rows]}
    assert answer["predictions"] == (await api.post(f"{other}/feedback/batch", table))["predictions"]
    assert await weights(api, path) == await weights(api, other)


async def test_missing_values_in_every_form(api):
    """A null, an absent column, an empty cell and NaN mean the same."""
    paths = [await api.new(missing="mean") for _ in range(3)]
    data, labels = [[1, None], [None, 2], [3, 4], [None, None]], ["UP", "DOWN", "UP", "DOWN"]
    await api.post(f"{paths[0]}/feedback/batch", {"columns": ["a", "b"], "data": data, "labels": labels})
    table = "a,b,class\n1,,UP\n,2,DOWN\n3,4,UP\n,,DOWN\n"
    await api.post(f"{paths[1]}/feedback/batch?label=class", content=table, headers=CSV)
    for row, label in zip(data, labels, strict=True):
        one = {name: value for name, value in zip("ab", row, strict=True) if value is not None}
        await api.post(f"{paths[2]}/feedback", {"features": one, "label": label})
    expected = await weights(api, paths[0])
    assert [expected, expected] == [await weights(api, path) for path in paths[1:]]
    holes = np.array([[np.nan if value is None else value for value in row] for row in data])
    told = await api.post(f"{paths[0]}/predict/batch", {"columns": ["a", "b"], "data": data})
    assert told == await api.post(f"{paths[0]}/predict/batch", content=npy(holes), headers=NPY)
    absent = await api.post(f"{paths[0]}/predict/batch", {"columns": ["a"], "data": [[1], [None]]})
    assert [told["probabilities"][0], told["probabilities"][3]] == absent["probabilities"]
