"""How scored rows of a classifier are counted, compiled.

A *span* is all rows, the window, or all rows fading. Of each is counted

    sums       (SUMS,)     rows, right ones and losses; behind them the bins of the reliability
    tallies    (3, K)      of each class: its labels, how often it was said, how often rightly
    confusion  (S, S)      rows by true class (first) and answer, at the *places* of the classes
    scores     (2, B)      rows of the first and the second class by what the second was given; only up to two classes

Overall, a row counts 1. Fading, it counts ``WEIGHT``, which grows by 1 / 0.999 a row; every 1000 rows weight and counts
are divided by it. The window is counted from the ring whenever it is asked for.

Up to 50 classes have a place each. Of more, 50 do, and all others share the last one: the first 50 to begin with, and a
class seen more than twice as often as the rarest one with a place takes that over. What was counted of the rarest then
moves to the shared place, where rows of the other from before remain.
"""

from typing import Final

import numpy as np
from numba import njit

from core.contract import Floats, Ints
from core.metrics.losses import BRIER, P_SAID, P_TRUE, SCORE
from core.metrics.prequential import FADING, READ_INTS, WINDOW, add_point

P_MIN: Final = 1e-15
"""Probabilities below count as this much in the log loss, which is then at most 34.5."""
PLACES_MAX: Final = 50
"""Classes with a place of their own in the confusion."""
BINS: Final = 10
"""Bins of the reliability, of equal width."""
SCORE_BINS: Final = 384
"""Bins of the scores, of equal width in log-odds, the outermost open."""
PER_LOG_ODDS: Final = 16.0
"""Bins of the scores in one unit of log-odds; they reach from -12 to 12."""

# Scalars; the row count first, the stride and the number of points of the history last.
ROWS, LAST, LEADER, WEIGHT, STRIDE = 0, 1, 2, 3, 4  # LAST, LEADER: latest and most frequent label, -1: none
SCALARS: Final = 6
# Sums of a span.
SCORED, UNSCORED, RIGHT, NO_CHANGE, MAJORITY, LOSS_ROWS, LOSS_SUM, BRIER_ROWS, BRIER_SUM, BIN = range(10)
SUMS: Final = BIN + 3 * BINS  # of each bin: rows, sum of their probabilities, right ones
# Rows of what is kept of classes (8, K): labels of all rows, places, then the tallies overall and fading.
SEEN, PLACE, OVERALL, FADED = 0, 1, 2, 5
CLASS_ROWS: Final = 8
LABELS, GUESSES, HITS = range(3)
# Columns of the ring; FLAGS: 1 for a right no_change plus 2 for a right majority.
GUESS, TRUTH, FLAGS, R_LOSS, R_BRIER, R_SAID, R_SCORE = range(7)
RING: Final = 7

NOTHING: Final = -1
"""No label was known, so nothing was said. As a baseline it says the first class then, as a model does."""
GONE: Final = -2
"""A label was said that the model does not know any more."""
AS_NOW: Final = -3
"""What a baseline was told to have said: nothing is known, it is taken to say what it says now."""


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
    if not np.isnan(row[R_LOSS]):
        sums[LOSS_ROWS] += weight
        sums[LOSS_SUM] += weight * row[R_LOSS]
    if not np.isnan(row[R_BRIER]):
        sums[BRIER_ROWS] += weight
        sums[BRIER_SUM] += weight * row[R_BRIER]
    if not np.isnan(row[R_SAID]):
        at = BIN + 3 * int(min(BINS * row[R_SAID], BINS - 1.0))
        sums[at] += weight
        sums[at + 1] += weight * row[R_SAID]
        sums[at + 2] += hit
    if scores.shape[1] and not np.isnan(row[R_SCORE]):
        scores[y, _score_bin(row[R_SCORE])] += weight


@njit(cache=True)
def _note(row: Floats, guess: int, y: int, facts: Floats, i: int, told: Ints, s: Floats) -> None:
    """Write what is known of a row into the ring, before its label is seen."""
    no_change, majority = int(s[LAST]), int(s[LEADER])
    if told.shape[0]:
        no_change = no_change if told[i, 0] == AS_NOW else told[i, 0]
        majority = majority if told[i, 1] == AS_NOW else told[i, 1]
    no_change = 0 if no_change == NOTHING else no_change
    majority = 0 if majority == NOTHING else majority
    p_true = facts[P_TRUE, i]
    row[GUESS], row[TRUTH] = guess, y
    row[FLAGS] = (1.0 if no_change == y else 0.0) + (2.0 if majority == y else 0.0)
    row[R_LOSS] = np.nan if np.isnan(p_true) else 0.0 - np.log(min(max(p_true, P_MIN), 1.0))
    row[R_BRIER], row[R_SAID], row[R_SCORE] = facts[BRIER, i], facts[P_SAID, i], facts[SCORE, i]


@njit(cache=True)
def _see(y: int, s: Floats, classes: Floats, confusion: Floats) -> None:
    """One more label: the latest, perhaps the most frequent, perhaps one to be given a place."""
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
            _empty_place(confusion[0], place)
            _empty_place(confusion[1], place)
            classes[PLACE, y], classes[PLACE, rarest] = place, PLACES_MAX


@njit(cache=True)
def _empty_place(confusion: Floats, place: int) -> None:
    """Move what is counted at a place to the shared one."""
    for k in range(PLACES_MAX + 1):
        confusion[PLACES_MAX, k] += confusion[place, k]
        confusion[place, k] = 0.0
    for k in range(PLACES_MAX + 1):
        confusion[k, PLACES_MAX] += confusion[k, place]
        confusion[k, place] = 0.0


@njit(cache=True)
def _weigh_anew(s: Floats, sums: Floats, tallies: Floats, confusion: Floats, scores: Floats) -> None:
    """Divide the weight of the newest row, and all that fades, by that weight."""
    share = 1.0 / s[WEIGHT]
    s[WEIGHT] = 1.0
    sums *= share
    tallies *= share
    confusion *= share
    scores *= share


@njit(cache=True)
def _window_scores(ring: Floats, width: int, K: int) -> tuple[float, float, float, float]:
    """Accuracy, kappa, and the accuracies of ``no_change`` and ``majority`` in the window; NaN without scored rows."""
    counts = np.zeros((2, K))
    scored = right = no_change = majority = 0.0
    for i in range(width):
        guess, y = int(ring[i, GUESS]), int(ring[i, TRUTH])
        if guess == NOTHING:
            continue
        scored += 1.0
        right += 1.0 if guess == y else 0.0
        no_change += int(ring[i, FLAGS]) % 2
        majority += int(ring[i, FLAGS]) // 2
        counts[LABELS, y] += 1.0
        if guess >= 0:
            counts[GUESSES, guess] += 1.0
    if scored == 0.0:
        return np.nan, np.nan, np.nan, np.nan
    chance = 0.0
    for k in range(K):
        chance += (counts[LABELS, k] / scored) * (counts[GUESSES, k] / scored)
    return right / scored, beyond_chance(right / scored, chance), no_change / scored, majority / scored


@njit("f8(f8, f8)", cache=True)
def beyond_chance(p0: float, chance: float) -> float:
    """(p0 - chance)/(1 - chance), either kappa; NaN where it is undefined."""
    if 1.0 - chance > 1e-12:
        return (p0 - chance) / (1.0 - chance)
    return 1.0 if p0 >= 1.0 - 1e-12 else np.nan


@njit(cache=True)
def _possible(predicted: Ints, truth: Ints, facts: Floats, told: Ints, K: int) -> bool:
    """Whether all indices and probabilities are within their ranges."""
    for i in range(truth.shape[0]):
        if not (0 <= truth[i] < K and GONE <= predicted[i] < K):
            return False
        for fact in (P_TRUE, BRIER, P_SAID, SCORE):
            if facts[fact, i] < 0.0 or facts[fact, i] == np.inf:
                return False
    for i in range(told.shape[0]):
        for said in (told[i, 0], told[i, 1]):
            if not AS_NOW <= said < K:
                return False
    return True


@njit(
    f"b1({READ_INTS}, {READ_INTS}, f8[:,::1], i8[:,::1], f8[::1], f8[:,::1], f8[:,::1], f8[:,:,::1], f8[:,:,::1], "
    "f8[:,::1], f8[:,::1])",
    cache=True,
)
def absorb(
    predicted: Ints,
    truth: Ints,
    facts: Floats,
    told: Ints,
    s: Floats,
    sums: Floats,
    classes: Floats,
    confusion: Floats,
    scores: Floats,
    ring: Floats,
    history: Floats,
) -> bool:
    """Score rows one by one; False, with nothing changed, where an index or a probability cannot be.

    Args:
        predicted: (n,) class indices, NOTHING or GONE.
        truth: (n,) class indices.
        facts: (FACTS, n), see ``losses``.
        told: (n, 2) what ``no_change`` and ``majority`` said, or (0, 2): what they say now.
        s: scalars.
        sums: (2, SUMS) overall and fading, as confusion (2, S, S) and scores (2, 2, B).
        classes: (CLASS_ROWS, K).
        confusion: see above.
        scores: see above.
        ring: (rows, RING).
        history: points of five metrics.
    """
    K = classes.shape[1]
    if not _possible(predicted, truth, facts, told, K):
        return False
    places, overall, faded = classes[PLACE], classes[OVERALL:FADED], classes[FADED:]
    for i in range(truth.shape[0]):
        row = ring[int(s[ROWS]) % WINDOW]
        _note(row, predicted[i], truth[i], facts, i, told, s)
        s[ROWS] += 1.0
        s[WEIGHT] /= FADING
        _see(truth[i], s, classes, confusion)
        _count(row, 1.0, sums[0], overall, places, confusion[0], scores[0])
        _count(row, s[WEIGHT], sums[1], faded, places, confusion[1], scores[1])
        if s[ROWS] % WINDOW == 0.0:
            _weigh_anew(s, sums[1], faded, confusion[1], scores[1])
        if s[ROWS] % s[STRIDE] == 0.0:
            accuracy, kappa, no_change, majority = _window_scores(ring, int(min(s[ROWS], float(WINDOW))), K)
            so_far = sums[0, RIGHT] / sums[0, SCORED] if sums[0, SCORED] > 0.0 else np.nan
            add_point(s, history, np.array([accuracy, so_far, kappa, no_change, majority]))
    return True


@njit("void(f8[:,::1], i8, f8[::1], f8[::1], f8[:,::1], f8[:,::1], f8[:,::1])", cache=True)
def count_window(
    ring: Floats, width: int, places: Floats, sums: Floats, tallies: Floats, confusion: Floats, scores: Floats
) -> None:
    """Count the first rows of the ring in a span of zeros: see above."""
    for i in range(width):
        _count(ring[i], 1.0, sums, tallies, places, confusion, scores)
