"""The raw column of a feature: how its values, in JSON and in CSV, become the numbers of a raw row.

    numeric      its number; numbers outside a declared range may be refused or clipped, see ``outside``
    boolean      0 or 1
    categorical  the index of its category, ``OTHER`` for an undeclared value; or the bucket it hashes to
    time         seconds since 1970

A missing cell is NaN: null in JSON; in CSV an empty text or, except for categories, one of ``MISSING_TEXTS``.
core.features.encoder turns these numbers into the columns that learners see.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Ints
from core.features import parsing
from core.features.feature import Feature, declaration
from core.features.labels import LENGTH_MAX, canonical, key, number_or_text
from core.features.parsing import EARLIEST, LATEST, MISSING_TEXTS, Unfit
from core.problems import LISTED_MAX, PROBLEMS_MAX, Invalid, Problem, refuse

OTHER = -1.0  # the index of an undeclared category
HASHES_MAX = 2**15  # most hashes of texts that are cached
WHOLE_END = 2**53  # float64 holds every integer below it; 2^53 itself may be a rounded 2^53 + 1
Bools = NDArray[np.bool_]
_LABELS = (str, int, float, bool)
_TIME = 'RFC 3339 such as "2026-01-31T12:00:00Z", or seconds since 1970'
_OUT_OF_YEARS = "is outside the years 1 to 9999: numbers are seconds, not milliseconds"


class Column(ABC):
    """The raw column of one feature."""

    missing: Collection[str] = MISSING_TEXTS
    """CSV texts that are missing values."""
    misfit: tuple[str, object]
    """The problem with a wrong number in an array, and what is allowed."""

    @abstractmethod
    def read(self, cell: Any, texts: bool) -> float:
        """Read a CSV text or JSON value that is not missing; raises ``Unfit`` if it is not a value of the feature."""

    def vectorised(self, cells: Sequence[Any], texts: bool) -> Floats | None:
        """Read texts or JSON values (n,), missing ones as NaN; None if one is wrong."""
        missing: Collection[Any] = self.missing if texts else (None,)
        read = (math.nan if cell in missing else self.read(cell, texts) for cell in cells)
        try:
            return np.fromiter(read, np.float64, len(cells))
        except Unfit:
            return None

    @abstractmethod
    def numbers(self, column: Floats) -> tuple[Floats, Bools]:
        """A column (n,) of an array as the numbers of raw rows, and which of them are wrong; NaN is missing."""


def column_of(feature: Feature, others: bool) -> Column:
    """The column of a feature; ``others``: whether it accepts undeclared categories."""
    if feature.categories:
        return _CategoryColumn(feature, others)
    if feature.buckets:
        return _HashedColumn(feature.buckets)
    if feature.type == "time":
        return _TimeColumn()
    return _BooleanColumn(feature.name) if feature.type == "boolean" else _NumberColumn(feature.name)


def _to_take_such(name: str, kind: str) -> str:
    how = f"create another model that declares all its features, this one as {declaration(name, kind)}"
    return f"; to accept such values {how}"


class _NumberColumn(Column):
    """The column of a numeric feature."""

    misfit = "is not a finite number", None

    def __init__(self, name: str) -> None:
        self._name = name

    def read(self, cell: Any, texts: bool) -> float:
        try:
            return parsing.number(cell, texts)
        except Unfit as unfit:
            way_out = ""
            if isinstance(cell, bool | str):  # suggest a declaration that accepts such cells
                kind = "boolean" if isinstance(cell, bool) else "categorical"
                is_time = isinstance(cell, str) and parsing.reads(parsing.seconds_of, cell)
                way_out = _to_take_such(self._name, "time" if is_time else kind)
            raise Unfit(unfit.problem + way_out, "a finite number") from None

    def numbers(self, column: Floats) -> tuple[Floats, Bools]:
        return column, np.isinf(column)


class _TimeColumn(Column):
    """The column of a time: RFC 3339, or seconds since 1970."""

    misfit = _OUT_OF_YEARS, _TIME

    def read(self, cell: Any, texts: bool) -> float:
        by_number = parsing.reads(parsing.number, cell, True) if texts else not isinstance(cell, str)
        try:
            seconds = parsing.number(cell, texts) if by_number else parsing.seconds_of(cell)
        except (ValueError, Unfit):
            raise Unfit("is not a time", _TIME) from None
        if not EARLIEST <= seconds <= LATEST:
            raise Unfit(_OUT_OF_YEARS, _TIME)
        return seconds

    def vectorised(self, cells: Sequence[Any], texts: bool) -> Floats | None:
        found = parsing.vectorised(cells, texts)
        if found is None:
            return super().vectorised(cells, texts)
        return None if self.numbers(found)[1].any() else found

    def numbers(self, column: Floats) -> tuple[Floats, Bools]:
        return column, (column < EARLIEST) | (column > LATEST)


class _CodedColumn(Column):
    """A column with a lookup table of values: JSON values by type and value, CSV texts; codes count from 0."""

    def __init__(self, values: Mapping[tuple[type, Any], float], texts: Mapping[str, float], codes: int) -> None:
        self._values = {(type(None), None): math.nan, **values}
        self._texts = {**dict.fromkeys(self.missing, math.nan), **texts}
        self._count = codes

    def read(self, cell: Any, texts: bool) -> float:
        try:
            return self._texts[cell] if texts else self._values[type(cell), cell]
        except (KeyError, TypeError):  # TypeError: a list is not hashable
            return self._other(cell, texts)

    @abstractmethod
    def _other(self, cell: Any, texts: bool) -> float:
        """The code of a cell that is not in the tables, or ``Unfit``."""

    def vectorised(self, cells: Sequence[Any], texts: bool) -> Floats | None:
        look_up: Callable[[Any], float] = (self._texts if texts else self._values).__getitem__
        keys = cells if texts else zip(map(type, cells), cells, strict=True)
        try:
            return np.fromiter(map(look_up, keys), np.float64, len(cells))
        except (KeyError, TypeError):  # unknown values
            return super().vectorised(cells, texts)

    def numbers(self, column: Floats) -> tuple[Floats, Bools]:
        known = (column >= 0) & (column < self._count) & (column == np.floor(column))
        return column, ~(known | np.isnan(column))


class _CategoryColumn(_CodedColumn):
    """The column of declared categories; ``others``: whether it accepts other values, as ``OTHER``.

    In CSV "" is missing unless it is one of the categories; True and TRUE are true unless they are.
    """

    def __init__(self, feature: Feature, others: bool) -> None:
        self._feature, self._others = feature, others
        self._codes = {(type(label), label): float(at) for at, label in enumerate(feature.categories)}
        texts = {text: code for (kind, label), code in self._codes.items() if kind is bool for text in _spelt(label)}
        texts |= {key(label): code for (_, label), code in self._codes.items()}
        self.missing = {""} - texts.keys()
        self.misfit = "is not the index of a category", f"0 to {feature.width - 1}"
        super().__init__(self._codes, texts, feature.width)

    def _other(self, cell: Any, texts: bool) -> float:
        try:
            label = (number_or_text if texts else canonical)(cell, "")  # 1.0 is 1
            return self._codes[type(label), label]
        except (Invalid, KeyError):
            if self._others and type(cell) in _LABELS:
                return OTHER
        listed = list(self._feature.categories[:LISTED_MAX])
        if type(cell) not in _LABELS:
            raise Unfit("is not one of the categories", listed)
        any_value = declaration(self._feature.name, "categorical")
        way_out = f'declare "unknown": "other" to ignore such values, or {any_value} to accept any'
        raise Unfit(f"is not one of the categories; {way_out}", listed)


class _BooleanColumn(_CodedColumn):
    """The column of a boolean feature: true, false, 0 and 1; in CSV also True, TRUE and the like, and 1.0."""

    misfit = "is neither 0 nor 1", [0, 1]

    def __init__(self, name: str) -> None:
        self._name = name
        kinds: tuple[type[Any], ...] = (bool, int, float)
        values = {(kind, kind(truth)): float(truth) for truth in (False, True) for kind in kinds}
        spelt = dict.fromkeys(("0", "0.0", *_spelt(False)), 0.0) | dict.fromkeys(("1", "1.0", *_spelt(True)), 1.0)
        super().__init__(values, spelt, 2)

    def _other(self, cell: Any, texts: bool) -> float:
        del texts
        way_out = _to_take_such(self._name, "categorical" if isinstance(cell, str) else "numeric")
        raise Unfit("is not true or false" + way_out * (type(cell) in _LABELS), [True, False, 0, 1])


def _spelt(truth: object) -> list[str]:
    """The spellings of true or false in CSV."""
    return [str(truth), str(truth).lower(), str(truth).upper()]


class _HashedColumn(Column):
    """The column of a categorical feature without declared categories: the text of a value is hashed into a bucket.

    The bucket depends only on the text and the number of buckets, and is the same on every machine. Two values may
    share one: of n values in B buckets about n (n - 1) / 2B pairs do. As other programs write them to CSV, 12, "12" and
    "12.0" are one value, as are true, "true", "True" and "TRUE"; other texts are used unchanged.
    """

    missing = ("",)
    misfit = (
        "is not an integer that float64 holds exactly; categories are strings, integers or booleans",
        f"{1 - WHOLE_END} to {WHOLE_END - 1}",
    )

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets

    def read(self, cell: Any, texts: bool) -> float:
        text = cell if texts else _text_of(cell)
        return float((_kept_hash if len(text) <= LENGTH_MAX else _hash)(text) % self._buckets)

    def vectorised(self, cells: Sequence[Any], texts: bool) -> Floats | None:
        try:
            plain = texts or {str}.issuperset(map(type, cells))
            found = self._hashed(cells if plain else ["" if cell is None else _text_of(cell) for cell in cells])
        except Unfit:
            return None
        nothing = "" if texts else None
        if nothing in cells:
            found[[cell == nothing for cell in cells]] = math.nan
        return found

    def numbers(self, column: Floats) -> tuple[Floats, Bools]:
        whole = (np.abs(column) < WHOLE_END) & (column == np.floor(column))
        values, places = np.unique(column[whole], return_inverse=True)
        found = np.full(len(column), math.nan)
        found[whole] = self._hashed([str(int(value)) for value in values])[places]
        return found, ~(whole | np.isnan(column))

    def _hashed(self, texts: Sequence[str]) -> Floats:
        """The buckets of texts (n,); hashes of recent short texts are cached."""
        short = max(map(len, texts), default=0) <= LENGTH_MAX
        hashes: Ints = np.fromiter(map(_kept_hash if short else _hash, texts), np.int64, len(texts))
        return (hashes % self._buckets).astype(np.float64)


_TRUTHS = {text: str(truth).lower() for truth in (False, True) for text in _spelt(truth)}


def _hash(text: str) -> int:
    """48 bits that depend on the value of a text alone."""
    whole = text.removesuffix(".0")
    text = whole if whole.removeprefix("-").isdecimal() else _TRUTHS.get(text, text)
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=6).digest(), "little")


_kept_hash = lru_cache(HASHES_MAX)(_hash)


def _text_of(value: object) -> str:
    """The text of a value, for hashing."""
    if type(value) is str:
        return value
    if type(value) is int and 0 <= value < 2**64:
        return str(value)
    try:
        return key(canonical(value, ""))
    except Invalid:
        raise Unfit("is not a category", "a string, a 64-bit integer or a boolean") from None


class Limits(NamedTuple):
    """The declared ranges of a space's features, and how to treat numbers outside them; each (F,)."""

    low: Floats
    high: Floats  # both infinite if any number is accepted
    refused: Bools  # whether numbers outside are refused; otherwise they are clipped

    @classmethod
    def of(cls, features: Sequence[Feature]) -> Self | None:
        """The limits of some features; None if all of them accept any number."""
        if all(feature.outside == "accept" for feature in features):
            return None
        ends = [(one.minimum, one.maximum) if one.outside != "accept" else (None, None) for one in features]
        low, high = np.array(ends, dtype=np.float64).T  # None is NaN
        refused = np.array([feature.outside == "refuse" for feature in features])
        return cls(np.nan_to_num(low, nan=-math.inf), np.nan_to_num(high, nan=math.inf), refused)

    def apply(self, raw: Floats, place: Callable[[int, int], str]) -> Floats:
        """Raw rows (n, F) within the limits; NaN is missing, and within all limits; ``place`` names cells.

        ``Invalid`` lists the first 20 numbers that are refused.
        """
        found: Floats = np.clip(raw, self.low, self.high)
        problem = 'is outside the declared range; declare "outside": "clip" or "accept" to accept such values'
        problems = []
        for i, j in np.argwhere((found != raw) & ~np.isnan(raw) & self.refused)[:PROBLEMS_MAX].tolist():
            ends = [(">=", self.low[j]), ("<=", self.high[j])]
            allowed = " and ".join(f"{sign} {end:g}" for sign, end in ends if np.isfinite(end))
            problems.append(Problem(place(i, j), problem, allowed))
        refuse(problems)
        return found
