"""Parquet and Arrow IPC: read as JSON of the same cells, within bounds, whatever a file says of itself."""

import datetime as dt
import io
import math
import random

import numpy as np
import pytest

from service.api import arrow_tables
from service.api.arrow_tables import read_arrow
from service.api.media import ARROW_FILE, ARROW_STREAM, PARQUET
from service.errors import NotTable, TooLarge
from tests.service.api_fixtures import RLS, columnar, problem
from tests.service.switches import UNION, overlapping, row

pa = pytest.importorskip(
    "pyarrow", reason="the extra onepass[arrow] is not installed: Parquet and Arrow are NOT tested"
)
from pyarrow import ipc, parquet  # noqa: E402

pytestmark = pytest.mark.asyncio(loop_scope="module")

KINDS = [PARQUET, ARROW_STREAM, ARROW_FILE]
every_kind = pytest.mark.parametrize("kind", KINDS)
MIB = 2**20
ROWS = 50
LABELS = ["UP" if at % 3 else "DOWN" for at in range(ROWS)]


def written(kind, table, **how):
    """A table as a file of some kind."""
    out = io.BytesIO()
    if kind == PARQUET:
        parquet.write_table(table, out, **{name: value for name, value in how.items() if name != "rows"})
    else:
        options = ipc.IpcWriteOptions(compression=how.get("compression"))
        new = ipc.new_stream if kind == ARROW_STREAM else ipc.new_file
        with new(out, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=how.get("rows", 20))
    return out.getvalue()


def table(rows=ROWS, **more):
    """Rows of a small stream, with labels and other columns."""
    data = np.array(columnar(rows)["data"])
    return pa.table({"b": data[:, 1], "y": (LABELS * (rows // ROWS + 1))[:rows], "a": data[:, 0], **more})


def sent(kind, body, **query):
    return {"content": body, "headers": {"Content-Type": kind}, "params": query}


@every_kind
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
async def test_rows_are_those_of_json(api, kind, compression):
    """The same answers to feedback, with ids and a column to pass over, and to predict."""
    paths = [await api.new() for _ in range(2)]
    ids = pa.array([f"r{at}" for at in range(ROWS)]).dictionary_encode()
    body = written(kind, table(id=ids, odd=[[1]] * ROWS), compression=compression)
    feedback = sent(kind, body, label="y", id="id", drop="odd")
    answer = await api.post(f"{paths[1]}/feedback/batch", **feedback)
    given = {**columnar(ROWS), "labels": LABELS, "ids": ids.to_pylist()}
    expected = await api.post(f"{paths[0]}/feedback/batch", given)
    assert {**expected, "incarnation": answer["incarnation"]} == answer
    assert (await api.post(f"{paths[1]}/feedback/batch", **feedback))["duplicate"]
    told = await api.post(f"{paths[1]}/predict/batch", **sent(kind, body, drop="y,id,odd"))
    assert told == await api.post(f"{paths[1]}/predict/batch", columnar(ROWS))


@every_kind
async def test_overlap_rows(api, kind):
    """With every name of both spaces."""
    path = await overlapping(api)
    columns = {name: [row(at)[name] for at in range(4)] for name in UNION}
    answer = await api.post(f"{path}/features/overlap", **sent(kind, written(kind, pa.table(columns))))
    assert 12 == answer["overlap_rows"]


NUMBERS = [1.5, None, -2.0, 4.0]


@every_kind
@pytest.mark.parametrize(
    "column",
    [
        pa.array(NUMBERS),
        pa.array([1.5, float("nan"), -2.0, 4.0]),
        pa.array(NUMBERS, pa.float32()),
        pa.array(NUMBERS).dictionary_encode(),
        pa.array([None, None, -2, 2**53 + 1], pa.int64()),
        pa.array([1, 2, 3, 255], pa.uint8()),
        pa.array([None] * 4, pa.null()),
        pa.array(NUMBERS).cast(pa.decimal128(9, 2)),
    ],
    ids=lambda column: str(column.type)[:20],
)
async def test_numbers_of_every_type(kind, column):
    """As JSON has them: null and NaN are None, integers keep their digits."""
    found = read(kind, written(kind, pa.table({"a": column})))
    expected = [None if value is None or math.isnan(value) else value for value in column.to_pylist()]
    assert expected == [cells[0] for cells in found.data]


@every_kind
async def test_times_are_seconds(kind):
    """Of every unit, with a zone or as UTC; dates are their first second."""
    moment = dt.datetime(2026, 2, 3, 4, 5, 6, 250_000, tzinfo=dt.UTC)
    midnight = dt.datetime(2026, 2, 3, tzinfo=dt.UTC).timestamp()
    columns = {
        unit + (zone or ""): pa.array([moment, None]).cast(pa.timestamp(unit, zone))
        for unit in ("ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Paris")
    }
    columns |= {
        "date": pa.array([moment.date(), None], pa.date32()),
        "date64": pa.array([moment.date(), None], pa.date64()),
    }
    found = read(kind, written(kind, pa.table(columns)))
    assert [moment.timestamp()] * 9 + [midnight] * 2 == [*found.data[0]]
    assert [None] * 11 == [*found.data[1]]


def read(kind, body, labelled=False, most=100_000, bytes_max=32 * MIB, **query):
    return read_arrow(body, kind, query, labelled, most, bytes_max)


@every_kind
async def test_what_is_wrong_is_named(api, kind):
    """By row and column, as in CSV."""
    path = await api.learnt()
    cases = [
        ({"label": "y", "drop": "odd"}, {"odd": [1] * ROWS, "c": [1.0] * ROWS}, "row 1, column c"),
        ({"label": "y"}, {"odd": [[1]] * ROWS}, "column odd"),
        ({}, {}, "label"),
        ({"label": "nobody"}, {}, "label"),
        ({"label": "y", "drop": "y"}, {}, "drop"),
        ({"label": "y", "drop": "nobody"}, {}, "drop"),
        ({"label": "y", "delimiter": ";"}, {}, "delimiter"),
        ({"label": "y", "id": "i"}, {"i": [1.5] * ROWS}, "row 1, column i"),
        ({"label": "y", "id": "i"}, {"i": ["x"] * (ROWS - 1) + [None]}, f"row {ROWS}, column i"),
        ({"label": "y", "id": "i"}, {"i": ["x"] * (ROWS - 1) + [""]}, f"row {ROWS}, column i"),
    ]
    for query, more, field in cases:
        how = sent(kind, written(kind, table(**more)), **query)
        await api.refuses(f"{path}/feedback/batch", 422, field, **how)
    odd = table()
    odd = odd.set_column(2, "a", pa.array([1.0] * 7 + [float("inf")] + [1.0] * (ROWS - 8)))
    await api.refuses(f"{path}/feedback/batch", 422, "row 8, column a", **sent(kind, written(kind, odd), label="y"))
    texts = table().set_column(2, "a", pa.array(["1"] * ROWS))
    await api.refuses(f"{path}/feedback/batch", 422, "row 1, column a", **sent(kind, written(kind, texts), label="y"))
    labels = table().set_column(1, "y", pa.array(["UP", "12345"] * (ROWS // 2)))
    how = sent(kind, written(kind, labels), label="y")
    await api.refuses(f"{path}/feedback/batch", 422, "row 2, column y", "12345", **how)
    lacking = sent(kind, written(kind, table().drop_columns(["a"])), label="y")
    await api.refuses(f"{path}/feedback/batch", 422, "columns", **lacking)
    await api.refuses(
        f"{path}/feedback/batch", 422, "rows", **sent(kind, written(kind, table().slice(0, 0)), label="y")
    )


@every_kind
async def test_small_bodies_are_read_by_the_process_too(api, kind):
    """What parses them is C++: its crash would be the service's."""
    path, reader = await api.learnt(RLS), api.app.state.context.reader
    reader._drop()
    await api.post(f"{path}/predict/batch", **sent(kind, written(kind, table(2).drop_columns(["y"]))))
    assert reader.pid is not None


@every_kind
async def test_a_body_that_is_another_thing(api, kind):
    """400, whatever it is, and whatever is missing of it; another process is not needed for the next one."""
    whole = written(kind, table())
    path = await api.learnt()
    odd = [b"", b"PAR1", b"ARROW1", b"{}", bytes(100), whole[:-1], whole[:-9], whole[: len(whole) // 2], whole[4:]]
    for body in odd:
        answer = await api.ask("POST", f"{path}/feedback/batch", **sent(kind, body, label="y"))
        assert answer.status_code in {400, 422} | ({200} if kind == ARROW_STREAM else set()), (answer.text, body[:20])
    others = [other for other in KINDS if other != kind]
    for other in others:
        await api.refuses(f"{path}/feedback/batch", 400, **sent(kind, written(other, table()), label="y"))


@every_kind
async def test_no_change_of_a_byte_does_harm(api, kind):
    """A changed file is read or refused, never more than that: no crash of the process that reads, no other error."""
    rng, path = random.Random(5), await api.learnt()
    whole = written(kind, table(20, t=pa.array(["x", "y"] * 10).dictionary_encode()))
    statuses = set()
    for _ in range(200):
        body = bytearray(whole)
        for _ in range(rng.choice([1, 1, 3])):
            body[rng.randrange(len(body))] = rng.randrange(256)
        how = sent(kind, bytes(body), drop="t,y")
        statuses.add((await api.ask("POST", f"{path}/predict/batch", **how)).status_code)
    assert {200, 400, 413, 422} >= statuses


@every_kind
async def test_too_many_rows_and_cells_are_refused_before_they_are_read(start, kind):
    """413 by the numbers that the file states, or by those of its first batches."""
    small = await start(batch_rows_max=100, body_limit_mb=1)
    path = await small.learnt()
    await small.refuses(f"{path}/feedback/batch", 413, "rows", **sent(kind, written(kind, table(101)), label="y"))
    wide = pa.table({f"x{at}": [0.0] * 90 for at in range(3_000)})
    body = written(kind, wide, compression="zstd")
    assert len(body) < MIB * 4
    with pytest.raises(TooLarge, match="cells"):
        read(kind, body, bytes_max=MIB)


async def test_a_billion_rows_of_nothing():
    """A few bytes can say so; they are counted first."""
    batch = pa.record_batch({"a": pa.nulls(10**9)})
    out = io.BytesIO()
    with ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    with pytest.raises(TooLarge, match="rows"):
        read(ARROW_STREAM, out.getvalue())


@every_kind
async def test_a_bomb_of_texts(start, kind):
    """What unpacks to more than reading may take is 413; the process reads on."""
    small = await start(body_limit_mb=1)
    path = await small.learnt()
    few = pa.table({"a": [1.0] * 30, "b": [2.0] * 30, "t": ["x" * 10**7] * 30})
    bomb = written(kind, few, compression="zstd", rows=30)
    assert len(bomb) < MIB
    pid = None
    for _ in range(3):
        answer = await small.ask("POST", f"{path}/predict/batch", **sent(kind, bomb))
        if kind == PARQUET:  # where texts that repeat are kept once
            problem(answer, 422)
        else:
            assert "memory" in problem(answer, 413, "body")["detail"]
        assert pid in (None, small.app.state.context.reader.pid)
        pid = small.app.state.context.reader.pid
    await small.post(f"{path}/predict/batch", **sent(kind, bomb, drop="t"))


async def test_a_bomb_of_different_texts(start):
    """Of Parquet, too, where they are not kept once."""
    small = await start(body_limit_mb=1)
    path = await small.learnt()
    texts = pa.table({"a": [1.0] * 40, "b": [2.0] * 40, "t": [f"{at:0>10000000}" for at in range(40)]})
    bomb = written(PARQUET, texts, compression="zstd", use_dictionary=False)
    assert len(bomb) < MIB
    answer = await small.ask("POST", f"{path}/predict/batch", **sent(PARQUET, bomb))
    assert "memory" in problem(answer, 413, "body")["detail"]


async def test_the_bound_on_memory_is_lifted_again():
    """After a good file as well as after a bad one."""
    before = arrow_tables.resource.getrlimit(arrow_tables.resource.RLIMIT_DATA)
    read(PARQUET, written(PARQUET, table()), drop="y")
    with pytest.raises(NotTable):
        read(PARQUET, b"PAR1")
    assert before == arrow_tables.resource.getrlimit(arrow_tables.resource.RLIMIT_DATA)


async def test_integer_ids_and_kinds_of_labels(api):
    """Booleans and integers are labels as they are."""
    path = await api.new(labels=[False, True])
    labels = pa.array([at % 2 == 0 for at in range(ROWS)])
    given = table(i=range(ROWS)).set_column(1, "y", labels)
    answer = await api.post(f"{path}/feedback/batch", **sent(PARQUET, written(PARQUET, given), label="y", id="i"))
    assert {False, True, None} >= {*answer["predictions"]}
    again = await api.ask("POST", f"{path}/feedback", json={"features": {"a": 1, "b": 2}, "label": True, "id": "2"})
    assert (200, True) == (again.status_code, again.json()["duplicate"])
    problem(
        await api.ask("POST", f"{path}/feedback", json={"features": {"a": 1, "b": 2}, "label": False, "id": "2"}), 409
    )
