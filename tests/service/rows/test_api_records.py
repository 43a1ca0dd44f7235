"""Rows by name, many at once: as a list, under ``rows``, one a line; read as by column, and told by row and name."""

import json

import numpy as np
import pytest

from service.runtime import threads
from tests.service.api_fixtures import JSON, NDJSON, RLS, columnar, features, problem
from tests.service.switches import overlapping

LABELS = ["UP", "DOWN", "DOWN", "UP"]
FORMS = ["list", "rows", "lines"]
every_form = pytest.mark.parametrize("form", FORMS)


def record(row, **changes):
    return {"features": features(row), "label": LABELS[row % 4], **changes}


def bare(rows):
    """The rows without what only feedback has."""
    return [{"features": row["features"]} for row in rows]


def sent(form, rows):
    """Rows in one form, as arguments of a request."""
    if form == "lines":
        return {"content": "".join(json.dumps(row) + "\n" for row in rows), "headers": NDJSON}
    return {"content": json.dumps(rows if form == "list" else {"rows": rows}), "headers": JSON}


def place(form, row, member):
    """How the service names a member of a row."""
    if form == "lines":
        return f"line {row + 1}" + (f", {member}" if member else "")
    return f"rows[{row}]" + (f".{member}" if member else "")


@pytest.mark.slow_but("1-*", "5-*", "9000-lines")
@every_form
@pytest.mark.parametrize("count", [1, 5, 9_000])
async def test_rows_by_name_are_learned_as_by_column(api, form, count):
    """With the same answers and the same state; a few as well as so many that a thread reads them."""
    paths = [await api.new() for _ in range(2)]
    labels = [LABELS[row % 4] for row in range(count)]
    ids = [f"row-{row}" for row in range(count)]
    given = sent(form, [record(row, id=ids[row]) for row in range(count)])
    assert (count == 9_000) == (len(given["content"]) > threads.THREAD_BYTES)
    expected = await api.post(f"{paths[0]}/feedback/batch", {**columnar(count), "labels": labels, "ids": ids})
    answer = await api.post(f"{paths[1]}/feedback/batch", **given)
    assert {**expected, "incarnation": answer["incarnation"]} == answer
    again = await api.post(f"{paths[1]}/feedback/batch", **given)
    assert (True, answer["predictions"]) == (again["duplicate"], again["predictions"])
    table, by_name = columnar(count), sent(form, bare([record(row) for row in range(count)]))
    told = await api.post(f"{paths[0]}/predict/batch", table)
    assert {**told, "incarnation": answer["incarnation"]} == await api.post(f"{paths[1]}/predict/batch", **by_name)


@every_form
async def test_names_may_stand_in_any_order(api, form):
    """Of every row its own; what is absent is missing, as null is."""
    path = await api.learnt(missing="mean")
    data = [[1, 2], [3, 4], [None, 5], [6, None], [None, None], [7, 8]]
    named = [{"a": 1, "b": 2}, {"b": 4, "a": 3}, {"b": 5}, {"b": None, "a": 6}, {}, {"a": 7, "b": 8}]
    expected = await api.post(f"{path}/predict/batch", {"columns": ["a", "b"], "data": data})
    assert expected == await api.post(f"{path}/predict/batch", **sent(form, [{"features": row} for row in named]))


@every_form
async def test_discounts_and_numbers_go_with_the_rows(api, form):
    """Each with its row, also where the label is a number."""
    rows = [record(row, label=row / 2, discount=1 - row / 10) for row in range(4)]
    paths = [await api.new({**RLS, "algorithm": "gdfop"}) for _ in range(2)]
    labels, discounts = [row["label"] for row in rows], [row["discount"] for row in rows]
    body = {**columnar(4), "labels": labels, "discounts": discounts}
    expected = await api.post(f"{paths[0]}/feedback/batch", body)
    answer = await api.post(f"{paths[1]}/feedback/batch", **sent(form, rows))
    assert {**expected, "incarnation": answer["incarnation"]} == answer


@every_form
async def test_the_first_rows_fix_the_features(api, form):
    """Those of the first row; another row may lack one where missing values are filled, and have none besides."""
    rows = [record(0), record(1, features={"b": 1.0}), record(2)]
    path = await api.new(features=None, missing="zero")
    await api.post(f"{path}/feedback/batch", **sent(form, rows))
    assert ["a", "b"] == (await api.get(path))["info"]["features"]
    fresh = await api.new(features=None)
    field = place(form, 1, "features.a")
    problem(await api.ask("POST", f"{fresh}/feedback/batch", **sent(form, rows)), 422, field)
    rows[1] = record(1, features={**features(1), "c": 1})
    problem(await api.ask("POST", f"{fresh}/feedback/batch", **sent(form, rows)), 422, place(form, 1, "features.c"))


@every_form
async def test_overlap_rows_by_name(api, form):
    """They teach as those by column do, and lack no name."""
    paths = [await overlapping(api) for _ in range(2)]
    columns = [*(await api.get(f"{paths[0]}/features"))["current"], *(await api.get(f"{paths[0]}/features"))["next"]]
    names = list(dict.fromkeys(name if isinstance(name, str) else name["name"] for name in columns))
    data = np.random.default_rng(3).standard_normal((4, len(names))).tolist()
    rows = [{"features": dict(zip(names, row, strict=True)), "id": f"o{at}"} for at, row in enumerate(data)]
    ids = [row["id"] for row in rows]
    expected = await api.post(f"{paths[0]}/features/overlap", {"columns": names, "data": data, "ids": ids})
    answer = await api.post(f"{paths[1]}/features/overlap", **sent(form, rows))
    assert {**expected, "incarnation": answer["incarnation"]} == answer
    del rows[2]["features"][names[-1]]
    rows = bare(rows)
    await api.refuses(f"{paths[1]}/features/overlap", 422, place(form, 2, "features"), **sent(form, rows))


def rows_with(form, wrong, label):
    """Three rows, of which the second is a text in which ``@`` stands for what only feedback has."""
    good = [json.dumps(record(row) if label else {"features": features(row)}) for row in (0, 2)]
    texts = [good[0], wrong.replace("@", ', "label": "UP"' if label else ""), good[1]]
    if form == "lines":
        return {"content": "\n".join(texts), "headers": NDJSON}
    listed = f"[{', '.join(texts)}]"
    return {"content": listed if form == "list" else f'{{"rows": {listed}}}', "headers": JSON}


WRONG = [
    ('{"features": null@}', 422, "features"),
    ('{"features": [1, 2]@}', 422, "features"),
    ('{"features": {"a": 1}@}', 422, "features.b"),
    ('{"features": {"a": 1, "b": 2, "c": 3}@}', 422, "features.c"),
    ('{"features": {"a": 1, "b": "12345"}@}', 422, "features.b"),
    ('{"features": {"b": 1, "a": true}@}', 422, "features.a"),
    ('{"features": {"a": 1, "b": [2]}@}', 422, "features.b"),
    ('{"features": {"a": 1, "b": NaN}@}', 400, "features.b"),
    ('{"features": {"a": 1, "b": -Infinity}@}', 400, "features.b"),
    ('{"features": {"a": 1, "b": 1e999}@}', 422, "features.b"),
    ('{"features": {"a": 1, "b": 1, "a": 1}@}', 422, "features.a"),
    *((odd, 422, "") for odd in ("null", "1", '"row"', "[]", '[["a", 1]]')),
]
GOOD = '{"features": {"a": 1, "b": 2}'
WRONG_TO_LEARN = [
    ('{"label": "UP"}', 422, "features"),
    (f"{GOOD}}}", 422, "label"),
    *((f'{GOOD}, "label": {label}}}', 422, "label") for label in ("null", '"12345"', '["UP"]')),
    (f'{GOOD}@, "prediction_id": "x"}}', 422, "prediction_id"),
    (f'{GOOD}@, "labels": ["UP"]}}', 422, "labels"),
]


@every_form
@pytest.mark.parametrize(("wrong", "status", "member"), [*WRONG, *WRONG_TO_LEARN])
async def test_what_is_wrong_with_a_row_is_named(api, form, wrong, status, member):
    """By the row and the member, whichever kind of mistake it is, and nothing else is."""
    path, fields = await api.shared(), [place(form, 1, member)]
    for route in ("feedback", "predict") if (wrong, status, member) in WRONG else ("feedback",):
        sent_rows = rows_with(form, wrong, route == "feedback")
        found = await api.refuses(f"{path}/{route}/batch", status, None, "12345", **sent_rows)
        assert fields == [error["field"] for error in found["errors"]]


@every_form
async def test_what_one_row_has_all_of_them_have(api, form):
    """Ids and discounts: the rows that lack one are named, or the one whose id is none."""
    path = await api.shared()
    for member, value in (("id", "x"), ("discount", 0.5)):
        rows = [record(0), record(1), record(2, **{member: value})]
        found = await api.refuses(f"{path}/feedback/batch", 422, None, **sent(form, rows))
        assert [place(form, row, member) for row in (0, 1)] == [error["field"] for error in found["errors"]]
    for wrong in ("", "y" * 201, None):
        rows = [record(row, id=name) for row, name in enumerate(["x", wrong, "z"])]
        await api.refuses(f"{path}/feedback/batch", 422, place(form, 1, "id"), **sent(form, rows))


@every_form
async def test_there_are_rows_and_not_too_many(start, form, monkeypatch):
    """413 beyond the bound, 422 without any."""
    monkeypatch.setattr("service.api.rows.batches.BATCH_IDS_MAX", 1)
    small = await start(batch_rows_max=2)
    path = await small.learnt()
    rows = [record(row) for row in range(3)]
    await small.post(f"{path}/feedback/batch", **sent(form, rows[:2]))
    await small.refuses(f"{path}/feedback/batch", 413, "rows", **sent(form, rows))
    await small.refuses(f"{path}/feedback/batch", 413, "rows", **sent(form, [{}] * 1000))
    await small.refuses(f"{path}/feedback/batch", 422, "rows", **sent(form, []))
    await small.refuses(f"{path}/feedback/batch", 413, "ids", **sent(form, [record(0, id="x"), record(1, id="y")]))


async def test_rows_by_name_exclude_columns(api):
    """And lists of labels or ids, since every row has its own."""
    path, rows = await api.learnt(), [record(0), record(1)]
    for other in (columnar(2), {"labels": ["UP", "DOWN"]}, {"ids": ["x", "y"]}):
        await api.refuses(f"{path}/feedback/batch", 422, "rows", json={"rows": rows, **other})
    await api.refuses(f"{path}/predict/batch", 422, "rows", json={"rows": bare(rows), **columnar(2)})
    await api.refuses(f"{path}/predict/batch", 422, "columns", json={})


@pytest.mark.parametrize("name", ["x", "x:y", "x:y:z", '\\":'])
async def test_rows_are_given_once(api, name):
    """Colons in their strings stand for no names; the rows themselves are the same with and without them."""
    path, rows = await api.learnt(), json.dumps([record(0, id=name), record(1, id="b")])
    content = f'{{"rows": [], "rows": {rows}}}'.encode()
    await api.refuses(f"{path}/feedback/batch", 422, "rows", content=content, headers=JSON)
    await api.post(f"{path}/feedback/batch", content=f'{{"rows": {rows}}}'.encode(), headers=JSON)


@pytest.mark.parametrize("end", ["\n", "\r\n", " \n\n \t\r\n"])
async def test_lines_are_counted_as_a_file_does(api, end):
    """Blank ones are passed over, and counted; the last one may lack its end."""
    path, rows = await api.learnt(), [json.dumps(record(row)) for row in range(3)]
    await api.post(f"{path}/feedback/batch", content=end.join(rows), headers=NDJSON)
    rows[2] = rows[2].replace("UP", "?").replace("DOWN", "?")
    number = (end.join(rows[:2]) + end).count("\n") + 1
    content = end.join(rows) + end
    await api.refuses(f"{path}/feedback/batch", 422, f"line {number}, label", content=content, headers=NDJSON)


@pytest.mark.parametrize(
    "line", ["{", "[", "{}{}", "x", '{"features": {"a": 1, "b": 2}, "label": "UP"} {}', '"\udcff"']
)
async def test_a_line_that_is_no_json_is_named(api, line):
    """400, also where it is two objects or not UTF-8."""
    lines = [json.dumps(record(0)), line, json.dumps(record(2))]
    content = "\n".join(lines).encode("utf-8", "surrogateescape")
    found = await api.refuses(f"{await api.shared()}/feedback/batch", 400, content=content, headers=NDJSON)
    assert found["detail"].startswith("line 2 is not ")


async def test_a_narrow_row_of_a_wide_model_counts_as_wide(start):
    """What is absent takes memory, too: the rows of a batch are bounded by what they become."""
    small = await start(body_limit_mb=1)
    path = await small.new(RLS, features=[f"x{at}" for at in range(2_000)], missing="zero", algorithm="fesl_c")
    rows = [{"features": {"x0": 1}}] * 600
    found = await small.refuses(f"{path}/predict/batch", 413, "rows", json=rows)
    assert "<= 524 rows" == found["errors"][0]["allowed"]
    await small.post(f"{path}/predict/batch", rows[:500])
    table = {"columns": ["x0"], "data": [[1]] * 600}
    await small.refuses(f"{path}/predict/batch", 413, "data", json=table)


@every_form
async def test_rows_of_any_names(api, form):
    """A sparse model takes them as it takes lists of names and values."""
    paths = [await api.new(algorithm="sparse_dfop", features=None, task="regression", labels=None) for _ in range(2)]
    rows = [{"features": {"cheap": 1, f"w{row}": row}, "label": row} for row in range(5)]
    lists = [{"names": [*row["features"]], "values": [*row["features"].values()]} for row in rows]
    expected = await api.post(f"{paths[0]}/feedback/batch", {"rows": lists, "labels": [row["label"] for row in rows]})
    answer = await api.post(f"{paths[1]}/feedback/batch", **sent(form, rows))
    assert {**expected, "incarnation": answer["incarnation"]} == answer
    told = await api.post(f"{paths[0]}/predict/batch", {"rows": lists})
    assert {**told, "incarnation": answer["incarnation"]} == await api.post(
        f"{paths[1]}/predict/batch", **sent(form, bare(rows))
    )
    rows[3]["features"]["bad"] = "x"
    await api.refuses(f"{paths[1]}/feedback/batch", 422, place(form, 3, "features.bad"), **sent(form, rows))
