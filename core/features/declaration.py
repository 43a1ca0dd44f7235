"""Features, categories and labels as clients write them; ``core.features.feature`` checks what they mean."""

from typing import Annotated, Literal

from pydantic import Field

from core.checked import Checked
from core.features.feature import BUCKETS, CATEGORIES_MAX, COLUMNS_MAX, NAME_MAX
from core.features.labels import LENGTH_MAX

Name = Annotated[str, Field(min_length=1, max_length=NAME_MAX)]
GivenLabel = Annotated[str, Field(max_length=LENGTH_MAX)] | Annotated[int, Field(ge=-(2**63), lt=2**63)] | bool
"""A label or a category."""


class FeatureEntry(Checked):
    """A declared feature."""

    name: Name
    type: Literal["numeric", "categorical", "boolean", "time"] = Field(
        "numeric",
        description="Left out: categorical with `categories` or `buckets`, else numeric. `boolean`: true, false, 0 or "
        "1. `time`: RFC 3339 or seconds since 1970; the model sees hour, weekday and day of the year as sine and "
        "cosine, and the days since 2026.",
    )
    categories: list[GivenLabel] | None = Field(
        None,
        min_length=2,
        max_length=CATEGORIES_MAX,
        description="The values of a categorical feature, a column each. Left out: values are hashed into `buckets`.",
    )
    buckets: int | None = Field(
        None,
        ge=2,
        le=CATEGORIES_MAX,
        description=f"Columns that values without a declaration share. Left out: {BUCKETS}.",
    )
    minimum: float | None = Field(None, alias="min", description="Where values usually begin.")
    maximum: float | None = Field(None, alias="max", description="Where values usually end.")
    outside: Literal["accept", "refuse", "clip"] | None = Field(
        None, description="What becomes of a number outside `min` and `max`. Left out: it is accepted as it is."
    )


Declared = Annotated[list[Name | FeatureEntry], Field(min_length=1, max_length=COLUMNS_MAX)]
"""The features of a model."""
