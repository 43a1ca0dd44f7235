"""The number of candidates of dynamic ODM and when they restart, derived from its parameters."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from core.contract import Ints

FIRST_EPOCH = 8
COUNT_MAX = 40  # candidates of a growing bank: the last one splits for the last time after 8 2^38 = 2e12 rows
PLACES_MAX = 64  # candidates that a row's work space has room for
AUTO = "auto"
_NEVER = 2**62


def paper_count(params: Mapping[str, Any]) -> int:
    """N = ceil(log2(2 C T / V_T) / 2) + 1 ("Dynamic ODM"), within the bounds."""
    ratio = math.log2(2.0 * params["bound"] * params["horizon"] / params["variation"])
    return min(max(math.ceil(ratio / 2.0) + 1, 1), PLACES_MAX)


def places(params: Mapping[str, Any]) -> int:
    """Number of candidates there is room for."""
    if "candidates" not in params:
        return 1
    if params["candidates"] != AUTO:
        return int(params["candidates"])
    return paper_count(params) if params["variant"] == "paper" else COUNT_MAX


def epochs(params: Mapping[str, Any]) -> Ints:
    """Rows after which each candidate restarts: 8 2^i, or the set P, 2^(i-1) sqrt(1 / (2 C)) rounded up."""
    K = places(params)
    if "candidates" not in params:
        return np.full(1, _NEVER, dtype=np.int64)
    if params["variant"] == "paper":
        first = math.sqrt(1.0 / (2.0 * params["bound"]))
        return np.array([max(math.ceil(min(first * 2.0**i, _NEVER)), 1) for i in range(K)], dtype=np.int64)
    return FIRST_EPOCH * 2 ** np.arange(K, dtype=np.int64)


def grows(params: Mapping[str, Any]) -> bool:
    """Whether the last candidate splits: yes, unless a number or the paper's variant is set."""
    return params.get("candidates") == AUTO and params["variant"] != "paper"
