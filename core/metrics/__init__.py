"""Prequential metrics: score each prediction that was made before its label arrived.

``ClassificationMetrics`` and ``RegressionMetrics`` are state machines with the same verbs (absorb, mark, report,
headline, quality, baselines, to_arrays, load_arrays); the metrics of a single batch are here, too.
"""

import numpy as np

from core.contract import Floats, Header, Ints
from core.metrics.class_kernels import NOTHING, P_MIN
from core.metrics.classification import ClassificationMetrics, balanced_accuracy, kappa
from core.metrics.prequential import Quality, number
from core.metrics.regression import ERROR_MAX, RegressionMetrics, scores, variance

__all__ = ["ClassificationMetrics", "Quality", "RegressionMetrics", "classification_batch", "regression_batch"]


def classification_batch(predicted: Ints, truth: Ints, p_true: Floats) -> Header:
    """Accuracy, kappa and log loss over n rows.

    ``predicted`` and ``truth`` are class indices (n,), -1 for a row without a prediction, which is unscored; ``p_true``
    (n,) are the probabilities of the true labels, or NaN.
    """
    scored = predicted != NOTHING
    predicted, truth, p_true = predicted[scored], truth[scored], p_true[scored]
    K = int(max(truth.max(initial=-1), predicted.max(initial=-1))) + 1
    counted = truth, predicted, truth[predicted == truth]
    labels, guesses, hits = (np.bincount(some, minlength=K).astype(np.float64) for some in counted)
    accuracy = float(hits.sum()) / len(truth) if len(truth) else np.nan
    losses = 0.0 - np.log(np.clip(p_true[~np.isnan(p_true)], P_MIN, 1.0))
    return {
        "rows": len(scored),
        "unscored": len(scored) - len(truth),
        "accuracy": number(accuracy),
        "balanced_accuracy": number(balanced_accuracy(labels, hits)),
        "kappa": number(kappa(accuracy, labels, guesses)),
        "log_loss": number(losses.mean()) if losses.size else None,
    }


def regression_batch(predicted: Floats, truth: Floats) -> Header:
    """Squared and absolute error, r2, bias and median absolute error over n rows; rows predicted NaN are unscored."""
    scored = ~np.isnan(predicted)
    predicted, truth, counts = predicted[scored], truth[scored], {"rows": len(scored)}
    if not scored.all():
        counts["unscored"] = len(scored) - len(truth)
    if not len(truth):
        return {**counts, **dict.fromkeys(("mse", "mae", "r2", "bias", "median_ae"))}
    with np.errstate(over="ignore"):
        errors = np.clip(predicted - truth, -ERROR_MAX, ERROR_MAX)
    sizes = np.abs(errors)
    location = {"bias": number(errors.mean()), "median_ae": number(float(np.median(sizes)))}
    return {**counts, **scores((errors**2).mean(), sizes.mean(), variance(truth)), **location}
