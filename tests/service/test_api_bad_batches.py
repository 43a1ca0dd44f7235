"""Batches that are refused, as JSON, CSV and .npy: learned whole or refused whole, and the cell is named."""

import json

import numpy as np
import pytest

from tests.service.api_fixtures import CSV, JSON, NPY, RLS, columnar, npy, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

TABLE = {"columns": ["a", "b"], "data": [[1, 2], [3, 4], [5, 6]]}
LABELS = ["UP", "DOWN", "UP"]
ROUTES = ["predict", "feedback"]
every_route = pytest.mark.parametrize("route", ROUTES)


def batch(route, **changes):
    return {**TABLE, **({"labels": LABELS} if route == "feedback" else {}), **changes}


def text(route, cell):
    """A JSON batch with anything for the cell in row 1, column b."""
    return json.dumps(batch(route)).replace("4", cell, 1)


def csv(route, cell="4", header="a,b"):
    """The same as CSV."""
    if route == "predict":
        return f"{header}\n1,2\n3,{cell}\n5,6\n"
    return f"{header},y\n1,2,UP\n3,{cell},DOWN\n5,6,UP\n"


def as_csv(route):
    return {"headers": CSV, "params": {"label": "y"} if route == "feedback" else {}}


@every_route
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"columns": ["a", "c"]}, "columns[1]"),
        ({"columns": ["a", "a"]}, "columns[1]"),
        ({"columns": ["a"], "data": [[1]] * 3}, "columns"),
        ({"columns": ["a", "b", "c"], "data": [[1, 2, 3]] * 3}, "columns[2]"),
        ({"columns": []}, "columns"),
        ({"columns": ["a", 5]}, "columns[1]"),
        ({"columns": "ab"}, "columns"),
        ({"columns": None}, "columns"),
        ({"data": [[1, 2], [3], [5, 6]]}, "data[1]"),
        ({"data": [[1, 2], [3, 4, 5], [5, 6]]}, "data[1]"),
        ({"data": [[1, 2], [], [5, 6]]}, "data[1]"),
        ({"data": [[1, 2], {"a": 1, "b": 2}, [5, 6]]}, "data[1]"),
        ({"data": [[1, 2], None, [5, 6]]}, "data[1]"),
        ({"data": {"a": [1]}}, "data"),
        ({"data": "12"}, "data"),
        ({"data": None}, "data"),
        ({"data": [[1, 2], [3, None], [5, 6]]}, "data[1][1]"),
        ({"data": [[1, 2], [3, "12345"], [5, 6]]}, "data[1][1]"),
        ({"data": [[1, 2], [True, 4], [5, 6]]}, "data[1][0]"),
        ({"data": [[1, 2], [3, [4]], [5, 6]]}, "data[1][1]"),
        ({"data": [[1, 2], [3, {}], [5, 6]]}, "data[1][1]"),
        ({"data": [[1, 2], [3, 10**400], [5, 6]]}, "data[1][1]"),
        ({"rows": []}, "rows"),
    ],
)
async def test_a_json_batch_names_what_is_wrong(api, route, change, field):
    """Columns by position, rows and cells by index."""
    path = await api.learnt()
    await api.refuses(f"{path}/{route}/batch", 422, field, "12345", json=batch(route, **change))


@every_route
@pytest.mark.parametrize(
    ("cell", "status"),
    [("NaN", 400), ("Infinity", 400), ("-Infinity", 400), ("1e400", 422), ("7" * 5000, 422), ("-1e999", 422)],
)
async def test_numbers_that_are_none_in_a_json_batch(api, route, cell, status):
    """The cell is named, also where the body is no JSON."""
    path = await api.learnt()
    content = text(route, cell)
    await api.refuses(f"{path}/{route}/batch", status, "data[1][1]", content=content, headers=JSON)


@every_route
async def test_a_field_given_twice_in_a_json_batch(api, route):
    """As in single rows."""
    path = await api.learnt()
    content = json.dumps(batch(route))[:-1] + ', "columns": ["a", "b"]}'
    await api.refuses(f"{path}/{route}/batch", 422, "columns", content=content, headers=JSON)


@every_route
@pytest.mark.parametrize("kind", ["json", "csv", "npy"])
async def test_an_empty_batch_is_refused(api, route, kind):
    """There is nothing to answer."""
    path = await api.learnt()
    width = 3 if route == "feedback" else 2
    how = {
        "json": {"json": batch(route, data=[], **({"labels": []} if route == "feedback" else {}))},
        "csv": {"content": csv(route).split("\n")[0] + "\n", **as_csv(route)},
        "npy": {"content": npy(np.empty((0, width))), "headers": NPY},
    }[kind]
    await api.refuses(f"{path}/{route}/batch", 422, "data", **how)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"labels": ["UP", "DOWN"]}, "labels"),
        ({"labels": ["UP"] * 4}, "labels"),
        ({"labels": []}, "labels"),
        ({"labels": "UP"}, "labels"),
        ({"labels": None}, "labels"),
        ({"labels": ["UP", None, "UP"]}, "labels[1]"),
        ({"labels": ["UP", ["DOWN"], "UP"]}, "labels[1]"),
        ({"labels": ["UP", 1.5, "UP"]}, "labels[1]"),
        ({"labels": ["UP", "SIDEWAYS", "UP"]}, "labels[1]"),
        ({"labels": ["UP", True, "UP"]}, "labels[1]"),
        ({"labels": ["UP", 10**400, "UP"]}, "labels[1]"),
        ({"ids": ["x", "y"]}, "ids"),
        ({"ids": ["x", "y", "z", "w"]}, "ids"),
        ({"ids": ["x", "", "z"]}, "ids[1]"),
        ({"ids": ["x", "y" * 201, "z"]}, "ids[1]"),
        ({"ids": ["x", "y\n", "z"]}, "ids[1]"),
        ({"ids": ["x", 5.5, "z"]}, "ids[1]"),
        ({"ids": ["x", 10**200, "z"]}, "ids[1]"),
        ({"ids": ["x", True, "z"]}, "ids[1]"),
        ({"ids": ["x", None, "z"]}, "ids[1]"),
        ({"ids": "xyz"}, "ids"),
        ({"discounts": [0.9, 0.9, 0.9]}, "discounts"),
        ({"id": "x"}, "id"),
    ],
)
async def test_labels_ids_and_discounts_go_one_by_one_with_the_rows(api, change, field):
    """Of another length, of another type, or not allowed: each is named."""
    path = await api.learnt()
    await api.refuses(f"{path}/feedback/batch", 422, field, json=batch("feedback", **change))


@pytest.mark.parametrize(
    ("discounts", "field"),
    [
        ([0.9, 0.9], "discounts"),
        ([0.9, 0, 0.9], "discounts[1]"),
        ([0.9, 1.5, 0.9], "discounts[1]"),
        ([0.9, -0.1, 0.9], "discounts[1]"),
        ([0.9, True, 0.9], "discounts[1]"),
        ([0.9, "0.5", 0.9], "discounts[1]"),
        ([0.9, None, 0.9], "discounts[1]"),
        ([0.9, 10**400, 0.9], "discounts[1]"),
        (0.9, "discounts"),
    ],
)
async def test_discounts_of_a_batch_are_checked_one_by_one(api, discounts, field):
    """More than 0 and at most 1."""
    path = await api.learnt(algorithm="gdfop")
    await api.refuses(f"{path}/feedback/batch", 422, field, json=batch("feedback", discounts=discounts))


@pytest.mark.parametrize("label", [None, "12345", True, [1], 10**400])
async def test_labels_of_a_regression_batch_are_numbers(api, label):
    """Each of them."""
    path = await api.learnt(RLS)
    body = batch("feedback", labels=[1, label, 2])
    await api.refuses(f"{path}/feedback/batch", 422, "labels[1]", "12345", json=body)


async def test_an_idempotency_key_is_printable(api):
    """In a batch as well; beside ids it is not looked at."""
    path, headers = await api.learnt(), {"Idempotency-Key": "a\tb"}
    await api.refuses(f"{path}/feedback/batch", 422, "Idempotency-Key", json=batch("feedback"), headers=headers)
    await api.post(f"{path}/feedback/batch", batch("feedback", ids=["x", "y", "z"]), headers=headers)


@every_route
@pytest.mark.parametrize(
    ("header", "field"),
    [("a,c", "header[1]"), ("a,a", "header[1]"), ("a,", "header[1]"), ("a, b", "header[1]")],
)
async def test_the_header_of_csv_names_exactly_the_features(api, route, header, field):
    """Unknown, twice, empty, or with a blank too many."""
    path = await api.learnt()
    await api.refuses(f"{path}/{route}/batch", 422, field, content=csv(route, header=header), **as_csv(route))


@every_route
@pytest.mark.parametrize(
    "cell", ["", "x12345", "nan", "NaN", "inf", "-inf", "Infinity", "1e400", "1_000", "٣", "0x1F", "true", "1 2", "--1"]
)
async def test_cells_of_csv_are_finite_numbers(api, route, cell):
    """Named by row, the first below the header being 1, and by column."""
    path = await api.learnt()
    await api.refuses(
        f"{path}/{route}/batch", 422, "row 2, column b", "x12345", content=csv(route, cell).encode(), **as_csv(route)
    )


@every_route
@pytest.mark.parametrize("rows", ["1,2,UP\n3,4\n", "1,2,UP\n3,4,UP,5\n", "1,2,UP\n3\n"])
async def test_ragged_rows_of_csv(api, route, rows):
    """The row is named."""
    path = await api.learnt()
    if route == "predict":
        rows = rows.replace(",UP\n", "\n").replace("3,4\n", "3\n").replace("3,4,UP,5", "3,4,5")
    head = "a,b,y\n" if route == "feedback" else "a,b\n"
    await api.refuses(f"{path}/{route}/batch", 422, "row 2", content=head + rows, **as_csv(route))


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({}, "label"),
        ({"label": "z"}, "label"),
        ({"label": ""}, "label"),
        ({"label": "y", "id": "z"}, "id"),
        ({"label": "y", "id": "y"}, "id"),
        ({"label": "y", "discount": "z"}, "discount"),
        ({"label": "y", "labels": "y"}, "labels"),
    ],
)
async def test_the_query_of_csv_names_columns(api, query, field):
    """Of the header, each one once."""
    path = await api.learnt()
    await api.refuses(f"{path}/feedback/batch", 422, field, content=csv("feedback"), headers=CSV, params=query)


async def test_a_column_named_twice_cannot_be_the_label(api):
    """Which one would it be?"""
    path = await api.learnt()
    content = "a,y,y\n1,UP,UP\n"
    await api.refuses(f"{path}/feedback/batch", 422, "label", content=content, headers=CSV, params={"label": "y"})


async def test_the_query_of_csv_is_for_csv(api):
    """JSON says itself what is what."""
    path = await api.learnt()
    await api.refuses(f"{path}/feedback/batch", 422, "label", json=batch("feedback"), params={"label": "y"})


@pytest.mark.parametrize("discount", ["", "x", "0", "1.5", "nan", "0.5_0"])
async def test_discounts_in_csv_are_checked_one_by_one(api, discount):
    """Named by row and column."""
    path = await api.learnt(algorithm="gdfop")
    query = {"label": "y", "discount": "w"}
    content = f"a,b,y,w\n1,2,UP,0.9\n3,4,DOWN,{discount}\n"
    await api.refuses(f"{path}/feedback/batch", 422, "row 2, column w", content=content, headers=CSV, params=query)


@pytest.mark.parametrize("label", ["", "x12345", "nan", "inf", "1e400", "1_0", "٣"])
async def test_labels_of_a_regression_in_csv_are_numbers(api, label):
    """Named by row and column."""
    path = await api.learnt(RLS)
    content = f"a,b,y\n1,2,3\n3,4,{label}\n".encode()
    await api.refuses(
        f"{path}/feedback/batch", 422, "row 2, column y", "x12345", content=content, headers=CSV, params={"label": "y"}
    )


@every_route
@pytest.mark.parametrize("content", [b"a,b\xff\n1,2\n", b'a,b\n"1,2\n', b'a,b\n"1"x,2\n', b"a,b\n1,\x002\n"])
async def test_what_is_no_csv_is_400(api, route, content):
    """Not UTF-8, an open quote, something behind a quote, a NUL."""
    path = await api.learnt()
    status = 422 if b"\x00" in content else 400
    await api.refuses(f"{path}/{route}/batch", status, content=content, headers=CSV, params=as_csv(route)["params"])


@every_route
@pytest.mark.parametrize("content", ["", "\n\n"])
async def test_csv_has_a_header(api, route, content):
    """Nothing is no table."""
    path = await api.learnt()
    await api.refuses(f"{path}/{route}/batch", 422, "body", content=content, **as_csv(route))


@every_route
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
async def test_numbers_that_are_none_in_npy(api, route, value):
    """NaN is a missing value and refused where none is allowed; infinity always is."""
    for missing in ("error", "zero"):
        if missing == "zero" and np.isnan(value):
            continue
        path = await api.learnt(missing=missing, labels=[0, 1])
        rows = np.ones((2, 3 if route == "feedback" else 2))
        rows[1, 1] = value
        await api.refuses(f"{path}/{route}/batch", 422, "body[1][1]", content=npy(rows), headers=NPY)


def _broken():
    whole = npy(np.ones((2, 3)))
    yield from (b"", b"\x93NUMPY", whole[:-1], whole + b"x", whole[:40], b"{}", b"PK\x03\x04", whole[1:])
    for shape in (b"(9223372036854775808, 0)", b"(True, 20)", b"(0, True)"):
        yield whole.replace(b"(2, 3), }".ljust(30), shape + b", }".ljust(30 - len(shape)))
    for shape in (b"(999999999999, 3)", b"(-2, -3)", b"(2, 3, 1, 1, 9)", b"(2, 3.0)", b"(2, [3])", b"2"):
        yield whole.replace(b"(2, 3), }".ljust(30), shape + b", }".ljust(30 - len(shape)))
    yield whole.replace(b"<f8", b"|O8")
    yield whole.replace(b"'descr'", b"'xyzzy'")


@every_route
@pytest.mark.parametrize("content", [*_broken()])
async def test_what_is_no_npy_is_400(api, route, content):
    """Truncated, with something behind it, with a header that promises more than there is."""
    path = await api.learnt(labels=[0, 1])
    status = 422 if b"|O8" in content else 400
    await api.refuses(f"{path}/{route}/batch", status, content=content, headers=NPY)


@every_route
@pytest.mark.parametrize(
    "array",
    [
        np.ones((2, 4)),
        np.ones((2, 1)),
        np.ones(3),
        np.ones((1, 2, 3)),
        np.float64(1),
        np.ones((2, 3), dtype=bool),
        np.ones((2, 3), dtype=complex),
        np.ones((2, 3), dtype="S3"),
        np.ones((2, 3), dtype=[("x", "f8"), ("y", "f8")]),
        np.full((2, 3), "2024", dtype="M8[Y]"),
    ],
)
async def test_npy_of_another_shape_or_type(api, route, array):
    """Rows by columns of real numbers."""
    path = await api.learnt(labels=[0, 1])
    await api.refuses(f"{path}/{route}/batch", 422, "body", content=npy(array, array.dtype), headers=NPY)


async def test_a_number_of_npy_too_large_for_a_double(api):
    """A wider type can hold what the model cannot."""
    if np.finfo(np.longdouble).max == np.finfo(np.float64).max:
        pytest.skip("no wider floating-point type here")
    path = await api.learnt(labels=[0, 1])
    rows = np.array([[1, 2, 0], [1, np.longdouble("1e400"), 1]], dtype=np.longdouble)
    await api.refuses(f"{path}/feedback/batch", 422, "body[1][1]", content=npy(rows, np.longdouble), headers=NPY)


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


async def test_the_last_of_many_rows_refuses_them_all(api):
    """However good the others were."""
    path = await api.learnt()
    table = columnar(500)
    table["data"][-1][1] = "x"
    await api.refuses(f"{path}/feedback/batch", 422, "data[499][1]", json={**table, "labels": ["UP"] * 500})
    table = columnar(500)
    await api.refuses(f"{path}/feedback/batch", 422, "labels[499]", json={**table, "labels": ["UP"] * 499 + ["?"]})


@every_route
async def test_a_model_that_is_not_there(api, route):
    """404 in every format."""
    for how in (
        {"json": batch(route)},
        {"content": csv(route), **as_csv(route)},
        {"content": npy(np.ones((1, 3))), "headers": NPY},
    ):
        problem(await api.ask("POST", f"/models/nobody/{route}/batch", **how), 404)
