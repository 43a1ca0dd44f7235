r"""The mixture of experts after a switch: their weights, and the prediction they make together.

With f_k the predictions of experts k = 1 ... E for the t-th row since the switch was completed, before it is learned:

    l_k = -ln p_k(y)                                    classification: p_k the expert's probabilities, at least 1e-6
    l_k = (f_k - y)^2 / (2 D)                           regression: D the mean squared error of the mixture so far,
                                                        D += r (error - D), r = max(1/t, .01), before its use
    v_k = a_k exp(-c l_k)                               (6), which is (5) row by row; (12); c the row's weight,
                                                        relative to a recent largest M (core.numerics.weighting)
    a_k <- d sum_j v_j / E + (1 - d) v_k, normalised    (12); d = min(1/2, 1/t): fixed share that needs no horizon
    a_k stays 0             in a regression, for an expert that starts at 0, up to the first row with (f_k - y)^2 <= D
    combined:  p = sum_k a_k p_k                        (4): probabilities, or numbers; a from before the row
    selected:  p = p_k with probability a_k             (11): by (seed, row); ``predict`` shows the likeliest expert

From row 20 on, numbers are clipped to [a - (b - a), b + (b - a)], with a and b the least and largest label since the
switch, and so is y in D, except for the loss of its own row; from row 3 on, these bound D, and a wild label widens them
once (core.features.label_range).

``variant: "paper"``, two experts and a horizon T: combined eta = sqrt(8 ln 2 / T), d = 0 (Theorem 1), and the experts'
margins are averaged, that is, the logarithms of their probabilities; selected d = 1/(T - 1),
eta = sqrt(8/T (2 ln 2 + (T - 1) H(d))), H the binary entropy (Theorem 3). Losses are -eta ln p_k(y), eta (f_k - y)^2.

Source: Hou, Zhang, Zhou: Learning With Feature Evolvable Streams, IEEE TKDE 33(6), 2021: (4) to (6), (8), (11), (12),
Theorems 1 to 3; Herbster, Warmuth: Tracking the best expert, Machine Learning 32, 1998.

Deviations
- Probabilities are mixed, not margins: Theorem 2 (a constant regret) is false for averaged margins of logistic loss
  with eta = 1, where the regret grows linearly, and true for mixed probabilities.
- The share 1/t in both forms instead of none and 1/(T - 1): it is as good, and needs no horizon.
- A new model that no labelled row has trained starts at 0, and may be off by any number: half the share of the first
  rows would spoil the mixture and D (measured on exact mappings: errors of the first 20 rows up to 1e6 times larger).
- Squared losses are measured in the mixture's own mean squared error. The theory's eta = 1/(2 (b - a)^2), for labels
  within [a, b], is slower to distinguish experts.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.contract import CLASSES, CUBE, NUMBERS_IN, TABLE, VECTOR, WEIGHT_MAX, Floats, Ints, Prediction
from core.features.label_range import error_max, widen
from core.numerics.rng import uniform
from core.numerics.weighting import bounded_square, deviation, fixed_share, relative, weigh_by_losses
from core.state.layout import NOT_NEGATIVE, ROWS_MAX, WHOLE, Array, Counts, Holder, Layout, Range, Shares

VOTE = 0.9  # probability of the predicted class if a learner has no probabilities; the others share the rest
_PURPOSE = "expert of a row"
PROBABILITY_MIN = 1e-6
ROWS, ERROR, LOW, HIGH, HEAVIEST = range(5)  # places in the counters
ANYTIME = -1.0  # a share of this value is min(1/2, 1/t)
SPAN_ROWS = 20.0

_ERROR_RATE = 0.01
_ERROR_MIN, _LOSS_MAX, _LABEL_MAX = 1e-300, 1e300, 1e299
_NO_DRAWS = np.empty(0)


@njit(cache=True, nogil=True)
def _choose(weights: Floats, u: float) -> int:
    """The expert that a draw u in [0, 1) falls on."""
    total = 0.0
    for k in range(weights.shape[0] - 1):
        total += weights[k]
        if u < total:
            return k
    return int(weights.shape[0] - 1)


@njit(cache=True, nogil=True, error_model="numpy")
def _move(losses: Floats, eta: float, share: float, t: float, waiting: int, weights: Floats) -> None:
    """Move the weights after the t-th row; that of expert ``waiting`` >= 0 stays 0. A single weight stays 1."""
    E = weights.shape[0]
    if E == 1:
        return
    total = weigh_by_losses(weights, losses, losses.min(), eta)
    for k in range(E):
        weights[k] /= total
    d = min(0.5, 1.0 / t) if share == ANYTIME else share
    fixed_share(weights, 1.0 - d, 1.0, d / E)
    if waiting >= 0:
        weights[waiting] = 0.0
        weights /= weights.sum()


@njit(cache=True, nogil=True, error_model="numpy")
def _follow(y: float, mixed: float, counters: Floats) -> float:
    """Add a row's number to the counters; returns the rate of losses 1 / (2 D)."""
    error = min(counters[ERROR], error_max(counters[LOW], counters[HIGH], counters[ROWS] - 1.0))
    label = min(max(y, -_LABEL_MAX), _LABEL_MAX)
    widen(counters[LOW:HEAVIEST], label, counters[ROWS] - 1.0)
    label = min(max(label, counters[LOW]), counters[HIGH])
    rate = max(1.0 / counters[ROWS], _ERROR_RATE)
    counters[ERROR] = error + rate * (bounded_square(mixed - label) - error)
    return float(0.5 / max(error + rate * (bounded_square(mixed - y) - error), _ERROR_MIN))


_READ, _STATE = f"{CUBE}, {TABLE}, {NUMBERS_IN}", f"{VECTOR}, {VECTOR}, {VECTOR}"
_MADE = f"{VECTOR}, {CLASSES}, {TABLE}, {VECTOR}"


@njit(f"void({_READ}, {NUMBERS_IN}, b1, {_STATE}, f8, f8, b1, {_MADE})", cache=True, nogil=True, error_model="numpy")
def mix_rows(
    P: Floats, S: Floats, y: Floats, row_weights: Floats, numbers: bool, weights: Floats, losses: Floats,
    counters: Floats, eta: float, share: float, geometric: bool, draws: Floats, chosen: Ints, out: Floats, std: Floats,
) -> None:  # fmt: skip
    """The mixture for n rows; if they have labels, each then moves the experts' weights.

    P (E, n, m), S (E, n)     probabilities, or numbers, which are clipped in place, with m = 1, and deviations
    y (n,), numbers           class indices or numbers, (0,): nothing is learned; whether they are numbers
    row_weights (n,)          the rows' weights; (0,): every row counts once
    weights, losses, counters of the mixture, updated
    eta, share                rate of the losses, 0 for numbers: 1 / (2 D); d, or ANYTIME
    geometric                 whether logarithms are mixed, as the paper's margins are
    draws (n,)                where one expert is selected per row; else (0,)
    chosen (n,)               the expert selected for each row, written where there are draws; -1: all are mixed
    out (n, m), std (n,)      written; without deviations S is (E, 0) and std (0,)
    """
    E, n, m = P.shape
    variances, row = np.empty(E), np.empty(E)
    for i in range(n):
        if draws.shape[0]:
            chosen[i] = _choose(weights, draws[i])
        if numbers and counters[ROWS] >= SPAN_ROWS:
            width = counters[HIGH] - counters[LOW]
            for k in range(E):
                P[k, i, 0] = min(max(P[k, i, 0], counters[LOW] - width), counters[HIGH] + width)
        total = mixed = 0.0
        for c in range(m):
            mixed = 0.0
            for k in range(E):
                mixed += weights[k] * (math.log(max(P[k, i, c], PROBABILITY_MIN)) if geometric else P[k, i, c])
            out[i, c] = math.exp(mixed) if geometric else mixed
            total += out[i, c]
        for c in range(m):
            out[i, c] = P[chosen[i], i, c] if chosen[i] >= 0 else out[i, c] / (total if geometric else 1.0)
        if std.shape[0]:
            for k in range(E):
                variances[k] = bounded_square(S[k, i])
            std[i] = deviation(weights, variances, P[:, i, 0], mixed) if chosen[i] < 0 else S[chosen[i], i]
        if not y.shape[0]:
            continue
        counters[ROWS] += 1.0
        for k in range(E):
            if numbers:
                row[k] = bounded_square(P[k, i, 0] - y[i])
            else:
                row[k] = -math.log(max(P[k, i, int(y[i])], PROBABILITY_MIN))
            losses[k] = min(max(losses[k] + row[k], 0.0), _LOSS_MAX)  # a probability may be rounded above 1
        rate, waiting = eta, -1
        if numbers:
            rate = _follow(y[i], mixed, counters)
            for k in range(E):
                if weights[k] == 0.0 and row[k] > counters[ERROR]:  # at most one expert starts at 0
                    waiting = k
        counts = relative(row_weights[i] if row_weights.shape[0] else 1.0, counters, HEAVIEST)
        _move(row, counts * (eta if eta > 0.0 else rate), share, counters[ROWS], waiting, weights)


class Mixture(Holder):
    """The weights of E experts, a state machine over their predictions.

    ``weights`` (E,) are the first a. ``selects``: for each row the prediction of one drawn expert is used, instead
    of a combination; the draws depend on ``seed`` and on the row's absolute number, ``first_row`` for the first one.
    ``horizon`` is T with the paper's rates, or None.

    State:
        weights (E,)   a, sum to one
        losses (E,)    sums of -ln p_k(y), or of squared errors: L_k of (5) and (8)
        counters (5,)  rows t, D, least and largest label, M
    """

    layout = Layout(
        weights=Shares("experts"),
        losses=Array("experts", within=NOT_NEGATIVE),
        tally=Array(
            5,
            places={ROWS: WHOLE, ERROR: NOT_NEGATIVE, HEAVIEST: Range(0.0, WEIGHT_MAX)},
            ordered=[(2, 3)],
            at="counters",
        ),
    )
    counts: Mapping[str, int] = {"first_row": ROWS_MAX}

    def __init__(self, weights: Floats, first_row: int, selects: bool, horizon: int | None, seed: int) -> None:
        self.weights = np.array(weights)
        self.losses = np.zeros(len(weights))
        self.counters = np.zeros(5)
        self.first_row = first_row
        self.selects, self.horizon, self.seed = selects, horizon, seed

    def predict(self, predictions: Sequence[Prediction]) -> Prediction:
        """The combined prediction (4) of n rows from each expert's. Changes nothing."""
        chosen = int(self.weights.argmax()) if self.selects else -1
        return self._mix(predictions, predictions[0].value[:0], None, _NO_DRAWS, chosen)

    def learn(
        self, predictions: Sequence[Prediction], truth: NDArray[Any], row_weights: Floats | None = None
    ) -> Prediction:
        """The combined prediction (4) of n rows, each before its label moves the weights, by (6) or (12).

        ``truth``: class indices or numbers (n,); ``row_weights``: (n,), or None: every row counts once.
        """
        draws = _NO_DRAWS
        if self.selects and len(self.weights) > 1:
            draws = uniform(self.seed, self.first_row + int(self.counters[ROWS]), len(truth), _PURPOSE)
        return self._mix(predictions, truth, row_weights, draws, -1)

    def _mix(
        self,
        predictions: Sequence[Prediction],
        truth: NDArray[Any],
        row_weights: Floats | None,
        draws: Floats,
        likeliest: int,
    ) -> Prediction:
        """The experts' combined prediction (4), or that of the one drawn (11) or ``likeliest`` >= 0; learns labels."""
        numbers = truth.dtype == np.float64
        eta, share = self._rates()
        chosen = np.full(len(predictions[0].value), likeliest)
        deviations = [one.std for one in predictions if one.std is not None]
        S = np.stack(deviations) if len(deviations) == len(predictions) else np.empty((len(predictions), 0))
        if numbers:
            P = np.stack([one.value for one in predictions])[:, :, None]
        else:
            P = _shares(predictions, 1 + int(truth.max(initial=-1)))
        rates = 0.0 if numbers and self.horizon is None else eta, share
        geometric = not (numbers or self.selects or self.horizon is None)
        out, std = np.empty(P.shape[1:]), np.empty(S.shape[1])
        y, state = np.ascontiguousarray(truth, dtype=np.float64), (self.weights, self.losses, self.counters)
        given = np.ascontiguousarray(y[:0] if row_weights is None else row_weights)
        mix_rows(P, S, y, given, numbers, *state, *rates, geometric, draws, chosen, out, std)
        if numbers:
            return Prediction(out[:, 0], None, std if S.shape[1] else None)
        return _of_shares(predictions, out, chosen)

    def _rates(self) -> tuple[float, float]:
        """Eta, of Theorems 1 and 3, and the share d of (12)."""
        if self.horizon is None:
            return 1.0, ANYTIME
        T = float(self.horizon)
        if not self.selects:
            return math.sqrt(8.0 * math.log(2.0) / T), 0.0
        d = 1.0 / max(T - 1.0, 2.0)
        entropy = -d * math.log(d) - (1.0 - d) * math.log1p(-d)
        return math.sqrt(8.0 / T * (2.0 * math.log(2.0) + (T - 1.0) * entropy)), d

    def _sizes(self, _found: Counts) -> Counts:
        return {"experts": len(self.weights)}


class TrialMixture(Mixture):
    """The mixture of an overlap: the old model on recovered columns and the new one, from 1/2 each, all rows combined.

    ``taught`` counts the labelled rows that the new model has learned.
    """

    counts: Mapping[str, int] = {"taught": ROWS_MAX, **Mixture.counts}

    def __init__(self) -> None:
        super().__init__(np.full(2, 0.5), 0, selects=False, horizon=None, seed=0)
        self.taught = 0


def _shares(predictions: Sequence[Prediction], classes: int) -> Floats:
    """Probabilities (E, n, K) of every expert; an expert without probabilities votes for its class."""
    for one in predictions:
        shown = 1 + int(one.value.max(initial=-1)) if one.probabilities is None else one.probabilities.shape[1]
        classes = max(classes, shown)
    return np.stack(
        [_voted(one.value, classes) if one.probabilities is None else one.probabilities for one in predictions]
    )


def _voted(value: NDArray[Any], classes: int) -> Floats:
    """A vote as probabilities."""
    P = np.full((len(value), classes), (1.0 - VOTE) / max(classes - 1, 1))
    seen = value >= 0
    P[seen, value[seen]] = VOTE if classes > 1 else 1.0
    return P


def _of_shares(predictions: Sequence[Prediction], P: Floats, chosen: Ints) -> Prediction:
    """The prediction from probabilities (n, K).

    The class is that of the chosen expert (>= 0). Otherwise it is the class on which all experts agree, for which a
    learner may have better reasons than its probabilities; else the first of the most probable classes.
    """
    values = np.stack([one.value for one in predictions])
    if not P.shape[1]:
        return Prediction(values[0], P)
    agreed = np.where((values == values[0]).all(axis=0), values[0], P.argmax(axis=1))
    spoken = values[np.maximum(chosen, 0), np.arange(len(P))]
    return Prediction(np.where(chosen >= 0, spoken, agreed).astype(np.int64), P)
