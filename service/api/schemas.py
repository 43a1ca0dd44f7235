"""The bodies of requests and answers, as the contract names them.

The same structs decode requests, encode answers and describe both in /openapi.json (components).
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Label = str | int | bool
Identity = Annotated[str, Meta(min_length=1, max_length=200)]


class PredictRow(Struct, forbid_unknown_fields=True):
    """One row to predict."""

    features: Annotated[
        dict[str, Any],
        Meta(description="A value for every feature: a number, a declared category, or null for missing."),
    ]
    track: Annotated[
        bool, Meta(description="Keep the prediction until its label comes; the answer then carries a prediction_id.")
    ] = False
    explain: Annotated[
        bool,
        Meta(description="Add contributions of the features (linear models) or densities per class (VIGO)."),
    ] = False


class FeedbackRow(Struct, forbid_unknown_fields=True):
    """One labelled row: either its features, or the id of a tracked prediction."""

    label: Annotated[Any, Meta(description="The true label: a string, integer or boolean, or a number for regression.")]
    features: dict[str, Any] | None = None
    prediction_id: Identity | None = None
    id: Annotated[
        Identity | None, Meta(description="Your own id of this row; sent again within a day it is learned once.")
    ] = None
    discount: Annotated[
        Any, Meta(description="Weight of the past at this row, in (0, 1]; only for algorithms that take one.")
    ] = None


class PredictColumns(Struct, forbid_unknown_fields=True):
    """Rows to predict, by column."""

    columns: list[str]
    data: list[list[Any]]


class FeedbackColumns(Struct, forbid_unknown_fields=True):
    """Labelled rows, by column; each is tested, then trained, in order."""

    columns: list[str]
    data: list[list[Any]]
    labels: list[Any]
    ids: Annotated[list[str] | None, Meta(description="One per row: 1 to 200 printable characters each.")] = None
    discounts: list[Any] | None = None


class SparseRow(Struct, forbid_unknown_fields=True):
    """One row of a model that takes named sparse rows; a name left out is 0."""

    names: Annotated[list[str], Meta(description="Each once, 1 to 200 printable characters.")]
    values: Annotated[list[Any], Meta(description="A number for every name.")]


class PredictSparse(Struct, forbid_unknown_fields=True):
    """Sparse rows to predict."""

    rows: list[SparseRow]


class FeedbackSparse(Struct, forbid_unknown_fields=True):
    """Labelled sparse rows; each is tested, then trained, in order."""

    rows: list[SparseRow]
    labels: list[Any]
    ids: Annotated[list[str] | None, Meta(description="One per row: 1 to 200 printable characters each.")] = None
    discounts: list[Any] | None = None


class RestoreTo(Struct, forbid_unknown_fields=True):
    """Which snapshot to go back to."""

    version: Annotated[int, Meta(ge=0, description="A version that GET /snapshots lists.")]


class FeatureEntry(Struct, rename={"minimum": "min", "maximum": "max"}, omit_defaults=True, forbid_unknown_fields=True):
    """A declared feature."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    type: Literal["numeric", "categorical"] = "numeric"
    categories: Annotated[
        list[Label] | None, Meta(description="The values of a categorical feature; required there.")
    ] = None
    minimum: Annotated[float | None, Meta(description="Where values usually begin; others are taken as they are.")] = (
        None
    )
    maximum: Annotated[float | None, Meta(description="Where values usually end.")] = None


class Predicted(Struct, omit_defaults=True, kw_only=True):
    """A prediction. Nothing has changed."""

    prediction: Label | float | None
    probabilities: dict[str, float] | None = None
    std: float | None = None
    version: int
    prediction_id: str | None = None
    explanation: dict[str, Any] | None = None
    incarnation: str


class Learnt(Struct):
    """What the model said before it learned the row, and where it stands now."""

    prediction: Label | float | None
    loss: float | None
    version: int
    rows: int
    duplicate: bool
    learned: bool
    durability: str
    incarnation: str


class PredictedBatch(Struct, omit_defaults=True, kw_only=True):
    """Predictions in the order of the rows."""

    predictions: list[Any]
    classes: list[Label] | None = None
    probabilities: list[list[float]] | None = None
    std: list[float] | None = None
    version: int
    incarnation: str


class LearntBatch(Struct):
    """A-priori predictions and losses in the order of the rows."""

    predictions: list[Any]
    losses: list[float | None]
    version: int
    rows: int
    metrics: dict[str, Any] | None
    duplicate: bool
    duplicates: int
    learned: bool
    durability: str
    incarnation: str


class Summary(Struct):
    """A model in the list."""

    name: str
    algorithm: str
    task: str
    version: int
    rows: int
    score: float | None
    phase: str


class ModelList(Struct):
    """A page of models in order of their names."""

    models: list[Summary]
    next: str | None


class Model(Struct):
    """A model."""

    name: str
    incarnation: str
    config: dict[str, Any]
    version: int
    rows: int
    phase: str
    metrics: dict[str, Any]
    info: dict[str, Any]
    created: str
    updated: str


class SnapshotEntry(Struct):
    """A kept snapshot."""

    version: int
    rows: int
    bytes: int
    time: str


class SnapshotList(Struct):
    """The kept snapshots, newest first."""

    snapshots: list[SnapshotEntry]
    incarnation: str


class Replaced(Struct):
    """The state was replaced; the version goes on."""

    name: str
    incarnation: str
    version: int
    rows: int


class PendingEntry(Struct):
    """A tracked prediction that waits for its label."""

    prediction_id: str
    prediction: Label | float | None
    version: int
    expires: str


class PendingList(Struct):
    """Tracked predictions that wait for their labels."""

    pending: list[PendingEntry]
    expired: int
    next: str | None
    incarnation: str


class WeightsAnswer(Struct, omit_defaults=True):
    """The linear model: prediction = bias + sum of weight x feature."""

    weights: dict[str, dict[str, float]]
    bias: dict[str, float]
    version: int
    incarnation: str
    residual: Annotated[
        dict[str, float] | None,
        Meta(description="Models of sparse rows: the share of the weights, 0 to 1, that those shown do not explain."),
    ] = None


class AlgorithmEntry(Struct):
    """An algorithm of the catalogue."""

    id: str
    tasks: list[str]
    summary: str
    paper: str
    equation: str
    params: dict[str, Any]


class AlgorithmList(Struct):
    """The catalogue."""

    algorithms: list[AlgorithmEntry]


class FieldProblem(Struct):
    """One thing that is wrong."""

    field: str
    problem: str
    allowed: Any


class ProblemDocument(Struct):
    """An error (RFC 9457); a 504 also has the ``version`` that was reached."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldProblem]


class Ready(Struct):
    """Whether the service takes traffic."""

    ready: bool
    store: str
    durability: str
    lag: int
    checks: dict[str, bool | None]


class WatchTest(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The settings of a drift test."""

    delta: Annotated[float, Meta(gt=0, lt=1, description="Bound on the chance of a false alarm in one test.")] = 0.05
    batch_size: Annotated[int, Meta(ge=2, le=10_000, description="Rows of a class in a recent window.")] = 200


class ModelBody(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A model to create. Only ``algorithm`` is needed, and ``task`` where the algorithm has several."""

    algorithm: Annotated[str, Meta(description="An id of GET /algorithms.")]
    task: Annotated[
        Literal["classification", "regression"] | UnsetType,
        Meta(description="Left out: the one task of the algorithm, if it has one."),
    ] = UNSET
    params: Annotated[dict[str, Any], Meta(description="As GET /algorithms describes them.")] = {}
    features: Annotated[
        list[str | FeatureEntry] | None, Meta(description="Left out: the first feedback row fixes them, all numeric.")
    ] = None
    labels: Annotated[list[Label] | None, Meta(description="Left out: classes appear as they come.")] = None
    missing: Annotated[
        Literal["error", "zero", "mean"], Meta(description="What a missing value becomes; error refuses it.")
    ] = "error"
    seed: Annotated[int, Meta(ge=0)] = 0
    watch: Annotated[
        dict[str, WatchTest | None] | UnsetType | None,
        Meta(
            description="The drift tests that run: class_mean (the features' means in a class) and error_rate. Left "
            "out: both, as they are by default. Given: those it lists and no others, so that {} is none, as is null; "
            "null for a test is leaving it out. vigod tests class means itself, as its params say."
        ),
    ] = UNSET
    on_drift: Annotated[
        Literal["report", "reset", "forget"],
        Meta(
            description="What an alarm does beside being told: nothing, the learner starts anew, or it forgets most of "
            "its past. vigod starts a class anew by itself."
        ),
    ] = "report"
