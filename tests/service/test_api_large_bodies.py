"""Large bodies leave the event loop, are read once, and no further than their bounds."""

import json
import threading

import numpy as np
import pytest

from core.features import Schema
from service.api.http import json_body
from service.runtime.rows.row_validation import RowValidator
from service.runtime.threads import THREAD_BYTES
from tests.service.api_fixtures import CSV, JSON, NPY, npy

ROWS = 10_000
DATA = np.arange(2.0 * ROWS).reshape(-1, 2) / ROWS
LABELS = [0, 1] * (ROWS // 2)
QUERY = {"label": "y"}


def tables(labelled):
    """One table in every form, with and without labels."""
    whole = np.column_stack([DATA, LABELS]) if labelled else DATA
    body = {"columns": ["a", "b"], "data": DATA.tolist(), **({"labels": LABELS} if labelled else {})}
    lines = ["a,b,y" if labelled else "a,b", *(",".join(map(str, row)) for row in whole)]
    return {
        "json": {"content": json.dumps(body), "headers": JSON},
        "csv": {"content": "\n".join(lines), "headers": CSV, "params": QUERY if labelled else {}},
        "npy": {"content": npy(whole), "headers": NPY},
    }


@pytest.fixture
def threads(monkeypatch):
    """Which of the decoder, the validator and the schema's readers were called, and in which threads."""
    found = {}

    def noting(where, name):
        called = getattr(where, name)

        def noted(*given, **named):
            found.setdefault(name, set()).add(threading.get_ident())
            return called(*given, **named)

        monkeypatch.setattr(where, name, noted)

    noting(json_body, "read")
    for name in ("feedback", "prediction"):
        noting(RowValidator, name)
    for name in ("row", "numbers", "matrix"):
        noting(Schema, name)
    return found


@pytest.mark.parametrize("kind", ["json", "csv", "npy"])
@pytest.mark.parametrize("route", ["feedback/batch", "predict/batch"])
async def test_large_tables_are_decoded_and_checked_in_a_thread(api, threads, route, kind):
    """In every form; nothing of it happens on the loop's own thread."""
    path = await api.new(labels=[0, 1])
    threads.clear()
    how = tables(route == "feedback/batch")[kind]
    assert THREAD_BYTES < len(how["content"])
    answer = await api.ask("POST", f"{path}/{route}", **how)
    assert (200, ROWS) == (answer.status_code, len(answer.json()["predictions"]))
    assert (3 if kind == "json" else 2) == len(threads)
    assert threading.get_ident() not in set().union(*threads.values())


async def test_a_large_row_is_decoded_and_checked_in_a_thread(api, threads):
    """One row of many names says the same as a table of one row."""
    names = [f"{at:0>190}" for at in range(800)]
    path, values = await api.new(features=names), dict.fromkeys(names, 0.5)
    assert THREAD_BYTES < len(json.dumps(values))
    threads.clear()
    await api.post(f"{path}/feedback", {"features": values, "label": "UP"})
    one = await api.post(f"{path}/predict", {"features": values})
    many = await api.post(f"{path}/predict/batch", {"columns": names, "data": [[0.5] * 800]})
    assert [one["prediction"]] == many["predictions"]
    assert {"read", "feedback", "prediction", "row", "numbers"} == set(threads)
    assert threading.get_ident() not in set().union(*threads.values())


async def test_a_small_row_stays_on_the_loop(api, threads):
    """A thread would cost more than it is worth."""
    path = await api.learnt()
    assert {"read", "feedback", "row"} <= set(threads)
    assert {threading.get_ident()} == set().union(*threads.values())
    assert 3 == (await api.get(path))["rows"]


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (b'{"id":"order:1137"}', 1),
        (b'{"a:b":"\\":\\\\","c":[{"d":"::"}]}', 3),
        (b'{"\\\\":1,"\\":":2}', 2),
        (b'["a:",":b"]', 0),
    ],
)
async def test_colons_in_strings_are_not_counted(monkeypatch, body, names):
    """A body of as many names as its request has fields is not read a second time."""
    monkeypatch.setattr(json_body, "_parsed", None)
    json_body.refuse_repeated(body, names)


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b'{"a":1,"a":2}', ["a"]),
        (b'{"a":{"b":1,"b":[]},"c":[[0],[{"d":1,"d":2,"d":3}]]}', ["a.b", "c[1][0].d"]),
        (b'{"a":{"b":1,"b":2},"a":{"c":1,"c":{"d":1,"d":1}}}', ["a", "a.b", "a.c", "a.c.d"]),
        (b'{"":1,"":2}', [""]),
        (b"[" + b",".join([b'{"a":1,"a":2}'] * 30) + b"]", [f"[{at}].a" for at in range(20)]),
    ],
)
async def test_every_repeated_name_is_named(body, fields):
    """By its path, in the order of the body; the first 20 of them."""
    with pytest.raises(json_body.Invalid) as refused:
        json_body.refuse_repeated(body, -1)
    assert fields == [problem.field for problem in refused.value.problems]


async def test_a_body_without_repeated_names_is_taken_however_it_nests():
    """The second reading decides, not the count."""
    json_body.refuse_repeated(b'{"a":{"a":{"a":[{"a":1},{"a":1}]}}}', 4)


@pytest.mark.parametrize(
    "shape", [(2**63, 0), (0, 2**63), (2**62, 2**62, 0), (True, 3), (3, True), (0, -1), (-1, -3), (2.0, 3), ("2", 3)]
)
@pytest.mark.parametrize("route", ["feedback/batch", "predict/batch", "features/overlap"])
async def test_shapes_that_no_array_has(api, shape, route):
    """400: numpy takes some of them for shapes until it makes an array of them."""
    path = await api.learnt(labels=[0, 1])
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    content += bytes(24 if True in shape else 0)
    await api.refuses(f"{path}/{route}", 400, content=content, headers=NPY)


async def test_too_many_rows_are_refused_before_they_are_checked(start):
    """What is wrong with their cells does not matter any more."""
    small = await start(batch_rows_max=2)
    path = await small.learnt(labels=[0, 1])
    await small.refuses(f"{path}/predict/batch", 413, "data", content="a,b\n1,2\n3,4\nx,y\n", headers=CSV)
    data = {"columns": ["a", "b"], "data": [[1, 2], [3, 4], ["x", "y"]]}
    await small.refuses(f"{path}/predict/batch", 413, "data", json=data)


async def test_more_lists_than_rows_may_have_are_not_decoded(start, threads):
    """Rows without cells, or cells that hold lists: too many of them are counted, not made."""
    small = await start(batch_rows_max=2)
    path = await small.learnt(labels=[0, 1])
    threads.clear()
    for data in ([[]] * 20, [[[]] * 20], [[{}] * 20]):
        await small.refuses(f"{path}/predict/batch", 413, "data", json={"columns": ["a", "b"], "data": data})
    assert {} == threads
    name = "[{" * 20
    data = {"columns": ["a", name], "data": [[1, 2]]}
    await small.refuses(f"{path}/predict/batch", 422, "columns[1]", json=data)
