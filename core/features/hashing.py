"""Categories that need no declaration: the text of a value is hashed into one of some buckets.

A bucket is a function of the text and their number alone, the same on every machine. Two values may share one: of n
values in B buckets about n (n - 1) / 2B pairs do.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np

from core.contract import Floats, Ints
from core.features.labels import LENGTH_MAX, canonical, key
from core.features.parsing import Bools, Unfit, filled
from core.problems import Invalid

HASHES_MAX = 2**15
"""Hashes of texts that are kept."""
_LABEL = "a string, an integer or a boolean"


def _hash(text: str) -> int:
    """48 bits that depend on the text alone."""
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=6).digest(), "little")


_kept_hash = lru_cache(HASHES_MAX)(_hash)


def hashes(texts: Sequence[str]) -> Ints:
    """The hashes of n texts, int64 (n,); those of short ones that came lately are known."""
    short = max(map(len, texts), default=0) <= LENGTH_MAX
    return np.fromiter(map(_kept_hash if short else _hash, texts), np.int64, len(texts))


class HashedCells:
    """Cells of a categorical feature without declared categories: the bucket of a value's text.

    So 12 and "12" are one value, and true and "true"; a text is taken as it is.
    """

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets

    def value(self, value: object, missing_allowed: bool) -> float:
        """The bucket of a string, an integer or a boolean. Raises: Unfit."""
        if value is None:
            return filled(math.nan, missing_allowed)
        return self._bucket(_text_of(value))

    def text(self, cell: str, missing_allowed: bool) -> float:
        """The bucket of a CSV text."""
        return filled(math.nan, missing_allowed) if cell == "" else self._bucket(cell)

    def _bucket(self, text: str) -> float:
        return float((_kept_hash if len(text) <= LENGTH_MAX else _hash)(text) % self._buckets)

    def vectorised(self, cells: Sequence[Any], missing_allowed: bool, texts: bool) -> Floats | None:
        """The buckets of texts or JSON values (n,)."""
        nothing = "" if texts else None
        missing = [cell == nothing for cell in cells] if nothing in cells else None
        if missing is not None and not missing_allowed:
            return None
        if not texts and not {str}.issuperset(map(type, cells)):
            try:
                cells = ["" if cell is None else _text_of(cell) for cell in cells]
            except Unfit:
                return None
        found = (hashes(cells) % self._buckets).astype(np.float64)
        if missing is not None:
            found[missing] = math.nan
        return found

    misfit = "is not an integer, which a category given as a number is", "an integer of 64 bits"

    def numbers(self, column: Floats) -> tuple[Floats, Bools]:
        """The buckets of integers."""
        whole = (np.abs(column) < 2.0**63) & (column == np.floor(column))
        values, places = np.unique(column[whole], return_inverse=True)
        found = np.full(len(column), math.nan)
        found[whole] = (hashes([str(int(value)) for value in values]) % self._buckets)[places]
        return found, ~(whole | np.isnan(column))


def _text_of(value: object) -> str:
    """The text that a value is hashed by."""
    if type(value) is str:
        return value
    try:
        return key(canonical(value, ""))
    except Invalid:
        raise Unfit("is not a category", _LABEL) from None
