"""One feature's cells: what a JSON value or a CSV text means as a number.

A numeric cell is its number, a categorical one the index of its category, a missing one NaN. Every table is
read twice over: *at once* by whole columns, which only says yes or "not sure" (None), and where it is not sure
*with care*, cell by cell, which is what decides, and what names the cells that are wrong.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np

from core.contract import Floats
from core.features.feature import Feature
from core.features.labels import canonical, key, number_or_text
from core.problems import LISTED_MAX, Invalid

NUMBERS = frozenset({int, float})
"""The types of a number: bool is a subtype of int, but ``true`` is no number."""
_NUMBERS_OR_NONE = NUMBERS | {type(None)}


class Unfit(Exception):
    """A cell is refused; the reader of the table knows where it stands.

    Args:
        problem: what is wrong with it.
        allowed: what would be right, or None.
    """

    def __init__(self, problem: str, allowed: object = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.allowed = allowed


class NumberCells:
    """Cells of a numeric feature; an empty text is a missing one."""

    empty_is_value = False

    def value(self, value: object) -> float:
        """A JSON value as a number, with care.

        Raises:
            Unfit: not a number, or none that is finite as a double.
        """
        if type(value) not in NUMBERS:
            raise Unfit("is not a number")
        try:
            number = float(value)  # type: ignore[arg-type]
        except OverflowError:
            number = math.inf
        return _finite(number)

    def text(self, cell: str) -> float:
        """A CSV text as a number, with care; "nan", "inf" and "1_000" are none.

        Raises:
            Unfit: not a number, or none that is finite as a double.
        """
        if not cell.isascii() or "_" in cell:
            raise Unfit("is not a number")
        try:
            return _finite(float(cell))
        except ValueError:
            raise Unfit("is not a number") from None


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise Unfit("is not a finite number")
    return number


class CategoryCells:
    """Cells of a categorical feature: a category's index. An empty text is missing unless "" is a category."""

    def __init__(self, feature: Feature) -> None:
        self._listed = list(feature.categories[:LISTED_MAX])
        coded = [(category, float(i)) for i, category in enumerate(feature.categories)]
        self._codes: dict[tuple[type, object], float] = {(type(category), category): i for category, i in coded}
        self._codes_or_missing = {**self._codes, (type(None), None): math.nan}
        self._texts = {key(category): i for category, i in coded}
        self.empty_is_value = "" in self._texts
        self._texts_or_missing = {"": math.nan, **self._texts}

    def value(self, value: object) -> float:
        """The index of a category given as a JSON value, with care (1.0 is 1).

        Raises:
            Unfit: not one of the categories.
        """
        try:
            label = canonical(value, "")
            return self._codes[type(label), label]
        except (Invalid, KeyError):
            raise Unfit("is not one of the categories", self._listed) from None

    def text(self, cell: str) -> float:
        """The index of a category given as a CSV text, with care: by its text, or as the number it is.

        Raises:
            Unfit: not one of the categories.
        """
        if cell in self._texts:
            return self._texts[cell]
        try:
            label = number_or_text(cell, "")
        except Invalid:
            label = cell
        if isinstance(label, int) and (type(label), label) in self._codes:
            return self._codes[type(label), label]
        raise Unfit("is not one of the categories", self._listed)

    def values_at_once(self, values: Sequence[object], missing_allowed: bool) -> Floats | None:
        """The indices of n JSON values (n,), or None where one needs care."""
        codes = self._codes_or_missing if missing_allowed else self._codes
        return _looked_up(codes.__getitem__, zip(map(type, values), values, strict=True), len(values))

    def texts_at_once(self, cells: Sequence[str], missing_allowed: bool) -> Floats | None:
        """The indices of n CSV texts (n,), or None where one needs care."""
        texts = self._texts_or_missing if missing_allowed else self._texts
        return _looked_up(texts.__getitem__, cells, len(cells))


def _looked_up(look_up: Callable[[Any], float], keys: Iterable[Any], count: int) -> Floats | None:
    try:
        return np.fromiter(map(look_up, keys), np.float64, count)
    except (KeyError, TypeError):  # TypeError: a list is not hashable
        return None


def values_at_once(rows: Sequence[Sequence[object]], width: int, missing_allowed: bool) -> Floats | None:
    """Rows of JSON numbers as (n, width), None in them as NaN; or None where one needs care."""
    types = set(map(type, chain.from_iterable(rows)))
    if not types <= (_NUMBERS_OR_NONE if missing_allowed else NUMBERS):
        return None
    try:
        numbers = np.array(rows, dtype=np.float64).reshape(len(rows), width)
    except OverflowError:
        return None
    wild = np.argwhere(~np.isfinite(numbers))
    return numbers if all(rows[i][j] is None for i, j in wild) else None


def texts_at_once(rows: Sequence[Sequence[str]], width: int, missing_allowed: bool) -> Floats | None:
    """Rows of CSV texts as (n, width), empty ones as NaN; or None where one needs care."""
    cells = list(chain.from_iterable(rows))
    joined = "".join(cells)
    if not joined.isascii() or "_" in joined:
        return None
    missing = np.fromiter(map(str.__eq__, cells, repeat("")), np.bool_, len(cells)) if "" in cells else None
    if missing is not None:
        if not missing_allowed:
            return None
        cells = [cell or "nan" for cell in cells]
    try:
        numbers = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return None
    sound = np.isfinite(numbers) if missing is None else np.isfinite(numbers) | missing
    return numbers.reshape(len(rows), width) if sound.all() else None
