"""Numbers that accompany rows: labels of a regression, discounts, weights; each is checked as a column."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from core.config import Config
from core.contract import WEIGHT_MAX, WEIGHT_MIN, Floats
from core.features.parsing import Unfit, number, vectorised
from core.problems import PROBLEMS_MAX, Invalid, Problem, refuse
from service.runtime.rows.table import FieldPath, Table, listed

DISCOUNT_MIN = 1e-3  # a smaller discount would forget everything at one row; the kernels have the same floor


# For each factor that rows may have: the flag of the algorithms that take it, which these are, and its range.
_FACTORS = {
    "discount": ("row_discounts", "gdfop does", DISCOUNT_MIN, 1.0),
    "weight": ("row_weights", "all algorithms except vigo, vigod and vigow do", WEIGHT_MIN, WEIGHT_MAX),
}


def numbers(values: Sequence[Any], path: FieldPath, texts: bool) -> Floats:
    """Finite numbers (n,), from JSON or from ``texts``; ``Invalid`` names the first invalid ones, by ``path``."""
    if len(values) == 1 and type(values[0]) is float and math.isfinite(values[0]):  # the usual case
        return np.array(values, dtype=np.float64)
    found = vectorised(values, texts, missing_allowed=False)
    return _one_by_one(values, path, texts) if found is None else found


def _one_by_one(values: Sequence[Any], path: FieldPath, texts: bool) -> Floats:
    found, problems = list[float](), list[Problem]()
    for at, value in enumerate(values):
        try:
            found.append(number(value, texts))
        except Unfit as unfit:
            problems.append(Problem(path(at), unfit.problem, "a finite number"))
            if len(problems) == PROBLEMS_MAX:
                break
    refuse(problems)
    return np.array(found)


def factors(table: Table, config: Config) -> tuple[Floats | None, Floats | None]:
    """The discounts and the weights of rows, each (n,); None if none were sent.

    ``Invalid`` if the algorithm takes none, or for a value out of range.
    """
    return _factor(table, config, "discount", table.discounts), _factor(table, config, "weight", table.weights)


def _factor(table: Table, config: Config, member: str, values: Sequence[Any] | None) -> Floats | None:
    if values is None:
        return None
    (flag, taken, low, high), path = _FACTORS[member], table.path(member)
    if not getattr(config.algorithm, flag):
        field = f"{member}s" if table.place is listed else member
        raise Invalid.of(field, f"{config.algorithm_id} takes no {member} per row; {taken}")
    found = numbers(values, path, table.texts)
    wrong = np.flatnonzero((found < low) | (found > high))[:PROBLEMS_MAX].tolist()
    refuse([Problem(path(at), "is out of range", f">= {low:g} and <= {high:g}") for at in wrong])
    return found
