"""Checks of clients' requests against the present model: when they arrive, and again when they are applied."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from core.config import Config
from core.config.challengers import challenging, own_fields, own_text, promote_of
from core.config.changes import CATEGORIES, LABELS, RETIRED, changed, fields_changed
from core.config.config import parse_ignored
from core.contract import Header, Label
from core.entry import Challenge, Switch
from core.features import Feature, Schema
from core.features.feature_space import with_categories
from core.features.labels import LabelSet, clashes, distinct, same
from core.model.model import Model
from core.problems import LISTED_MAX, Conflict, Invalid, Problem, refuse
from core.switching.feature_recovery import MappingKind
from core.switching.phases import SwitchAction

PREVIOUS = "previous"  # name of the former model after a promotion
ASKED_ROWS_MIN = 200  # rows compared before a challenger is promoted on request without force

OVERLAP_ROWS_MIN = 5  # overlap rows below which a change is only completed by force


class LearnerChange(NamedTuple):
    """The effect of a change of the configuration on one learner."""

    config: Config  # after the change
    features: tuple[Feature, ...] | None  # the features after it, if some get additional categories
    retired: tuple[Label, ...]  # the labels that are retired after it
    fields: list[str]  # fields of the configuration that differ, in the order of their names


def plan_change(model: Model, asked: Mapping[str, Any]) -> list[LearnerChange]:
    """The effect of a change of the configuration on each learner, the model's own first.

    ``asked`` has new values by field, as the client sent them. ``Invalid`` names each field that cannot be changed,
    with what to do instead, or the one that is wrong. ``Conflict`` if categories are added before there are features or
    during a change of features, if fewer than two labels would be left, if labels_due learns a retired label, or if
    labels are added while a challenger has a lag column per label.
    """
    for field in (LABELS, RETIRED):
        _refuse_many(model, field, asked.get(field))
    asked, retired = _without_returning(model, asked)
    config, schema = changed(model.config, asked, len(retired)), model.prediction_schema
    lagged = [name for name, one in model.challengers.items() if one.parts.config.lags]
    if lagged and config.labels != model.config.labels:
        why = f"challenger {lagged[0]} has lags, with a column per label: delete it before labels are added"
        raise Conflict(why, LABELS)
    if asked.get(RETIRED) is not None:
        retired = _retired(model, config, retired, asked[RETIRED])
    then: Any = "drop" if config.labels_due is None else config.labels_due["then"]
    if then != "drop" and any(same(then["label"], one) for one in retired):
        field = "labels_due" if asked.get(RETIRED) is None else RETIRED
        raise Conflict("labels_due learns a label that is retired: change labels_due, or bring the label back", field)
    in_force = None if schema is None else schema.features
    if asked.get("ignore") is not None and in_force is not None:
        parse_ignored(config.ignore, in_force)
    features = None if asked.get(CATEGORIES) is None else _extended_features(model, asked[CATEGORIES])
    if features is not None and config.features == in_force:
        config = config.model_copy(update={"features": features})
    changes: list[LearnerChange] = []
    for before in model.configs:
        after = challenging(config, own_fields(before)) if changes else config
        fields = {*fields_changed(before, after), *([] if features is None else ["features"])}
        if retired != model.own.answers.retired:
            fields.add(RETIRED)
        changes.append(LearnerChange(after, features, retired, sorted(fields)))
    return changes


def refuse_on_arrival(model: Model, config: Config, fields: Sequence[str]) -> None:
    """Checks for changes on arrival only: changes on the log have passed them, whatever has happened since.

    Refuses labels_due if its label looks in answers like another one of the model, because each of its rows would be
    refused, and an ignored name that is a feature of the space to which the model is changing.
    """
    if "ignore" in fields and isinstance(schema := model.feedback_schema, Schema):
        parse_ignored(config.ignore, schema.features)
    if "labels_due" not in fields:
        return
    then: Any = "drop" if config.labels_due is None or model.regression else config.labels_due["then"]
    if then != "drop" and (other := model.labels.clash(then["label"])) is not None:
        raise Invalid.of("labels_due.then.label", clashes(other, "another label of the model"), [other])


def _refuse_many(model: Model, field: str, labels: object) -> None:
    """Refuse a list of more labels than a model can have, before checking each of them."""
    bound = model.config.algorithm.class_bound
    if isinstance(labels, list | tuple) and len(labels) > bound:
        raise Invalid.of(field, f"has {len(labels)} labels", f"{model.config.algorithm_id}: at most {bound}")


def _without_returning(model: Model, asked: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[Label, ...]]:
    """The change without the ``add_labels`` that bring a retired label back, and the labels that stay retired."""
    retired, added = model.own.answers.retired, asked.get(LABELS)
    if not retired or not isinstance(added, list | tuple):
        return asked, retired
    back = LabelSet([label for label in retired if any(same(label, one) for one in added)])
    others = [one for one in added if not any(same(label, one) for label in back.labels)]
    if len(back):
        asked = {name: value for name, value in asked.items() if name != LABELS} | ({LABELS: others} if others else {})
    return asked, tuple([label for label in retired if back.index(label) < 0])


def _retired(model: Model, config: Config, retired: Sequence[Label], named: object) -> tuple[Label, ...]:
    """All retired labels, including the named ones, in the order of the model's labels."""
    if config.task == "regression":
        raise Invalid.of(RETIRED, "does not apply: the labels of this model are numbers")
    labels = LabelSet(config.labels or model.labels.labels)
    new, known = distinct(named, RETIRED), list(labels.labels[:LISTED_MAX])
    strange = [at for at, label in enumerate(new) if labels.index(label) < 0]
    refuse([Problem(f"{RETIRED}[{at}]", "is not a label of this model", known) for at in strange])
    gone = {*labels.find([*retired, *new])}
    if len(labels) - len(gone) < 2:
        raise Conflict("fewer than two labels would be left to predict", RETIRED)
    return tuple([label for at, label in enumerate(labels.labels) if at in gone])


def _extended_features(model: Model, added: object) -> tuple[Feature, ...] | None:
    """The present features with additional categories; None if they have them all."""
    schema = model.prediction_schema
    if schema is None:
        raise Conflict("the model has no features yet: the first feedback row determines them", CATEGORIES)
    if model.phase == "overlap":
        raise Conflict("a change of features is under way: complete or abort it first", CATEGORIES)
    if not isinstance(schema, Schema):
        raise Invalid.of(CATEGORIES, f"{model.config.algorithm_id} takes rows with any names: there are no categories")
    found = with_categories(schema.features, added, CATEGORIES)
    if found == schema.features:
        return None
    for parts in model.learners:
        if (problem := parts.switching.obstacle_to_extend()) is not None:
            raise Invalid.of(CATEGORIES, problem)
    return found


def plan_switch(
    model: Model, action: SwitchAction, features: object = None, mapping: MappingKind | None = None, force: bool = False
) -> Switch:
    """Check a step of a change of features.

    ``features``: for "begin" the new space as the client sent it; a kept feature may be a bare name. ``mapping``: None
    means the one in the model's parameters, or else linear. With ``force``, a change can be completed with fewer than
    ``OVERLAP_ROWS_MIN`` overlap rows. ``Conflict`` for too few overlap rows, or a step that the phase does not allow;
    ``Invalid`` names the field, see ``core.features.feature_space.parse_next``.
    """
    switching = model.own.switching
    if (problem := switching.obstacle(action)) is not None:
        raise Conflict(problem)
    if action == "complete" and not force and switching.overlap_rows < OVERLAP_ROWS_MIN:
        raise Conflict(
            f"{switching.overlap_rows} overlap rows are too few to recover old features from new ones: send at least "
            f'{OVERLAP_ROWS_MIN} rows with both sets, or complete with "force": true'
        )
    if action != "begin":
        return Switch(action)
    following, ignored = switching.next_features(features), {*model.config.ignore}
    refuse(
        [
            Problem(f"features[{at}]", "is a name that the model ignores: PATCH ignore first")
            for at, feature in enumerate(following)
            if feature.name in ignored
        ]
    )
    for parts in model.learners[1:]:  # challengers may have kept other experts
        refuse(parts.switching.problems_of_types(following))
    return Switch("begin", following, switching.kind(mapping))


def plan_challenge(model: Model, name: str, raw: Mapping[str, Any], most: int) -> tuple[Challenge | None, Config]:
    """Check a challenger's body; returns its segment (None if it exists already) and its configuration.

    ``Invalid`` names the field that is wrong. ``Conflict`` if the name is taken, there are ``most`` already, or a
    change of features is under way.
    """
    if model.config.algorithm.observes:
        raise Conflict("an observer predicts nothing that a challenger could be compared with")
    if name == PREVIOUS:
        raise Invalid.of("challenger", f"{PREVIOUS} is reserved for the former model after a promotion")
    config, promote = challenging(model.config, raw), promote_of(raw)
    known, count = model.challengers.get(name), len(model.challengers)
    if known is not None:
        if own_text(known.parts.config) != own_text(config):
            raise Conflict(f"challenger {name} exists with another configuration; DELETE it first")
        if known.promote == promote:
            return None, config
    elif count >= most:
        raise Conflict(f"the model has {count} of at most {most} challengers" + ("; DELETE one first" if count else ""))
    elif model.phase == "overlap":
        raise Conflict("a change of features is under way: complete or abort it first")
    elif len(model.labels) > (bound := config.algorithm.class_bound):
        raise Conflict(f"{config.algorithm_id} learns at most {bound} classes; the model has {len(model.labels)}")
    return Challenge(name, {**own_fields(config), "promote": promote}, most), config


def unproven(model: Model, name: str) -> str | None:
    """Why a challenger can only be promoted with force, with the comparison so far; None if it needs no force."""
    if name == PREVIOUS:
        return None
    found = difference_report(model, name)
    if found["rows"] >= ASKED_ROWS_MIN and found["low"] > 0:
        return None
    known = "difference {mean:.4g}, interval {low:.4g} to {high:.4g}; ".format_map(found) if found["rows"] else ""
    needed = f'{known}promotion needs {ASKED_ROWS_MIN} rows and an interval above 0, or "force": true'
    return f"challenger {name} is not proven to be better: {found['rows']} rows were compared; {needed}"


def difference_report(model: Model, name: str) -> Header:
    """The paired difference of model and challenger, in units of the loss; its interval allows for all challengers."""
    return model.challengers[name].difference.report(len(model.challengers), model.config.cost_max)
