"""The ridge of a mapping between feature spaces in a state of format 3, where it was .03 for all."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.contract import Header

RIDGE = 0.03
_MAPPINGS = (".recovery.centre", ".front.centre")


def upgraded(arrays: dict[str, NDArray[Any]], header: Header) -> tuple[dict[str, NDArray[Any]], Header]:
    """The whole state; the mappings of a change under way and of the one before it know their ridge."""
    found = [name.removesuffix("centre") for name in arrays if name.endswith(_MAPPINGS)]
    return {**arrays, **{f"{mapping}ridge": np.full(1, RIDGE) for mapping in found}}, header
