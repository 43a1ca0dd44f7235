"""Changes to a model's settings, challengers and features that clients ask for; and how these are shown.

Changes are checked against the model as it is now; apply checks again, since another replica's entry may come first.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec
from msgspec.structs import replace

from core.config.challengers import own_fields
from core.config.changes import CATEGORIES, LABELS, REPLACEABLE
from core.entry import Challenge, Configure, Promote, Switch, Withdraw
from core.features import Schema, SparseSchema
from core.model import Challenger, Model, cost, plans, read, refuse_lag_names
from core.problems import Invalid, Problem
from service.errors import NotFound, RequestConflict
from service.runtime import admission
from service.runtime.admission import Demand

Action = Literal["begin", "complete", "abort"]
ACTIONS: tuple[Action, ...] = get_args(Action)
Recovery = Literal["linear", "kernel"]
Admit = Callable[[Demand], None]
"""Checks that the changed model would fit in memory; raises Invalid."""


def configure(model: Model, admit: Admit, asked: Mapping[str, Any], ids: tuple[str, ...]) -> Configure | None:
    """The change as a segment of the log; None if the model has these values already and there is no id.

    ``asked`` are the new values by field, as sent; ``admit`` checks that the model would fit. Raises ``Invalid``, which
    names each wrong field, or ``Conflict`` if features cannot get categories now.
    """
    changes = plans.plan_change(model, asked)
    config, features, _, fields = changes[0]
    plans.refuse_on_arrival(model, config, fields)
    space = model.prediction_schema
    if fields and space is not None:
        width = space.width if features is None else sum(feature.width for feature in features)
        counts = [max(len(model.labels), len(one.labels or ())) for one in (config, model.config)]
        configs = [one.config for one in changes]
        need = cost.bytes_with(model.learners, configs, width, counts[0])
        if need > cost.bytes_with(model.learners, model.configs, space.width, counts[1]):
            admit(admission.of_change(configs, need, _grown(fields)))
    if not fields and not ids:
        return None
    whole = config.without_features  # numbers as they are kept: a client's integer may be too large for the log
    return Configure({name: whole.get(name) if name in REPLACEABLE else asked[name] for name in asked}, ids)


def _grown(fields: Sequence[str]) -> str:
    """The part of a change that takes memory, under the client's name for it."""
    named = {"features": CATEGORIES, "labels": LABELS}
    return next((named.get(field, field) for field in ("features", "labels", "watch") if field in fields), fields[0])


# ------------------------------------------------------------------------------------------------ challengers


def challenge(
    model: Model, admit: Admit, name: str, asked: Mapping[str, Any], most: int, ids: tuple[str, ...]
) -> Challenge | None:
    """A new challenger of a model, as a segment; None if it exists already and there is no id.

    ``asked`` is the body as sent; ``admit`` checks that the model would fit with it; ``most`` is how many challengers a
    model may have.

    Raises:
        Invalid: naming the field that is wrong.
        Conflict: another challenger has that name, there are too many, or a change of features is under way.
    """
    segment, config = plans.plan_challenge(model, name, asked, most)
    space = model.prediction_schema
    if name not in model.challengers and space is not None:
        classes = max(2, len(model.labels), len(config.labels or ()))
        need = cost.bytes_with(model.learners, model.configs, space.width, classes)
        need += config.state_bytes(space.width, classes)
        admit(admission.of_change([*model.configs, config], need, "algorithm"))
        refuse_lag_names([config], space)
    if segment is None and ids:
        one = model.challengers[name]
        segment = Challenge(name, {**own_fields(config), "promote": one.promote}, most)
    return None if segment is None else replace(segment, ids=ids)


def challenger_of(model: Model, name: str) -> Challenger:
    """A challenger of a model; ``NotFound`` if there is none of that name."""
    if name not in model.challengers:
        problem = Problem("challenger", "is not a challenger of this model", [*model.challengers])
        raise NotFound(f"there is no challenger {name}", [problem])
    return model.challengers[name]


def withdraw(model: Model, name: str, ids: tuple[str, ...]) -> Withdraw:
    """The removal of a challenger, as a segment; ``NotFound`` if there is none of that name."""
    challenger_of(model, name)
    return Withdraw(name, ids)


def promote(model: Model, name: str, ids: tuple[str, ...], force: bool) -> Promote:
    """The promotion of a challenger to the model's own learner, as a segment; ``NotFound`` if there is none of that
    name, ``RequestConflict`` if it is not shown to be better, which only ``force`` overrides.
    """
    challenger_of(model, name)
    if not force and (why := plans.unproven(model, name)) is not None:
        raise RequestConflict(why, [Problem("force", "is required to promote it anyway", True)])
    return Promote(name, ids, force)


def challenger_shown(model: Model, name: str) -> dict[str, Any]:
    """A challenger as GET shows it; NotFound if there is none of that name."""
    one = challenger_of(model, name)
    parts = one.parts
    return {
        "name": name,
        "config": {**own_fields(parts.config), "promote": one.promote},
        "promote": one.promote,
        "since_version": parts.since_version,
        "rows": parts.metrics.rows,
        "metrics": read.learner_metrics(parts),
        "info": read.learner_info(parts),
        "difference": plans.difference_report(model, name),
    }


# ------------------------------------------------------------------------------------------------ features


def feature_state(model: Model) -> dict[str, Any]:
    """The state of a model's features, as GET /models/{name}/features returns it."""
    following = None if model.pipeline is None else model.pipeline.next_schema
    return {
        "phase": model.phase,
        "current": [] if model.prediction_schema is None else _declared(model.prediction_schema),
        "next": None if following is None else _declared(following),
        "overlap_rows": model.own.switching.overlap_rows,
        "mapping_error": model.own.switching.mapping_error,
        "ensemble": model.own.switching.report(),
    }


def record(model: Model) -> bytes:
    """``feature_state`` as bytes, to be stored with the id of a switch."""
    return msgspec.json.encode(feature_state(model))


def _declared(space: Schema | SparseSchema) -> list[Any]:
    return [feature.to_json() for feature in space.features]


def switch(
    model: Model, admit: Admit, action: Action, features: object, mapping: Recovery | None, force: bool = False
) -> Switch:
    """A step in a change of features, without its id.

    ``mapping``: None for the one in the model's parameters, else linear. ``admit`` checks that the model would fit;
    ``force`` completes a change with few overlap rows.

    Raises:
        Invalid: naming the field.
        Conflict: the model's phase does not allow the action, or its algorithm allows no change at all.
    """
    _check_fields(action, features, mapping, force)
    segment = plans.plan_switch(model, action, features, mapping, force)
    if segment.features is not None and segment.mapping is not None:
        following = Schema(segment.features)
        admit(admission.of_switch(following, cost.bytes_to_switch(model, following, segment.mapping)))
        refuse_lag_names(model.configs, following)
    return segment


def _check_fields(action: str, features: object, mapping: str | None, force: bool) -> None:
    if force and action != "complete":
        raise Invalid.of("force", "is for complete only")
    if action == "begin" and features is None:
        raise Invalid.of("features", "is required: the whole new space")
    if action != "begin":
        superfluous = [name for name, value in (("features", features), ("mapping", mapping)) if value is not None]
        if superfluous:
            raise Invalid(*(Problem(name, "is for begin only") for name in superfluous))
