r"""Probabilities from least-squares scores, compiled: what ``dfop`` and its bank report for classes.

Scores s_k estimate targets of +-1, one per class (two classes have one column s: s_0 = -s, s_1 = s). Probabilities are

    p_k ~ exp(a s_k)                     plus 1e-6, so that no class is ever ruled out

with one slope a >= 0 for all classes, which therefore never changes the prediction: the most probable class is the
(first) one with the largest score. For two Gaussian classes a = 1 / (mean squared error) would be exact; the slope is
learned from the stream instead, by one Newton step per row on the log loss of its a-priori probabilities:

    H <- min(H + sum_k p_k s_k^2 - (sum_k p_k s_k)^2, 50 + L m^4 / 4)     curvature
    a <- a + sum_k (t_k - p_k) s_k / H                        t_k = 1 for the row's class, else 0; a within [.05, 25]

The limit of H makes it forget by the information in rows, not by their number: if one class is rare, most rows say
little about the slope. Then all scores are near -1, too, and the slope sets the level of all probabilities. If it
followed the last few rows of the rare class, so would the level, and later rows would not be ranked with earlier ones.
So H may grow with what rows say of the level, but hardly if the first two classes are about equally frequent:

    L <- min(L + p_0 p_1, 250)    m <- m + p_0 p_1 (s_1 - s_0 - m) / L

It starts from a = 1, H = 1, L = .25, m = 0. A row of weight c, relative to the largest recent one
(core.numerics.weighting), adds c times its curvature and its p_0 p_1, and moves the slope by c times its step.
"""

import math
from typing import Any

import numpy as np
from numba import njit

from core.contract import CLASSES, NUMBERS_IN, TABLE, VECTOR, WEIGHT_MAX, Floats, Ints
from core.numerics.weighting import relative
from core.state.layout import Array, Range

SLOPE, CURVATURE, HEAVIEST, LEVEL, GAP, SIZE = range(6)  # places in the calibration, and their number

PROBABILITY_MIN = 1e-6
SLOPE_MIN, SLOPE_MAX = 0.05, 25.0
_CURVATURE_FIRST, _CURVATURE_MAX = 1.0, 50.0
_LEVEL_FIRST, _LEVEL_MAX = 0.25, 250.0  # of L
_SCORE_MAX = 2.0
_GAP_MAX = 2.0 * _SCORE_MAX

CALIBRATION = Array(
    SIZE,
    places={
        SLOPE: Range(SLOPE_MIN, SLOPE_MAX),
        CURVATURE: Range(_CURVATURE_FIRST, _CURVATURE_MAX + 0.25 * _LEVEL_MAX * _GAP_MAX**4),
        HEAVIEST: Range(0.0, WEIGHT_MAX),
        LEVEL: Range(_LEVEL_FIRST, _LEVEL_MAX),
        GAP: Range(-_GAP_MAX, _GAP_MAX),
    },
    at="calibration",
)
"""The calibration of a learner in its state (core.state.layout)."""


def fresh_calibration() -> Floats:
    """The calibration before the first row."""
    return np.array([1.0, _CURVATURE_FIRST, 0.0, _LEVEL_FIRST, 0.0])


@njit(cache=True, nogil=True)
def _score(scores: Floats, i: int, k: int) -> float:
    """s_k of row i."""
    if scores.shape[1] > 1:
        return float(scores[i, k])
    return float(scores[i, 0]) if k == 1 else -float(scores[i, 0])


@njit(cache=True, nogil=True)
def _classify_row(scores: Floats, i: int, slope: float, p: Floats) -> int:
    """Write the probabilities of row i into p (n, K), K > 1; return the most probable class."""
    classes = p.shape[1]
    top = -np.inf
    for k in range(classes):
        top = max(top, slope * _score(scores, i, k))
    total = 0.0
    for k in range(classes):
        p[i, k] = math.exp(slope * _score(scores, i, k) - top)
        total += p[i, k]
    share = (1.0 - classes * PROBABILITY_MIN) / total
    for k in range(classes):
        p[i, k] = p[i, k] * share + PROBABILITY_MIN
    return int(p[i].argmax())


@njit(cache=True, nogil=True)
def _fit_row(scores: Floats, i: int, label: float, p: Floats, calibration: Floats, weight: float) -> None:
    """One Newton step of the slope; scores are clipped to +-2, so that an outlier cannot spoil it."""
    counts, mean, square, right, gap = relative(weight, calibration, HEAVIEST), 0.0, 0.0, 0.0, 0.0
    for k in range(p.shape[1]):
        s = min(max(_score(scores, i, k), -_SCORE_MAX), _SCORE_MAX)
        mean += p[i, k] * s
        square += p[i, k] * s * s
        if k < 2:
            gap = s - gap
        if k == label:
            right = s
    said = counts * p[i, 0] * p[i, 1]
    calibration[LEVEL] = min(calibration[LEVEL] + said, _LEVEL_MAX)
    calibration[GAP] += said * (gap - calibration[GAP]) / calibration[LEVEL]
    limit = _CURVATURE_MAX + 0.25 * calibration[LEVEL] * calibration[GAP] ** 4
    curvature = calibration[CURVATURE] + counts * max(square - mean * mean, 0.0)
    calibration[CURVATURE] = min(max(curvature, _CURVATURE_FIRST), limit)
    slope = calibration[SLOPE] + counts * (right - mean) / calibration[CURVATURE]
    calibration[SLOPE] = min(max(slope, SLOPE_MIN), SLOPE_MAX)


@njit(f"void({TABLE}, {NUMBERS_IN}, {NUMBERS_IN}, {VECTOR}, {CLASSES}, {TABLE})", cache=True, nogil=True)
def classify_rows(scores: Floats, y: Floats, weights: Floats, calibration: Floats, value: Ints, p: Floats) -> None:
    """Write classes (n,) and probabilities (n, K); with labels y (n,), not (0,), each row then updates the slope."""
    classes = p.shape[1]
    for i in range(p.shape[0]):
        if classes < 2:
            value[i], p[i, :] = classes - 1, 1.0
            continue
        value[i] = _classify_row(scores, i, calibration[SLOPE], p)
        if y.shape[0]:
            _fit_row(scores, i, y[i], p, calibration, weights[i] if weights.shape[0] else 1.0)


@njit(cache=True, nogil=True)
def report_row(p: Floats, i: int, P: Floats, value: Any) -> None:
    """Write row i's reported probabilities, from p (K,), into P (n, K), and its most probable class into value (n,)."""
    K = P.shape[1]
    for k in range(K):
        P[i, k] = p[k] * (1.0 - K * PROBABILITY_MIN) + PROBABILITY_MIN if K > 1 else 1.0
    value[i] = P[i].argmax()
