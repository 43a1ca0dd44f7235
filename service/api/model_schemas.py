"""The bodies of models, as the contract names them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from core.annotations import DESCRIPTION_MAX, KEY_MAX, TAGS_MAX, VALUE_MAX
from core.config import IGNORED_MAX, LAG_CLASSES_MAX, LAGS_MAX, SEED_MAX
from core.drift.config import BATCH_SIZE, BATCH_SIZE_MAX, COOLDOWN_ROWS, DELTA, EPISODE_ROWS, ROWS_MAX
from core.features.feature import BUCKETS, CATEGORIES_MAX, COLUMNS_MAX
from core.learners.catalogue import DEFAULT
from service.api.metric_schemas import Metrics
from service.api.openapi.answers import CONFIG, INFO
from service.api.schemas import GivenLabel, Incarnation, Name, Predictable, Rows, Time, Version


def _optional(schema: dict[str, Any]) -> None:
    """Descriptions say what a field left out means: generators of clients require what has a ``default``."""
    for field in schema.get("properties", {}).values():
        field.pop("default", None)


def as_sent(cls: Any, body: Any, _: Any) -> Any:
    """The body as it was sent: ``core.config`` checks it, as it checks those of imported states."""
    del cls
    if not isinstance(body, dict):
        raise PydanticCustomError("dict_type", "not an object")
    return body


class RequestBody(BaseModel, extra="forbid", strict=True, json_schema_extra=_optional):
    """A body with the fields it names and no others; a number is a number."""


class FeatureEntry(RequestBody):
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


Tags = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=KEY_MAX)], Annotated[str, Field(max_length=VALUE_MAX)]],
    Field(max_length=TAGS_MAX),
]
Features = Annotated[list[Name | FeatureEntry], Field(min_length=1, max_length=COLUMNS_MAX)]


class WatchTest(RequestBody):
    """The settings of a drift test."""

    delta: float = Field(DELTA, gt=0, lt=1, description=f"Bound on the chance of a false alarm. Left out: {DELTA}.")
    batch_size: int = Field(
        BATCH_SIZE, ge=2, le=BATCH_SIZE_MAX, description=f"Rows of a class in a recent window. Left out: {BATCH_SIZE}."
    )


class WatchTests(RequestBody):
    """The drift tests, and which of their alarms are one event.

    Where a test is named, those that are named run and no others (null: not this one); with other keys only, all run.
    """

    class_mean: WatchTest | None = Field(None, description="The means of the features in each class.")
    error_rate: WatchTest | None = Field(None, description="How often the model is wrong.")
    episode_rows: int = Field(
        EPISODE_ROWS,
        ge=0,
        le=ROWS_MAX,
        description=f"Alarms in so many rows after the first one of an event join it. Left out: {EPISODE_ROWS}.",
    )
    cooldown_rows: int = Field(
        COOLDOWN_ROWS,
        ge=0,
        le=ROWS_MAX,
        description="Events in so many rows after an event are listed and streamed, but not acted upon and not sent to "
        f"webhooks. Left out: {COOLDOWN_ROWS}.",
    )
    unlabelled: bool = Field(
        False,
        description="Whether features and predictions of tracked rows are tested before their labels come: events of "
        "kind `unlabelled`, which may come twice or not at all. Left out: they are not.",
    )


class ModelBody(RequestBody):
    """A model to create. Only ``task`` is needed, and not even that where the algorithm has one only."""

    algorithm: str = Field(
        DEFAULT, description="An id of GET /algorithms. Left out: `auto`, experts of all families mixed row by row."
    )
    task: Literal["classification", "regression"] | None = Field(
        None, description="What is predicted. Left out: the one task of the algorithm, if it has one."
    )
    params: dict[str, Any] | None = Field(None, description="As GET /algorithms describes them.")
    features: Features | None = Field(
        None,
        description="Left out: the first feedback row fixes them. A number is numeric, true and false are boolean, a "
        "string is categorical, hashed.",
    )
    labels: list[GivenLabel] | None = Field(
        None, min_length=2, description="Classification. Left out: classes appear as they come."
    )
    missing: Literal["error", "zero", "mean"] = Field(
        "error", description="What a missing value becomes; `error`, the default, refuses it."
    )
    unknown: Literal["other", "error"] = Field(
        "other",
        description="What becomes of a category that is not declared: `other`, the default, sets all columns of its "
        "feature to 0; `error` refuses it.",
    )
    ignore: list[Name] | None = Field(
        None, max_length=IGNORED_MAX, description="Names that rows may hold and that are passed over."
    )
    seed: int = Field(0, ge=0, le=SEED_MAX, description="Of every random draw. Left out: 0.")
    lags: int = Field(
        0,
        ge=0,
        le=LAGS_MAX,
        description="How many of the last rows learned are columns of the next one, their features and their labels (a "
        f"class as 0 and 1 in a column for each of the first {LAG_CLASSES_MAX}). Every row of a predict is predicted "
        "as the next one; a tracked row is learned as it was predicted. Left out: 0.",
    )
    watch: WatchTests | None = Field(
        None,
        description="Left out: both tests with their defaults. `null` and `{}`: none. "
        "`vigod` tests class means by itself, as its `params` say.",
    )
    on_drift: Literal["report", "reset", "forget"] = Field(
        "report",
        description="What the first alarm of an event does besides being reported: nothing (the default), the learner "
        "starts again, or it forgets most of its past. `vigod` restarts a class by itself.",
    )
    class_costs: dict[str, Annotated[float, Field(gt=0)]] | None = Field(
        None,
        examples=[{"fraud": 20}],
        description="Classification: what missing a class costs, by its label; 1 for one that is not named. The "
        "prediction is then the label of least expected cost. Left out: the prediction is the most probable label. "
        "With costs far from 1 the drift test `error_rate` fires without a drift, several times in 10 000 rows: the "
        "answers move with the calibration. Keep `on_drift` at `report` then, or watch `class_mean` alone.",
    )
    description: str = Field("", max_length=DESCRIPTION_MAX, description="A note for people.")
    tags: Tags = Field({}, description="Names and values to find and group models by.")

    _left_to_core = model_validator(mode="wrap")(as_sent)


class ModelChanges(RequestBody):
    """What is to change of a configuration: the fields that are named, each as a whole; null gives its default back."""

    watch: WatchTests | None = Field(
        None,
        description="The drift tests from now on; null: none. Tests with a `batch_size` as before keep their windows.",
    )
    on_drift: Literal["report", "reset", "forget"] | None = Field(None, description="What an alarm does from now on.")
    missing: Literal["error", "zero", "mean"] | None = Field(
        None, description="What a missing value becomes from now on; the means of `mean` begin with the next row."
    )
    unknown: Literal["other", "error"] | None = Field(
        None, description="What becomes of a category that is not declared from now on."
    )
    ignore: list[Name] | None = Field(
        None, max_length=IGNORED_MAX, description="Names that are passed over from now on, and no others."
    )
    class_costs: dict[str, Annotated[float, Field(gt=0)]] | None = Field(
        None, description="What missing a class costs from now on, by its label; null: 1 for all."
    )
    add_labels: list[GivenLabel] | None = Field(
        None, description="Labels behind those that are declared; those that are there already are fine."
    )
    add_categories: dict[str, list[GivenLabel]] | None = Field(
        None,
        description="Categories by feature, behind those that are declared. What was learned goes on, as if the new "
        "ones had never come. 422 where a learner cannot: a switch can.",
    )
    description: str | None = Field(None, max_length=DESCRIPTION_MAX)
    tags: Tags | None = None

    _left_to_core = model_validator(mode="wrap")(as_sent)


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
