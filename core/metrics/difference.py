r"""The paired difference of two learners' losses on the same rows, and whether it is more than chance.

For each row that both predicted, before its label arrived,

    classification    D = [first is wrong] - [second is wrong]
    with class_costs  D = (c_y [first is wrong] - c_y [second is wrong]) / max c,    c_y the cost of missing the label
    regression        D = min(e1^2, b) - min(e2^2, b),    b = 4 times the variance of the labels before the row

so that above 0 the second one is better. The scale of a regression is known after 10 labels that are not all equal;
errors of more than two deviations of the labels count as two. The interval is a confidence sequence
(core.metrics.confidence_sequence) of the mean of D, which holds at all rows at once. It needs d = D / C in [-1, 1].
For classes C is 1. For numbers C = 2^k b_0 is the least one that no b has exceeded so far, with k >= 0 and b_0 the b of
the first compared row: there is a sequence for each k, of D clipped to [-C, C], and with the share 1 / ((k + 1)(k + 2))
of alpha all of them hold simultaneously. When C grows, the sums are rescaled. Its

    V = max( sum of d^2,  n / L times the variance of the sums of d over batches of L rows, L = 32, 256, 1024 )

is the sum of squares if rows are practically independent; if differences keep their sign for a while, as in streams
that drift, the sums of batches vary more and widen the interval. Numbers are shown in units of the loss: costs times
max c. Clipping hides the cost of a few bad rows, so the unclipped mean of e1^2 - e2^2 is kept as well: while it is
below 0, ``favours_second`` is not true. The first 20 labels do not count in it, because predictions are not held to
the range of the labels yet.
"""

import math

import numpy as np
from numba import njit

from core.contract import NUMBERS_IN, Floats, Header
from core.metrics.confidence_sequence import ALPHA, exceeds, load, radius
from core.metrics.regression import ERROR_MAX
from core.state.layout import NOT_NEGATIVE, WHOLE, Array, Holder, Layout

BOUND = 4.0  # cap on squared errors, in variances of the labels
SCALE_ROWS = 10  # number of labels of a regression before its first difference
GAIN_ROWS = 20  # number of labels of a regression before errors count without a bound
BATCHES = (32, 256, 1024)  # rows of the batches whose sums widen the interval
BATCHES_MIN = 3  # least number of batches before their sums are used
ROWS_MIN = 1000  # rows compared before any conclusion: fewer do not show how long differences keep their sign
NO_NUMBERS = np.empty(0)  # the labels of a classification, which are not needed

_ROWS, _SUM, _SQUARES, _LABELS, _MEAN, _VAR, _BATCHES = 0, 1, 2, 3, 4, 5, 6
_GAIN = _BATCHES + 2 * len(BATCHES)
_FIRST, _UNIT = _GAIN + 1, _GAIN + 2  # b_0 and C of a regression; 0 before its first compared row
_SCALARS = _GAIN + 3


@njit(cache=True)
def _fit(s: Floats, bound: float) -> None:
    """Make C at least b; powers of 2 rescale without rounding."""
    if s[_UNIT] == 0.0:
        s[_FIRST] = s[_UNIT] = bound
    while s[_UNIT] < bound:
        s[_UNIT] *= 2.0
        s[_SUM] *= 0.5
        s[_SQUARES] *= 0.25
        for k in range(len(BATCHES)):
            s[_BATCHES + 2 * k] *= 0.5
            s[_BATCHES + 2 * k + 1] *= 0.25


@njit(f"void({NUMBERS_IN}, {NUMBERS_IN}, {NUMBERS_IN}, f8[::1])", cache=True)
def _absorb(first: Floats, second: Floats, truth: Floats, s: Floats) -> None:
    """Compare the losses (n,) of two learners, row by row; NaN if one of them made no prediction."""
    for i in range(first.shape[0]):
        bound = 1.0
        if truth.shape[0]:
            bound = BOUND * s[_VAR] if s[_LABELS] >= SCALE_ROWS else 0.0
            level = min(max(truth[i], -ERROR_MAX), ERROR_MAX)
            s[_LABELS] += 1.0
            before = level - s[_MEAN]
            s[_MEAN] += before / s[_LABELS]
            s[_VAR] += (max(before * (level - s[_MEAN]), 0.0) - s[_VAR]) / s[_LABELS]
        if bound == 0.0 or np.isnan(first[i]) or np.isnan(second[i]):
            continue
        d = min(first[i], bound) - min(second[i], bound)
        if truth.shape[0]:
            _fit(s, bound)
            d /= s[_UNIT]
        s[_ROWS] += 1.0
        s[_SUM] += d
        s[_SQUARES] += d * d
        if truth.shape[0] == 0 or s[_LABELS] > GAIN_ROWS:
            s[_GAIN] += (first[i] - second[i] - s[_GAIN]) / s[_ROWS]  # a mean: sums of capped errors may overflow
        for k in range(len(BATCHES)):
            at = _BATCHES + 2 * k
            s[at] += d
            if s[_ROWS] % BATCHES[k] == 0.0:
                s[at + 1] += s[at] * s[at]
                s[at] = 0.0


class PairedDifference(Holder):
    """The difference of two learners' losses, a state machine over the rows that both predicted."""

    layout = Layout(
        scalars=Array(
            _SCALARS,
            within=1e302,
            places={
                (_ROWS, _LABELS): WHOLE,
                (_SQUARES, _VAR, *range(_BATCHES + 1, _GAIN, 2), _FIRST, _UNIT): NOT_NEGATIVE,
            },
        )
    )

    def __init__(self) -> None:
        self.scalars = np.zeros(_SCALARS)
        load()  # now, not at the first comparison

    def absorb(self, first: Floats, second: Floats, truth: Floats = NO_NUMBERS) -> None:
        """Compare n rows in order. A block leaves the same bits as its rows one at a time.

        ``first`` and ``second`` are the losses (n,) of both learners, 0 to 1 or squared errors, NaN without a
        prediction; ``truth``: (n,) the true numbers, (0,) for a classification.
        """
        _absorb(first, second, truth, self.scalars)

    @property
    def rows(self) -> int:
        """Rows on which the two were compared."""
        return int(self.scalars[_ROWS])

    @property
    def _spread(self) -> float:
        """V."""
        return max(float(self.scalars[_SQUARES]), *(self._batched(k, rows) for k, rows in enumerate(BATCHES)))

    def _batched(self, k: int, rows: int) -> float:
        """V estimated from the sums over batches of this many rows; 0 before there are enough."""
        s, at, batches = self.scalars, _BATCHES + 2 * k, self.rows // rows
        if batches < BATCHES_MIN:
            return 0.0
        closed = s[_SUM] - s[at]
        deviations = max(s[at + 1] - closed * closed / batches, 0.0)
        return float(self.rows / rows * deviations / (batches - 1))

    def _sequences(self, of: int) -> float:
        """1 over the share of alpha of the sequence in use."""
        first, unit = self.scalars[[_FIRST, _UNIT]].tolist()
        if not (self.scalars[_LABELS] and first and unit):
            return of
        k = round(math.log2(unit) - math.log2(first))
        return of * 0.5 * (k + 1) * (k + 2)

    def favours_second(self, of: int = 1) -> bool:
        """Whether the second learner is better after enough rows, not by chance; ``of`` simultaneous differences."""
        s = self.scalars
        if self.rows < ROWS_MIN or s[_GAIN] < 0.0:
            return False
        return exceeds(float(s[_SUM]), self._spread, self._sequences(of))

    def interval(self, of: int = 1) -> tuple[float, float]:
        """The interval of the mean of D; ``of`` as in ``favours_second``."""
        n, total, reach = max(self.rows, 1), float(self.scalars[_SUM]), radius(self._spread, self._sequences(of))
        return self._unit * max(-1.0, (total - reach) / n), self._unit * min(1.0, (total + reach) / n)

    @property
    def _unit(self) -> float:
        """C."""
        return float(self.scalars[_UNIT]) if self.scalars[_LABELS] else 1.0

    def report(self, of: int = 1, unit: float = 1.0) -> Header:
        """Mean and interval in the ``unit`` of the loss, None before the first row; regressions also report b."""
        found: Header = {"mean": None, "low": None, "high": None, "confidence": 1.0 - ALPHA / of, "rows": self.rows}
        if self.scalars[_LABELS]:
            unit, found["bound"] = 1.0, BOUND * float(self.scalars[_VAR])
        if self.rows:
            found["mean"] = unit * self._unit * (float(self.scalars[_SUM]) / self.rows)
            found["low"], found["high"] = (unit * end for end in self.interval(of))
        return found
