r"""The learner behind VIGO, VIGOd and VIGOw; kernels.py has the paper's equations and notation.

    class predicted   (1), with c_k N_k(x), N_k the class's Gaussian
    probabilities     p_k ~ c_k t_k(x), t_k the Student-t density that is expected under N_k's posterior (gaussians.py)

The two differ for classes with few rows: the class predicted need not be the most probable one.

**VIGOd's tests** are (12), "class_mean", and for ``reset_on: "both"``, with a and b the shares of wrong a-priori labels
among the beta and the n rows, p that of both together, v = p (1 - p), L = ln(2 / .05):

    error_rate   b - a >= sqrt(2 v L / n_h) + 2 L / (3 n_h)

(12) is blind to changes that keep the class means: a moved boundary, a changed correlation or spread, swapped labels.
The error rate sees those.

**Ranges** are the declared ones and grow when exceeded; without a declaration those of the rows so far. One outlier
stays in the range and in the class's covariance for good, also in vigow: use ``scaling`` robust.

All rows go through one compiled loop (kernels.py), so the bits do not depend on how calls are cut.
"""

import math
from typing import ClassVar

import numpy as np

from core.contract import ALARM_COLUMNS_MAX, Alarm, Floats, Header, Ints, Spec
from core.learners.learner import RowLearner
from core.learners.posterior import View
from core.learners.vigo import kernels as at
from core.learners.vigo.gaussians import explain
from core.state.layout import NOT_NEGATIVE, POSITIVE, WHOLE, Array, Layout, Range, Triangle

STATS, FEATURES, COUNTERS = 14, 5, 3
STATE_MAX = 1e200
PRIOR_RANGES = 0.1
FLOOR = 0.01
ERROR_DELTA = 0.05


def nu_max(batch: float, D: int) -> float:
    """The cap of nu: two windows, and at least one window more than the D that it starts from."""
    return max(2.0 * batch, D + batch)


class Vigo(RowLearner):
    """The learner behind ``vigo``; the ranges of its spec are the declared ones.

    State: see ``core.learners.vigo.kernels.Gaussians``.
    """

    layout: ClassVar = Layout(
        scatter=Triangle("K", "D", within=STATE_MAX, at="A"),
        factor=Triangle("K", "D", within=STATE_MAX, diagonal=POSITIVE, at="L"),
        waiting=Triangle("K", "D", within=STATE_MAX, at="S"),
        means=Array("K", 4, "D", within=STATE_MAX),
        classes=Array(
            "K",
            STATS,
            within=STATE_MAX,
            places={at.NU: Range(1.0), at.ROWS: WHOLE, at.WAITING: WHOLE}
            | dict.fromkeys((at.BETA, at.SHARE, at.EXPONENT, at.RATIO), NOT_NEGATIVE),
            at="stats",
        ),
        features=Array(
            FEATURES,
            "D",
            within=STATE_MAX,
            places={at.SQUARES: NOT_NEGATIVE, at.KNOWN: NOT_NEGATIVE},
            axis=0,
            ordered=[(at.LOW, at.HIGH)],
        ),
        tally=Array(
            COUNTERS,
            within=Range(0.0, STATE_MAX),
            places={at.SEEN: WHOLE, at.STAGE: Range(0.0, 1.0, whole=True)},
            at="counters",
        ),
    )
    object_bytes: ClassVar = 2000
    kind: ClassVar = at.VIGO

    @classmethod
    def sizes(cls, spec: Spec, classes: int) -> dict[str, int]:
        """The sizes of the layout."""
        return {"K": classes, "D": spec.dimension}

    @classmethod
    def row_cost(cls, spec: Spec, classes: int) -> float:
        """A distance per class, S, and occasional factorisations.

        VIGO factors after a mistake, and at worst every row is one; the others factor after |B| rows. A factorisation
        counts three times its operations: it runs at a third of the speed of the products that other learners consist
        of.
        """
        D = float(spec.dimension)
        factored = 1.0 if cls.kind == at.VIGO else 1.0 / spec.params["batch_size"]
        return max(classes, 1) * (D * D + 2 * D + 50) + D * D + 10 * D + factored * (D**3 + 3 * D * D)

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        D = spec.dimension
        self.A, self.L, self.S = np.zeros((3, 0, D, D))
        self.means, self.stats, self.counters = np.zeros((0, 4, D)), np.zeros((0, STATS)), np.zeros(COUNTERS)
        self.features = np.zeros((FEATURES, D))
        for column, declared in enumerate(spec.ranges):
            if declared is not None:
                low, high = np.clip(declared, -at.ROW_MAX, at.ROW_MAX)
                self.features[[at.LOW, at.HIGH, at.KNOWN], column] = low, high, high - low
        self.constants = self._constants(spec)
        self._report = np.zeros((4, max(D, 6)))
        self._alarms: list[Alarm] = []

    @property
    def state(self) -> at.Gaussians:
        """The whole state."""
        arrays = self.A, self.L, self.S, self.means, self.stats, self.features, self.counters, self.constants
        return at.Gaussians(*arrays)

    def _constants(self, spec: Spec) -> Floats:
        """The constants of ``core.learners.vigo.kernels``, in its order."""
        params, D = spec.params, spec.dimension
        batch, paper = float(params["batch_size"]), params["variant"] == "paper"
        prior = PRIOR_RANGES if not paper else 1.0 if self.kind == at.VIGOD else 0.0
        known = self.kind, batch, paper, prior, 0.0 if paper else FLOOR, paper or params.get("reset") == "mean"
        mean_cut = math.log(4.0 * D / params["delta"]) if self.kind == at.VIGOD else 0.0
        error_cut = math.log(2.0 / ERROR_DELTA) if params.get("reset_on") == "both" else 0.0
        most = nu_max(batch, D) if self.kind == at.VIGOW and not paper else 0.0
        return np.array([*known, mean_cut, error_cut, most], dtype=np.float64)

    def add_class(self) -> None:
        """Add a class, which has a score from its first row on."""
        self.classes += 1
        for name in ("A", "L", "S", "means", "stats"):
            setattr(self, name, np.pad(getattr(self, name), [(0, 1)] + [(0, 0)] * (getattr(self, name).ndim - 1)))
        at.start_class(self.state, self.classes - 1)

    def run_rows(self, X: Floats, y: Floats, discounts: Floats, weights: Floats, value: Ints, out: Floats) -> None:
        """See ``RowLearner``. Takes no discounts or weights."""
        del discounts, weights
        if not len(y):
            at.predict_rows(X, self.L, self.means, self.stats, value, out)
            return
        n, row = X.shape[0], 0
        self._alarms = []
        state = self.A, self.L, self.S, self.means, self.stats, self.features, self.counters, self.constants
        while row < n:
            row, fired = at.learn_rows(X, y, *state, value, out, self._report, row)
            if fired:
                self._add_alarms(fired, row - 1, int(y[row - 1]))

    def _add_alarms(self, fired: int, row: int, k: int) -> None:
        """The alarms that the last test reported."""
        last = self._report[3]
        sizes = int(last[at.PAST]), int(last[at.RECENT])
        if fired & at.MEAN_ALARM:
            before, after, apart = self._report[:3, : self.spec.dimension]
            order = np.argsort(-apart, kind="stable")[:ALARM_COLUMNS_MAX]
            moved = order[apart[order] >= last[at.CUT_MEAN]]
            means = tuple(before[moved].tolist()), tuple(after[moved].tolist())
            self._alarms.append(
                Alarm("class_mean", row, k, tuple(moved.tolist()), *means, float(last[at.CUT_MEAN]), *sizes)
            )
        if fired & at.ERROR_ALARM:
            rates = (float(last[at.RATE_BEFORE]),), (float(last[at.RATE_AFTER]),)
            self._alarms.append(Alarm("error_rate", row, k, (), *rates, float(last[at.CUT_ERROR]), *sizes))

    @property
    def own_tests(self) -> tuple[str, ...]:
        """The kinds of tests that VIGOd runs itself; it restarts a class at their alarms."""
        if self.kind != at.VIGOD:
            return ()
        return ("class_mean", "error_rate") if self.constants[at.ERROR_CUT] else ("class_mean",)

    def take_alarms(self) -> list[Alarm]:
        """Return and clear the alarms of the last learn call (rows count within its block); not part of the state."""
        taken, self._alarms = self._alarms, []
        return taken

    def forget(self) -> None:
        """Forget most of the past at once: a class then counts for at most |B| rows in its mean, its nu is at most
        ``nu_max``, and all classes together count for at most |B| rows in the class prior. Every class is in its
        building step again, where mistakes update it. VIGOw, whose windows are that short anyway, uses |B| / 4 here.
        No mean or covariance changes; the rows that follow move them sooner.
        """
        stats, batch = self.stats, float(self.constants[at.BATCH])
        if self.kind == at.VIGOW:
            batch = max(1.0, batch / 4.0)
        nu = nu_max(batch, self.spec.dimension)
        stats[:, at.MISTAKES] *= np.minimum(1.0, batch / np.maximum(stats[:, at.BETA], 1.0))
        stats[:, at.BETA] = np.minimum(stats[:, at.BETA], batch)
        factor = np.minimum(1.0, nu / stats[:, at.NU])
        self.A[:] *= factor[:, None, None]
        stats[:, at.SHARE] *= factor
        stats[:, at.NU] = np.minimum(stats[:, at.NU], nu)
        stats[:, at.ROWS] = np.minimum(stats[:, at.ROWS], 1.0)
        if self.constants[at.PAPER] == 1.0:
            self.counters[at.STAGE] = 0.0
        stats[:, at.COUNT] *= min(1.0, batch / max(float(stats[:, at.COUNT].sum()), 1.0))
        at.refresh_densities(self.state)

    def explain(self, x: Floats) -> Header:
        """Explain the prediction of one row x (1, d); see ``core.learners.vigo.gaussians.explain``."""
        return explain(self.state, x[0])

    def posterior(self, view: View) -> Header:
        """The Gaussian of each class: mean, covariance E[Lambda]^-1, rows (count), nu, beta and c; see kernels.py."""
        classes = {}
        for output, factor, (mean, *_), own in zip(view.outputs, self.L, self.means, self.stats, strict=True):
            L = np.triu(factor)
            inverse = L.diagonal().copy()
            np.fill_diagonal(L, np.divide(1.0, inverse, out=np.zeros_like(inverse), where=inverse > 0.0))
            places = {"count": at.ROWS, "nu": at.NU, "beta": at.BETA, "c": at.COUNT}
            numbers = {name: float(own[place]) for name, place in places.items()}
            classes[output] = {"mean": view.by_name(mean), "covariance": view.matrix(L.T @ L), **numbers}
        return {"names": view.chosen, "classes": classes}

    def info(self) -> Header:
        """Rows learned, and per class the rows that its mean (beta) and its covariance (nu - D) count for."""
        D = self.spec.dimension
        return {
            "rows": int(self.counters[at.SEEN]),
            "gaussians": [
                {"mean_rows": float(own[at.BETA]), "covariance_rows": float(own[at.NU] - D)} for own in self.stats
            ],
        }


class Vigod(Vigo):
    """The learner behind ``vigod``."""

    kind: ClassVar = at.VIGOD


class Vigow(Vigo):
    """The learner behind ``vigow``."""

    kind: ClassVar = at.VIGOW
