"""The state of the mixture of regressions (equations: core.learners.auto.number_mixing)."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header
from core.learners.auto import number_mixing as mixing
from core.learners.auto.resting import LEAST_OF_NUMBERS, SPELL_MAX, decide, is_farther_off
from core.state.layout import WHOLE, Array, Layout, Range, counts

_SUM_ERROR = 1e-6


class NumberMixture:
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
    object_bytes: ClassVar = 600

    def __init__(self, experts: Sequence[str]) -> None:
        self.names = (*experts, mixing.LAST_VALUE)
        self.table = np.zeros((len(self.names), mixing.FIELDS))
        self.table[:, mixing.WEIGHT] = self.table[:, mixing.USE] = 1.0 / len(self.names)
        self.counters = np.zeros(mixing.COUNTERS)
        self.wake()

    def wake(self) -> None:
        """Take in from the table who is awake."""
        self.awake = np.flatnonzero(self.table[:, mixing.WAKES] == 0.0)

    def decide(self) -> None:
        """Experts rest and wake; called at row numbers divisible by REST_ROWS (core.learners.auto.resting)."""
        worse = is_farther_off(self.counters[mixing.RECENT], self.counters[mixing.LOSS])
        self.counters[mixing.RECENT] = 0.0
        decide(self.table[:, mixing.USE :], LEAST_OF_NUMBERS, 1, self.rows, worse)
        self._settle()

    def _settle(self) -> None:
        """The weights are of those awake."""
        self.wake()
        weights = self.table[:, mixing.WEIGHT]
        weights[self.table[:, mixing.WAKES] > 0.0] = 0.0
        weights /= weights.sum()

    @staticmethod
    def sizes(experts: int, classes: int) -> dict[str, int]:
        """The sizes of the layout for so many experts that read columns."""
        del classes
        return {"E": experts + 1}

    @property
    def rows(self) -> int:
        """Rows learned."""
        return int(self.counters[mixing.ROWS])

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
        self._settle()

    @property
    def resting(self) -> NDArray[np.bool_]:
        """Who rests."""
        found: NDArray[np.bool_] = self.table[:, mixing.WAKES] > 0.0
        return found

    @property
    def weights(self) -> Floats:
        """What each expert counts for, in shares of 1."""
        return self.table[:, mixing.WEIGHT]

    def report(self) -> list[Header]:
        """Every expert with its weight and its mean squared error: of the last 1000 rows, fading."""
        seen = self.counters[mixing.ROWS] > 0
        errors = [float(error) if seen else None for error in self.table[:, mixing.ERROR]]
        return [
            {"expert": name, "weight": weight, "mse": error, "resting": rests}
            for name, weight, error, rests in zip(
                self.names, self.weights.tolist(), errors, self.resting.tolist(), strict=True
            )
        ]

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return self.layout.held_bytes(self) + self.object_bytes

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
        if abs(found["table"][:, mixing.WEIGHT].sum() - 1.0) > _SUM_ERROR:
            raise ValueError("the weights of the experts are none that add up to 1")
        if found["table"][-1, mixing.WAKES]:
            raise ValueError("the expert of the last value never rests")
        vars(self).update(found)
        self.wake()
