r"""DFOP with ``forgetting_rate: "auto"``: RLS and DFOPs of many rates, mixed by how well they predict.

    members k = 1 ... K     discount 1 (RLS); mu = 1e-4, 3e-4, .001, .003, .01, .03, .1, .3, .5 where mu D <= 30
    p_k                     a-priori scores of member k; within +-1.5 for classes, whose targets are +-1; for regression
                            within the range [a, b] of the labels so far and a tenth of it beyond (from row 20 on)
    o = sum_k v_k p_k       the mixed score
    l_k = |p_k - y|^2       mean over the columns; y the row's targets
    v                       exponential weights with eta = 1 / (2 D), which is Bayes under normal errors of variance D,
                            the loss to expect; fixed share .001 (core.numerics.weighting)

A row of weight c counts c times: eta is multiplied by c, and r, the rate of D, by c up to 1.

One set of weights serves all classes. Class and probabilities are those of core.learners.dfop.learner for the mixed
scores.

**Why p_k is clipped.** A member with a short window sometimes predicts far outside everything seen; even a small weight
times a huge number is a huge error.

**Outliers among labels** (regression, from row 20 on). A label far outside [a, b] moves that end by one width only
(core.features.label_range), and |o - y|^2 is winsorised in the D of later rows.

**Predictive deviation** (regression): sqrt(sum_k v_k (std_k^2 + (p_k - o)^2)), with std_k at most 3 (b - a).

**Any finite input.** The members are safe (kernels.py); differences and deviations are held within 1e150 before they
are squared, and D above 1e-300.

Source: members: Zhao, Wang, Xie, Guo, Zhou: Distribution-Free One-Pass Learning, IEEE TKDE 33(3), 2021.

Deviations
- The paper gives one rate per data set and mixes none.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header, Ints, Prediction, Spec, Weights
from core.learners.calibration import CALIBRATION, classify, classify_and_fit, fresh_calibration
from core.learners.dfop.bank_kernels import CHUNK_ROWS, learn_members, mix_rows, predict_members
from core.learners.dfop.kernels import DONE, LEAK, NOISE, PREDICTION_MAX, REFRESH, ROWS, SPOILED, Predicted, State
from core.learners.dfop.learner import Dfop, refresh_rows
from core.learners.dfop.rates import member_rates, member_specs
from core.state.layout import Array, Layout, Range, Shares

_NONE = np.empty(0)


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
        self._stack = stack_of(self.members)
        self._constants = np.array([member.constants for member in self.members])
        self._refresh_rows = refresh_rows(self.members[0].W.shape[1])
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
        self._stack = _stacked(self.members, "W"), *self._stack[1:]

    extensible: ClassVar[bool] = True

    def extend(self, other: "ForgettingBank", places: Ints) -> None:
        """Go on for a bank of fewer columns; see ``core.contract.Extensible``."""
        for member, smaller in zip(self.members, other.members, strict=True):
            member.extend(smaller, places)
        self._stack = stack_of(self.members)
        self.layout.extend(self, other, places)

    def predict(self, X: Floats) -> Prediction:
        """A-priori predictions for X (n, d); see ``core.contract.Learner``."""
        scores, std = self.members[0].empty(X.shape[0])
        W, Q, _, _, counters = self._stack
        predict_members(X, W, Q, counters, self._constants, self.mixing, self.loss, self.span, scores, std)
        if self.regression:
            return Prediction(scores[:, 0], None, std)
        return Prediction(*classify(scores, self.classes, self.calibration))

    def learn(
        self, X: Floats, y: NDArray[Any], discounts: Floats | None = None, weights: Floats | None = None
    ) -> Prediction:
        """Test, then train on X (n, d), y (n,); see ``core.contract.Learner``. Takes no discounts."""
        del discounts
        given = _NONE if weights is None else weights
        scores, std = self.members[0].empty(X.shape[0])
        numbers = np.ascontiguousarray(y, dtype=np.float64)
        rows = self.rows
        begin, end = 0, CHUNK_ROWS - rows % CHUNK_ROWS
        if X.shape[0] <= end:
            self._learn(X, numbers, given, rows, (scores, std))
            begin = X.shape[0]
        while begin < X.shape[0]:
            part = slice(begin, end)
            self._learn(X[part], numbers[part], given[part], rows + begin, (scores[part], std[part]))
            begin, end = end, end + CHUNK_ROWS
        if self.regression:
            return Prediction(scores[:, 0], None, std)
        return Prediction(*classify_and_fit(scores, numbers, self.classes, self.calibration, given))

    def _learn(self, X: Floats, y: Floats, weights: Floats, rows: int, into: Predicted) -> None:
        """Learn one chunk after so many rows; its predictions are written."""
        K, (scores, std) = len(self.rates), into
        P, S = np.empty((K, *scores.shape)), np.empty((K, len(std)))
        if X.shape[0] >= self.members[0].block_rows_min:
            for own, p, s in zip(self.members, P, S, strict=True):
                own.absorb(X, y, None, weights, (p, s))
        else:
            given, fixed = (X, y, _NONE, weights), self._constants
            member, row, reason = 0, 0, REFRESH
            while reason != DONE:  # Q of a member is refreshed where that is due
                member, row, reason = learn_members(
                    given, self._stack, (P, S), fixed, self._refresh_rows, member, row, reason == SPOILED
                )
                if reason != DONE:
                    self.members[member].refresh(leaks=reason == LEAK)
        mix_rows(P, S, y, weights, self.mixing, self.loss, rows, self.span, scores, std)

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
        members = [Dfop(spec) for spec in member_specs(self._spec)]
        for k, member in enumerate(members):
            member.load_arrays({name: array[k] for name, array in stacked.items()}, header)
        if len({int(member.counters[ROWS]) for member in members}) > 1:
            raise ValueError("the members have not learned the same rows")
        self.layout.load(self, {name: arrays[name] for name in self.layout.arrays}, K=len(self.rates))
        self.members, self._stack = members, stack_of(members)


def stack_of(members: Sequence[Dfop]) -> State:
    """The members' arrays, one behind another (bank_kernels.py); theirs become views.

    Whatever assigns an array to a member instead of writing into it parts it from its stack: then stack them again.
    """
    W, Q, R, mean_square, counters = (_stacked(members, name) for name in ("W", "Q", "R", "mean_square", "counters"))
    return W, Q, R, mean_square, counters


def _stacked(members: Sequence[Dfop], name: str) -> Floats:
    stack = np.stack([getattr(member, name) for member in members])
    for member, own in zip(members, stack, strict=True):
        setattr(member, name, own)
    return stack
