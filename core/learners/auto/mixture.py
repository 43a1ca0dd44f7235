"""The state of a mixture of experts (equations: core.learners.auto.kernels)."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from core.contract import WEIGHT_MAX, Floats, Header, Prediction
from core.learners.auto import kernels as mixing
from core.learners.auto import stacks
from core.learners.auto.resting import LEAST_OF_CLASSES, LEAST_OF_NUMBERS, SPELL_MAX, decide, goes_worse
from core.learners.learner import CLASS_BOUND, NO_VALUE, NONE_GIVEN, NONE_TOLD
from core.numerics.weighting import POOL_MAX, take_shares
from core.state.layout import NOT_NEGATIVE, WHOLE, Array, Counts, Holder, Layout, Range

_SUM_ERROR = 1e-6
_UNIT, _LOSS = Range(0.0, 1.0), Range(0.0, mixing.LOSS_MAX)
_ANY = {
    mixing.WEIGHT: _UNIT,
    mixing.USE: _UNIT,
    mixing.WAKES: WHOLE,
    mixing.SPELLS: Range(0.0, SPELL_MAX, whole=True),
}
_CLASSES = {
    mixing.FIGURE: _UNIT,
    mixing.SLOPE: Range(mixing.SLOPE_MIN, mixing.SLOPE_MAX),
    mixing.CURVATURE: Range(mixing.CURVATURE_FIRST, mixing.CURVATURE_MAX),
    mixing.POOL: Range(-POOL_MAX, POOL_MAX),
    mixing.SQUARES: NOT_NEGATIVE,
}
_CLASS_COUNTERS = {
    mixing.ROWS: WHOLE,
    mixing.LAST: WHOLE,
    mixing.LOSS: _UNIT,
    mixing.RECENT: WHOLE,  # never reset if experts never rest
    mixing.HEAVIEST: Range(0.0, WEIGHT_MAX),
    mixing.POOLED: _UNIT,
}
_NUMBER_COUNTERS = {
    mixing.ROWS: WHOLE,
    mixing.LOSS: _LOSS,
    mixing.RECENT: NOT_NEGATIVE,
    mixing.HEAVIEST: Range(0.0, WEIGHT_MAX),
    mixing.SPREAD: Range(mixing.SPREAD_MIN, mixing.SPREAD_MAX),
}
_SPAN = (mixing.LEAST, mixing.MOST)


class ExpertMixture(Holder):
    """A table of experts whose weights add up to 1, 0 for resting ones; ``experts`` names those that read columns.

    State, for E experts and K classes:
        table (9, E), for numbers (5, E) see mixing.WEIGHT and the others
        counters (6,), for numbers (8,)  see mixing.ROWS and the others
        labels (2, K + 1, K)             for classes: see mixing.mix_classes
        gains (2, B, B), stacks (2, B)   for numbers: of the stacks of B = E - 2 experts, core.learners.auto.stacks
    """

    layouts: ClassVar = {
        False: Layout(
            table=Array(9, "E", axis=0, places=_ANY | _CLASSES),
            tally=Array(6, places=_CLASS_COUNTERS, at="counters"),
            labels=Array(2, "after", "K", within=Range(0.0, mixing.COUNT_MAX)),
        ),
        True: Layout(
            table=Array(5, "E", axis=0, places=_ANY | {mixing.FIGURE: _LOSS}),
            tally=Array(8, places=_NUMBER_COUNTERS, ordered=[_SPAN], at="counters"),
            gains=Array(2, "B", "B", within=stacks.GAIN_MAX),
            stacks=Array(2, "B", within=stacks.WEIGHT_MAX, at="stacked"),
        ),
    }
    object_bytes: ClassVar = 600

    def __init__(self, experts: Sequence[str], *, regression: bool) -> None:
        self.regression = regression
        self.layout = self.layouts[regression]  # type: ignore[misc]  # the layout of its task
        self.counts = {} if regression else {"classes": CLASS_BOUND}
        self._own = tuple(experts)
        # The names of all experts; those that only read labels come last, cost nothing and never rest.
        self.names = self._own + (mixing.NUMBER_EXPERTS if regression else mixing.LABEL_EXPERTS)
        self.table = np.tile(self._column(1.0 / len(self.names))[:, None], len(self.names))
        self.counters = np.array([0.0] * 7 + [1.0] if regression else [0.0] * 5 + [mixing.POOLED_FIRST])
        self.labels, self.classes = np.zeros((2, 1, 0)), 0  # (2, K + 1, K), and K
        self._begin_stacks()
        self._wake()

    def _begin_stacks(self) -> None:
        """Start with stacks that have learned nothing."""
        base = len(self._own) + 1
        self.gains, self.stacked = stacks.first_gains(base), np.zeros((2, base))

    def sizes(self, classes: int) -> dict[str, int]:
        """The sizes of the layout for a number of classes."""
        return {"E": len(self.names), "K": classes, "after": classes + 1, "B": len(self._own) + 1}

    @property
    def rows(self) -> int:
        """Rows learned."""
        return int(self.counters[mixing.ROWS])

    def add_class(self) -> None:
        """Add a class with no labels so far."""
        self.classes += 1
        self.labels = np.pad(self.labels, ((0, 0), (0, 1), (0, 1)))

    def label_shares(self) -> Floats:
        """The probabilities of the next row's class by the label experts, (4, K), K >= 1."""
        counted = np.concatenate([self.labels[:, int(self.counters[mixing.LAST])], self.labels[:, 0]])
        return np.asarray((counted + 1.0 / self.classes) / (counted.sum(axis=1, keepdims=True) + 1.0))

    def predict(self, out: Floats) -> Prediction:
        """The prediction of n rows from those of the awake experts that read columns. Changes nothing.

        ``out``: (A, n, K) their probabilities, or (A, 2, n) their numbers and deviations.
        """
        return self.learn(out, NONE_GIVEN if self.regression else NO_VALUE, NONE_GIVEN)

    def learn(self, out: Floats, y: NDArray[Any], weights: Floats, told: Floats = NONE_TOLD) -> Prediction:
        """Predict each row, then let its label y (n,) move the weights; row weights are (n,), or (0,) for 1.

        ``told``: as in ``mixing.mix_classes``.
        """
        if self.regression:
            number, std = np.empty((2, out.shape[2]))
            known = self.awake, self.table, self.counters, self.gains, self.stacked
            mixing.mix_numbers(out, y, weights, told, *known, number, std)
            return Prediction(number, None, std)
        n = out.shape[1]
        value, p = np.empty(n, dtype=np.int64), np.empty((n, self.classes))
        if self.classes:
            state = self.awake, self.table, self.labels, self.counters
            mixing.mix_classes(out, y, weights, told, *state, value, p)
        else:
            value.fill(-1)
        return Prediction(value, p)

    def decide(self) -> None:
        """Let experts rest and wake; call this at row numbers divisible by REST_ROWS (core.learners.auto.resting)."""
        worse = goes_worse(self.counters[mixing.RECENT], self.counters[mixing.LOSS], regression=self.regression)
        least = LEAST_OF_NUMBERS if self.regression else LEAST_OF_CLASSES
        decide(self.table[mixing.USE : mixing.SPELLS + 1], least, len(self.names) - len(self._own), self.rows, worse)
        self.counters[mixing.RECENT] = 0.0
        self._settle()

    def forget(self) -> None:
        """Reset the weights of the experts and the counts of labels."""
        figures = self.table[mixing.FIGURE].copy()
        self.table[:] = self._column(1.0 / len(self.names))[:, None]
        self.table[mixing.FIGURE] = figures
        self._begin_stacks()
        if not self.regression:
            self.labels[:], self.counters[mixing.POOLED] = 0.0, mixing.POOLED_FIRST
        self._wake()

    def extend(self, other: "ExpertMixture", anew: Collection[str]) -> None:
        """Continue from a mixture with the same classes that has learned the same rows; its experts may differ.

        Experts that restarted (``anew``) have no weight until they prove better than others.
        """
        self.labels, self.classes, self.counters = other.labels.copy(), other.classes, other.counters.copy()
        known = {name: column for name, column in zip(other.names, other.table.T, strict=True) if name not in anew}
        self._begin_stacks()
        started = self._column(0.0)
        started[mixing.FIGURE] = self.counters[mixing.LOSS] if self.regression else 0.0
        for name, column in zip(self.names, self.table.T, strict=True):
            column[:] = known.get(name, started)
        if not self.table[mixing.WEIGHT].any():
            self.table[mixing.WEIGHT] = 1.0
        self._settle()

    def wake_all(self) -> None:
        """Wake every expert; those that rested have no weight yet."""
        self.table[mixing.WAKES : mixing.SPELLS + 1] = 0.0
        self._wake()

    def _column(self, weight: float) -> Floats:
        """The table's column for an expert that has learned nothing."""
        E = len(self.names)
        classes = [1.0, mixing.CURVATURE_FIRST, mixing.POOL_FIRST / E if weight else 0.0, 0.0]
        return np.array([weight, 1.0 / E, 0.0, 0.0, 0.0] + ([] if self.regression else classes))

    def _wake(self) -> None:
        """Read from the table which experts are awake."""
        self.awake = np.flatnonzero(~self.resting)  # positions of the experts that do not rest

    def _settle(self) -> None:
        """Give weights only to experts that are awake."""
        self._wake()
        weights = self.table[mixing.WEIGHT]
        weights[self.resting] = 0.0
        weights /= weights.sum()

    @property
    def resting(self) -> NDArray[np.bool_]:
        """Which experts rest."""
        return np.asarray(self.table[mixing.WAKES] > 0.0)

    @property
    def weights(self) -> Floats:
        """The share of each expert in a number; or in the pool, where negative weights count as 0, and the choice."""
        chosen: Floats = self.table[mixing.WEIGHT]
        if self.regression:
            shares, awake = np.zeros(len(chosen)), np.empty(len(self.awake))
            take_shares(chosen[self.awake], awake)
            shares[self.awake] = awake
            return shares
        pool, c = np.maximum(self.table[mixing.POOL], 0.0), self.counters[mixing.POOLED]
        pool[self.resting] = 0.0
        total = pool.sum()
        pooled = pool / total if total > 0.0 else np.full(len(pool), 1.0 / len(pool))
        return np.asarray(c * pooled + (1.0 - c) * chosen)

    def report(self) -> list[Header]:
        """Every expert with its weight and its fading score over about the last 1000 rows."""
        figures = [float(figure) if self.rows else None for figure in self.table[mixing.FIGURE]]
        columns = zip(self.names, self.weights.tolist(), figures, self.resting.tolist(), strict=True)
        name = "mse" if self.regression else "accuracy"
        return [dict(zip(("expert", "weight", name, "resting"), column, strict=True)) for column in columns]

    def _loaded(self) -> None:
        self._wake()

    def _sizes(self, found: Counts) -> Counts:
        return self.sizes(found.get("classes", 0))

    def _check(self, held: Mapping[str, Floats], found: Counts) -> None:
        if abs(held["table"][mixing.WEIGHT].sum() - 1.0) > _SUM_ERROR:
            raise ValueError("the weights of the experts do not add up to 1")
        if held["table"][mixing.WAKES, len(self._own) :].any():
            raise ValueError("label experts never rest")
        if not self.regression and held["counters"][mixing.LAST] > found["classes"]:
            raise ValueError("the last label is of a class that does not exist")
