"""Streams of rows: a line in, a line out; what a row's answer and the state after it are does not depend on the way."""

import asyncio
import json
import random

import numpy as np
import pytest
import pytest_asyncio

from core.entry import Rows
from core.features import Schema, parse_features
from core.state.nesting import flatten
from service.api.row_streams import exchange
from service.runtime.actor import Actor
from tests.service.api_fixtures import DFOP, JSON, RLS, columnar, features
from tests.service.stream_client import lines_of, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(api):
    """The service on a port."""
    async with serving(api.app) as made:
        yield made


def labelled(count, start=0, **more):
    """Rows with labels in turn."""
    rows = range(start, start + count)
    return [{"features": features(row), "label": ("UP", "DOWN")[row % 2], **more} for row in rows]


def same(answer):
    """What an answer says of its row; versions depend on what was committed together."""
    return {name: value for name, value in answer.items() if name not in ("version", "incarnation")}


def refusal(line):
    """The number and the status of a line that was refused; None of any other."""
    return (line["line"], line["error"]["status"]) if "error" in line else None


async def test_a_stream_learns_row_by_row(api, server):
    """Open at once, with what single answers say of the store; every line is answered as it would be alone."""
    alone, path = await api.new(), await api.new()
    rows = labelled(20)
    expected = [await api.post(f"{alone}/feedback", row) for row in rows]
    client = await server.stream(f"{path}/feedback/stream")
    assert (200, "application/x-ndjson", "no") == (
        client.status,
        client.header("content-type"),
        client.header("x-accel-buffering"),
    )
    shown = await api.get(path)
    assert (shown["incarnation"], expected[0]["durability"]) == (
        client.header("onepass-incarnation"),
        client.header("onepass-durability"),
    )
    found = await client.ask(rows[:1]) + await client.ask(rows[1:])
    assert [*map(same, expected)] == [*map(same, found)]
    await client.end()
    assert [] == await client.rest()


async def test_predictions_are_those_of_single_rows(api, server):
    """Also of rows that are explained or tracked, between others."""
    path = await api.learnt(rows=10)
    asks = [{"features": features(row)} for row in range(6)]
    asks[2]["explain"] = True
    expected = [await api.post(f"{path}/predict", ask) for ask in asks]
    client = await server.stream(f"{path}/predict/stream")
    assert expected == await client.ask(asks)
    (tracked,) = await client.ask([{"features": features(3), "track": True}])
    assert [tracked["prediction_id"]] == [own["prediction_id"] for own in (await api.get(f"{path}/pending"))["pending"]]


async def test_long_answers_go_out_a_few_at_a_time(api, server, monkeypatch):
    """Fewer rows together where a model has many classes; what is explained goes out by itself."""
    labels = [f"class {number}" for number in range(100)]
    path = await api.new({**DFOP, "labels": labels})
    await api.post(f"{path}/feedback/batch", {**columnar(100), "labels": labels})
    sizes: list[int] = []
    encode = exchange._encode_lines
    monkeypatch.setattr(exchange, "_encode_lines", lambda lines: sizes.append(len(lines)) or encode(lines))
    client = await server.stream(f"{path}/predict/stream")
    asks = [{"features": features(row)} for row in range(200)]
    expected = [await api.post(f"{path}/predict", ask) for ask in asks]
    assert expected == await client.ask(asks)
    assert [163, 37] == sizes
    sizes.clear()
    found = await client.ask([asks[0], {**asks[1], "explain": True}, {**asks[2], "explain": True}, {}, asks[3]])
    assert [False, True, True, False, False] == ["explanation" in line for line in found]
    assert [None, None, None, (204, 422), None] == [refusal(line) for line in found]
    assert [2, 1, 2] == sizes


async def test_a_bad_line_is_answered_and_the_stream_goes_on(api, server):
    """As the problem of a single row, with the number of the line; blank lines are passed over."""
    path = await api.learnt(rows=4)
    rows = labelled(6)
    body = [json.dumps(row).encode() for row in rows]
    body[1] = b"{"
    body[2] = b'{"features":{"a":1,"a":2,"b":3},"label":"UP"}'
    body[4] = b'{"features":{"a":1,"b":3},"label":"SIDEWAYS"}{"features":{"a":1,"b":3},"label":"UP"}'
    body[5] = b'{"features":{"a":1,"b":3},"label":"SIDEWAYS"}'
    client = await server.stream(f"{path}/feedback/stream")
    await client.send(b"\n \r\n".join(body) + b"\n")
    found = await client.lines(6)
    assert [None, (2, 400), (3, 422), None, (5, 400), (6, 422)] == [refusal(line) for line in found]
    single = await api.client.post(f"{path}/feedback", content=body[5], headers=JSON)
    assert single.json() == found[5]["error"]
    assert 6 == (await api.get(path))["rows"]
    assert [7] == [line["rows"] for line in await client.ask(rows[:1])]


async def test_one_bad_row_among_many_is_refused_alone(api, server):
    """Those before and behind it are learned, in order."""
    path, rows = await api.new(), labelled(256)
    rows[100] = {"features": {"a": 1.0}, "label": "UP"}
    client = await server.stream(f"{path}/feedback/stream")
    found = await client.ask(rows)
    assert [(101, 422)] == [refusal(line) for line in found if "error" in line]
    assert [*range(1, 256)] == [line["rows"] for line in found if "rows" in line]


async def test_a_clash_of_ids_refuses_its_row_only(api, server):
    """And a row that comes again is marked, with the version and the rows of the first time; so in one segment."""
    path, rows = await api.new(), [{**row, "id": f"r:{number}"} for number, row in enumerate(labelled(30))]
    client = await server.stream(f"{path}/feedback/stream")
    first = await client.ask(rows[:10])
    again = [{**rows[4], "label": "DOWN"}, rows[7]]
    found = await client.ask([*rows[10:15], *again, *rows[15:], rows[29]])
    assert [(16, 409)] == [refusal(line) for line in found if "error" in line]
    assert {**first[7], "duplicate": True} == found[6]
    assert {**found[-2], "duplicate": True} == found[-1]
    assert [6, 22] == [number for number, line in enumerate(found) if line.get("duplicate")]
    assert [*range(11, 31)] == [line["rows"] for line in found if line.get("duplicate") is False]
    assert 30 == (await api.get(path))["rows"]


async def test_rows_of_all_kinds_go_together(api, server):
    """With and without id and discount, tracked ones between them: the state is that of single rows."""
    alone, path = [await api.new({**RLS, "algorithm": "gdfop"}) for _ in range(2)]
    rows = [{"features": features(row), "label": row / 7} for row in range(24)]
    for number in (3, 4, 11, 20):
        rows[number]["discount"] = 0.9
    for number in (4, 5, 6, 21):
        rows[number]["id"] = f"id-{number}"
    expected = [await api.post(f"{alone}/feedback", row) for row in rows]
    client = await server.stream(f"{path}/feedback/stream")
    assert [*map(same, expected)] == [*map(same, await client.ask(rows))]
    assert state_of(api, alone) == state_of(api, path)
    tracked = [await api.post(f"{name}/predict", {"features": features(5), "track": True}) for name in (alone, path)]
    first, second = [{"prediction_id": told["prediction_id"], "label": 2.0} for told in tracked]
    expected = [await api.post(f"{alone}/feedback", row) for row in (rows[0], first, rows[1])]
    assert [*map(same, expected)] == [*map(same, await client.ask([rows[0], second, rows[1]]))]
    assert state_of(api, alone) == state_of(api, path)
    unknown = {"prediction_id": "never", "label": 2.0}
    assert [None, (29, 404), None] == [refusal(line) for line in await client.ask([rows[0], unknown, rows[0]])]


ALGORITHMS = {
    "auto": DFOP,
    "vigod": {"algorithm": "vigod", "features": ["a", "b"], "params": {"batch_size": 50}},
    "first row": {"algorithm": "dfop", "task": "regression"},
    "missing": {**RLS, "missing": "mean", "params": {"scaling": "standard"}},
    "reset": {**DFOP, "on_drift": "reset", "watch": {"error_rate": {"delta": 0.05, "batch_size": 50}}},
    "sparse": {"algorithm": "sparse_dfop", "task": "classification"},
}


@pytest.mark.parametrize("kind", ALGORITHMS)
async def test_any_split_of_the_bytes_is_the_same(api, server, kind):
    """Answers and state are those of single rows, bit for bit, however the lines are cut into pieces."""
    body = ALGORITHMS[kind]
    numbers = random.Random(kind)
    rows = [{"features": features(row), "label": ("UP", "DOWN")[(row // 60) % 2]} for row in range(150)]
    for number, row in enumerate(rows):
        if body.get("task") == "regression":
            row["label"] = row["features"]["a"] - 0.3 * row["features"]["b"]
        if kind == "missing" and number % 17 == 5:
            del row["features"]["a"]
        if kind == "sparse":
            row["features"] = {f"w{number % 11}": 1, f"v{number % 7}": 2.5}
        if number % 3:
            row["id"] = f"{number}"
    alone = await api.new(body)
    expected = [await api.post(f"{alone}/feedback", row) for row in rows]
    state = state_of(api, alone)
    for longest in (7, 300, 5000, 100_000):
        path = await api.new(body)
        client = await server.stream(f"{path}/feedback/stream")
        sent, at = lines_of(rows), 0
        while at < len(sent):
            size = numbers.randint(1, longest)
            await client.send(sent[at : at + size])
            at += size
            await asyncio.sleep(0)
        await client.end()
        assert [*map(same, expected)] == [*map(same, await client.rest())], longest
        assert state == state_of(api, path), longest


def state_of(api, path):
    """Everything that a model has learned, as bytes; alarms name the versions of their entries, which differ."""
    machine = api.app.state.context.engine.models.peek(path.rpartition("/")[2]).machine
    arrays, header = flatten({name: part for name, part in machine.parts().items() if name != "outbox"})
    return {name: array.tobytes() for name, array in arrays.items()}, json.dumps(header), machine.rows


async def test_a_change_of_features_in_mid_stream(api, server):
    """Before, during and after it each row is answered as a single one would be, and the state is the same."""
    alone, path = [await api.new({**RLS, "features": ["a"]}) for _ in range(2)]
    client = await server.stream(f"{path}/feedback/stream")

    def wide(row):
        return {"a": features(row)["a"], "c": 2 * features(row)["a"] + 1}

    old = [{"features": {"a": features(row)["a"]}, "label": row / 5} for row in range(12)]
    both = [{"features": wide(row), "label": row / 7} for row in range(12)]
    new = [{"features": {"c": wide(row)["c"]}, "label": row / 3} for row in range(12)]
    steps = [
        (None, [*old, both[0]]),
        ({"action": "begin", "features": ["c"]}, [*both, old[0], new[0], *both]),
        ({"action": "complete"}, [*new, old[0], both[0], *new]),
    ]
    for step, rows in steps:
        for name in (alone, path):
            if step is not None:
                await api.post(f"{name}/features/switch", step)
        expected = [await api.client.post(f"{alone}/feedback", json=row) for row in rows]
        found = await client.ask(rows)
        assert [answer.status_code for answer in expected] == [(refusal(line) or (0, 200))[1] for line in found]
        for answer, line in zip(expected, found, strict=True):
            assert same(answer.json()) == same(line.get("error", line))
        assert {200, 422} == {answer.status_code for answer in expected}
        assert state_of(api, alone) == state_of(api, path)


async def test_rows_that_the_log_refuses_are_validated_once_more(api, server, monkeypatch):
    """Another first row is committed before the segment that would have fixed the features: by those it is refused."""
    path = await api.new({"algorithm": "rls", "task": "regression"})
    client, submit = await server.stream(f"{path}/feedback/stream"), Actor.submit
    space = Schema(parse_features(["x"]))
    first = Rows(space.id, space.features, np.ones((1, 1)), np.ones(1))

    def overtaken(actor, *how):
        monkeypatch.undo()
        submit(actor, first)
        return submit(actor, *how)

    monkeypatch.setattr(Actor, "submit", overtaken)
    rows = [{"features": {"a": float(row)}, "label": row} for row in range(6)]
    assert [(line, 422) for line in range(1, 7)] == [refusal(line) for line in await client.ask(rows)]
    assert ["x"] == (await api.get(f"{path}/features"))["current"]
    assert [2] == [line["rows"] for line in await client.ask([{"features": {"x": 1.0}, "label": 1.0}])]
