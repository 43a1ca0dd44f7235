"""The bodies of a change of features, as the contract names them."""

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    Field,
    SkipValidation,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from core.features.declaration import Declared as Features
from core.features.declaration import FeatureEntry
from service.api.identity import NO_IDENTITY
from service.api.model_schemas import RequestBody
from service.api.schemas import Durability, Identity, Incarnation, Rows, Version

Declared = list[str | FeatureEntry]


def _one_problem(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """One problem of what is neither a string nor an integer, not one for each."""
    try:
        return check(value)
    except ValidationError:
        raise PydanticCustomError("identity", NO_IDENTITY) from None


class SwitchBody(RequestBody):
    """A step in a change of features."""

    action: Literal["begin", "complete", "abort"] = Field(
        description="`begin` an overlap in which rows carry both sets of features, `complete` it, or go back."
    )
    features: Annotated[Features | None, SkipValidation] = Field(  # core.features names what is wrong with each
        None,
        description="`begin`: the whole new space. Names that the model has are kept; a bare one as it was declared, "
        "others of the same type with other categories or bounds.",
    )
    mapping: Literal["linear", "kernel"] | None = Field(
        None, description="`begin`: how old features are recovered from new ones; left out: linear."
    )
    force: bool = Field(False, description="`complete`: also with fewer than five rows that teach the mapping.")
    id: Annotated[Identity | None, WrapValidator(_one_problem)] = Field(
        None, description="Your own id of this step; sent again within a day it is done once."
    )


class Expert(BaseModel):
    """A model of the ensemble that a change of features leaves."""

    expert: Literal["recovered", "new", "carried"] = Field(
        description="`recovered`: the old model, on old features recovered from the new ones; `new`: trained on the "
        "new features in the overlap; `carried` (linear models only): a copy of the old model in the new features."
    )
    weight: float = Field(ge=0, le=1, description="Its share in the predictions.")
    loss: float = Field(ge=0, description="Its cumulative loss since the change was completed.")


class FeatureSpaces(BaseModel):
    """Where a model stands in a change of features."""

    phase: Literal["steady", "overlap", "ensemble"] = Field(examples=["overlap"])
    current: Declared = Field(examples=[["load", "price"]], description="What a prediction needs now.")
    next: Declared | None = Field(examples=[["load", "wind"]], description="In an overlap: what it will need.")
    overlap_rows: int = Field(
        ge=0, examples=[0], description="Rows that have taught how to recover old features from new ones."
    )
    mapping_error: float | None = Field(
        examples=[None],
        description="How well old features are recovered now: the squared error of the latest rows (a quarter of few, "
        "some 50 of many), each recovered before it was learned. 0 is perfect, 1 no better than the mean.",
    )
    ensemble: list[Expert] | None = Field(
        examples=[None], description="The experts that predict since a change was completed."
    )
    means: dict[str, float] | None = Field(
        None,
        examples=[{"load": 0.42, "price": 0.05}],
        description="`means=true`: of the numeric and boolean features, over the rows that the drift test of class "
        "means compares; empty without that test.",
    )
    version: Version
    incarnation: Incarnation


class SwitchedSpaces(FeatureSpaces):
    """Where the model stood after this step."""

    rows: Rows
    duplicate: bool = Field(description="The same step, sent again: it was done once.")
    durability: Durability
    warning: str | None = Field(None, description="Where the step may not have been what was wanted.")
