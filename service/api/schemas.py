"""The bodies of rows, as the contract names them, and the fields that many answers share.

Rows are decoded and encoded by msgspec, an order of magnitude faster than by pydantic. The same structs describe
themselves to pydantic, so that /openapi.json shows them like every other model. What msgspec is told to take as ``Any``
is checked against the model's features and labels; what stands beside it is documentation.
"""

from typing import Annotated, Any, get_type_hints

import msgspec
from pydantic import Field, GetCoreSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

from core.contract import LEVEL_MAX, WEIGHT_MAX, WEIGHT_MIN, Label
from core.features.feature import Name as Name
from core.features.labels import LENGTH_MAX
from service.runtime.rows.row_numbers import DISCOUNT_MIN

ClientId = Annotated[
    Annotated[str, Field(min_length=1, max_length=200)] | int,
    Field(description='1 to 200 printable characters, or an integer; 17 and "17" are one id.'),
]
Version = Annotated[int, Field(ge=0, examples=[18], description="Entries of the model's log; its creation is 0.")]
RowsLearned = Annotated[int, Field(ge=0, examples=[18], description="Rows the model has learned.")]
Incarnation = Annotated[
    str,
    Field(
        examples=["5f3a9c0d1e2b4a68"],
        description="Another one after the model was deleted and created again.",
    ),
]
DurabilityShown = Annotated[
    str, Field(examples=["everysec"], description="What the store does: always, everysec, none.")
]
Time = Annotated[str, Field(examples=["2026-01-31T12:00:00.000Z"], json_schema_extra={"format": "date-time"})]
Predictable = Annotated[Label | float | None, Field(examples=["UP"], description="Null where no label is known yet.")]
Loss = Annotated[float | None, Field(examples=[0.0], description="0 or 1, or the squared error; null: not scored.")]
Probability = Annotated[float, Field(gt=0, lt=1)]

_ANY_LABEL = WithJsonSchema(
    {"anyOf": [{"type": "string", "maxLength": LENGTH_MAX}, {"type": "number"}, {"type": "boolean"}]}
)
_ANY_VALUE = WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "boolean"}, {"type": "null"}]})
_WEIGHT = {"type": "number", "minimum": WEIGHT_MIN, "maximum": WEIGHT_MAX}
_ANY_WEIGHT = WithJsonSchema({"anyOf": [_WEIGHT, {"type": "null"}]})
_ANY_LEVEL = WithJsonSchema(
    {"anyOf": [{"type": "number", "exclusiveMinimum": 0, "maximum": LEVEL_MAX}, {"type": "null"}]}
)
_DISCOUNT = {"type": "number", "minimum": DISCOUNT_MIN, "maximum": 1}
_ANY_DISCOUNT = WithJsonSchema({"anyOf": [_DISCOUNT, {"type": "null"}]})
TrueLabel = Annotated[Any, _ANY_LABEL]
Value = Annotated[Any, _ANY_VALUE]
Values = Annotated[
    dict[str, Value],
    Field(
        description="A value for every feature: a number, a string, true or false, or null for missing.",
        examples=[{"load": 0.31, "price": 0.056}],
    ),
]
ColumnNames = Annotated[list[Name], Field(min_length=1, description="The name of every column.")]
Data = Annotated[list[list[Value]], Field(min_length=1, description="The rows: a value for every column.")]
LabelList = Annotated[list[TrueLabel], Field(min_length=1, description="One per row.")]
Level = Annotated[
    Any,
    _ANY_LEVEL,
    Field(description="Regression: the share of labels that the intervals beside the predictions are to cover."),
]
_BOUNDS: dict[str, Any] = {
    "anyOf": [{"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}, {"type": "null"}]
}
LowAndHigh = Annotated[
    Any,
    WithJsonSchema(_BOUNDS),
    Field(
        examples=[[58.2, 66.1]],
        description="Where `interval` was asked for: low and high; null until the model has learned rows enough.",
    ),
]
Ids = Annotated[
    list[ClientId] | None, Field(description="Your own id of each row; sent again within a day it is learned once.")
]
Discounts = Annotated[
    list[Annotated[Any, WithJsonSchema(_DISCOUNT)]] | None,
    Field(description="One per row; only for algorithms that take them."),
]
RowWeights = Annotated[
    list[Annotated[Any, WithJsonSchema(_WEIGHT)]] | None,
    Field(description="How many times each row counts in what is learned; only for algorithms that take weights."),
]


class Body(msgspec.Struct):
    """A struct that describes itself to pydantic; it is neither checked nor encoded there."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """As a typed dictionary of its fields."""
        hints = get_type_hints(cls, include_extras=True)
        fields = {
            own.encode_name: core_schema.typed_dict_field(
                handler.generate_schema(hints[own.name]), required=own.required
            )
            for own in msgspec.structs.fields(cls)
        }
        extra: Any = "forbid" if cls.__struct_config__.forbid_unknown_fields else "ignore"
        return core_schema.typed_dict_schema(fields, cls=cls, extra_behavior=extra, ref=f"{cls.__name__}:{id(cls)}")


# ------------------------------------------------------------------------------------------------ one row


class PredictRow(Body, forbid_unknown_fields=True):
    """One row to predict."""

    features: Values
    track: Annotated[
        bool, Field(description="Keep the prediction until its label comes; the answer then carries a prediction_id.")
    ] = False
    explain: Annotated[
        bool,
        Field(
            description="Add contributions of the features (linear models), what each expert says (`auto`) or the "
            "densities per class (VIGO)."
        ),
    ] = False
    interval: Level = None


class Predicted(Body, omit_defaults=True, kw_only=True):
    """A prediction. Nothing has changed."""

    prediction: Predictable
    probabilities: Annotated[
        dict[str, Probability] | None,
        Field(
            examples=[{"UP": 0.83, "DOWN": 0.17}],
            description="Classification: of each label, declared or seen; never 0 or 1.",
        ),
    ] = None
    std: Annotated[float | None, Field(description="Regression: the standard deviation, where there is one.")] = None
    interval: LowAndHigh = msgspec.UNSET
    version: Version
    prediction_id: Annotated[str | None, Field(description="Where it is tracked: what its label is sent with.")] = None
    explanation: Annotated[dict[str, Any] | None, Field(description="Where it was asked for.")] = None
    incarnation: Incarnation


class FeedbackRow(Body, forbid_unknown_fields=True):
    """One labelled row: either its features, or the id of a tracked prediction."""

    label: Annotated[TrueLabel, Field(description="A string, integer or boolean; a number for regression.")]
    features: Annotated[dict[str, Value] | None, Field(description="As in predict; without prediction_id.")] = None
    prediction_id: Annotated[ClientId | None, Field(description="Of a tracked prediction; without features.")] = None
    id: Annotated[
        ClientId | None, Field(description="Your own id of this row; sent again within a day it is learned once.")
    ] = None
    discount: Annotated[
        Any,
        _ANY_DISCOUNT,
        Field(description="Weight of the past at this row; only for algorithms that take one."),
    ] = None
    weight: Annotated[
        Any,
        _ANY_WEIGHT,
        Field(description="How many times the row counts in what is learned; not in the metrics. Not for VIGO."),
    ] = None


NewLabels = Annotated[
    list[Label] | None,
    Field(
        description="Only where labels are not declared and the request added some: the new classes. A mistyped label "
        "shows here.",
        examples=[["DWON"]],
    ),
]
Mapped = Annotated[
    bool,
    Field(
        description="In a change of features, only where it is false: rows of the old features alone, which the old "
        "model learned; they have not taught how old features are recovered from new ones."
    ),
]


class Learnt(Body, omit_defaults=True):
    """What the model said before it learned the row, and where it stands now."""

    prediction: Predictable
    loss: Loss
    version: Version
    rows: RowsLearned
    duplicate: Annotated[
        bool, Field(examples=[False], description="Its id had been seen: this is the first answer again.")
    ]
    learned: Annotated[bool, Field(description="False: it was scored only, its features are not in use any more.")]
    durability: DurabilityShown
    incarnation: Incarnation
    mapped: Mapped = True
    new_labels: NewLabels = None


# ------------------------------------------------------------------------------------------------ batches


class PredictColumns(Body, forbid_unknown_fields=True):
    """Rows to predict, by column."""

    columns: ColumnNames
    data: Data
    interval: Level = None


class FeedbackColumns(Body, forbid_unknown_fields=True):
    """Labelled rows, by column; each is tested, then trained, in order."""

    columns: ColumnNames
    data: Data
    labels: LabelList
    ids: Ids = None
    discounts: Discounts = None
    weights: RowWeights = None


class PredictRecord(Body, forbid_unknown_fields=True):
    """One row of several."""

    features: Values


class FeedbackRecord(Body, forbid_unknown_fields=True):
    """One labelled row of several."""

    features: Values
    label: Annotated[TrueLabel, Field(description="A string, integer or boolean; a number for regression.")]
    id: Annotated[ClientId | None, Field(description="Your own id of this row; of every row, or of none.")] = None
    discount: Annotated[
        Any, _ANY_DISCOUNT, Field(description="Weight of the past at this row; of every row, or of none.")
    ] = None
    weight: Annotated[
        Any, _ANY_WEIGHT, Field(description="How many times the row counts in what is learned; of every row, or none.")
    ] = None


class PredictRecords(Body, forbid_unknown_fields=True):
    """Rows to predict, each by name."""

    rows: Annotated[list[PredictRecord], Field(min_length=1)]
    interval: Level = None


class FeedbackRecords(Body, forbid_unknown_fields=True):
    """Labelled rows, each by name; each is tested, then trained, in order."""

    rows: Annotated[list[FeedbackRecord], Field(min_length=1)]


class SparseRow(Body, forbid_unknown_fields=True):
    """One row of a model that takes named sparse rows; a name left out is 0."""

    names: Annotated[list[Name], Field(description="Each once, 1 to 200 printable characters.")]
    values: Annotated[
        list[Annotated[Any, WithJsonSchema({"type": "number"})]], Field(description="A number for every name.")
    ]


SparseRows = Annotated[list[SparseRow], Field(min_length=1)]


class PredictSparse(Body, forbid_unknown_fields=True):
    """Sparse rows to predict."""

    rows: SparseRows
    interval: Level = None


class FeedbackSparse(Body, forbid_unknown_fields=True):
    """Labelled sparse rows; each is tested, then trained, in order."""

    rows: SparseRows
    labels: LabelList
    ids: Ids = None
    discounts: Discounts = None
    weights: RowWeights = None


class PredictedBatch(Body, omit_defaults=True, kw_only=True):
    """Predictions in the order of the rows."""

    predictions: Annotated[list[Predictable], Field(examples=[["UP", "DOWN"]])]
    classes: Annotated[
        list[Label] | None,
        Field(examples=[["UP", "DOWN"]], description="Classification: the declared labels, else those seen."),
    ] = None
    probabilities: Annotated[
        list[list[Probability]] | None,
        Field(examples=[[[0.83, 0.17], [0.31, 0.69]]], description="Classification: of each row, of each class."),
    ] = None
    std: Annotated[list[float] | None, Field(description="Regression: of each row, where there is one.")] = None
    intervals: Annotated[
        list[LowAndHigh] | None,
        Field(
            examples=[[[58.2, 66.1], [60.4, 68.3]]],
            description="Where `interval` was asked for: low and high of each row.",
        ),
    ] = None
    version: Version
    incarnation: Incarnation


class LearntBatch(Body, omit_defaults=True):
    """A-priori predictions and losses in the order of the rows."""

    predictions: Annotated[list[Predictable], Field(examples=[["UP", "UP"]])]
    losses: Annotated[list[Loss], Field(examples=[[0.0, 1.0]])]
    version: Version
    rows: RowsLearned
    metrics: Annotated[dict[str, int | float | None], Field(description="Of this batch.", examples=[{"accuracy": 0.5}])]
    duplicate: Annotated[bool, Field(examples=[False], description="Every id of it had been seen.")]
    duplicates: Annotated[int, Field(ge=0, examples=[0], description="Rows whose ids had been seen.")]
    learned: bool
    durability: DurabilityShown
    incarnation: Incarnation
    mapped: Mapped = True
    new_labels: NewLabels = None


# ------------------------------------------------------------------------------------------------ overlap rows


class OverlapRecord(Body, forbid_unknown_fields=True):
    """One row of several, with both sets of features."""

    features: Annotated[dict[str, Value], Field(description="A value for every old and new name.")]
    id: Annotated[ClientId | None, Field(description="Your own id of this row; of every row, or of none.")] = None


class OverlapBody(Body, forbid_unknown_fields=True, omit_defaults=True):
    """Unlabelled rows with both sets of features: one by name, or several by column or by name."""

    features: Annotated[dict[str, Value] | None, Field(description="One row: a value for every old and new name.")] = (
        None
    )
    columns: Annotated[list[Name] | None, Field(description="Several rows: every old and new name.")] = None
    data: Annotated[list[list[Value]] | None, Field(description="Their values.")] = None
    id: Annotated[ClientId | None, Field(description="Of the one row; sent again within a day it teaches once.")] = None
    ids: Annotated[list[ClientId] | None, Field(description="Of each of several rows, by column.")] = None
    rows: Annotated[list[OverlapRecord] | None, Field(description="Several rows, each by name.")] = None


class Taught(Body, kw_only=True):
    """Rows that have taught how to recover old features from new ones; nothing else was learned from them."""

    overlap_rows: Annotated[int, Field(ge=0, examples=[1], description="All that have taught it so far.")]
    version: Version
    rows: RowsLearned
    duplicate: bool
    duplicates: Annotated[int, Field(ge=0, examples=[0])]
    durability: DurabilityShown
    incarnation: Incarnation
