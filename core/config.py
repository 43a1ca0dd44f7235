"""A model's configuration: the body of PUT /models/{name}, checked, with every default filled in.

A configuration is a value: a change (core.config_changes) makes another one of it. Two bodies that mean the same (an
integer where a number is asked for, defaults written out or left out) give equal configurations and equal JSON.
"""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from core.algorithm import Algorithm
from core.annotations import parse_description, parse_tags
from core.contract import Floats, Spec, Task
from core.drift.config import OnDrift, Watch, parse_on_drift, parse_watch
from core.drift.detector import detector_bytes
from core.features import NAME_MAX, Feature, Schema, Space, SparseSchema, parse_features
from core.features.labels import Label, LabelSet, key, parse_declared
from core.features.scaling_parameter import scaler_bytes
from core.learners.catalogue import DEFAULT, find
from core.problems import PROBLEMS_MAX, Invalid, Problem, suggestion

Missing = Literal["error", "zero", "mean"]
_IGNORED = f"1 to {NAME_MAX} characters, of no declared feature"
MISSING: tuple[Missing, ...] = ("error", "zero", "mean")
_COSTS = "a finite number above 0"
SEED_MAX = 2**53 - 1
"""Seeds stay exact in every JSON reader."""
Unknown = Literal["other", "error"]
UNKNOWN: tuple[Unknown, ...] = ("other", "error")
LAGS_MAX = 10
"""Rows whose features and labels are columns of the next row."""
LAG_CLASSES_MAX = 10
"""Classes that have a column for every lag."""
IGNORED_MAX = 10_000
"""Names of features that are passed over."""
FIELDS = (
    "algorithm",
    "task",
    "params",
    "features",
    "labels",
    "missing",
    "unknown",
    "ignore",
    "seed",
    "lags",
    "watch",
    "on_drift",
    "class_costs",
    "description",
    "tags",
)


@dataclass(frozen=True, slots=True)
class Config:
    """A model's configuration.

    Attributes:
        algorithm_id: id in the catalogue.
        task: "classification" or "regression".
        params: every parameter of the algorithm.
        features: the declared features, or None: the first feedback row fixes them.
        labels: the declared classes, or None: classes appear as they come.
        missing: what a missing value becomes.
        seed: seed of every draw.
        watch: the drift tests that run, and what becomes of their alarms.
        on_drift: what the first alarm of an episode does to the model.
        class_costs: what missing a class costs, by the JSON key of its label; 1 for a class that is not named. None:
            1 for all.
        unknown: what a category that is not declared becomes.
        ignore: names of no feature that rows may hold.
        lags: how many of the last rows learned are columns of the next one, features and labels.
        description, tags: notes by people; nothing depends on them.
    """

    algorithm_id: str
    task: Task
    params: Mapping[str, Any]
    features: tuple[Feature, ...] | None = None
    labels: tuple[Label, ...] | None = None
    missing: Missing = "error"
    seed: int = 0
    watch: Watch = field(default_factory=Watch)
    on_drift: OnDrift = "report"
    class_costs: Mapping[str, float] | None = None
    unknown: Unknown = "other"
    ignore: tuple[str, ...] = ()
    lags: int = 0
    description: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> "Config":
        """Check a client's body and fill in the defaults.

        Raises:
            Invalid: naming the field and what would be allowed.
        """
        for name in raw:
            if name not in FIELDS:
                raise Invalid.of(name, "is not a field of a model" + suggestion(name, FIELDS), list(FIELDS))
        algorithm = find(_text(raw, "algorithm") if "algorithm" in raw else DEFAULT)
        task = _task(raw.get("task"), algorithm)
        features, labels = raw.get("features"), raw.get("labels")
        declared = None if labels is None else _labels(labels, task, algorithm.class_bound)
        watch = parse_watch(raw, algorithm)
        if algorithm.sparse:
            _refuse_dense(algorithm, raw)
        own = None if features is None else parse_features(features)
        return cls(
            algorithm_id=algorithm.id,
            task=task,
            params=algorithm.complete(_params(raw.get("params"))),
            features=own,
            labels=declared,
            missing=_missing(raw.get("missing", "error")),
            seed=_seed(raw.get("seed", 0)),
            watch=watch,
            on_drift=parse_on_drift(raw, watch.tests, algorithm),
            class_costs=_class_costs(raw.get("class_costs"), task, algorithm, declared),
            unknown=_unknown(raw.get("unknown", "other")),
            ignore=parse_ignored(raw.get("ignore"), own or ()),
            lags=_lags(raw.get("lags", 0), algorithm),
            description=parse_description(raw.get("description", "")),
            tags=parse_tags(raw.get("tags", {})),
        )

    def to_json(self) -> dict[str, Any]:
        """The configuration as ``parse`` reads it, complete but for later fields that have their default.

        So that configurations written before a field was there stay equal to themselves.
        """
        costs = None if self.class_costs is None else dict(self.class_costs)
        later = {
            "class_costs": costs,
            "unknown": None if self.unknown == "other" else self.unknown,
            "ignore": list(self.ignore),
            "lags": self.lags,
            "description": self.description,
            "tags": dict(self.tags),
        }
        return {
            "algorithm": self.algorithm_id,
            "task": self.task,
            "params": dict(self.params),
            "features": None if self.features is None else [feature.to_json() for feature in self.features],
            "labels": None if self.labels is None else list(self.labels),
            "missing": self.missing,
            "seed": self.seed,
            "watch": self.watch.to_json(),
            "on_drift": self.on_drift,
            **{name: value for name, value in later.items() if value},
        }

    @property
    def canonical(self) -> str:
        """The configuration as text: equal configurations, and only those, have equal text (0 is not False)."""
        return json.dumps(self.to_json(), sort_keys=True, ensure_ascii=False)

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm, from the catalogue."""
        return find(self.algorithm_id)

    @property
    def space(self) -> Space | None:
        """How rows are read, as far as the configuration says; None: the first feedback row fixes the features."""
        if self.algorithm.sparse:
            return SparseSchema(self.seed, self.params["compressed_dim"], self.params["projection"])
        return None if self.features is None else Schema(self.features)

    def costs_of(self, labels: LabelSet) -> list[float]:
        """What missing each of some labels costs, in their order; nothing where nothing is said of costs."""
        costs = self.class_costs
        return [] if costs is None else [costs.get(name, 1.0) for name in labels.keys]

    @property
    def cost_max(self) -> float:
        """The largest cost of missing any label that there is or may come to be."""
        costs = self.class_costs or {}
        all_named = self.labels is not None and {key(label) for label in self.labels} <= costs.keys()
        return max([*costs.values(), *([] if all_named else [1.0])])

    def spec(self, dimension: int, ranges: Floats | None = None) -> Spec:
        """What the learner is built from.

        Args:
            dimension: D, encoded columns.
            ranges: (2, D) declared ends of what the learner sees, NaN where there are none; None: of no column.
        """
        pairs = [] if ranges is None else ranges.T.tolist()
        declared = tuple(None if math.isnan(low) or math.isnan(high) else (low, high) for low, high in pairs)
        return Spec(self.task, dimension, self.params, self.seed, declared if any(declared) else ())

    @property
    def lag_classes(self) -> int | None:
        """Classes that have a column for every lag: the first ones seen; None: labels are numbers."""
        if self.task == "regression":
            return None
        return LAG_CLASSES_MAX if self.labels is None else min(len(self.labels), LAG_CLASSES_MAX)

    def lag_width(self, dimension: int) -> int:
        """How many lag columns a space of so many encoded columns has."""
        return self.lags * (dimension + (self.lag_classes or 1))

    def state_bytes(self, dimension: int, classes: int | None = None) -> int:
        """Bytes the state of learner, scaler, lag columns and drift tests takes.

        Args:
            dimension: encoded columns.
            classes: how many; None: as many as are declared, or two.
        """
        classes, regression = classes or len(self.labels or (0, 1)), self.task == "regression"
        lags = self.lag_width(dimension)
        own = self.algorithm.state_bytes(self.spec(dimension + lags), classes)
        watch = detector_bytes(self.watch.tests, dimension, 1 if regression else classes, regression)
        return own + watch + scaler_bytes(self.params.get("scaling", "none"), dimension + lags) + 8 * lags


def _text(raw: Mapping[str, Any], field: str) -> str:
    value = raw[field]
    if not isinstance(value, str):
        raise Invalid.of(field, "must be a string")
    return value


def _task(value: object, algorithm: Algorithm) -> Task:
    if value is None and len(algorithm.tasks) == 1:
        return algorithm.tasks[0]
    if value is None:
        raise Invalid.of("task", f"is required: {algorithm.id} has several tasks", list(algorithm.tasks))
    if value not in algorithm.tasks:
        raise Invalid.of(
            "task", f"is not a task of {algorithm.id}{suggestion(value, algorithm.tasks)}", list(algorithm.tasks)
        )
    return value


def _params(value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Invalid.of("params", "must be an object")
    if misplaced := [name for name in value if name in FIELDS]:
        said = 'is a field of the model: it stands beside "params"'
        raise Invalid(*(Problem(f"params.{name}", said) for name in misplaced))
    return value


def _labels(value: object, task: Task, bound: int) -> tuple[Label, ...]:
    if task == "regression":
        raise Invalid.of("labels", "go with classification only; a regression model's labels are numbers")
    return parse_declared(value, bound=bound)


def _class_costs(
    value: object, task: Task, algorithm: Algorithm, labels: tuple[Label, ...] | None
) -> dict[str, float] | None:
    """Costs by the JSON keys of labels; None where none is named."""
    if value is None:
        return None
    if task == "regression":
        raise Invalid.of("class_costs", "go with classification only: a regression has no classes to miss")
    if not algorithm.probabilities:
        raise Invalid.of("class_costs", f"need probabilities, and {algorithm.id} has none")
    if not isinstance(value, dict) or len(value) > algorithm.class_bound:
        raise Invalid.of("class_costs", "must be an object of the costs of missing a class, by its label", _COSTS)
    problems: list[Problem] = []
    known = None if labels is None else [key(label) for label in labels]
    for name, cost in value.items():
        if known is not None and name not in known:
            problems.append(Problem(f"class_costs.{name}", "is not one of the declared labels", known))
        elif isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 < cost <= sys.float_info.max:
            problems.append(Problem(f"class_costs.{name}", "is not what missing a class can cost", _COSTS))
    if problems:
        raise Invalid(*problems[:PROBLEMS_MAX])
    return {name: float(cost) for name, cost in value.items()} or None


def _refuse_dense(algorithm: Algorithm, raw: Mapping[str, Any]) -> None:
    """A model of sparse rows takes every name, and none is ever missing."""
    if raw.get("features") is not None:
        raise Invalid.of(
            "features", f"are not declared for {algorithm.id}: its rows may hold any names at any time", "null"
        )
    if raw.get("missing", "error") != "error":
        raise Invalid.of("missing", f"has no meaning for {algorithm.id}: a name that is absent is 0", ["error"])
    if raw.get("unknown", "other") != "other":
        raise Invalid.of("unknown", f"has no meaning for {algorithm.id}: its rows hold no categories", ["other"])
    if raw.get("ignore"):
        raise Invalid.of("ignore", f"is not for {algorithm.id}: leave the names out of its rows", [])


def _missing(value: object) -> Missing:
    if value not in MISSING:
        raise Invalid.of("missing", "is not one of the choices", list(MISSING))
    return value


def _unknown(value: object) -> Unknown:
    if value not in UNKNOWN:
        raise Invalid.of("unknown", "is not one of the choices" + suggestion(value, UNKNOWN), list(UNKNOWN))
    return value


def parse_ignored(raw: object, features: Sequence[Feature], field: str = "ignore") -> tuple[str, ...]:
    """The names of a body's ``ignore``, each once; null for none.

    Raises:
        Invalid: not a list of names, or one of them is a declared feature; the first 20 of them.
    """
    if raw is None:
        return ()
    if not isinstance(raw, list | tuple) or len(raw) > IGNORED_MAX:
        raise Invalid.of(field, "is not a list of names", f"0 to {IGNORED_MAX} names")
    own = {feature.name for feature in features}
    problems = [
        Problem(
            f"{field}[{at}]",
            "is a declared feature" if isinstance(name, str) and name in own else "is not a name",
            _IGNORED,
        )
        for at, name in enumerate(raw)
        if not isinstance(name, str) or not 1 <= len(name) <= NAME_MAX or name in own
    ]
    if problems:
        raise Invalid(*problems[:PROBLEMS_MAX])
    return tuple(dict.fromkeys(raw))


def _lags(value: object, algorithm: Algorithm) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LAGS_MAX:
        raise Invalid.of("lags", "must be an integer: how many of the last rows are columns", f">= 0 and <= {LAGS_MAX}")
    if value and algorithm.sparse:
        raise Invalid.of("lags", f"are not for {algorithm.id}: its rows have names, not columns", [0])
    return value


def _seed(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= SEED_MAX:
        raise Invalid.of("seed", "must be an integer", f">= 0 and <= {SEED_MAX}")
    return value
