"""Batches that are refused, as JSON, CSV and .npy: learned whole or refused whole, and the cell is named."""

import json

import numpy as np
import pytest

from tests.service.api_fixtures import CSV, NPY, RLS, body, columnar, npy

TABLE = {"columns": ["a", "b"], "data": [[1, 2], [3, 4], [5, 6]]}
LABELS = ["UP", "DOWN", "UP"]
SECRET = "12345"
"""What no answer may hold."""
OPEN, DISCOUNTED, DIGITS, NUMBERS = {}, {"algorithm": "gdfop"}, {"labels": [0, 1]}, {**RLS, "labels": None}
every_route = pytest.mark.parametrize("route", ["predict", "feedback"])


def batch(route, **changes):
    return {**TABLE, **({"labels": LABELS} if route == "feedback" else {}), **changes}


def data(row):
    """Rows of which the second is another one."""
    return {"data": [[1, 2], row, [5, 6]]}


def csv(route, row="3,4", header="a,b"):
    """The same as CSV, with anything for the second row."""
    if route == "predict":
        return f"{header}\n1,2\n{row}\n5,6\n".encode("utf-8", "surrogateescape")
    return f"{header},y\n1,2,UP\n{row},DOWN\n5,6,UP\n".encode("utf-8", "surrogateescape")


def as_csv(route):
    return {"headers": CSV, "params": {"label": "y"} if route == "feedback" else {}}


TABLES = [
    *(({"columns": ["a", odd]}, "columns[1]") for odd in ("c", "a", 5)),
    *(({"columns": odd}, "columns") for odd in ([], "ab", None)),
    ({"columns": ["a"], "data": [[1]] * 3}, "columns"),
    ({"columns": ["a", "b", "c"], "data": [[1, 2, 3]] * 3}, "columns[2]"),
    *((data(row), "data[1]") for row in ([3], [3, 4, 5], [], {"a": 1, "b": 2}, "34", None)),
    *((data([3, cell]), "data[1][1]") for cell in (None, "12345", [4], {}, 10**400)),
    (data([True, 4]), "data[1][0]"),
    ({"data": [[1, 2], [3, 4], [5, "x"]]}, "data[2][1]"),
    *(({"data": odd}, "data") for odd in ({"a": [1]}, "12", None)),
    ({"rows": []}, "rows"),
]
CELLS = [("NaN", 400), ("Infinity", 400), ("-Infinity", 400), ("1e400", 422), ("7" * 5000, 422), ("-1e999", 422)]
FEEDBACK = [
    ({}, {"labels": ["UP", "DOWN", "?"]}, "labels[2]"),
    *((OPEN, {"labels": labels}, "labels") for labels in (["UP", "DOWN"], ["UP"] * 4, [], "UP", None)),
    *(
        (OPEN, {"labels": ["UP", label, "UP"]}, "labels[1]")
        for label in (None, ["DOWN"], 1.5, "SIDEWAYS", True, 10**400)
    ),
    *((NUMBERS, {"labels": [1, label, 2]}, "labels[1]") for label in (None, "12345", True, [1], 10**400)),
    *((OPEN, {"ids": ids}, "ids") for ids in (["x", "y"], ["x", "y", "z", "w"], "xyz")),
    *((OPEN, {"ids": ["x", one, "z"]}, "ids[1]") for one in ("", "y" * 201, "y\n", 5.5, 10**200, True, None)),
    (OPEN, {"discounts": [0.9, 0.9, 0.9]}, "discounts"),
    (OPEN, {"weights": [1]}, "weights"),
    *((OPEN, {"weights": [1, one, 1]}, "weights[1]") for one in (0, -1, 1e-7, 1001, "2", True, [2])),
    (OPEN, {"id": "x"}, "id"),
    (DISCOUNTED, {"discounts": [0.9, 0.9]}, "discounts"),
    (DISCOUNTED, {"discounts": 0.9}, "discounts"),
    *(
        (DISCOUNTED, {"discounts": [0.9, one, 0.9]}, "discounts[1]")
        for one in (0, 1.5, -0.1, True, "0.5", None, 10**400)
    ),
]
NO_CELLS = [
    "", " ", "x12345", "nan", "NaN", "inf", "-inf", "Infinity",
    "1e400", "1_000", "٣", "0x1F", "true", "1 2", "--1",
]  # fmt: skip
CSV_BODIES = [
    *((header, "1,2", 422, "header[1]") for header in ("a,c", "a,a", "a,", "a, b")),
    *(("a,b", f"3,{cell}", 422, "row 2, column b") for cell in NO_CELLS),
    *(("a,b", row, 422, "row 2") for row in ("3", "3,4,5,6", '"3,4"')),
    ("a,b", '3,"4', 400, None),
    ("a,b", '3,"4"x', 400, None),
    ("a,b", "3,\x004", 422, None),
    ("a,b", "3,\udcff", 400, None),
]
CSV_CELLS = [
    *((DISCOUNTED, f"UP,{cell}", "row 2, column w") for cell in ("", "x", "0", "1.5", "nan", "0.5_0")),
    *((NUMBERS, f"{cell},1", "row 2, column y") for cell in ("", "x12345", "nan", "inf", "1e400", "1_0", "٣")),
    *((model, f"{cell},1", "row 2, column y") for model, cell in ((OPEN, "up"), (OPEN, ""), (DIGITS, "false"))),
    *(
        ({"labels": None}, f"{cell},1", "row 2, column y")
        for cell in ("", "0.5", "1e300", "1e999", "9" * 19, "9" * 201, "9" * 10_000, "a" * 201)
    ),
]


def _broken():
    """Files that are no .npy: truncated, with something behind, with a header that promises more than there is."""
    whole = npy(np.ones((2, 3)))
    yield from (b"", b"\x93NUMPY", whole[:-1], whole + b"x", whole[:40], b"{}", b"PK\x03\x04", whole[1:])
    sizes = ("(True, 6)", "(6, True)", "(-2, -3)", "(2, 3.0)", "(2, [3])", "('2', 3)", "(999999999999, 3)", "2")
    empty = ("(0, True)", "(0, -1)", f"({2**63}, 0)", f"(0, {2**63})", f"({2**62}, {2**62}, 0)")
    for shape in (*sizes, "(2, 3, 1, 1, 9)", *empty):
        content = whole.replace(b"(2, 3), }".ljust(60), f"{shape}, }}".ljust(60).encode())
        yield content.removesuffix(np.ones((2, 3)).tobytes()) if shape in empty else content
    yield whole.replace(b"'descr'", b"'xyzzy'")


def _odd():
    """Arrays that are no rows by columns of real numbers."""
    yield from (np.ones(shape) for shape in ((2, 4), (2, 1), 3, (1, 2, 3), ()))
    yield from (np.ones((2, 3), dtype=kind) for kind in (bool, complex, "S3", [("x", "f8"), ("y", "f8")]))
    yield np.full((2, 3), "2024", dtype="M8[Y]")


FILES = [
    *((content, 400, None) for content in _broken()),
    (npy(np.ones((2, 3))).replace(b"<f8", b"|O8"), 422, None),
    *((npy(array, array.dtype), 422, "body") for array in _odd()),
]


@every_route
@pytest.mark.parametrize(("change", "field"), TABLES)
async def test_a_json_batch_names_what_is_wrong(api, route, change, field):
    """Columns by position, rows and cells by index."""
    await api.refuses(f"{await api.shared()}/{route}/batch", 422, field, SECRET, json=batch(route, **change))


@every_route
async def test_every_row_of_another_length_is_named(api, route):
    """With what it has, and what it should have; so is every bad cell."""
    for rows, said in (
        ([[1], [3, 4], [5, 6, 7]], {"data[0]": "has 1 values, 2 expected", "data[2]": "has 3 values, 2 expected"}),
        ([[1, 2], [None, True], [5, 6]], {"data[1][0]": "is missing", "data[1][1]": "is not a number"}),
    ):
        found = await api.refuses(f"{await api.shared()}/{route}/batch", 422, json=batch(route, data=rows))
        assert said == {error["field"]: error["problem"].partition(";")[0] for error in found["errors"]}


@every_route
@pytest.mark.parametrize(("cell", "status"), CELLS)
async def test_numbers_that_are_none_in_a_json_batch(api, route, cell, status):
    """The cell is named, also where the body is no JSON."""
    content = json.dumps(batch(route)).replace("4", cell, 1)
    await api.refuses(f"{await api.shared()}/{route}/batch", status, "data[1][1]", **body(content))


@pytest.mark.parametrize(("model", "change", "field"), FEEDBACK)
async def test_every_row_of_a_batch_has_a_label_an_id_and_factors_of_its_own(api, model, change, field):
    """Lists of another length, and items of another type or out of range, are refused by name."""
    path = await api.shared(**model)
    await api.refuses(f"{path}/feedback/batch", 422, field, SECRET, json=batch("feedback", **change))


@every_route
@pytest.mark.parametrize(("header", "row", "status", "field"), CSV_BODIES)
async def test_what_is_wrong_in_csv_is_named(api, route, header, row, status, field):
    """Columns of the header by position, cells by column and by row, of which the first below the header is 1."""
    how = {"content": csv(route, row, header), **as_csv(route)}
    await api.refuses(f"{await api.shared()}/{route}/batch", status, field, "x12345", **how)


@pytest.mark.parametrize(("model", "cells", "field"), CSV_CELLS)
async def test_labels_and_discounts_in_csv_are_checked_one_by_one(api, model, cells, field):
    """Named by row and column."""
    path, good = await api.shared(**model), "1,1" if model in (NUMBERS, DIGITS) else "UP,0.9"
    params = {"label": "y", **({"discount": "w"} if model is DISCOUNTED else {"drop": "w"})}
    content = f"a,b,y,w\n1,2,{good}\n3,4,{cells}\n".encode()
    await api.refuses(f"{path}/feedback/batch", 422, field, "x12345", content=content, headers=CSV, params=params)


@every_route
async def test_an_empty_batch_is_refused(api, route):
    """There is nothing to answer, and without a header there is no table."""
    path, width = f"{await api.shared()}/{route}/batch", 3 if route == "feedback" else 2
    nothing = batch(route, data=[], **({"labels": []} if route == "feedback" else {}))
    await api.refuses(path, 422, "data", json=nothing)
    await api.refuses(path, 422, "data", content=csv(route).splitlines()[0] + b"\n", **as_csv(route))
    await api.refuses(path, 422, "data", content=npy(np.empty((0, width))), headers=NPY)
    for content in ("", "\n\n"):
        await api.refuses(path, 422, "body", content=content, **as_csv(route))


@every_route
@pytest.mark.parametrize(("content", "status", "field"), FILES)
async def test_what_is_no_table_in_npy(api, route, content, status, field):
    """400 where it is no such file, 422 where it holds something else than rows of real numbers."""
    await api.refuses(f"{await api.shared(**DIGITS)}/{route}/batch", status, field, content=content, headers=NPY)


@every_route
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
async def test_numbers_that_are_none_in_npy(api, route, value):
    """NaN is a missing value and refused where none is allowed; infinity always is."""
    rows = np.ones((2, 3 if route == "feedback" else 2))
    rows[1, 1] = value
    for missing in ("error",) if np.isnan(value) else ("error", "zero"):
        path = await api.shared(**DIGITS, missing=missing)
        await api.refuses(f"{path}/{route}/batch", 422, "body[1][1]", content=npy(rows), headers=NPY)


async def test_a_number_of_npy_too_large_for_a_double(api):
    """A wider type can hold what the model cannot."""
    if np.finfo(np.longdouble).max == np.finfo(np.float64).max:
        pytest.skip("no wider floating-point type here")
    path = await api.learnt(labels=[0, 1])
    rows = np.array([[1, 2, 0], [1, np.longdouble("1e400"), 1]], dtype=np.longdouble)
    await api.refuses(f"{path}/feedback/batch", 422, "body[1][1]", content=npy(rows, np.longdouble), headers=NPY)
    rows = rows[:, [0, 2, 1]]
    await api.refuses(f"{path}/feedback/batch", 422, "labels[1]", content=npy(rows, np.longdouble), headers=NPY)


async def test_a_batch_of_more_than_a_model_can_keep_is_too_large(start):
    """413 and not 503, which would ask for the same again."""
    small = await start(ids_max=2, pending_max=2)
    path = await small.learnt(labels=[0, 1])
    with_ids = {**columnar(3), "labels": [0, 1, 0], "ids": ["x", "y", "z"]}
    await small.refuses(f"{path}/feedback/batch", 413, "ids", json=with_ids)
    await small.refuses(f"{path}/predict/batch", 413, "data", json={**columnar(3), "track": True})
    assert 3 == (await small.get(path))["version"]


@every_route
async def test_so_many_rows_are_too_many(start, route, monkeypatch):
    """413, in every format; ids have a bound of their own."""
    monkeypatch.setattr("service.api.rows.batches.BATCH_IDS_MAX", 1)
    small = await start(batch_rows_max=2)
    path = await small.learnt(labels=[0, 1])
    body = batch(route, **({"labels": [0, 1, 0]} if route == "feedback" else {}))
    width = 3 if route == "feedback" else 2
    await small.refuses(f"{path}/{route}/batch", 413, "data", json=body)
    await small.refuses(f"{path}/{route}/batch", 413, "data", content=csv(route), **as_csv(route))
    await small.refuses(f"{path}/{route}/batch", 413, "data", content=npy(np.ones((3, width))), headers=NPY)
    if route == "feedback":
        two = {**columnar(2), "labels": [0, 1], "ids": ["x", "y"]}
        await small.refuses(f"{path}/feedback/batch", 413, json=two)
