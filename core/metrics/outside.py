r"""How a model outside Onepass does on the rows for which it made a prediction: the baseline ``served``.

In each of the three spans of the metrics (core.metrics.prequential) a row that it predicted counts with its loss: 0/1
for classes, e^2 and |e| for numbers. On the same rows its loss is compared with the model's (core.metrics.difference):
served minus model, so that above 0 the model is better. The interval is checked at every row number divisible by 100;
while it lies on one side of 0, that side counts as ahead.
"""

from typing import Any, ClassVar

import numpy as np

from core.contract import Floats, Header, chunks
from core.metrics.difference import NO_NUMBERS, PairedDifference
from core.metrics.prequential import number
from core.metrics.regression import ERROR_MAX
from core.numerics.rows import capacity, grown
from core.state.envelope import Nested
from core.state.layout import NOT_NEGATIVE, WHOLE, Array, Counts, Holder, Layout, Range

LOOK_EVERY, COMPARED_MIN = 100, 200  # rows between two checks of the interval, and rows compared before one is ahead
FADED_MIN = 1e-290  # smaller fading sums become 0: rounding would stop their fading and spoil the means
ROWS, SCORED, FADED, AHEAD, SINCE, SUMS = range(6)
_SCALARS = SUMS + 4


class _Losses(Holder):
    """Sums over all rows, and the losses of the window.

    State:
        scalars  rows; rows predicted, counted and fading; who is ahead (1 the model, -1 served) and since which row;
                 means of the two losses, and fading sums
        ring     the losses of the last rows, (rows, 2), NaN if there was no prediction
    """

    layout: ClassVar = Layout(
        scalars=Array(
            _SCALARS,
            places={
                (ROWS, SCORED, SINCE): WHOLE,
                AHEAD: Range(-1.0, 1.0, whole=True),
                (FADED, *range(SUMS, _SCALARS)): NOT_NEGATIVE,
            },
        ),
        ring=Array("ring", 2, within=Range(0.0, undefined=True)),
    )

    def __init__(self, window: int, fading: float) -> None:
        self._window, self._fading = window, fading
        self.scalars, self.ring = np.zeros(_SCALARS), np.full((capacity(0, window), 2), np.nan)

    def absorb(self, losses: Floats) -> None:
        """Add losses (n, 2), NaN for a row without a prediction."""
        s = self.scalars
        self.ring = grown(self.ring, int(s[ROWS]) + len(losses), self._window)
        for row in losses:
            self.ring[int(s[ROWS]) % self._window] = row
            s[ROWS] += 1.0
            s[FADED] *= self._fading
            s[SUMS + 2 :] *= self._fading
            if s[FADED] < FADED_MIN:
                s[FADED], s[SUMS + 2 :] = 0.0, 0.0
            if not np.isnan(row[0]):
                s[SCORED] += 1.0
                s[FADED] += 1.0
                s[SUMS : SUMS + 2] += (row - s[SUMS : SUMS + 2]) / s[SCORED]
                s[SUMS + 2 :] += row

    def means(self) -> dict[str, Floats]:
        """The mean losses of each span, NaN without a prediction."""
        s, window = self.scalars, self.ring[: int(min(self.scalars[ROWS], self._window))]
        window = window[~np.isnan(window[:, 0])]
        nothing = np.full(2, np.nan)
        return {
            "overall": s[SUMS : SUMS + 2].copy() if s[SCORED] else nothing,
            "window": window.mean(axis=0) if len(window) else nothing,
            "fading": s[SUMS + 2 :] / s[FADED] if s[FADED] else nothing,
        }

    def _check(self, held: Any, _found: Counts) -> None:
        if len(held["ring"]) != capacity(int(held["scalars"][ROWS]), self._window):
            raise ValueError("ring: its length does not match the number of rows")


class OutsideScores(Nested):
    """The scores of the outside model, a state machine over the model's rows since its first prediction.

    ``difference`` is served minus model, in the losses of the task.
    """

    def __init__(self, window: int, fading: float) -> None:
        self._losses, self.difference = _Losses(window, fading), PairedDifference()

    def absorb(
        self, losses: Floats, paired: tuple[Floats, Floats], truth: Floats = NO_NUMBERS, *, before: int = 0
    ) -> None:
        """Score n rows, which come after ``before`` rows of the model. A block leaves the bits of its rows.

        ``losses`` (n, 2) are those of the outside model, NaN without a prediction; ``paired`` has its losses and the
        model's, each (n,), as they are compared; ``truth`` (n,) the true numbers, (0,) for classes.
        """
        self._losses.absorb(losses)
        for part in chunks(before, LOOK_EVERY, len(losses)):
            first, second = (np.ascontiguousarray(own[part]) for own in paired)
            self.difference.absorb(first, second, truth[part] if len(truth) else truth)
            if (before + part.stop) % LOOK_EVERY == 0:
                self._look(before + part.stop)

    def _look(self, row: int) -> None:
        found, s = self.difference.report(), self._losses.scalars
        ahead = 0.0 if found["rows"] < COMPARED_MIN else float(found["low"] > 0.0) - float(found["high"] < 0.0)
        if ahead != s[AHEAD]:
            s[AHEAD], s[SINCE] = ahead, row if ahead else 0.0

    def compare_anew(self) -> None:
        """Restart the comparison, because the model or the losses are others now."""
        self.difference = PairedDifference()
        self._losses.scalars[[AHEAD, SINCE]] = 0.0

    def figures(self, regression: bool) -> dict[str, Header]:
        """The scores of each span, as baselines show them."""
        if regression:
            return {span: {"mse": number(m[0]), "mae": number(m[1])} for span, m in self._losses.means().items()}
        return {span: {"accuracy": number(1.0 - m[0])} for span, m in self._losses.means().items()}

    def report(self, unit: float = 1.0) -> Header:
        """Rows compared, the difference in units of the loss, and which of the two is better, since which row."""
        found, s = self.difference.report(1, unit), self._losses.scalars
        better = {1.0: "model", -1.0: "served"}.get(float(s[AHEAD]))
        rows, since = found.pop("rows"), int(s[SINCE]) if better else None
        return {"rows": rows, "difference": found, "better": better, "since": since}

    def parts(self) -> dict[str, Any]:
        """Losses and difference."""
        return {"losses": self._losses, "difference": self.difference}


def number_losses(predicted: Floats, truth: Floats) -> Floats:
    """e^2 and |e| of n numbers, (n, 2), each error capped; NaN if there is no prediction."""
    with np.errstate(over="ignore"):
        size = np.minimum(np.abs(predicted - truth), ERROR_MAX)
    return np.column_stack([size * size, size])
