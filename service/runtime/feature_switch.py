"""A change of features: where a model stands in one, and the step that a client asks for.

Checked against the model as it stands now; apply checks again, since another replica's entry may come first.
"""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from core.entry import Switch
from core.features import Schema, SparseSchema
from core.model import Model, cost, plans
from core.problems import Invalid, Problem
from service.runtime import admission
from service.runtime.admission import Demand

ACTIONS = ("begin", "complete", "abort")
Action = Literal["begin", "complete", "abort"]
Mapping = Literal["linear", "kernel"]
Admit = Callable[[Demand], None]
"""Asked whether a model fits during a change to a space; raises Invalid."""


def feature_state(machine: Model) -> dict[str, Any]:
    """Where a model stands, as GET /models/{name}/features answers it."""
    following = machine.next_schema
    return {
        "phase": machine.phase,
        "current": [] if machine.prediction_schema is None else _declared(machine.prediction_schema),
        "next": None if following is None else _declared(following),
        "overlap_rows": machine.own.switching.overlap_rows,
        "mapping_error": machine.own.switching.mapping_error,
        "ensemble": machine.own.switching.report(),
    }


def record(machine: Model) -> bytes:
    """The same as bytes, as it is remembered with the id of a switch."""
    return msgspec.json.encode(feature_state(machine))


def _declared(space: Schema | SparseSchema) -> list[Any]:
    return [feature.to_json() for feature in space.features]


def step(
    machine: Model, admit: Admit, action: Action, features: object, mapping: Mapping | None, force: bool = False
) -> Switch:
    """A step in a change of features, without its id.

    Args:
        machine: the model as it stands.
        admit: asked whether the model would fit.
        action: what is asked for.
        features: the new space as it was sent, or None.
        mapping: "linear", "kernel", or None: what the model's parameters say, else linear.
        force: whether a change may be completed with few overlap rows.

    Raises:
        Invalid: naming the field.
        Conflict: the model's phase does not allow the action, or its algorithm no change at all.
    """
    _check_fields(action, features, mapping, force)
    segment = plans.plan_switch(machine, action, features, mapping, force)
    if segment.features is not None and segment.mapping is not None:
        following = Schema(segment.features)
        admit(admission.of_switch(following, cost.bytes_to_switch(machine, following, segment.mapping)))
    return segment


def _check_fields(action: str, features: object, mapping: str | None, force: bool) -> None:
    if force and action != "complete":
        raise Invalid.of("force", "goes with complete only")
    if action == "begin" and features is None:
        raise Invalid.of("features", "is required: the whole new space")
    if action != "begin":
        superfluous = [name for name, value in (("features", features), ("mapping", mapping)) if value is not None]
        if superfluous:
            raise Invalid(*(Problem(name, "goes with begin only") for name in superfluous))
