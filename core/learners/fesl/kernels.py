r"""FESL, the paper's equations: online gradient descent on a linear model, compiled, and where to find the others.

    (1)               the descent below: Algorithm 1, lines 3 to 5; Algorithms 2 and 3 for w_2, in the new space
    (2), (3)          Algorithm 1, line 7: psi, old features from new: core.switching.linear_mapping, kernel_mapping
    (7)               (1) for w_1 on recovered rows psi(x): the expert "recovered" of core.switching.space_model
    (4)-(6), (8)      FESL-c, Algorithm 2: weights, combination, the experts' losses: core.switching.mixture
    (11), (12)        FESL-s, Algorithm 3: the expert drawn, its weights: core.switching.mixture

(9), (10) and (13) to (16) are bounds and proofs, (17) is a mean loss. Per row, with scores s_k = w_k'x (a bias column
is the last of x), and t_k = 1 for the row's class, else 0:

    classification   p = softmax(s)             loss -ln p_y               g_k = (p_k - t_k) x
    regression       s                          loss (s - y)^2             g   = 2 (s - y) x
    G <- G + |g|^2                              over all outputs, this row included
    w <- w - r Y g / sqrt(G)                    (1) with scalar AdaGrad; r: the learning rate; Y = 1 for classes, for
                                                numbers the root mean square of the labels, this row's included

Loss and gradient of a row of weight c are multiplied by c.

Two classes have one column w = w_1 - w_0, which makes softmax the paper's logistic loss ln(1 + exp(-y w'x)), y = +-1;
at the third class it becomes [-w/2, w/2, 0], the same probabilities. Y scales the steps of a regression to the
unit of its labels: plain AdaGrad moves a weight by at most r per row. A step does not depend on the common scale of the
inputs, only on their relative scales: inputs should be standardised (parameter ``scaling``).

Reported probabilities are p (1 - K e) + e with e = 1e-6, so that no class is ever ruled out.

**Outliers.** A number is learned clipped to the range of the labels, itself included: a wild one widens it by one
width only (core.features.label_range). Learned as it is, it would set Y and G, and a label of 1e6 deviations would
spoil thousands of predictions. ``variant: "paper"`` learns it.

**Any finite input.** Rows larger than 1e50 are scaled down as a whole; residuals are clipped to 1e90, weights to
1e100, predictions to 1e300.

Source: Hou, Zhang, Zhou: Learning With Feature Evolvable Streams, IEEE TKDE 33(6), 2021: (1)-(12), Algorithms 1-3;
AdaGrad: Duchi, Hazan, Singer, JMLR 12, 2011, in its scalar form.

Deviations from (1); those from the other equations are in their files
- Scalar AdaGrad instead of the step 1/(c sqrt t), whose c the paper picks per data set from {1, 10, 50, 100, 150}; that
  step is ``variant: "paper"`` with the learning rate 1/c.
- Weights start at zero, not at random, so that replicas agree; no projection (apart from the limits above).
- A third expert, started at the old model's weights (core.switching.space_model): better after every switch measured.
- More than two classes, the bias column, weights of rows and outliers are not in the paper.
"""

import math

import numpy as np
from numba import njit

from core.contract import CLASSES, NUMBERS_IN, ROWS_IN, TABLE, VECTOR, Floats, Ints, direct
from core.features.label_range import widen
from core.learners.calibration import report_row
from core.numerics.rows import load
from core.numerics.weighting import softmax

ROWS, GRADIENTS, SQUARES, LOW, HIGH = range(5)
"""Places in the counters: rows since the step was restarted, G, the mean of the squared labels, and their range."""

_INPUT_MAX, _RESIDUAL_MAX, WEIGHT_MAX, _STEP_MAX, _PREDICTION_MAX = 1e50, 1e90, 1e100, 1e200, 1e300


@njit(cache=True, nogil=True)
def _scores(x: Floats, d: int, W: Floats, s: Floats) -> None:
    """s_k = w_k'x of a row x (D,) of d columns; the bias term is added first."""
    for k in range(W.shape[0]):
        total = W[k, d] * x[d] if W.shape[1] > d else 0.0
        for j in range(d):
            total += W[k, j] * x[j]
        s[k] = min(max(total, -_PREDICTION_MAX), _PREDICTION_MAX)


@njit(cache=True, nogil=True)
def _probabilities(s: Floats, classes: int, p: Floats) -> None:
    """Probabilities p (K,) from the scores: one score for up to two classes, else one per class."""
    if classes <= 2:
        e = math.exp(-abs(s[0]))
        high, low = 1.0 / (1.0 + e), e / (1.0 + e)
        if classes == 2:
            p[0], p[1] = (low, high) if s[0] > 0.0 else (high, low)
        else:
            p[0] = 1.0
    else:
        softmax(s, p)


@njit(cache=True, nogil=True)
def _step(x: Floats, W: Floats, e: Floats, length: float) -> None:
    """(1): w_k <- w_k - length e_k x, every weight within its limit."""
    for k in range(W.shape[0]):
        f = min(max(length * e[k], -_STEP_MAX), _STEP_MAX)
        for j in range(W.shape[1]):
            W[k, j] = min(max(W[k, j] - f * x[j], -WEIGHT_MAX), WEIGHT_MAX)


@njit(cache=True, nogil=True)
def _length(x: Floats, d: int, e: Floats, counters: Floats, label: float, rate: float, paper: bool) -> float:
    """Count the row and return the step length along e_k x, tau_t of (1)."""
    counters[ROWS] += 1.0
    if paper:
        return rate / math.sqrt(counters[ROWS])  # Algorithm 1, line 5
    square = x[d] * x[d] if x.shape[0] > d else 0.0
    for j in range(d):
        square += x[j] * x[j]
    errors = 0.0
    for k in range(e.shape[0]):
        errors += e[k] * e[k]
    counters[GRADIENTS] += errors * square
    counters[SQUARES] += (label * label - counters[SQUARES]) / counters[ROWS]
    return rate * (math.sqrt(counters[SQUARES]) / math.sqrt(counters[GRADIENTS])) if counters[GRADIENTS] > 0.0 else 0.0


@direct(f"void({ROWS_IN}, {NUMBERS_IN}, {NUMBERS_IN}, {TABLE}, {VECTOR}, f8, b1, {CLASSES}, {TABLE})")
def learn_rows(
    X: Floats, y: Floats, weights: Floats, W: Floats, counters: Floats, rate: float, paper: bool, value: Ints,
    out: Floats,
) -> None:  # fmt: skip
    """Write classes (n,) and probabilities (n, K), K >= 1, of rows X (n, d), or numbers into ``out[0]``. With class
    indices or numbers y (n,), not (0,), learn each row after its prediction.

    Weights are (n,), or (0,): every row counts once.
    """
    (m, D), d = W.shape, X.shape[1]
    s, p, e, x, label = np.empty(m), np.empty(out.shape[1]), np.empty(m), np.empty(D), 1.0
    for i in range(X.shape[0]):
        load(X, i, x, _INPUT_MAX)
        _scores(x, d, W, s)
        if value.shape[0]:
            _probabilities(s, out.shape[1], p)
            report_row(p, i, out, value)
        else:
            out[0, i] = s[0]
        if not y.shape[0]:
            continue
        if not value.shape[0]:
            label = min(max(y[i], -_RESIDUAL_MAX), _RESIDUAL_MAX)
            if not paper:
                widen(counters[LOW:], label, counters[ROWS])
                label = min(max(label, counters[LOW]), counters[HIGH])
            e[0] = 2.0 * min(max(s[0] - label, -_RESIDUAL_MAX), _RESIDUAL_MAX)
        elif m == 1:
            t = math.exp(-abs(s[0]))
            e[0] = (1.0 if s[0] > 0.0 else t) / (1.0 + t) - y[i]
        else:
            for k in range(m):
                e[k] = p[k] - (1.0 if y[i] == k else 0.0)
        if weights.shape[0]:
            e *= weights[i]
        _step(x, W, e, _length(x, d, e, counters, label, rate, paper))
