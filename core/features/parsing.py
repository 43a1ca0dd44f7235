"""The cells of one feature: JSON values and CSV texts as numbers.

A numeric cell is its number, a categorical one the index of its category, a missing one NaN. A table is first read
*vectorised*, by whole columns; that gives None where any cell is unusual, right or wrong. Then it is read *cell by
cell*, which decides, and names the wrong cells. Both readings agree on every cell that the first one accepts.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from core.contract import Floats
from core.features.feature import Feature
from core.features.labels import Label, canonical, key, number_or_text
from core.problems import LISTED_MAX, Invalid

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


def _missing(allowed: bool) -> float:
    if not allowed:
        raise Unfit("is missing")
    return math.nan


class NumberCells:
    """Cells of a numeric feature."""

    def value(self, value: object, missing_allowed: bool) -> float:
        """A JSON value as a number, null as NaN.

        Raises:
            Unfit: as ``number``; null unless ``missing_allowed``.
        """
        return _missing(missing_allowed) if value is None else number(value)

    def text(self, cell: str, missing_allowed: bool) -> float:
        """A CSV text as a number, one of ``MISSING_TEXTS`` as NaN.

        Raises:
            Unfit: as ``text_number``; a missing value unless ``missing_allowed``.
        """
        return _missing(missing_allowed) if cell in MISSING_TEXTS else text_number(cell)


class CategoryCells:
    """Cells of a categorical feature: a category's index. An empty text is missing unless "" is a category."""

    def __init__(self, feature: Feature) -> None:
        self._listed = list(feature.categories[:LISTED_MAX])
        self._codes: dict[tuple[type, object], float] = {(type(None), None): math.nan}
        self._texts = {"": math.nan}
        for i, category in enumerate(feature.categories):
            self._codes[type(category), category] = self._texts[key(category)] = float(i)

    def value(self, value: object, missing_allowed: bool) -> float:
        """The index of a category given as a JSON value (1.0 is 1), null as NaN.

        Raises:
            Unfit: not one of the categories; null unless ``missing_allowed``.
        """
        try:
            code = self._codes[type(value), value]
        except (KeyError, TypeError):  # TypeError: a list is not hashable
            code = self._code(canonical, value)
        return _missing(missing_allowed) if math.isnan(code) else code

    def text(self, cell: str, missing_allowed: bool) -> float:
        """The index of a category given as a CSV text: by its text, or as the number it is.

        Raises:
            Unfit: not one of the categories; a missing value unless ``missing_allowed``.
        """
        code = self._texts[cell] if cell in self._texts else self._code(number_or_text, cell)
        return _missing(missing_allowed) if math.isnan(code) else code

    def _code(self, label_of: Callable[[Any, str], Label], cell: object) -> float:
        try:
            label = label_of(cell, "")
            return self._codes[type(label), label]
        except (Invalid, KeyError):
            raise Unfit("is not one of the categories", self._listed) from None

    def vectorised(self, cells: Sequence[object], missing_allowed: bool, texts: bool) -> Floats | None:
        """The indices of n texts or JSON values (n,), missing ones as NaN; None where a cell is unusual."""
        look_up = (self._texts if texts else self._codes).__getitem__
        keys = cells if texts else zip(map(type, cells), cells, strict=True)
        try:
            codes = np.fromiter(map(look_up, keys), np.float64, len(cells))  # type: ignore[arg-type]
        except (KeyError, TypeError):
            return None
        return codes if missing_allowed or not np.isnan(codes).any() else None


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
