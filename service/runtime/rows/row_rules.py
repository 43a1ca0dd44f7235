"""The validator of a model's rows, made of a replica as it is now."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from service.runtime import admission
from service.runtime.rows.row_validation import Growth, RowValidator

if TYPE_CHECKING:
    from core.config import Config
    from service.runtime.replicas.model_cache import ModelCache
    from service.runtime.replicas.replica import Replica


def validator_of(models: "ModelCache", replica: "Replica") -> RowValidator:
    """A validator of a model as it is now.

    Args:
        models: asked whether a larger model would fit.
        replica: the model.
    """
    model = replica.model
    now, config = model.own.switching.now, model.config
    fits = partial(admit, models, model.configs)
    if now is None:
        return RowValidator(replica.name, config, model.labels, None, None, "steady", fits)
    return RowValidator(replica.name, config, model.labels, now.schema, now.feedback_schema, now.phase, fits)


def admit(models: "ModelCache", configs: "Sequence[Config]", growth: Growth) -> None:
    """Refuse rows that would make a model of these configurations larger than the limit.

    Raises:
        Invalid: naming what would, and the limit.
    """
    if growth.classes is None:
        models.admit(admission.of_columns(configs, growth.width))
    else:
        models.admit(admission.of_classes(configs, growth.width, growth.classes, growth.field))
