r"""The answer for a row: from a learner's prediction over the classes it has seen to probabilities of the labels.

Learners know classes by index, in the order in which they appeared. Answers, scores and counts are over K labels: those
that the configuration declares, in its order, or without a declaration those seen, in the order in which they appeared.
With p_k the learner's probability of label k, calibrated (calibration.py; 0 for a class not seen yet), and n the rows
learned before,

    q_k = (1 - m) p_k + m / max(K, 2)            m = max(1 / (n + 1), 1e-6)

The prior counts as one row, shared equally among the labels, against the n rows behind the learner. So the labels are
equally probable before the first row, and no probability is ever 0 or 1; for K = 1 the rest belongs to a label not
known yet.

The answer is the label with the least expected cost, the first one of equals: with c_k the cost of missing label k
(``class_costs``), or 1,

    argmin_k sum_{j != k} c_j q_j = argmax_k c_k q_k

Without costs that is the most probable label. Of two labels, it need not be the learner's class once the stream has
shown that the learner errs.

A row with a new label is scored as if that label had been one of the K. Where no label is known at all (the first row
of a model that declares none) there is no answer, and nothing is scored.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.config import Config
from core.contract import Floats, Ints, Label, Prediction
from core.entry import ServedPrediction
from core.features.labels import LabelSet
from core.metrics.class_kernels import FACTS, GONE, LOSS, NOTHING, note_facts
from core.model.calibration import LAYOUT, calibrate_row, fit_row, fresh, log_priors, others_are_rare
from core.state.layout import Holder

MASS_MIN = 1e-6
"""Least m: what all labels together share equally after many rows."""
_NO_WEIGHTS = _NO_ROWS = np.empty(0)
_ROWS_IN = "Array(f8, 2, 'C', readonly=True)"
_CLASSES_IN = "Array(i8, 1, 'C', readonly=True)"


class Scored(NamedTuple):
    """Rows beside their a-priori predictions.

    Attributes:
        predicted: (n,) indices of labels, -1 where there was no answer, -2 for a label that the model knows no more; or
            numbers; for tracked rows as returned.
        truth: (n,) indices of the labels that came, or numbers.
        facts: (FACTS, n) what the probabilities say of each, NaN where nothing was said; see ``class_kernels``. For
            regression (FACTS, 0).
        losses: (n,) 0 or 1, or squared errors; NaN where there was no answer: such a row is not scored.
        errors: (n,) 1.0 where what the error-rate test watches was wrong: with ``class_costs`` the label said, else the
            learner's own class, which shows sooner that the data have left the learner behind; or squared errors.
    """

    predicted: NDArray[Any]
    truth: NDArray[Any]
    facts: Floats
    losses: Floats
    errors: Floats


class Given(NamedTuple):
    """What is known of rows besides their classes.

    Attributes:
        new: whether the class of the one row has just been added, and the prediction was made without it.
        fits: whether the model that predicts is the one that calibration is of.
        weights: (n,) or None.
    """

    new: bool = False
    fits: bool = True
    weights: Floats | None = None


USUAL = Given()
"""Rows of known classes for the model that calibration is of, without weights."""


@njit(cache=True, nogil=True)
def _say(r: Floats, order: Ints, costs: Floats, known: int, rows: float, q: Floats) -> int:
    """Probabilities of a row into q (K,), from the learner's calibrated ones, r (classes,); the index of the answer."""
    K = q.shape[0]
    mass = max(1.0 / (rows + 1.0), MASS_MIN)
    for k in range(K):
        q[k] = mass / max(K, 2)
    for c in range(r.shape[0]):
        q[order[c]] += (1.0 - mass) * r[c]
    best, least = -1, 0.0
    for k in range(known):
        cost = costs[k] * q[k] if costs.shape[0] else q[k]
        if cost > least:
            best, least = k, cost
    return best


@njit(
    f"Tuple((i8[::1], f8[:,::1]))({_ROWS_IN}, i8[::1], f8[::1], f8[::1], f8[::1], i8, f8)",
    cache=True,
    nogil=True,
)
def say_rows(
    p: Floats, order: Ints, costs: Floats, counts: Floats, calibration: Floats, labels: int, rows: float
) -> tuple[Ints, Floats]:
    """The answers for n rows that are predicted at the same time.

    Args:
        p: (n, classes) the learner's probabilities.
        order: (classes,) the label of each class.
        costs: (K,) of missing each label; (0,): all alike.
        counts: (K,) rows of each label.
        calibration: see core.model.calibration.
        labels: K.
        rows: that the model has learned.

    Returns:
        Labels (n,), -1 where there is none, and probabilities (n, K).
    """
    n = p.shape[0]
    said, q = np.empty(n, dtype=np.int64), np.empty((n, labels))
    priors, logs, s, r = np.empty((4, p.shape[1]))
    log_priors(order, counts, counts.sum(), priors)
    for i in range(n):
        calibrate_row(p, i, priors, calibration, logs, s, r)
        said[i] = _say(r, order, costs, labels, rows, q[i])
    return said, q


@njit(
    f"void({_CLASSES_IN}, {_ROWS_IN}, {_CLASSES_IN}, Array(f8, 1, 'C', readonly=True), i8[::1], f8[::1], f8[::1],"
    " f8[::1], b1, i8, f8, i8[::1], i8[::1], f8[:,::1], f8[::1])",
    cache=True,
    nogil=True,
)
def score_rows(
    value: Ints,
    p: Floats,
    truth: Ints,
    weights: Floats,
    order: Ints,
    costs: Floats,
    counts: Floats,
    calibration: Floats,
    fits: bool,
    known: int,
    rows: float,
    said: Ints,
    came: Ints,
    facts: Floats,
    errors: Floats,
) -> None:
    """The answers for n rows, each from before it was learned, and their classes; the calibration learns from them.

    Args:
        value: (n,) the learner's a-priori classes, -1 for none.
        p: (n, classes) its probabilities.
        truth: (n,) the classes that came.
        weights: (n,) of the rows, or (0,): every row counts once.
        order: the label of each class, those of ``truth`` among them.
        costs: (K,) of missing each label; (0,): all alike.
        counts: (K,) rows of each label before; updated. K is the number of labels.
        calibration: see core.model.calibration; updated.
        fits: whether it learns from these rows.
        known: how many of the labels could be answered: all, or all but the last.
        rows: that the model had learned before the first of the rows.
        said: ``predicted`` of ``Scored``, written.
        came: its ``truth``, written.
        facts: written.
        errors: written.

    Raises:
        IndexError: a class that is none.
    """
    classes, q = p.shape[1], np.empty(counts.shape[0])
    priors, logs, s, r = np.empty((4, classes))
    counted = counts.sum()
    for i in range(truth.shape[0]):
        if not 0 <= truth[i] < order.shape[0]:
            raise IndexError("a class that is none")
        log_priors(order, counts, counted, priors)
        calibrate_row(p, i, priors, calibration, logs, s, r)
        said[i] = _say(r, order, costs, known, rows + i, q)
        came[i] = order[truth[i]]
        counts[came[i]] += 1.0
        counted += 1.0
        note_facts(q, said[i], came[i], facts, i)
        wrong = said[i] != came[i] if costs.shape[0] else value[i] != truth[i]
        errors[i] = 1.0 if wrong else 0.0
        if fits and classes > 1 and truth[i] < classes:
            rare = others_are_rare(order, counts, counted, classes)
            fit_row(truth[i], calibration, logs, s, weights[i] if weights.shape[0] else 1.0, rare)


class Answers(Holder):
    """The labels of one model, and its answers over them.

    Args:
        config: the model's configuration.
        seen: the classes seen, by index; ``add`` adds to it.
        calibration: of the same model so far; None: the one that changes nothing.
        counts: rows of each label so far, in the order of ``said``; later labels have none.

    Attributes:
        seen: as given.
        said: the labels of the answers: the declared ones, or ``seen`` itself.
        calibration: the parameters of core.model.calibration; the state.
        counts: (K,) rows of each label; those of the metrics, with which they are saved.
    """

    layout = LAYOUT

    def __init__(
        self, config: Config, seen: LabelSet, calibration: Floats | None = None, counts: Floats = _NO_ROWS
    ) -> None:
        self.seen = seen
        self.said = seen if config.labels is None else LabelSet(config.labels)
        self.calibration, self.counts = fresh() if calibration is None else calibration, counts
        self._config = config
        self._arrange()

    def _arrange(self) -> None:
        order = self.said.indices(self.seen.labels)
        self._costs = np.array(self._config.costs_of(self.said))
        self.counts = np.pad(self.counts, (0, len(self.said) - len(self.counts)))  # no row of a new label yet
        self._of_labels = order, self._costs, self.counts

    @property
    def costs(self) -> Floats | None:
        """What missing each of ``said`` costs, (K,); None without ``class_costs``."""
        return self._costs if self._costs.size else None

    def add(self, label: Label) -> int:
        """The class of a label, which counts as seen from now on."""
        index = self.seen.add(label)
        self._arrange()
        return index

    def of(self, prediction: Prediction, rows: int) -> Prediction:
        """A learner's prediction in terms of the labels, after so many rows."""
        p, labels = prediction.probabilities, len(self.said.labels)
        if p is None:
            p = self._votes(prediction)
        return Prediction(*say_rows(p, *self._of_labels, self.calibration, labels, rows))

    def score(self, prediction: Prediction, truth: Ints, rows: int, given: Given = USUAL) -> Scored:
        """A-priori predictions of n rows and the classes that came, from which the calibration learns.

        Args:
            prediction: the learner's.
            truth: (n,) class indices.
            rows: that the model had learned before them.
            given: what else is known of them.
        """
        n, known = len(truth), len(self.counts) - (given.new and self.said is self.seen)
        weights, p = _NO_WEIGHTS if given.weights is None else given.weights, prediction.probabilities
        if p is None:
            p = self._votes(prediction)
        said, came, facts, errors = np.empty(n, np.int64), np.empty(n, np.int64), np.empty((FACTS, n)), np.empty(n)
        own, state = (prediction.value, p, truth, weights), (*self._of_labels, self.calibration)
        score_rows(*own, *state, given.fits, known, rows, said, came, facts, errors)
        return Scored(said, came, facts, facts[LOSS], errors)

    def _votes(self, prediction: Prediction) -> Floats:
        """Probabilities of a learner that has none."""
        return np.asarray(prediction.value[:, None] == np.arange(len(self.seen.labels)), dtype=np.float64)

    def unsaid(self, labels: Sequence[Label]) -> Scored:
        """Rows of which nothing was said, with their labels, which count."""
        truth = self.said.indices(labels)
        np.add.at(self.counts, truth, 1.0)
        n = len(truth)
        facts = np.full((FACTS, n), np.nan)
        return Scored(np.full(n, NOTHING), truth, facts, facts[LOSS], np.ones(n))

    def returned(self, one: ServedPrediction, rows: int) -> tuple[int, Floats]:
        """What was returned to a client, in terms of the labels of now.

        Labels that were not known then share equally what the others leave to 1; where there are any, all are smoothed
        as they would be now.

        Args:
            one: as it was returned, with a label.
            rows: that the learner has learned by now.

        Returns:
            The index of its label, GONE where the model knows it no more; probabilities (K,).
        """
        known = {self.said.index(label): share for label, share in one.probabilities or ()}
        known.pop(-1, None)
        q = np.zeros(len(self.said))
        q[[*known]] = [*known.values()]
        if others := [k for k in range(len(q)) if k not in known]:
            q[others] = max(1.0 - q.sum(), 0.0) / len(others)
            mass = max(1.0 / (rows + 1.0), MASS_MIN)
            q = (1.0 - mass) * q + mass / max(len(q), 2)
        return self.index(one.prediction), q

    def index(self, said: object) -> int:
        """The index of a label that was answered, NOTHING for none, GONE where the model knows it no more."""
        if said is None:
            return NOTHING
        found = self.said.index(said)  # type: ignore[arg-type]  # of classification: a label
        return found if found >= 0 else GONE
