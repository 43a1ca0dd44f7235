"""Large JSON in pieces: bodies are decoded to what the decoder makes of them at once, answers are sent in parts."""

import asyncio
import json

import msgspec
import numpy as np
import pytest

from service.api.http import json_pieces
from service.api.rows import large_answers
from service.api.schemas import FeedbackColumns, FeedbackRecord, LearntBatch, PredictedBatch
from service.runtime import threads
from tests.service.api_fixtures import DFOP, columnar

CELLS = ["],[", '"],', "},{", "\\", 1, -2.5, None, True, "é"]
BODIES = [
    json.dumps({"columns": ["a", "b"], "data": [[cell, "],["] for cell in CELLS] * 3, "labels": CELLS * 3}),
    json.dumps({"columns": ["a"], "data": [[1], [[2, 3], {"x": [4]}]] * 9, "labels": []}, indent=1),
    json.dumps({"columns": ["a"], "data": [[1]] * 20 + [2], "labels": []}),
    json.dumps({"columns": ["a"], "data": [[1]] * 20})[:-3],
    '{"columns":["a"],"data":[[1],[NaN]],"labels":[1,2,3,4,5,6,7,8,9]}',
    '{"columns":["a"],"data":null,"labels":[1,2,3]}',
]
RECORDS = [
    json.dumps([{"features": {"a": cell, "},": "],"}, "label": cell} for cell in CELLS] * 3),
    json.dumps([{"features": {"a": 1}, "label": 1}] * 9 + [{"features": 1, "label": 1}]),
    "[ ]",
]


def outcome(call, *given):
    """What a call gives or raises."""
    try:
        return call(*given)
    except msgspec.MsgspecError as error:
        return str(error)


@pytest.mark.parametrize("size", [1, 7, 40])
def test_decoded_pieces_are_the_whole(monkeypatch, size):
    """However small they are, and whatever strings hold."""
    monkeypatch.setattr(json_pieces, "PIECE_BYTES", size)
    monkeypatch.setattr(json_pieces, "LARGE_BYTES", 0)
    for decoder, bodies in (
        (msgspec.json.Decoder(FeedbackColumns), BODIES),
        (msgspec.json.Decoder(list[FeedbackRecord]), RECORDS),
    ):
        for body in map(str.encode, bodies):
            assert outcome(decoder.decode, body) == outcome(json_pieces.decode, body, decoder)


def test_marks_are_counted_outside_of_strings():
    """Some thousand strings at a time; an open one counts as what it holds."""
    body = b"[" + b'{"a:[":[":"]},' * 10_000 + b'{"'
    assert (10_000, 20_002) == (json_pieces.count(body, b":"), json_pieces.count(body, b"[", b"{"))


BATCH_ROWS = 5_000


@pytest.mark.parametrize("rows", [0, 1, 6, 7, 20, 21])
@pytest.mark.parametrize("classes", [0, 1, 3])
async def test_encoded_pieces_are_the_whole(monkeypatch, rows, classes):
    """Lists, tables and fields that are left out, wherever a piece ends."""
    monkeypatch.setattr(large_answers, "VALUES_AT_ONCE", 7)
    shares = np.random.default_rng(rows).random((rows, classes))
    shown = dict.fromkeys(("version", "incarnation"), 3)
    whole = PredictedBatch(predictions=["ü"] * rows, classes=["ü", 0], probabilities=shares.tolist(), **shown)
    parts = PredictedBatch(predictions=["ü"] * rows, classes=["ü", 0], probabilities=shares, **shown)
    assert msgspec.json.encode(whole) == b"".join(large_answers.encoded(parts))
    plain = PredictedBatch(predictions=[0.5] * rows, std=[1.5] * rows, **shown)
    assert msgspec.json.encode(plain) == b"".join(large_answers.encoded(plain))
    losses = [None, 0.25, 1.0][:rows]
    learnt = LearntBatch(losses, losses, 1, rows, {"mse": None}, False, 0, True, "always", "x")
    assert msgspec.json.encode(learnt) == b"".join(large_answers.encoded(learnt))


async def test_a_large_answer_is_sent_in_parts(api, monkeypatch):
    """With its length told before; as the answers to small batches of its rows."""
    path = await api.learnt(rows=20)
    table = columnar(BATCH_ROWS)
    many = await api.ask("POST", f"{path}/predict/batch", json=table)
    assert large_answers.SENT_AT_ONCE < len(many.content) == int(many.headers["content-length"])
    monkeypatch.setattr(large_answers, "SENT_AT_ONCE", 2**30)
    assert many.content == (await api.ask("POST", f"{path}/predict/batch", json=table)).content
    some = await api.post(f"{path}/predict/batch", {**table, "data": table["data"][-3:]})
    assert some["probabilities"] == many.json()["probabilities"][-3:]


async def test_a_batch_is_predicted_and_named_of_one_version(api, monkeypatch):
    """Feedback that comes meanwhile waits; the answer's version is that of its predictions."""
    monkeypatch.setattr(threads, "THREAD_FLOPS", -1.0)
    path, table = await api.new(DFOP), columnar(BATCH_ROWS)
    seen = {0: await api.post(f"{path}/predict/batch", table)}
    for number in range(1, 6):
        body = {**columnar(40, 40 * number), "labels": ["UP", "DOWN"] * 20}
        learning = asyncio.create_task(api.post(f"{path}/feedback/batch", body))
        during = await asyncio.gather(*[api.post(f"{path}/predict/batch", table) for _ in range(4)])
        await learning
        seen[number] = await api.post(f"{path}/predict/batch", table)
        assert number == seen[number]["version"]
        assert [] == [told["version"] for told in during if told != seen[told["version"]]]
    assert 6 == len({json.dumps(told["probabilities"]) for told in seen.values()})
