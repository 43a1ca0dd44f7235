"""A change of a model's configuration as a client asks for it.

Checked against the model as it stands now; apply checks again, since another replica's entry may come first.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from core.config import CATEGORIES, LABELS
from core.entry import Configure
from core.model import Model, plans
from service.runtime import admission
from service.runtime.admission import Demand

Admit = Callable[[Demand], None]
"""Asked whether a model fits with another configuration; raises Invalid."""


def plan(machine: Model, admit: Admit, asked: Mapping[str, Any], ids: tuple[str, ...]) -> Configure | None:
    """The change as a segment of the log; None where the model has these values already and nobody gave an id.

    Args:
        machine: the model as it stands.
        admit: asked whether it would fit.
        asked: new values by field, as they were sent.
        ids: what the request is remembered by.

    Raises:
        Invalid: naming each field that cannot be changed, or is wrong.
        Conflict: features cannot get categories now.
    """
    change = plans.plan_change(machine, asked)
    config, features, fields = change.own
    space = machine.prediction_schema
    if fields and space is not None:
        width = space.width if features is None else sum(feature.width for feature in features)
        classes = max(len(machine.labels), len(config.labels or ()))
        admit(admission.of_change(change.configs, width, classes, _grown(fields)))
    return Configure(asked, ids) if fields or ids else None


def _grown(fields: Sequence[str]) -> str:
    """What of a change takes memory, as the client has called it."""
    named = {"features": CATEGORIES, "labels": LABELS}
    return next((named.get(field, field) for field in ("features", "labels", "watch") if field in fields), fields[0])
