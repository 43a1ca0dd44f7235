"""The bodies of a change of features, as the contract names them; see ``schemas``."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from service.api.schemas import FeatureEntry, Identity


class SwitchBody(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A step in a change of features."""

    action: Annotated[
        Literal["begin", "complete", "abort"],
        Meta(description="begin an overlap in which rows carry both sets of features; complete it; or go back."),
    ]
    features: Annotated[
        list[str | FeatureEntry] | None,
        Meta(
            description="begin: the whole new space. Names that the model has are kept; a bare one as it was declared."
        ),
    ] = None
    mapping: Annotated[
        Literal["linear", "kernel"] | None,
        Meta(description="begin: how old features are recovered from new ones; left out: linear."),
    ] = None
    id: Annotated[
        Identity | None, Meta(description="Your own id of this step; sent again within a day it is done once.")
    ] = None


class OverlapBody(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Unlabelled rows with both sets of features: one by name, or several by column."""

    features: Annotated[dict[str, Any] | None, Meta(description="One row: a value for every old and new name.")] = None
    columns: Annotated[list[str] | None, Meta(description="Several rows: every old and new name.")] = None
    data: list[list[Any]] | None = None
    id: Annotated[Identity | None, Meta(description="Of the one row; sent again within a day it teaches once.")] = None
    ids: Annotated[list[str] | None, Meta(description="One per row: 1 to 200 printable characters each.")] = None


class Expert(Struct):
    """A model of the ensemble that a change of features leaves."""

    expert: Annotated[
        str,
        Meta(
            description="recovered: the old model, on old features recovered from the new ones; new: trained on the "
            "new features in the overlap; carried (linear models alone): a copy of the old model in the new features."
        ),
    ]
    weight: Annotated[float, Meta(description="Its share in the predictions.")]
    loss: Annotated[float, Meta(description="Its cumulative loss since the change was completed.")]


class FeatureSpaces(Struct, kw_only=True):
    """Where a model stands in a change of features."""

    phase: Literal["steady", "overlap", "ensemble"]
    current: Annotated[list[str | FeatureEntry], Meta(description="What a prediction needs now.")]
    next: Annotated[list[str | FeatureEntry] | None, Meta(description="In an overlap: what it will need.")]
    overlap_rows: Annotated[int, Meta(description="Rows that have taught how to recover old features from new ones.")]
    mapping_error: Annotated[
        float | None,
        Meta(
            description="How well old features are recovered now: the squared error of the latest rows (a quarter of "
            "few, some 50 of many), each recovered before it was learned. 0 is perfect, 1 no better than the mean."
        ),
    ]
    ensemble: Annotated[
        list[Expert] | None,
        Meta(description="The experts that predict since a change was completed: recovered, new and maybe carried."),
    ]
    version: int
    incarnation: str


class SwitchedSpaces(FeatureSpaces, kw_only=True, omit_defaults=True):
    """Where the model stood after this step."""

    rows: int
    duplicate: bool
    durability: str
    warning: str | None = None


class Taught(Struct, kw_only=True):
    """Rows that have taught how to recover old features from new ones; nothing else was learned from them."""

    overlap_rows: int
    version: int
    rows: int
    duplicate: bool
    duplicates: int
    durability: str
    incarnation: str
