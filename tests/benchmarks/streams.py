"""The streams of ../shared/data beside the repository, and SEA: rows and labels, ready to learn."""

import csv
import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Ints

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
CLASSIFICATION = (
    "SEA",
    "1CDT",
    "2CDT",
    "1CHT",
    "UG_2C_2D",
    "GEARS_2C_2D",
    "weather_noaa",
    "powersupply",
    "usenet1",
    "luxembourg",
    "electricity",
)
SEA_STAGES = (7.0, 8.0, 9.0, 9.5)
SEA_STAGE_ROWS = 12_500
SEA_NOISE = 0.1


def read_columns(name: str) -> list[list[str]]:
    """The columns of a stream as text, label last, header dropped."""
    with gzip.open(DATA / f"{name}.csv.gz", "rt", newline="") as lines:
        return [list(column) for column in zip(*list(csv.reader(lines))[1:], strict=True)]


def encoded(column: list[str]) -> Floats:
    """Numbers as they are (n, 1); text as one indicator column per value (n, k), values in sorted order."""
    try:
        return np.array(column, dtype=np.float64)[:, None]
    except ValueError:
        return (np.array(column)[:, None] == np.unique(column)).astype(np.float64)


def classification(name: str) -> tuple[Floats, Ints]:
    """Rows (n, d) and labels (n,) in 0, 1."""
    if name == "SEA":
        return sea(np.random.default_rng(0))
    *features, label = read_columns(f"drift/{name}")
    X = np.concatenate([encoded(column) for column in features], axis=1)
    y = np.array([float(cell) for cell in label])
    threshold = 12 if name == "powersupply" else y.max()
    return X, (y >= threshold).astype(np.int64)


def multiclass(name: str) -> tuple[Floats, Ints]:
    """Rows (n, d) and labels (n,) in 0 ... K - 1 of a file; static ones are shuffled."""
    *features, label = read_columns(name)
    X = np.concatenate([encoded(column) for column in features], axis=1)
    y = np.unique(np.array(label), return_inverse=True)[1].astype(np.int64)
    order = np.random.default_rng(0).permutation(len(y)) if name.startswith("static/") else np.arange(len(y))
    return np.ascontiguousarray(X[order]), y[order]


def regression(name: str) -> tuple[Floats, Floats]:
    """Rows (n, d) and targets (n,) of "sru y1" or "sru y2"."""
    stream, output = name.split()
    columns = np.array(read_columns(f"regression/{stream}"), dtype=np.float64)
    return np.ascontiguousarray(columns[:-2].T), columns[-2 if output == "y1" else -1]


def sea(rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64]]:
    """SEA: three uniform attributes on [0, 10], x1 + x2 <= b, four stages, 10 % of the labels flipped."""
    X = rng.uniform(0.0, 10.0, (SEA_STAGE_ROWS * len(SEA_STAGES), 3))
    b = np.repeat(SEA_STAGES, SEA_STAGE_ROWS)
    return X, ((X[:, 0] + X[:, 1] <= b) ^ (rng.random(len(X)) < SEA_NOISE)).astype(np.int64)
