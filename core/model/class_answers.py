r"""The answer for a row: from a learner's prediction over the classes it has seen to probabilities of the labels.

Learners know classes by index, in the order in which they appeared. Answers, scores and counts are over K labels: the
declared ones, in the order of the configuration, or else those seen so far, in the order in which they appeared.
With p_k the learner's probability of label k, calibrated (calibration.py; 0 for a class not seen yet), and n the rows
learned before, since the last drift that reset the learner,

    q_k = (1 - m) p_k + m / max(K, 2)            m = max(1 / (n + 1), 1e-6)

The prior counts as one row, shared equally among the labels, against the n rows behind the learner. So the labels are
equally probable before the first row, and no probability is ever 0 or 1; for K = 1 the rest is for unknown labels.

The answer is the label with the least expected cost, the first if several are equal: with c_k the cost of missing label
k (``class_costs``), or 1,

    argmin_k sum_{j != k} c_j q_j = argmax_k c_k q_k

Without costs that is the most probable label. With two labels, it may not be the learner's class once the stream has
shown that the learner errs. With ``variant: "paper"`` the answer is the learner's class, whatever it costs.

Labels that are *retired* have vanished: they stay labels of the learner and of the metrics, but are never answered and
have no probability; the others share theirs in proportion. A row with such a label is scored as if the label were in
use. Without declared labels, the row brings it back: from the next row on it is in use.

A row with a new label is answered without that label, and scored as if it had been one of the K. Where no label is
known at all (the first row of a model that declares none) there is no answer, and nothing is scored.

A tracked row, whose label arrives late, is scored by what was returned, and the baselines by what they predicted then.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace
from numba import njit
from numpy.typing import NDArray

from core.config import Config
from core.contract import (
    CLASSES,
    CLASSES_IN,
    NUMBERS_IN,
    ROWS_IN,
    TABLE,
    VECTOR,
    Floats,
    Header,
    Ints,
    Label,
    Prediction,
    direct,
)
from core.entry import ServedPrediction
from core.features.labels import LabelSet
from core.metrics import ClassificationMetrics
from core.metrics.class_kernels import AS_NOW, COUNTED, FACTS, GONE, LOSS, NOTHING, P_TRUE, SEEN, facts_of, note_facts
from core.metrics.class_kernels import absorb as count_rows
from core.model.calibration import LAYOUT, calibrate_row, fit_row, fresh, log_priors, others_are_rare
from core.model.rows import BlockRows, Returned, Scored
from core.numerics.rows import cost_unit, put
from core.state.layout import Holder

MASS_MIN = 1e-6  # least m: the mass that all labels share equally after many rows
_NO_WEIGHTS = np.empty(0)


@njit(cache=True, nogil=True)
def _answer(r: Floats, order: Ints, costs: Floats, gone: Ints, known: int, rows: float, q: Floats) -> int:
    """Write a row's probabilities to q (K,), from the learner's calibrated r (classes,); returns the answer's index."""
    K = q.shape[0]
    mass = max(1.0 / (rows + 1.0), MASS_MIN)
    for k in range(K):
        q[k] = mass / max(K, 2)
    for c in range(r.shape[0]):
        q[order[c]] += (1.0 - mass) * r[c]
    if gone.shape[0]:
        left = 0.0
        for k in range(K):
            q[k] *= 1 - gone[k]
            left += q[k]
        for k in range(K):
            q[k] /= left
    best, least, unit = -1, 0.0, cost_unit(costs, q, known)
    for k in range(known):
        cost = unit * costs[k] * q[k] if costs.shape[0] else q[k]
        if cost > least:
            best, least = k, cost
    return best


@direct(f"Tuple(({CLASSES}, {TABLE}))({ROWS_IN}, {CLASSES}, {VECTOR}, {CLASSES}, {VECTOR}, {VECTOR}, i8, f8)")
def answer_rows(
    p: Floats, order: Ints, costs: Floats, gone: Ints, counts: Floats, calibration: Floats, labels: int, rows: float
) -> tuple[Ints, Floats]:
    """The answers for n rows that are predicted together: labels (n,), -1 for none, and probabilities (n, K).

    p (n, classes), order (classes,)   the learner's probabilities; the label of each class
    costs (K,), counts    cost of missing each label, (0,): all equal; rows of each label, labels after these have none
    gone (K,)             1 for retired labels; (0,): there are none
    labels, rows          K; n, the rows that the learner has learned
    """
    n = p.shape[0]
    predicted, q = np.empty(n, dtype=np.int64), np.empty((n, labels))
    priors, logs, s, b, r = np.empty((5, p.shape[1]))
    seen = np.zeros(labels)
    put(counts, seen)
    log_priors(order, seen, counts.sum(), priors)
    for i in range(n):
        calibrate_row(p, i, priors, calibration, logs, s, b, r)
        predicted[i] = _answer(r, order, costs, gone, labels, rows, q[i])
    return predicted, q


@direct(
    f"b1({CLASSES_IN}, {ROWS_IN}, {CLASSES_IN}, {NUMBERS_IN}, {CLASSES}, {VECTOR}, {CLASSES}, {VECTOR}, b1, b1, b1, i8,"
    f" f8, b1, {COUNTED}, {CLASSES}, {CLASSES}, {TABLE}, {VECTOR})"
)
def _absorb(
    value: Ints, p: Floats, truth: Ints, weights: Floats, order: Ints, costs: Floats, gone: Ints, calibration: Floats,
    slow: bool, own: bool, fits: bool, known: int, rows: float, counts: bool, scalars: Floats, sums: Floats,
    classes: Floats, confusion: Floats, scores: Floats, ring: Floats, history: Floats, fading: float, predicted: Ints,
    labels: Ints, facts: Floats, errors: Floats,
) -> bool:  # fmt: skip
    """The answers for n rows, each from before its row was learned, and their scores; the calibration learns from them.

        value (n,), p (n, classes)   the learner's a-priori classes, -1 for none, and their probabilities
        truth, weights (n,)          the true classes; weights of the rows, or (0,): every row counts once
        order (classes,)             the label of each class, including the classes of ``truth``
        costs, gone (K,)             cost of missing each label, (0,): all equal; 1 for retired labels, (0,): none
        slow, own                    as in ``calibration.fresh``; whether the learner's class is the answer
        fits, known                  whether the calibration learns; how many of the first labels can be answered
        rows, counts                 n before the rows; whether the metrics' arrays, which follow, count these
        predicted, labels (n,)       ``predicted`` and ``truth`` of ``Scored``, written
        facts (FACTS, n), errors     as in core.metrics.class_kernels and ``Scored``, written

    Returns False, with the metrics unchanged, if they cannot count the rows. ``IndexError`` for an unknown class.
    """
    seen, q = classes[SEEN].copy(), np.empty(classes.shape[1])
    priors, logs, s, b, r = np.empty((5, p.shape[1]))
    counted = seen.sum()
    for i in range(truth.shape[0]):
        if not 0 <= truth[i] < order.shape[0]:
            raise IndexError("no such class")
        log_priors(order, seen, counted, priors)
        calibrate_row(p, i, priors, calibration, logs, s, b, r)
        predicted[i] = _answer(r, order, costs, gone[:known], known, rows + i, q[:known])
        if own and value[i] >= 0 and not (gone.shape[0] and gone[order[value[i]]]):
            predicted[i] = order[value[i]]
        labels[i] = order[truth[i]]
        vanished = gone.shape[0] > 0 and gone[labels[i]] != 0
        if known < q.shape[0] or vanished:  # the row is scored over its own label, too
            _answer(r, order, costs, gone[:0] if vanished else gone, known, rows + i, q)
        seen[labels[i]] += 1.0
        counted += 1.0
        note_facts(q, predicted[i], labels[i], facts, i)
        wrong = predicted[i] != labels[i] if costs.shape[0] else value[i] != truth[i]
        errors[i] = 1.0 if wrong else 0.0
        if fits and p.shape[1] > 1 and truth[i] < p.shape[1]:
            rare = others_are_rare(order, seen, counted, p.shape[1])
            fit_row(truth[i], calibration, logs, s, b, r, weights[i] if weights.shape[0] else 1.0, rare, slow)
    if not counts:
        return True
    none = np.empty((0, 2), dtype=np.int64)
    held = scalars, sums, classes, confusion, scores, ring, history, fading
    return bool(count_rows(predicted, labels, facts, none, *held))


class ClassAnswers(Holder):
    """The answers of a classifier, a state machine over its rows.

    ``seen`` has the classes seen, by index; ``add`` adds one. ``labels`` are those of the answers: the declared ones or
    ``seen`` itself. ``retired`` ones are not answered; ``in_use`` are the others, ``labels`` itself if none is retired.
    """

    layout = LAYOUT
    regression = False

    def __init__(self, config: Config, seen: LabelSet) -> None:
        self._slow = config.algorithm.slow_calibration
        self.seen, self.calibration = seen, fresh(self._slow)  # the calibration's parameters are the state
        self.metrics = ClassificationMetrics(*config.metrics.spans)
        self.retired: tuple[Label, ...] = ()
        self.reset_row = 0  # rows when a drift last reset the learner
        self.configure(config)

    def configure(self, config: Config) -> None:
        """Continue with another configuration."""
        self._config, self._by_learner = config, bool(config.params.get("variant") == "paper")
        self.labels = self.seen if config.labels is None else LabelSet(config.labels)
        self._arrange()

    def _arrange(self) -> None:
        costs, self._order = self._config.class_costs, self.labels.indices(self.seen.labels)
        self._costs = np.array([] if costs is None else [costs.get(name, 1.0) for name in self.labels.keys])
        self._classes, gone = np.arange(len(self.seen)), self.labels.indices(self.retired)
        self.in_use, self.returning = self.labels, frozenset[int]()  # classes whose next row brings their labels back
        self._gone: Ints = np.zeros(len(self.labels) if self.retired else 0, dtype=np.int64)
        if len(gone):
            self._gone[gone] = 1
            self.in_use = LabelSet([self.labels.labels[k] for k in np.flatnonzero(self._gone == 0)])
            if self.labels is self.seen:
                self.returning = frozenset(gone.tolist())

    @property
    def costs(self) -> Floats | None:
        """The costs of missing each of ``labels``, (K,); None without ``class_costs``."""
        return self._costs if self._costs.size else None

    @property
    def _learned(self) -> int:
        """Rows behind the learner."""
        return self.metrics.rows - self.reset_row

    def retire(self, labels: Sequence[Label]) -> None:
        """Leave exactly these of ``labels`` out of the answers; at least two others must be left."""
        self.retired = tuple(labels)
        self._arrange()

    def return_labels(self, labels: Sequence[Label]) -> None:
        """Bring back the retired labels that rows have; declared labels stay retired."""
        if self.returning:
            back = LabelSet(labels)
            self.retire([label for label in self.retired if back.index(label) < 0])

    def add(self, label: Label) -> int:
        """The class of a label, which counts as seen from now on."""
        index = self.seen.add(label)
        self._arrange()
        return index

    def truth_of(self, labels: Any) -> tuple[NDArray[Any], bool]:
        """The classes of n labels, (n,), -1 for unseen ones; and whether all were seen before, and no label returns."""
        if len(labels) == 1 and (index := self.seen.index(labels[0])) >= 0:
            return self._classes[index : index + 1], index not in self.returning
        found = self.seen.find(labels)
        return np.array(found, dtype=np.int64), -1 not in found and self.returning.isdisjoint(found)

    def of(self, prediction: Prediction) -> Prediction:
        """A learner's prediction in terms of the labels."""
        known = self._order, self._costs, self._gone, self.metrics.by_class[SEEN], self.calibration
        value, shares = answer_rows(self._shares(prediction), *known, len(self.labels), self._learned)
        if self._by_learner and len(self._order):
            own = self._order[prediction.value]
            value = np.where((prediction.value >= 0) & ~np.isin(own, np.flatnonzero(self._gone)), own, value)
        return Prediction(value, shares, None, prediction.experts)

    def p_true(self, prediction: Prediction, answered: Floats, labels: Sequence[Label]) -> Floats:
        """The probability of each label (n,), as ``absorb`` would score its row alone; ``answered``: by ``of``."""
        truth, p, K = np.array(self.labels.find(labels), dtype=np.int64), np.empty(len(labels)), len(self.labels)
        new, vanished = truth < 0, np.isin(truth, np.flatnonzero(self._gone))
        known = ~(new | vanished)
        p[known] = answered[known, truth[known]]
        for rows, gone, count in ((vanished, [], K), (new, [*self._gone, 0] if self.retired else [], K + 1)):
            if rows.any():
                facts = self.metrics.by_class[SEEN], self.calibration, count, self._learned
                made = self._shares(prediction)[rows], self._order, _NO_WEIGHTS, np.array(gone, np.int64)
                p[rows] = answer_rows(*made, *facts)[1][np.arange(rows.sum()), truth[rows]]  # -1, a new label: the last
        return p

    def shares_in_use(self, shares: Floats) -> Floats:
        """The probabilities of ``in_use`` among (n, K)."""
        return shares if self.in_use is self.labels else np.ascontiguousarray(shares[:, self._gone == 0])

    def named(self, values: NDArray[Any]) -> list[Any]:
        """Answers as labels: None for -1, no answer, and for -2, a label that is no longer known."""
        return [*map([*self.labels.labels, None, None].__getitem__, values.tolist())]

    def returned(self, prediction: Prediction, row: int) -> tuple[Any, ...]:
        """One row of ``of`` as a client receives it: label, probabilities, the baselines' predictions, no interval,
        and after how many rows.
        """
        labels, index, shares = self.labels.labels, int(prediction.value[row]), prediction.probabilities
        baselines = tuple(labels[at] if at >= 0 else None for at in self.metrics.baselines())
        if index < 0:
            return None, None, baselines, None, self.metrics.rows
        if shares is not None:
            shares = self.shares_in_use(shares[row : row + 1])[0]
        pairs = None if shares is None else tuple(zip(self.in_use.labels, shares.tolist(), strict=True))
        return labels[index], pairs, baselines, None, self.metrics.rows

    def last_labels(self, returned: Returned) -> Floats:
        """The class (n,) of the last label when each row was predicted, plus 1; 0: none; NaN: it was not tracked."""
        found = np.full(len(returned), np.nan)
        for row, one in enumerate(returned):
            if one is not None and one.baselines is not None:
                last: Any = one.baselines[0]
                found[row] = 0.0 if last is None else self.seen.index(last) + 1.0
        return found

    def absorb(
        self, prediction: Prediction | None, truth: NDArray[Any], rows: BlockRows, new: bool = False, fits: bool = True
    ) -> Scored:
        """Score rows, tracked ones by what was returned; the calibration learns from them.

        ``prediction`` is the learner's, for each row from before it was learned; None: there was none. ``truth`` (n,)
        are class indices. Only the weights and returned predictions of ``rows`` are read. ``new``: the class of the one
        row has just been added, and the prediction was made without it. ``fits``: whether the calibration learns, that
        is, whether it belongs to the model that made the prediction.
        """
        metrics, n, K = self.metrics, len(truth), len(self.labels.labels)
        (predicted, labels), facts, errors = np.empty((2, n), np.int64), np.empty((FACTS, n)), np.empty(n)
        arrays, at_once = metrics.arrays(n, K), prediction is not None and rows.returned is None
        if prediction is None:
            predicted[:], labels, facts[:], errors[:] = NOTHING, self._order[truth], np.nan, 1.0
        else:
            weights = _NO_WEIGHTS if rows.weights is None else rows.weights
            made = prediction.value, self._shares(prediction), truth, weights
            state = self._order, self._costs, self._gone, self.calibration, self._slow, self._by_learner, fits
            known = K - (new and self.labels is self.seen), self._learned, at_once
            given: Any = *made, *state, *known, *arrays, metrics.fading, predicted, labels, facts, errors
            if not _absorb(*given):
                raise ValueError("the metrics cannot count the rows")
        if at_once:
            metrics.counted(arrays, n)
        elif rows.returned is None:
            metrics.absorb(predicted, labels, facts, K)
        else:
            predicted, facts, baselines = self._by_returned(predicted, labels, facts, rows.returned)
            metrics.absorb(predicted, labels, facts, K, baselines)
        return Scored(predicted, labels, facts[P_TRUE], facts[LOSS], errors)

    def _shares(self, prediction: Prediction) -> Floats:
        """The learner's probabilities of the classes; 1 for the class it predicts if it gives none."""
        value, shares = prediction.value, prediction.probabilities
        return np.asarray(value[:, None] == np.arange(len(self.seen)), np.float64) if shares is None else shares

    def by_returned(self, scored: Scored, returned: Returned) -> Scored:
        """Score rows by the predictions that were returned, whichever learner made them."""
        facts = np.full((FACTS, len(returned)), np.nan)
        facts[LOSS], facts[P_TRUE] = scored.losses, scored.p_true
        predicted, facts, _ = self._by_returned(scored.predicted, scored.truth, facts, returned, len(returned))
        return replace(scored, predicted=predicted, p_true=facts[P_TRUE], losses=facts[LOSS])

    def _by_returned(
        self, predicted: Ints, labels: Ints, facts: Floats, returned: Returned, scored: int = 0
    ) -> tuple[Ints, Floats, Ints]:
        """Score tracked rows by what was returned; ``scored``: how many of the rows the metrics have already counted.

        Returns the returned labels (n,), facts (FACTS, n), and what the two baselines predicted then, (n, 2).
        """
        predicted, facts, rows = predicted.copy(), facts.copy(), self.metrics.rows - scored
        baselines = np.full((len(returned), 2), AS_NOW)
        for row, one in enumerate(returned):
            if one is None:
                continue
            if one.prediction is None:
                predicted[row], facts[:, row] = NOTHING, np.nan
            else:
                at = slice(row, row + 1)
                predicted[row] = self.index(one.prediction)
                shares = self._shares_returned(one, rows + row, labels[row])
                facts[:, at] = facts_of(shares[None], predicted[at], labels[at])
                if self._config.algorithm.observes:  # a label without probabilities
                    facts[P_TRUE:, at] = np.nan
            if one.baselines is not None:
                baselines[row] = [self.index(label) for label in one.baselines]
        return predicted, facts, baselines

    def _shares_returned(self, one: ServedPrediction, rows: int, label: int) -> Floats:
        """The returned probabilities (K,), in terms of the present labels, after ``rows`` rows.

        Labels that were not known then, except retired ones other than the true label, ``label``, share equally what
        the others leave to 1; if there are any, all probabilities are smoothed as they would be now.
        """
        known = {self.labels.index(label): share for label, share in one.probabilities or ()}
        known.pop(-1, None)
        q = np.zeros(len(self.labels))
        q[[*known]] = [*known.values()]
        gone = {*np.flatnonzero(self._gone).tolist()} - {label}
        if others := [k for k in range(len(q)) if k not in known and k not in gone]:
            q[others] = max(1.0 - q.sum(), 0.0) / len(others)
            mass = max(1.0 / (rows + 1.0), MASS_MIN)
            q = (1.0 - mass) * q + mass / max(len(q), 2)
            q[[*gone - {*known}]] = 0.0
        return q

    def index(self, label: object) -> int:
        """The index of a returned label, NOTHING for none, GONE if the model no longer knows it."""
        if label is None:
            return NOTHING
        found = self.labels.index(label)  # type: ignore[arg-type]  # of classification: a label
        return found if found >= 0 else GONE

    def report(self) -> Header:
        """The metrics, classes by their labels."""
        return self.metrics.report(self.labels.labels, self.labels.keys, self.costs)

    def parts(self) -> dict[str, Any]:
        """The parts that have a state, by their names in a saved state."""
        return {"metrics": self.metrics, "answers": self}

    def check(self) -> None:
        """``ValueError`` if the parts of a saved state are not those of one model."""
        if any(self.labels.index(label) < 0 for label in self.seen.labels):
            raise ValueError("a class is not one of the declared labels")
        if any(self.labels.index(label) < 0 for label in self.retired) or (self.retired and len(self.in_use) < 2):
            raise ValueError("some labels cannot be retired")
        if self.metrics.classes > len(self.labels):
            raise ValueError("the classes of the parts differ")
