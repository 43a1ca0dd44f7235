"""The bodies of models, as the contract names them."""

from typing import Any, Literal

from pydantic import BaseModel, Field, WrapValidator

from core.checked import Checked, optional
from core.config import Config
from service.api.metric_schemas import Metrics
from service.api.openapi.answers import CONFIG, INFO
from service.api.schemas import Incarnation, Predictable, Rows, Time, Version


def sent_as(model: type[Checked]) -> WrapValidator:
    """The body as it was sent, described by a model: it is parsed where that may take its time."""
    return WrapValidator(lambda body, _: body, json_schema_input_type=model)


class ModelBody(Config):
    """A model to create. Only ``task`` is needed, and not even that where the algorithm has one only."""


class RequestBody(BaseModel, extra="forbid", strict=True, json_schema_extra=optional):
    """A body with the fields it names and no others; a number is a number."""


class Model(BaseModel):
    """A model."""

    name: str = Field(examples=["demo"])
    incarnation: Incarnation
    config: dict[str, Any] = Field(
        examples=[CONFIG],
        description="Complete, with every default.",
    )
    version: Version
    rows: Rows
    phase: Literal["steady", "overlap", "ensemble"]
    metrics: Metrics
    info: dict[str, Any] = Field(examples=[INFO], description="What the model tells of itself.")
    created: Time
    updated: Time


class PendingEntry(BaseModel):
    """A tracked prediction that waits for its label."""

    prediction_id: str = Field(examples=["1U_YueguCgy6HMQRlrBf"])
    prediction: Predictable
    version: Version
    expires: Time


class PendingList(BaseModel):
    """Tracked predictions that wait for their labels."""

    pending: list[PendingEntry]
    expired: int = Field(ge=0, examples=[0], description="How many have expired without a label.")
    next: str | None = Field(examples=[None], description="The `cursor` of the next page.")
    waiting: int = Field(ge=0, examples=[1], description="How many wait, on all pages.")
    incarnation: Incarnation
