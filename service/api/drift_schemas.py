"""The bodies of answers about drift, as the contract names them; schemas.py has the others."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from core.features.labels import Label


class DriftFeature(Struct):
    """A feature whose mean has moved."""

    name: str
    before: float
    after: float


class DriftWindows(Struct):
    """How many rows were compared."""

    before: int
    after: int


class DriftEvent(Struct, rename={"label": "class"}):
    """One detection."""

    id: Annotated[str, Meta(description="Incarnation, version and index: the same however often it is sent.")]
    model: str
    time: Annotated[str, Meta(description="When the row that raised it was committed.")]
    kind: Annotated[str, Meta(description="Which test found it: class_mean or error_rate.")]
    label: Annotated[Label | float | None, Meta(description="The class whose rows were compared; null for regression.")]
    version: Annotated[int, Meta(description="The entry that raised it.")]
    row: Annotated[int, Meta(description="The row that raised it; the first one learned is 1.")]
    features: Annotated[list[DriftFeature], Meta(description="class_mean: the features that moved, most first.")]
    before: Annotated[
        float | None,
        Meta(
            description="error_rate: the share of wrong rows before; of regression those whose squared error is above "
            "the 0.9 quantile of a reference batch. Null otherwise."
        ),
    ]
    after: Annotated[float | None, Meta(description="error_rate: that share after; null otherwise.")]
    epsilon_cut: Annotated[
        float,
        Meta(
            description="The threshold that was passed: for the rise of that share, or for the mean that moved most, "
            "in units of its feature's range."
        ),
    ]
    windows: DriftWindows
    action: Annotated[
        Literal["report", "reset", "forget"],
        Meta(description="What the model did; reset where vigod has started the class anew."),
    ]


class DriftList(Struct):
    """Drift events of all models, in the order in which they became known."""

    events: list[DriftEvent]
    next: str | None


class ModelDriftList(Struct):
    """Drift events of one model, oldest first."""

    events: list[DriftEvent]
    next: str | None
    version: int
    incarnation: str
