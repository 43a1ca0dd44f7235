"""Challengers as clients ask for them, and as they are shown.

Checked against the model as it stands now; apply checks again, since another replica's entry may come first.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from core.config import own_fields
from core.entry import Challenge, Promote, Withdraw
from core.model import Challenger, Model, plans, read
from core.problems import Problem
from service.errors import NotFound, RequestConflict
from service.runtime import admission
from service.runtime.admission import Demand

Admit = Callable[[Demand], None]
"""Asked whether a model fits with another challenger; raises Invalid."""


def put(
    machine: Model, admit: Admit, name: str, asked: Mapping[str, Any], most: int, ids: tuple[str, ...]
) -> Challenge | None:
    """A challenger to be put beside a model; None where it is there already and nobody gave an id.

    Args:
        machine: the model as it stands.
        admit: asked whether the model would fit with it.
        name: what it is to be called.
        asked: the body, as it was sent.
        most: how many challengers a model may have.
        ids: what the request is remembered by.

    Raises:
        Invalid: naming the field that is wrong.
        Conflict: there is another one of that name, or too many, or a change of features is under way.
    """
    segment, config = plans.plan_challenge(machine, name, asked, most)
    space = machine.prediction_schema
    if name not in machine.challengers and space is not None:
        classes = max(2, len(machine.labels), len(config.labels or ()))
        admit(admission.of_change([*machine.configs, config], space.width, classes, "algorithm"))
    if segment is None and ids:
        one = machine.challengers[name]
        segment = Challenge(name, {**own_fields(config), "promote": one.promote}, most)
    return None if segment is None else replace(segment, ids=ids)


def known(machine: Model, name: str) -> Challenger:
    """A challenger of a model.

    Raises:
        NotFound: there is none of that name.
    """
    if name not in machine.challengers:
        problem = Problem("challenger", "is none of this model", [*machine.challengers])
        raise NotFound(f"there is no challenger {name}", [problem])
    return machine.challengers[name]


def withdraw(machine: Model, name: str, ids: tuple[str, ...]) -> Withdraw:
    """A challenger to be taken away.

    Raises:
        NotFound: there is none of that name.
    """
    known(machine, name)
    return Withdraw(name, ids)


def promote(machine: Model, name: str, ids: tuple[str, ...], force: bool) -> Promote:
    """A challenger to become the model's own learner.

    Raises:
        NotFound: there is none of that name.
        RequestConflict: it has not been shown to be better, which only ``force`` overrides.
    """
    known(machine, name)
    if not force and (why := plans.unproven(machine, name)) is not None:
        raise RequestConflict(why, [Problem("force", "is needed to promote it nevertheless", True)])
    return Promote(name, ids, force)


def shown(machine: Model, name: str) -> dict[str, Any]:
    """A challenger as GET shows it; NotFound where there is none of that name."""
    one = known(machine, name)
    parts = one.parts
    return {
        "name": name,
        "config": {**own_fields(parts.config), "promote": one.promote},
        "promote": one.promote,
        "since_version": parts.since_version,
        "rows": parts.metrics.rows,
        "metrics": read.learner_metrics(parts),
        "info": read.learner_info(parts),
        "difference": plans.difference_report(machine, name),
    }
