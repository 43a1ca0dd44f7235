"""Heavy requests: what ``isolation`` sends to one model while another one is measured.

Every body is near the default limit of 8 MiB, in the form that costs most to read. Bodies are made before the clock
runs and repeat one block of lines: what is costly about them is their length, not their values.
"""

import http.client
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from tests.benchmarks.harness.load import head
from tests.benchmarks.harness.rows import to_json, to_npy

ANSWER_S_MAX = 60.0
"""An answer that takes longer is reported as "none"."""
MIB = 2**20
BODY = 8 * MIB - 4096
COLUMNS = [f"x{column}" for column in range(1, 21)]
TABLE_ROWS, LINES = 20_000, 14_000
"""Of JSON by column and CSV, and of NDJSON: 7.5 MB."""
JSON, CSV, NPY, SVMLIGHT = "application/json", "text/csv", "application/x-npy", "text/x-svmlight"
BLOCK = np.random.default_rng(0).normal(size=(100, len(COLUMNS) + 1)).tolist()
"""A hundred rows of random numbers, 17 digits each, and their labels."""


class Ask(NamedTuple):
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


def model(features: list[object], **more: object) -> dict[str, object]:
    """Body of PUT /models/{name}: a regression by ``rls``, whose state has the square of the number of features."""
    return {"algorithm": "rls", "task": "regression", "features": features, "watch": None, **more}


COLONS = model([*COLUMNS[:-1], {"name": COLUMNS[-1], "type": "categorical", "categories": ["a:b", "c"]}])
"""Twenty columns; the last one is a category whose names hold a colon."""
SPARSE = {"algorithm": "sparse_dfop", "task": "classification", "params": {"compressed_dim": 32}, "labels": [1, -1]}


def names(count: int, prefix: str = "x") -> list[object]:
    """Of so many features."""
    return [f"{prefix}{column}" for column in range(count)]


def row(features: int) -> dict[str, object]:
    """A row of so many features."""
    values = np.random.default_rng(features).normal(size=features).round(3).tolist()
    return {"features": dict(zip(names(features), values, strict=True))}


def overlap(new: list[object], count: int) -> bytes:
    """Rows that carry both the old features and as many new ones, as JSON by column."""
    both = [*names(len(new)), *new]
    return to_json(
        {"columns": both, "data": np.random.default_rng(2).normal(size=(count, len(both))).round(3).tolist()}
    )


def npy(count: int, features: int) -> bytes:
    """Rows to predict."""
    return to_npy(np.random.default_rng(1).normal(size=(count, features)))


def colon_table(labelled: bool) -> bytes:
    """JSON by column, a colon in a cell of every row."""
    data = b",".join(_repeat([to_json([*cells[: len(COLUMNS) - 1], "a:b"]) for cells in BLOCK], TABLE_ROWS))
    labels = b',"labels":[' + b",".join(_repeat([b"0.25", b"1.5"], TABLE_ROWS)) + b"]" if labelled else b""
    return b'{"columns":' + to_json(COLUMNS) + b',"data":[' + data + b"]" + labels + b"}"


def csv_table(labelled: bool) -> bytes:
    """CSV, a column ``label`` where the rows are labelled."""
    columns = [*COLUMNS, "label"] if labelled else COLUMNS
    lines = [",".join(map(repr, cells[: len(columns)])).encode() for cells in BLOCK]
    return b"\n".join([",".join(columns).encode(), *_repeat(lines, TABLE_ROWS), b""])


def lines_by_name() -> bytes:
    """NDJSON."""
    rows = [to_json({"features": dict(zip(COLUMNS, cells, strict=False))}) for cells in BLOCK]
    return b"\n".join([*_repeat(rows, LINES), b""])


def refused() -> dict[str, Ask]:
    """Bodies of 8 MiB that are refused, by what is wrong with them; the models "plain" and "sparse" are asked."""
    path = "/models/plain/predict/batch"
    numbers = b",".join(_repeat([to_json(cells[: len(COLUMNS)]) for cells in BLOCK], TABLE_ROWS))
    nan = b'{"columns":' + to_json(COLUMNS) + b',"data":[' + numbers + b",[NaN]]}"
    return {
        "rows without cells": Ask("POST", path, _filled(b'{"columns":["x1","x2:"],"data":[', b"[],", b"[]]}")),
        "NaN at the end": Ask("POST", path, nan),
        "blank lines of CSV": Ask("POST", path, _filled(b"x1,x2\n", b"\n"), CSV),
        "short lines of SVMlight": Ask("POST", "/models/sparse/feedback/batch", _filled(b"", b"1\n"), SVMLIGHT),
    }


def with_ids(rows: int, first: int, columns: int = len(COLUMNS)) -> bytes:
    """Labelled rows as JSON by column, with the ids ``first`` ... ``first + rows - 1``."""
    data = [cells[:columns] for cells in _repeat(BLOCK, rows)]
    ids = [f"order:{number:07d}" for number in range(first, first + rows)]
    return to_json({"columns": COLUMNS[:columns], "data": data, "labels": [0.5] * rows, "ids": ids})


def clients(port: int, count: int, sent: bytes, seconds: float = ANSWER_S_MAX) -> list[str]:
    """Each client sends all of it before it reads; statuses of first answers, "open" where none comes in time."""

    def send(_: int) -> str:
        with socket.create_connection(("127.0.0.1", port), seconds) as client:
            try:
                client.sendall(sent)
                return client.recv(65536)[9:12].decode(errors="replace") or "cut"
            except TimeoutError:
                return "open"
            except OSError:
                return "cut"

    with ThreadPoolExecutor(count) as threads:
        return [*threads.map(send, range(count))]


def unfinished(request: Ask) -> bytes:
    """A request but for its last bytes."""
    return head(request.method, request.path, request.kind, len(request.body), {}) + request.body[:-1000]


def announced(port: int, count: int, path: str, table: Ask) -> list[str]:
    """Statuses of a table that is sent ten times from another address while bodies that have begun do not come."""
    begun = head("POST", path, JSON, 8 * MIB, {}) + b"{"
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection(("127.0.0.1", port))).sendall(begun)
        time.sleep(0.2)
        return [ask(port, table, source="127.0.0.2")[0] for _ in range(10)]


def _repeat(lines: list[Any], times: int) -> list[Any]:
    return [lines[at % len(lines)] for at in range(times)]


def _filled(begin: bytes, middle: bytes, end: bytes = b"") -> bytes:
    """As many of the middle as fit."""
    return begin + middle * ((BODY - len(begin) - len(end)) // len(middle)) + end
