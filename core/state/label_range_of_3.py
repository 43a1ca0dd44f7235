"""The range of the labels of a regression, for a state of format 3, which kept that of some learners only.

It is that of the rows in the window of the metrics and of what learners know, which may be longer.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.contract import Header

_ROWS, _TRUTH, _WINDOW = 0, 1, 1000


def upgraded(arrays: dict[str, NDArray[Any]], header: Header) -> tuple[dict[str, NDArray[Any]], Header]:
    """The state of a regression with a range of labels; that of a classification as it was."""
    if header["config"]["task"] != "regression":
        return arrays, header
    rows = arrays["metrics.scalars"][_ROWS]
    known = [arrays["metrics.ring"][: int(min(rows, _WINDOW)), _TRUTH]]
    if rows:
        known += [array for name, array in arrays.items() if name.endswith("learner.span") and array.any()]
    labels = np.concatenate(known) if rows else np.zeros(1)
    span = np.array([labels.min(), labels.max(), rows])
    state = {**header["state"], "label_range": {}}
    return {**arrays, "label_range.span": span}, {**header, "state": state}
