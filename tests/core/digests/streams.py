"""The thirty streams of tests.benchmarks.state_digests, and their rows."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

ROWS = 2000
SHIFT, FLIP, BACK = 280, 620, 800
"""The rows where the values shift, where the labels flip, and where the values shift back."""
LABELS = ("UP", "DOWN", 0)
WORDS = 24
DAY = {"name": "day", "type": "categorical", "categories": ["mon", "tue", "wed"]}
LOAD = {"name": "load", "min": -4, "max": 4}
TIGHT = {"name": "load", "min": -1, "max": 1, "outside": "clip"}
CITY, SENT = {"name": "city", "type": "categorical", "buckets": 4}, {"name": "sent", "type": "time"}
OLD, NEW = ("a", DAY, LOAD, "b"), ("p", DAY, "q", "b")
KINDS = ("a", DAY, TIGHT, {"name": "open", "type": "boolean"}, CITY, SENT, "b")
WIDE = tuple(f"x{at}" for at in range(260))
WATCH = {"class_mean": {"batch_size": 40}, "error_rate": {"batch_size": 40}, "episode_rows": 150}
ERRORS = {"error_rate": {"batch_size": 40}}
FIXED, STIFF = {"forgetting_rate": 0.01}, {"initial_variance": 1e-4}


class Stream(NamedTuple):
    """A model and its rows.

    Attributes:
        config: configuration fields other than algorithm and task.
        features: the features of its rows; () for words.
        change: the features it changes to; () for no change.
        gaps: the share of missing values.
        weights, discounts: whether the rows have them.
        challengers: their bodies; a challenger without automatic promotion is promoted on request.
    """

    algorithm: str
    task: str = "classification"
    config: Mapping[str, Any] = {}
    features: tuple[Any, ...] = OLD
    change: tuple[Any, ...] = NEW
    gaps: float = 0.0
    weights: bool = True
    discounts: bool = False
    challengers: Mapping[str, Any] = {}


SPARSE = {"config": {"watch": ERRORS, "params": {"compressed_dim": 24}}, "features": (), "change": ()}
STREAMS = {
    "dfop": Stream("dfop"),
    "dfop regression": Stream("dfop", "regression"),
    "dfop reset": Stream("dfop", config={"params": {**FIXED, "scaling": "robust"}, "on_drift": "reset"}),
    "dfop forget": Stream("dfop", "regression", {"params": FIXED, "on_drift": "forget"}),
    "dfop gaps": Stream("dfop", "regression", {"missing": "mean"}, gaps=0.1),
    "dfop lags": Stream("dfop", "regression", {"lags": 2}),
    "dfop random features": Stream("dfop", config={"params": {"random_features": 16}}),
    "dfop wide": Stream("dfop", "regression", {"params": FIXED}, features=WIDE, change=()),
    "gdfop": Stream("gdfop", discounts=True),
    "gdfop regression": Stream("gdfop", "regression", weights=False, discounts=True),
    "rls": Stream("rls", config={"missing": "zero"}, gaps=0.1),
    "rls regression": Stream("rls", "regression", weights=False),
    "sparse_dfop": Stream("sparse_dfop", **SPARSE),
    "sparse_dfop regression": Stream("sparse_dfop", "regression", **SPARSE),
    "odm": Stream("odm", config={"params": {"random_features": 20}}),
    "dynamic_odm reset": Stream("dynamic_odm", config={"on_drift": "reset"}),
    "vigo": Stream("vigo", weights=False),
    "vigod": Stream("vigod", config={"params": {"batch_size": 60}}, weights=False),
    "vigow forget": Stream("vigow", config={"on_drift": "forget"}, weights=False),
    "fesl_c": Stream("fesl_c"),
    "fesl_c regression": Stream("fesl_c", "regression", weights=False),
    "fesl_s": Stream("fesl_s"),
    "fesl_s regression": Stream("fesl_s", "regression", weights=False),
    "ga2m": Stream("ga2m"),
    "ga2m regression": Stream("ga2m", "regression"),
    "auto": Stream("auto", config={"params": {"size": "small"}}),
    "auto regression": Stream("auto", "regression"),
    "class costs": Stream("fesl_c", config={"labels": [*LABELS], "class_costs": {"UP": 5, "0": 2}, "watch": ERRORS}),
    "kinds of features": Stream("dfop", config={"features": [*KINDS], "missing": "mean"}, features=KINDS, gaps=0.05),
    "challenger promoted": Stream(
        "rls",
        "regression",
        {"params": STIFF, "on_drift": "reset", "watch": {**WATCH, "episode_rows": 30, "cooldown_rows": 90}},
        challengers={"better": {"algorithm": "dfop", "promote": "auto"}},
    ),
    "challenger asked for": Stream(
        "vigo",
        weights=False,
        challengers={"other": {"algorithm": "dfop", "lags": 1}, "auto": {"algorithm": "auto", "watch": WATCH}},
    ),
}


class Request(NamedTuple):
    """Rows sent together."""

    rows: list[dict[str, Any]]
    labels: Any
    weights: Any
    discounts: Any


class Source:
    """The rows of a stream; they drift."""

    def __init__(self, stream: Stream) -> None:
        rng = np.random.default_rng(7)
        self._stream, self._at = stream, 0
        hidden = rng.normal(size=(ROWS, 4))
        hidden[SHIFT:BACK] += 2.0
        values = hidden @ rng.normal(size=(4, 5)) + rng.normal(size=(ROWS, 5)) / 5
        self._columns = dict(zip(("a", "load", "b", "p", "q"), values.T.tolist(), strict=True))
        self._columns["day"] = rng.choice(["mon", "tue", "wed", "sun"], ROWS, p=[0.4, 0.3, 0.28, 0.02]).tolist()
        self._columns["city"] = rng.choice(["Rome", "Oslo", "Lima"], ROWS).tolist()
        self._columns["open"] = (hidden[:, 1] > 0).tolist()
        self._columns["sent"] = [f"2026-03-{1 + at // 60:02}T{at // 60 % 24:02}:{at % 60:02}:00Z" for at in range(ROWS)]
        score = hidden @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=ROWS) / 5
        self._words: list[dict[str, Any]] = []
        if stream.features is WIDE:
            wide = rng.normal(size=(ROWS, len(WIDE))) + hidden[:, :1]
            self._columns |= dict(zip(WIDE, wide.T.tolist(), strict=True))
        elif not stream.features:
            bag = rng.normal(size=(ROWS, WORDS)) * (rng.random((ROWS, WORDS)) < 0.3)
            self._words = [{f"w{at}": float(row[at]) for at in np.flatnonzero(row)} for row in bag]
            score = bag @ rng.normal(size=WORDS) / 2
        score[FLIP:] *= -1.0
        self._gaps = rng.random((ROWS, 16)) < stream.gaps
        self._weights, self._discounts = rng.uniform(0.5, 2.0, ROWS), rng.uniform(0.95, 1.0, ROWS)
        self._labels = score if stream.task == "regression" else _classes(score)

    def rows(self, count: int, features: tuple[Any, ...]) -> tuple[list[dict[str, Any]], slice]:
        """The next rows, with the given features, and their positions in the stream."""
        part = slice(self._at, self._at + count)
        self._at = part.stop
        if not self._stream.features:
            return self._words[part], part
        names = dict.fromkeys(one if isinstance(one, str) else one["name"] for one in features)
        return [self._row(at, [*names]) for at in range(part.start, part.stop)], part

    def _row(self, at: int, names: list[str]) -> dict[str, Any]:
        gaps = self._gaps[at] if self._at > 1 else ()  # the first row has no gaps
        missing = {name for name, gap in zip(names, gaps, strict=False) if gap}
        return {name: None if name in missing else self._columns[name][at] for name in names}

    def request(self, count: int, features: tuple[Any, ...]) -> Request:
        """The next rows with their labels."""
        rows, part = self.rows(count, features)
        weights = self._weights[part] if self._stream.weights and part.start % 2 else None
        return Request(rows, self.labels(part), weights, self._discounts[part] if self._stream.discounts else None)

    def labels(self, part: slice) -> Any:
        return self._labels[part]


def _classes(score: Any) -> list[Any]:
    """Labels; two of the three first appear later."""
    known = np.minimum(1 + np.arange(ROWS) // 30, len(LABELS))
    return [LABELS[at] for at in np.clip(np.floor((score + 2) / 4 * known), 0, known - 1).astype(int)]
