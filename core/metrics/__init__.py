"""Prequential metrics: test, then train, and score the prediction made before each label came.

``ClassificationMetrics`` and ``RegressionMetrics`` are state machines with the same verbs (absorb, mark, report,
headline, best_baseline, to_arrays, load_arrays); here too are the metrics of just one batch. Other parts import from
this file.
"""

import numpy as np

from core.contract import Floats, Header, Ints
from core.metrics.classification import ClassificationMetrics, beyond_chance, log_losses
from core.metrics.prequential import number
from core.metrics.regression import ERROR_MAX, RegressionMetrics, scores, variance

__all__ = ["ClassificationMetrics", "RegressionMetrics", "classification_batch", "regression_batch"]


def classification_batch(predicted: Ints, truth: Ints, p_true: Floats) -> Header:
    """Accuracy, kappa and log loss of n rows alone: indices (n,), probabilities of the true label (n,) or NaN."""
    rows = len(truth)
    if not rows:
        return {"rows": 0, "accuracy": None, "kappa": None, "log_loss": None}
    accuracy = float(np.count_nonzero(predicted == truth)) / rows  # some versions of NumPy count in their own type
    labels, guesses = np.bincount(truth), np.bincount(predicted[predicted >= 0])
    shared = min(len(labels), len(guesses))
    chance = float(labels[:shared] / rows @ (guesses[:shared] / rows))
    losses = log_losses(p_true[~np.isnan(p_true)])
    return {
        "rows": rows,
        "accuracy": accuracy,
        "kappa": number(beyond_chance(accuracy, chance)),
        "log_loss": number(losses.mean()) if losses.size else None,
    }


def regression_batch(predicted: Floats, truth: Floats) -> Header:
    """Squared and absolute error and r2 of n rows alone: numbers (n,) and (n,), all finite."""
    if not len(truth):
        return {"rows": 0, "mse": None, "mae": None, "r2": None}
    with np.errstate(over="ignore"):
        errors = np.clip(predicted - truth, -ERROR_MAX, ERROR_MAX)
    return {"rows": len(truth), **scores((errors**2).mean(), np.abs(errors).mean(), variance(truth))}
