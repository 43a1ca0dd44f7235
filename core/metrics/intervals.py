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
    c      <- c + gamma_0 (t - 1[outside]), within [-1/2, 1/2]; c rests while it would carry a, before a is cut off
              to [0, 1], further away from [-1/20, 21/20]

The weights choose how fast a moves. The mean of the experts may miss more or fewer rows than each of them does, and a
ring of residuals has a largest one; c is ACI itself, for the a in use. After a quiet time that every interval covers
(a machine is off), c must not have gone so far that it takes long to return; it goes a little beyond, as coverage of
errors that persist needs it. One side of an interval may be wider: a model that lags behind has errors of one sign. An
interval contains its prediction, and that of a higher level contains that of a lower one. Five levels adapt; the a of
other levels is interpolated.

Source: Gibbs, Candes: Adaptive Conformal Inference Under Distribution Shift, NeurIPS 2021 (ACI); Conformal Inference
for Online Prediction with Arbitrary Distribution Shifts, JMLR 25(162), 2024 (Algorithm 1: DtACI, its eta and sigma).

Departures
- An a below 2/(n + 1) would ask for an infinite interval; the largest residuals of the ring are used. A level has
  no interval until its tails have a quantile: t (n + 1) >= 2.
- The experts' mean is used instead of a drawn expert, so that the same log gives the same intervals; c is not in DtACI.
- A tracked row's residual is that of the prediction that was served, and its coverage that of the intervals served
  with it. The a_k and c are judged by the intervals of the moment when the label arrives. The served ones were made
  from older residuals and would cover less. So the ends l <= 0 <= h of a level, relative to the prediction, become s l
  and s h; for s > 1 l - e and h + e with e = (s - 1)(h - l)/2, as errors may have changed sides. ACI moves s:

    log s  <- log s + min(1/100, 1/d) (1[the served interval missed] - t), within [-1/2, 2]    for a label d rows late

  Each of the late misses of one change widens the intervals again, so d rows that are all d late widen them at most
  e-fold; the rows of one batch are late by 1 to d, and may widen them more. Near its level, coverage of normal errors
  grows by .45 or less with log s; such a loop is stable up to 1.57, and up to .37 it does not even overshoot. Rows that
  are not late bring s back to 1 by steps of 1/20, where it began, and leave it there. The s of a level is at least that
  of a lower one.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numba import njit

from core.contract import LEVELS, NUMBERS_IN, Floats, Header, IntervalBounds
from core.numerics.rows import capacity, grown, within
from core.state.layout import LARGEST, NOT_NEGATIVE, ROWS_MAX, WHOLE, Array, Counts, Holder, Layout, Range, Shares

RING: Final = 250  # residuals kept
STEPS: Final = (0.002, 0.008, 0.032, 0.128)  # step sizes gamma_k of the experts of each level
ETA: Final = 2.72  # how fast the experts' weights follow their losses
SHARE: Final = 0.001  # sigma: the share of their weights that the experts of a level exchange at every row
SHIFT_STEP: Final = 0.002  # Gamma_0, the step of the shift c; its bound is ``SHIFT_MAX``
SHIFT_MAX: Final = 0.5
BEYOND: Final = 0.05  # how far c may carry a beyond 0 or 1, where a is cut off: c must return as far
STRETCH_STEP: Final = 0.01  # the largest step of log s; without changes, s then varies by a twentieth or less
RETURN_STEP: Final = 0.05  # the step of log s on its way back to 0, which nothing shakes any more
STRETCH_MIN: Final = -0.5  # after a quiet time, log s returns to 0 after 50/level misses
STRETCH_MAX: Final = 2.0
LATE: Final = 1.0  # the largest product of the step of log s and the number of rows by which a label came late
NOT_TRACKED: Final = math.inf
"""Replaces the first returned bound of a row that was not tracked: its intervals are the current ones."""
# What is known of each level: c; rows with an interval, rows that it covered, both with fading weights; log s.
SHIFT, OFFERED, COVERED, FADING_OFFERED, FADING_COVERED, STRETCH = 0, 1, 2, 3, 4, 5
LEVEL_COLUMNS: Final = 6

_STATE = "f8[:,::1], f8[:,::1], f8[:,::1], f8[::1]"
_RETURNED = "Array(f8, 3, 'C', readonly=True)"
ResidualArrays = tuple[Floats, Floats, Floats, Floats, Floats, Floats]
NONE_TRACKED = np.empty((0, len(LEVELS), 2))  # the intervals of tracked rows, if there are none
_LEVELS = np.array(LEVELS)
_STEPS = np.array(STEPS)


@njit("i8(f8)", cache=True)
def rows_needed(level: float) -> int:
    """The number of residuals from which both tails of a level have a quantile: (1 - level) (n + 1) / 2 >= 1."""
    return math.ceil(2.0 / (1.0 - level) - 1.0 - 1e-9)


@njit(cache=True)
def _nested(alphas: Floats, weights: Floats, levels: Floats, out: Floats) -> None:
    """The a, none larger than that of a lower level, and log s, none smaller, in use (2, L): intervals are nested."""
    for j in range(_LEVELS.shape[0]):
        a = levels[j, SHIFT]
        for k in range(_STEPS.shape[0]):
            a += weights[j, k] * alphas[j, k]
        out[0, j] = min(max(a, 0.0), 1.0 if j == 0 else out[0, j - 1])
        out[1, j] = max(levels[j, STRETCH], STRETCH_MIN if j == 0 else out[1, j - 1])


@njit(cache=True)
def _tails(ordered: Floats, n: int, a: float) -> tuple[float, float]:
    """The residual with a share of a/2 below it, at most 0, and the one with as much above it, at least 0."""
    place = min(max(math.floor((n + 1) * 0.5 * a), 1), n)
    return min(ordered[place - 1], 0.0), max(ordered[n - place], 0.0)


@njit(cache=True)
def _stretched(below: float, above: float, log_s: float) -> tuple[float, float]:
    """The ends of an interval, relative to the prediction, if it is s times as wide."""
    if log_s == 0.0:
        return below, above
    s = math.exp(log_s)
    if s <= 1.0:
        return s * below, s * above
    more = (s - 1.0) * (0.5 * above - 0.5 * below)
    return below - more, above + more


@njit(cache=True)
def _between(nested: Floats, first: float, level: float) -> float:
    """The a or log s of any level: linear between those that adapt, from the first at level 0."""
    below, found = 0.0, first
    for j in range(_LEVELS.shape[0]):
        following: float = nested[j]
        if level < _LEVELS[j]:
            found += (level - below) / (_LEVELS[j] - below) * (following - found)
            break
        below, found = _LEVELS[j], following
        if level == below:
            break
    return found


@njit(f"f8[:,:,::1]({NUMBERS_IN}, {NUMBERS_IN}, {_STATE}, i8)", cache=True)
def _bounds(
    predicted: Floats, wanted: Floats, alphas: Floats, weights: Floats, levels: Floats, ordered: Floats, n: int
) -> Floats:
    """Intervals of some levels (m,) around predictions (p,): (p, m, 2), low and high; NaN: too few residuals."""
    nested = np.empty((2, _LEVELS.shape[0]))
    _nested(alphas, weights, levels, nested)
    out = np.full((predicted.shape[0], wanted.shape[0], 2), np.nan)
    for j in range(wanted.shape[0]):
        if n >= rows_needed(wanted[j]):
            low, high = _tails(ordered, n, _between(nested[0], 1.0, wanted[j]))
            low, high = _stretched(low, high, _between(nested[1], nested[1, 0], wanted[j]))
            for i in range(predicted.shape[0]):
                out[i, j, 0], out[i, j, 1] = within(predicted[i] + low, LARGEST), within(predicted[i] + high, LARGEST)
    return out


@njit(cache=True)
def _adapt(alphas: Floats, weights: Floats, levels: Floats, j: int, beta: float, outside: bool) -> None:
    """Adapt a level to a row that every a below beta would have covered; ``outside``: its interval missed the row."""
    target, total, uncut = 1.0 - _LEVELS[j], 0.0, levels[j, SHIFT]
    for k in range(_STEPS.shape[0]):
        uncut += weights[j, k] * alphas[j, k]
        spare = beta - alphas[j, k]
        weights[j, k] *= math.exp(-ETA * (target * spare - min(spare, 0.0)))
        total += weights[j, k]
        missed = 1.0 if spare <= 0.0 else 0.0
        alphas[j, k] = min(max(alphas[j, k] + _STEPS[k] * (target - missed), 0.0), 1.0)
    for k in range(_STEPS.shape[0]):
        weights[j, k] = (1.0 - SHARE) * weights[j, k] / total + SHARE / _STEPS.shape[0]
    if uncut >= -BEYOND if outside else uncut <= 1.0 + BEYOND:
        moved = levels[j, SHIFT] + SHIFT_STEP * (target - (1.0 if outside else 0.0))
        levels[j, SHIFT] = min(max(moved, -SHIFT_MAX), SHIFT_MAX)


@njit(cache=True)
def _stretch(levels: Floats, j: int, missed: float, late: float) -> None:
    """Adapt s to a row whose label came late, or not (0)."""
    before = levels[j, STRETCH]
    if late == 0.0 and before == 0.0:
        return
    step = RETURN_STEP if late == 0.0 else min(STRETCH_STEP, LATE / late)
    after = before + step * (missed - (1.0 - _LEVELS[j]))
    if late == 0.0 and before * after <= 0.0:
        after = 0.0
    levels[j, STRETCH] = min(max(after, STRETCH_MIN), STRETCH_MAX)


@njit(cache=True)
def _insert(ordered: Floats, n: int, out: float, value: float) -> None:
    """Insert a number into the first n, which are in ascending order; if the ring is full, it replaces ``out``."""
    full = n == RING
    free = np.searchsorted(ordered[:n], out) if full else n
    while free > 0 and ordered[free - 1] > value:
        ordered[free] = ordered[free - 1]
        free -= 1
    while full and free < n - 1 and ordered[free + 1] < value:
        ordered[free] = ordered[free + 1]
        free += 1
    ordered[free] = value


@njit(f"b1({NUMBERS_IN}, {NUMBERS_IN}, {_RETURNED}, {NUMBERS_IN}, i8, {_STATE}, f8[::1], f8[::1], f8)", cache=True)
def absorb_residuals(
    predicted: Floats, truth: Floats, served: Floats, since: Floats, rows: int, alphas: Floats, weights: Floats,
    levels: Floats, ordered: Floats, residuals: Floats, bits: Floats, fading: float,
) -> bool:  # fmt: skip
    """Score and learn rows one by one; False, with nothing changed, if a number is not finite."""
    for i in range(truth.shape[0]):
        if not (math.isfinite(truth[i]) and math.isfinite(predicted[i])):
            return False
    L = _LEVELS.shape[0]
    nested = np.empty((2, L))
    for i in range(truth.shape[0]):
        n, value, label = min(rows + i, RING), predicted[i], truth[i]
        residual = within(label - value, LARGEST) + 0.0
        beyond = np.searchsorted(ordered[:n], residual)
        if residual <= 0.0:
            larger = n - np.searchsorted(ordered[:n], residual, side="right")
            beyond = larger if residual < 0.0 else min(larger, beyond)
        beta = 2.0 - 2.0 * beyond / (n + 1)
        _nested(alphas, weights, levels, nested)
        tracked = served.shape[0] > 0 and served[i, 0, 0] != NOT_TRACKED
        flags = 0
        for j in range(L):
            enough = n >= rows_needed(_LEVELS[j])
            low = high = np.nan
            if enough:
                below, above = _tails(ordered, n, nested[0, j])
                _adapt(alphas, weights, levels, j, beta, residual < below or residual > above)
                below, above = _stretched(below, above, nested[1, j])
                low, high = within(value + below, LARGEST), within(value + above, LARGEST)
            if tracked:
                low, high = served[i, j, 0], served[i, j, 1]
            has, covered = 0 if math.isnan(low) else 1, 1 if low <= label <= high else 0
            late = rows + i - since[i] if tracked else 0.0
            if has and late >= 0.0:  # how late a row is may be unknown; after a reset, it may even be below 0
                _stretch(levels, j, 1.0 - covered, late)
            levels[j, OFFERED] += has
            levels[j, COVERED] += covered
            levels[j, FADING_OFFERED] = fading * levels[j, FADING_OFFERED] + has
            levels[j, FADING_COVERED] = fading * levels[j, FADING_COVERED] + covered
            flags += (has << j) + (covered << (L + j))
        _insert(ordered, n, residuals[(rows + i) % RING], residual)
        residuals[(rows + i) % RING], bits[(rows + i) % bits.shape[0]] = residual, flags
    return True


class Intervals(Holder):
    """The intervals of a regression, a state machine over its scored rows."""

    layout = Layout(
        alphas=Array(len(LEVELS), len(STEPS), within=Range(0.0, 1.0)),
        weights=Shares(len(LEVELS), len(STEPS)),
        levels=Array(
            len(LEVELS),
            LEVEL_COLUMNS,
            places={
                SHIFT: Range(-SHIFT_MAX, SHIFT_MAX),
                STRETCH: Range(STRETCH_MIN, STRETCH_MAX),
                (OFFERED, COVERED): WHOLE,
                (FADING_OFFERED, FADING_COVERED): NOT_NEGATIVE,
            },
            ordered=[(COVERED, OFFERED), (FADING_COVERED, FADING_OFFERED)],
        ),
        residuals=Array("residuals"),
        bits=Array("rows", within=Range(0.0, 4.0 ** len(LEVELS) - 1.0, whole=True)),
    )
    counts: Mapping[str, int] = {"rows": ROWS_MAX}

    def __init__(self, window: int, fading: float) -> None:
        self.rows, self.window, self.fading = 0, window, fading
        self.alphas = np.repeat(1.0 - _LEVELS[:, None], len(STEPS), axis=1)  # (L, K) a_k of every level
        self.weights = np.full(self.alphas.shape, 1.0 / len(STEPS))
        self.levels = np.zeros((len(LEVELS), LEVEL_COLUMNS))
        self.residuals = np.zeros(capacity(0, RING))  # of the last 250 rows, a ring
        self.bits = np.zeros(capacity(0, window))  # of the window: levels with an interval, and those that covered
        self._ordered = np.zeros(len(self.residuals))

    def absorb(
        self, predicted: Floats, truth: Floats, served: Floats = NONE_TRACKED, since: Floats | None = None
    ) -> None:
        """Score n rows in order, and learn their residuals. A block leaves the same bits as its rows one at a time.

        Predictions and numbers are (n,). ``served``: (n, L, 2) the intervals of tracked rows, see ``returned_bounds``,
        and ``since`` (n,) the ``rows`` at that moment, NaN (None: all) if unknown; by default, none was tracked. Raises
        ``ValueError`` if a number is not finite; nothing changes then.
        """
        arrays, since = self.arrays(len(truth)), np.full(len(served), np.nan) if since is None else since
        if not absorb_residuals(predicted, truth, served, since, self.rows, *arrays, self.fading):
            raise ValueError("a number is not finite")
        self.counted(arrays, len(truth))

    def arrays(self, more: int) -> ResidualArrays:
        """The arrays in which ``absorb_residuals`` learns rows, with room for ``more`` rows."""
        ordered, residuals, bits, after = self._ordered, self.residuals, self.bits, self.rows + more
        if len(bits) < self.window or len(residuals) < RING:
            ordered, residuals = grown(ordered, after, RING), grown(residuals, after, RING)
            bits = grown(bits, after, self.window)
        return self.alphas, self.weights, self.levels, ordered, residuals, bits

    def counted(self, arrays: ResidualArrays, rows: int) -> None:
        """Continue with ``arrays``, in which this many more rows are learned."""
        _, _, _, self._ordered, self.residuals, self.bits = arrays
        self.rows += rows

    def bounds(self, predicted: Floats, levels: Floats) -> Floats:
        """The intervals of some levels (m,) around predictions (n,): (n, m, 2), low and high, finite; NaN: none yet."""
        adaptive = self.alphas, self.weights, self.levels
        return np.asarray(_bounds(predicted, levels, *adaptive, self._ordered, min(self.rows, RING)))

    def around(self, predicted: Floats, level: float) -> Floats | None:
        """The intervals (n, 2) of a level, above 0 and at most ``LEVEL_MAX``, as in ``bounds``; None: none yet."""
        if self.rows < rows_needed(level):
            return None
        return np.ascontiguousarray(self.bounds(predicted, np.array([level]))[:, 0])

    def served(self, predicted: float) -> IntervalBounds:
        """The intervals of all ``LEVELS`` around one prediction, to keep with it until its label arrives."""
        (found,) = self.bounds(np.array([predicted]), _LEVELS).tolist()
        return tuple(None if math.isnan(low) else (low, high) for low, high in found)

    def spans(self) -> list[Header]:
        """The share of rows that each level covered: overall, in the window, fading; None if it had no interval."""
        flags = self.bits[: min(self.rows, self.window)].astype(np.int64)[:, None] >> np.arange(2 * len(LEVELS)) & 1
        overall, fading = self.levels.T[[OFFERED, COVERED]], self.levels.T[[FADING_OFFERED, FADING_COVERED]]
        return [
            {f"{level:g}": covered / rows if rows else None for level, rows, covered in zip(LEVELS, *span, strict=True)}
            for span in (overall.tolist(), flags.sum(axis=0).reshape(2, -1).tolist(), fading.tolist())
        ]

    @property
    def nbytes(self) -> int:
        """Bytes of memory the arrays hold."""
        return super().nbytes + self._ordered.nbytes

    def _loaded(self) -> None:
        n = min(self.rows, RING)
        self._ordered = np.zeros(len(self.residuals))
        self._ordered[:n] = np.sort(self.residuals[:n])

    def _sizes(self, found: Counts) -> Counts:
        return {"residuals": capacity(found["rows"], RING), "rows": capacity(found["rows"], self.window)}


def returned_bounds(served: Sequence[IntervalBounds | None]) -> Floats:
    """The argument ``served`` of ``Intervals.absorb``, (n, L, 2), for rows some of which were tracked.

    Made from the intervals that each row was served with; None: it had none; (): it was not tracked.
    """
    returned = np.full((len(served), len(LEVELS), 2), np.nan)
    for row, given in enumerate(served):
        if given == ():
            returned[row, 0, 0] = NOT_TRACKED
        elif given is not None:
            returned[row] = [(math.nan, math.nan) if bounds is None else bounds for bounds in given]
    return returned
