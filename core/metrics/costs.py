"""What answers cost by ``class_costs``, beside the answer that would have cost least had it always been given.

With n_k rows of label k, r_k of them answered right, and c_k the cost of missing one, the answers of n rows have cost

    sum_k c_k (n_k - r_k) / n    a row,

and always answering j would have cost (sum_k c_k n_k - c_j n_j) / n. The least of these is known only when the rows
are, so it is at least as hard a baseline as any constant answer chosen beforehand. A model with costs is judged by
this, not by its accuracy, which it gives up where errors are cheap.
"""

from typing import NamedTuple

import numpy as np

from core.contract import Floats


class MeanCost(NamedTuple):
    """Costs a row of the rows of a span.

    Attributes:
        mean: of the answers.
        constant: of the cheapest constant answer.
        answer: its index, of equals the lowest.
    """

    mean: float
    constant: float
    answer: int


def mean_cost(labels: Floats, hits: Floats, costs: Floats) -> MeanCost | None:
    """The costs of a span; None without rows.

    Args:
        labels: (K,), rows, or their weights, by label.
        hits: (K,), those answered right.
        costs: (K,) of missing a row of each label.
    """
    rows = float(labels.sum())
    if rows == 0.0:
        return None
    unit = float(costs.max())  # sums of costs themselves may be too large for a number
    shares = costs / unit
    at_stake = shares * labels
    answer = int(np.argmax(at_stake))
    mean, constant = shares @ (labels - hits), at_stake.sum() - at_stake[answer]
    return MeanCost(unit * (float(mean) / rows), unit * (float(constant) / rows), answer)
