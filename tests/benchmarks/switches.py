"""Streams whose features change, and machines that live through it: what the benchmarks of the switch share."""

from typing import Any, NamedTuple

import numpy as np

from core.config import Config
from core.contract import Floats
from core.entry import Entry, Overlap, Rows, Switch
from core.features import Feature
from core.model import Model
from core.model.apply import apply
from core.switching.expert import Expert
from tests.benchmarks.streams import read_columns

DIMENSIONS = {"australian": (42, 29), "german": (59, 41), "svmguide3": (22, 15), "kr_vs_kp": (36, 25)}
"""d1 and d2 of Table 1."""
_FILES = {"german": "credit_g_german"}
_NOMINAL = {"australian": (0, 3, 4, 5, 7, 8, 10, 11), "svmguide3": ()}
"""Columns that are one-hot though they hold numbers; text columns are nominal anyway."""


class Spaces(NamedTuple):
    """One stream seen in several feature spaces.

    Attributes:
        X: rows (n, d_s) of each space.
        names: feature names of each space.
        y: (n,) labels: classes 0 ... K - 1, or numbers.
    """

    X: list[Floats]
    names: list[list[str]]
    y: Any


def static(name: str) -> tuple[Floats, Any]:
    """Rows (n, d1), standardised, and classes of one of the sets of Section 6.2."""
    *columns, label = read_columns(f"fesl/{_FILES.get(name, name)}")
    X = np.hstack([_encoded(column, at in _NOMINAL.get(name, ())) for at, column in enumerate(columns)])
    assert X.shape[1] == DIMENSIONS[name][0], (name, X.shape)
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12), np.unique(label, return_inverse=True)[1].astype(
        np.int64
    )


def _encoded(column: list[str], nominal: bool) -> Floats:
    """A column of numbers; one per value of a nominal one, a single one where it has two (kr_vs_kp: also three)."""
    values = np.unique(column)
    try:
        numbers = np.array(column, dtype=np.float64)
    except ValueError:
        nominal = True
    if not nominal:
        return numbers[:, None]
    codes = np.searchsorted(values, column)
    text = not values[0].replace(".", "").isdigit()
    if text and (len(values) == 2 or set(values) <= {"b", "n", "w", "l", "f", "t", "g"}):
        return codes[:, None].astype(np.float64)
    return (codes[:, None] == np.arange(len(values))).astype(np.float64)


def mapped(X: Floats, y: Any, widths: list[int], rng: np.random.Generator, kept: float = 0.0) -> Spaces:
    """Shuffled rows in the original space and in Gaussian images of it; a share of the original columns may be kept.

    Args:
        X: (n, d) rows.
        y: (n,) labels.
        widths: d_s of the spaces that follow.
        rng: of order and matrices.
        kept: share of the original columns that the next space has as well, under their names.
    """
    order = rng.permutation(len(y))
    X, y = X[order], y[order]
    d = X.shape[1]
    spaces, names = [np.ascontiguousarray(X)], [[f"s0.{j}" for j in range(d)]]
    for at, width in enumerate(widths, start=1):
        image = X @ rng.normal(size=(d, width)) / np.sqrt(d)
        stay = np.sort(rng.permutation(d)[: round(kept * d)])
        spaces.append(np.ascontiguousarray(np.hstack([X[:, stay], image[:, : width - len(stay)]])))
        names.append([f"s0.{j}" for j in stay] + [f"s{at}.{j}" for j in range(width - len(stay))])
    return Spaces(spaces, names, y)


def image(X: Floats, y: Any, rng: np.random.Generator, noise: float = 0.1) -> Spaces:
    """Rows in their order, and a noisy Gaussian image of them with as many columns, nothing kept."""
    n, d = X.shape
    other = X @ rng.normal(size=(d, d)) / np.sqrt(d) + noise * rng.normal(size=(n, d))
    names = [[f"s{at}.{j}" for j in range(d)] for at in (0, 1)]
    return Spaces([np.ascontiguousarray(X), np.ascontiguousarray(other)], names, y)


class Life:
    """A machine that is fed a stream through switches.

    Args:
        stream: the stream.
        algorithm: id in the catalogue.
        seed: of its draws.
        params: of the algorithm.
    """

    def __init__(self, stream: Spaces, algorithm: str, seed: int = 0, **params: Any) -> None:
        self.stream, self.space = stream, 0
        classes = stream.y.dtype.kind == "i"
        body = {"algorithm": algorithm, "features": stream.names[0], "params": params, "seed": seed}
        body["task"] = "classification" if classes else "regression"
        self.machine = Model.first(Config.parse(body))
        self.version = 0

    def apply(self, segment: Any) -> Any:
        """Apply one segment as an entry of the log; its outcome."""
        self.version += 1
        return apply(self.machine, Entry(self.version, self.version, (segment,)))[0]

    def rows(self, start: int, stop: int, labelled: bool = True) -> Any:
        """A segment of rows of the stream, in whatever space is asked for now."""
        space, held, y = self.machine.feedback_schema, self._columns(), self.stream.y[start:stop]
        assert space is not None
        raw = np.ascontiguousarray(np.stack([held[name][start:stop] for name in space.names], axis=1))
        return (
            Rows(space.id, None, raw, y if y.dtype.kind == "f" else y.tolist()) if labelled else Overlap(space.id, raw)
        )

    def feed(self, start: int, stop: int, block: int = 1000) -> Floats:
        """Learn rows of the stream; their losses."""
        ends = range(start, stop, block)
        outcomes = [self.apply(self.rows(begin, min(begin + block, stop))) for begin in ends]
        assert all(outcome.refusal is None for outcome in outcomes), outcomes
        # before the first label: a miss
        losses = [
            np.nan_to_num(np.array(outcome.losses, np.float64), nan=1.0) for outcome in outcomes
        ]  # before the first label: a miss
        return np.concatenate(losses) if losses else np.empty(0)

    def _columns(self) -> dict[str, Floats]:
        """The columns of this space and of the next one, by name."""
        both = list(zip(self.stream.X, self.stream.names, strict=True))[self.space : self.space + 2]
        return {name: X[:, j] for X, names in both for j, name in enumerate(names)}

    def begin(self, mapping: Any = None) -> None:
        """Start the overlap with the next space."""
        self.apply(Switch("begin", tuple(Feature(name) for name in self.stream.names[self.space + 1]), mapping))
        assert self.machine.phase == "overlap"

    def complete(self) -> None:
        """Go over to the next space."""
        self.apply(Switch("complete"))
        assert self.machine.phase == "ensemble"
        self.space += 1

    def fresh(self) -> Expert:
        """An empty expert of the current space."""
        assert self.machine.prediction_schema is not None
        schema = self.machine.prediction_schema
        expert = Expert(self.machine.config, schema.columns, schema.ranges)
        for _ in self.machine.labels.labels:
            expert.learner.add_class()
        return expert
