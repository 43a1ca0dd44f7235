r"""The learner behind DFOP, G-DFOP and RLS; kernels.py has the papers' equations and the letters.

**Rows and blocks.** Below 256 columns, and in blocks of fewer than 16 rows, a compiled loop learns row by row
(kernels.py): the same bits however calls are cut. Otherwise blocks are learned by matrix products (blocks.py): the same
calls give the same bits, another cut the same numbers to round-off.

**Classes.** One Q serves all columns, since it depends on x only; columns grow as in core.learners.classes. Beside them
is the column u of a class not seen yet, trained on the constant target -1: a class that appears starts from u, which is
exactly what one-versus-rest would have learned for it.

**Forget** discounts R once, weights unchanged, so that the past, which counted as min(rows, 1/mu), weighs as much as
D/10 rows.
"""

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header, Prediction, Spec
from core.learners.calibration import CALIBRATION, classify, classify_and_fit, fresh_calibration
from core.learners.classes import with_class
from core.learners.dfop import kernels
from core.learners.dfop.blocks import (
    COLUMNS_MIN,
    ROWS_MIN,
    Block,
    block_rows,
    discounting,
    learn_block,
    next_block,
    targets,
    with_bias,
)
from core.learners.dfop.kernels import DONE, Predicted, Rows, learn_rows
from core.learners.linear import LinearLearner
from core.numerics.linalg import diagonal_matrix, mirror_upper, spd_inverse
from core.state.layout import POSITIVE, WHOLE, Array, Layout, Range, Symmetric

LEAK_SIZE = 1e-6
FORGOTTEN_ROWS = 0.1
"""Rows per column that the past is worth after ``forget``."""
FORGET_MIN = 1e-9
VARIANCE_MIN = 1e-60
RATE_MIN = 1e-12

_NONE = np.empty(0)


def refresh_rows(columns: int) -> int:
    """Rows between two refreshes of Q where no leak asks for one: 4096, many columns 32 768."""
    return 4096 if columns < COLUMNS_MIN else 32_768


class Dfop(LinearLearner):
    """The learner behind ``dfop``, ``gdfop`` and ``rls``; without a ``forgetting_rate`` it is RLS, (1).

    State, for D = d plus one where there is a bias column (the last one):
        W (m, D)       weight columns; regression: one; classification: one up to two classes, else one per
                       class, and in either case a last one for a class not seen yet
        Q, R (D, D)    covariance, exactly symmetric, and its inverse, upper triangle; Q_0 = q0 I (Algorithm 1, line 1)
        mean_square (D,)     s_j
        counters (4,)     see ROWS, FORGOTTEN, NOISE, EFFECTIVE_ROWS
        calibration    slope and curvature of the probabilities (core.learners.calibration)
    """

    layout: ClassVar = Layout(
        {
            "weights": Array("columns", "D", within=kernels.STATE_MAX, at="W"),
            "covariance": Symmetric("D", within=kernels.STATE_MAX, at="Q"),
            "precision": Symmetric("D", within=kernels.STATE_MAX, diagonal=POSITIVE, at="R"),
            "power": Array("D", within=Range(0.0, kernels.STATE_MAX), at="mean_square"),
            "tally": Array(4, within=Range(0.0, kernels.STATE_MAX), places={kernels.ROWS: WHOLE}, at="counters"),
            "calibration": CALIBRATION,
        }
    )

    further_columns: ClassVar = 1

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        params = spec.params
        rate = params.get("forgetting_rate")
        self.rate: float | None = None if rate is None else max(rate, RATE_MIN)
        self.discount = 1.0 if self.rate is None else 1.0 - self.rate
        self._step = 0.0 if self.rate is None else -math.log1p(-self.rate)
        self.variance = max(params["initial_variance"] * (1.0 if self.rate is None else self.rate), VARIANCE_MIN)  # q0
        self.constants = self.discount, self._step, LEAK_SIZE / (self.rate or 1.0), 1.0 / self.variance
        D = self.W.shape[1]
        self._refresh_rows = refresh_rows(D)
        self.block_rows_min = ROWS_MIN if D >= COLUMNS_MIN else math.inf  # rows from which matrix products learn them
        self.Q = diagonal_matrix(np.full(D, self.variance))
        self.R = diagonal_matrix(np.full(D, 1.0 / self.variance))
        self.mean_square = np.zeros(D)
        self.counters = np.array([0.0, 0.0, 1.0, 0.0])
        self.calibration = fresh_calibration()

    def add_class(self) -> None:
        """A new class starts from the column u of a class not seen yet; the third makes [w, u] into [-w, w, u, u]."""
        self.classes += 1
        known, unseen = self.W[:-1], self.W[-1:]
        self.W = np.concatenate([with_class(known, self.classes, unseen), unseen])

    def predict(self, X: Floats) -> Prediction:
        """A-priori predictions for X (n, d); see ``core.contract.Learner``."""
        scores, std = self.scores(X)
        if self.regression:
            return Prediction(scores[:, 0], None, std)
        return Prediction(*classify(scores, self.classes, self.calibration))

    def learn(
        self, X: Floats, y: NDArray[Any], discounts: Floats | None = None, weights: Floats | None = None
    ) -> Prediction:
        """Test, then train on X (n, d), y (n,); see ``core.contract.Learner``."""
        numbers = np.ascontiguousarray(y, dtype=np.float64)
        given = _NONE if weights is None else weights
        scores, std = self.absorb(X, numbers, discounts, given)
        if self.regression:
            return Prediction(scores[:, 0], None, std)
        return Prediction(*classify_and_fit(scores, numbers, self.classes, self.calibration, given))

    def scores(self, X: Floats) -> Predicted:
        """w_k'x as (n, m) and the predictive deviations (n,), (0,) for classification; changes nothing."""
        scores, std = self.empty(X.shape[0])
        kernels.predict_rows(X, self.W, self.Q, self.counters, self.discount, scores, std)
        return scores, std

    def absorb(
        self,
        X: Floats,
        y: Floats,
        discounts: Floats | None = None,
        weights: Floats = _NONE,
        into: Predicted | None = None,
    ) -> Predicted:
        """Learn rows with y (n,) numbers, or class indices as floats; the ``scores`` each had before it was learned.

        Weights are (n,), or (0,): every row counts once.
        """
        n, row, refreshed, constants = X.shape[0], 0, False, self.constants
        predicted = into or self.empty(n)
        rows = X, y, _NONE if discounts is None else discounts, weights
        if n >= self.block_rows_min:
            self._learn_blocks(rows, predicted)
            return predicted
        state = self.W, self.Q, self.R, self.mean_square, self.counters
        while row < n:
            row, reason = learn_rows(rows, state, predicted, constants, self._refresh_rows, row, n, refreshed)
            refreshed = reason == kernels.SPOILED
            if reason != DONE:
                self.refresh(leaks=reason == kernels.LEAK)
        return predicted

    def _learn_blocks(self, rows: Rows, predicted: Predicted) -> None:
        """Learn all rows in blocks; between them only the upper triangle of Q is kept up."""
        X, y, discounts, weights = rows
        n, D = X.shape[0], self.W.shape[1]
        lams, steps = discounting(discounts, n, self.discount, self._step)
        weights = weights if len(weights) else np.ones(n)
        row = 0
        while row < n:
            end, reason = next_block(lams, steps, self.counters, row, self._step, block_rows(D), self._refresh_rows)
            part = slice(row, end)
            T = targets(y[part], self.W.shape[0], self.regression)
            block = Block(with_bias(X[part], D), T, lams[part], steps[part], weights[part])
            self._learn_block(rows, predicted, block, row, reason)
            row = end
        mirror_upper(self.Q)

    def _learn_block(self, rows: Rows, predicted: Predicted, block: Block, start: int, reason: int) -> None:
        """Learn the rows from ``start`` on as one block, or as two halves where that fails, down to single rows."""
        end = start + len(block.X)
        scores, std = predicted
        into, follows = (scores[start:end], std[start:end]), reason != DONE
        state = self.W, self.Q, self.R, self.mean_square, self.counters
        if end - start < ROWS_MIN:
            mirror_upper(self.Q)
            X, y, discounts, weights = (own[start:end] for own in rows)
            self.absorb(X, y, discounts, weights, into)
        elif learn_block(block, state, into, self.discount, inverse_follows=follows):
            if follows:
                self.refresh(leaks=reason == kernels.LEAK)
        else:
            half = (end - start) // 2
            first, second = Block(*(own[:half] for own in block)), Block(*(own[half:] for own in block))
            self._learn_block(rows, predicted, first, start, DONE)
            self._learn_block(rows, predicted, second, start + half, reason)

    def forget(self) -> None:
        """One strong discount: the past counts for a tenth of as many rows as there are columns; weights stay."""
        D = self.W.shape[1]
        window = self.counters[kernels.ROWS] if self.rate is None else min(self.counters[kernels.ROWS], 1.0 / self.rate)
        discount = min(max(FORGOTTEN_ROWS * D / max(window, 1.0), FORGET_MIN), 1.0)
        if discount < 1.0:
            self.R *= discount
            self.counters[kernels.FORGOTTEN] -= math.log(discount)
            self.refresh(leaks=self.counters[kernels.FORGOTTEN] + self._step > kernels.LEAK_AFTER)

    def info(self) -> Header:
        """Rows learned, the effective window 1/mu (None: all rows) and, for regression, the noise deviation."""
        seen: Header = {
            "rows": int(self.counters[kernels.ROWS]),
            "effective_window": None if self.rate is None else 1.0 / self.rate,
        }
        if self.regression:
            seen["noise_std"] = math.sqrt(self.counters[kernels.NOISE]) if self.counters[kernels.ROWS] else None
        return seen

    @property
    def rows(self) -> int:
        """Rows learned."""
        return int(self.counters[kernels.ROWS])

    def empty(self, n: int) -> Predicted:
        """Room for the scores and deviations of n rows: a column, or from three classes on one per class."""
        if self.regression:
            return np.empty((n, 1)), np.empty(n)
        return np.empty((n, len(self.W) - self.further_columns)), _NONE

    def refresh(self, leaks: bool) -> None:
        """Q <- R^{-1}, in place; before that, where the grid asks for it, the leak into the diagonal of R."""
        if leaks:
            _, _, leak_size, fresh = self.constants
            kernels.leak(self.R, self.mean_square, self.counters, leak_size, fresh)
        self.Q[:] = spd_inverse(self.R)
