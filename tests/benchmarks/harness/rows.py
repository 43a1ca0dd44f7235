"""What the benchmarks send: rows of d = 10 numbers with one of two labels, as JSON and .npy.

The labels follow a linear rule with a tenth of them flipped, so that a model has something to learn and is never sure.
"""

import io
import json
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

DIMENSION = 10
NAMES = tuple(f"sensor_{column:02d}" for column in range(DIMENSION))
LABELS = ("DOWN", "UP")
FIXED = {"forgetting_rate": 0.01}
BATCH_ROWS = 1000


def model(params: dict[str, Any], labels: tuple[Any, ...] = LABELS, algorithm: str = "dfop") -> dict[str, Any]:
    """The model all benchmarks feed; .npy has numbers for labels."""
    space = {"features": list(NAMES), "labels": list(labels)}
    return {"algorithm": algorithm, "task": "classification", "params": params, **space}


def draw(count: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Rows (count, d), four decimals, and labels 0 or 1 (count,)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, DIMENSION)).round(4)
    flipped = rng.random(count) < 0.1
    return X, ((X @ np.linspace(-1.0, 1.0, DIMENSION) > 0) ^ flipped).astype(np.int64)


def single(count: int, seed: int) -> list[bytes]:
    """Bodies of POST /feedback, each another one; the last byte is the brace that an id may go before."""
    X, y = draw(count, seed)
    pairs = zip(X.tolist(), y.tolist(), strict=True)
    return [to_json({"features": dict(zip(NAMES, x, strict=True)), "label": LABELS[k]}) for x, k in pairs]


def asked(count: int, seed: int) -> list[bytes]:
    """Bodies of POST /predict."""
    return [to_json({"features": dict(zip(NAMES, x, strict=True))}) for x in draw(count, seed)[0].tolist()]


def table(count: int, seed: int) -> dict[str, Any]:
    """A labelled batch as JSON has it by column."""
    X, y = draw(count, seed)
    return {"columns": NAMES, "data": X.tolist(), "labels": [LABELS[k] for k in y]}


def columns(count: int, seed: int) -> list[bytes]:
    """Bodies of POST /feedback/batch as JSON, 1000 rows each."""
    return [to_json(table(BATCH_ROWS, seed + number)) for number in range(count)]


def npy(count: int, seed: int) -> list[bytes]:
    """The same as .npy, label last."""
    return [to_npy(np.column_stack(draw(BATCH_ROWS, seed + number))) for number in range(count)]


def to_npy(X: NDArray[np.float64]) -> bytes:
    """An array as the bytes of its file."""
    stream = io.BytesIO()
    npy_format.write_array(stream, X)
    return stream.getvalue()


def to_json(value: object) -> bytes:
    """A value as compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


class Kind(NamedTuple):
    """Bodies of one kind: how they are made, how many different ones there are, and what they are."""

    make: Callable[[int, int], list[bytes]]
    count: int
    media_type: str = "application/json"


KINDS = {
    "feedback": Kind(single, 8192),
    "predict": Kind(asked, 8192),
    "json": Kind(columns, 16),
    "npy": Kind(npy, 16, "application/x-npy"),
}


@cache
def pool(kind: str) -> list[bytes]:
    """The bodies of a kind, made once per process."""
    return KINDS[kind].make(KINDS[kind].count, 1)
