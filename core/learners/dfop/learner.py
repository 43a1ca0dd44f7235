r"""DFOP, G-DFOP and RLS: least squares over a stream, older rows counting less and less.

After t rows the weights w of one output column are exactly the minimiser of

    sum_{i<=t} c_i (y_i - w'x_i)^2  +  c_0 |w|^2 / q0,        c_i = lam_{i+1} lam_{i+2} ... lam_t

    dfop    lam = 1 - mu, q0 = mu p0        mu: the forgetting rate (bank.py: "auto"), p0: initial variance
    gdfop   the same, but a row may bring its own lam_i in (0, 1]
    rls     lam = 1,      q0 = p0

and are kept up to date without storing a row. With Q = mu P (the paper's P), R = Q^{-1}, Q_0 = q0 I, per row:

    q = Q x          g = x'q                            the row's uncertainty under the weights so far
    e_k = y_k - w_k'x                                   innovation of column k; w_k'x is the a-priori prediction
    w_k <- w_k + q e_k / (lam + g)                      Journal Algorithm 1, line 4
    Q <- (Q - q q' / (lam + g)) / lam                   Journal Algorithm 1, line 3
    R <- lam R + x x'                                   the same in information form

**Q and R.** R is the truth: a sum of squares that round-off cannot spoil. Q is refreshed from it (core.numerics.linalg)
at every absolute row number divisible by 4096, after every leak, and whenever a row shows that round-off has made Q
indefinite (x'Qx < 0, or (e_i'Qx)^2 > 4 Q_ii x'Qx for a unit vector e_i, which no covariance allows).
4096 rows are few enough to bound the drift of Q where nothing is forgotten (an error of some 4096 ulp); from 256
columns on it is 32 768, so that the O(D^3) of a refresh stays small beside the rows' O(D^2). Of R only the upper
triangle is kept.

**Rows and blocks.** Below 256 columns, and in blocks of fewer than 16 rows, a compiled loop learns row by row
(kernels.py): however calls are cut, the same bits. Otherwise blocks are learned by matrix products (blocks.py),
which end at absolute row numbers, at leaks and refreshes, and at the end of a call. The same calls then give the same
bits; another cut gives the same numbers to round-off: on exciting rows about 1e-14 for mu = .01, 2e-13 for .1, 3e-11
for .5, on exactly collinear ones 3e-11, 2e-8, 2e-7.

**Leak.** Where the rows say nothing about a direction, forgetting drives R to zero there and Q to infinity. So once
per forgetting interval a little is put back, with the weights unchanged. When the accumulated -ln(lam) since the
last leak would pass 6.9 with one more ordinary row (for a constant lam: at every t divisible by
B = floor(6.9 / -ln(1 - mu)), at least 9 as mu <= 1/2), with c = the product of the lam since:

    R_jj += (1 - c) (1e-6 / mu) s_j     if s_j > 0, the mean of x_j^2 over all rows, undiscounted and winsorised
    R_jj += (1 - c) / q0                else, which returns R_jj to its start

Winsorised: once s_j > 0, the x_j^2 of row t counts at most 1e4 s_j, so one row multiplies s_j by 1 + 1e4/t at most. A
single row of 1e8 would otherwise make the leak so large, for as many rows as it was times too large, that the weight
stood still; yet a real change of scale is followed within some rows. A first row is taken whole.

**Classes.** One Q serves all, for it depends on x only. Up to two classes have one column (class 0 is -1, class 1 is
+1); from the third on there is one column per class (its own class +1, all others -1). Beside them stands the
column u of *a class not seen yet*, trained on the constant -1. It costs O(d) a row and makes late classes exact:
a class that appears is given u, which is what one-versus-rest would have learned for it, and at the third class
w becomes [-w, w, u], because targets that change their sign change the sign of their weights. In terms of
R: with a bias column b, and without leaks, R u = -sum c_i x_i = -(R - c_0 I / q0) b, so u = -(b - c_0 Q b / q0);
the carried column also holds where there is no bias, and through leaks.

**Probabilities.** p_k ~ exp(a s_k), with one slope a learned from the stream (core.learners.calibration). The predicted
class is the most probable one, of equals the first: that of the largest score.

**Forget** (what a model may do when it drifts): R is discounted once, weights unchanged, so that the past, which
counted as min(rows, 1/mu), weighs as much as D/10 rows do. After new weights (d = 4) the squared error of the first 50
rows falls from 6.8 to .58 for mu = .001 (a reset: .31) and from .80 to .59 for the bank (.28).

**Predictive deviation** (regression): sqrt(v (1 + g/lam)). e^2 / (1 + g/lam) estimates the noise variance v; each row
votes with the weight a = 1/(1 + g/lam), small for rows that mostly discover the weights (the first ones); the
deviation is told with the default lam, since a prediction does not know what discount its row will bring:

    A <- lam A + a,     v <- v + (a / A) (a e^2 - v),     v = 1 until the first row

**Any finite input.** Rows larger than 1e75 in x or y are scaled down as a whole, which is least squares with a smaller
weight. Innovations are held within 1e90, weights within 1e200, predictions within 1e300, s_j > 0 above 1e-60, q0
above 1e-60, and lam above 1e-3 (a single row that forgets nearly everything; the leak follows it at once).

Source: Zhao, Wang, Xie, Guo, Zhou: Distribution-Free One-Pass Learning, IEEE TKDE 33(3), 2021: (2), (3), Algorithm 1.

Deviations from the paper
- Predictions are a-priori, made before the row is learned; Algorithm 1 prints y-hat after the update. The paper's own
  figures are a-priori ones.
- A bias column by default; without it 1CDT falls from 99.9 to 75.1 %.
- The leak, the refresh and the limits above; the plain recursion overflows on uninformative rows.
- RLS is not Algorithm 1 with mu = 0 (nothing would move) but lam = 1 with Q_0 = p0 I.
- More than two classes, probabilities and the predictive deviation are not in the paper.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header, Prediction, Spec, Weights
from core.learners.calibration import CALIBRATION, classify, classify_and_fit, fresh_calibration
from core.learners.classes import CLASS_BOUND, column_count, linear_model, with_class
from core.learners.dfop.blocks import (
    COLUMNS_MIN,
    ROWS_MIN,
    Block,
    State,
    Told,
    block_rows,
    discounting,
    learn_block,
    next_block,
    targets,
    with_bias,
)
from core.learners.dfop.kernels import (
    DONE,
    FORGOTTEN,
    LEAK,
    LEAK_AFTER,
    NOISE,
    ROWS,
    SPOILED,
    STATE_MAX,
    leak,
    learn_rows,
    predict_rows,
)
from core.numerics.linalg import mirror_upper, spd_inverse
from core.state.layout import POSITIVE, WHOLE, Array, Layout, Range, Symmetric, counts

LEAK_SIZE = 1e-6
FORGOTTEN_ROWS = 0.1
"""Rows per column that the past is worth after ``forget``."""
FORGET_MIN = 1e-9
VARIANCE_MIN = 1e-60
RATE_MIN = 1e-12

_NO_DISCOUNTS = np.empty(0)


class _Rows(NamedTuple):
    """What one call learns, and where its answers go: see ``core.learners.dfop.kernels.learn_rows``."""

    X: Floats
    y: Floats
    discounts: Floats
    scores: Floats
    std: Floats


def refresh_rows(columns: int) -> int:
    """Rows between two refreshes of Q where no leak asks for one: 4096, many columns 32 768."""
    return 4096 if columns < COLUMNS_MIN else 32_768


class Dfop:
    """The learner behind ``dfop``, ``gdfop`` and ``rls``; without a ``forgetting_rate`` in its parameters it is RLS.

    State, for D = d plus one where there is a bias column (the last one):
        W (m, D)       weight columns; regression: one; classification: one up to two classes, else one per
                       class, and in either case a last one for a class not seen yet
        Q, R (D, D)    covariance, exactly symmetric, and its inverse, upper triangle
        power (D,)     s_j
        tally (4,)     see ROWS, FORGOTTEN, NOISE, VOTES
        calibration    slope and curvature of the probabilities (core.learners.calibration)
    """

    layout: ClassVar = Layout(
        {
            "weights": Array("columns", "D", within=STATE_MAX, at="W"),
            "covariance": Symmetric("D", within=STATE_MAX, at="Q"),
            "precision": Symmetric("D", within=STATE_MAX, diagonal=POSITIVE, at="R"),
            "power": Array("D", within=Range(0.0, STATE_MAX)),
            "tally": Array(4, within=Range(0.0, STATE_MAX), places={ROWS: WHOLE}),
            "calibration": CALIBRATION,
        }
    )

    object_bytes: ClassVar = 1000
    """Memory of the objects around the arrays, measured with 10 000 models in one process."""

    @staticmethod
    def sizes(spec: Spec, classes: int) -> dict[str, int]:
        """The sizes of the layout."""
        columns = _all_columns(spec.task == "regression", classes)
        return {"columns": columns, "D": spec.dimension + bool(spec.params["bias"])}

    def __init__(self, spec: Spec) -> None:
        params = spec.params
        rate = params.get("forgetting_rate")
        self.rate: float | None = None if rate is None else max(rate, RATE_MIN)
        self.discount = 1.0 if self.rate is None else 1.0 - self.rate
        self._step = 0.0 if self.rate is None else -math.log1p(-self.rate)
        self.variance = max(params["initial_variance"] * (1.0 if self.rate is None else self.rate), VARIANCE_MIN)  # q0
        self._leak_size, self._fresh = LEAK_SIZE / (self.rate or 1.0), 1.0 / self.variance
        self.dimension = spec.dimension
        self.regression = spec.task == "regression"
        self.classes = 0
        D = spec.dimension + bool(params["bias"])
        self._refresh_rows = refresh_rows(D)
        self.W = np.zeros((1 if self.regression else 2, D))
        self.Q = np.diag(np.full(D, self.variance))
        self.R = np.diag(np.full(D, 1.0 / self.variance))
        self.power = np.zeros(D)
        self.tally = np.array([0.0, 0.0, 1.0, 0.0])
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

    def learn(self, X: Floats, y: NDArray[Any], discounts: Floats | None = None) -> Prediction:
        """Test, then train on X (n, d), y (n,); see ``core.contract.Learner``."""
        numbers = np.ascontiguousarray(y, dtype=np.float64)
        scores, std = self.absorb(X, numbers, discounts)
        if self.regression:
            return Prediction(scores[:, 0], None, std)
        return Prediction(*classify_and_fit(scores, numbers, self.classes, self.calibration))

    def scores(self, X: Floats, into: tuple[Floats, Floats] | None = None) -> tuple[Floats, Floats]:
        """w_k'x as (n, m) and the predictive deviations (n,), (0,) for classification; changes nothing."""
        scores, std = into or self.empty(X.shape[0])
        predict_rows(X, self.W, self.Q, self.tally, self.discount, scores, std)
        return scores, std

    def absorb(
        self, X: Floats, y: Floats, discounts: Floats | None = None, into: tuple[Floats, Floats] | None = None
    ) -> tuple[Floats, Floats]:
        """Learn rows with y (n,) numbers, or class indices as floats; the ``scores`` each had before it was learned."""
        told = into or self.empty(X.shape[0])
        rows = _Rows(X, y, _NO_DISCOUNTS if discounts is None else discounts, *told)
        if self.W.shape[1] >= COLUMNS_MIN and X.shape[0] >= ROWS_MIN:
            self._learn_blocks(rows)
        else:
            self._learn_rows(rows, 0, X.shape[0])
        return told

    def _learn_rows(self, rows: "_Rows", row: int, stop: int) -> None:
        """Learn rows ``row`` to ``stop`` one by one, refreshing Q where that is due."""
        refreshed = False
        while row < stop:
            row, reason = learn_rows(
                rows.X, rows.y, rows.discounts, self.W, self.Q, self.R, self.power, self.tally, rows.scores, rows.std,
                row, stop, refreshed, self.discount, self._step, self._leak_size, self._fresh, self._refresh_rows,
            )  # fmt: skip
            refreshed = reason == SPOILED
            if reason != DONE:
                self._refresh(leaks=reason == LEAK)

    def _learn_blocks(self, rows: "_Rows") -> None:
        """Learn all rows in blocks; between them only the upper triangle of Q is kept up."""
        n, D = rows.X.shape[0], self.W.shape[1]
        lams, steps = discounting(rows.discounts, n, self.discount, self._step)
        row = 0
        while row < n:
            end, reason = next_block(lams, steps, self.tally, row, self._step, block_rows(D), self._refresh_rows)
            part = slice(row, end)
            T = targets(rows.y[part], self.W.shape[0], self.regression)
            self._learn_block(rows, Block(with_bias(rows.X[part], D), T, lams[part], steps[part]), row, reason)
            row = end
        mirror_upper(self.Q)

    def _learn_block(self, rows: "_Rows", block: Block, start: int, reason: int) -> None:
        """Learn the rows from ``start`` on as one block, or as two halves where that fails, down to single rows."""
        end = start + len(block.X)
        part = slice(start, end)
        if end - start < ROWS_MIN:
            mirror_upper(self.Q)
            self._learn_rows(rows, start, end)
        elif learn_block(
            block,
            State(self.W, self.Q, self.R, self.power, self.tally),
            Told(rows.scores[part], rows.std[part]),
            self.discount,
            inverse_follows=reason != DONE,
        ):
            if reason != DONE:
                self._refresh(leaks=reason == LEAK)
        else:
            half = (end - start) // 2
            self._learn_block(rows, Block(*(array[:half] for array in block)), start, DONE)
            self._learn_block(rows, Block(*(array[half:] for array in block)), start + half, reason)

    def forget(self) -> None:
        """One strong discount: the past counts for a tenth of as many rows as there are columns; weights stay."""
        D = self.W.shape[1]
        window = self.tally[ROWS] if self.rate is None else min(self.tally[ROWS], 1.0 / self.rate)
        discount = min(max(FORGOTTEN_ROWS * D / max(window, 1.0), FORGET_MIN), 1.0)
        if discount < 1.0:
            self.R *= discount
            self.tally[FORGOTTEN] -= math.log(discount)
            self._refresh(leaks=self.tally[FORGOTTEN] + self._step > LEAK_AFTER)

    def weights(self) -> Weights:
        """One row per output in its own terms: for two classes, -w and w."""
        if self.regression:
            return linear_model(self.W, self.dimension, None)
        return linear_model(self.W[:-1], self.dimension, self.classes)

    def info(self) -> Header:
        """Rows learned, the effective window 1/mu (None: all rows) and, for regression, the noise deviation."""
        seen: Header = {
            "rows": int(self.tally[ROWS]),
            "effective_window": None if self.rate is None else 1.0 / self.rate,
        }
        if self.regression:
            seen["noise_std"] = math.sqrt(self.tally[NOISE]) if self.tally[ROWS] else None
        return seen

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return self.layout.held_bytes(self) + self.object_bytes

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state; Q and R as packed triangles."""
        return self.layout.to_arrays(self), {"classes": self.classes}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state of ``to_arrays``.

        Raises:
            ValueError: what no state of this spec can be; nothing has changed.
        """
        (classes,) = counts(header, classes=0 if self.regression else CLASS_BOUND)
        self.layout.load(self, arrays, columns=_all_columns(self.regression, classes), D=self.W.shape[1])
        self.classes = classes

    @property
    def columns(self) -> int:
        """Columns that make predictions: one, or from three classes on one per class."""
        return column_count(self.classes)

    def empty(self, n: int) -> tuple[Floats, Floats]:
        """Room for the scores and deviations of n rows."""
        return np.empty((n, self.columns)), np.empty(n if self.regression else 0)

    def _refresh(self, leaks: bool) -> None:
        """Q <- R^{-1}; before that, where the grid asks for it, the leak into the diagonal of R."""
        if leaks:
            leak(self.R, self.power, self.tally, self._leak_size, self._fresh)
        self.Q = spd_inverse(self.R)


def _all_columns(regression: bool, classes: int) -> int:
    """Weight columns of a state, the one for a class not seen yet included."""
    return 1 if regression else column_count(classes) + 1
