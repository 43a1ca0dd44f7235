"""The bodies of answers about drift, as the contract names them."""

from typing import Literal

from pydantic import BaseModel, Field

from service.api.schemas import Incarnation, Label, Time, Version


class DriftFeature(BaseModel):
    """A feature whose mean has moved."""

    name: str = Field(examples=["price"])
    before: float = Field(examples=[0.056])
    after: float = Field(examples=[0.081])


class DriftWindows(BaseModel):
    """How many rows were compared."""

    before: int = Field(ge=0, examples=[900])
    after: int = Field(ge=0, examples=[300])


class JoinedAlarm(BaseModel):
    """A later alarm of an event."""

    kind: str = Field(examples=["error_rate"], description="Which test fired.")
    label: Label | float | None = Field(alias="class", examples=["DOWN"], description="The class; null for regression.")
    row: int = Field(examples=[1431], description="The row that raised it.")
    features: list[DriftFeature] = Field(description="class_mean: the features that moved, most first.")


class DriftEvent(BaseModel):
    """One drift: its first alarm, and what has joined it."""

    id: str = Field(
        examples=["5f3a9c0d1e2b4a68-1204-0"],
        description="Incarnation, version and index: the same however often it is sent.",
    )
    model: str = Field(examples=["demo"])
    time: Time = Field(description="When the row that raised it was committed.")
    kind: str = Field(examples=["class_mean"], description="Which test found it: class_mean, error_rate or unlabelled.")
    label: Label | float | None = Field(
        alias="class", examples=["UP"], description="The class whose rows were compared; null for regression."
    )
    version: int = Field(examples=[1204], description="The entry that raised it.")
    row: int = Field(examples=[1204], description="The row that raised it; the first one learned is 1.")
    features: list[DriftFeature] = Field(description="class_mean: the features that moved, most first.")
    before: float | None = Field(
        examples=[None],
        description="error_rate: the share of wrong rows before; for regression those whose squared error is above the "
        "0.9 quantile of a reference batch. Null otherwise.",
    )
    after: float | None = Field(examples=[None], description="error_rate: that share after; null otherwise.")
    epsilon_cut: float = Field(
        examples=[0.018],
        description="The threshold that was passed: for the rise of that share, or for the mean that moved most, in "
        "units of its feature's range.",
    )
    windows: DriftWindows
    action: Literal["report", "reset", "forget"] = Field(
        description="What the model did; reset where vigod has started the class again."
    )
    challenger: str | None = Field(examples=[None], description="The challenger that raised it; null: the model.")
    held_back: bool = Field(
        description="Whether it came in the `watch.cooldown_rows` rows after another event: `on_drift` did not act "
        "upon it, and no webhook is sent it."
    )
    alarms: list[JoinedAlarm] = Field(
        description="Later alarms, in the `watch.episode_rows` rows after it; the first 20. Streams and webhooks send "
        "an event once, at its first alarm, when there is none."
    )
    alarm_count: int = Field(ge=0, examples=[3], description="How many later alarms there are by now.")


class DriftList(BaseModel):
    """Drift events of all models, in the order in which they became known."""

    events: list[DriftEvent]
    next: str | None = Field(examples=[None], description="The `cursor` of the next page.")


class ModelDriftList(DriftList):
    """Drift events of one model, oldest first."""

    version: Version
    incarnation: Incarnation
