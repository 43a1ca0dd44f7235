"""The bodies of challengers, as the contract names them."""

from typing import Any, Literal

from pydantic import BaseModel, Field, model_validator

from core.config import LAGS_MAX, SEED_MAX
from service.api.metric_schemas import Metrics
from service.api.model_schemas import RequestBody, WatchTests, as_sent
from service.api.schemas import Incarnation, Rows, Version


class ChallengerBody(RequestBody):
    """A challenger to put beside a model. What rows and labels are is the model's, and may be left out."""

    algorithm: str = Field("auto", description="An id of GET /algorithms, of the model's task. Left out: `auto`.")
    params: dict[str, Any] | None = Field(None, description="As GET /algorithms describes them.")
    seed: int = Field(0, ge=0, le=SEED_MAX, description="Of every random draw. Left out: 0.")
    lags: int = Field(
        0,
        ge=0,
        le=LAGS_MAX,
        description="How many of the last rows learned are columns of the next one. Left out: none.",
    )
    watch: WatchTests | None = Field(
        None, description="Its own drift tests. Left out: both with their defaults. `null` and `{}`: none."
    )
    on_drift: Literal["report", "reset", "forget"] = Field(
        "report", description="What an alarm of its own tests does to it, besides being reported."
    )
    promote: Literal["never", "auto"] = Field(
        "never",
        description="`auto`: it becomes the model by itself once `difference.low` is above 0, after 1000 compared rows "
        "at the earliest, unless the sum of its squared errors is larger. Left out: never.",
    )

    _left_to_core = model_validator(mode="wrap")(as_sent)


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
