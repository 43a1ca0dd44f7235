"""What a classifier of format 3 says, as format 4 has it: the order of its labels, and a calibration.

Format 3 counted classes in the order in which they appeared. Format 4 counts labels as they are said: the declared ones
in their order, or where none are declared those that appeared, in the order in which they did. The calibration of
probabilities begins with the next row.
"""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.contract import Header

ROWS, LAST, LEADER = 0, 6, 7
"""Places in the scalars of format 3."""
WINDOW = 1000
CALIBRATION = 37


def in_declared_order(arrays: dict[str, NDArray[Any]], header: Header) -> tuple[dict[str, NDArray[Any]], Header]:
    """The whole state with its metrics in the order of the labels."""
    declared = header["config"].get("labels")
    if declared is None or "metrics.counts" not in arrays:
        return arrays, header
    names = [json.dumps(label) for label in declared]
    order = np.array([names.index(json.dumps(label)) for label in header["state"]["labels"]["labels"]], dtype=np.int64)
    seen = arrays["metrics.counts"]
    if seen.shape[1] != len(order):
        raise ValueError("the classes of the parts differ")
    counts = np.zeros((len(seen), len(declared)))
    counts[:, order] = seen
    scalars, ring = arrays["metrics.scalars"].copy(), arrays["metrics.ring"].copy()
    places = np.append(order, -1).astype(np.float64)  # -1, none, stays what it is
    scalars[[LAST, LEADER]] = places[scalars[[LAST, LEADER]].astype(np.int64)]
    rows = ring[: int(min(scalars[ROWS], WINDOW))]
    rows[:, :2] = places[rows[:, :2].astype(np.int64)]
    own = {"metrics.counts": counts if len(order) else seen, "metrics.scalars": scalars, "metrics.ring": ring}
    return {**arrays, **own}, header


def calibrated(arrays: dict[str, NDArray[Any]], header: Header) -> tuple[dict[str, NDArray[Any]], Header]:
    """The whole state with a calibration that changes nothing yet."""
    if header["config"]["task"] != "classification":
        return arrays, header
    fresh = np.zeros(CALIBRATION)
    fresh[:2] = 1.0
    return {**arrays, "answers.calibration": fresh}, {**header, "state": {**header["state"], "answers": {}}}
