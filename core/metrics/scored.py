"""Rows after test-then-train, as arrays: what was predicted, what came, and how probable that had seemed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Ints, Prediction

LOSS_MAX = 1e300
"""Squared errors are capped here, so that every number in an answer is finite."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Some rows, tested and trained.

    Attributes:
        predicted: class indices (-1: none), or numbers; for tracked rows as served.
        truth: class indices, or numbers.
        p_true: probability given to the true label, NaN where there was none; empty for regression.
    """

    predicted: NDArray[Any]
    truth: NDArray[Any]
    p_true: Floats


def of_classes(prediction: Prediction, truth: Ints) -> Scored:
    """A-priori predictions of n rows beside the indices of their labels (n,)."""
    shares = prediction.probabilities
    p_true = np.full(len(truth), np.nan) if shares is None else shares[np.arange(len(truth)), truth]
    return Scored(prediction.value, truth, p_true)


def joined(parts: Sequence[Scored]) -> Scored:
    """Blocks of rows one after the other."""
    return Scored(
        np.concatenate([part.predicted for part in parts]),
        np.concatenate([part.truth for part in parts]),
        np.concatenate([part.p_true for part in parts]),
    )


def squared(predicted: Floats, truth: Floats) -> Floats:
    """Squared errors (n,) of n predictions."""
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum((predicted - truth) ** 2, LOSS_MAX), dtype=np.float64)
