"""Heavy requests: what ``isolation`` sends to one model while another one is measured.

Every body is near the default limit of 8 MiB, in the form that costs most to read. Bodies are made before the clock
runs and repeat one block of lines: what is costly about them is their length, not their values.
"""

import http.client
import io
import json
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from numpy.lib import format as npy_format

from tests.benchmarks.load import head

ANSWER_S_MAX = 60.0
"""An answer that takes longer is reported as "none"."""
MIB = 2**20
BODY = 8 * MIB - 4096
COLUMNS = [f"x{column}" for column in range(1, 21)]
JSON_ROWS, CSV_ROWS = 20_000, 20_000
JSON, CSV, NPY, SVMLIGHT = "application/json", "text/csv", "application/x-npy", "text/x-svmlight"
LINES = "application/x-ndjson"
STATE = "application/octet-stream"


@dataclass(frozen=True)
class Ask:
    """A request."""

    method: str
    path: str
    body: bytes = b""
    kind: str = JSON


def ask(port: int, request: Ask, source: str = "") -> tuple[str, bytes]:
    """Send it, from an address of this machine; status and body, "none" where no answer came."""
    connection = http.client.HTTPConnection("127.0.0.1", port, ANSWER_S_MAX, (source, 0))
    try:
        headers = {"Content-Type": request.kind} if request.body else {}
        connection.request(request.method, request.path, request.body or None, headers)
        answer = connection.getresponse()
        return str(answer.status), answer.read()
    except OSError:
        return "none", b""
    finally:
        connection.close()


def model(features: Sequence[object], **more: object) -> dict[str, object]:
    """Body of PUT /models/{name}: a regression by ``rls``, whose state has the square of the number of features."""
    return {"algorithm": "rls", "task": "regression", "features": list(features), "watch": None, **more}


def wide(features: int) -> dict[str, object]:
    """A model of so many columns; its state takes 8 bytes for each pair of them."""
    return model([f"x{column}" for column in range(features)])


def wide_row(features: int) -> bytes:
    """Body of POST /feedback for such a model."""
    row = np.random.default_rng(features).normal(size=features).round(3).tolist()
    return _json({"features": {f"x{column}": value for column, value in enumerate(row)}, "label": 1.0})


def unlabelled(row: bytes, **more: object) -> bytes:
    """The body of POST /predict for the same row."""
    return _json({"features": json.loads(row)["features"], **more})


def overlap(new: Sequence[str], rows: int) -> bytes:
    """Rows that carry both the columns of ``wide`` and as many new ones, as JSON by column."""
    names = [*(f"x{column}" for column in range(len(new))), *new]
    return _json({"columns": names, "data": np.random.default_rng(2).normal(size=(rows, len(names))).round(3).tolist()})


def wide_npy(rows: int, features: int) -> bytes:
    """Body of POST /predict/batch for such a model."""
    stream = io.BytesIO()
    npy_format.write_array(stream, np.random.default_rng(1).normal(size=(rows, features)))
    return stream.getvalue()


def colon_model() -> dict[str, object]:
    """Twenty columns; the last one is a category whose names hold a colon."""
    return model([*COLUMNS[:-1], {"name": COLUMNS[-1], "type": "categorical", "categories": ["a:b", "c"]}])


def colon_table(labelled: bool) -> bytes:
    """20 000 rows as JSON by column, 7.7 MB, a colon in a cell of every row."""
    rows = [[*row, "a:b"] for row in _block(len(COLUMNS) - 1)]
    data = ",".join(_repeat([_json(row).decode() for row in rows], JSON_ROWS))
    labels = f',"labels":[{",".join(_repeat(["0.25", "1.5"], JSON_ROWS))}]' if labelled else ""
    return f'{{"columns":{_json(COLUMNS).decode()},"data":[{data}]{labels}}}'.encode()


def csv_table(labelled: bool) -> bytes:
    """20 000 rows as CSV, 7.5 MB, a column ``label`` where they are labelled."""
    names = [*COLUMNS, "label"] if labelled else COLUMNS
    lines = [",".join(map(repr, row)) for row in _block(len(names))]
    return "\n".join([",".join(names), *_repeat(lines, CSV_ROWS), ""]).encode()


def lines_by_name() -> bytes:
    """14 000 rows as NDJSON, 7.6 MB."""
    rows = [_json({"features": dict(zip(COLUMNS, row, strict=True))}).decode() for row in _block(len(COLUMNS))]
    return "\n".join([*_repeat(rows, 14_000), ""]).encode()


def refused() -> dict[str, Ask]:
    """Bodies of 8 MiB that are refused, by what is wrong with them; the models "wide" and "sparse" are asked."""
    path = "/models/wide/predict/batch"
    rows = [_json(row).decode() for row in _block(len(COLUMNS))]
    numbers = ",".join(_repeat(rows, CSV_ROWS))
    return {
        "rows without cells": Ask("POST", path, _filled(b'{"columns":["x1","x2:"],"data":[', b"[],", b"[]]}")),
        "NaN at the end": Ask("POST", path, f'{{"columns":{json.dumps(COLUMNS)},"data":[{numbers},[NaN]]}}'.encode()),
        "blank lines of CSV": Ask("POST", path, _filled(b"x1,x2\n", b"\n"), CSV),
        "short lines of SVMlight": Ask("POST", "/models/sparse/feedback/batch", _filled(b"", b"1\n"), SVMLIGHT),
    }


def sparse_model() -> dict[str, object]:
    """A model of named sparse rows, which SVMlight is for."""
    return {"algorithm": "sparse_dfop", "task": "classification", "params": {"compressed_dim": 32}, "labels": [1, -1]}


def with_ids(rows: int, first: int, columns: int = len(COLUMNS)) -> bytes:
    """Labelled rows as JSON by column, with the ids ``first`` ... ``first + rows - 1``."""
    block = _block(columns)
    data = [block[at % len(block)] for at in range(rows)]
    ids = [f"order:{number:07d}" for number in range(first, first + rows)]
    return _json({"columns": COLUMNS[:columns], "data": data, "labels": [0.5] * rows, "ids": ids})


class Unfinished:
    """Requests whose last bytes never come."""

    def __init__(self, port: int, requests: int, request: Ask) -> None:
        self._port, self._requests = port, requests
        declared = head(request.method, request.path, request.kind, len(request.body))
        self._sent = memoryview(declared + request.body[:-1000])
        self.open: list[socket.socket] = []

    def send(self, seconds: float) -> list[str]:
        """Send what is taken within so many seconds; the status of each request that is answered, else "open"."""
        until = time.monotonic() + seconds
        for _ in range(self._requests):
            self.open.append(socket.create_connection(("127.0.0.1", self._port)))
            self.open[-1].setblocking(False)
        places = dict.fromkeys(self.open, 0)
        statuses = dict.fromkeys(self.open, "open")
        while time.monotonic() < until:
            time.sleep(0.005)
            for each in self.open:
                if statuses[each] == "open":
                    statuses[each] = self._some(each, places)
        return list(statuses.values())

    def _some(self, each: socket.socket, places: dict[socket.socket, int]) -> str:
        try:
            if places[each] < len(self._sent):
                places[each] += each.send(self._sent[places[each] : places[each] + MIB])
            return each.recv(65536)[9:12].decode(errors="replace") or "cut"
        except BlockingIOError:
            return "open"
        except OSError:
            return "cut"

    def close(self) -> None:
        """Close all of them."""
        for each in self.open:
            each.close()


def pipelined(port: int, clients: int) -> list[str]:
    """Each client sends 200 000 requests and reads nothing until all are sent; whether they were, or it was cut off."""
    flood = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 200_000

    def send(_: int) -> str:
        with socket.create_connection(("127.0.0.1", port), ANSWER_S_MAX) as client:
            try:
                client.sendall(flood)
                return "sent"
            except OSError:
                return "cut"

    with ThreadPoolExecutor(clients) as threads:
        return [*threads.map(send, range(clients))]


def announced(port: int, clients: int, begun: bytes, table: Ask) -> list[str]:
    """Statuses of a table that is sent ten times from another address while bodies that have begun do not come."""
    with ExitStack() as stack:
        for _ in range(clients):
            stack.enter_context(socket.create_connection(("127.0.0.1", port))).sendall(begun)
        time.sleep(0.2)
        return [ask(port, table, source="127.0.0.2")[0] for _ in range(10)]


def _block(columns: int) -> list[list[float]]:
    """A hundred rows of random numbers, 17 digits each."""
    block: list[list[float]] = np.random.default_rng(0).normal(size=(100, columns)).tolist()
    return block


def _repeat(lines: list[str], times: int) -> list[str]:
    return [lines[at % len(lines)] for at in range(times)]


def _filled(begin: bytes, middle: bytes, end: bytes = b"") -> bytes:
    """As many of the middle as fit."""
    return begin + middle * ((BODY - len(begin) - len(end)) // len(middle)) + end


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
