"""The numbers that come with rows: labels of a regression, discounts, weights; each checked as a column."""

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.config import Config
from core.contract import WEIGHT_MAX, WEIGHT_MIN, Floats
from core.problems import PROBLEMS_MAX, Invalid, Problem

DISCOUNT_MIN = 1e-3
"""A smaller one would forget everything at one row; the kernels' own floor."""
FLOAT_MAX = sys.float_info.max
FieldPath = Callable[[int], str]
"""How errors name one item of a list, from its index."""
DISCOUNT, DISCOUNTS = "discount".format, "discounts[{}]".format
WEIGHT, WEIGHTS = "weight".format, "weights[{}]".format


def numbers(values: Sequence[Any], path: FieldPath, texts: bool) -> Floats:
    """Finite numbers (n,).

    Args:
        values: of JSON, or texts.
        path: how errors name them.
        texts: whether they are texts.

    Raises:
        Invalid: naming the first that are none.
    """
    if len(values) == 1 and type(values[0]) is float and math.isfinite(values[0]):  # most often
        return np.array(values, dtype=np.float64)
    if texts:
        found = np.array([_number_of_text(cell) for cell in values], dtype=np.float64)
    else:
        found = _numbers_of_json(values, path)
    return _allowed(found, np.isfinite(found), path, "is not a finite number", "a finite number")


def discounts(config: Config, values: Sequence[Any], path: FieldPath, texts: bool) -> Floats:
    """Discounts up to 1 (n,), where the algorithm takes them; arguments as of ``numbers``.

    Raises:
        Invalid: the algorithm takes none, or a value out of range.
    """
    if not config.algorithm.row_discounts:
        field = "discounts" if path is DISCOUNTS else "discount"
        raise Invalid.of(field, f"{config.algorithm_id} takes no discount per row; gdfop does")
    found = numbers(values, path, texts)
    allowed = (found >= DISCOUNT_MIN) & (found <= 1)
    return _allowed(found, allowed, path, "is out of range", f">= {DISCOUNT_MIN:g} and <= 1")


def weights(config: Config, values: Sequence[Any], path: FieldPath, texts: bool) -> Floats:
    """Weights (n,), where the algorithm takes them; arguments as of ``numbers``.

    Raises:
        Invalid: the algorithm takes none, or a value out of range.
    """
    if not config.algorithm.row_weights:
        field = "weights" if path is WEIGHTS else "weight"
        problem = f"{config.algorithm_id} takes no weight per row; all algorithms but vigo, vigod and vigow do"
        raise Invalid.of(field, problem)
    found = numbers(values, path, texts)
    allowed = (found >= WEIGHT_MIN) & (found <= WEIGHT_MAX)
    return _allowed(found, allowed, path, "is out of range", f">= {WEIGHT_MIN:g} and <= {WEIGHT_MAX:g}")


def _allowed(found: Floats, allowed: NDArray[np.bool_], path: FieldPath, problem: str, words: str) -> Floats:
    if not allowed.all():
        wrong = np.flatnonzero(~allowed)[:PROBLEMS_MAX].tolist()
        raise Invalid(*(Problem(path(at), problem, words) for at in wrong))
    return found


def _numbers_of_json(values: Sequence[Any], path: FieldPath) -> Floats:
    if not {*map(type, values)} <= {int, float}:
        wrong = [at for at, value in enumerate(values) if type(value) not in (int, float)][:PROBLEMS_MAX]
        raise Invalid(*(Problem(path(at), "is not a number", "a finite number") for at in wrong))
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:  # an integer beyond every float
        return np.array([math.inf if abs(value) > FLOAT_MAX else value for value in values], dtype=np.float64)


def _number_of_text(cell: str) -> float:
    """The number in a cell; NaN for what is none, and for what only Python reads as one, such as 1_000."""
    try:
        return float(cell) if cell.isascii() and "_" not in cell else math.nan
    except ValueError:
        return math.nan
