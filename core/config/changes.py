"""Changes of a model's configuration: which fields can change while the model learns, and what to do about the others.

    changed(config, {"on_drift": "reset", "missing": None})     named fields are replaced, the others stay

A field has the same form as in the body that creates a model. Null restores its default; for ``watch`` it turns the
tests off, as at creation. Algorithm, task, parameters, seed and lags define the learner's mathematics, and the metrics'
window the rows that are kept: if they changed, the state would not fit any model. ``interchangeable`` says whether a
model can take over a state of another configuration.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from core.config.config import ClassCosts, Config, Description, Ignored, Tags, Unknown, as_text
from core.config.labels_due import LabelsDue
from core.config.watch import Watch
from core.contract import Label
from core.drift.outbox import OnDrift
from core.features.feature import Feature, GivenLabel, Missing
from core.features.labels import LabelSet, clashes, distinct, same
from core.problems import PROBLEMS_MAX, Checked, Invalid, Problem, refuse, suggestion

LABELS, CATEGORIES, RETIRED = "add_labels", "add_categories", "retire_labels"
"""Fields that list values: new ones of ``labels``, new categories of features in use, labels that have vanished."""


class ModelChanges(Checked):
    """A change of a configuration: replaces each field that is present; null restores the default."""

    watch: Watch | None = Field(
        None,
        description="The drift tests from now on; null: none. Tests whose `batch_size` stays keep their windows.",
    )
    on_drift: OnDrift | None = Field(None, description="The response to alarms from now on.")
    missing: Missing | None = Field(
        None, description="How missing values are filled from now on; the means for `mean` start with the next row."
    )
    unknown: Unknown | None = Field(None, description="How undeclared categories are treated from now on.")
    ignore: Ignored | None = Field(
        None, description="The names that are ignored from now on, instead of the earlier ones."
    )
    class_costs: ClassCosts | None = Field(
        None, description="Cost of missing a class from now on, by label; null: 1 for all."
    )
    labels_due: LabelsDue | None = Field(
        None, description="What happens to tracked predictions without a label from now on; null: they expire."
    )
    description: Description | None = None
    tags: Tags | None = None
    add_labels: list[GivenLabel] | None = Field(
        None,
        description="Labels to append to the declared ones; those that exist already are ignored. Retired labels come "
        "back. 422 with `lags`, 409 with a challenger that has them: they have a column per label.",
    )
    retire_labels: list[GivenLabel] | None = Field(
        None,
        description="Labels that have vanished: no longer predicted, without a probability; the metrics keep them, "
        "and they count among the classes. `add_labels` brings one back; without declared labels a row with it does, "
        "too. At least two labels must be left. 422 for an untracked row with a retired label that is declared; a "
        "tracked one is scored and learned.",
    )
    add_categories: dict[str, list[GivenLabel]] | None = Field(
        None,
        description="Categories to append to the declared ones, by feature. The model keeps what it has learned, as if "
        "the new categories had never occurred. 422 if the learner cannot do this: use a switch instead.",
    )


CHANGEABLE = ModelChanges.names()  # the fields that a change may have
REPLACEABLE = tuple(name for name in CHANGEABLE if name not in {LABELS, CATEGORIES, RETIRED})
"""The fields that are replaced as a whole."""
SHOWN_MAX = 100  # longest value that an error shows, in characters
_INSTEAD = {
    **dict.fromkeys(
        ("algorithm", "task", "params", "seed", "lags", "metrics"),
        "cannot be changed after creation: create another model with it",
    ),
    "features": "need a switch, POST /models/{name}/features/switch; add_categories adds categories to some",
    "labels": "cannot be replaced: add_labels appends new ones",
}
"""What to do instead, for fields that cannot be changed."""


def changed(config: Config, asked: Mapping[str, Any], retired: int = 0) -> Config:
    """The configuration after a change; ``asked`` has new values by field, as the client sent them.

    ``retired`` is the number of retired labels, for the error about too many labels.

    The model itself adds categories and retires labels, because it knows those in use (core.model.plans). ``Invalid``
    names each field that cannot be changed, with what to do instead, or the one that is wrong.
    """
    other = "is not a field that can be changed"
    strange = [name for name in asked if name not in CHANGEABLE][:PROBLEMS_MAX]
    said = [_INSTEAD.get(name) or other + suggestion(name, CHANGEABLE, at) for at, name in enumerate(strange)]
    refuse([Problem(name, what, CHANGEABLE) for name, what in zip(strange, said, strict=True)])
    body = config.without_features
    for name in REPLACEABLE:
        if name not in asked:
            continue
        body.pop(name, None)
        if asked[name] is not None or name == "watch":
            body[name] = asked[name]
    if asked.get(LABELS) is not None:
        body["labels"] = _with_labels(config, asked[LABELS], retired)
    return Config.parse(body).model_copy(update={"features": config.features})


def _with_labels(config: Config, added: object, retired: int) -> list[Label]:
    """The declared labels, followed by the new ones."""
    declared, field = config.labels, LABELS
    if config.lags:
        raise Invalid.of(
            field, "cannot be added to a model with lags, which has a column per label: create another model"
        )
    if declared is None:
        what = "are numbers" if config.task == "regression" else "are not declared, but appear as they arrive"
        raise Invalid.of(field, f"does not apply: the labels of this model {what}")
    known = LabelSet(declared)
    new = [label for label in distinct(added, field) if known.index(label) < 0]
    for label in new:
        if (other := known.clash(label)) is not None:
            raise Invalid.of(field, f"contains a label that {clashes(other, 'another label of the model')}")
    if (count := len(declared) + len(new)) > (bound := config.algorithm.class_bound):
        way_out = f" ({retired} of them retired: create a model without these)" if retired else ""
        raise Invalid.of(field, f"makes {count} labels{way_out}", f"{config.algorithm_id}: at most {bound}")
    return [*declared, *new]


def fields_changed(before: Config, after: Config) -> list[str]:
    """The fields in which two configurations differ, in the order of their names."""
    one, other = before.without_features, after.without_features
    names = {name for name in {*one, *other} if as_text(one.get(name)) != as_text(other.get(name))}
    same_features = before.features is after.features or before.features == after.features
    return sorted(names if same_features else names | {"features"})


def differences(config: Config, asked: Config) -> list[Problem]:
    """The differences between a model's configuration and the one a client asks for, with what to do about each.

    Fields absent from the body have their defaults. Fields that PATCH can change come first; parameters are listed one
    by one, unless the algorithm differs. ``allowed`` is the model's value, if it is short.
    """
    own, others = config.without_features, asked.without_features
    names = fields_changed(config, asked)
    values = {name: own.get(name) for name in names if name != "params"}
    if "algorithm" not in names:
        params, wanted = own["params"], others["params"]
        values |= {f"params.{name}": params[name] for name in params if as_text(params[name]) != as_text(wanted[name])}
    found = [Problem(name, _way(name, config, asked), _short(value)) for name, value in values.items()]
    return sorted(found, key=lambda one: "PATCH" not in one.problem)


def _way(name: str, config: Config, asked: Config) -> str:
    """What to do about a field that differs."""
    if name in REPLACEABLE:
        return "differs from the model's value: PATCH changes it"
    if name not in ("features", "labels"):
        return f"differs from the model's value, and {_INSTEAD[name.partition('.')[0]]}"
    if getattr(asked, name) is None:
        return "were declared at creation: list the same ones"
    if getattr(config, name) is None:
        return "were not declared at creation, but follow from the rows: omit them"
    if name == "labels" and _extends(config.labels, asked.labels):
        return f"differ: PATCH adds some with {LABELS}"
    if name == "features" and _alike(config.features, asked.features):
        return f"differ in their categories: PATCH adds some with {CATEGORIES}"
    return f"differ: they {_INSTEAD[name]}"


def _short(value: object) -> object:
    """The value if it is short enough to show, else None."""
    return value if isinstance(value, int | float) or (isinstance(value, str) and len(value) <= SHOWN_MAX) else None


def interchangeable(config: Config, other: Config) -> bool:
    """Whether a model with one configuration can take over the state of a model with the other.

    Algorithm, task, parameters, seed, lags and metrics must agree, and so must features and labels, except that one of
    the two may have further labels and categories after the common ones.
    """
    changed = {*fields_changed(config, other)} - {*REPLACEABLE, "features", "labels"}
    return not changed and _alike(config.features, other.features) and _extends(config.labels, other.labels)


def _alike(features: Sequence[Feature] | None, others: Sequence[Feature] | None) -> bool:
    if features is None or others is None:
        return features is others
    return len(features) == len(others) and all(
        (one if one.categories == other.categories else replace(one, categories=other.categories)) == other
        and _extends(one.categories, other.categories)
        for one, other in zip(features, others, strict=True)
    )


def _extends(labels: Sequence[Label] | None, others: Sequence[Label] | None) -> bool:
    """Whether one of two lists begins with the other."""
    if labels is None or others is None:
        return labels is others
    return all(same(one, other) for one, other in zip(labels, others, strict=False))
