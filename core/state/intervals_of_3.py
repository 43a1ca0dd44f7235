"""Intervals for a state of format 3, which had none. They know of no row yet: residuals were not kept in order."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.contract import Header

_LEVELS = np.array([0.5, 0.8, 0.9, 0.95, 0.99])
_EXPERTS, _ROOM = 4, 16


def upgraded(arrays: dict[str, NDArray[Any]], header: Header) -> tuple[dict[str, NDArray[Any]], Header]:
    """The state of a regression with intervals in their first state; that of a classification as it was."""
    if header["config"]["task"] != "regression":
        return arrays, header
    experts = len(_LEVELS), _EXPERTS
    intervals = {
        "alphas": np.repeat(1.0 - _LEVELS, _EXPERTS).reshape(experts),
        "weights": np.full(experts, 1.0 / _EXPERTS),
        "levels": np.zeros((len(_LEVELS), 5)),
        "residuals": np.zeros(_ROOM),
        "bits": np.zeros(_ROOM),
    }
    added = {f"intervals.{name}": array for name, array in intervals.items()}
    return {**arrays, **added}, {**header, "state": {**header["state"], "intervals": {"rows": 0}}}
