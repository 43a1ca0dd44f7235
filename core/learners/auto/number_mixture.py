"""The state of the mixture of regressions (equations: core.learners.auto.number_mixing)."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header
from core.learners.auto import number_mixing as mixing
from core.learners.auto.experts_mixed import ExpertsMixed
from core.learners.auto.resting import LEAST_OF_NUMBERS, SPELL_MAX, is_farther_off
from core.state.layout import WHOLE, Array, Layout, Range, counts


class NumberMixture(ExpertsMixed):
    """What mixes the predictions of E experts, that of the last label included.

    State:
        table (E, 5)   see WEIGHT and the others
        counters (6,)  see ROWS and the others

    Args:
        experts: names of those that read columns.
    """

    layout: ClassVar = Layout(
        {
            "table": Array(
                "E",
                mixing.FIELDS,
                places={
                    mixing.WEIGHT: Range(0.0, 1.0),
                    mixing.ERROR: Range(0.0, mixing.LOSS_MAX),
                    mixing.USE: Range(0.0, 1.0),
                    mixing.WAKES: WHOLE,
                    mixing.SPELLS: Range(0.0, SPELL_MAX, whole=True),
                },
            ),
            "tally": Array(
                mixing.COUNTERS,
                places={
                    mixing.ROWS: WHOLE,
                    mixing.LOSS: Range(0.0, mixing.LOSS_MAX),
                    mixing.RECENT: Range(0.0, mixing.LOSS_MAX),
                },
                ordered=[(mixing.LEAST, mixing.MOST)],
                at="counters",
            ),
        }
    )
    FREE: ClassVar = (mixing.LAST_VALUE,)
    SHARE, USE, WAKES, FIGURE, ROWS = mixing.WEIGHT, mixing.USE, mixing.WAKES, mixing.ERROR, mixing.ROWS
    REPORTED = "mse"
    LEAST = LEAST_OF_NUMBERS

    def __init__(self, experts: Sequence[str]) -> None:
        super().__init__(experts, mixing.FIELDS, mixing.COUNTERS)
        self.wake()

    def decide(self) -> None:
        """Experts rest and wake; called at row numbers divisible by REST_ROWS (core.learners.auto.resting)."""
        worse = is_farther_off(self.counters[mixing.RECENT], self.counters[mixing.LOSS])
        self.counters[mixing.RECENT] = 0.0
        self.rest(worse=worse)

    @staticmethod
    def sizes(experts: int, classes: int) -> dict[str, int]:
        """The sizes of the layout for so many experts that read columns."""
        del classes
        return {"E": experts + 1}

    def predict(self, P: Floats, S: Floats) -> tuple[Floats, Floats]:
        """What is said of n rows (n,), with deviations (n,), from what the experts awake say: P and S."""
        value, std = np.empty((2, P.shape[1]))
        mixing.predict_rows(P, S, self.awake, self.table, self.counters, value, std)
        return value, std

    def learn(self, P: Floats, S: Floats, y: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """The same for each row before its label y (n,) moves the weights; the rows' own are (n,), or (0,): 1."""
        value, std = np.empty((2, P.shape[1]))
        mixing.learn_rows(P, S, y, weights, self.awake, self.table, self.counters, value, std)
        return value, std

    def forget(self) -> None:
        """Experts are weighed as at the start, and all are awake."""
        self.table[:, mixing.WEIGHT] = self.table[:, mixing.USE] = 1.0 / len(self.names)
        self.table[:, [mixing.WAKES, mixing.SPELLS]] = 0.0
        self.wake()

    def extend(self, other: "NumberMixture", anew: Collection[str]) -> None:
        """Go on for a mixture that has learned the same rows.

        Args:
            other: its experts may be others.
            anew: experts that have started anew: they have no weight until they prove better than others.
        """
        self.counters = other.counters.copy()
        known = {name: row for name, row in zip(other.names, other.table, strict=True) if name not in anew}
        for name, own in zip(self.names, self.table, strict=True):
            own[:] = known.get(name, (0.0, other.counters[mixing.LOSS], 1.0 / len(self.names), 0.0, 0.0))
        if not self.table[:, mixing.WEIGHT].any():
            self.table[:, mixing.WEIGHT] = 1.0
        self.settle()

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state."""
        return self.layout.to_arrays(self), {}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state of ``to_arrays``.

        Raises:
            ValueError: what no state of these experts can be; nothing has changed.
        """
        counts(header)
        found = self.layout.read(arrays, E=len(self.names))
        self.check(found["table"])
        self.take(found)
