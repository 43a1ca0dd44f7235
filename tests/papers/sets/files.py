"""The streams of the papers' data sets: rows and labels, ready to learn.

They are read from PAPERS_DATA, by default .papers in the repository, where fetching.py writes them, or from
../shared/data next to it; they are not part of the repository. Reading a set that is in neither is a FileNotFoundError.
"""

import csv
import errno
import gzip

import numpy as np

from core.contract import Floats, Ints
from tests.benchmarks.streams import generators
from tests.papers.sets.manifest import Missing, find

PRICE_ROWS = 20_000


def read_columns(name: str) -> list[list[str]]:
    """The columns of a set as text, label last, without the header; the name may omit its group."""
    path = find(name)
    if isinstance(path, Missing):
        raise FileNotFoundError(errno.ENOENT, path.why, path.set)
    with gzip.open(path, "rt", newline="") as lines:
        return [list(column) for column in zip(*list(csv.reader(lines))[1:], strict=True)]


def numbers(column: list[str]) -> Floats:
    """Numbers as they are; text as numbers in sorted order."""
    try:
        return np.array(column, dtype=np.float64)
    except ValueError:
        return indices(column).astype(np.float64)


def indicators(column: list[str]) -> Floats:
    """Numbers as they are (n, 1); text as one column per value (n, k), values in sorted order."""
    try:
        return np.array(column, dtype=np.float64)[:, None]
    except ValueError:
        return (np.array(column)[:, None] == np.unique(column)).astype(np.float64)


def indices(column: list[str]) -> Ints:
    """The index of each value among all values, sorted."""
    return np.unique(np.array(column), return_inverse=True)[1].astype(np.int64)


def drifting(name: str) -> tuple[Floats, Ints]:
    """Rows (n, d) of a drifting set or of SEA, and labels (n,) in 0, 1."""
    if name == "SEA":
        return generators.sea_of_four()
    *features, label = read_columns(f"drift/{name}")
    y = np.array([float(cell) for cell in label])
    threshold = 12 if name == "powersupply" else y.max()
    return np.hstack([indicators(column) for column in features]), (y >= threshold).astype(np.int64)


def static(name: str) -> tuple[Floats, Ints]:
    """Rows (n, d), one column per value of text, and labels (n,) in 0 ... K - 1, shuffled."""
    *features, label = read_columns(name)
    order = np.random.default_rng(0).permutation(len(label))
    return np.hstack([indicators(column) for column in features])[order], indices(label)[order]


def regression(name: str) -> tuple[Floats, Floats]:
    """Rows (n, d) and targets (n,) of "sru y1", "sru y2" or the "price" of electricity."""
    if name == "price":
        columns = np.array(read_columns("drift/electricity"), dtype=np.float64)[:, :PRICE_ROWS]
        return np.delete(columns[:-1], 3, axis=0).T, columns[3]
    columns = np.array(read_columns("regression/sru"), dtype=np.float64)
    return columns[:-2].T, columns[-2 if name == "sru y1" else -1]
