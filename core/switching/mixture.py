r"""The mixture of experts after a switch: their weights, and the prediction they make together.

With f_k the predictions of experts k = 1 ... E for the t-th row since the switch was completed, before it is learned:

    l_k = -ln p_k(y)                                    classification: p_k the expert's probabilities, at least 1e-6
    l_k = (f_k - y)^2 / (2 D)                           regression: D the mean squared error of the mixture so far,
                                                        D += r (error - D), r = max(1/t, .01), before its use
    v_k = a_k exp(-l_k)
    a_k <- d sum_j v_j / E + (1 - d) v_k, normalised    d = min(1/2, 1/t): fixed share that needs no horizon
    combined:  p = sum_k a_k p_k                        probabilities, or numbers; a from before the row
    selected:  p = p_k with probability a_k             drawn by (seed, row); ``predict`` shows the likeliest expert

Numbers count within [a - (b - a), b + (b - a)], a and b the least and largest label since the switch, from row 20 on.

``variant: "paper"``, two experts and a horizon T: combined eta = sqrt(8 ln 2 / T), d = 0 (Theorem 1), and the experts'
margins are averaged, that is, the logarithms of their probabilities; selected d = 1/(T - 1),
eta = sqrt(8/T (2 ln 2 + (T - 1) H(d))), H the binary entropy (Theorem 3). Losses are -eta ln p_k(y), eta (f_k - y)^2.

Source: Hou, Zhang, Zhou: Learning With Feature Evolvable Streams, IEEE TKDE 33(6), 2021: (4) to (6), (11), (12),
Theorems 1 to 3; Herbster, Warmuth: Tracking the best expert, Machine Learning 32, 1998.

Deviations from the paper
- Probabilities are mixed, not margins: Theorem 2 (a constant regret) is false for averaged margins of logistic loss
  with eta = 1, where the regret grows linearly, and true for mixed probabilities.
- The share 1/t in both forms instead of none and 1/(T - 1).
- Squared losses are measured in the mixture's own mean squared error. The theory's eta = 1/(2 (b - a)^2), for labels
  within [a, b], is slower to distinguish experts.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header, Ints, Prediction
from core.numerics.rng import uniform
from core.state.layout import NOT_NEGATIVE, ROWS_MAX, WHOLE, Array, Layout, Shares, counts
from core.switching.mixture_kernels import ANYTIME, ROWS, mix_classes, mix_numbers

VOTE = 0.9
"""What the predicted class is worth where a learner has no probabilities; the others share the rest."""
_PURPOSE = "expert of a row"
_NO_DRAWS = np.empty(0)
LAYOUT = Layout(
    {
        "weights": Shares("experts"),
        "losses": Array("experts", within=NOT_NEGATIVE),
        "tally": Array(4, places={0: WHOLE, 1: NOT_NEGATIVE}, ordered=[(2, 3)], at="counters"),
    }
)


class Mixture:
    """The weights of E experts, a state machine over their predictions.

    Args:
        weights: (E,) a to start with.
        first_row: absolute number of the row that comes first; draws depend on it.
        selects: the prediction of one drawn expert is used for each row, instead of a combination.
        horizon: T with the paper's rates, or None.
        seed: of the draws.

    State:
        weights (E,)   a, sum to one
        losses (E,)    sums of -ln p_k(y), or of squared errors
        counters (4,)  rows t, D, least and largest label
    """

    def __init__(self, weights: Floats, first_row: int, selects: bool, horizon: int | None, seed: int) -> None:
        self.weights = np.array(weights)
        self.losses = np.zeros(len(weights))
        self.counters = np.zeros(4)
        self.first_row = first_row
        self.selects, self.horizon, self.seed = selects, horizon, seed

    def predict(self, predictions: Sequence[Prediction]) -> Prediction:
        """The combined prediction of n rows from each expert's. Changes nothing."""
        chosen = int(self.weights.argmax()) if self.selects else -1
        return self._mix(predictions, predictions[0].value[:0], _NO_DRAWS, chosen)

    def learn(self, predictions: Sequence[Prediction], truth: NDArray[Any]) -> Prediction:
        """The combined prediction of n rows, each before its label moves the weights.

        Args:
            predictions: each expert's, of those rows.
            truth: class indices or numbers (n,).
        """
        draws = _NO_DRAWS
        if self.selects and len(self.weights) > 1:
            draws = uniform(self.seed, self.first_row + int(self.counters[ROWS]), len(truth), _PURPOSE)
        return self._mix(predictions, np.ascontiguousarray(truth), draws, -1)

    def _mix(self, predictions: Sequence[Prediction], truth: NDArray[Any], draws: Floats, likeliest: int) -> Prediction:
        """What the experts make together, or the one that is drawn or ``likeliest`` >= 0 makes; learns labels (n,)."""
        eta, share = self._rates()
        chosen = np.full(len(predictions[0].value), likeliest)
        state = self.weights, self.losses, self.counters
        if truth.dtype == np.float64:
            F = np.stack([one.value for one in predictions])
            deviations = [one.std for one in predictions if one.std is not None]
            S = np.stack(deviations) if len(deviations) == len(predictions) else np.empty((len(predictions), 0))
            number, std = np.empty(F.shape[1]), np.empty(S.shape[1])
            mix_numbers(F, S, truth, *state, eta if self.horizon else 0.0, share, draws, chosen, number, std)
            return Prediction(number, None, std if S.shape[1] else None)
        P = _shares(predictions, 1 + int(truth.max(initial=-1)))
        out = np.empty(P.shape[1:])
        geometric = self.horizon is not None and not self.selects
        mix_classes(P, truth, *state, eta, share, geometric, draws, chosen, out)
        return _of_shares(predictions, out, chosen)

    def _rates(self) -> tuple[float, float]:
        """Eta and the share d."""
        if self.horizon is None:
            return 1.0, ANYTIME
        T = float(self.horizon)
        if not self.selects:
            return math.sqrt(8.0 * math.log(2.0) / T), 0.0
        d = 1.0 / max(T - 1.0, 2.0)
        entropy = -d * math.log(d) - (1.0 - d) * math.log1p(-d)
        return math.sqrt(8.0 / T * (2.0 * math.log(2.0) + (T - 1.0) * entropy)), d

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return LAYOUT.held_bytes(self)

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state."""
        return LAYOUT.to_arrays(self), {"first_row": self.first_row}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state of ``to_arrays``.

        Raises:
            ValueError: what no state of this many experts can be; nothing has changed.
        """
        (first_row,) = counts(header, first_row=ROWS_MAX)
        LAYOUT.load(self, arrays, experts=len(self.weights))
        self.first_row = first_row


def _shares(predictions: Sequence[Prediction], classes: int) -> Floats:
    """Probabilities (E, n, K) of every expert; votes count as such where experts have none."""
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
    """The prediction that probabilities (n, K) make.

    The class is that of the expert that was chosen (>= 0); where all agree, theirs, which a learner may have a better
    reason for than its probabilities; else the first most probable one.
    """
    values = np.stack([one.value for one in predictions])
    if not P.shape[1]:
        return Prediction(values[0], P)
    agreed = np.where((values == values[0]).all(axis=0), values[0], P.argmax(axis=1))
    spoken = values[np.maximum(chosen, 0), np.arange(len(P))]
    return Prediction(np.where(chosen >= 0, spoken, agreed).astype(np.int64), P)
