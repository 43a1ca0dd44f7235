"""The cells of one feature: JSON values and CSV texts as the numbers of a raw row.

    numeric      its number
    boolean      0 or 1
    categorical  the index of its category, ``OTHER`` for a value that is not declared; or the bucket it hashes to
    time         seconds since 1970

A missing cell is NaN: null, in CSV an empty text; but for categories also another one of ``MISSING_TEXTS``. ``value``
and ``text`` read one cell and say what is wrong with it; ``vectorised`` reads a column, and gives None where a cell is
wrong.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from core.contract import Floats
from core.features.feature import Feature
from core.features.hashing import HashedCells
from core.features.labels import Label, canonical, key, number_or_text
from core.features.parsing import (
    MISSING_TEXTS,
    Bools,
    Unfit,
    column_of,
    filled,
    number,
    text_number,
    vectorised_texts,
    vectorised_values,
)
from core.features.times import TimeCells, is_time
from core.problems import LISTED_MAX, Invalid

OTHER = -1.0
"""The index of a category that is not declared."""
_NUMBER = "a finite number"
_LABELS = (str, int, float, bool)


class Cells(Protocol):
    """The cells of a feature."""

    def value(self, value: object, missing_allowed: bool) -> float:
        """A JSON value, null as NaN.

        Raises:
            Unfit: no value of the feature; null unless ``missing_allowed``.
        """

    def text(self, cell: str, missing_allowed: bool) -> float:
        """A CSV text, an empty one as NaN.

        Raises:
            Unfit: no value of the feature; an empty text unless ``missing_allowed``.
        """

    def vectorised(self, cells: Sequence[Any], missing_allowed: bool, texts: bool) -> Floats | None:
        """Texts or JSON values (n,), missing ones as NaN; None where one is wrong."""

    def numbers(self, column: Floats) -> tuple[Floats, Bools]:
        """A column (n,) of an array as the numbers of raw rows, and which of them are wrong; NaN is missing."""

    @property
    def misfit(self) -> tuple[str, object]:
        """What is wrong with a wrong number, and what would be right."""


def cells_of(feature: Feature, others: bool) -> Cells:
    """The reader of a feature's cells; ``others``: whether it takes categories that are not declared."""
    if feature.categories:
        return CategoryCells(feature, others)
    if feature.buckets:
        return HashedCells(feature.buckets)
    if feature.type == "time":
        return TimeCells()
    return BooleanCells(feature) if feature.type == "boolean" else NumberCells(feature)


def declaration(name: str, kind: str) -> str:
    """How a feature is declared, as it stands in the body of PUT."""
    return json.dumps({"name": name, "type": kind}, ensure_ascii=False)


class NumberCells:
    """Cells of a numeric feature."""

    def __init__(self, feature: Feature) -> None:
        self._name = feature.name

    def value(self, value: object, missing_allowed: bool) -> float:
        """A number. Raises: as ``parsing.number``."""
        if value is None:
            return filled(math.nan, missing_allowed)
        try:
            return number(value)
        except Unfit as unfit:
            raise Unfit(unfit.problem + self._way_out(value), _NUMBER) from None

    def text(self, cell: str, missing_allowed: bool) -> float:
        """A number. Raises: as ``parsing.text_number``."""
        if cell in MISSING_TEXTS:
            return filled(math.nan, missing_allowed)
        try:
            return text_number(cell)
        except Unfit as unfit:
            raise Unfit(unfit.problem + self._way_out(cell), _NUMBER) from None

    def vectorised(self, cells: Sequence[Any], missing_allowed: bool, texts: bool) -> Floats | None:
        """Numbers (n,)."""
        return (vectorised_texts if texts else vectorised_values)(cells, missing_allowed)

    misfit = "is not a finite number", None

    def numbers(self, column: Floats) -> tuple[Floats, Bools]:
        """The column itself."""
        return column, np.isinf(column)

    def _way_out(self, value: object) -> str:
        """How a feature of such values is declared; nothing for a number that is not finite, a list or an object."""
        if isinstance(value, bool):
            kind = "boolean"
        elif isinstance(value, str):
            kind = "time" if is_time(value) else "categorical"
        else:
            return ""
        return f"; to take such values declare {declaration(self._name, kind)}"


class _CodedCells:
    """Cells that are looked up.

    Args:
        values: codes of JSON values, by type and value.
        texts: codes of CSV texts.
        of_value, of_text: read others.
    """

    def __init__(
        self,
        values: Mapping[tuple[type, Any], float],
        texts: Mapping[str, float],
        of_value: Callable[[Any], float],
        of_text: Callable[[str], float],
    ) -> None:
        self._of_value, self._of_text = of_value, of_text
        self._values = {(type(None), None): math.nan, **values}
        self._texts = {"": math.nan, **texts}

    def value(self, value: object, missing_allowed: bool) -> float:
        """The code of a JSON value. Raises: Unfit."""
        return filled(self._code_of_value(value), missing_allowed)

    def _code_of_value(self, value: Any) -> float:
        try:
            return self._values[type(value), value]
        except (KeyError, TypeError):  # TypeError: a list is not hashable
            return self._of_value(value)

    def text(self, cell: str, missing_allowed: bool) -> float:
        """The code of a CSV text. Raises: Unfit."""
        return filled(self._code_of_text(cell), missing_allowed)

    def _code_of_text(self, cell: str) -> float:
        return self._texts[cell] if cell in self._texts else self._of_text(cell)

    def vectorised(self, cells: Sequence[Any], missing_allowed: bool, texts: bool) -> Floats | None:
        """The codes of texts or JSON values (n,)."""
        look_up: Callable[[Any], float] = (self._texts if texts else self._values).__getitem__
        keys = cells if texts else zip(map(type, cells), cells, strict=True)
        try:
            return column_of(map(look_up, keys), len(cells), missing_allowed)
        except KeyError:  # others than those that are known
            codes = map(self._code_of_text if texts else self._code_of_value, cells)
            return column_of(codes, len(cells), missing_allowed)

    codes: int
    """How many codes there are, from 0 on."""

    def numbers(self, column: Floats) -> tuple[Floats, Bools]:
        """The codes themselves."""
        known = (column >= 0) & (column < self.codes) & (column == np.floor(column))
        return column, ~(known | np.isnan(column))


class CategoryCells(_CodedCells):
    """Cells of a categorical feature with declared categories; "" is missing in CSV unless it is one of them.

    Args:
        feature: the feature.
        others: whether values that are not declared are taken, as ``OTHER``.
    """

    def __init__(self, feature: Feature, others: bool) -> None:
        self._feature, self._others = feature, others
        self._codes = {(type(label), label): float(at) for at, label in enumerate(feature.categories)}
        texts = {key(label): float(at) for at, label in enumerate(feature.categories)}
        self.codes = feature.width
        self.misfit = "is not an index of a category", f"0 to {feature.width - 1}"
        super().__init__(self._codes, texts, self._read_value, self._read_text)

    def _read_value(self, value: Any) -> float:
        return self._code(canonical, value)  # 1.0 is 1

    def _read_text(self, cell: str) -> float:
        return self._code(number_or_text, cell)

    def _code(self, label_of: Callable[[Any, str], Label], cell: object) -> float:
        try:
            label = label_of(cell, "")
            return self._codes[type(label), label]
        except (Invalid, KeyError):
            if self._others and type(cell) in _LABELS:
                return OTHER
            raise self._unfit(cell) from None

    def _unfit(self, cell: object) -> Unfit:
        listed = list(self._feature.categories[:LISTED_MAX])
        if type(cell) not in _LABELS:
            return Unfit("is not one of the categories", listed)
        any_value = declaration(self._feature.name, "categorical")
        way_out = f'declare "unknown": "other" to pass over such values, or {any_value} to take any'
        return Unfit(f"is not one of the categories; {way_out}", listed)


class BooleanCells(_CodedCells):
    """Cells of a boolean feature: true, false, 0 and 1; in CSV also True, TRUE and the like."""

    codes = 2
    misfit = "is neither 0 nor 1", [0, 1]

    def __init__(self, feature: Feature) -> None:
        self._feature = feature
        values: dict[tuple[type, Any], float] = {}
        texts = dict.fromkeys(MISSING_TEXTS, math.nan)
        for truth in (False, True):
            values |= {(kind, kind(truth)): float(truth) for kind in (bool, int, float)}
            texts |= dict.fromkeys((str(int(truth)), f"{truth}".lower(), f"{truth}", f"{truth}".upper()), float(truth))
        super().__init__(values, texts, self._refuse, self._refuse)

    def _refuse(self, cell: Any) -> float:
        kind = "categorical" if isinstance(cell, str) else "numeric"
        way_out = f"; to take such values declare {declaration(self._feature.name, kind)}"
        raise Unfit("is not true or false" + way_out * (type(cell) in _LABELS), [True, False, 0, 1])
