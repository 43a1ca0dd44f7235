"""The losses of numbers that were predicted, compiled; core.machine.answers has those of classes."""

import numpy as np
from numba import njit

from core.contract import Floats
from core.metrics.prequential import READ_FLOATS

LOSS_MAX = 1e300


@njit(f"f8[::1]({READ_FLOATS}, {READ_FLOATS})", cache=True)
def squared_errors(predicted: Floats, truth: Floats) -> Floats:
    """Squared errors (n,) of n predictions, as answers give them: capped, so that every number is finite."""
    losses = np.empty(truth.shape[0])
    for i in range(truth.shape[0]):
        error = predicted[i] - truth[i]
        losses[i] = min(error * error, LOSS_MAX)
    return losses
