"""Large JSON is decoded in pieces to what the decoder makes of it at once, and refused by the same words."""

import json

import msgspec
import pytest

from service.api.http import json_pieces
from service.api.schemas import FeedbackColumns, FeedbackRecord

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
def test_pieces_are_the_whole(monkeypatch, size):
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
