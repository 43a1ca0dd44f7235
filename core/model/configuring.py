"""A change of the configuration, checked against the model as it stands: by those who ask for it, and by ``apply``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from core.challenger_config import challenging, own_fields
from core.config import Config, parse_ignored
from core.config_changes import CATEGORIES, changed, fields_changed
from core.features import Feature, Schema
from core.features.feature_space import with_categories
from core.model.state import ModelState
from core.problems import Conflict, Invalid


class MemberChange(NamedTuple):
    """What a change comes to for one learner.

    Attributes:
        config: its configuration after it.
        features: those in force after it, where some of them get further categories; else None.
        fields: the fields of the configuration that differ, in the order of their names.
    """

    config: Config
    features: tuple[Feature, ...] | None
    fields: list[str]


@dataclass(frozen=True, slots=True)
class Change:
    """What a change comes to.

    Attributes:
        own: for the model's own learner.
        challengers: for the challengers, by their names.
    """

    own: MemberChange
    challengers: Mapping[str, MemberChange] = field(default_factory=dict)

    @property
    def configs(self) -> list[Config]:
        """All configurations after it, the model's own first."""
        return [self.own.config, *(one.config for one in self.challengers.values())]


def change_of(model: ModelState, asked: Mapping[str, Any]) -> Change:
    """What a change would come to as the model stands.

    Args:
        model: the model.
        asked: new values by field, as they were sent.

    Raises:
        Invalid: naming each field that cannot be changed, with what to do instead, or the one that is wrong.
        Conflict: features cannot get categories while they are being changed, or before there are any.
    """
    config = changed(model.config, asked)
    if asked.get("ignore") is not None and model.prediction_schema is not None:
        parse_ignored(config.ignore, model.prediction_schema.features)
    features = None if asked.get(CATEGORIES) is None else _features(model, asked[CATEGORIES])
    in_force = None if model.prediction_schema is None else model.prediction_schema.features
    if features is not None and config.features == in_force:
        config = config.model_copy(update={"features": features})
    own = _change(model.config, config, features)
    challengers = {
        name: _change(one.member.config, challenging(config, own_fields(one.member.config)), features)
        for name, one in model.challengers.items()
    }
    return Change(own, challengers)


def _change(before: Config, after: Config, features: tuple[Feature, ...] | None) -> MemberChange:
    fields = {*fields_changed(before, after), *([] if features is None else ["features"])}
    return MemberChange(after, features, sorted(fields))


def _features(model: ModelState, added: object) -> tuple[Feature, ...] | None:
    """The features in force with further categories; None where they have them all."""
    schema = model.prediction_schema
    if schema is None:
        raise Conflict("the model has no features yet: the first feedback row fixes them")
    if model.phase == "overlap":
        raise Conflict("a change of features is under way: complete or abort it first")
    if not isinstance(schema, Schema):
        raise Invalid.of(CATEGORIES, f"{model.config.algorithm_id} takes rows of any names: none has categories")
    found = with_categories(schema.features, added, CATEGORIES)
    if found == schema.features:
        return None
    for learner in (model, *(one.member for one in model.challengers.values())):
        if (problem := learner.switching.obstacle_to_extend()) is not None:
            raise Invalid.of(CATEGORIES, problem)
    return found
