"""The bodies of rows, as the contract names them, and the fields that many answers share.

msgspec decodes and encodes rows an order of magnitude faster than pydantic. The same structs describe themselves to
pydantic, so that /openapi.json shows them like every other model. Fields of type ``Any`` are checked later, against the
model's features and labels; their annotations are documentation.
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
Version = Annotated[int, Field(ge=0, examples=[18], description="Number of entries in the model's log; 0 at creation.")]
RowsLearned = Annotated[int, Field(ge=0, examples=[18], description="Number of rows the model has learned.")]
Incarnation = Annotated[
    str, Field(examples=["5f3a9c0d1e2b4a68"], description="Changes when the model is deleted and created again.")
]
DurabilityShown = Annotated[
    str, Field(examples=["everysec"], description="When the store writes to disk: always, everysec, none.")
]
Time = Annotated[str, Field(examples=["2026-01-31T12:00:00.000Z"], json_schema_extra={"format": "date-time"})]
Following = Annotated[
    str | None, Field(examples=[None], description="Pass it as `cursor` to get the next page; null: this is the last.")
]
Predictable = Annotated[Label | float | None, Field(examples=["UP"], description="Null while no label is known.")]
Loss = Annotated[float | None, Field(examples=[0.0], description="0 or 1, or the squared error; null: not scored.")]
Probability = Annotated[float, Field(gt=0, lt=1)]

_LABEL_KINDS = [{"type": "string", "maxLength": LENGTH_MAX}, {"type": "number"}, {"type": "boolean"}]
_ANY_LABEL = WithJsonSchema({"anyOf": _LABEL_KINDS})
_ANY_VALUE = WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "boolean"}, {"type": "null"}]})
_WEIGHT = {"type": "number", "minimum": WEIGHT_MIN, "maximum": WEIGHT_MAX}
_ANY_WEIGHT = WithJsonSchema({"anyOf": [_WEIGHT, {"type": "null"}]})
_DISCOUNT = {"type": "number", "minimum": DISCOUNT_MIN, "maximum": 1}
_ANY_DISCOUNT = WithJsonSchema({"anyOf": [_DISCOUNT, {"type": "null"}]})
TrueLabel = Annotated[Any, _ANY_LABEL]
Served = Annotated[
    Any,
    WithJsonSchema({"anyOf": [*_LABEL_KINDS, {"type": "null"}]}),
    Field(description="What a model outside Onepass predicted; null: nothing. It is compared with this model."),
]
ServedColumn = Annotated[list[Served] | None, Field(description="What a model outside Onepass predicted for each row.")]
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
RowLabel = Annotated[TrueLabel, Field(description="A string, integer or boolean; a number for regression.")]
LabelList = Annotated[list[TrueLabel], Field(min_length=1, description="One per row.")]
_LEVEL = {"type": "number", "exclusiveMinimum": 0, "maximum": LEVEL_MAX}
Level = Annotated[
    Any,
    WithJsonSchema({"anyOf": [_LEVEL, {"type": "null"}]}),
    Field(description="Regression: add intervals that cover this share of the labels."),
]
ToTrack = Annotated[
    bool | None, Field(description="Keep the rows until their labels arrive; needs the scope learn.", examples=[True])
]
_BOUNDS: dict[str, Any] = {
    "anyOf": [{"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}, {"type": "null"}]
}
LowAndHigh = Annotated[
    Any,
    WithJsonSchema(_BOUNDS),
    Field(
        examples=[[58.2, 66.1]],
        description="If `interval` was given: low and high; null until the model has learned enough rows.",
    ),
]
Ids = Annotated[
    list[ClientId] | None, Field(description="Your own id of each row; a row sent again within a day is learned once.")
]
RowId = Annotated[ClientId | None, Field(description="Your own id of this row; give one to all rows or to none.")]
Discounts = Annotated[
    list[Annotated[Any, WithJsonSchema(_DISCOUNT)]] | None,
    Field(description="One per row; only for algorithms that take them."),
]
RowWeights = Annotated[
    list[Annotated[Any, WithJsonSchema(_WEIGHT)]] | None,
    Field(description="How many times each row counts in learning; only for algorithms that take weights."),
]


class Body(msgspec.Struct):
    """A struct that describes itself to pydantic, which neither checks nor encodes it."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The schema of a typed dictionary with its fields."""
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
        bool, Field(description="Keep the prediction until its label arrives; the answer then has a prediction_id.")
    ] = False
    explain: Annotated[
        bool,
        Field(
            description="Add what each feature contributes, the experts' predictions (`auto`) and the densities per "
            "class (VIGO)."
        ),
    ] = False
    interval: Level = None
    served: Annotated[Served, Field(description="As in feedback, if `track` is set.")] = None


class FeedbackRow(Body, forbid_unknown_fields=True):
    """One labelled row: either its features, or the id of a tracked prediction."""

    label: RowLabel
    features: Annotated[dict[str, Value] | None, Field(description="As in predict; omit with prediction_id.")] = None
    prediction_id: Annotated[
        ClientId | None, Field(description="The id of a tracked prediction; omit with features.")
    ] = None
    id: Annotated[
        ClientId | None, Field(description="Your own id of this row; a row sent again within a day is learned once.")
    ] = None
    discount: Annotated[
        Any,
        _ANY_DISCOUNT,
        Field(description="Factor on the weight of all earlier rows; only for algorithms that take a discount."),
    ] = None
    weight: Annotated[
        Any,
        _ANY_WEIGHT,
        Field(description="How many times the row counts in learning, not in the metrics. Not for VIGO."),
    ] = None
    served: Served = None


NewLabels = Annotated[
    list[Label] | None,
    Field(
        description="Only if labels are not declared and rows of this request added some, now or when their ids were "
        "first sent: the new classes. A mistyped label shows up here.",
        examples=[["DWON"]],
    ),
]
Mapped = Annotated[
    bool,
    Field(
        examples=[False],
        description="Only during a change of features, and only if false: the row has only the old features. The old "
        "model learned it; the mapping from new to old features did not.",
    ),
]


BatchScores = Annotated[dict[str, int | float | None], Field(examples=[{"accuracy": 0.5}])]


class Learnt(Body, omit_defaults=True):
    """The model's prediction before it learned the row, and its state afterwards."""

    prediction: Predictable
    loss: Loss
    version: Version
    rows: RowsLearned
    duplicate: Annotated[
        bool, Field(examples=[False], description="The id was sent before: this is the first answer again.")
    ]
    learned: Annotated[
        bool, Field(description="False: the row was only scored, because its features are no longer in use.")
    ]
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
    track: ToTrack = None
    served: ServedColumn = None


class FeedbackColumns(Body, forbid_unknown_fields=True):
    """Labelled rows, by column; each is predicted, then learned, in order."""

    columns: ColumnNames
    data: Data
    labels: LabelList
    ids: Ids = None
    discounts: Discounts = None
    weights: RowWeights = None
    served: ServedColumn = None


class PredictRecord(Body, forbid_unknown_fields=True):
    """One row of several."""

    features: Values
    served: Served = None


class FeedbackRecord(Body, forbid_unknown_fields=True):
    """One labelled row of several."""

    features: Values
    label: RowLabel
    id: RowId = None
    discount: Annotated[
        Any, _ANY_DISCOUNT, Field(description="Factor on the weight of all earlier rows; for all rows or for none.")
    ] = None
    weight: Annotated[
        Any, _ANY_WEIGHT, Field(description="How many times the row counts in learning; for all rows or for none.")
    ] = None
    served: Served = None


class PredictRecords(Body, forbid_unknown_fields=True):
    """Rows to predict, each by name."""

    rows: Annotated[list[PredictRecord], Field(min_length=1)]
    interval: Level = None
    track: ToTrack = None


class FeedbackRecords(Body, forbid_unknown_fields=True):
    """Labelled rows, each by name; each is predicted, then learned, in order."""

    rows: Annotated[list[FeedbackRecord], Field(min_length=1)]


class SparseRow(Body, forbid_unknown_fields=True):
    """One row of a model of named sparse rows; an absent name is 0."""

    names: Annotated[list[Name], Field(description="Distinct names of 1 to 200 printable characters.")]
    values: Annotated[
        list[Annotated[Any, WithJsonSchema({"type": "number"})]], Field(description="One number per name.")
    ]


SparseRows = Annotated[list[SparseRow], Field(min_length=1)]


class PredictSparse(Body, forbid_unknown_fields=True):
    """Sparse rows to predict."""

    rows: SparseRows
    interval: Level = None
    track: ToTrack = None


class FeedbackSparse(Body, forbid_unknown_fields=True):
    """Labelled sparse rows; each is predicted, then learned, in order."""

    rows: SparseRows
    labels: LabelList
    ids: Ids = None
    discounts: Discounts = None
    weights: RowWeights = None
    served: ServedColumn = None


class PredictedBatch(Body, omit_defaults=True, kw_only=True):
    """Predictions in the order of the rows."""

    predictions: Annotated[list[Predictable], Field(examples=[["UP", "DOWN"]])]
    classes: Annotated[
        list[Label] | None,
        Field(examples=[["UP", "DOWN"]], description="Classification: the declared labels, or else those seen so far."),
    ] = None
    probabilities: Annotated[
        list[list[Probability]] | None,
        Field(
            examples=[[[0.83, 0.17], [0.31, 0.69]]],
            description="Classification: the probability of each class, row by row.",
        ),
    ] = None
    std: Annotated[
        list[float] | None, Field(description="Regression: the standard deviation of each row, if there is one.")
    ] = None
    intervals: Annotated[
        list[LowAndHigh] | None,
        Field(
            examples=[[[58.2, 66.1], [60.4, 68.3]]], description="If `interval` was given: low and high of each row."
        ),
    ] = None
    prediction_ids: Annotated[
        list[str] | None, Field(description="If `track` was given: the ids to send the labels with.")
    ] = None
    version: Version
    incarnation: Incarnation


class LearntBatch(Body, omit_defaults=True):
    """A-priori predictions and losses in the order of the rows."""

    predictions: Annotated[list[Predictable], Field(examples=[["UP", "UP"]])]
    losses: Annotated[list[Loss], Field(examples=[[0.0, 1.0]])]
    version: Version
    rows: RowsLearned
    metrics: Annotated[BatchScores, Field(description="Scores over this batch.")]
    duplicate: Annotated[bool, Field(examples=[False], description="All ids of the batch were sent before.")]
    duplicates: Annotated[int, Field(ge=0, examples=[0], description="Number of rows whose ids were sent before.")]
    learned: bool
    durability: DurabilityShown
    incarnation: Incarnation
    mapped: Mapped = True
    new_labels: NewLabels = None


class Evaluated(Body):
    """Scores on rows that were not learned."""

    rows: Annotated[int, Field(ge=1, examples=[2], description="Number of rows of this request.")]
    metrics: Annotated[
        dict[str, int | float | BatchScores | None],
        Field(
            examples=[{"accuracy": 0.5}],
            description="Scores over these rows; `served`: those of a model outside Onepass.",
        ),
    ]
    version: Version
    incarnation: Incarnation


# ------------------------------------------------------------------------------------------------ overlap rows


class OverlapRecord(Body, forbid_unknown_fields=True):
    """One row of several, with both sets of features."""

    features: Annotated[dict[str, Value], Field(description="A value for every old and new name.")]
    id: RowId = None


class OverlapBody(Body, forbid_unknown_fields=True, omit_defaults=True):
    """Unlabelled rows with both sets of features: one by name, or several by column or by name."""

    features: Annotated[dict[str, Value] | None, Field(description="One row: a value for every old and new name.")] = (
        None
    )
    columns: Annotated[list[Name] | None, Field(description="Several rows: every old and new name.")] = None
    data: Annotated[list[list[Value]] | None, Field(description="Their values.")] = None
    id: Annotated[
        ClientId | None, Field(description="Id of the single row; a row sent again within a day is learned once.")
    ] = None
    ids: Annotated[list[ClientId] | None, Field(description="Ids of several rows given by column.")] = None
    rows: Annotated[list[OverlapRecord] | None, Field(description="Several rows, each by name.")] = None


class Taught(Body, kw_only=True):
    """The model learned the mapping from new to old features from these rows, and nothing else."""

    overlap_rows: Annotated[int, Field(ge=0, examples=[1], description="Total overlap rows so far.")]
    version: Version
    rows: RowsLearned
    duplicate: bool
    duplicates: Annotated[int, Field(ge=0, examples=[0])]
    durability: DurabilityShown
    incarnation: Incarnation
