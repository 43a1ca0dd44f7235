r"""DFOP with ``forgetting_rate: "auto"``: RLS and DFOPs of many rates, mixed by how well they predict.

    members k = 1 ... K     discount 1 (RLS); mu = 1e-4, 3e-4, .001, .003, .01, .03, .1, .3, .5 where mu D <= 30
    p_k                     a-priori scores of member k; within +-1.5 for classes, whose targets are +-1; for regression
                            within [a - (b - a), b + (b - a)] from row 20 on, [a, b] the range of the labels so far
    o = sum_k v_k p_k       the mixed score; v starts at 1/K
    l_k = |p_k - y|^2       mean over the columns; y the row's targets
    D <- D + r (|o - y|^2 - D)                           the loss to expect, r = max(1/t, .001); updated before its use
    v_k <- v_k exp(-(l_k - min l) / (2 D)), normalised   Bayes under normal errors of variance D
    v_k <- .999 v_k + .001 / K                           fixed share: a member with no weight can regain it

One set of weights serves all classes. Class and probabilities are those of core.learners.dfop.learner for the mixed
scores.

**Why p_k is clipped.** A member with a short window sometimes predicts far outside everything seen; even a small weight
times a huge number is a huge error.

**Outliers among labels** (regression, from row 20 on). A label more than 100 widths outside [a, b] moves that end by
one width only, so a real change of level is reached in some rows, at twice the width each. |o - y|^2 counts at most 1e6
D in the D of later rows; the row itself is weighed by a D that holds all of it. Otherwise one label of 1e20 would make
every later difference between members negligible.

**Predictive deviation** (regression): sqrt(sum_k v_k (std_k^2 + (p_k - o)^2)); likewise, std_k is at most 3 (b - a).

**Any finite input.** The members are safe (learner.py); differences and deviations are held within 1e150 before they
are squared, and D above 1e-300.

Source: members: Zhao, Wang, Xie, Guo, Zhou: Distribution-Free One-Pass Learning, IEEE TKDE 33(3), 2021; fixed share:
Herbster, Warmuth: Tracking the best expert, Machine Learning 32, 1998.

Deviations from the paper
- The paper gives one rate per data set and mixes none.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.contract import Floats, Header, Prediction, Spec, Weights
from core.learners.calibration import CALIBRATION, classify, classify_and_fit, fresh_calibration
from core.learners.dfop.kernels import NOISE, PREDICTION_MAX, ROWS
from core.learners.dfop.learner import Dfop
from core.state.layout import Array, Layout, Range, Shares

RATES = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 0.5)
"""Forgetting rates of the members; 0 is RLS."""
RATE_COLUMNS_MAX = 30.0
"""Largest rate times columns: beyond it refreshes would cost more than rows, for windows of few rows per column."""
SHARE = 1e-3
LOSS_RATE = 1e-3
SCORE_MAX = 1.5
SPAN_ROWS = 20
"""Rows after which the range of the labels is taken to say something."""

_CHUNK_ROWS = 1024
"""Rows whose member predictions are held at once; chunks end at absolute row numbers, as blocks do."""
_SQUARED_MAX = 1e150
_LOSS_MIN = 1e-300
_SPAN_WINSOR = 100.0
"""Widths of the range of the labels that a label may lie beyond it and be taken whole."""
_LOSS_WINSOR = 1e6
"""Times D that the loss of a row counts at most in the D kept for later rows (regression)."""


@njit(cache=True, nogil=True)
def _mix_row(P: Floats, S: Floats, i: int, mixing: Floats, scores: Floats, std: Floats) -> None:
    """Write o = sum v_k p_k of row i into scores (n, m), and for regression the mixture's deviation into std (n,)."""
    for j in range(scores.shape[1]):
        o = 0.0
        for k in range(mixing.shape[0]):
            o += mixing[k] * P[k, i, j]
        scores[i, j] = o
    if std.shape[0]:
        variance = 0.0
        for k in range(mixing.shape[0]):
            own = min(S[k, i], _SQUARED_MAX)
            apart = min(abs(P[k, i, 0] - scores[i, 0]), _SQUARED_MAX)
            variance += mixing[k] * (own * own + apart * apart)
        std[i] = min(math.sqrt(variance), PREDICTION_MAX)


@njit(cache=True, nogil=True)
def _clip_row(P: Floats, S: Floats, i: int, rows: float, span: Floats, regression: bool) -> None:
    """The members' scores and deviations of a row within what can be, in place; ``rows`` were learned before it."""
    low, high = -SCORE_MAX, SCORE_MAX
    if regression:
        if rows < SPAN_ROWS:
            return
        width = span[1] - span[0]
        low, high = span[0] - width, span[1] + width
    for k in range(P.shape[0]):
        for j in range(P.shape[2]):
            P[k, i, j] = min(max(P[k, i, j], low), high)
        if regression:
            S[k, i] = min(S[k, i], high - low)


@njit("void(f8[:,:,::1], f8[:,::1], f8[::1], f8, f8[::1], f8[:,::1], f8[::1])", cache=True, nogil=True)
def mix_rows(P: Floats, S: Floats, mixing: Floats, rows: float, span: Floats, scores: Floats, std: Floats) -> None:
    """Mix the predictions P (K, n, m), S (K, n) of n rows; both are clipped in place."""
    for i in range(P.shape[1]):
        _clip_row(P, S, i, rows, span, std.shape[0] > 0)
        _mix_row(P, S, i, mixing, scores, std)


@njit(cache=True, nogil=True)
def _squared(difference: float) -> float:
    """difference^2, finite."""
    bounded = min(abs(difference), _SQUARED_MAX)
    return bounded * bounded


@njit(cache=True, nogil=True)
def _target(y: float, j: int, columns: int, regression: bool) -> float:
    """Target of column j out of the ``columns`` of the classes seen."""
    if regression:
        return y
    return 1.0 if y == (1.0 if columns == 1 else j) else -1.0


@njit(cache=True, nogil=True)
def _widen(span: Floats, y: float, rows: float) -> None:
    """The range of the labels with y; a label no stream like this one's has widens it by its width only."""
    if rows == 0.0:
        span[:] = y
    width = span[1] - span[0]
    most = width if rows >= SPAN_ROWS and width > 0.0 else np.inf
    if y < span[0]:
        span[0] = y if span[0] - y <= _SPAN_WINSOR * most else span[0] - most
    elif y > span[1]:
        span[1] = y if y - span[1] <= _SPAN_WINSOR * most else span[1] + most


@njit(
    "f8(f8[:,:,::1], f8[:,::1], Array(f8, 1, 'C', readonly=True), f8[::1], f8, f8, f8[::1], f8[:,::1], f8[::1])",
    cache=True,
    nogil=True,
)
def mix_and_weigh(
    P: Floats,
    S: Floats,
    y: Floats,
    mixing: Floats,
    loss: float,
    rows: float,
    span: Floats,
    scores: Floats,
    std: Floats,
) -> float:
    """Mix n rows in turn, and move the weights after each.

    Args:
        P: (K, n, m) the members' scores, clipped in place.
        S: (K, n) their deviations, clipped in place; (K, 0) for classification.
        y: (n,) numbers, or class indices.
        mixing: (K,) weights v, updated.
        loss: D.
        rows: rows seen before.
        span: range of the labels of a regression, updated.
        scores: (n, m) mixed scores, written.
        std: (n,) deviations of the mixture, written; (0,) for classification.

    Returns:
        D after the rows.
    """
    K, n, m = P.shape
    regression = std.shape[0] > 0
    losses = np.empty(K)
    for i in range(n):
        _clip_row(P, S, i, rows + i, span, regression)
        _mix_row(P, S, i, mixing, scores, std)
        if regression:
            _widen(span, y[i], rows + i)
        mixed = 0.0
        losses[:] = 0.0
        for j in range(m):
            target = _target(y[i], j, m, regression)
            mixed += _squared(scores[i, j] - target) / m
            for k in range(K):
                losses[k] += _squared(P[k, i, j] - target) / m
        rate = max(1.0 / (rows + i + 1.0), LOSS_RATE)
        whole = loss + rate * (mixed - loss)
        scale = -0.5 / max(whole, _LOSS_MIN)
        if regression and rows + i >= SPAN_ROWS and 0.0 < _LOSS_WINSOR * loss < mixed:
            loss += rate * (_LOSS_WINSOR * loss - loss)
        else:
            loss = whole
        least = losses.min()
        total = 0.0
        for k in range(K):
            mixing[k] *= math.exp(scale * (losses[k] - least))
            total += mixing[k]
        for k in range(K):
            mixing[k] = (1.0 - SHARE) * mixing[k] / total + SHARE / K
    return loss


class ForgettingBank:
    """The learner behind ``dfop`` with ``forgetting_rate: "auto"``.

    State:
        members      one ``Dfop`` per rate
        mixing (K,)  their weights v
        loss (1,)    D
        calibration  slope and curvature of the probabilities (core.learners.calibration)
        span (2,)    least and largest label of a regression; zeros before the first
    """

    layout: ClassVar = Layout(
        {
            "mixing": Shares("K"),
            "loss": Array(1, within=Range(0.0, PREDICTION_MAX)),
            "slope": CALIBRATION,
            "span": Array(2, ordered=[(0, 1)]),
        }
    )
    """Without the members, whose arrays are stacked."""

    @staticmethod
    def sizes(spec: Spec, classes: int) -> dict[str, int]:
        """The sizes of the layout."""
        del classes
        return {"K": len(member_rates(spec))}

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self.regression = spec.task == "regression"
        self.rates = member_rates(spec)
        self.members = [Dfop(member) for member in member_specs(spec)]
        self.mixing = np.full(len(self.rates), 1.0 / len(self.rates))
        self.loss = np.zeros(1)
        self.calibration = fresh_calibration()
        self.span = np.zeros(2)

    @property
    def classes(self) -> int:
        """Classes seen."""
        return self.members[0].classes

    @property
    def rows(self) -> int:
        """Rows learned."""
        return int(self.members[0].counters[ROWS])

    def add_class(self) -> None:
        """One more class, in every member."""
        for member in self.members:
            member.add_class()

    def predict(self, X: Floats) -> Prediction:
        """A-priori predictions for X (n, d); see ``core.contract.Learner``."""
        scores, std = self.members[0].empty(X.shape[0])
        for begin in range(0, X.shape[0], _CHUNK_ROWS):
            part = slice(begin, begin + _CHUNK_ROWS)
            P, S = self._member_predictions(X[part])
            for member, p, s in zip(self.members, P, S, strict=True):
                member.scores(X[part], (p, s))
            mix_rows(P, S, self.mixing, self.rows, self.span, scores[part], std[part])
        if self.regression:
            return Prediction(scores[:, 0], None, std)
        return Prediction(*classify(scores, self.classes, self.calibration))

    def learn(self, X: Floats, y: NDArray[Any], discounts: Floats | None = None) -> Prediction:
        """Test, then train on X (n, d), y (n,); see ``core.contract.Learner``. Takes no discounts."""
        del discounts
        scores, std = self.members[0].empty(X.shape[0])
        numbers = np.ascontiguousarray(y, dtype=np.float64)
        begin = 0
        while begin < X.shape[0]:
            rows = self.rows
            end = begin + _CHUNK_ROWS - rows % _CHUNK_ROWS
            part = slice(begin, end)
            P, S = self._member_predictions(X[part])
            for member, p, s in zip(self.members, P, S, strict=True):
                member.absorb(X[part], numbers[part], None, (p, s))
            self.loss[0] = mix_and_weigh(
                P, S, numbers[part], self.mixing, self.loss[0], rows, self.span, scores[part], std[part]
            )
            begin = end
        if self.regression:
            return Prediction(scores[:, 0], None, std)
        return Prediction(*classify_and_fit(scores, numbers, self.classes, self.calibration))

    def forget(self) -> None:
        """Every member forgets (learner.py); the weights stay, since all members now adapt equally fast."""
        for member in self.members:
            member.forget()

    def weights(self) -> Weights:
        """The members' weights, averaged: the linear model of the mixture where no score is clipped."""
        own = [member.weights() for member in self.members]
        return Weights(
            np.tensordot(self.mixing, np.stack([weights.coefficients for weights in own]), 1),
            np.tensordot(self.mixing, np.stack([weights.bias for weights in own]), 1),
        )

    def info(self) -> Header:
        """Rows, the members' rates with their weights, the window 1 / (mean rate); for regression the noise."""
        rates = np.array(self.rates)
        seen: Header = {
            "rows": self.rows,
            "forgetting_rates": rates.tolist(),
            "forgetting_weights": self.mixing.tolist(),
            "effective_window": 1.0 / float(self.mixing @ rates),
        }
        if self.regression:
            noise = np.array([min(member.counters[NOISE], PREDICTION_MAX) for member in self.members])
            seen["noise_std"] = math.sqrt(self.mixing @ noise) if self.rows else None
        return seen

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return sum(member.nbytes for member in self.members) + self.layout.held_bytes(self)

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The members' arrays, stacked, with their weights and the loss."""
        own = [member.to_arrays() for member in self.members]
        arrays = {name: np.stack([arrays[name] for arrays, _ in own]) for name in own[0][0]}
        return arrays | self.layout.to_arrays(self), own[0][1]

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state of ``to_arrays``.

        Raises:
            ValueError: what no state of this spec can be; nothing has changed.
        """
        if not set(arrays).issuperset(self.layout.arrays) or any(array.ndim < 1 for array in arrays.values()):
            raise ValueError("the state must hold the weights of the members and their loss")
        stacked = {name: array for name, array in arrays.items() if name not in self.layout.arrays}
        if any(len(array) != len(self.rates) for array in stacked.values()):
            raise ValueError(f"the state must hold {len(self.rates)} members")
        own = self.layout.read({name: arrays[name] for name in self.layout.arrays}, K=len(self.rates))
        members = [Dfop(spec) for spec in member_specs(self._spec)]
        for k, member in enumerate(members):
            member.load_arrays({name: array[k] for name, array in stacked.items()}, header)
        if len({int(member.counters[ROWS]) for member in members}) > 1:
            raise ValueError("the members have not learned the same rows")
        self.members = members
        vars(self).update(own)

    def _member_predictions(self, X: Floats) -> tuple[Floats, Floats]:
        """Room for the members' scores (K, n, m) and deviations (K, n), (K, 0) for classification."""
        n, K = X.shape[0], len(self.rates)
        return np.empty((K, n, self.members[0].columns)), np.empty((K, n if self.regression else 0))


def member_rates(spec: Spec) -> tuple[float, ...]:
    """The forgetting rates for a number of columns."""
    columns = spec.dimension + bool(spec.params["bias"])
    return tuple(rate for rate in RATES if rate * columns <= RATE_COLUMNS_MAX)


def member_specs(spec: Spec) -> list[Spec]:
    """The spec of every member: RLS for the rate 0."""
    shared = {name: value for name, value in spec.params.items() if name != "forgetting_rate"}
    given = [{"forgetting_rate": rate} if rate else {} for rate in member_rates(spec)]
    return [replace(spec, params=shared | own) for own in given]
