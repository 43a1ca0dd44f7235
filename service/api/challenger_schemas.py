"""The bodies of challengers, as the contract names them."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from service.api.metric_schemas import Metrics
from service.api.model_schemas import RequestBody
from service.api.schemas import Incarnation, Rows, Version


class Promotion(RequestBody):
    """How a challenger is promoted."""

    force: bool = Field(False, description="Also one that has not been shown to be better.")


class Difference(BaseModel):
    """The paired difference of losses, model minus challenger: above 0 the challenger is better. Null before a row."""

    mean: float | None = Field(
        examples=[0.021],
        description="Of the rows that both have predicted, since the later of the two began or the last promotion. "
        "Losses are 0 or 1, with `class_costs` what the answer cost; squared errors count as at most `bound`.",
    )
    low: float | None = Field(
        examples=[0.004],
        description="The interval holds at all rows at once (a confidence sequence): it may be looked at at any time.",
    )
    high: float | None = Field(examples=[0.038])
    confidence: float = Field(examples=[0.95], description="1 - 0.05 / k with k challengers, `previous` included.")
    rows: int = Field(ge=0, examples=[2400], description="Rows that were compared.")
    bound: float | None = Field(
        None, description="Regression: the largest squared error that counts, four times the variance of the labels."
    )


class ChallengerEntry(BaseModel):
    """A challenger: a learner beside the model's own, on the same rows."""

    name: str = Field(examples=["candidate"])
    config: dict[str, Any] = Field(
        examples=[{"algorithm": "vigod", "params": {"batch_size": 200}, "promote": "never"}],
        description="What it has by itself, complete; all else is the model's.",
    )
    promote: Literal["never", "auto"]
    since_version: int = Field(ge=0, examples=[18], description="The entry that put it there.")
    rows: Rows
    metrics: Metrics = Field(
        description="Of the rows that it has learned; `history` and `marks` have the row numbers of the model."
    )
    info: dict[str, Any] = Field(examples=[{"classes_seen": 2}], description="What its learner reports.")
    difference: Difference


class Champion(BaseModel):
    """The learner whose predictions the model answers with."""

    algorithm: str = Field(examples=["dfop"])
    score: float | None = Field(
        examples=[0.84], description="Overall accuracy, or mean squared error; null before the first row."
    )


class ChallengerList(BaseModel):
    """The challengers of a model, in the order in which they were put beside it."""

    champion: Champion
    challengers: list[ChallengerEntry]
    version: Version
    incarnation: Incarnation
