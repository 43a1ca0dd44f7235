"""What the mixtures of classes and of numbers have in common: their experts' shares, who rests, what is reported."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header
from core.learners.auto.resting import decide
from core.state.layout import Layout

_SUM_ERROR = 1e-6


class ExpertsMixed:
    """A table of experts whose shares add up to 1; resting ones have none.

    Args:
        experts: names of those that read columns.

    Attributes:
        names: of all experts, those that read only labels last.
        table: a row of state for each.
        awake: places of those that do not rest.
        counters: sums over all rows.
        FREE: names of experts that read only labels; they cost nothing and never rest.
        SHARE, USE, WAKES, FIGURE: columns of the table: its share; the three of resting, from USE on; what is reported.
        ROWS: the counter of rows.
        REPORTED: the name of the figure.
        LEAST: how little use lets an expert rest (core.learners.auto.resting).
    """

    layout: ClassVar[Layout]
    object_bytes: ClassVar = 600
    FREE: ClassVar[Sequence[str]]
    SHARE: ClassVar[int]
    USE: ClassVar[int]
    WAKES: ClassVar[int]
    FIGURE: ClassVar[int]
    ROWS: ClassVar[int]
    REPORTED: ClassVar[str]
    LEAST: ClassVar[float]

    def __init__(self, experts: Sequence[str], fields: int, counters: int) -> None:
        self.names = (*experts, *self.FREE)
        self.table = np.zeros((len(self.names), fields))
        self.table[:, self.SHARE] = self.table[:, self.USE] = 1.0 / len(self.names)
        self.counters = np.zeros(counters)

    @property
    def rows(self) -> int:
        """Rows learned."""
        return int(self.counters[self.ROWS])

    def wake(self) -> None:
        """Take in from the table who is awake."""
        self.awake = np.flatnonzero(self.table[:, self.WAKES] == 0.0)

    @property
    def resting(self) -> NDArray[np.bool_]:
        """Who rests."""
        found: NDArray[np.bool_] = self.table[:, self.WAKES] > 0.0
        return found

    def rest(self, *, worse: bool) -> None:
        """Experts rest and wake.

        Args:
            worse: whether the last rows went clearly worse than those before.
        """
        decide(self.table[:, self.USE :], self.LEAST, len(self.FREE), self.rows, worse)
        self.settle()

    def settle(self) -> None:
        """The shares are of those awake."""
        self.wake()
        shares = self.table[:, self.SHARE]
        shares[self.resting] = 0.0
        shares /= shares.sum()

    @property
    def weights(self) -> Floats:
        """What each expert counts for, in shares of 1."""
        return self.table[:, self.SHARE]

    def report(self) -> list[Header]:
        """Every expert with its weight and its figure of the last 1000 rows, fading."""
        figures = [float(figure) if self.rows else None for figure in self.table[:, self.FIGURE]]
        return [
            {"expert": name, "weight": weight, self.REPORTED: figure, "resting": rests}
            for name, weight, figure, rests in zip(
                self.names, self.weights.tolist(), figures, self.resting.tolist(), strict=True
            )
        ]

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return self.layout.held_bytes(self) + self.object_bytes

    def check(self, table: Floats) -> None:
        """Look at a table before it is taken over.

        Raises:
            ValueError: what no table of these experts can be.
        """
        if abs(table[:, self.SHARE].sum() - 1.0) > _SUM_ERROR:
            raise ValueError("the shares of the experts are none that add up to 1")
        if table[-len(self.FREE) :, self.WAKES].any():
            raise ValueError("experts of labels never rest")

    def take(self, found: dict[str, NDArray[Any]]) -> None:
        """Take over arrays that have been checked."""
        vars(self).update(found)
        self.wake()
