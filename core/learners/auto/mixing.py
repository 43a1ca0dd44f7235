r"""The mixture of classifiers behind `auto`, compiled: what the experts say of a row becomes one prediction.

For a row, p_e the probabilities that expert e gave a priori over the K classes, y the row's class:

    l_ek = ln max(p_ek, 1e-4)      t_e ~ exp(a_e l_e)       each expert's probabilities, tempered
    H_e <- min(H_e + Var_t(l_e), 1000)                      a_e <- a_e + (l_ey - E_t[l_e]) / H_e, within [.02, 20]

    f_ek = ln t_ek - mean_k ln t_ek                         (ln t_ek at least ln 1e-4)
    pool      q ~ exp(sum_e v_e f_e)                        g_e = f_ey - E_q[f_e]
              G_e <- .9995 G_e + g_e^2                      v_e <- v_e + .15 g_e / sqrt(G_e), within +-20; v = 3 / E
    choice    r = sum_e b_e t_e                             b_e <- share(b_e exp(-.5 [argmax t_e != y])); b = 1 / E
    said      p = c q + (1 - c) r                           c <- share(c exp(-.2 [argmax q != y])) against r; c = .5

with share(w) = .999 w / sum w + .001 / (number of weights). The pool combines: experts that err on different rows make
a model better than any of them. The choice picks: it is soon as good as the best expert, while the pool still learns.
The class is the most probable one, of equals the first; no probability is below 1e-6. A row of weight c counts c
times: losses, gradients and curvatures are multiplied by it.

Four experts of labels need no columns. With n_k the labels k so far and n_jk those that came after a label j,

    shares       (n_k + 1/K) / (n + 1)             all labels alike, or each label's n_k decayed by .99 a row
    order        (n_jk + 1/K) / (n_j + 1)          j the last label; n_j decayed by .999, or .98, when it is visited

Sources: logarithmic pools: Hinton, Training Products of Experts, Neural Computation 14, 2002; AdaGrad: Duchi, Hazan,
Singer, JMLR 12, 2011; fixed share: Herbster, Warmuth: Tracking the best expert, Machine Learning 32, 1998.
"""

import math

import numpy as np
from numba import njit

from core.contract import Floats, Ints
from core.learners.auto.resting import USE_RATE

SLOPE, CURVATURE, POOL, SQUARES, CHOICE, RIGHT, USE, WAKES, SPELLS = range(9)
"""Columns of the table of experts: a, H, v, G, b, and the share of rows that its class was right in; then those of
core.learners.auto.resting."""
ROWS, LAST, POOLED, WRONG, RECENT = range(5)
"""Places in the counters: rows; the last label plus 1, 0 for none; c; the fading share of rows whose class was wrong;
how many were wrong since the last row number divisible by REST_ROWS."""
LABEL_EXPERTS = ("label_order", "label_order_recent", "label_share", "label_share_recent")
FIELDS, COUNTERS = 9, 5

_CLIP, _PROBABILITY_MIN = 1e-4, 1e-6
_LOG_MIN = math.log(_CLIP)
SLOPE_MIN, SLOPE_MAX, CURVATURE_FIRST, CURVATURE_MAX = 0.02, 20.0, 1.0, 1000.0
POOL_START, POOL_MAX, COUNT_MAX = 3.0, 20.0, 1e20
_POOL_RATE, _POOL_DECAY = 0.15, 0.9995
_CHOICE_RATE, _TOP_RATE, _SHARE = 0.5, 0.2, 1e-3
_RIGHT_RATE = 1e-3
_ORDER_DECAYS = np.array([0.999, 0.98])
_SHARE_DECAYS = np.array([1.0, 0.99])

_ROWS_IN = "Array(f8, 3, 'C', readonly=True)"
_VECTOR_IN = "Array(f8, 1, 'C', readonly=True)"
_STATE = "i8[::1], f8[:,::1], f8[:,:,::1], f8[::1]"


@njit(cache=True, nogil=True)
def _label_share(counted: Floats, k: int) -> float:
    """Probability of label k from counts (K,)."""
    K = counted.shape[0]
    return float((counted[k] + 1.0 / K) / (counted.sum() + 1.0))


@njit(cache=True, nogil=True)
def _said(P: Floats, a: int, i: int, k: int, labels: Floats, last: int) -> float:
    """What the a-th expert awake says a priori of class k in row i; those of labels come behind the others."""
    own = a - P.shape[0]
    if own < 0:
        return float(P[a, i, k])
    return _label_share(labels[own % 2, 0 if own >= 2 else last], k)


@njit(cache=True, nogil=True, error_model="numpy")
def _temper(a: float, logs: Floats, tempered: Floats, features: Floats) -> None:
    """Tempered probabilities t (K,) and centred logarithms f (K,) of one expert."""
    K, top, total, mean = logs.shape[0], a * logs[0], 0.0, 0.0
    for k in range(1, K):
        top = max(top, a * logs[k])
    for k in range(K):
        tempered[k] = math.exp(a * logs[k] - top)
        total += tempered[k]
    least = top + math.log(total)
    for k in range(K):
        tempered[k] /= total
        features[k] = max(a * logs[k] - least, _LOG_MIN)
        mean += features[k]
    for k in range(K):
        features[k] -= mean / K


@njit(cache=True, nogil=True)
def _largest(values: Floats) -> int:
    """The first place of the largest value."""
    best = 0
    for k in range(1, values.shape[0]):
        if values[k] > values[best]:
            best = k
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _mix_row(
    P: Floats, i: int, awake: Ints, table: Floats, labels: Floats, counters: Floats, logs: Floats, tempered: Floats,
    features: Floats, mixed: Floats, p: Floats,
) -> int:  # fmt: skip
    """Row i: logs, t and f (A, K) of the experts awake, pool and choice into ``mixed`` (2, K), p (n, K); its class."""
    K, last = p.shape[1], int(counters[LAST])
    pool, choice = mixed
    pool[:], choice[:] = 0.0, 0.0
    for a, e in enumerate(awake):
        for k in range(K):
            logs[a, k] = math.log(max(_said(P, a, i, k, labels, last), _CLIP))
        _temper(table[e, SLOPE], logs[a], tempered[a], features[a])
        for k in range(K):
            pool[k] += table[e, POOL] * features[a, k]
            choice[k] += table[e, CHOICE] * tempered[a, k]
    top, total = pool.max(), 0.0
    for k in range(K):
        pool[k] = math.exp(pool[k] - top)
        total += pool[k]
    c, kept = counters[POOLED], 1.0 - K * _PROBABILITY_MIN
    whole = 0.0
    for k in range(K):
        pool[k] /= total
        p[i, k] = c * pool[k] + (1.0 - c) * choice[k]
        whole += p[i, k]
    for k in range(K):
        p[i, k] = p[i, k] / whole * kept + _PROBABILITY_MIN
    return _largest(p[i])


@njit(cache=True, nogil=True, error_model="numpy")
def _fit_expert(
    own: Floats, y: int, logs: Floats, tempered: Floats, features: Floats, pool: Floats, weight: float
) -> None:
    """Slope and weight in the pool of one expert after a row of class y."""
    mean = square = pooled = 0.0
    for k in range(logs.shape[0]):
        mean += tempered[k] * logs[k]
        square += tempered[k] * logs[k] * logs[k]
        pooled += pool[k] * features[k]
    own[CURVATURE] = min(own[CURVATURE] + weight * max(square - mean * mean, 0.0), CURVATURE_MAX)
    slope = own[SLOPE] + weight * (logs[y] - mean) / own[CURVATURE]
    own[SLOPE] = min(max(slope, SLOPE_MIN), SLOPE_MAX)
    g = weight * (features[y] - pooled)
    own[SQUARES] = _POOL_DECAY * own[SQUARES] + g * g
    if own[SQUARES] > 0.0:
        v = own[POOL] + _POOL_RATE * g / math.sqrt(own[SQUARES])
        own[POOL] = min(max(v, -POOL_MAX), POOL_MAX)


@njit(cache=True, nogil=True)
def _note_use(awake: Ints, table: Floats, c: float) -> None:
    """The use of the experts awake after a row: their shares of the pool, by size, and of the choice."""
    total = 0.0
    for e in awake:
        total += abs(table[e, POOL])
    for e in awake:
        pooled = abs(table[e, POOL]) / total if total > 0.0 else 0.0
        table[e, USE] += USE_RATE * (c * pooled + (1.0 - c) * table[e, CHOICE] - table[e, USE])


@njit(cache=True, nogil=True, error_model="numpy")
def _fit_row(
    y: int, wrong: bool, weight: float, awake: Ints, table: Floats, counters: Floats, logs: Floats, tempered: Floats,
    features: Floats, mixed: Floats,
) -> None:  # fmt: skip
    """All weights after a row of class y that ``_mix_row`` has mixed; ``wrong``: whether another class was said."""
    A, total = awake.shape[0], 0.0
    counters[ROWS] += 1.0
    rate, miss = max(1.0 / counters[ROWS], _RIGHT_RATE), math.exp(-_CHOICE_RATE * weight)
    counters[WRONG] += rate * (wrong - counters[WRONG])
    counters[RECENT] += wrong
    _note_use(awake, table, counters[POOLED])
    for a, e in enumerate(awake):
        _fit_expert(table[e], y, logs[a], tempered[a], features[a], mixed[0], weight)
        right = _largest(tempered[a]) == y
        table[e, RIGHT] += rate * ((1.0 if right else 0.0) - table[e, RIGHT])
        table[e, CHOICE] *= 1.0 if right else miss
        total += table[e, CHOICE]
    for e in awake:
        table[e, CHOICE] = (1.0 - _SHARE) * table[e, CHOICE] / total + _SHARE / A
    miss = math.exp(-_TOP_RATE * weight)
    c = counters[POOLED] * (1.0 if _largest(mixed[0]) == y else miss)
    other = (1.0 - counters[POOLED]) * (1.0 if _largest(mixed[1]) == y else miss)
    counters[POOLED] = (1.0 - _SHARE) * c / (c + other) + 0.5 * _SHARE


@njit(cache=True, nogil=True)
def _count_label(y: int, weight: float, labels: Floats, counters: Floats) -> None:
    """Label y joins the counts."""
    last = int(counters[LAST])
    for which in range(2):
        labels[which, 0] *= _SHARE_DECAYS[which]
        labels[which, 0, y] = min(labels[which, 0, y] + weight, COUNT_MAX)
        if last:
            labels[which, last] *= _ORDER_DECAYS[which]
            labels[which, last, y] += weight
    counters[LAST] = y + 1.0


@njit(f"void({_ROWS_IN}, {_STATE}, i8[::1], f8[:,::1])", cache=True, nogil=True)
def predict_rows(
    P: Floats, awake: Ints, table: Floats, labels: Floats, counters: Floats, value: Ints, p: Floats
) -> None:
    """Classes (n,) and probabilities (n, K), K >= 1, of n rows.

    P (A - 4, n, K) are the probabilities of those experts ``awake`` (A,), rows of the table, that read columns.
    """
    A, K = awake.shape[0], p.shape[1]
    logs, tempered, features, mixed = np.empty((A, K)), np.empty((A, K)), np.empty((A, K)), np.empty((2, K))
    for i in range(P.shape[1]):
        value[i] = _mix_row(P, i, awake, table, labels, counters, logs, tempered, features, mixed, p)


@njit(f"void({_ROWS_IN}, Array(i8, 1, 'C', readonly=True), {_VECTOR_IN}, {_STATE}, i8[::1], f8[:,::1])",
      cache=True, nogil=True)  # fmt: skip
def learn_rows(
    P: Floats, y: Ints, weights: Floats, awake: Ints, table: Floats, labels: Floats, counters: Floats, value: Ints,
    p: Floats,
) -> None:  # fmt: skip
    """``predict_rows`` for each row before its class y (n,) moves the weights.

    Weights are (n,), or (0,): every row counts once.
    """
    A, K = awake.shape[0], p.shape[1]
    logs, tempered, features, mixed = np.empty((A, K)), np.empty((A, K)), np.empty((A, K)), np.empty((2, K))
    for i in range(P.shape[1]):
        weight = weights[i] if weights.shape[0] else 1.0
        value[i] = _mix_row(P, i, awake, table, labels, counters, logs, tempered, features, mixed, p)
        _fit_row(y[i], value[i] != y[i], weight, awake, table, counters, logs, tempered, features, mixed)
        _count_label(y[i], weight, labels, counters)
