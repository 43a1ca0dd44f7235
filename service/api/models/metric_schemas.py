"""The metrics in answers; the examples show ``demo`` after 18 rows."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from core.contract import Label
from service.api.schemas import Incarnation, RowsLearned, Version

CONFIG: dict[str, Any] = {
    "algorithm": "dfop",
    "task": "classification",
    "params": {
        "forgetting_rate": "auto",
        "initial_variance": 1000.0,
        "bias": True,
        "variant": "default",
        "scaling": "none",
        "random_features": 0,
    },
    "features": ["load", "price"],
    "labels": ["UP", "DOWN"],
    "missing": "error",
    "seed": 0,
    "watch": {"class_mean": {"delta": 0.05, "batch_size": 200}, "error_rate": {"delta": 0.05, "batch_size": 200}},
    "on_drift": "report",
}
LEARNER: dict[str, Any] = {
    "rows": 18,
    "forgetting_rates": [0.0, 0.0, 0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.5],
    "forgetting_weights": [0.334, 0.006, 0.007, 0.011, 0.014, 0.017, 0.027, 0.105, 0.249, 0.23],
    "effective_window": 4.97,
}
INFO: dict[str, Any] = {"features": ["load", "price"], "labels": ["UP", "DOWN"], "state_bytes": 30452, **LEARNER}
OVERALL: dict[str, Any] = {
    "accuracy": 0.667,
    "balanced_accuracy": 0.65,
    "kappa": 0.308,
    "kappa_temporal": 0.455,
    "log_loss": 0.598,
    "brier": 0.205,
    "ece": 0.19,
    "roc_auc": 0.725,
    "average_precision": 0.783,
    "unscored": 0,
    "per_class": {
        "UP": {"support": 10, "precision": 0.667, "recall": 0.8, "f1": 0.727},
        "DOWN": {"support": 8, "precision": 0.667, "recall": 0.5, "f1": 0.571},
    },
    "confusion": {"labels": ["UP", "DOWN"], "counts": [[8, 2], [4, 4]]},
    "reliability": [
        {"mean": 0.527, "share": 0.429, "rows": 7},
        {"mean": 0.652, "share": 1.0, "rows": 5},
        {"mean": 0.746, "share": 0.667, "rows": 3},
        {"mean": 0.848, "share": 0.5, "rows": 2},
        {"mean": 0.95, "share": 1.0, "rows": 1},
    ],
}
BASELINES: dict[str, Any] = {"no_change": {"accuracy": 0.389}, "majority": {"accuracy": 0.556}}
WINDOW: dict[str, Any] = {"size": 1000, "rows": 18, **OVERALL, "baselines": BASELINES}
FADING: dict[str, Any] = {"factor": 0.999, **OVERALL, "baselines": BASELINES}
HISTORY: list[dict[str, Any]] = [
    {"row": 10, "accuracy": 0.4, "overall": 0.4, "kappa": -0.2, "no_change": 0.5, "majority": 0.6}
]


Score = int | float | None
RowCount = int | float  # a number of rows; in ``fading``, a sum of weights


class BaselineScore(BaseModel):
    """The score of a baseline: accuracy for classification, both errors for regression."""

    accuracy: float | None = Field(None, examples=[0.82])
    mse: float | None = None
    mae: float | None = None


Baselines = dict[str, BaselineScore]


class ClassScores(BaseModel):
    """The scores of one class; null if it has no rows or was never predicted."""

    support: RowCount = Field(examples=[512], description="Number of rows with this label.")
    precision: float | None = Field(examples=[0.81], description="Share of rows predicted as this label that have it.")
    recall: float | None = Field(
        examples=[0.86], description="Share of rows with this label that were predicted correctly."
    )
    f1: float | None = Field(examples=[0.83], description="Harmonic mean of precision and recall.")


class Confusion(BaseModel):
    """Rows by label and predicted label."""

    labels: list[Label] = Field(
        examples=[["UP", "DOWN"]],
        description="Up to 50 classes; if there are more, 50 of the most frequent, then `other` for the rest.",
    )
    counts: list[list[RowCount]] = Field(
        examples=[[[440, 72], [84, 404]]], description="One list per true label, with one number per predicted label."
    )


class ReliabilityBin(BaseModel):
    """Rows whose predictions had about the same probability: that probability, and how many were right."""

    mean: float = Field(examples=[0.93], description="Mean probability of the predictions.")
    share: float = Field(examples=[0.91], description="Share of correct predictions.")
    rows: RowCount = Field(examples=[611])


class Costs(BaseModel):
    """Mean cost per row by `class_costs`, and that of the cheapest constant prediction; null without rows."""

    mean: float | None = Field(examples=[0.16], description="The cost of the model's errors, per row.")
    constant: float | None = Field(
        examples=[0.34], description="The cost of predicting `label` for every row, the cheapest constant prediction."
    )
    label: Label | None = Field(examples=["UP"], description="The label of the cheapest constant prediction.")


class PairedScore(BaseModel):
    """The errors of a regression on the rows for which `last_value` had a prediction, for comparing the two.

    The first row is excluded: the model predicts it before it has learned anything, and if labels are far from 0, this
    one error would outweigh those of thousands of rows.
    """

    rows: RowCount = Field(examples=[999], description="Number of these rows.")
    mse: float | None = Field(examples=[1.02], description="Mean squared error.")
    mae: float | None = Field(examples=[0.81], description="Mean absolute error.")


class PairedScores(BaseModel):
    """The paired scores of each span."""

    overall: PairedScore
    window: PairedScore
    fading: PairedScore


class Scores(BaseModel):
    """Scores over a set of rows; undefined numbers are null."""

    size: int | None = Field(None, examples=[1000], description="`window`: its maximum length in rows.")
    rows: int | None = Field(None, examples=[1000], description="`window`: number of rows in it.")
    factor: float | None = Field(None, examples=[0.999], description="`fading`: weight of a row relative to the next.")
    accuracy: float | None = Field(None, examples=[0.84], description="Classification: share of correct predictions.")
    balanced_accuracy: float | None = Field(None, examples=[0.84], description="Mean recall over the classes.")
    kappa: float | None = Field(None, examples=[0.68], description="Accuracy relative to chance agreement.")
    kappa_temporal: float | None = Field(None, examples=[0.11], description="Accuracy relative to `no_change`.")
    log_loss: float | None = Field(
        None, examples=[0.41], description="Mean of -ln of the probability of the true label."
    )
    brier: float | None = Field(
        None,
        examples=[0.13],
        description="Squared error of the probabilities: with two classes that of the second, else summed over all.",
    )
    ece: float | None = Field(
        None,
        examples=[0.02],
        description="Expected calibration error: distance of the probabilities from the share of correct predictions.",
    )
    roc_auc: float | None = Field(
        None, examples=[0.91], description="With two classes: ROC AUC of the second one's probability."
    )
    average_precision: float | None = Field(None, examples=[0.9], description="With two classes: that of the second.")
    unscored: RowCount | None = Field(
        None,
        examples=[0],
        description="Rows without a prediction: no label was known yet, or an observer was sent none.",
    )
    per_class: dict[str, ClassScores] | None = Field(None, description="By label; the classes of `confusion`.")
    confusion: Confusion | None = None
    reliability: list[ReliabilityBin] | None = Field(
        None, description="By probability of the prediction, in steps of 0.1; steps without rows are omitted."
    )
    mse: float | None = Field(None, description="Regression: mean squared error.")
    mae: float | None = Field(None, description="Mean absolute error.")
    r2: float | None = Field(None, description="1 - mse / variance of the labels.")
    bias: float | None = Field(None, description="Mean of prediction minus label.")
    median_ae: float | None = Field(
        None,
        description="Median absolute error: exact in `window`, else within 3.2 percent; null outside 5e-20 to 2e19.",
    )
    coverage: dict[str, float | None] | None = Field(
        None,
        examples=[{"0.5": 0.503, "0.9": 0.897}],
        description="Regression: by level, the share of labels inside the intervals predicted for them; null if there "
        "were none yet.",
    )
    costs: Costs | None = Field(None, description="Only with `class_costs`.")
    baselines: Baselines | None = Field(
        None, description="Over the same rows; `last_value` over those for which it had a prediction."
    )


class ServedComparison(BaseModel):
    """The losses of a model outside Onepass, minus this model's on the same rows: above 0 this model is better."""

    rows: int = Field(
        ge=0, description="Rows compared. In a regression the first 10 labels do not count: they set the scale."
    )
    difference: dict[str, float | None] = Field(
        description="Mean and interval, which holds at all rows at once; costs with `class_costs`, for a regression "
        "squared errors, each capped at `bound` (four times the variance of the labels since the first `served`)."
    )
    better: Literal["model", "served"] | None = Field(description="Which is better; null while that is not certain.")
    since: int | None = Field(description="The row from which on that is certain.")


class Metrics(BaseModel):
    """Prequential scores: each row is predicted before it is learned. Undefined numbers are null."""

    rows: RowsLearned
    overall: Scores = Field(examples=[OVERALL], description="Over all rows.")
    window: Scores = Field(examples=[WINDOW], description="Over the latest `size` rows.")
    fading: Scores = Field(
        examples=[FADING], description="Over all rows; each row counts `factor` times as much as the next."
    )
    baselines: Baselines = Field(
        examples=[BASELINES],
        description="Scores over all rows of repeating the last label (`no_change`; for regression `last_value`) and "
        "of predicting the most frequent one (`majority`). Baselines predict when the model does: for a tracked row, "
        "before its label arrives. `served` is the model outside whose predictions come with the rows.",
    )
    served: ServedComparison | None = Field(None, description="The model outside compared with this one.")
    due_rows: int | None = Field(None, description="With `labels_due`: rows learned with the label that it gives.")
    paired: PairedScores | None = Field(
        None, description="Regression: the model's scores on the rows of `baselines`, for comparison with them."
    )
    unscored: int = Field(examples=[0], description="Rows that could not be predicted.")
    history: list[dict[str, Score]] = Field(
        examples=[HISTORY],
        description="Scores of the window every `history_every` rows: `accuracy`, `kappa`, and the accuracies of "
        "`no_change` and `majority`; for regression `mse`, `mae`, and the `mse` of `last_value`. `overall` is the "
        "accuracy or `mse` over all rows so far. `paired` and `paired_overall` are `mse` and `overall` on the rows for "
        "which `last_value` had a prediction.",
    )
    history_every: int = Field(
        examples=[10],
        description="Rows between two points of `history`; at 512 points it doubles and every other point is dropped.",
    )
    marks: list[dict[str, Any]] = Field(
        examples=[[]], description="Events such as drifts, with the row after which they happened."
    )
    marks_thinned: int = Field(
        ge=0,
        examples=[0],
        description="Number of marks dropped: beyond 100, those closest together are dropped, drifts first.",
    )


class ModelMetrics(Metrics):
    """Scores with their baselines, and the learner's own report."""

    learner: dict[str, Any] = Field(examples=[LEARNER], description="The learner's own report.")
    unknown: dict[str, int] = Field(
        examples=[{}],
        description="Number of undeclared categories in learned rows, by feature with declared categories.",
    )
    version: Version
    incarnation: Incarnation
