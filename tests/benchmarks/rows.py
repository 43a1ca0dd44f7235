"""What the benchmarks send: rows of d = 10 numbers with one of two labels, as JSON, CSV and .npy.

The labels follow a linear rule with a tenth of them flipped, so that a model has something to learn and is never sure.
"""

import io
import json
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

DIMENSION = 10
NAMES = tuple(f"sensor_{column:02d}" for column in range(DIMENSION))
LABELS = ("DOWN", "UP")
BATCH_ROWS = 1000


def model(params: dict[str, Any], labels: tuple[Any, ...] = LABELS) -> dict[str, Any]:
    """The model all benchmarks feed; .npy has numbers for labels."""
    space = {"features": list(NAMES), "labels": list(labels)}
    return {"algorithm": "dfop", "task": "classification", "params": params, **space}


def draw(count: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Rows (count, d), four decimals, and labels 0 or 1 (count,)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, DIMENSION)).round(4)
    flipped = rng.random(count) < 0.1
    return X, ((X @ np.linspace(-1.0, 1.0, DIMENSION) > 0) ^ flipped).astype(np.int64)


def single(count: int, seed: int) -> list[bytes]:
    """Bodies of POST /feedback, each another one; the last byte is the brace that an id may go before."""
    X, y = draw(count, seed)
    return [_json({"features": dict(zip(NAMES, x, strict=True)), "label": LABELS[k]}) for x, k in _pairs(X, y)]


def asked(count: int, seed: int) -> list[bytes]:
    """Bodies of POST /predict."""
    return [_json({"features": dict(zip(NAMES, x, strict=True))}) for x in draw(count, seed)[0].tolist()]


def infer(count: int, seed: int) -> list[bytes]:
    """The same as the Open Inference Protocol (V2) has it, which other servers take."""
    X = draw(count, seed)[0].tolist()
    head = {"name": "x", "shape": [1, DIMENSION], "datatype": "FP64"}
    return [_json({"inputs": [{**head, "data": x}]}) for x in X]


def columns(count: int, seed: int) -> list[bytes]:
    """Bodies of POST /feedback/batch as JSON, 1000 rows each."""
    tables = [draw(BATCH_ROWS, seed + table) for table in range(count)]
    return [_json({"columns": NAMES, "data": X.tolist(), "labels": [LABELS[k] for k in y]}) for X, y in tables]


def lines(count: int, seed: int, each: int) -> list[bytes]:
    """The same as NDJSON, so many rows each; every line ends in the brace that an id may go before."""
    bodies = single(count * each, seed)
    return [b"\n".join(bodies[at : at + each]) for at in range(0, len(bodies), each)]


def csv(count: int, seed: int) -> list[bytes]:
    """The same as CSV, the label in the column "class"."""
    header = ",".join((*NAMES, "class"))
    tables = [draw(BATCH_ROWS, seed + table) for table in range(count)]
    lines = [[",".join((*map(repr, x), LABELS[k])) for x, k in _pairs(X, y)] for X, y in tables]
    return ["\n".join((header, *table, "")).encode() for table in lines]


def npy(count: int, seed: int) -> list[bytes]:
    """The same as .npy, label last."""
    bodies = []
    for table in range(count):
        X, y = draw(BATCH_ROWS, seed + table)
        stream = io.BytesIO()
        npy_format.write_array(stream, np.column_stack([X, y]))
        bodies.append(stream.getvalue())
    return bodies


def _pairs(X: NDArray[np.float64], y: NDArray[np.int64]) -> "zip[tuple[list[float], int]]":
    return zip(X.tolist(), y.tolist(), strict=True)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
