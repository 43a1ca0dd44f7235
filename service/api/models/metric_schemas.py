"""The metrics in answers, as the contract names them; their examples are those of ``demo`` after 18 rows."""

from typing import Any

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
        "scaling": "none",
        "random_features": 0,
    },
    "features": ["load", "price"],
    "labels": ["UP", "DOWN"],
    "missing": "error",
    "seed": 0,
    "watch": {
        "class_mean": {"delta": 0.05, "batch_size": 200},
        "error_rate": {"delta": 0.05, "batch_size": 200},
    },
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
RowCount = int | float
"""Rows; in ``fading`` a sum of weights."""


class BaselineScore(BaseModel):
    """The score of a baseline: of classes its accuracy, of numbers both errors."""

    accuracy: float | None = Field(None, examples=[0.82])
    mse: float | None = None
    mae: float | None = None


Baselines = dict[str, BaselineScore]


class ClassScores(BaseModel):
    """The scores of one class; null where it has no rows, or was never the answer."""

    support: RowCount = Field(examples=[512], description="Rows of this label.")
    precision: float | None = Field(examples=[0.81], description="Of the rows answered with it, the share that are it.")
    recall: float | None = Field(examples=[0.86], description="Of its rows, the share answered with it.")
    f1: float | None = Field(examples=[0.83], description="The harmonic mean of both.")


class Confusion(BaseModel):
    """Rows by label and answer."""

    labels: list[Label] = Field(
        examples=[["UP", "DOWN"]],
        description="Up to 50 classes; of more, 50 of the most frequent, and `other` for the rest behind them.",
    )
    counts: list[list[RowCount]] = Field(
        examples=[[[440, 72], [84, 404]]], description="A list per label that came, with a number per answer."
    )


class ReliabilityBin(BaseModel):
    """The rows whose answers had about the same probability: what was promised, and what came of it."""

    mean: float = Field(examples=[0.93], description="The mean probability of the answers.")
    share: float = Field(examples=[0.91], description="The share of right ones.")
    rows: RowCount = Field(examples=[611])


class Costs(BaseModel):
    """What answers cost a row by `class_costs`, beside the cheapest constant answer; null without rows."""

    mean: float | None = Field(examples=[0.16], description="The cost of the model's misses, over the rows.")
    constant: float | None = Field(
        examples=[0.34], description="The same if `label` had been the answer to every row: the least for these rows."
    )
    label: Label | None = Field(examples=["UP"], description="The label of which that is told.")


class PairedScore(BaseModel):
    """The errors of a regression on the rows for which `last_value` had a number: what the two are compared by.

    The first row is none of them: the model predicts it before it has learned anything, and where labels are far from 0
    its error would outweigh those of thousands of rows.
    """

    rows: RowCount = Field(examples=[999], description="Those rows.")
    mse: float | None = Field(examples=[1.02], description="Mean squared error.")
    mae: float | None = Field(examples=[0.81], description="Mean absolute error.")


class PairedScores(BaseModel):
    """The same in each span."""

    overall: PairedScore
    window: PairedScore
    fading: PairedScore


class Scores(BaseModel):
    """The scores of some rows; undefined numbers are null."""

    size: int | None = Field(None, examples=[1000], description="`window`: its length.")
    rows: int | None = Field(None, examples=[1000], description="`window`: rows in it.")
    factor: float | None = Field(None, examples=[0.999], description="`fading`: the weight of a row beside the next.")
    accuracy: float | None = Field(None, examples=[0.84], description="Classification: the share of right answers.")
    balanced_accuracy: float | None = Field(None, examples=[0.84], description="The mean of the recalls.")
    kappa: float | None = Field(None, examples=[0.68], description="Accuracy beyond what the class shares would give.")
    kappa_temporal: float | None = Field(None, examples=[0.11], description="Accuracy beyond `no_change`.")
    log_loss: float | None = Field(
        None,
        examples=[0.41],
        description="Mean of -ln of the probability given to the true label.",
    )
    brier: float | None = Field(
        None,
        examples=[0.13],
        description="Squared error of the probabilities: of the second of two classes, else summed over all.",
    )
    ece: float | None = Field(
        None,
        examples=[0.02],
        description="Expected calibration error: how far answers' probabilities are from the share of right ones.",
    )
    roc_auc: float | None = Field(
        None, examples=[0.91], description="With two classes: of the second one's probability."
    )
    average_precision: float | None = Field(None, examples=[0.9], description="With two classes: for the second one.")
    unscored: RowCount | None = Field(
        None, examples=[0], description="Rows for which nothing could have been said: no label was known."
    )
    per_class: dict[str, ClassScores] | None = Field(None, description="By label, those of the confusion.")
    confusion: Confusion | None = None
    reliability: list[ReliabilityBin] | None = Field(
        None, description="By the probability of the answer, in steps of 0.1; steps without rows are left out."
    )
    mse: float | None = Field(None, description="Regression: mean squared error.")
    mae: float | None = Field(None, description="Mean absolute error.")
    r2: float | None = Field(None, description="1 - mse / variance of the labels.")
    bias: float | None = Field(None, description="Mean of prediction minus label.")
    median_ae: float | None = Field(
        None, description="Median absolute error: exact in `window`, elsewhere within 3.2 percent."
    )
    coverage: dict[str, float | None] | None = Field(
        None,
        examples=[{"0.5": 0.503, "0.9": 0.897}],
        description="Regression: by level, the share of labels within the intervals made before they came; null where "
        "there was none yet.",
    )
    costs: Costs | None = Field(None, description="Of a model with `class_costs`.")
    baselines: Baselines | None = Field(
        None, description="Of the same rows; `last_value` of those for which it had a number."
    )


class Metrics(BaseModel):
    """Prequential scores: each row is predicted before it is learned. Undefined numbers are null."""

    rows: RowsLearned
    overall: Scores = Field(examples=[OVERALL], description="Over all rows.")
    window: Scores = Field(examples=[WINDOW], description="Over the latest `size` rows.")
    fading: Scores = Field(
        examples=[FADING], description="Over all rows, each counted `factor` times less than the next."
    )
    baselines: Baselines = Field(
        examples=[BASELINES],
        description="What repeating the last label and saying the most frequent one would have scored over all rows; "
        "for regression `last_value`. Each is asked when the model is: before the label of a tracked row has come.",
    )
    paired: PairedScores | None = Field(
        None, description="Regression: the model on the rows that `baselines` are of, to be compared with them."
    )
    unscored: int = Field(examples=[0], description="Of all rows, those for which nothing could have been said.")
    history: list[dict[str, Score]] = Field(
        examples=[HISTORY],
        description="The window's scores at every so many rows: `accuracy`, `kappa`, and the accuracies of `no_change` "
        "and `majority`; for regression `mse`, `mae`, and the `mse` of `last_value`. `overall` is the first one over "
        "all rows until then. `paired` and `paired_overall` are `mse` and `overall` on the rows for which `last_value` "
        "had a number.",
    )
    history_every: int = Field(
        examples=[10],
        description="Rows between two points of `history`; it doubles, and every other point goes, at 512 of them.",
    )
    marks: list[dict[str, Any]] = Field(examples=[[]], description="Rows after which something happened, and what.")
    marks_thinned: int = Field(
        ge=0,
        examples=[0],
        description="Marks left out: from the 101st on, where they are closest, drifts before anything else.",
    )


class ModelMetrics(Metrics):
    """Scores beside their baselines, and what the learner reports."""

    learner: dict[str, Any] = Field(examples=[LEARNER], description="What the learner tells of itself.")
    unknown: dict[str, int] = Field(
        examples=[{}], description="Categories learned that were not declared, by feature with declared ones."
    )
    version: Version
    incarnation: Incarnation
