"""What is known of every scored row, compiled: its loss, and the probability that its true label was given."""

import numpy as np
from numba import njit

from core.contract import Floats, Ints
from core.metrics.prequential import READ_FLOATS, READ_INTS

LOSS_MAX = 1e300


@njit(f"f8[::1]({READ_FLOATS}, {READ_FLOATS})", cache=True)
def squared_errors(predicted: Floats, truth: Floats) -> Floats:
    """Squared errors (n,) of n predictions, as answers give them: capped, so that every number is finite."""
    losses = np.empty(truth.shape[0])
    for i in range(truth.shape[0]):
        error = predicted[i] - truth[i]
        losses[i] = min(error * error, LOSS_MAX)
    return losses


@njit(f"f8[::1]({READ_INTS}, {READ_INTS})", cache=True)
def zero_one_losses(predicted: Ints, truth: Ints) -> Floats:
    """1 where a predicted class index is not the true one, else 0; (n,)."""
    losses = np.empty(truth.shape[0])
    for i in range(truth.shape[0]):
        losses[i] = 0.0 if predicted[i] == truth[i] else 1.0
    return losses


@njit(f"f8[::1](Array(f8, 2, 'C', readonly=True), {READ_INTS})", cache=True)
def true_probabilities(probabilities: Floats, truth: Ints) -> Floats:
    """What probabilities (n, K) give to the true classes (n,).

    Raises:
        IndexError: a class index that is none of the K.
    """
    p_true = np.empty(truth.shape[0])
    for i in range(truth.shape[0]):
        if not 0 <= truth[i] < probabilities.shape[1]:
            raise IndexError("a class without a probability")
        p_true[i] = probabilities[i, truth[i]]
    return p_true
