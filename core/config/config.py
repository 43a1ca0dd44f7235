"""A model's configuration: the body of PUT /models/{name}, checked, with every default filled in.

A configuration is a value: a change (core.config.changes) makes a new one. Two bodies that mean the same (an integer
where a number is asked for, defaults written out or left out) give equal configurations and equal JSON.
"""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import BeforeValidator, Field, ValidationInfo, ValidatorFunctionWrapHandler, field_validator

from core.config.labels_due import LabelsDue, parse_labels_due
from core.config.scoring import Scoring, settings_object
from core.config.watch import Watch, check_on_drift, with_tests
from core.contract import Floats, Label, Spec, Task
from core.drift.detector import detector_bytes
from core.drift.outbox import OnDrift
from core.features import Feature, Schema, Space, SparseSchema, parse_features
from core.features.feature import NAME_MAX, Declared, GivenLabel, Missing, Name
from core.features.labels import key, parse_declared
from core.features.row_sample import sample_bytes
from core.features.scaling import scaler_bytes
from core.learners.algorithm import Algorithm
from core.learners.catalogue import DEFAULT, find
from core.problems import Checked, Invalid, Problem, Says, by, refuse, suggestion

Unknown = Literal["other", "error"]
_COSTS = "a finite number above 0"
SEED_MAX = 2**53 - 1  # seeds stay exact in every JSON reader
LAGS_MAX = 10  # most earlier rows whose features and labels are columns of the next row
LAG_CLASSES_MAX = 10  # most classes that have a column per lag
IGNORED_MAX = 10_000  # most names in ``ignore``
DESCRIPTION_MAX, TAGS_MAX, KEY_MAX, VALUE_MAX = 2000, 50, 100, 500
"""Characters in a description; tags of a model; characters in the name and in the value of a tag."""
_LATER = ("class_costs", "unknown", "ignore", "lags", "metrics", "labels_due", "description", "tags")
"""Fields that were added later; at their defaults they are left out, as in configurations written before."""
ClassCosts = dict[str, Annotated[float, Field(gt=0)]]
_Labels = Annotated[list[GivenLabel], Field(min_length=2)]
Ignored = Annotated[list[Name], Field(max_length=IGNORED_MAX)]
_DENSE: dict[str, tuple[str, object]] = {
    "features": ("cannot be declared for {}: its rows may have any names at any time", "null"),
    "missing": ("does not apply to {}: an absent name is 0", ["error"]),
    "unknown": ("does not apply to {}: its rows have no categories", ["other"]),
    "ignore": ("does not apply to {}: leave the names out of its rows", []),
    "lags": ("do not apply to {}: its rows have names, not columns", [0]),
}
"""Why a model of sparse rows does not have the field, and what is allowed."""


def _text(value: object, field: str = "", longest: int = DESCRIPTION_MAX) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise Invalid.of(field, "is not a string, or is too long", f"a string of at most {longest} characters")
    if any("\ud800" <= character <= "\udfff" for character in value):  # half a surrogate pair, which is not UTF-8
        raise Invalid.of(field, "is not valid Unicode", "a string")
    return value


def _tags(raw: object) -> Mapping[str, str]:
    """Tags by name, in the order of their names."""
    if not isinstance(raw, Mapping) or len(raw) > TAGS_MAX:
        raise Invalid.of(
            "", "is not an object of tags, or has too many", f"at most {TAGS_MAX} names, each with a string"
        )
    if not all(isinstance(name, str) and 1 <= len(name) <= KEY_MAX and name.isprintable() for name in raw):
        raise Invalid.of("", "has a name that is not allowed for tags", f"1 to {KEY_MAX} printable characters")
    return {name: _text(raw[name], f".{name}", VALUE_MAX) for name in sorted(raw)}


Description = Annotated[str, Field(max_length=DESCRIPTION_MAX), by(_text)]
_TagName = Annotated[str, Field(min_length=1, max_length=KEY_MAX)]
_TagValue = Annotated[str, Field(max_length=VALUE_MAX)]
Tags = Annotated[Mapping[_TagName, _TagValue], Field(max_length=TAGS_MAX), by(_tags)]


class Config(Checked):
    """A model's configuration; ``parse`` reads it from a client's body."""

    strange: ClassVar[str] = "is not a field of a model"

    algorithm_id: Annotated[str, Says("must be a string")] = Field(
        DEFAULT,
        alias="algorithm",
        description="An id from GET /algorithms. Default: `auto`, a mixture of experts of all families.",
    )
    task: Task = Field(
        cast("Task", None),
        validate_default=True,
        description="What to predict. Default: the algorithm's task, if it has only one.",
    )
    params: dict[str, Any] = Field(
        cast("dict[str, Any]", None),
        validate_default=True,
        description="Parameters of the algorithm, see GET /algorithms.",
    )
    features: tuple[Feature, ...] | None = Field(
        None,
        description="Default: the first feedback row determines them. A number is numeric, true and false are boolean, "
        "a string is categorical (hashed).",
    )
    labels: tuple[Label, ...] | None = Field(
        None, description="Classification. Default: classes appear as they arrive."
    )
    missing: Annotated[Missing, Says("is not one of the choices", ["error", "zero", "mean"])] = Field(
        "error", description="How missing values are filled; `error`, the default, refuses them."
    )
    unknown: Annotated[Unknown, Says("is not one of the choices", ["other", "error"])] = Field(
        "other",
        description="How undeclared categories are treated: `other`, the default, sets all columns of the feature to "
        "0; `error` refuses them.",
    )
    ignore: tuple[Name, ...] = Field((), description="Names that rows may have and that are ignored.")
    seed: Annotated[int, Field(ge=0, le=SEED_MAX), Says("must be an integer", f">= 0 and <= {SEED_MAX}")] = Field(
        0, description="Seed of all random draws. Default: 0."
    )
    lags: Annotated[
        int,
        Field(ge=0, le=LAGS_MAX),
        Says("must be an integer: the number of last rows used as columns", f">= 0 and <= {LAGS_MAX}"),
    ] = Field(
        0,
        description="How many of the last learned rows, with their features and labels, are columns of the next row (a "
        f"class as 0 and 1 in a column for each of the first {LAG_CLASSES_MAX}). Every row of a predict request is "
        "predicted as the next one; a tracked row is learned as it was predicted. Default: 0.",
    )
    watch: Watch = Field(
        cast("Watch", {"unlabelled": False}),  # names no test, which means all of them
        validate_default=True,
        description="The drift tests. Default: both with their defaults. `null` and `{}`: none. `vigod` tests class "
        "means by itself, see its `params`.",
    )
    on_drift: OnDrift = Field(
        "report",
        description="The response to the first alarm of an event: only report it (the default), reset the learner, or "
        "make it forget most of its past. `vigod` restarts a class by itself.",
    )
    class_costs: Mapping[str, float] | None = Field(
        None,
        examples=[{"fraud": 20}],
        description="Classification: cost of missing a class, by label; 1 for labels that are not listed. The "
        "prediction is then the label of least expected cost. Default: the most probable label. With costs far from 1, "
        "the drift test `error_rate` fires without a drift several times in 10 000 rows, because predictions move with "
        "the calibration: keep `on_drift` at `report`, or watch only `class_mean`.",
    )
    metrics: Annotated[Scoring, BeforeValidator(settings_object, json_schema_input_type=Scoring | None)] = Field(
        cast("Scoring", {}),
        validate_default=True,
        description="The sliding window and the fading factor of the prequential metrics; fixed at creation.",
    )
    labels_due: Mapping[str, Any] | None = Field(
        None,
        examples=[{"after_s": 2592000, "then": "drop"}],
        description="When tracked predictions stop waiting for their label, instead of ONEPASS_PREDICTION_TTL_S, and "
        'what then: `"drop"` learns nothing, `{"label": ...}` learns the row as that label, within 5 s, once.',
    )
    description: Description = Field("", description="A note for human readers.")
    tags: Tags = Field({}, description="Names and values for finding and grouping models.")

    @field_validator("task", mode="plain", json_schema_input_type=Task | None)
    @classmethod
    def _task(cls, value: object, info: ValidationInfo) -> Any:
        algorithm = _algorithm(info)
        tasks = list(algorithm.tasks)
        if value is None and len(tasks) > 1:
            raise Invalid.of("", f"is required: {algorithm.id} has several tasks", tasks)
        if value is not None and value not in tasks:
            raise Invalid.of("", f"is not a task of {algorithm.id}{suggestion(value, tasks)}", tasks)
        return value or tasks[0]

    @field_validator("params", mode="plain", json_schema_input_type=dict[str, Any] | None)
    @classmethod
    def _params(cls, value: object, info: ValidationInfo) -> dict[str, Any]:
        given = {} if value is None else value
        if not isinstance(given, dict):
            raise Invalid.of("", "must be an object")
        if misplaced := [name for name in given if name in cls.names()]:
            problem = 'is a field of the model: write it next to "params"'
            raise Invalid(*(Problem(f".{name}", problem) for name in misplaced))
        return _algorithm(info).complete(given)

    @field_validator("features", mode="plain", json_schema_input_type=Declared | None)
    @classmethod
    def _features(cls, value: object) -> tuple[Feature, ...] | None:
        return None if value is None else parse_features(value)

    @field_validator("labels", mode="plain", json_schema_input_type=_Labels | None)
    @classmethod
    def _labels(cls, value: object, info: ValidationInfo) -> tuple[Label, ...] | None:
        if value is None:
            return None
        if _given("task", info) == "regression":
            raise Invalid.of("", "are for classification only; a regression model's labels are numbers")
        return parse_declared(value, "", _algorithm(info).class_bound)

    @field_validator("ignore", mode="plain", json_schema_input_type=Ignored | None)
    @classmethod
    def _ignore(cls, value: object, info: ValidationInfo) -> tuple[str, ...]:
        return parse_ignored(value, _given("features", info) or (), "")

    @field_validator("watch", mode="wrap", json_schema_input_type=Watch | None)
    @classmethod
    def _watch(cls, value: object, check: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        return check(with_tests(value, _algorithm(info)))

    @field_validator("on_drift", mode="plain", json_schema_input_type=OnDrift)
    @classmethod
    def _on_drift(cls, value: Any, info: ValidationInfo) -> OnDrift:
        return check_on_drift(value, _given("watch", info).tests, _algorithm(info))

    @field_validator("class_costs", mode="plain", json_schema_input_type=ClassCosts | None)
    @classmethod
    def _class_costs(cls, value: object, info: ValidationInfo) -> dict[str, float] | None:
        if value is None:
            return None
        algorithm, labels = _algorithm(info), _given("labels", info)
        if _given("task", info) == "regression":
            raise Invalid.of("", "are for classification only")
        if not algorithm.probabilities:
            raise Invalid.of("", f"need probabilities, which {algorithm.id} does not have")
        if not isinstance(value, dict) or len(value) > algorithm.class_bound:
            raise Invalid.of("", "must be an object: the cost of missing a class, by label", _COSTS)
        known = None if labels is None else [key(label) for label in labels]
        refuse([problem for name, cost in value.items() for problem in _wrong_cost(name, cost, known)])
        costs = {name: float(cost) for name, cost in value.items()}
        return {name: cost for name, cost in costs.items() if cost != 1.0} or costs or None  # others cost 1 anyway

    @field_validator("labels_due", mode="plain", json_schema_input_type=LabelsDue | None)
    @classmethod
    def _labels_due(cls, value: object, info: ValidationInfo) -> dict[str, Any] | None:
        return parse_labels_due(value, _given("task", info), _given("labels", info))

    @field_validator("features", "missing", "unknown", "ignore", "lags", mode="before")
    @classmethod
    def _dense(cls, value: object, info: ValidationInfo) -> object:
        """Refuse these fields for models of sparse rows, which take every name and never miss one."""
        field = info.field_name or ""
        why, allowed = _DENSE[field]
        if value and value != cls.model_fields[field].default and (algorithm := _algorithm(info)).sparse:
            raise Invalid.of("", why.format(algorithm.id), allowed)
        return value

    @classmethod
    def accepted(cls, raw: Mapping[str, Any]) -> Self:
        """A configuration that was accepted before; its ``ignore`` may name features that a switch has dropped."""
        found = cls.parse({name: value for name, value in raw.items() if name != "ignore"})
        return found.model_copy(update={"ignore": parse_ignored(raw.get("ignore"), ())})

    def to_json(self) -> dict[str, Any]:
        """The configuration as ``parse`` reads it, complete except for later fields at their defaults.

        This way, a configuration written before a field existed still equals itself.
        """
        fields = type(self).model_fields
        values = {own.alias or name: _plain(getattr(self, name)) for name, own in fields.items()}
        later = {name: value for name in _LATER if (value := values.pop(name)) != _plain(fields[name].default)}
        return values | later

    @property
    def without_features(self) -> dict[str, Any]:
        """The configuration as JSON without its features, of which there may be thousands."""
        return self.model_copy(update={"features": None}).to_json()

    @property
    def canonical(self) -> str:
        """The configuration as text: equal configurations, and only those, have equal text (0 is not False)."""
        return json.dumps(self.to_json(), sort_keys=True, ensure_ascii=False)

    @cached_property
    def algorithm(self) -> Algorithm:
        """The algorithm, from the catalogue."""
        return find(self.algorithm_id)

    @property
    def space(self) -> Space | None:
        """How rows are read, as far as the configuration says; None: the first feedback row fixes the features."""
        if self.algorithm.sparse:
            return SparseSchema(self.seed, self.params["compressed_dim"], self.params["projection"])
        return None if self.features is None else Schema(self.features)

    @property
    def cost_max(self) -> float:
        """The largest cost of missing any label that exists or may still appear."""
        costs = self.class_costs or {}
        all_named = self.labels is not None and {key(label) for label in self.labels} <= costs.keys()
        return max([*costs.values(), *([] if all_named else [1.0])])

    def spec(self, dimension: int, ranges: Floats | None = None) -> Spec:
        """The arguments of a learner with ``dimension`` encoded columns, including lag columns.

        ``ranges``: (2, D) declared ends of the learner's columns, NaN where there are none; None: no column has any.
        """
        pairs = [] if ranges is None else ranges.T.tolist()
        declared = tuple(None if math.isnan(low) or math.isnan(high) else (low, high) for low, high in pairs)
        lagged = dimension - (dimension - self.lag_width(0)) // (1 + self.lags)
        return Spec(self.task, dimension, self.params, self.seed, declared if any(declared) else (), lagged)

    @property
    def lag_classes(self) -> int | None:
        """How many classes, the first ones seen, have a column for every lag; None: labels are numbers."""
        if self.task == "regression":
            return None
        return LAG_CLASSES_MAX if self.labels is None else min(len(self.labels), LAG_CLASSES_MAX)

    def lag_width(self, dimension: int) -> int:
        """How many lag columns a space of ``dimension`` encoded columns has."""
        return self.lags * (dimension + (self.lag_classes or 1))

    def state_bytes(self, dimension: int, classes: int | None = None) -> int:
        """Bytes the state of learner, scaler, lag columns, drift tests, row sample and a long window of metrics takes.

        ``dimension``: encoded columns; ``classes``: their number; None: the number of declared labels, or two.
        """
        classes, regression = classes or len(self.labels or (0, 1)), self.task == "regression"
        lags = self.lag_width(dimension)
        own = self.algorithm.state_bytes(self.spec(dimension + lags), classes)
        watch = detector_bytes(self.watch.tests, dimension, 1 if regression else classes, regression)
        scaler = scaler_bytes(self.params.get("scaling", "none"), dimension + lags)
        sample = 0 if self.algorithm.sparse else sample_bytes(dimension + lags)
        return own + watch + scaler + 8 * lags + sample + self.metrics.bytes(self.task)


def _given(field: str, info: ValidationInfo) -> Any:
    """The value of an earlier field; ``ValueError`` if that was refused: then its error is the one reported."""
    if field not in info.data:
        raise ValueError(f"{field} is wrong")
    return info.data[field]


def _algorithm(info: ValidationInfo) -> Algorithm:
    return find(_given("algorithm_id", info))


def _wrong_cost(name: str, cost: object, known: list[str] | None) -> list[Problem]:
    """The problems with the cost of the label with this JSON key; ``known``: the keys of the declared labels."""
    if known is not None and name not in known:
        return [Problem(f".{name}", "is not one of the declared labels", known)]
    fine = not isinstance(cost, bool) and isinstance(cost, int | float) and 0 < cost <= sys.float_info.max
    return [] if fine else [Problem(f".{name}", "is not a valid cost", _COSTS)]


def as_text(value: object) -> str:
    """A JSON value as text, in which 0 is not False."""
    return json.dumps(value, sort_keys=True)


def _plain(value: Any) -> Any:
    """A field as JSON."""
    if isinstance(value, tuple):
        return [one.to_json() if isinstance(one, Feature) else one for one in value]
    if isinstance(value, Watch | Scoring):
        return value.to_json()
    return dict(value) if isinstance(value, Mapping) else value


def parse_ignored(raw: object, features: Sequence[Feature], field: str = "ignore") -> tuple[str, ...]:
    """The distinct names of a body's ``ignore``; null means none.

    ``Invalid`` if it is not a list of names, or if some are declared features, of which it lists the first 20.
    """
    if raw is None:
        return ()
    if not isinstance(raw, list | tuple) or len(raw) > IGNORED_MAX:
        raise Invalid.of(field, "is not a list of names", f"0 to {IGNORED_MAX} names")
    own = {feature.name for feature in features}
    allowed = f"1 to {NAME_MAX} characters, not a declared feature"
    problems = []
    for at, name in enumerate(raw):
        if not isinstance(name, str) or not 1 <= len(name) <= NAME_MAX:
            problems.append(Problem(f"{field}[{at}]", "is not a name", allowed))
        elif name in own:
            problems.append(Problem(f"{field}[{at}]", "is a declared feature", allowed))
    refuse(problems)
    return tuple(dict.fromkeys(raw))
