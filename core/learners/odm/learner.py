r"""ODM and dynamic ODM: a linear classifier that shapes its margin distribution, and a restarted bank of them.

**The loss** of a row with target y = +-1 and margin m = y w'x, and what a candidate minimises:

    l(m) = ([1 - theta - m]_+^2 + mu [m - 1 - theta]_+^2) / (1 - theta)^2
    f(w) = |w|^2 / 2 + lambda l(y w'x)

Margins should be near 1: short ones cost, large ones cost mu as much, deviations up to theta nothing
(lambda: ``loss_weight``, mu: ``deviation_tradeoff``, theta: ``tolerance``).

**A candidate** (``odm`` is one, never restarted) takes one step per row, with s = |x|^2, eta = 1/(tau + kappa), tau = 1
at its first row, kappa = 2 lambda max(1, mu) q / (1 - theta)^2 and q the mean s of all rows so far, this one included:

    implicit    w <- argmin_v eta f(v) + |v - w|^2 / 2, in closed form: with a = 2 eta lambda s / (1 - theta)^2,
                m / (1 + eta) < 1 - theta:  m' = (m + a (1 - theta)) / (1 + eta + a)
                                            l' = -2 (1 - theta - m') / (1 - theta)^2
                m / (1 + eta) > 1 + theta:  m' = (m + mu a (1 + theta)) / (1 + eta + mu a)
                                            l' = 2 mu (m' - 1 - theta) / (1 - theta)^2
                else l' = 0;                w <- (w - eta lambda l' y x) / (1 + eta)
    explicit    w <- w - eta (w + lambda l'(m) y x)
    then        w <- w min(1, sqrt(2 lambda) / |w|): f(0) <= lambda, so every minimiser lies in there

An implicit step cannot overshoot, whatever eta and x; an explicit one takes the row's own s for q where that is larger.
An outlier, s > 2 q, is learned as (2 q / s) x; it is predicted as it is. A row of weight c has the loss c l; in
explicit steps kappa has c q for q where c > 1, so that they do not overshoot.

**Dynamic ODM** mixes candidates that restart from w = 0 every 8, 16, 32 ... rows, so that after a change some have only
seen later rows. With b_k their weights and p_k = w_k'x their a-priori scores, the score is

    o = sum_k b_k p_k            vote "majority": sum_k b_k sign(p_k)

and after each row, with l_k = min(f_k / (4 lambda), 1) at the a-priori w_k, times the row's weight,

    b_k <- b_k exp(-3 l_k), normalised, then b_k <- .999 b_k + .001 / K           fixed share

No horizon is needed: candidates whose first epoch has not ended are equal, so one stands for all of them. After row
8 2^(K-1) the last of K candidates splits: its restarted copy, of that epoch, takes 1/(K + 1) of its weight, and it
goes on as the longest. After T rows there are about log2(T/8) + 2 candidates, at most 40.

**Forget**: tau counts from the next row, in every candidate whose epoch is older.

**Variant "paper".** Explicit steps; N = ceil(log2(2 C T / V) / 2) + 1 candidates from the first row on, with epochs of
2^(i-1) sqrt(1 / (2 C)) rows, rounded up (T: ``horizon``, C: ``bound``, V: ``variation``), and b proportional to
exp(-eps sum min(f_k / C, 1)), eps = sqrt(8 ln N / T), computed from the sums, so that no weight underflows.

**Classes.** Two share one column w. From the third on each has a column w_c (core.learners.classes), a candidate is all
of them, and b weighs whole candidates. With y the class of a row, its margin is half the distance to the mean of its
rivals, each counted by the share p_c that exp(w_c'x) has among them:

    m = (w_y'x - sum_{c != y} p_c w_c'x) / 2             f = sum_c |w_c|^2 / 4 + lambda l(m)

and a row does what it does above with v = W / sqrt 2 for w and u for y x, where m = v'u while p is held:

    |v|^2 = sum_c |w_c|^2 / 2     |u|^2 = (1 + sum_c p_c^2) |x|^2 / 2     w_y moves along x, w_c along -p_c x

With w_1 = -w_0 = w this is the form of two classes. The columns sum to zero; a new class starts at their mean, which is
never the best. In a majority vote each candidate votes for one class.

**Margin.** ``info`` shows its mean and deviation over about the last 1000 rows: half the distance between the score of
a row's own class and the best other one.

**Any finite input.** Rows larger than 1e60 are scaled down as a whole; a row counts in q as at most ten times q; scores
are held within 1e300. |w| is bounded by the projection.

Source: Zhang, Zhao, Jin: Optimal Margin Distribution Learning in Dynamic Environments, AAAI 2020, Algorithms 1 and 2.
Implicit steps: Kulis, Bartlett, ICML 2010. Fixed share: Herbster, Warmuth, Machine Learning 32, 1998.

Deviations from the paper
- Algorithm 1, line 6 has a wrong sign; w - eta (w + lambda l' y x), as the text before it derives, is right.
- By default no T, C or V: epochs 8 2^i, splitting and fixed share in place of N, the paper's epochs and eps.
- Losses are divided by C and cut at 1, as Lemma 2 needs them within [0, 1].
- Implicit steps by default; candidates start from zero, not at random; the projection.
- kappa follows the mean of |x|^2, not its maximum, by which one wild row would slow the model for good; outliers are
  learned as nearer rows.
- More than two classes follow Zhang, Zhou: Multi-Class Optimal Margin Distribution Machine, ICML 2017, but for the best
  rival, which stands for all of them there: with noisy labels their mean does better.
- Probabilities (core.learners.calibration), random features (core.learners.expanded) and the choice of vote are not in
  the paper; its text speaks of a majority vote, its Algorithm 2 averages.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from core.algorithm import CLASS_BOUND
from core.contract import Floats, Header, Ints, Prediction, Spec, Weights
from core.learners.calibration import CALIBRATION, classify, classify_and_fit, fresh_calibration
from core.learners.classes import column_count, linear_model, with_bias_place, with_class
from core.learners.odm import kernels
from core.learners.odm.candidates import AUTO, epochs, grows, places
from core.learners.odm.steps import CANDIDATE_MAX, LOSS_MAX, RADIUS, SQUARE_MAX
from core.numerics.weighting import FIXED_SHARE
from core.state.layout import NOT_NEGATIVE, WHOLE, Array, Layout, Range, Shares, counts

_SHARE_RATE = 3.0
_NONE = np.empty(0)


def constants(params: Mapping[str, Any]) -> Floats:
    """What never changes, in the order of ``core.learners.odm.steps.STEEPNESS`` and the others."""
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


class DynamicOdm:
    """The learner behind ``dynamic_odm`` and ``odm``; without ``candidates`` in its parameters it is the latter.

    State, for D = d plus one where there is a bias column (the last one), m columns (one up to two classes, else one
    per class) and room for K candidates:
        W (m, K, D)     their weights
        shares (K,)     b
        losses (K,)     sums of l_k since the first row; a split copies them
        counters (6,)      see ROWS, COUNT, SQUARE, MARGIN, MARGIN_VARIANCE, FORGOTTEN
        calibration     slope and curvature of the probabilities (core.learners.calibration)
    """

    layout: ClassVar = Layout(
        {
            "weights": Array("columns", "K", "D", within=CANDIDATE_MAX, at="W"),
            "shares": Shares("K"),
            "losses": Array("K", within=NOT_NEGATIVE),
            "tally": Array(
                6,
                places={
                    kernels.ROWS: WHOLE,
                    kernels.COUNT: WHOLE,
                    kernels.SQUARE: Range(0.0, SQUARE_MAX),
                    kernels.MARGIN: Range(-kernels.MARGIN_MAX, kernels.MARGIN_MAX),
                    kernels.MARGIN_VARIANCE: Range(0.0, (2.0 * kernels.MARGIN_MAX) ** 2),
                    kernels.FORGOTTEN: WHOLE,
                },
                ordered=[(kernels.FORGOTTEN, kernels.ROWS)],
                at="counters",
            ),
            "calibration": CALIBRATION,
        }
    )

    object_bytes: ClassVar = 1500

    @staticmethod
    def sizes(spec: Spec, classes: int) -> dict[str, int]:
        """The sizes of the layout; there is room for K candidates."""
        D = spec.dimension + bool(spec.params["bias"])
        return {"columns": column_count(classes), "K": places(spec.params), "D": D}

    def __init__(self, spec: Spec) -> None:
        params = spec.params
        self.dimension = spec.dimension
        self.classes = 0
        self._mixed = params.get("vote") != "majority"
        self._bank = "candidates" in params
        self._grows = grows(params)
        self.bias = bool(params["bias"])
        self.epochs = epochs(params)
        self.constants = constants(params)
        K = len(self.epochs)
        self.W = np.zeros((1, K, spec.dimension + self.bias))
        self.counters = np.zeros(6)
        self.counters[kernels.COUNT] = 1.0 if self._grows else K
        self.shares, self.losses = np.zeros((2, K))
        self.shares[: self.count] = 1.0 / self.count
        self.calibration = fresh_calibration()

    @property
    def rows(self) -> int:
        """Rows learned."""
        return int(self.counters[kernels.ROWS])

    @property
    def count(self) -> int:
        """Candidates in use."""
        return int(self.counters[kernels.COUNT])

    def add_class(self) -> None:
        """One more class starts at the mean of the columns, which is never the best; the third makes [w] [-w, w, 0]."""
        self.classes += 1
        mean = self.W.mean(axis=0, keepdims=True) if len(self.W) > 1 else np.zeros_like(self.W)
        self.W = with_class(self.W, self.classes, mean)

    extensible: ClassVar[bool] = True

    def extend(self, other: "DynamicOdm", places: Ints) -> None:
        """Go on for a learner of fewer columns; see ``core.contract.Extensible``."""
        self.layout.extend(self, other, with_bias_place(places, self.dimension, self.W.shape[2]))
        self.classes = other.classes

    def predict(self, X: Floats) -> Prediction:
        """A-priori predictions for X (n, d); see ``core.contract.Learner``."""
        scores = np.empty((X.shape[0], self.W.shape[0]))
        kernels.predict_rows(X, self.W, self.shares, self.constants, self.counters, scores)
        return Prediction(*classify(scores, self.classes, self.calibration))

    def learn(
        self, X: Floats, y: NDArray[Any], discounts: Floats | None = None, weights: Floats | None = None
    ) -> Prediction:
        """Test, then train on X (n, d), y (n,); see ``core.contract.Learner``. Takes no discounts."""
        del discounts
        given = _NONE if weights is None else weights
        numbers = np.ascontiguousarray(y, dtype=np.float64)
        scores = np.empty((X.shape[0], self.W.shape[0]))
        kernels.learn_rows(
            X, numbers, given, self.W, self.shares, self.losses, self.epochs, self.constants, self.counters, scores
        )
        return Prediction(*classify_and_fit(scores, numbers, self.classes, self.calibration, given))

    def forget(self) -> None:
        """All candidates step as at the start of an epoch, tau = 1 in the next row, from where they are."""
        self.counters[kernels.FORGOTTEN] = self.counters[kernels.ROWS]

    def weights(self) -> Weights | None:
        """One row per class: the candidates' average. None where they vote, which is not linear."""
        if not self._mixed:
            return None
        w = np.einsum("k,ckj->cj", self.shares, self.W)
        return linear_model(w, self.dimension, self.classes)

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

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return self.layout.held_bytes(self) + self.epochs.nbytes + self.constants.nbytes + self.object_bytes

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state, of the candidates in use."""
        arrays = self.layout.to_arrays(self)
        used = {name: arrays[name][: self.count].copy() for name in ("shares", "losses")}
        return arrays | used | {"weights": arrays["weights"][:, : self.count].copy()}, {"classes": self.classes}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state of ``to_arrays``.

        Raises:
            ValueError: what no state of this spec can be; nothing has changed.
        """
        (classes,) = counts(header, classes=CLASS_BOUND)
        columns, room = column_count(classes), len(self.epochs)
        found = self.layout.read(arrays, columns=columns, D=self.W.shape[2])
        self._check(found)
        self.classes, K = classes, int(found["counters"][kernels.COUNT])
        self.counters, self.calibration = found["counters"], found["calibration"]
        self.W, (self.shares, self.losses) = np.zeros((columns, room, *found["W"].shape[2:])), np.zeros((2, room))
        self.W[:, :K], self.shares[:K], self.losses[:K] = found["W"], found["shares"], found["losses"]

    def _count_after(self, rows: int) -> int:
        """Candidates in use once some rows are learned."""
        return min(1 + int((self.epochs <= rows).sum()), len(self.epochs)) if self._grows else len(self.epochs)

    def _check(self, found: Mapping[str, Floats]) -> None:
        """Refuse a number of candidates, weights or losses that its rows cannot have."""
        counters = found["counters"]
        if not counters[kernels.COUNT] == self._count_after(int(counters[kernels.ROWS])) == len(found["shares"]):
            raise ValueError("the number of candidates is not that of its rows")
        largest = self.constants[RADIUS] * (1.0 if len(found["W"]) == 1 else 2.0)
        if (np.square(found["W"]).sum(axis=2) > largest * (1.0 + 1e-6)).any():
            raise ValueError("a candidate is larger than any can be")
        if (found["losses"] > LOSS_MAX * counters[kernels.ROWS] * (1.0 + 1e-6)).any():
            raise ValueError("a sum of losses is none that its rows can have")
