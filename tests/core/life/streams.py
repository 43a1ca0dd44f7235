"""Configurations and rows for the lives of models: a stream that has every name and shifts on demand."""

import numpy as np
from hypothesis import strategies as st

from core.config.watch import kinds
from core.contract import WEIGHT_MAX, WEIGHT_MIN
from core.features import Schema, SparseSchema, parse_features

DAY = {"name": "day", "type": "categorical", "categories": ["mon", "tue", "wed"]}
EPISODES = {"episode_rows": 25}
"""Short, so that a life has several."""
OTHER_DAY = {**DAY, "categories": ["tue", "wed", "thu", "mon"]}
RANGED = {"name": "a", "type": "numeric", "min": -5, "max": 5, "outside": "clip"}
SPACES = (["a", "b", "c"], ["p", DAY, "q"], ["c", "q", "s", "t"], ["v"], [RANGED, "b", OTHER_DAY, "v"])
"""Names stay, leave and return; in the last space "a" has a range and "day" has other categories."""
KINDS = [RANGED, DAY, {"name": "b", "type": "boolean"}, {"name": "c", "buckets": 4}, {"name": "p", "type": "time"}, "q"]
WIDE = tuple(f"a {at}" for at in range(260))
"""A feature of every type; so many that blocks are matrix products, which are all multiples of "a"."""
FEATURES = tuple(parse_features(space) for space in SPACES)
PROPOSALS = (("a", "b", "c"), ("b", "a"))
"""Names of a first row."""
NAMES = sorted({feature.name for features in FEATURES for feature in features})
LABELS = ("UP", 0, False, "")
CLASHING = "false"
"""Has the same JSON key as False."""
COSTS = {"UP": 7, "0": 0.1, "": 1e300}
ROWS = 4096
JUMP = 100.0
NUMBERS = {
    "batch_size": 10, "compressed_dim": 4, "random_features": 3, "horizon": 50, "candidates": 3, "learning_rate": 0.1,
    "forgetting_rate": 0.05, "delta": 0.5, "size": "small",
}  # fmt: skip
"""Values for parameters other than their defaults, chosen to take effect within some tens of rows."""
ALWAYS = {"batch_size", "compressed_dim", "size"}
"""Parameters that never keep their default: with it a life would be uneventful or slow."""

_rng = np.random.default_rng(11)
_hidden = _rng.normal(size=(ROWS, 3))
_values = _hidden @ _rng.normal(size=(3, len(NAMES))) + _rng.normal(size=(ROWS, len(NAMES))) / 5
_days = _rng.integers(0, 3, ROWS)
_score = _hidden @ [1.0, -1.0, 0.5] + _rng.normal(size=ROWS) / 5
_chance = _rng.random((ROWS, len(NAMES)))
_discounts = _rng.uniform(0.9, 1.0, ROWS)
_weights = np.random.default_rng(12).choice([WEIGHT_MIN, 0.5, 1.0, 7.0, WEIGHT_MAX], ROWS)
WEATHER = {
    "plain": (1.0, 1.0),
    "huge": (1e30, 1e30),
    "tiny": (1e-30, 1e-30),
    "wild": (1e30, 1e-30),
    "still": (0.0, 0.0),
}
"""Factors for some rows, and for others."""


class Stream:
    """An endless stream of labelled rows.

    ``sign`` is -1 after the labels have flipped, ``weather`` a key of WEATHER; with ``gaps`` some values are missing.
    """

    def __init__(self, task):
        self.task = task
        self.at, self.classes, self.shift, self.sign = 0, 2, 0.0, 1
        self.weather, self.gaps = "plain", False

    def take(self, count):
        """Positions of the next rows."""
        places = np.arange(self.at, self.at + count) % ROWS
        self.at += count
        return places

    def raw(self, space, places):
        """Raw rows (n, F) of a space."""
        if isinstance(space, SparseSchema):
            values = [self._column(name, places).tolist() for name in NAMES]
            rows = [list(row) for row in zip(*values, strict=True)]
            return space.lists([[name for name in NAMES if (at + len(name)) % 3] for at in places],
                               [[value for value, name in zip(row, NAMES, strict=True) if (at + len(name)) % 3]
                                for row, at in zip(rows, places, strict=True)])  # fmt: skip
        X = np.column_stack([self._cells(feature, places) for feature in space.features])
        if self.gaps:
            X[_chance[places][:, np.arange(X.shape[1]) % len(NAMES)] < 0.15] = np.nan
        return np.ascontiguousarray(X)

    def _cells(self, feature, places):
        if feature.categories or feature.buckets:
            return _days[places].astype(float)
        if feature.type == "boolean":
            return (_days[places] == 1).astype(float)
        return 1.7e9 + 3600.0 * places if feature.type == "time" else self._column(feature.name, places)

    def _column(self, name, places):
        name, _, multiple = name.partition(" ")
        column = NAMES.index(name)
        first, second = WEATHER[self.weather]
        some, others = _chance[places, column] < 0.1, _chance[places, column] > 0.9
        values = _values[places, column] + self.shift
        values = np.full(len(places), 1.0) if self.weather == "still" else values
        values = np.where(some, values * first, np.where(others, values * second, values))
        return values * (1 + int(multiple)) if multiple else values

    def labels(self, places):
        """Labels as values, or numbers (n,)."""
        score = self.sign * _score[places]
        if self.task == "regression":
            return score * (1e30 if self.weather == "wild" and places[0] % 4 == 0 else 1.0)
        place = np.clip(np.floor((score + 2) / 4 * self.classes), 0, self.classes - 1).astype(int)
        return [LABELS[at] for at in place]

    @staticmethod
    def discounts(places):
        return _discounts[places].copy()

    @staticmethod
    def weights(places):
        """Weights (n,), some with the smallest or largest allowed value."""
        return _weights[places].copy()


def params(entry):
    """Parameters of an algorithm: defaults, other choices, small numbers."""
    drawn = {}
    for param in entry.params:
        choices = list(param.choices) if param.kind == "choice" else [param.default]
        if param.kind == "boolean":
            choices = [True, False]
        if param.name in NUMBERS:
            choices = [NUMBERS[param.name]] if param.name in ALWAYS else [*choices, NUMBERS[param.name]]
        drawn[param.name] = st.sampled_from(choices)
    return st.fixed_dictionaries(drawn)


@st.composite
def bodies(draw, entry, task):
    """Configurations of models as clients send them."""
    body = {"algorithm": entry.id, "task": task, "params": draw(params(entry))}
    if not entry.sparse:
        body["features"] = draw(st.sampled_from([SPACES[0], SPACES[4], None]))
        body["missing"] = draw(st.sampled_from(["error", "mean", "zero"]))
        body["lags"] = draw(st.sampled_from([0, 0, 1, 3]))
    if task == "classification":
        body["labels"] = draw(st.sampled_from([None, list(LABELS)]))
        body["class_costs"] = draw(st.sampled_from([None, COSTS]))
    watched = draw(st.sampled_from([kinds(entry)] * 4 + [("error_rate",), ()]))
    body["watch"] = _watch(watched)
    actions = ["report", "reset", "forget"] if entry.forgets else ["report", "reset"]
    body["on_drift"] = draw(st.sampled_from(actions)) if watched else "report"
    return body


def plain_body(entry, task, action):
    """The configuration of a model with a watch, an action and small batches."""
    found = {param.name: NUMBERS[param.name] for param in entry.params if param.name in ALWAYS}
    body = {"algorithm": entry.id, "task": task, "params": found, "on_drift": action, "watch": _watch(kinds(entry))}
    if entry.sparse or action == "report":
        return body
    return {**body, "features": SPACES[0], "lags": 2 if action == "reset" else 0}


def _watch(tests):
    return {**{kind: {"batch_size": 8, "delta": 0.5} for kind in tests}, **EPISODES} if tests else None


def space_of_names(names):
    """The space fixed by a first row with these names."""
    return Schema(parse_features(list(names)))
