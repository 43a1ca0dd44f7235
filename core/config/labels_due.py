"""What happens to tracked predictions whose label does not arrive: ``labels_due`` of a configuration."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from core.contract import Label, Task
from core.features.feature import GivenLabel
from core.features.labels import LabelSet, canonical
from core.problems import Checked, Invalid, suggestion

AFTER_S_MAX = 31_536_000  # a year
_THEN = ["drop", {"label": "..."}]


class LearnedAs(Checked):
    """The label that a row is learned as."""

    label: GivenLabel | float


class LabelsDue(Checked):
    """``labels_due`` as clients send it."""

    after_s: Annotated[int, Field(ge=1, le=AFTER_S_MAX, description="Seconds a label may take.")]
    then: Literal["drop"] | LearnedAs = Field(description="Learn the row as this label, or `drop` it.")


def parse_labels_due(value: object, task: Task, labels: tuple[Label, ...] | None) -> dict[str, Any] | None:
    """``labels_due`` of a body: ``after_s``, and ``then``, "drop" or the label; None: predictions expire.

    ``Invalid`` names the field by its path after ``labels_due``, e.g. ``.then.label``.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise Invalid.of("", "must be an object", ["after_s", "then"])
    for name in value:
        if name not in ("after_s", "then"):
            raise Invalid.of(f".{name}", f"is not a field of labels_due{suggestion(name, ['after_s', 'then'])}")
    after, then = value.get("after_s"), value.get("then")
    if type(after) is not int or not 1 <= after <= AFTER_S_MAX:
        raise Invalid.of(".after_s", "is not a number of seconds", f"an integer, >= 1 and <= {AFTER_S_MAX}")
    if then == "drop":
        return {"after_s": after, "then": "drop"}
    if not isinstance(then, Mapping) or {*then} != {"label"}:
        raise Invalid.of(".then", "is not one of the choices", _THEN)
    return {"after_s": after, "then": {"label": _label(then["label"], task, labels)}}


def _label(value: Any, task: Task, labels: tuple[Label, ...] | None) -> Label | float:
    if task == "regression":
        if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:
            raise Invalid.of(".then.label", "is not a number", "a finite number")
        return float(value)
    label = canonical(value, ".then.label")
    if labels is not None and LabelSet(labels).index(label) < 0:
        raise Invalid.of(".then.label", "is not one of the declared labels", list(labels))
    return label
