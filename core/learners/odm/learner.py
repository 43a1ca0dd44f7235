"""The learner behind ODM and dynamic ODM; steps.py has the paper's equations and notation, kernels.py more classes.

**Forget**: tau counts from the next row in every candidate, until its next epoch begins.

**Margin.** ``info`` shows its mean and deviation over about the last 1000 rows: half the distance between the score of
a row's own class and the best other one.

**Any finite input.** Rows larger than 1e60 are scaled down as a whole; a row counts in q as at most ten times q; scores
are held within 1e300. |w| is bounded by the projection.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from core.contract import WEIGHT_MAX, Floats, Header, Ints, Prediction, Spec, Weights
from core.learners.calibration import CALIBRATION, fresh_calibration
from core.learners.learner import KEPT_ROWS, NONE_TOLD
from core.learners.linear import LinearLearner, linear_model, with_class
from core.learners.odm import kernels
from core.learners.odm.candidates import AUTO, epochs, grows, places
from core.learners.odm.steps import CANDIDATE_MAX, RADIUS, SQUARE_MAX
from core.learners.posterior import View
from core.numerics.weighting import FIXED_SHARE
from core.state.layout import NOT_NEGATIVE, WHOLE, Array, Counts, Layout, Range, Shares

_SHARE_RATE = 3.0
_KEPT_MAX = 64  # most scores of candidates that are kept with a tracked row
_TYPICAL_ROWS = 1e6  # rows for which a growing bank's cost is estimated


def constants(params: Mapping[str, Any]) -> Floats:
    """The constants, including eps of Theorem 1, in the order of ``core.learners.odm.steps.STEEPNESS``."""
    paper, lam, theta = params["variant"] == "paper", params["loss_weight"], params["tolerance"]
    explicit = params["step"] == "explicit" or (params["step"] == AUTO and paper)
    constant = 0.0 if params["learning_rate"] == AUTO else params["learning_rate"]
    bound, rate, share = 4.0 * lam, _SHARE_RATE, FIXED_SHARE
    if paper and "candidates" in params:
        bound, rate, share = params["bound"], math.sqrt(8.0 * math.log(places(params)) / params["horizon"]), 0.0
    low, high = 1.0 - theta, 1.0 + theta
    shape = [2.0 * lam / (low * low), params["deviation_tradeoff"], low, high, 2.0 * lam]
    majority = params.get("vote") == "majority"
    return np.array([*shape, constant, explicit, grows(params), majority, 1.0 / bound, rate, share], dtype=np.float64)


class DynamicOdm(LinearLearner):
    """The learner behind ``dynamic_odm`` and, without ``candidates`` in its parameters, ``odm``.

    State, for D = d plus one if there is a bias column (the last one), m columns (one up to two classes, else one per
    class) and room for K candidates:
        W (m, K, D)     their weights
        shares (K,)     beta, at first 1/K (Algorithm 2, line 1)
        losses (K,)     sums of l_k since the first row; a split copies them
        counters (7,)      see ROWS, COUNT, SQUARE, MARGIN, MARGIN_VARIANCE, FORGOTTEN, HEAVIEST
        calibration     of the probabilities (core.learners.calibration)
    """

    layout: ClassVar = Layout(
        weights=Array("columns", "K", "D", within=CANDIDATE_MAX, at="W"),
        shares=Shares("K"),
        losses=Array("K", within=NOT_NEGATIVE),
        tally=Array(
            7,
            places={
                kernels.ROWS: WHOLE,
                kernels.COUNT: WHOLE,
                kernels.SQUARE: Range(0.0, SQUARE_MAX),
                kernels.MARGIN: Range(-kernels.MARGIN_MAX, kernels.MARGIN_MAX),
                kernels.MARGIN_VARIANCE: Range(0.0, (2.0 * kernels.MARGIN_MAX) ** 2),
                kernels.FORGOTTEN: WHOLE,
                kernels.HEAVIEST: Range(0.0, WEIGHT_MAX),
            },
            ordered=[(kernels.FORGOTTEN, kernels.ROWS)],
            at="counters",
        ),
        calibration=CALIBRATION,
    )

    object_bytes: ClassVar = 2000

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        params = spec.params
        self._mixed = params.get("vote") != "majority"
        self._bank = "candidates" in params
        self._grows = grows(params)
        self.epochs = epochs(params)
        self.constants = constants(params)
        K = len(self.epochs)
        self.counters = np.zeros(7)
        self.counters[kernels.COUNT] = 1.0 if self._grows else K
        self.shares, self.losses = np.zeros((2, K))
        self.shares[: self.count] = 1.0 / self.count
        self.calibration = fresh_calibration()

    @classmethod
    def sizes(cls, spec: Spec, classes: int) -> dict[str, int]:
        """The sizes of the layout; there is room for K candidates."""
        columns, D = super().sizes(spec, classes).values()
        return {"columns": columns, "K": places(spec.params), "D": D}

    @classmethod
    def row_cost(cls, spec: Spec, classes: int) -> float:
        """About 8 D + 30 per candidate and column."""
        columns, K, D = cls.sizes(spec, classes).values()
        candidates = math.log2(_TYPICAL_ROWS / 8.0) + 2.0 if grows(spec.params) else float(K)
        return columns * candidates * (8.0 * D + 30.0)

    @property
    def rows(self) -> int:
        """Rows learned."""
        return int(self.counters[kernels.ROWS])

    @property
    def count(self) -> int:
        """Candidates in use."""
        return int(self.counters[kernels.COUNT])

    def add_class(self) -> None:
        """A new class starts at the columns' mean, which is never the best; the third turns [w] into [-w, w, 0]."""
        self.classes += 1
        mean = self.W.mean(axis=0, keepdims=True) if len(self.W) > 1 else np.zeros_like(self.W)
        self.W = with_class(self.W, self.classes, mean)

    def run_rows(
        self,
        X: Floats,
        y: Floats,
        discounts: Floats,
        weights: Floats,
        value: Ints,
        out: Floats,
        past: Floats | None = None,
    ) -> Floats | None:
        """See ``RowLearner``, and for ``past`` its ``learn``. Takes no discounts."""
        del discounts
        n, scores = len(X), len(self.W) * self.count
        keep = self._bank and not len(y) and n <= KEPT_ROWS and scores <= _KEPT_MAX
        told, said = (
            NONE_TOLD if past is None else np.ascontiguousarray(past),
            np.empty((n, scores) if keep else (0, 0)),
        )
        state = self.W, self.shares, self.constants, self.counters, self.calibration, self.losses, self.epochs
        kernels.learn_rows(X, y, weights, *state, value, out, told, said)
        return said if keep else None

    def past(self, prediction: Prediction, row: int) -> tuple[float, ...] | None:
        """What to keep with one row of ``predict`` until its label comes: see ``kernels.PREDICTED``."""
        if prediction.experts is None:
            return None
        return (self.rows, len(self.W), self.count, *prediction.experts[row].tolist())

    def returned_past(self, kept: Sequence[tuple[float, ...] | None]) -> Floats:
        """What ``past`` has kept for rows, (n, 3 + the most scores); NaN for rows without."""
        known = [own if own and len(own) > 3 and np.isfinite(own).all() else () for own in kept]
        found = np.full((len(kept), max(map(len, known), default=0)), np.nan)
        for row, own in enumerate(known):
            if own and len(own) == 3 + own[1] * own[2]:
                found[row, : len(own)] = own
        return found

    def forget(self) -> None:
        """Make all candidates step as at the start of an epoch (tau = 1 in the next row); their weights stay."""
        self.counters[kernels.FORGOTTEN] = self.counters[kernels.ROWS]

    def weights(self) -> Weights | None:
        """One row per class: the candidates' average. None if they vote, which is not linear."""
        return super().weights() if self._mixed else None

    def mean_columns(self) -> Floats:
        """The candidates' average."""
        return np.asarray(np.einsum("k,ckj->cj", self.shares, self.W))

    def posterior(self, view: View) -> Header:
        """The candidates: each with its linear model, its rows since its epoch began, and its share."""
        rows, d = int(self.counters[kernels.ROWS]), self.spec.dimension
        models = [linear_model(self.W[:, k], d, self.classes, self.first_two) for k in range(self.count)]
        since = [rows % int(epoch) if self._bank else rows for epoch in self.epochs[: self.count]]
        known = zip(models, since, self.shares.tolist(), strict=False)
        return {"candidates": [{**view.linear(own), "rows": age, "share": share} for own, age, share in known]}

    def info(self) -> Header:
        """Rows, the margin's mean and deviation and, for a bank, epochs with their weights.

        The last epoch of a growing bank is the one at whose end it splits.
        """
        learned = self.counters[kernels.ROWS] > 0
        seen: Header = {
            "rows": int(self.counters[kernels.ROWS]),
            "margin_mean": float(self.counters[kernels.MARGIN]) if learned else None,
            "margin_std": math.sqrt(self.counters[kernels.MARGIN_VARIANCE]) if learned else None,
        }
        if self._bank:
            seen["epochs"] = self.epochs[: self.count].tolist()
            seen["epoch_weights"] = self.shares[: self.count].tolist()
        return seen

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state of the candidates in use."""
        arrays, header = super().to_arrays()
        used = {name: arrays[name][: self.count].copy() for name in ("shares", "losses")}
        return arrays | used | {"weights": arrays["weights"][:, : self.count].copy()}, header

    def _loaded(self) -> None:
        more = 0, len(self.epochs) - self.count
        self.W = np.pad(self.W, ((0, 0), more, (0, 0)))
        self.shares, self.losses = np.pad(self.shares, more), np.pad(self.losses, more)

    def _sizes(self, found: Counts) -> Counts:
        sizes = super()._sizes(found)
        return {side: sizes[side] for side in ("columns", "D")}

    def _count_after(self, rows: int) -> int:
        """Number of candidates in use after some rows."""
        return min(1 + int((self.epochs <= rows).sum()), len(self.epochs)) if self._grows else len(self.epochs)

    def _check(self, held: Mapping[str, Floats], _found: Counts) -> None:
        """Refuse a number of candidates, weights or losses that so many rows cannot produce."""
        counters = held["counters"]
        if not counters[kernels.COUNT] == self._count_after(int(counters[kernels.ROWS])) == len(held["shares"]):
            raise ValueError("the number of candidates does not match its rows")
        largest = self.constants[RADIUS] * (1.0 if len(held["W"]) == 1 else 2.0)
        if (np.square(held["W"]).sum(axis=2) > largest * (1.0 + 1e-6)).any():
            raise ValueError("a candidate is larger than it can be")
        if (held["losses"] > counters[kernels.ROWS] * (1.0 + 1e-6)).any():
            raise ValueError("a sum of losses is larger than its rows can make it")
