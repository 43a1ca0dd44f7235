"""How scored rows of a classifier are counted, compiled.

A row with probabilities q (K,) of all labels, the answer ``a`` and the true label ``y`` is reduced to facts:

    LOSS         0 if a = y, else 1
    P_TRUE       q_y
    BRIER        sum_k (q_k - [k = y])^2
    CONFIDENCE   q_a, the probability of the answer; NaN for a label that is no longer known
    SCORE        q_1, the score of the second label

If K = 1, the rest of the probability belongs to a second label, not known yet. All facts are NaN for a row without an
answer. Each span (all rows, the window, all rows fading) has these counts:

    sums       (SUMS,)     rows, right ones and losses; then the bins of the reliability
    tallies    (3, K)      of each class: its labels, its answers, its right answers
    confusion  (S, S)      rows by true class (first) and answer, at the *places* of the classes
    scores     (2, B)      rows of the first and the second class by SCORE; only up to two classes

Overall, a row counts 1. In the fading span it counts ``WEIGHT``, which each row divides by the factor (0.999); every
1000 rows, weight and counts are divided by the weight. The window is counted from the ring on request.

Up to 50 classes have a place each. With more, the first 50 have places and all others share the last one, until a
class is seen more than twice as often as the rarest one with a place and takes that place over. The counts of the
rarest then move to the shared place, where the earlier rows of the other class remain.
"""

from typing import Final

import numpy as np
from numba import njit

from core.contract import CLASSES_IN, CUBE, ROWS_IN, TABLE, VECTOR, Floats, Ints
from core.metrics.prequential import RESCALED, ROWS, STRIDE, add_point
from core.numerics.rows import times_number

P_MIN: Final = 1e-15  # smaller probabilities count as this much in the log loss, which is then at most 34.5
PLACES_MAX: Final = 50  # most classes with their own row in the confusion
BINS: Final = 10  # bins of the reliability, of equal width
SCORE_BINS: Final = 384  # bins of the scores, of equal width in log-odds, the outermost open
PER_LOG_ODDS: Final = 16.0  # bins of the scores per unit of log-odds; they range from -12 to 12

LOSS, P_TRUE, BRIER, CONFIDENCE, SCORE = range(5)
FACTS: Final = 5  # number of facts about a row, which is the number of rows of the array of facts
# Scalars; the row count is the first one, the stride and the number of points the last ones.
LAST, LEADER, WEIGHT = 1, 2, 3  # LAST, LEADER: latest and most frequent label, NOTHING before the first
SCALARS: Final = 6
# Sums of a span.
SCORED, UNSCORED, RIGHT, NO_CHANGE, MAJORITY, LOSS_ROWS, LOSS_SUM, BRIER_ROWS, BRIER_SUM, BIN = range(10)
SUMS: Final = BIN + 3 * BINS  # of each bin: rows, sum of their probabilities, right ones
# Rows of the array of classes (8, K): labels of all rows, places, then the tallies overall and fading.
SEEN, PLACE, OVERALL, FADED = 0, 1, 2, 5
CLASS_ROWS: Final = 8
LABELS, GUESSES, HITS = range(3)
# Columns of the ring; FLAGS: 1 for a right no_change plus 2 for a right majority.
GUESS, TRUTH, FLAGS, R_LOSS, R_BRIER, R_CONFIDENCE, R_SCORE = range(7)
RING: Final = 7

NOTHING: Final = -1
"""No label was known, so there was no prediction. A baseline then predicts the first class, as a model does."""
GONE: Final = -2  # the predicted label is no longer known
AS_NOW: Final = -3  # the prediction of a baseline is not known: its current one is used instead


@njit(cache=True, nogil=True)
def note_facts(q: Floats, answer: int, label: int, facts: Floats, i: int) -> None:
    """Write the facts of a row with probabilities q (K,), an answer and a label into column i of facts (FACTS, n)."""
    K = q.shape[0]
    if answer == NOTHING:
        facts[:, i] = np.nan
        return
    squares = 0.0
    for k in range(K):
        off = q[k] - (1.0 if k == label else 0.0)
        squares += off * off
    facts[LOSS, i] = 0.0 if answer == label else 1.0
    facts[P_TRUE, i] = q[label]
    facts[BRIER, i] = squares if K > 1 else 2.0 * squares
    facts[CONFIDENCE, i] = q[answer] if answer >= 0 else np.nan
    facts[SCORE, i] = q[1] if K > 1 else 1.0 - q[0]


@njit(f"f8[:,::1]({ROWS_IN}, {CLASSES_IN}, {CLASSES_IN})", cache=True, nogil=True)
def facts_of(probabilities: Floats, predicted: Ints, truth: Ints) -> Floats:
    """The facts (FACTS, n) of n rows with probabilities (n, K), answers (n,) and labels (n,).

    ``IndexError`` for an answer or a label that is none of the K.
    """
    n, K = probabilities.shape
    facts = np.empty((FACTS, n))
    for i in range(n):
        if not (predicted[i] < K and 0 <= truth[i] < K):
            raise IndexError("a class without a probability")
        note_facts(probabilities[i], predicted[i], truth[i], facts, i)
    return facts


@njit(cache=True)
def _score_bin(p: float) -> int:
    """The bin of a score: PER_LOG_ODDS (ln(p / (1 - p)) + 12), within the bins."""
    if p <= 0.0:
        return 0
    if p >= 1.0:
        return SCORE_BINS - 1
    place = PER_LOG_ODDS * np.log(p / (1.0 - p)) + SCORE_BINS / 2
    return int(min(max(place, 0.0), SCORE_BINS - 1.0))


@njit(cache=True)
def _count(
    row: Floats, weight: float, sums: Floats, tallies: Floats, places: Floats, confusion: Floats, scores: Floats
) -> None:
    """Count one row of the ring in a span."""
    guess, y, flags = int(row[GUESS]), int(row[TRUTH]), int(row[FLAGS])
    if guess == NOTHING:
        sums[UNSCORED] += weight
        return
    hit = weight if guess == y else 0.0
    sums[SCORED] += weight
    sums[RIGHT] += hit
    sums[NO_CHANGE] += weight * (flags % 2)
    sums[MAJORITY] += weight * (flags // 2)
    tallies[LABELS, y] += weight
    tallies[HITS, y] += hit
    if guess >= 0:
        tallies[GUESSES, guess] += weight
        confusion[int(places[y]), int(places[guess])] += weight
    for column, at in ((R_LOSS, LOSS_ROWS), (R_BRIER, BRIER_ROWS)):
        if not np.isnan(row[column]):
            sums[at] += weight
            sums[at + 1] += weight * row[column]
    if not np.isnan(row[R_CONFIDENCE]):
        at = BIN + 3 * int(min(BINS * row[R_CONFIDENCE], BINS - 1.0))
        sums[at] += weight
        sums[at + 1] += weight * row[R_CONFIDENCE]
        sums[at + 2] += hit
    if scores.shape[1] and not np.isnan(row[R_SCORE]):
        scores[y, _score_bin(row[R_SCORE])] += weight


@njit(cache=True)
def _note(row: Floats, guess: int, y: int, facts: Floats, i: int, baselines: Ints, s: Floats) -> None:
    """Write a row into the ring, before its label is counted."""
    row[GUESS], row[TRUTH], row[FLAGS] = guess, y, 0.0
    for baseline in range(2):
        answer = int(s[LAST + baseline])
        if baselines.shape[0] and baselines[i, baseline] != AS_NOW:
            answer = baselines[i, baseline]
        if y == (0 if answer == NOTHING else answer):
            row[FLAGS] += 1.0 + baseline
    p_true = facts[P_TRUE, i]
    row[R_LOSS] = np.nan if np.isnan(p_true) else 0.0 - np.log(min(max(p_true, P_MIN), 1.0))
    row[R_BRIER], row[R_CONFIDENCE], row[R_SCORE] = facts[BRIER, i], facts[CONFIDENCE, i], facts[SCORE, i]


@njit(cache=True)
def _see(y: int, s: Floats, classes: Floats, confusion: Floats) -> None:
    """Count a label: update the latest, the most frequent and the confusion's classes."""
    classes[SEEN, y] += 1.0
    leader = int(s[LEADER])
    lead = classes[SEEN, leader] - classes[SEEN, y] if leader >= 0 else -1.0
    if lead < 0.0 or (lead == 0.0 and y < leader):
        s[LEADER] = y
    s[LAST] = y
    if classes[PLACE, y] == PLACES_MAX:
        rarest = y
        for k in range(classes.shape[1]):
            if classes[PLACE, k] < PLACES_MAX and (rarest == y or classes[SEEN, k] < classes[SEEN, rarest]):
                rarest = k
        if classes[SEEN, y] > 2.0 * classes[SEEN, rarest]:
            place = int(classes[PLACE, rarest])
            for counts in confusion:
                for j in range(counts.shape[1]):
                    counts[PLACES_MAX, j] += counts[place, j]
                    counts[place, j] = 0.0
                for j in range(counts.shape[0]):
                    counts[j, PLACES_MAX] += counts[j, place]
                    counts[j, place] = 0.0
            classes[PLACE, y], classes[PLACE, rarest] = place, PLACES_MAX


@njit("Tuple((f8[:,::1], f8, f8))(f8[:,::1], i8, i8)", cache=True)
def window_tallies(ring: Floats, width: int, K: int) -> tuple[Floats, float, float]:
    """Tallies (3, K) of the first ``width`` rows of the ring, and right answers of ``no_change`` and ``majority``."""
    counts, no_change, majority = np.zeros((3, K)), 0.0, 0.0
    for i in range(width):
        guess, y = int(ring[i, GUESS]), int(ring[i, TRUTH])
        if guess == NOTHING:
            continue
        no_change += int(ring[i, FLAGS]) % 2
        majority += int(ring[i, FLAGS]) // 2
        counts[LABELS, y] += 1.0
        if guess >= 0:
            counts[GUESSES, guess] += 1.0
        if guess == y:
            counts[HITS, y] += 1.0
    return counts, no_change, majority


@njit(cache=True)
def _window_scores(ring: Floats, width: int, K: int) -> tuple[float, float, float, float]:
    """Accuracy, kappa, and the accuracies of ``no_change`` and ``majority`` in the window; NaN without scored rows."""
    counts, no_change, majority = window_tallies(ring, width, K)
    scored, right = counts[LABELS].sum(), counts[HITS].sum()
    if scored == 0.0:
        return np.nan, np.nan, np.nan, np.nan
    chance = 0.0
    for k in range(K):
        chance += (counts[LABELS, k] / scored) * (counts[GUESSES, k] / scored)
    return right / scored, beyond_chance(right / scored, chance), no_change / scored, majority / scored


@njit("f8(f8, f8)", cache=True)
def beyond_chance(p0: float, chance: float) -> float:
    """(p0 - chance)/(1 - chance), either kappa; NaN if it is undefined."""
    if 1.0 - chance > 1e-12:
        return (p0 - chance) / (1.0 - chance)
    return 1.0 if p0 >= 1.0 - 1e-12 else np.nan


@njit(cache=True)
def _possible(predicted: Ints, truth: Ints, facts: Floats, baselines: Ints, K: int) -> bool:
    """Whether all indices and probabilities are within their ranges."""
    for i in range(truth.shape[0]):
        if not (0 <= truth[i] < K and GONE <= predicted[i] < K):
            return False
        for fact in (P_TRUE, BRIER, CONFIDENCE, SCORE):
            if facts[fact, i] < 0.0 or facts[fact, i] == np.inf:
                return False
    return baselines.size == 0 or (baselines.min() >= AS_NOW and baselines.max() < K)


COUNTED: Final = f"{VECTOR}, {TABLE}, {TABLE}, {CUBE}, {CUBE}, {TABLE}, {TABLE}, f8"
"""Numba's types of the arrays of a state, from the scalars to the history, and of the fading factor."""


@njit(f"b1({CLASSES_IN}, {CLASSES_IN}, {TABLE}, i8[:,::1], {COUNTED})", cache=True)
def absorb(
    predicted: Ints, truth: Ints, facts: Floats, baselines: Ints, s: Floats, sums: Floats, classes: Floats,
    confusion: Floats, scores: Floats, ring: Floats, history: Floats, fading: float,
) -> bool:  # fmt: skip
    """Score rows one by one; False, with nothing changed, if an index or a probability is out of range.

    The rows are those of ``ClassificationMetrics.absorb``; the arrays of its state and its fading factor follow.
    """
    K = classes.shape[1]
    if not _possible(predicted, truth, facts, baselines, K):
        return False
    places, overall, faded = classes[PLACE], classes[OVERALL:FADED], classes[FADED:]
    for i in range(truth.shape[0]):
        row = ring[int(s[ROWS]) % ring.shape[0]]
        _note(row, predicted[i], truth[i], facts, i, baselines, s)
        s[ROWS] += 1.0
        s[WEIGHT] /= fading
        _see(truth[i], s, classes, confusion)
        _count(row, 1.0, sums[0], overall, places, confusion[0], scores[0])
        _count(row, s[WEIGHT], sums[1], faded, places, confusion[1], scores[1])
        if s[ROWS] % RESCALED == 0.0:
            share = 1.0 / s[WEIGHT]
            s[WEIGHT] = 1.0
            times_number(sums[1], share)
            for part in (faded, confusion[1], scores[1]):
                for counts in part:
                    times_number(counts, share)
        if s[ROWS] % s[STRIDE] == 0.0:
            accuracy, kappa, no_change, majority = _window_scores(ring, int(min(s[ROWS], float(ring.shape[0]))), K)
            so_far = sums[0, RIGHT] / sums[0, SCORED] if sums[0, SCORED] > 0.0 else np.nan
            add_point(s, history, np.array([accuracy, so_far, kappa, no_change, majority]))
    return True


@njit("void(f8[:,::1], i8, f8[::1], f8[::1], f8[:,::1], f8[:,::1], f8[:,::1])", cache=True)
def count_window(
    ring: Floats, width: int, places: Floats, sums: Floats, tallies: Floats, confusion: Floats, scores: Floats
) -> None:
    """Count the first ``width`` rows of the ring in the arrays of a span, which are zeros before."""
    for i in range(width):
        _count(ring[i], 1.0, sums, tallies, places, confusion, scores)
