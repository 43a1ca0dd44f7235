r"""The prior of a class, from the number of its rows: a class with few rows is improbable at first.

A learner treats a class that has just appeared like any other: its scores begin at zero, or at the mean of the others',
as if all classes were equally frequent. After thousands of rows without it that is wrong: a single mistyped label would
affect many predictions. So the probabilities p_k of K classes, n_k rows of class k among n, are multiplied by

    rho_k = min(1, K (n_k + 1) / (n + K))                 Laplace's share (n_k + 1) / (n + K), over the even one, 1 / K
    p_k <- p_k rho_k^(1 / n_k^2) / sum                    n_k counts as 1 at least

One row of a class leaves it some 2 K / n of what the learner gives it, two rows the fourth root of as little: that they
came says more than that they had not come before, and the learner learns from each of them. After ten rows rho_k
counts as a hundredth power; a class that is rare for good is as probable as the learner says.

Source: the share: Laplace's rule of succession.
"""

import math

from numba import njit

from core.contract import Floats, Ints

_RARE = 0.01


@njit(cache=True, nogil=True)
def log_priors(order: Ints, counts: Floats, rows: float, priors: Floats) -> None:
    """What the logarithm of each class's probability changes by, into priors (K,).

    Args:
        order: (K,) the label of each class.
        counts: rows of each label.
        rows: their sum.
        priors: (K,) written, none above 0.
    """
    K = priors.shape[0]
    for k in range(K):
        own = max(counts[order[k]], 1.0)
        share = K * (own + 1.0) / (rows + K)
        priors[k] = math.log(share) / (own * own) if share < 1.0 else 0.0


@njit(cache=True, nogil=True)
def others_are_rare(order: Ints, counts: Floats, rows: float, classes: int) -> bool:
    """Whether there are more than two classes, and the first two have 99 % of the rows; arguments as above."""
    return classes > 2 and rows - counts[order[0]] - counts[order[1]] <= _RARE * rows
