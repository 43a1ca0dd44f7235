"""The state of the mixture of classifiers (equations: core.learners.auto.mixing)."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from core.algorithm import CLASS_BOUND
from core.contract import Floats, Header, Ints
from core.learners.auto import mixing
from core.learners.auto.experts_mixed import ExpertsMixed
from core.learners.auto.resting import LEAST_OF_CLASSES, REST_ROWS, SPELL_MAX, errs_more
from core.state.layout import NOT_NEGATIVE, WHOLE, Array, Layout, Range, counts


class Mixture(ExpertsMixed):
    """What mixes the predictions of E experts, those of labels included.

    State, for K classes:
        table (E, 9)         see SLOPE and the others
        labels (2, K + 1, K) counts of labels, and behind them of those after each label; two decays
        counters (5,)        see ROWS and the others

    Args:
        experts: names of those that read columns.
    """

    layout: ClassVar = Layout(
        {
            "table": Array(
                "E",
                mixing.FIELDS,
                places={
                    mixing.SLOPE: Range(mixing.SLOPE_MIN, mixing.SLOPE_MAX),
                    mixing.CURVATURE: Range(mixing.CURVATURE_FIRST, mixing.CURVATURE_MAX),
                    mixing.POOL: Range(-mixing.POOL_MAX, mixing.POOL_MAX),
                    mixing.SQUARES: NOT_NEGATIVE,
                    mixing.CHOICE: Range(0.0, 1.0),
                    mixing.RIGHT: Range(0.0, 1.0),
                    mixing.USE: Range(0.0, 1.0),
                    mixing.WAKES: WHOLE,
                    mixing.SPELLS: Range(0.0, SPELL_MAX, whole=True),
                },
            ),
            "labels": Array(2, "after", "K", within=Range(0.0, mixing.COUNT_MAX)),
            "tally": Array(
                mixing.COUNTERS,
                places={
                    mixing.ROWS: WHOLE,
                    mixing.LAST: WHOLE,
                    mixing.POOLED: Range(0.0, 1.0),
                    mixing.WRONG: Range(0.0, 1.0),
                    mixing.RECENT: Range(0.0, REST_ROWS, whole=True),
                },
                at="counters",
            ),
        }
    )
    FREE: ClassVar = mixing.LABEL_EXPERTS
    SHARE, USE, WAKES, FIGURE, ROWS = mixing.CHOICE, mixing.USE, mixing.WAKES, mixing.RIGHT, mixing.ROWS
    REPORTED = "accuracy"
    LEAST = LEAST_OF_CLASSES

    def __init__(self, experts: Sequence[str]) -> None:
        super().__init__(experts, mixing.FIELDS, mixing.COUNTERS)
        self.table[:, mixing.SLOPE], self.table[:, mixing.CURVATURE] = 1.0, mixing.CURVATURE_FIRST
        self.table[:, mixing.POOL] = mixing.POOL_START / len(self.names)
        self.labels = np.zeros((2, 1, 0))
        self.counters[mixing.POOLED] = 0.5
        self.wake()

    def decide(self) -> None:
        """Experts rest and wake; called at row numbers divisible by REST_ROWS (core.learners.auto.resting)."""
        worse = errs_more(self.counters[mixing.RECENT] / REST_ROWS, self.counters[mixing.WRONG])
        self.counters[mixing.RECENT] = 0.0
        self.rest(worse=worse)

    @staticmethod
    def sizes(experts: int, classes: int) -> dict[str, int]:
        """The sizes of the layout for so many experts that read columns."""
        return {"E": experts + len(mixing.LABEL_EXPERTS), "K": classes, "after": classes + 1}

    @property
    def classes(self) -> int:
        """K."""
        return self.labels.shape[2]

    def add_class(self) -> None:
        """A class that no label was of so far."""
        self.labels = np.pad(self.labels, ((0, 0), (0, 1), (0, 1)))

    def predict(self, P: Floats) -> tuple[Ints, Floats]:
        """Classes (n,), -1 where there is none, and probabilities (n, K) from those of the experts awake, P."""
        value, p = self._room(P.shape[1])
        if self.classes:
            mixing.predict_rows(P, self.awake, self.table, self.labels, self.counters, value, p)
        return value, p

    def learn(self, P: Floats, y: Ints, weights: Floats) -> tuple[Ints, Floats]:
        """The same for each row before its class y (n,) moves the weights; the rows' own are (n,), or (0,): 1."""
        value, p = self._room(P.shape[1])
        mixing.learn_rows(P, y, weights, self.awake, self.table, self.labels, self.counters, value, p)
        return value, p

    def _room(self, n: int) -> tuple[Ints, Floats]:
        return np.full(n, -1, dtype=np.int64), np.empty((n, self.classes))

    def forget(self) -> None:
        """Experts are weighed as at the start, and labels as if none had been counted."""
        fresh = Mixture(self.names[: -len(mixing.LABEL_EXPERTS)])
        self.table, self.labels = fresh.table, np.zeros(self.labels.shape)
        self.counters[mixing.POOLED] = fresh.counters[mixing.POOLED]
        self.wake()

    def extend(self, other: "Mixture", anew: Collection[str]) -> None:
        """Go on for a mixture that has learned the same rows.

        Args:
            other: of the same classes; its experts may be others.
            anew: experts that have started anew: they have no weight until they prove better than others.
        """
        self.labels, self.counters = other.labels.copy(), other.counters.copy()
        known = {name: row for name, row in zip(other.names, other.table, strict=True) if name not in anew}
        for name, own in zip(self.names, self.table, strict=True):
            own[:] = known.get(name, (1.0, mixing.CURVATURE_FIRST, *[0.0] * 4, 1.0 / len(self.names), 0.0, 0.0))
        if not self.table[:, mixing.CHOICE].any():
            self.table[:, mixing.CHOICE] = 1.0
        self.settle()

    @property
    def weights(self) -> Floats:
        """What each expert counts for, in shares of 1: in the pool, where negative weights are none, and the choice."""
        pool, c = np.maximum(self.table[:, mixing.POOL], 0.0), self.counters[mixing.POOLED]
        pool[self.resting] = 0.0
        total = pool.sum()
        pooled = pool / total if total > 0.0 else np.full(len(pool), 1.0 / len(pool))
        return np.asarray(c * pooled + (1.0 - c) * self.table[:, mixing.CHOICE])

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state."""
        return self.layout.to_arrays(self), {"classes": self.classes}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state of ``to_arrays``.

        Raises:
            ValueError: what no state of these experts can be; nothing has changed.
        """
        (classes,) = counts(header, classes=CLASS_BOUND)
        found = self.layout.read(arrays, **self.sizes(len(self.names) - len(mixing.LABEL_EXPERTS), classes))
        if found["counters"][mixing.LAST] > classes:
            raise ValueError("the last label is of a class that is not there")
        self.check(found["table"])
        self.take(found)
