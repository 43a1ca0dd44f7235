"""A change of features: where a model stands in one, and what may be asked of it next.

Checked against the model as it stands now; apply checks again, since another replica's entry may come first.
"""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from core.config import Config
from core.entry import Switch
from core.features import Schema, SparseSchema
from core.machine import Machine
from core.problems import Invalid, Problem
from core.switching.ensemble import Ensemble
from core.switching.kernel_mapping import STORED_MAX
from core.switching.overlap import OverlapPeriod
from service.errors import RequestConflict

ACTIONS = ("begin", "complete", "abort")
ROW_FLOPS = 3e5
"""What some sixty microseconds of interpreted work per row of an overlap are worth in operations."""
Mapping = Literal["linear", "kernel"]
Admit = Callable[[Config, Schema, Schema, str, int], None]
"""Asked whether a model's state would fit with a new space; raises Invalid.

Its arguments: configuration, old space, new space, mapping, bytes that ``beside_bytes`` counts.
"""


def feature_state(machine: Machine) -> dict[str, Any]:
    """Where a model stands, as GET /models/{name}/features answers it."""
    following = machine.next_schema
    return {
        "phase": machine.phase,
        "current": [] if machine.prediction_schema is None else _declared(machine.prediction_schema),
        "next": None if following is None else _declared(following),
        "overlap_rows": machine.overlap_rows,
        "mapping_error": machine.mapping_error,
        "ensemble": machine.ensemble,
    }


def record(machine: Machine) -> bytes:
    """The same as bytes, as it is remembered with the id of a switch."""
    return msgspec.json.encode(feature_state(machine))


def _declared(space: Schema | SparseSchema) -> list[Any]:
    return [feature.to_json() for feature in space.features]


def step(machine: Machine, admit: Admit, action: str, features: object, mapping: Mapping | None) -> Switch:
    """A step in a change of features, without its id.

    Args:
        machine: the model as it stands.
        admit: asked whether the state would fit.
        action: one of ACTIONS.
        features: the new space as it was sent, or None.
        mapping: "linear", "kernel", or None: what the model's parameters say, else linear.

    Raises:
        Invalid: naming the field.
        RequestConflict: the model's phase does not allow the action, or its algorithm no change at all.
    """
    _check_fields(action, features, mapping)
    schema = _dense(machine)
    if action != "begin":
        if machine.phase != "overlap":
            raise RequestConflict(
                f"there is no change of features to {action}: the phase is {machine.phase}; begin one first"
            )
        return Switch("complete" if action == "complete" else "abort")
    if machine.phase == "overlap":
        raise RequestConflict(_under_way(machine))
    following = _next(machine, schema, features)
    kind: Mapping = mapping or machine.config.params.get("mapping", "linear")
    admit(machine.config, schema, following, kind, beside_bytes(machine, following, kind))
    return Switch("begin", following.features, kind)


def _check_fields(action: str, features: object, mapping: str | None) -> None:
    if action == "begin" and features is None:
        raise Invalid.of("features", "is required: the whole new space")
    if action != "begin":
        superfluous = [name for name, value in (("features", features), ("mapping", mapping)) if value is not None]
        if superfluous:
            raise Invalid(*(Problem(name, "goes with begin only") for name in superfluous))


def _dense(machine: Machine) -> Schema:
    if machine.config.algorithm.sparse:
        raise RequestConflict(
            f"{machine.config.algorithm_id} takes rows of any names at any time: there are no features to change"
        )
    if machine.prediction_schema is None:
        raise RequestConflict("the model has no features yet: the first feedback row fixes them")
    assert not isinstance(machine.prediction_schema, SparseSchema)
    return machine.prediction_schema


def _under_way(machine: Machine) -> str:
    following = machine.next_schema
    names = [] if following is None else [feature.name for feature in following.features]
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return (
        f"a change of features is under way, to {shown}, with {machine.overlap_rows} overlap rows so far; "
        "complete or abort it first"
    )


def _next(machine: Machine, current: Schema, raw: object) -> Schema:
    """The space that a client declares to follow the one in force; a kept name may stand for its declaration."""
    declared = dict(zip(current.names, current.features, strict=True))
    items = raw if isinstance(raw, list) else []
    told = [declared[item].to_json() if isinstance(item, str) and item in declared else item for item in items]
    return Schema(machine.parse_next(told))


def mapping_bytes(old: Schema, following: Schema, mapping: str) -> int:
    """Bytes that learning a mapping may take: its sums or stored rows, and the mapping in use."""
    lost = set(old.names) - set(following.names)
    return _mapping_bytes(sum(feature.width for feature in old.features if feature.name in lost), following, mapping)


def beside_bytes(machine: Machine, following: Schema, mapping: str) -> int:
    """Bytes that the experts of an earlier change take during the next one beside one model, and their columns."""
    now = machine.pipeline
    if not isinstance(now, Ensemble):
        return 0
    foreign = len(set(now.columns) - set(now.schema.columns) - set(following.columns))
    own = max(0, now.nbytes - machine.config.state_bytes(now.schema.width))
    return own + (_mapping_bytes(foreign, following, mapping) if foreign else 0)


def _mapping_bytes(targets: int, following: Schema, mapping: str) -> int:
    sources = following.width
    rows = STORED_MAX if mapping == "kernel" else sources
    return 8 * (rows * (sources + targets) * 2 + 4 * (sources + targets))


def mapping_flops(machine: Machine, rows: int) -> float:
    """Operations of learning some rows with the mapping of an overlap, and of solving it once; 0 in other phases."""
    if not isinstance(machine.pipeline, OverlapPeriod):
        return 0.0
    mapping = machine.pipeline.recovery.mapping
    sources, width = mapping.sources, mapping.sources + mapping.targets
    if mapping.kind == "kernel":
        stored = min(STORED_MAX, mapping.count + rows)
        return rows * ROW_FLOPS + (8.0 * rows + stored) * stored * (stored + width)
    return rows * ROW_FLOPS + (4.0 * rows + sources) * sources * width


def recovery_flops(machine: Machine) -> float:
    """Operations of recovering the old features of one row after a change, up to the end of the next; else 0."""
    now = machine.pipeline
    experts = now.old if isinstance(now, OverlapPeriod) else now
    if not isinstance(experts, Ensemble):
        return 0.0
    mapping = experts.input_mapping.mapping
    if mapping.kind == "kernel":
        return 4.0 * STORED_MAX * (mapping.sources + mapping.targets)
    return 2.0 * mapping.sources * mapping.targets
