"""What a model says about rows: taken from a replica as it is now, and as plain values for another process.

The plain form holds texts, numbers and tuples only: a process that is given it validates rows by the same code as this
one (``RowValidator``), and loads no learner. Whether a larger model would fit is asked here, of what it reports.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from core.contract import Label
from core.features import Schema, Space, SparseSchema, parse_features
from core.features.labels import LabelSet
from service.runtime.rows import config_rules
from service.runtime.rows.config_rules import PlainConfig
from service.runtime.rows.row_validation import Growth, RowValidator

if TYPE_CHECKING:
    from core.config import Config
    from service.runtime.model_cache import ModelCache
    from service.runtime.replica import Replica


class RowRules(NamedTuple):
    """What a ``RowValidator`` is made of; spaces as the JSON of their declarations."""

    name: str
    config: PlainConfig
    labels: tuple[Label, ...]
    space: bytes | None
    union: bytes | None
    phase: str


def validator_of(models: "ModelCache", replica: "Replica") -> RowValidator:
    """A validator of a model as it is now.

    Args:
        models: asked whether a larger model would fit.
        replica: the model.
    """
    machine = replica.machine
    now, config = machine.own.switching.now, machine.config
    fits = partial(admit, models, machine.configs)
    if now is None:
        return RowValidator(replica.name, config, machine.labels, None, None, "steady", fits)
    return RowValidator(replica.name, config, machine.labels, now.schema, now.feedback_schema, now.phase, fits)


def admit(models: "ModelCache", configs: "Sequence[Config]", growth: Growth) -> None:
    """Refuse rows that would make a model of these configurations larger than the limit.

    Raises:
        Invalid: naming what would, and the limit.
    """
    from service.runtime import admission  # noqa: PLC0415  the process that reads bodies loads no machine

    if growth.classes is None:
        models.admit(admission.of_columns(configs, growth.width))
    else:
        models.admit(admission.of_classes(configs, growth.width, growth.classes, growth.field))


# ------------------------------------------------------------------------------------------------ plain


def plain(validator: RowValidator) -> RowRules:
    """The rules of a validator."""
    config, labels = config_rules.plain(validator.config), tuple(validator.known.labels)
    space, union = _declared(validator.space), _declared(validator.union)
    return RowRules(validator.name, config, labels, space, union, validator.phase)


def validator_from(rules: RowRules, grow: Callable[[Growth], None]) -> RowValidator:
    """A validator by these rules; ``grow`` is told of every larger model that rows would make."""
    labels, space, union = LabelSet(rules.labels), _space(rules.space), _space(rules.union)
    return RowValidator(rules.name, rules.config, labels, space, union, rules.phase, grow)


@lru_cache(maxsize=64)
def _declared(space: Space | None) -> bytes | None:
    if space is None:
        return None
    if isinstance(space, SparseSchema):
        return msgspec.json.encode({"seed": space.seed, "dimension": space.width, "kind": space.kind})
    return msgspec.json.encode([feature.to_json() for feature in space.features])


@lru_cache(maxsize=64)
def _space(declared: bytes | None) -> Space | None:
    if declared is None:
        return None
    found: Any = msgspec.json.decode(declared)
    return SparseSchema(**found) if isinstance(found, dict) else Schema(parse_features(found))
