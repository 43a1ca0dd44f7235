r"""Intervals around the predictions of a regression, by adaptive conformal inference on the latest residuals.

With r_1 ... r_n the residuals (label minus prediction) of the last n <= 250 rows, each of a prediction made before its
row was learned,

    interval = [prediction + min(q(a/2), 0), prediction + max(q(1 - a/2), 0)]          q: order statistics of the r_i

For a level of 1 - t the share a begins at t. Then it follows what the rows show, by DtACI: experts k = 1 ... K with
steps gamma_k; beta is the least share with which the interval would have missed the row;

    a       = c + sum_k w_k a_k, within [0, 1]                         in use
    w_k    <- w_k exp(-eta l_k), normalised                            l_k = t (beta - a_k) - min(0, beta - a_k)
    w_k    <- (1 - sigma) w_k + sigma/K
    a_k    <- a_k + gamma_k (t - 1[a_k >= beta]), within [0, 1]
    c      <- c + gamma_0 (t - 1[outside]), within [-1/2, 1/2]

The weights choose how fast a moves. The mean of the experts may miss more or fewer rows than each of them does, and a
ring of residuals has a largest one; c is ACI itself, for the a in use. One side of an interval may be wider: a model
that lags behind has errors of one sign. It holds its prediction, and an interval of a higher level holds that of a
lower one. Five levels adapt; the a of the others lie between theirs.

Source: Gibbs, Candes: Adaptive Conformal Inference Under Distribution Shift, NeurIPS 2021 (ACI); Conformal Inference
for Online Prediction with Arbitrary Distribution Shifts, JMLR 25(162), 2024 (Algorithm 1: DtACI, its eta and sigma).

Departures
- An a below 2/(n + 1) would ask for an infinite interval; the largest residuals of the ring are used. There is no
  interval of a level before its tails have a quantile: t (n + 1) >= 2.
- The experts' mean is used instead of a drawn expert, so that the same log gives the same intervals; c is not in DtACI.
- A tracked row's residual is that of the prediction that was served, and its coverage that of the intervals served
  with it; but a learns from it as it stands when the label comes. Many late misses of one change would otherwise each
  widen the intervals again.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.contract import LEVELS, Floats, Header, IntervalBounds
from core.metrics import interval_kernels as at
from core.metrics.prequential import WINDOW, capacity, check_capacity, grown
from core.state.layout import NOT_NEGATIVE, ROWS_MAX, WHOLE, Array, Counts, Holder, Layout, Range, Shares

_BITS = Range(0.0, 4.0 ** len(LEVELS) - 1.0, whole=True)
_NONE_TRACKED = np.empty((0, len(LEVELS), 2))
_LEVELS = np.array(LEVELS)


class Intervals(Holder):
    """The intervals of a regression, a state machine over its scored rows.

    State:
        alphas (L, K)   a_k of every level
        weights (L, K)  w_k
        levels (L, 5)   c; rows with an interval, and covered by it; both again with weights that fade
        residuals (n,)  of the last 250 rows, a ring
        bits (m,)       of the last 1000 rows, a ring: the levels that had an interval, and those that covered the row
    """

    layout = Layout(
        {
            "alphas": Array(len(LEVELS), len(at.STEPS), within=Range(0.0, 1.0)),
            "weights": Shares(len(LEVELS), len(at.STEPS)),
            "levels": Array(
                len(LEVELS),
                at.LEVEL_COLUMNS,
                places={
                    at.SHIFT: Range(-at.SHIFT_MAX, at.SHIFT_MAX),
                    **dict.fromkeys((at.OFFERED, at.COVERED), WHOLE),
                    **dict.fromkeys((at.FADING_OFFERED, at.FADING_COVERED), NOT_NEGATIVE),
                },
                ordered=[(at.COVERED, at.OFFERED), (at.FADING_COVERED, at.FADING_OFFERED)],
            ),
            "residuals": Array("residuals"),
            "bits": Array("rows", within=_BITS),
        }
    )

    def __init__(self) -> None:
        self.rows = 0
        self.alphas = np.repeat(1.0 - _LEVELS, len(at.STEPS)).reshape(len(LEVELS), len(at.STEPS))
        self.weights = np.full(self.alphas.shape, 1.0 / len(at.STEPS))
        self.levels = np.zeros((len(LEVELS), at.LEVEL_COLUMNS))
        self.residuals, self.bits = np.zeros(capacity(0, at.RING)), np.zeros(capacity(0, WINDOW))
        self._ordered = np.zeros(len(self.residuals))

    def absorb(self, predicted: Floats, truth: Floats, served: Floats | None = None) -> None:
        """Score n rows in order, and learn their residuals. A block leaves the same bits as its rows one at a time.

        Args:
            predicted: float64 (n,), the predictions that are scored, all finite.
            truth: float64 (n,), the numbers that came, all finite.
            served: (n, L, 2) the intervals of tracked rows, see ``returned_bounds``; None: none was tracked.

        Raises:
            ValueError: a number is not finite; nothing changed.
        """
        after, ordered, residuals, bits = self.rows + len(truth), self._ordered, self.residuals, self.bits
        if len(bits) < after and len(bits) < WINDOW:
            ordered, residuals = grown(ordered, after, at.RING), grown(residuals, after, at.RING)
            bits = grown(bits, after, WINDOW)
        returned, adaptive = _NONE_TRACKED if served is None else served, (self.alphas, self.weights, self.levels)
        if not at.absorb(predicted, truth, returned, self.rows, *adaptive, ordered, residuals, bits):
            raise ValueError("a number is not finite")
        self.residuals, self.bits, self._ordered, self.rows = residuals, bits, ordered, after

    def bounds(self, predicted: Floats, levels: Floats) -> Floats:
        """The intervals of some levels (m,) around predictions (n,): (n, m, 2), low and high, finite; NaN: none yet."""
        state = self.alphas, self.weights, self.levels, self._ordered, min(self.rows, at.RING)
        found: Floats = at.bounds(predicted, levels, *state)
        return found

    def around(self, predicted: Floats, level: float) -> Floats | None:
        """The intervals (n, 2) of a level, above 0 and at most ``LEVEL_MAX``, as of ``bounds``; None: none yet."""
        if self.rows < at.rows_needed(level):
            return None
        return np.ascontiguousarray(self.bounds(predicted, np.array([level]))[:, 0])

    def served(self, predicted: float) -> IntervalBounds:
        """The intervals of all ``LEVELS`` around one prediction, as they are kept with it until its label comes."""
        (found,) = self.bounds(np.array([predicted]), _LEVELS).tolist()
        return tuple(None if math.isnan(low) else (low, high) for low, high in found)

    def spans(self) -> tuple[Header, Header, Header]:
        """The share of rows that each level covered: overall, in the window, fading; None where it had no interval."""
        flags = self.bits[: min(self.rows, WINDOW)].astype(np.int64)[:, None] >> np.arange(2 * len(LEVELS)) & 1
        offered, covered = np.split(flags.sum(axis=0), 2)
        known = self.levels.T
        return (
            _shares(known[at.OFFERED], known[at.COVERED]),
            _shares(offered, covered),
            _shares(known[at.FADING_OFFERED], known[at.FADING_COVERED]),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of memory the arrays hold."""
        return super().nbytes + self._ordered.nbytes

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state of ``to_arrays``; see ``Holder``."""
        super().load_arrays(arrays, header)
        n = min(self.rows, at.RING)
        self._ordered = np.zeros(len(self.residuals))
        self._ordered[:n] = np.sort(self.residuals[:n])

    def _counts(self) -> Counts:
        return {"rows": ROWS_MAX}

    def _check(self, held: Mapping[str, Floats], found: Counts) -> None:
        check_capacity("residuals", held["residuals"], found["rows"], at.RING)
        check_capacity("bits", held["bits"], found["rows"], WINDOW)


def returned_bounds(served: Sequence[IntervalBounds | None]) -> Floats:
    """What ``Intervals.absorb`` takes of rows some of which were tracked: (n, L, 2).

    Args:
        served: the intervals that each row was served with; None: none; (): it was not tracked.
    """
    returned = np.full((len(served), len(LEVELS), 2), np.nan)
    for row, given in enumerate(served):
        if given == ():
            returned[row, 0, 0] = at.NOT_TRACKED
        for j, bounds in enumerate(given or ()):
            if bounds is not None:
                returned[row, j] = bounds
    return returned


def _shares(offered: NDArray[Any], covered: NDArray[Any]) -> Header:
    """Shares by level, as JSON has them."""
    pairs = zip(LEVELS, offered.tolist(), covered.tolist(), strict=True)
    return {f"{level:g}": hits / rows if rows else None for level, rows, hits in pairs}
