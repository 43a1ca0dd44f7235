"""Every decoder of bytes from outside or from the store: valid samples, how to read them, and the allowed errors."""

import gzip
import json
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from core.config import Config
from core.entry import Reset, Rows
from core.model import STATE_VERSION, Model, read, save
from core.problems import Invalid
from service.api.http import json_body
from service.api.http.bodies import gunzip
from service.api.oip.requests import read_tensors, rows_of
from service.api.rows.formats.json_tables import FEEDBACK
from service.api.rows.formats.tables import Sent, read_table
from service.errors import OnepassError
from service.runtime.rows.row_validation import RowValidator
from service.store import summaries
from service.store.log import codec, entries
from service.store.states.snapshots import SnapshotInfo
from service.store.states.snapshots import _info as snapshot_info
from tests.benchmarks.harness.rows import to_npy
from tests.core.model.test_extremes import live
from tests.service.store.test_codec import OUTCOME_BYTES, SEGMENTS, TRACKED_BYTES

ROWS_MAX, BYTES_MAX = 1000, 2**20
REFUSALS = (Invalid, OnepassError)
DENSE = {
    "task": "classification",
    "labels": ["UP", "DOWN"],
    "features": ["a", {"name": "day", "categories": ["mon", "tue"]}, {"name": "on", "type": "boolean"}],
}
NUMBERS = {"task": "regression", "features": ["a", "b"]}
WATCH = {"class_mean": {"delta": 0.05}, "cooldown_rows": 5}
RICH = {**DENSE, "algorithm": "vigod", "params": {"batch_size": 200, "delta": 0.3}, "watch": WATCH}
RICH |= {"on_drift": "reset", "class_costs": {"UP": 2.5}, "tags": {"a": "b"}, "seed": 3}
SPARSE = {"task": "classification", "algorithm": "sparse_dfop", "params": {"compressed_dim": 4}}


class Decoder(NamedTuple):
    """One decoder: valid inputs, how it reads one, and the errors it may raise."""

    samples: Sequence[bytes]
    read: Callable[[bytes], Any]
    refusals: tuple[type[Exception], ...] = REFUSALS


def _feedback(model, kind, **query):
    own = RowValidator("m", Model.first(Config.parse(model)), lambda _: None)

    def read(body):
        return own.feedback(read_table(FEEDBACK, Sent(body, kind, query, ROWS_MAX, BYTES_MAX), own.space), ())

    return read


RECORDS = [
    {"features": {"a": 1.5, "day": "mon", "on": True}, "label": "UP", "id": "o-1", "weight": 2.0},
    {"features": {"a": -3, "day": "tue", "on": 0}, "label": "DOWN", "id": 7, "weight": 0.5},
]
COLUMNS = {"columns": ["a", "day", "on"], "data": [[1.5, "mon", True], [2, "tue", 0]], "labels": ["UP", "DOWN"]}
FEW = {"rows": [{"names": ["a", "b"], "values": [1, 2.5]}, {"names": [], "values": []}], "labels": ["x", 1]}
THREE_ROWS = codec.encode(
    Rows("s", None, np.arange(6.0).reshape(3, 2), np.array([1.5, -2.0, 0.0]), np.array([0.9, 1.0, 0.5]), None, ())
)
ENTRY = [b"17-0", b"u", b"9c0d.17", b"p", b"9c0d.16", b"t", b"1769860800000", b"n", b"2", b"s", b"%d" % STATE_VERSION]
BETWEEN = b"\xfe\xff"
"""The separator between the parts of an entry; no part of a sample contains it."""


def _entries():
    """Log entries as the store keeps them: one with two segments, and one that names its segment."""
    yield BETWEEN.join([*ENTRY, b"0", THREE_ROWS, b"0s", b"0,2", b"1", codec.encode(Reset())])
    yield BETWEEN.join([*ENTRY, b"0", entries.name("0" * 32, 2**23)])


def _entry(data):
    identity, *fields = data.split(BETWEEN)
    raw = entries.raw_entry([identity, fields])
    if all(entries.name_of(blob) is None for _, blob, _ in raw.segments):
        codec.entry(raw)


def _gunzip(data):
    """Unpack, and check that the result stays within the bound."""
    assert BYTES_MAX >= sum(map(len, gunzip(data, BYTES_MAX)))


def _configuration(data):
    Config.parse(json_body.json_object(data)).canonical.encode()


INFO = SnapshotInfo(18, "9c0d.18", 18, 1_769_860_800_000, "0" * 32, 6096)
PACKED = [gzip.compress(bytes(2**16), mtime=0), gzip.compress(b"x", mtime=0) * 3]


def _binary():
    inputs = [{"name": "features", "shape": [2, 2], "datatype": "FP64", "parameters": {"binary_data_size": 32}}]
    header = json.dumps({"id": "1", "inputs": inputs}).encode()
    return header, header + struct.pack("<4d", 1, 2, 3, 4)


HEADER, TENSORS = _binary()
MATRIX = {"name": "features", "shape": [1, 2], "datatype": "FP64", "data": [1, 2.5]}
PAIR = [{"name": name, "shape": [1], "datatype": kind, "data": [1]} for name, kind in (("a", "FP32"), ("b", "INT64"))]
TRACKED = {"id": "x", "parameters": {"track": True}, "inputs": PAIR, "outputs": [{"name": "prediction"}]}
INFER = [json.dumps(body).encode() for body in ({"inputs": [MATRIX]}, TRACKED)]


def _infer(json_bytes):
    model = Model.first(Config.parse(NUMBERS))
    own = RowValidator("m", model, lambda _: None)

    def read(body):
        return rows_of(read_tensors(json_bytes, Sent(body, "application/json", {}, ROWS_MAX, BYTES_MAX), model), own)

    return read


LEARNED = {"dfop": "regression", "auto": "classification", "sparse_dfop": "regression", "ga2m": "classification"}
STATES = [save.to_bytes(live(*one, "noise", "none")) for one in LEARNED.items()]


def _summary():
    machine = Model.first(Config.parse(DENSE))
    return summaries.encode_first(read.summary(machine))


DECODERS = {
    "JSON columns": Decoder([json.dumps(COLUMNS).encode()], _feedback(DENSE, "application/json")),
    "JSON records": Decoder([json.dumps(RECORDS).encode(), json.dumps({"rows": RECORDS}).encode()],
                            _feedback(DENSE, "application/json")),
    "JSON sparse": Decoder([json.dumps(FEW).encode()], _feedback(SPARSE, "application/json")),
    "NDJSON": Decoder(["\n".join(map(json.dumps, RECORDS)).encode()], _feedback(DENSE, "application/x-ndjson")),
    "CSV": Decoder([b"a,day,on,y\n1.5,mon,true,UP\n2,tue,0,DOWN\n", b'"a","day","on","y"\r\n1,"mon",1,"UP"\r\n'],
                   _feedback(DENSE, "text/csv", label="y")),
    "SVMlight": Decoder([b"x a:1 b:2.5\n1 c:-3\n"], _feedback(SPARSE, "text/x-svmlight")),
    "npy": Decoder([to_npy(np.array([[1, 2, 0.5], [3, 4, -1]]))],
                   _feedback(NUMBERS, "application/x-npy")),
    "gzip": Decoder(PACKED, _gunzip),
    "configuration": Decoder([json.dumps(body).encode() for body in (DENSE, NUMBERS, SPARSE, RICH)], _configuration),
    "inference JSON": Decoder(INFER, _infer(None)),
    "inference tensors": Decoder([TENSORS], _infer(len(HEADER))),
    "segment": Decoder([THREE_ROWS, *(blob for _, blob in SEGMENTS)], codec.decode, (ValueError,)),
    "entry": Decoder([*_entries()], _entry, (ValueError, IndexError)),
    "snapshot": Decoder([msgspec.json.encode(INFO)], snapshot_info, ()),
    "answer": Decoder([OUTCOME_BYTES], codec.decode_answer, (ValueError,)),
    "tracked": Decoder([TRACKED_BYTES], codec.decode_tracked, (ValueError,)),
    "summary": Decoder([_summary()], summaries.decode, ()),
    "state": Decoder(STATES, save.from_bytes, (ValueError,)),
}  # fmt: skip
