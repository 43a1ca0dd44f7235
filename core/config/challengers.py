"""The configuration of a challenger: another learner of a model, for the same rows and the same labels.

    its own        algorithm, params, seed, lags, watch, on_drift
    the model's    task, features, labels, and all others that say how rows are read or answers are made

A challenger's configuration combines the model's fields with its own, and is rebuilt whenever the model's changes.
"""

from collections.abc import Mapping
from typing import Any, Literal, get_args

from pydantic import Field

from core.config.config import Config, as_text
from core.features.feature import parse_features
from core.learners.algorithm import Algorithm
from core.learners.catalogue import ALGORITHMS, DEFAULT, find
from core.problems import Invalid, showing, suggestion

PromotionPolicy = Literal["never", "auto"]
OWN = ("algorithm", "params", "seed", "lags", "watch", "on_drift")  # fields of a challenger's own configuration
CHALLENGER_FIELDS = (*OWN, "promote")
"""Fields of a challenger's body; it may repeat other fields of the model, with the same values."""


class ChallengerBody(Config, json_schema_extra=showing(*CHALLENGER_FIELDS)):
    """A challenger to add to a model. Features and labels are the model's; the body may omit them."""

    promote: PromotionPolicy = Field(
        "never",
        description="`auto`: promote it automatically once `difference.low` is above 0, after at least 1000 compared "
        "rows, unless its sum of squared errors is larger than the model's. Default: never.",
    )


def own_fields(config: Config) -> dict[str, Any]:
    """The fields of a configuration that concern its learner, as a body."""
    body = config.without_features
    return {name: body[name] for name in OWN if name in body}


def own_text(config: Config) -> str:
    """``own_fields`` as text, equal for challengers of one model with equal configurations; 0 is not False."""
    return as_text(own_fields(config))


def promote_of(raw: Mapping[str, Any]) -> PromotionPolicy:
    """Whether a challenger is promoted automatically; raises ``Invalid`` for a value that is not a choice."""
    value: PromotionPolicy = raw.get("promote", "never")
    if value not in (choices := get_args(PromotionPolicy)):
        raise Invalid.of("promote", "is not one of the choices" + suggestion(value, choices), list(choices))
    return value


def challenging(model: Config, raw: Mapping[str, Any]) -> Config:
    """The configuration of a challenger to a model, from the challenger's body; ``promote`` is ignored.

    ``Invalid`` names the field that is wrong.
    """
    named = raw.get("algorithm", DEFAULT)
    if isinstance(named, str):
        _check_algorithm(model, find(named))
    shared = {name: value for name, value in model.without_features.items() if name not in OWN}
    for name in raw:
        if name not in CHALLENGER_FIELDS:
            _check_shared(model, name, raw[name], shared)
    own = {name: raw[name] for name in OWN if name in raw}
    if model.algorithm.sparse:
        read_by = {name: model.params[name] for name in ("compressed_dim", "projection")}
        own = {"seed": model.seed, **own, "params": {**read_by, **(own.get("params") or {})}}
    found = Config.parse({**shared, **own}).model_copy(update={"features": model.features})
    if model.algorithm.sparse and found.space != model.space:
        raise Invalid.of("params", "must read rows as the model does: same compressed_dim, projection and seed")
    return found


def _check_algorithm(model: Config, own: Algorithm) -> None:
    """Refuse an algorithm that cannot learn the model's rows and labels."""
    fine = [one.id for one in ALGORITHMS.values() if one.sparse == model.algorithm.sparse and model.task in one.tasks]
    if own.sparse != model.algorithm.sparse:
        rows = "named sparse rows" if model.algorithm.sparse else "rows of declared features"
        why = f"{own.id} cannot challenge {model.algorithm_id}: this model takes {rows}"
        raise Invalid.of("algorithm", why, fine)
    if own.observes:
        raise Invalid.of("algorithm", f"{own.id} predicts nothing that could be compared", fine)
    if own.id not in fine:
        raise Invalid.of("algorithm", f"{own.id} does not support {model.task}", fine)


def _check_shared(model: Config, name: str, value: object, shared: Mapping[str, Any]) -> None:
    """Refuse a field that models do not have, or whose value differs from the model's."""
    if name not in Config.names():
        meant = suggestion(name, CHALLENGER_FIELDS)
        raise Invalid.of(name, f"is not a field of a challenger{meant}", [*CHALLENGER_FIELDS])
    if name == "features":
        same = value is None or parse_features(value) == model.features
    else:
        same = as_text(value) == as_text(shared.get(name))
    if not same:
        raise Invalid.of(name, "is shared with the model: leave it out", [*CHALLENGER_FIELDS])
