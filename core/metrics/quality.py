"""How well a model has done lately, in a few numbers that can be compared between models: for monitoring.

    error_ratio = error of the model / error of its best baseline, over the rows of the window that both have predicted

Below 1 the model is of use; both errors 0 make it 1, that of the baseline alone infinity.
"""

import math
from typing import NamedTuple


class Quality(NamedTuple):
    """A model over the rows of its window; NaN where nothing is known.

    Attributes:
        score: accuracy, or mean squared error.
        baseline: the same of the best baseline, of the rows that it has predicted.
        error_ratio: of the shares of wrong rows, with class costs of their costs and those of the best single label in
            hindsight; or of the mean squared errors on the baseline's rows.
        calibration_error: the expected calibration error (ece); NaN for a regression.
        unscored: rows for which nothing could have been said, of all rows.
    """

    score: float
    baseline: float
    error_ratio: float
    calibration_error: float
    unscored: int


def error_ratio(error: float, baseline: float) -> float:
    """The ratio of two errors, neither below 0; NaN where one is not known."""
    if math.isnan(error) or math.isnan(baseline):
        return math.nan
    if baseline > 0.0:
        return error / baseline
    return 1.0 if error <= 0.0 else math.inf
