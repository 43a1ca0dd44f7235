"""The answer to a row to predict, and its explanation: what each feature contributes to the score."""

from typing import Annotated, Any

import msgspec
from pydantic import Field

from core.contract import Floats
from core.features import SparseSchema
from core.model import Model, explain
from service.api.schemas import Body, Incarnation, LowAndHigh, Predictable, Probability, Version


class Contribution(Body):
    """What one feature contributes to the score."""

    name: Annotated[str, Field(description="The feature; `load (t-1)` is the value of the row before.")]
    value: Any
    contribution: float


class Explained(Body, omit_defaults=True, kw_only=True):
    """Contributions are relative to a row of mean values; `base` plus all contributions is the score."""

    base: Annotated[float, Field(description="The score of a row in which every feature has its mean.")]
    features: list[Contribution]
    experts: Annotated[list[dict[str, Any]] | None, Field(description="`auto`: what each expert predicts.")] = None
    densities: Annotated[dict[str, Any] | None, Field(description="VIGO: log densities by class.")] = None
    sampled: Annotated[bool, Field(description="Whether contributions are Shapley values from evaluations.")]


class Predicted(Body, omit_defaults=True, kw_only=True):
    """A prediction. The model has not changed."""

    prediction: Predictable
    probabilities: Annotated[
        dict[str, Probability] | None,
        Field(
            examples=[{"UP": 0.83, "DOWN": 0.17}],
            description="Classification: the probability of each label, declared or seen; never 0 or 1.",
        ),
    ] = None
    std: Annotated[float | None, Field(description="Regression: the standard deviation, if there is one.")] = None
    interval: LowAndHigh = msgspec.UNSET
    version: Version
    prediction_id: Annotated[str | None, Field(description="If tracked: the id to send the label with.")] = None
    explanation: Annotated[Explained | None, Field(description="If `explain` was set.")] = None
    incarnation: Incarnation


def explained(model: Model, raw: Floats, values: dict[str, Any]) -> Explained:
    """The explanation of a raw row (1, F) that a client sent as ``values``, by the model as it is now."""
    sparse = isinstance(model.prediction_schema, SparseSchema)
    found = explain.explain_sparse(model.own, raw, values) if sparse else explain.explain(model.own, raw)
    sent = {**found.values, **values}
    features = [Contribution(name, sent.get(name), part) for name, part in found.contributions.items()]
    more = {} if sparse else explain.experts(model.own, raw)
    return Explained(base=found.base, features=features, sampled=found.sampled, **more)
