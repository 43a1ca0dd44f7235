"""What answers about a model look like: ``demo``, created from its example, after 18 rows."""

from typing import Any

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
