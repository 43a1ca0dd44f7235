r"""The learner behind VIGO, VIGOd and VIGOw; kernels.py has the paper's equations and the letters.

    class predicted   (1), with c_k N_k(x), N_k the class's Gaussian
    probabilities     p_k ~ c_k t_k(x), t_k the Student-t density that is expected under N_k's posterior (gaussians.py)

The two differ for classes with few rows: the class predicted need not be the most probable one.

**VIGOd's tests** are (12), "class_mean", and for ``reset_on: "both"``, with a and b the shares of wrong a-priori labels
among the beta and the n rows, p of both together, v = p (1 - p), L = ln(2 / .05):

    error_rate   b - a >= sqrt(2 v L / n_h) + 2 L / (3 n_h)

(12) is blind where class means stay: a moved boundary, a changed correlation or spread, swapped labels. The error rate
sees those.

**Ranges** are the declared ones and grow when exceeded; without a declaration those of the rows so far. One outlier
stays in the range and in the class's covariance for good: use ``scaling`` robust, or vigow.

All rows go through one compiled loop (kernels.py): the same bits however calls are cut.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from core.contract import ALARM_COLUMNS_MAX, Alarm, Floats, Header, Ints, Prediction, Spec, Weights
from core.learners.algorithm import CLASS_BOUND, Listed
from core.learners.vigo import kernels
from core.learners.vigo.gaussians import LAYOUT, densities, fresh, with_class

PRIOR_RANGES = 0.1
FLOOR = 0.01
ERROR_DELTA = 0.05


def _normalised(logs: Floats) -> Floats:
    """Shares of one from logarithms."""
    shares = np.exp(logs - logs.max())
    return np.asarray(shares / shares.sum())


def nu_max(batch: float, D: int) -> float:
    """What nu is capped at: two windows, and at least one more than the D it starts from."""
    return max(2.0 * batch, D + batch)


class Vigo(Listed):
    """The learner behind ``vigo``.

    Args:
        spec: what it is built from; ``ranges`` are the declared ones.

    Attributes:
        state: K classes (core.learners.vigo.kernels.State).
    """

    layout: ClassVar = LAYOUT
    object_bytes: ClassVar = 2000
    kind: ClassVar = "vigo"
    number: ClassVar = kernels.VIGO

    @classmethod
    def sizes(cls, spec: Spec, classes: int) -> dict[str, int]:
        """The sizes of the layout."""
        return {"K": classes, "D": spec.dimension}

    @classmethod
    def row_cost(cls, spec: Spec, classes: int) -> float:
        """A distance per class, S, and a factorisation now and then.

        VIGO factors after a mistake, and at worst every row is one; the others factor after |B| rows. A factorisation
        counts three times its operations: it runs at a third of the speed of the products that other learners consist
        of.
        """
        D = float(spec.dimension)
        factored = 1.0 if cls.kind == "vigo" else 1.0 / spec.params["batch_size"]
        return max(classes, 1) * (D * D + 2 * D + 50) + D * D + 10 * D + factored * (D**3 + 3 * D * D)

    def __init__(self, spec: Spec) -> None:
        self.state = fresh(spec, self._constants(spec))
        self._report = np.zeros((4, max(spec.dimension, 6)))
        self._alarms: list[Alarm] = []

    def _constants(self, spec: Spec) -> Floats:
        """The constants of ``core.learners.vigo.kernels``, in its order."""
        params, D = spec.params, spec.dimension
        batch, paper = float(params["batch_size"]), params["variant"] == "paper"
        prior = PRIOR_RANGES if not paper else 1.0 if self.kind == "vigod" else 0.0
        return np.array(
            [
                self.number,
                batch,
                float(paper),
                prior,
                0.0 if paper else FLOOR,
                float(paper or params.get("reset") == "mean"),
                math.log(4.0 * D / params["delta"]) if self.kind == "vigod" else 0.0,
                math.log(2.0 / ERROR_DELTA) if params.get("reset_on") == "both" else 0.0,
                nu_max(batch, D) if self.kind == "vigow" and not paper else 0.0,
            ]
        )

    def add_class(self) -> None:
        """One more class, which scores from its first row on."""
        self.state = with_class(self.state)

    def predict(self, X: Floats) -> Prediction:
        """A-priori predictions for X (n, d); see ``core.contract.Learner``."""
        value, p = self._room(X.shape[0])
        kernels.predict_rows(X, self.state.L, self.state.means, self.state.stats, value, p)
        return Prediction(value, p)

    def learn(
        self, X: Floats, y: NDArray[Any], discounts: Floats | None = None, weights: Floats | None = None
    ) -> Prediction:
        """Test, then train on X (n, d), y (n,); see ``core.contract.Learner``. There are no discounts or weights."""
        del discounts, weights
        n = X.shape[0]
        labels = np.ascontiguousarray(y, dtype=np.int64)
        value, p = self._room(n)
        self._alarms = []
        row = 0
        while row < n:
            row, fired = kernels.learn_rows(X, labels, *self.state, value, p, self._report, row)
            if fired:
                self._add_alarms(fired, row - 1, int(labels[row - 1]))
        return Prediction(value, p)

    def _room(self, n: int) -> tuple[Ints, Floats]:
        return np.empty(n, dtype=np.int64), np.empty((n, self.state.stats.shape[0]))

    def _add_alarms(self, fired: int, row: int, k: int) -> None:
        """The alarms that the last test reported."""
        last = self._report[3]
        sizes = int(last[kernels.PAST]), int(last[kernels.RECENT])
        if fired & kernels.MEAN_ALARM:
            before, after, apart = self._report[:3, : self.state.features.shape[1]]
            order = np.argsort(-apart, kind="stable")[:ALARM_COLUMNS_MAX]
            moved = order[apart[order] >= last[kernels.CUT_MEAN]]
            means = tuple(before[moved].tolist()), tuple(after[moved].tolist())
            self._alarms.append(
                Alarm("class_mean", row, k, tuple(moved.tolist()), *means, float(last[kernels.CUT_MEAN]), *sizes)
            )
        if fired & kernels.ERROR_ALARM:
            rates = (float(last[kernels.RATE_BEFORE]),), (float(last[kernels.RATE_AFTER]),)
            self._alarms.append(Alarm("error_rate", row, k, (), *rates, float(last[kernels.CUT_ERROR]), *sizes))

    @property
    def own_tests(self) -> tuple[str, ...]:
        """The tests inside VIGOd; see ``core.contract.Watchful``."""
        if self.kind != "vigod":
            return ()
        return ("class_mean", "error_rate") if self.state.constants[kernels.ERROR_CUT] else ("class_mean",)

    def take_alarms(self) -> list[Alarm]:
        """The alarms of the last learn call, rows within its block; given once, and no part of the state."""
        taken, self._alarms = self._alarms, []
        return taken

    def forget(self) -> None:
        """Forget most of the past at once: no class counts for more than |B| rows in its mean and |B| beyond D (2 |B|
        if that is more) in its covariance, nor all classes together in the class prior, and every class is in its
        building step again, where mistakes update it. VIGOw, which never counts more than that, forgets down to a
        quarter of it. No density changes its place or shape by this; the rows that follow move it sooner.
        """
        state, batch = self.state, float(self.state.constants[kernels.BATCH])
        stats = state.stats
        if self.kind == "vigow":
            batch = max(1.0, batch / 4.0)
        nu = nu_max(batch, state.A.shape[1])
        stats[:, kernels.MISTAKES] *= np.minimum(1.0, batch / np.maximum(stats[:, kernels.BETA], 1.0))
        stats[:, kernels.BETA] = np.minimum(stats[:, kernels.BETA], batch)
        factor = np.minimum(1.0, nu / stats[:, kernels.NU])
        state.A[:] *= factor[:, None, None]
        stats[:, kernels.SHARE] *= factor
        stats[:, kernels.NU] = np.minimum(stats[:, kernels.NU], nu)
        stats[:, kernels.ROWS] = np.minimum(stats[:, kernels.ROWS], 1.0)
        if state.constants[kernels.PAPER] == 1.0:
            state.counters[kernels.STAGE] = 0.0
        stats[:, kernels.COUNT] *= min(1.0, batch / max(float(stats[:, kernels.COUNT].sum()), 1.0))
        kernels.refresh_densities(state)

    def explain(self, x: Floats) -> Header:
        """Why one row x (1, d) is predicted as it is.

        Returns:
            ``classes``: the indices of the classes that have rows, and in their order ``share`` (the class prior),
            ``log_density`` (at the expected mean and precision; decides the class), ``log_expected_density``
            (Student-t; decides the probabilities), ``distance`` (Mahalanobis) and ``tail`` (the share of the class's
            own rows that lie farther out). ``ambiguity``: ``entropy`` of the probabilities in units of its maximum, 0
            for a row that only one class explains, 1 for one that all explain alike; ``nearest``, the class with the
            largest tail, and its ``typicality``, that tail: near 0 for a row like none so far, whatever the entropy.
        """
        found = densities(self.state, x[0])
        seen = np.flatnonzero(self.state.stats[:, kernels.ROWS] > 0.0)
        if not len(seen):
            return {"classes": [], "ambiguity": None}
        share, p = _normalised(found.prior), _normalised(found.prior + found.expected)
        entropy = -float((p * np.log(np.maximum(p, 1e-300))).sum()) / math.log(max(len(p), 2))
        nearest = int(np.lexsort((found.distance, -found.tail))[0])
        return {
            "classes": seen.tolist(),
            "share": share.tolist(),
            "log_density": found.point.tolist(),
            "log_expected_density": found.expected.tolist(),
            "distance": found.distance.tolist(),
            "tail": found.tail.tolist(),
            "ambiguity": {
                "entropy": min(max(entropy, 0.0), 1.0),
                "nearest": int(seen[nearest]),
                "typicality": float(found.tail[nearest]),
            },
        }

    def weights(self) -> Weights | None:
        """None: the boundaries are quadratic."""
        return None

    def info(self) -> Header:
        """Rows learned, and per class the rows that its mean (beta) and its covariance (nu - D) count for."""
        stats, D = self.state.stats, self.state.features.shape[1]
        return {
            "rows": int(self.state.counters[kernels.SEEN]),
            "gaussians": [
                {"mean_rows": float(own[kernels.BETA]), "covariance_rows": float(own[kernels.NU] - D)} for own in stats
            ],
        }

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return self.layout.held_bytes(self.state) + self.object_bytes

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state, copied."""
        return self.layout.to_arrays(self.state), {"kind": self.kind}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state of ``to_arrays``.

        Raises:
            ValueError: what no state of this spec can be; nothing has changed.
        """
        if header != {"kind": self.kind}:
            raise ValueError("the header does not fit the learner")
        found = self.layout.read(arrays, D=self.state.features.shape[1])
        if len(found["stats"]) > CLASS_BOUND:
            raise ValueError(f"the state must be one of at most {CLASS_BOUND} classes")
        self.state = self.state._replace(**found)
        self._alarms = []


class Vigod(Vigo):
    """The learner behind ``vigod``."""

    kind: ClassVar = "vigod"
    number: ClassVar = kernels.VIGOD


class Vigow(Vigo):
    """The learner behind ``vigow``."""

    kind: ClassVar = "vigow"
    number: ClassVar = kernels.VIGOW


KINDS: dict[str, type[Vigo]] = {one.kind: one for one in (Vigo, Vigod, Vigow)}
