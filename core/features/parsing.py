"""Numbers in cells: JSON values and CSV texts, one by one and by whole columns.

A table is first read *vectorised*, by whole columns; that gives None where any cell is unusual, right or wrong. Then it
is read *cell by cell* (``cells``), which decides, and names the wrong cells. Both readings agree on every cell that the
first one accepts.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats
from core.problems import FILLED

Bools = NDArray[np.bool_]
NUMBERS = frozenset({int, float})
"""The types of a number: bool is a subtype of int, but ``true`` is no number."""
_NUMBERS_OR_NONE = NUMBERS | {type(None)}


MISSING_TEXTS = frozenset({"", "NA", "Na", "na", "N/A", "n/a", "#N/A", "<NA>", "NaN", "NAN", "nan", "-NaN", "-nan"})
MISSING_TEXTS |= {"NULL", "Null", "null", "NONE", "None", "none"}
"""Cells of CSV that are missing values where a number or a time is expected, as other programs write them."""


class Unfit(Exception):
    """A cell is refused; the reader of the table adds where it is.

    Args:
        problem: what is wrong with it.
        allowed: what would be right, or None.
    """

    def __init__(self, problem: str, allowed: object = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.allowed = allowed


def number(value: object) -> float:
    """A JSON value as a number.

    Raises:
        Unfit: not a number, or not finite as a double.
    """
    if type(value) not in NUMBERS:
        raise Unfit("is not a number")
    try:
        found = float(value)  # type: ignore[arg-type]
    except OverflowError:
        found = math.inf
    return _finite(found)


def text_number(cell: str) -> float:
    """A CSV text as a number; "nan", "inf", "1_000" and a decimal comma are refused.

    Raises:
        Unfit: not a number, or not finite as a double.
    """
    if not cell.isascii() or "_" in cell:
        raise Unfit("is not a number")
    try:
        return _finite(float(cell))
    except ValueError:
        raise Unfit("is not a number; a decimal comma is not read" if "," in cell else "is not a number") from None


def _finite(found: float) -> float:
    if not math.isfinite(found):
        raise Unfit("is not a finite number")
    return found


def filled(code: float, missing_allowed: bool) -> float:
    """The number of a cell; NaN, which is missing, only where that is allowed.

    Raises:
        Unfit: it is missing.
    """
    if not missing_allowed and math.isnan(code):
        raise Unfit(f"is missing; {FILLED}")
    return code


def column_of(codes: Iterable[float], count: int, missing_allowed: bool) -> Floats | None:
    """The numbers of n cells as they are read, (n,); None where one is wrong."""
    try:
        found = np.fromiter(codes, np.float64, count)
    except (Unfit, TypeError):  # TypeError: a list is not hashable
        return None
    return found if missing_allowed or not np.isnan(found).any() else None


def vectorised_values(values: Sequence[object], missing_allowed: bool) -> Floats | None:
    """JSON numbers as (m,), null as NaN; None where a value is unusual."""
    if not (_NUMBERS_OR_NONE if missing_allowed else NUMBERS).issuperset(map(type, values)):
        return None
    try:
        numbers = np.array(values, dtype=np.float64)
    except OverflowError:
        return None
    finite = np.isfinite(numbers)
    sound = finite.all() or all(values[at] is None for at in np.flatnonzero(~finite).tolist())
    return numbers if sound else None


def vectorised_texts(cells: Sequence[str], missing_allowed: bool) -> Floats | None:
    """CSV texts as (m,), those of ``MISSING_TEXTS`` as NaN; None where a text is unusual."""
    joined = "".join(cells)
    if not joined.isascii() or "_" in joined:
        return None
    if MISSING_TEXTS.isdisjoint(cells):
        missing = None
    elif missing_allowed:
        missing = np.fromiter(map(MISSING_TEXTS.__contains__, cells), np.bool_, len(cells))
        cells = ["nan" if cell in MISSING_TEXTS else cell for cell in cells]
    else:
        return None
    try:
        numbers = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return None
    sound = np.isfinite(numbers) if missing is None else np.isfinite(numbers) | missing
    return numbers if sound.all() else None
