r"""The learner behind the DFOP family; kernels.py has the papers' equations and notation, bank.py those of "auto".

**Rows and blocks.** Below 256 columns, and in blocks of fewer than 16 rows, a compiled loop learns row by row: the bits
do not depend on how calls are cut. Otherwise blocks are learned by matrix products (blocks.py): the same calls give the
same bits, and other cuts give the same numbers to round-off.

**Classes.** One Q serves all columns, since it depends on x only; columns grow as in core.learners.linear. One more, u,
is for a class not seen yet, trained on the constant target -1: a class that appears starts from u, which is exactly
what one-versus-rest would have learned for it.

**Forget** discounts R once, weights unchanged, so that the past, which counted as min(rows, 1/mu), weighs as much as
D/10 rows. The weights of the members stay, since all now adapt equally fast.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from core.contract import WEIGHT_MAX, Floats, Header, Ints, Prediction, Spec, chunks, unlike
from core.learners.calibration import CALIBRATION, fresh_calibration
from core.learners.dfop import bank, blocks, kernels
from core.learners.dfop.blocks import Block
from core.learners.dfop.kernels import DONE, FORGOTTEN, LEAK, REFRESH, SPOILED, Forecasts, GivenRows
from core.learners.learner import KEPT_ROWS, NO_VALUE, NONE_GIVEN, NONE_TOLD
from core.learners.linear import LinearLearner, as_views, column_count, linear_model, with_class
from core.learners.posterior import View, spectral_norm
from core.numerics.linalg import mirror_upper, spd_inverse
from core.numerics.weighting import take_shares
from core.state.layout import POSITIVE, WHOLE, Array, Counts, Layout, Range, Shares, Symmetric

RATES = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 0.5)
"""Forgetting rates of the members of "auto"; 0 is RLS."""
RATE_COLUMNS_MAX = 30.0
"""Largest rate times columns: beyond it refreshes would cost more than rows, for windows of few rows per column."""
LEAK_SIZE = 1e-6
FORGOTTEN_ROWS = 0.1  # rows per column that the past counts for after ``forget``
FORGET_MIN = 1e-9
VARIANCE_MIN = 1e-60
RATE_MIN = 1e-12
KEPT_MAX = 64  # most scores of members that are kept with a tracked row: of up to six classes if there are ten members


def refresh_rows(columns: int) -> int:
    """Rows between two refreshes of Q unless a leak needs one: 4096, for many columns 32 768."""
    return 4096 if columns < blocks.COLUMNS_MIN else 32_768


def rates_of(spec: Spec) -> tuple[float, ...]:
    """The forgetting rate of every member; 0: RLS."""
    rate = spec.params.get("forgetting_rate", 0.0)
    columns = spec.dimension + bool(spec.params["bias"])
    return tuple(one for one in RATES if one * columns <= RATE_COLUMNS_MAX) if rate == "auto" else (rate,)


class Dfop(LinearLearner):
    """The learner behind ``dfop``, ``gdfop``, ``rls`` and ``sparse_dfop``; without a ``forgetting_rate`` RLS, (1).

    State, for K members, one per rate, and D = d plus one if there is a bias column (the last one):
        W (K, m, D)    weight columns; regression: one; classification: one up to two classes, else one per class,
                       and always a last one for a class not seen yet
        Q, R (K, D, D) covariance, exactly symmetric, and its inverse, upper triangle; Q_0 = q0 I (Algorithm 1, line 1)
        mean_square (K, D)    s_j
        counters (K, 4)       see ROWS, FORGOTTEN, NOISE, EFFECTIVE_ROWS
        mixing (K,)           the members' weights v
        loss (2,), span (2,)  D and the largest weight, and least and largest label of a regression; zeros if there is
                       one member
        calibration    of the probabilities (core.learners.calibration)
    """

    layout: ClassVar = Layout(
        weights=Array("K", "columns", "D", within=kernels.STATE_MAX, at="W"),
        covariance=Symmetric("K", "D", within=kernels.STATE_MAX, at="Q"),
        precision=Symmetric("K", "D", within=kernels.STATE_MAX, diagonal=POSITIVE, at="R"),
        power=Array("K", "D", within=Range(0.0, kernels.STATE_MAX), at="mean_square"),
        tally=Array("K", 4, within=Range(0.0, kernels.STATE_MAX), places={kernels.ROWS: WHOLE}, at="counters"),
        mixing=Shares("K"),
        loss=Array(2, places={0: Range(0.0, kernels.PREDICTION_MAX), 1: Range(0.0, WEIGHT_MAX)}),
        span=Array(2, ordered=[(0, 1)]),
        calibration=CALIBRATION,
    )

    further_columns: ClassVar = 1

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.rates = rates_of(spec)
        rates = [max(rate, RATE_MIN) if rate else 0.0 for rate in self.rates]
        q0 = np.array([max(spec.params["initial_variance"] * (rate or 1.0), VARIANCE_MIN) for rate in rates])
        steps = [-math.log1p(-rate) for rate in rates]
        constants = 1.0 - np.array(rates), steps, [LEAK_SIZE / (rate or 1.0) for rate in rates], 1.0 / q0
        self.constants = np.stack(constants, axis=1)  # see kernels.DISCOUNT
        K, _, D = self.W.shape
        self._refresh_rows = refresh_rows(D)
        self.block_rows_min = blocks.ROWS_MIN if D >= blocks.COLUMNS_MIN else math.inf
        self.Q, self.R = np.zeros((2, K, D, D))
        self.Q[:, range(D), range(D)] = q0[:, None]
        self.R[:, range(D), range(D)] = 1.0 / q0[:, None]
        self.mean_square = np.zeros((K, D))
        self.counters = np.tile([0.0, 0.0, 1.0, 0.0], (K, 1))
        self.mixing, self.loss, self.span = np.full(K, 1.0 / K), np.zeros(2), np.zeros(2)
        self.calibration = fresh_calibration()
        self._join()

    def _join(self) -> None:
        """Hold all numbers in one array (bank.py): a kernel takes one argument faster than many."""
        K, columns, D = self.W.shape
        outputs = columns - (0 if self.regression else self.further_columns)
        self._head = np.array([K, D, outputs, self.regression, self._refresh_rows], dtype=np.float64)
        self._numbers = np.hstack([self.counters, self.constants])
        shared = "_head", "loss", "span", "calibration", "mixing"
        self._bank = as_views(self, shared, ("_numbers", "mean_square", "Q", "R", "W"))
        self.counters = self._numbers[:, :4]
        self._rows_at_once = 1 if K > 1 else math.inf
        self._scores = K * (outputs + self.regression) if K > 1 or not self.regression else 0
        self._kept = K * outputs if K > 1 and K * outputs <= KEPT_MAX else 0

    @classmethod
    def sizes(cls, spec: Spec, classes: int) -> dict[str, int]:
        """The sizes of the layout."""
        return {"K": len(rates_of(spec)), **super().sizes(spec, classes)}

    @classmethod
    def row_cost(cls, spec: Spec, classes: int) -> float:
        """8 D^2 + 5 D per column and member, its share of the refreshes (D^3 each), and about ten per mixed score."""
        K, columns, D = cls.sizes(spec, classes).values()
        steps = [-math.log1p(-rate) for rate in rates_of(spec)]
        refreshes = sum(max(step / kernels.LEAK_AFTER, 1 / refresh_rows(D)) for step in steps)
        mixture = 10.0 * K * max(classes, 1) if K > 1 else 0.0
        return K * (8.0 * D * D + 5.0 * D * columns) + refreshes * float(D) ** 3 + mixture

    @classmethod
    def row_exact(cls, spec: Spec) -> bool:
        """Whether rows are learned one by one: many columns are learned in blocks, by matrix products."""
        return cls.sizes(spec, 0)["D"] < blocks.COLUMNS_MIN

    def add_class(self) -> None:
        """A new class starts from the column u of a class not seen yet; the third turns [w, u] into [-w, w, u, u]."""
        self.classes += 1
        self.W = np.stack([np.vstack([with_class(w[:-1], self.classes, w[-1:]), w[-1:]]) for w in self.W])
        self._join()

    def extend(self, other: Self, places: Ints) -> None:
        """Continue from a learner with fewer columns; see ``core.contract.Extensible``."""
        super().extend(other, places)
        self._join()

    deviates: ClassVar = True

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
        """See ``RowLearner``, and for ``past`` its ``learn``; with several members, in chunks."""
        n, member = X.shape[0], 0
        if n > self._rows_at_once and len(parts := chunks(self.rows, bank.CHUNK_ROWS, n)) > 1:
            kept: list[Any] = []
            for part in parts:
                own = np.empty((2, part.stop - part.start)) if self.regression else out[part]
                told = None if past is None else past[part]
                found = self.run_rows(X[part], y[part], discounts[part], weights[part], value[part], own, told)
                kept.append(found if n <= KEPT_ROWS else None)
                if self.regression:
                    out[:, part] = own
            return None if kept[0] is None else np.concatenate(kept)
        scores = np.empty(n * self._scores) if self._scores else NONE_GIVEN
        if not len(y):
            bank.predict_rows(self._bank, X, scores, value, out)
            if not self._kept:
                return None
            P = scores[: n * self._kept]
            return P.reshape(len(self.rates), n, -1).swapaxes(0, 1).reshape(n, -1) if n > 1 else P.reshape(1, -1)
        if n >= self.block_rows_min:
            member = len(self.rates)
            for k, predicted in enumerate(zip(*bank.predicted_by_members(self._bank, scores, out, n), strict=True)):
                self._learn_blocks(k, (X, y, discounts, weights), predicted)
        told = NONE_TOLD if past is None else np.ascontiguousarray(past)
        self._learn_in_turn((X, y, discounts, weights), told, (scores, value, out), member, only=False)
        return None

    def past(self, prediction: Prediction, row: int) -> tuple[float, ...] | None:
        """What to keep with one row of ``predict`` until its label comes: the members' scores."""
        return None if prediction.experts is None else tuple(prediction.experts[row].tolist())

    def returned_past(self, kept: Sequence[tuple[float, ...] | None]) -> Floats:
        """What ``past`` has kept for rows, (n, K m); NaN for rows without, or with scores of fewer classes."""
        found = np.full((len(kept), self._kept), np.nan)
        for row, own in enumerate(kept):
            if own is not None and len(own) == self._kept and np.isfinite(own).all():
                found[row] = own
        return found

    def _learn_in_turn(
        self, rows: GivenRows, told: Floats, written: tuple[Floats, Ints, Floats], member: int, *, only: bool
    ) -> None:
        """Learn rows one by one: all members from ``member`` on, or ``only`` that one; refreshes Q above 32 columns."""
        row, reason = 0, REFRESH
        while reason != DONE:
            spoiled = reason == SPOILED
            member, row, reason = bank.learn_rows(self._bank, *rows, told, *written, member, row, spoiled, only)
            if reason != DONE:
                self._refresh(member, leaks=reason == LEAK)

    def _member(self, k: int) -> kernels.MemberState:
        return self.W[k], self.Q[k], self.R[k], self.mean_square[k], self.counters[k]

    def _learn_blocks(self, k: int, rows: GivenRows, predicted: Forecasts) -> None:
        """Let one member learn all rows in blocks; between blocks only the upper triangle of Q is up to date."""
        X, y, discounts, weights = rows
        n, D, counters = X.shape[0], self.W.shape[2], self.counters[k]
        lam, step = self.constants[k, :2].tolist()
        lams, steps = blocks.discounting(discounts, n, lam, step)
        weights = weights if len(weights) else np.ones(n)
        row = 0
        while row < n:
            end, reason = blocks.next_block(lams, steps, counters, row, step, blocks.block_rows(D), self._refresh_rows)
            part = slice(row, end)
            T = blocks.targets(y[part], self.W.shape[1], self.regression)
            block = Block(blocks.with_bias(X[part], D), T, lams[part], steps[part], weights[part])
            self._learn_block(k, rows, predicted, block, row, reason)
            row = end
        mirror_upper(self.Q[k])

    def _learn_block(
        self, k: int, rows: GivenRows, predicted: Forecasts, block: Block, start: int, reason: int
    ) -> None:
        """Learn the rows from ``start`` on as one block, or as two halves if that fails, down to single rows."""
        end = start + len(block.X)
        scores, std = predicted
        into, follows = (scores[start:end], std[start:end]), reason != DONE
        if end - start < blocks.ROWS_MIN:
            mirror_upper(self.Q[k])
            X, y, discounts, weights = (own[start:end] for own in rows)
            self._learn_one_by_one(k, (X, y, discounts, weights), into)
        elif blocks.learn_block(block, self._member(k), into, float(self.constants[k, 0]), inverse_follows=follows):
            if follows:
                self._refresh(k, leaks=reason == LEAK)
        else:
            half = (end - start) // 2
            first, second = Block(*(own[:half] for own in block)), Block(*(own[half:] for own in block))
            self._learn_block(k, rows, predicted, first, start, DONE)
            self._learn_block(k, rows, predicted, second, start + half, reason)

    def _learn_one_by_one(self, k: int, rows: GivenRows, predicted: Forecasts) -> None:
        """Let one member learn rows one after another."""
        n = len(rows[0])
        scores, out = np.empty(n * self._scores), np.empty((2, n) if self.regression else (0, 0))
        self._learn_in_turn(rows, NONE_TOLD, (scores, NO_VALUE, out), k, only=True)
        for into, own in zip(predicted, bank.predicted_by_members(self._bank, scores, out, n), strict=True):
            into[:] = own[k]

    def _refresh(self, k: int, leaks: bool) -> None:
        """Q <- R^{-1}, in place; with ``leaks``, the leak goes into the diagonal of R before that."""
        if leaks:
            bank.leak(self._bank, k)
        self.Q[k] = spd_inverse(self.R[k])

    def forget(self) -> None:
        """One strong discount: the past then counts for a tenth as many rows as there are columns; weights stay."""
        D, steps = self.W.shape[2], self.constants[:, 1].tolist()
        for k, rate in enumerate(self.rates):
            window = min(self.rows, 1.0 / max(rate, RATE_MIN)) if rate else self.rows
            discount = min(max(FORGOTTEN_ROWS * D / max(window, 1.0), FORGET_MIN), 1.0)
            if discount < 1.0:
                self.R[k] *= discount
                self.counters[k, FORGOTTEN] -= math.log(discount)
                self._refresh(k, leaks=self.counters[k, FORGOTTEN] + steps[k] > kernels.LEAK_AFTER)

    def mean_columns(self) -> Floats:
        """The members' weights, averaged by their shares: the linear model of the mixture if no score is clipped."""
        return np.tensordot(self.shares, self.W, 1)

    def posterior(self, view: View) -> Header:
        """Weights, covariance Q, its spectral norm and the noise variance v, for each rate if there are several.

        Q v is the covariance of the weights; Q is P in the arXiv version, and mu P in the journal's (kernels.py). For
        classes, whose targets are +-1, v is 1, the most it can be.
        """
        d, D = self.spec.dimension, self.W.shape[2]
        at, bias = (np.append(view.wanted, d), [unlike("bias", view.names)]) if d < D else (view.wanted, [])
        members = {f"{rate:g}": self._posterior(k, at, view) for k, rate in enumerate(self.rates)}
        names: Header = {"names": view.chosen + bias}
        if len(members) == 1:
            return names | members.popitem()[1]
        shares = zip(members, self.shares.tolist(), strict=True)
        return names | {"rates": {rate: {"share": share, **members[rate]} for rate, share in shares}}

    def _posterior(self, k: int, at: Ints, view: View) -> Header:
        columns = np.ascontiguousarray(self.W[k, : column_count(self.classes)][:, at])
        rows = linear_model(columns, len(at), None if self.regression else self.classes).coefficients
        return {
            "weights": dict(zip(view.outputs, rows, strict=True)),
            "covariance": view.matrix(self.Q[k], at),
            "noise_variance": self._noise[k],
            "norm": spectral_norm(self.Q[k]),
        }

    @property
    def _noise(self) -> list[float]:
        """The noise variance v of every member; for classes 1, the largest that targets of +-1 can have."""
        noise = np.minimum(self.counters[:, kernels.NOISE], kernels.PREDICTION_MAX)
        return noise.tolist() if self.regression else [1.0] * len(noise)

    def deviations(self) -> Floats:
        """Standard deviations of ``weights`` (m, d), including those between the members."""
        d = self.spec.dimension
        columns, shares = self.W[:, : column_count(self.classes), :d], self.shares
        within = np.array(self._noise)[:, None] * self.Q[:, range(d), range(d)]
        with np.errstate(over="ignore"):
            between = np.square(columns - np.tensordot(shares, columns, 1))
            variance = np.tensordot(shares, within[:, None] + between, 1)
        found = np.minimum(np.sqrt(variance), kernels.PREDICTION_MAX)
        return found if self.regression or self.classes > 2 else np.repeat(found, self.classes, axis=0)

    def info(self) -> Header:
        """Rows, the window 1 / (mean rate) (None: all rows), the members' rates and shares, a regression's noise."""
        shares = self.shares
        rate = float(shares @ np.array(self.rates))
        seen: Header = {"rows": self.rows, "effective_window": 1.0 / max(rate, RATE_MIN) if rate else None}
        if len(self.rates) > 1:
            seen |= {"forgetting_rates": [*self.rates], "forgetting_weights": shares.tolist()}
        if self.regression:
            seen["noise_std"] = math.sqrt(shares @ np.array(self._noise)) if self.rows else None
        return seen

    @property
    def shares(self) -> Floats:
        """The members' shares (K,) in a prediction."""
        if not self.regression:
            return self.mixing
        shares = np.empty_like(self.mixing)
        take_shares(self.mixing, shares)
        return shares

    @property
    def rows(self) -> int:
        """Rows learned."""
        return int(self.counters[0, kernels.ROWS])

    def _loaded(self) -> None:
        self._join()

    def _check(self, held: Mapping[str, Floats], _found: Counts) -> None:
        if np.ptp(held["counters"][:, kernels.ROWS]):
            raise ValueError("the members have not learned the same rows")
