"""The history of a classifier's metrics in a state of format 4, whose points told nothing of the majority baseline."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.contract import Header

_HISTORY = "metrics.history"


def upgraded(arrays: dict[str, NDArray[Any]], header: Header) -> tuple[dict[str, NDArray[Any]], Header]:
    """The whole state, challengers included; of past points the new score is undefined."""
    if header["config"]["task"] != "classification":
        return arrays, header
    found = [name for name in arrays if name == _HISTORY or name.endswith("." + _HISTORY)]
    return {**arrays, **{name: _wider(arrays, name) for name in found}}, header


def _wider(arrays: dict[str, NDArray[Any]], name: str) -> NDArray[Any]:
    points = arrays[name]
    majority = np.zeros((len(points), 1))
    majority[: int(arrays[name.removesuffix("history") + "scalars"][-1])] = np.nan
    return np.hstack([points, majority])
