r"""GA2M for numbers: each cell (kernels.py) has a number w_c and its variance P_c, as in a Kalman filter that keeps
only the diagonal of its covariance.

    s    = mean + sum_c w_c over the cells c of the row          mean: of the earlier labels, 0 without any
    e    = y - s, 0 for the first label
    a_c  = min(1, 2 (1 - n_c / n)), 1 for the cell of all rows   of n rows so far, n_c were in the cell (kernels.py)
    k_c  = a_c P_c / (sum_c a_c P_c + r / v)                     r = R / V; v, from the weight of the row, see below
    w_c  <- w_c + k_c e
    P_c  <- min(P_c (1 - k_c) + q r P_0, P_0)                    P_0 = .1 at first, in units of V; q = .001
    R    <- R + max(1/n, .002) (e^2 - R)                         the noise; V is the variance of the labels so far
    M    <- M + max(1/n, .002) (v - M)                           the mean weight of rows

So the cells of a row share its error in proportion to their uncertainty: a rarely seen cell learns fast, and a
frequently seen one keeps learning, at a rate that grows with q. A row of weight v has the noise of the mean of v rows.
If rows are lighter than 1 on average, v is divided by M: otherwise rows of a tenth would teach as little as a tenth of
the rows. Predictions are held near the range of the
labels (core.features.label_range); the predictive deviation is sqrt(R).

**Any finite input.** Labels are clipped to +-1e150, and a label far outside the range widens it as in
``core.features.label_range``; numbers of cells are clipped to +-1e152.

Source: Lou, Caruana, Gehrke, Hooker: Accurate Intelligible Models with Pairwise Interactions, KDD 2013, for the model;
Puskorius, Feldkamp: Decoupled extended Kalman filter training, IJCNN 1991, for diagonal covariances.
"""

import math

import numpy as np
from numba import njit

from core.contract import NUMBERS_IN, ROWS_IN, TABLE, VECTOR, Floats, Ints, direct
from core.features.label_range import HIGH, LOW, ROWS, held, widen
from core.learners.ga2m.kernels import find_cells, own_part

MEAN, VARIANCE, NOISE, WEIGHT = range(3, 7)  # places in ``labels`` (7,), after those of their range: mean, V, R, M
VARIANCE_FIRST = 0.1
NUMBER_MAX, SQUARE_MAX = 1e152, 1e304
_LABEL_MAX, _DRIFT, _NOISE_RATE, _NOISE_MIN = 1e150, 1e-3, 0.002, 1e-6


@njit(cache=True, nogil=True)
def _predict_number(W: Floats, found: Ints, labels: Floats) -> float:
    """The number of a row in these cells."""
    total = labels[MEAN]
    for cell in found:
        total += W[cell, 0]
    return held(total, labels[LOW], labels[HIGH], labels[ROWS])


@njit(cache=True, nogil=True)
def _learn_number(W: Floats, P: Floats, found: Ints, labels: Floats, y: float, weight: float) -> None:
    """Learn a label y of a row in these cells; P (cells, 2): the variance of each, and the rows that were in it."""
    y = min(max(y, -_LABEL_MAX), _LABEL_MAX)
    widen(labels, y, labels[ROWS])
    y = min(max(y, labels[LOW]), labels[HIGH])
    if labels[ROWS] == 0.0:
        labels[MEAN] = y
    error, total, constant = y - labels[MEAN], P[found[-1], 0], found[-1]
    for cell in found:
        error -= W[cell, 0]
        if cell != constant:
            total += own_part(P[cell, 1], P[constant, 1]) * P[cell, 0]
    labels[ROWS] += 1.0
    apart = y - labels[MEAN]
    labels[MEAN] += apart / labels[ROWS]
    labels[VARIANCE] += (apart * (y - labels[MEAN]) - labels[VARIANCE]) / labels[ROWS]
    rate = max(1.0 / labels[ROWS], _NOISE_RATE)
    labels[NOISE] += rate * (min(error * error, SQUARE_MAX) - labels[NOISE])
    labels[WEIGHT] += rate * (weight - labels[WEIGHT])
    weight /= min(labels[WEIGHT], 1.0)
    noise = max(labels[NOISE] / labels[VARIANCE], _NOISE_MIN) if labels[VARIANCE] > 0.0 else 1.0
    for cell in found:
        part = own_part(P[cell, 1], P[constant, 1]) if cell != constant else 1.0
        gain = part * P[cell, 0] / (total + noise / weight)
        W[cell, 0] = min(max(W[cell, 0] + gain * error, -NUMBER_MAX), NUMBER_MAX)
        P[cell, 0] = min(P[cell, 0] * (1.0 - gain) + _DRIFT * VARIANCE_FIRST * noise, VARIANCE_FIRST)
        P[cell, 1] += 1.0


@direct(f"void({ROWS_IN}, {NUMBERS_IN}, {NUMBERS_IN}, i8, i8, i8, {TABLE}, {TABLE}, {VECTOR}, {TABLE})")
def number_rows(
    Z: Floats, y: Floats, weights: Floats, B: int, C: int, cells_of_row: int, W: Floats, P: Floats, labels: Floats,
    out: Floats,
) -> None:  # fmt: skip
    """Predict rows Z (n, d); with labels y (n,), learn each after its prediction.

    Weights are (n,), or (0,): every row counts once. W (cells, 1), P (cells, 2) and ``labels`` (7,) are updated in
    place; out (2, n): numbers and deviations.
    """
    u, found = np.empty(Z.shape[1]), np.empty(cells_of_row, dtype=np.int64)
    for i in range(Z.shape[0]):
        find_cells(Z, i, B, C, u, found)
        out[0, i] = _predict_number(W, found, labels)
        out[1, i] = math.sqrt(labels[NOISE])
        if y.shape[0]:
            _learn_number(W, P, found, labels, y[i], weights[i] if weights.shape[0] else 1.0)
