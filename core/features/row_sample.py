r"""A uniform sample of the rows that a model has learned: the background of explanations and effects.

Of n encoded rows, k = min(n, room) are kept; all subsets of that size are equally probable. Once k = room, rows are
skipped until the next one that is kept; it replaces one of the others, drawn uniformly. With u uniform:

    W <- 1, first;  W <- W u^(1 / room)                 the largest of room draws, given that all lie below W
    next <- next + 1 + floor(ln u / ln(1 - W))

so that a row that is not kept costs one comparison. Draws depend on the model's seed and on the number of the row.

Source: Kim-Hung Li: Reservoir-sampling algorithms of time complexity O(n(1 + log(N/n))), ACM TOMS 20(4), 1994,
algorithm L.
"""

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from core.contract import Floats, Ints
from core.numerics.rng import uniform
from core.state.layout import ROWS_MAX, Array, Counts, Holder, Layout, Range

SAMPLE_ROWS_MAX = 256  # most rows of a sample
NUMBERS_MAX, ROWS_MIN = 16_384, 4  # most numbers in a sample; least rows it has room for
_U_MIN = 2.0**-53


def sample_room(width: int) -> int:
    """Most rows of ``width`` columns that are kept."""
    return max(ROWS_MIN, min(SAMPLE_ROWS_MAX, NUMBERS_MAX // max(width, 1)))


def sample_bytes(width: int) -> int:
    """Bytes that a full sample of rows of ``width`` columns takes."""
    return 8 * (sample_room(width) * width + 1) + RowSample.object_bytes


class RowSample(Holder):
    """A sample of rows of D columns, a state machine over them."""

    layout: ClassVar = Layout(rows=Array("k", "D", at="held"), largest=Array(1, within=Range(0.0, 1.0)))
    object_bytes: ClassVar = 300

    def __init__(self, seed: int, width: int) -> None:
        self._seed, self.room = seed, sample_room(width)
        self.counts = {"seen": ROWS_MAX, "next": 2 * ROWS_MAX}
        self.held, self.largest = np.empty((0, width)), np.ones(1)  # (k, D) the sample, and (1,) W
        self.seen = self.next = 0  # rows so far, and the number of the next row that is kept

    def absorb(self, X: Floats) -> None:
        """Add rows X (n, D) as they are learned; a block leaves the same bits as its rows one by one."""
        first, self.seen = self.seen, self.seen + len(X)
        if self.next >= self.seen:
            return
        if (free := self.room - len(self.held)) > 0:
            self.held = np.concatenate([self.held, X[:free]])
            self.next = first + len(X[:free])
            if len(self.held) < self.room:
                return
            self.next -= 1  # the last one: skip from there
            self._skip()
        while self.next < self.seen:
            (u,) = uniform(self._seed, self.next, 1, "place in the row sample")
            self.held[int(u * self.room)] = X[self.next - first]
            self._skip()

    def _skip(self) -> None:
        """Move ``next`` to the next row that is kept."""
        one, other = np.maximum(uniform(self._seed, 2 * self.next, 2, "row sample"), _U_MIN).tolist()
        self.largest[0] *= one ** (1.0 / self.room)
        gap = math.log(other) / math.log1p(-max(self.largest[0], _U_MIN)) if self.largest[0] < 1.0 else 0.0
        self.next += 1 + int(min(gap, ROWS_MAX))

    def extend(self, other: "RowSample", places: Ints) -> None:
        """Take over a sample of rows of fewer columns, those at ``places``; further columns were 0."""
        rows = other.held[: self.room]
        self.held = np.zeros((len(rows), self.held.shape[1]))
        self.held[:, places] = rows
        self.largest, self.seen, self.next = other.largest.copy(), other.seen, other.next

    def _sizes(self, _found: Counts) -> Counts:
        return {"D": self.held.shape[1]}

    def _check(self, held: Mapping[str, Floats], found: Counts) -> None:
        kept = len(held["held"])
        ahead = found["next"] - found["seen"]  # rows that will be skipped: none until the sample is full
        if kept != min(found["seen"], self.room) or ahead < 0 or (kept < self.room and ahead > 0):
            raise ValueError("not the state of this sample")
