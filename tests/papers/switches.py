"""Streams whose features change, and models that live through the change, by section 6.2 of the FESL paper."""

from typing import Any, NamedTuple

import numpy as np

from core.contract import Floats
from core.entry import Switch
from core.features import Feature
from tests.core.twin import Fed
from tests.papers.sets.files import indicators, indices, numbers, read_columns

DIMENSIONS = {
    "australian": (42, 29), "credit_g_german": (59, 41), "svmguide3": (22, 15), "kr_vs_kp": (36, 25),
    "credit_g": (20, 14), "diabetes": (8, 5), "dna": (180, 125),
}  # fmt: skip
"""d1 and d2 of Table 1."""
_NOMINAL = {"australian": (0, 3, 4, 5, 7, 8, 10, 11)}
"""One-hot columns although they hold numbers; text columns are nominal anyway."""
DNA_ROWS = 2000
"""949 of them are in two classes; the paper counts 940."""


class Spaces(NamedTuple):
    """One stream in several feature spaces: rows (n, d_s) and names of each, labels (n,), 0 ... K - 1 or numbers."""

    X: list[Floats]
    names: list[list[str]]
    y: Any


def standardised(name: str) -> tuple[Floats, Any]:
    """Rows (n, d1) and classes of a set; dna: its two-class part, credit_g: german with text as numbers."""
    *columns, label = read_columns("fesl/credit_g_german" if name == "credit_g" else f"fesl/{name}")
    if name == "dna":
        kept = [at for at in range(DNA_ROWS) if label[at] != "n"]
        *columns, label = ([column[at] for at in kept] for column in (*columns, label))
    nominal = _NOMINAL.get(name, ())
    encoded = (_encoded(column, at in nominal) for at, column in enumerate(columns))
    X = np.hstack([numbers(column)[:, None] for column in columns] if name == "credit_g" else list(encoded))
    assert X.shape[1] == DIMENSIONS[name][0], (name, X.shape)
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12), indices(label)


def _encoded(column: list[str], nominal: bool) -> Floats:
    """A numeric column as it is; a nominal one as a column per value, or one for two values (kr_vs_kp: also three)."""
    values, cells = np.unique(column), indicators(column)
    text = cells.shape[1] > 1
    if not nominal and not text:
        return cells
    if text and (len(values) == 2 or set(values) <= set("bnwlftg")):
        return indices(column)[:, None].astype(np.float64)
    return (np.array(column)[:, None] == values).astype(np.float64)


def mapped(X: Floats, y: Any, width: int, rng: np.random.Generator) -> Spaces:
    """Shuffled rows, and a Gaussian image of them with ``width`` columns."""
    order, d = rng.permutation(len(y)), X.shape[1]
    X, y = np.ascontiguousarray(X[order]), y[order]
    return spaces_of(X, X @ rng.normal(size=(d, width)) / np.sqrt(d), y)


def spaces_of(*spaces_and_labels: Any) -> Spaces:
    """A stream from rows (n, d_s) of each space, and its labels."""
    *spaces, y = spaces_and_labels
    return Spaces(spaces, [[f"s{at}.{j}" for j in range(X.shape[1])] for at, X in enumerate(spaces)], y)


class Life(Fed):
    """A model that learns a stream through a change of features."""

    def __init__(self, stream: Spaces, algorithm: str, seed: int = 0, **params: Any) -> None:
        self.stream = stream
        task = "classification" if stream.y.dtype.kind == "i" else "regression"
        body = {"algorithm": algorithm, "features": stream.names[0], "params": params, "seed": seed, "task": task}
        super().__init__(body)
        pairs = zip(stream.X, stream.names, strict=True)
        self._columns = {name: X[:, j] for X, names in pairs for j, name in enumerate(names)}

    def feed(self, start: int, stop: int) -> Floats:
        """Learn rows of the stream in the current feedback space; return their losses."""
        space, y = self.machine.feedback_schema, self.stream.y[start:stop]
        raw = np.ascontiguousarray(np.stack([self._columns[name][start:stop] for name in space.names], axis=1))
        outcome = self.learn(raw, y if y.dtype.kind == "f" else y.tolist())
        assert outcome.refusal is None, outcome
        return np.nan_to_num(np.array(outcome.losses, np.float64), nan=1.0)  # before the first label: an error

    def begin(self) -> None:
        """Start the overlap with the next space."""
        self.commit(Switch("begin", tuple(Feature(name) for name in self.stream.names[1]), None))

    def complete(self) -> None:
        """Switch to the next space."""
        self.commit(Switch("complete"))
        assert self.machine.phase == "ensemble"
