r"""The mixtures behind `auto`, compiled: the experts' predictions of a row become one (core.numerics.weighting).

**Classes.** For a row, p_e the probabilities that expert e gave a priori over the K classes, y the row's class:

    l_ek = ln max(p_ek, 1e-4)      t_e ~ exp(a_e l_e)       each expert's probabilities, tempered
    H_e <- min(H_e + Var_t(l_e), 1000)                      a_e <- a_e + (l_ey - E_t[l_e]) / H_e, within [.02, 20]

    f_ek = ln t_ek - mean_k ln t_ek                         (ln t_ek at least ln 1e-4)
    pool      q ~ exp(sum_e v_e f_e)                        v moved by AdaGrad; v = 3 / E at first
    choice    r = sum_e b_e t_e                             exponential weights: eta = .5, loss [argmax t_e != y]
    mixture   p = c q + (1 - c) r                           of q against r: eta = .2, losses of their classes; c = .5

each with a fixed share of .001. From row 200 on, if one class has more than .95 of the labels so far, nearly all
experts err on the same rows: then choice and mixture lose -ln t_ey, -ln q_y and -ln r_y, and the mixture's eta is 1.
All experts then agree about how rare a class is, more than they differ about rows; so v would learn the former from the
few rows of the rare class, which any expert that knows nothing can tell. With h the f of the shares of all labels
(below), the pool is then q ~ exp(h + sum_e v_e (f_e - h)), and a row moves v less at first (G_0 = 100, else 0).
The pool combines: experts that err on different rows make a model better than any of them. The choice picks: it is soon
as good as the best expert, while the pool still learns. The class is the (first) most probable one; no
probability is below 1e-6. A row of weight c, relative to the largest recent one, counts c times: losses, gradients and
curvatures are multiplied by it.

Four label experts need no columns. With n_k the weights of the labels k so far and n_jk of those after a label j,

    order        (n_jk + 1/K) / (n_j + 1)          j the last label, whose n_jk then decay by .999, or by .98
    shares       (n_k + 1/K) / (n + 1)             all labels alike, or each label's n_k decayed by .99 a row

The last label of a tracked row is the one that was known when the row was predicted. Tracked rows move the weights by
what the experts predicted at that moment: by then, an expert that forgets fast did not know the latest labels. Of
classes, only if they are few, and none has come since; d rows later the rates of choice and mixture are eta / sqrt(d).
The pool's slopes learn from what the experts say now: what they said when they had learned little misled it for long.

**Numbers.** p_e is held near the range of the labels so far (core.features.label_range):

    o = sum_e a_e p_e                                       a the shares of w: exponential weights, fixed share .001:
    l_e = min(((p_e - y)^2 - min_e (p_e - y)^2) / D, 4)     eta = .3; D: the loss to expect
    m_e <- m_e + r ((p_e - y)^2 - m_e)                      each expert's mean squared error, r = max(1/t, .001)

D, m_e and s_e^2 are at most what the range of the labels allows. In the D and m_e of later rows, the squared error of
a row counts at most as 1000 D, or 1000 m_e if that is more; the first two rows count in full.

After the experts that read columns come one that repeats the last label, and two sums of all of these
(core.learners.auto.stacks). The cap of 4 keeps a single row from deciding: an expert that is bad only in a
few rows loses little. **Predictive deviation**: sqrt(c S), S = sum_e a_e (s_e^2 + (p_e - o)^2), s_e that of expert e
(sqrt(m_e) for the last label and the sums); 0 while all labels are equal. Experts may misjudge their deviations; so
from row 20 on c follows the ratio of squared errors to S:

    c <- c + max(1/t, .01) (min((y - o)^2 / S, 100 c) - c)   c = 1 at first, within [1/400, 25]

A row of relative weight w moves c at w times this rate.
"""

import math

import numpy as np
from numba import njit

from core.contract import CLASSES, CLASSES_IN, CUBE, NUMBERS_IN, ROWS_IN, TABLE, VECTOR, Floats, Ints, direct
from core.features.label_range import SPAN_ROWS, WIDTH_ROWS, error_max, held, widen
from core.learners.auto.resting import REST_ROWS, USE_RATE
from core.learners.auto.stacks import STACKS, learn_stack, stack
from core.numerics import weighting
from core.numerics.rows import put

WEIGHT, USE, WAKES, SPELLS, FIGURE, SLOPE, CURVATURE, POOL, SQUARES = range(9)
"""Rows of the table of experts: b or w; those of core.learners.auto.resting; the share of rows in which its class was
right, or m; and for classes a, H, v, G."""
ROWS, LAST, LOSS, RECENT, HEAVIEST, POOLED, LEAST, MOST, SPREAD = 0, 1, 2, 3, 4, 5, 5, 6, 7
"""Places in the counters: rows; the last label, for classes plus 1 (0: none); the fading share of rows whose class was
wrong, or D; the number of these rows, or their mean loss, since the last row number divisible by REST_ROWS; the largest
recent weight of a row; for classes c, for numbers the range of the labels and c."""
SPREAD_MIN, SPREAD_MAX = 1.0 / 400.0, 25.0
LABEL_EXPERTS = ("label_order", "label_order_recent", "label_share", "label_share_recent")
NUMBER_EXPERTS = ("last_value", *STACKS)
_SHARES = LABEL_EXPERTS.index("label_share") - len(LABEL_EXPERTS)  # its place, from the end: label experts never rest

_SPREAD_RATE, _OFF_MAX = 0.01, 10.0
_CLIP, _PROBABILITY_MIN = 1e-4, 1e-6
_LOG_MIN = math.log(_CLIP)
SLOPE_MIN, SLOPE_MAX, CURVATURE_FIRST, CURVATURE_MAX = 0.02, 20.0, 1.0, 1000.0
POOL_FIRST, POOLED_FIRST, COUNT_MAX = 3.0, 0.5, 1e20
VALUE_MAX, LOSS_MAX = 1e300, 1e301
_CHOICE_RATE, _TOP_RATE, _RATE, _CAP = 0.5, 0.2, 0.3, 4.0
_WINSOR = 1e3  # largest squared error of a row in later D and m_e, in multiples of them
_RARE_BEGIN, _COMMON, _RARE_TOP_RATE, _RARE_SQUARES = 200, 0.95, 1.0, 100.0
_SCALE_MIN, _SCALE_MAX, _FAR = 1e-140, 1e140, 1e3
"""Limits of sqrt(D), outside which there are no stacks (squares would overflow or vanish), and of |x_e| in a stack."""
_ORDER_DECAYS = np.array([0.999, 0.98])
_SHARE_DECAYS = np.array([1.0, 0.99])


@njit(cache=True, nogil=True)
def _copy(table: Floats, awake: Ints, own: Floats, back: bool) -> None:
    """Copy the columns of the awake experts from the table (fields, E) into ``own`` (fields, A), or back."""
    for field in range(own.shape[0]):
        for a, e in enumerate(awake):
            if back:
                table[field, e] = own[field, a]
            else:
                own[field, a] = table[field, e]


@njit(cache=True, nogil=True)
def _last(told: Floats, i: int, counters: Floats) -> float:
    """The last label that was known when row i was predicted."""
    last: float = told[i, 0] if told.shape[0] and not math.isnan(told[i, 0]) else counters[LAST]
    return last


@njit(cache=True, nogil=True)
def _take_logs(
    P: Floats, i: int, told: Floats, served: bool, awake: Ints, labels: Floats, last: int, logs: Floats
) -> None:
    """Write the logarithms l (A, K) of row i: first of the experts that read columns, then of the label experts.

    If ``served``, those that they had when the row was predicted.
    """
    A, K = logs.shape
    for a in range(A):
        own = a - P.shape[0]
        if served:
            for k in range(K):
                logs[a, k] = math.log(max(told[i, 2 + awake[a] * K + k], _CLIP))
        elif own < 0:
            for k in range(K):
                logs[a, k] = math.log(max(P[a, i, k], _CLIP))
        else:
            counted = labels[own % 2, 0 if own >= 2 else last]
            total = counted.sum() + 1.0
            for k in range(K):
                logs[a, k] = math.log(max((counted[k] + 1.0 / K) / total, _CLIP))


@njit(cache=True, nogil=True, error_model="numpy")
def _temper(a: float, logs: Floats, tempered: Floats, features: Floats) -> None:
    """Write the tempered probabilities t (K,) and centred logarithms f (K,) of one expert."""
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
def _pool(weights: Floats, features: Floats, rare: bool, q: Floats) -> None:
    """Write the pool q (K,); if ``rare``, the features (A, K) become relative to those of the label shares."""
    q[:] = 0.0
    if rare:
        put(features[features.shape[0] + _SHARES], q)
        for a in range(features.shape[0]):
            for k in range(q.shape[0]):
                features[a, k] -= q[k]
    weighting.log_pool(weights, features, q)


@njit(cache=True, nogil=True, error_model="numpy")
def _fit_slope(own: Floats, a: int, y: int, logs: Floats, tempered: Floats, weight: float) -> None:
    """Update slope and curvature of the a-th expert after a row of class y."""
    mean = square = 0.0
    for k in range(logs.shape[0]):
        mean += tempered[k] * logs[k]
        square += tempered[k] * logs[k] * logs[k]
    own[CURVATURE, a] = min(own[CURVATURE, a] + weight * max(square - mean * mean, 0.0), CURVATURE_MAX)
    slope = own[SLOPE, a] + weight * (logs[y] - mean) / own[CURVATURE, a]
    own[SLOPE, a] = min(max(slope, SLOPE_MIN), SLOPE_MAX)


@njit(cache=True, nogil=True)
def _note_use(own: Floats, c: float) -> None:
    """Update the use of the awake experts after a row: their shares of the pool, by size, and of the choice."""
    total = 0.0
    for v in own[POOL]:
        total += abs(v)
    for a in range(own.shape[1]):
        pooled = abs(own[POOL, a]) / total if total > 0.0 else 0.0
        own[USE, a] += USE_RATE * (c * pooled + (1.0 - c) * own[WEIGHT, a] - own[USE, a])


@njit(cache=True, nogil=True)
def _losses(p: Floats, y: int, rare: bool) -> tuple[float, float]:
    """The loss of probabilities p (K,) on a row of class y, and whether their class is wrong."""
    wrong = 1.0 if p.argmax() != y else 0.0
    return -math.log(max(p[y], _CLIP)) if rare else wrong, wrong


@njit(cache=True, nogil=True)
def _count_label(y: int, weight: float, last: int, labels: Floats, counters: Floats) -> None:
    """Add label y, which came after ``last``, to the counts."""
    for which in range(2):
        for k in range(labels.shape[2]):
            labels[which, 0, k] *= _SHARE_DECAYS[which]
            if last:
                labels[which, last, k] *= _ORDER_DECAYS[which]
        labels[which, 0, y] = min(labels[which, 0, y] + weight, COUNT_MAX)
        if last:
            labels[which, last, y] += weight
    counters[LAST] = y + 1.0


@direct(
    f"void({CUBE}, {CLASSES_IN}, {NUMBERS_IN}, {ROWS_IN}, {CLASSES}, {TABLE}, {CUBE}, {VECTOR}, {CLASSES}, {TABLE})",
    error_model="numpy",
)
def mix_classes(
    P: Floats, y: Ints, weights: Floats, told: Floats, awake: Ints, table: Floats, labels: Floats, counters: Floats,
    value: Ints, p: Floats,
) -> None:  # fmt: skip
    """Write classes (n,) and probabilities (n, K), K >= 1, of n rows; with classes y, each row then moves the weights.

    Args:
        P: (A - 4, n, K) probabilities of the awake experts that read columns.
        y: (n,), or (0,) to learn nothing.
        weights: (n,) of the rows, or (0,): every row counts once.
        told: (n, 1) the last label when a tracked row was predicted, as in the counters, NaN for other rows; or (0, 0).
            Or (n, 2 + E K), then also the rows learned and what all experts predicted at that moment, or NaN.
        awake: (A,) columns of the table.
        table: (9, E) see WEIGHT and the others.
        labels: (2, K + 1, K) for each of two decays, counts of labels, then counts of the labels after each label.
        counters: (6,) see ROWS and the others.
        value: written.
        p: written.
    """
    A, K = awake.shape[0], p.shape[1]
    own, logs, tempered, features = np.empty((9, A)), np.empty((A, K)), np.empty((A, K)), np.empty((A, K))
    mixed, top, lost, lost_by = np.empty((2, K)), np.empty(2), np.empty(A), np.empty(2)
    q, r = mixed[0], mixed[1]
    _copy(table, awake, own, False)
    for i in range(p.shape[0]):
        last, served = int(_last(told, i, counters)), told.shape[1] > 1 and not math.isnan(told[i, 1])
        _take_logs(P, i, told, served, awake, labels, last, logs)
        r[:] = 0.0
        for a in range(A):
            _temper(own[SLOPE, a], logs[a], tempered[a], features[a])
            for k in range(K):
                r[k] += own[WEIGHT, a] * tempered[a, k]
        rare = counters[ROWS] >= _RARE_BEGIN and labels[0, 0].max() > _COMMON * labels[0, 0].sum()
        _pool(own[POOL], features, rare, q)
        c, kept, whole = counters[POOLED], 1.0 - K * _PROBABILITY_MIN, 0.0
        for k in range(K):
            p[i, k] = c * q[k] + (1.0 - c) * r[k]
            whole += p[i, k]
        for k in range(K):
            p[i, k] = p[i, k] / whole * kept + _PROBABILITY_MIN
        value[i] = p[i].argmax()
        if not y.shape[0]:
            continue
        counts = weights[i] if weights.shape[0] else 1.0
        weight = weighting.relative(counts, counters, HEAVIEST)
        counters[ROWS] += 1.0
        rate = max(1.0 / counters[ROWS], weighting.LOSS_RATE)
        error = 1.0 if value[i] != y[i] else 0.0
        counters[LOSS] += rate * (error - counters[LOSS])
        counters[RECENT] += error
        _note_use(own, c)
        for a in range(A):
            _fit_slope(own, a, y[i], logs[a], tempered[a], weight)
            lost[a], missed = _losses(tempered[a], y[i], rare)
            own[FIGURE, a] += rate * (1.0 - missed - own[FIGURE, a])
        step = weight / math.sqrt(max(counters[ROWS] - told[i, 1], 1.0)) if served else weight
        weighting.weigh_and_share(own[WEIGHT], lost, 0.0, _CHOICE_RATE * step)
        for side in range(2):
            top[side] = 1.0 - c if side else c
            lost_by[side], _ = _losses(mixed[side], y[i], rare)
        weighting.weigh_and_share(top, lost_by, 0.0, (_RARE_TOP_RATE if rare else _TOP_RATE) * step)
        counters[POOLED] = top[0]
        if served:
            _take_logs(P, i, told, False, awake, labels, int(counters[LAST]), logs)
            for a in range(A):
                _temper(own[SLOPE, a], logs[a], tempered[a], features[a])
            _pool(own[POOL], features, rare, q)
        weighting.fit_pool(own[POOL], own[SQUARES], features, q, y[i], weight, _RARE_SQUARES if rare else 0.0)
        _count_label(y[i], counts, last, labels, counters)
    if y.shape[0]:
        _copy(table, awake, own, True)


@njit(cache=True, nogil=True)
def _mix(own: Floats, numbers: Floats, shares: Floats) -> float:
    """The number o; writes the experts' shares."""
    weighting.take_shares(own[WEIGHT], shares)
    return min(max(stack(numbers, shares), -VALUE_MAX), VALUE_MAX)


@njit(cache=True, nogil=True)
def _spread(shares: Floats, variances: Floats, numbers: Floats, mixed: float, counters: Floats) -> float:
    """sqrt(S); 0 if all labels were equal."""
    if counters[ROWS] >= SPAN_ROWS and counters[LEAST] == counters[MOST]:
        return 0.0
    return weighting.deviation(shares, variances, numbers, mixed)


@njit(cache=True, nogil=True)
def _compare(spread: float, error: float, weight: float, counters: Floats) -> None:
    """Update c by a row's sqrt(S), error and weight."""
    t, c = counters[ROWS], counters[SPREAD]
    if t >= SPAN_ROWS and spread > 0.0:
        off = min(error / spread, _OFF_MAX * math.sqrt(c))
        c += max(1.0 / t, _SPREAD_RATE) * weight * (off * off - c)
        counters[SPREAD] = min(max(c, SPREAD_MIN), SPREAD_MAX)


@direct(
    f"void({CUBE}, {NUMBERS_IN}, {NUMBERS_IN}, {ROWS_IN}, {CLASSES}, {TABLE}, {VECTOR}, {CUBE}, {TABLE}, {VECTOR},"
    f" {VECTOR})",
    error_model="numpy",
)
def mix_numbers(
    P: Floats, y: Floats, weights: Floats, told: Floats, awake: Ints, table: Floats, counters: Floats, gains: Floats,
    stacked: Floats, value: Floats, std: Floats,
) -> None:  # fmt: skip
    """Write numbers (n,) and deviations (n,) of n rows; with labels y, each row then moves the weights.

    Like ``mix_classes``, but P (A - 3, 2, n) are numbers and deviations, the table is (5, E) and the counters are (8,).
    After the last label, ``told`` may have what all experts that read columns predicted then, or NaN.
    The stacks have ``gains`` (2, E - 2, E - 2) and weights ``stacked`` (2, E - 2).
    """
    A, last = awake.shape[0], P.shape[0]
    own, numbers, variances, losses, shares = np.empty((5, A)), np.empty(A), np.empty(A), np.empty(A), np.empty(A)
    x, Px, sizes = np.zeros(stacked.shape[1]), np.empty(stacked.shape[1]), np.empty(2)
    _copy(table, awake, own, False)
    for i in range(P.shape[2]):
        t, base, share = counters[ROWS], 0.0, 0.0
        most = error_max(counters[LEAST], counters[MOST], t)
        loss, served = min(counters[LOSS], most), told.shape[1] > 1 and not math.isnan(told[i, 1])
        for a in range(last + 1):
            number = _last(told, i, counters) if a == last else told[i, 1 + awake[a]] if served else P[a, 0, i]
            numbers[a] = held(number, counters[LEAST], counters[MOST], t)
            variances[a] = min(own[FIGURE, a] if a == last else weighting.bounded_square(P[a, 1, i]), most)
            base += own[WEIGHT, a] * numbers[a]
            share += own[WEIGHT, a]
        base = min(max(base / share, -VALUE_MAX), VALUE_MAX)
        scale = math.sqrt(loss)
        stacks = t >= SPAN_ROWS and _SCALE_MIN < scale < _SCALE_MAX
        for a in range(last + 1):
            x[awake[a]] = min(max((numbers[a] - base) / scale, -_FAR), _FAR) if stacks else 0.0
        for which in range(2):
            number = base + scale * stack(x, stacked[which]) if stacks else base
            numbers[last + 1 + which] = held(number, counters[LEAST], counters[MOST], t)
            variances[last + 1 + which] = min(own[FIGURE, last + 1 + which], most)
        value[i] = mixed = _mix(own, numbers, shares)
        spread = _spread(shares, variances, numbers, mixed, counters)
        std[i] = min(spread * math.sqrt(counters[SPREAD]), VALUE_MAX)
        if not y.shape[0]:
            continue
        weight = weighting.relative(weights[i] if weights.shape[0] else 1.0, counters, HEAVIEST)
        _compare(spread, abs(mixed - y[i]), weight, counters)
        winsor, miss = _WINSOR if t >= WIDTH_ROWS else np.inf, weighting.bounded_square(mixed - y[i])
        expected, counters[LOSS], counted = weighting.expect(loss, miss, weight, t, winsor)
        counters[RECENT] += counted / REST_ROWS
        least = np.inf
        for which in range(2):
            sizes[which] = np.abs(stacked[which]).sum()
        for a in range(A):
            used = own[WEIGHT, a]
            for which in range(2):
                if a <= last and sizes[which] > 0.0:
                    used += own[WEIGHT, last + 1 + which] * abs(stacked[which, awake[a]]) / sizes[which]
            own[USE, a] += USE_RATE * (used - own[USE, a])
            losses[a] = weighting.bounded_square(numbers[a] - y[i])
            figure = min(own[FIGURE, a], most)
            error = weighting.winsorised(losses[a], max(loss, figure), winsor)
            own[FIGURE, a] = figure + max(1.0 / (t + 1.0), weighting.LOSS_RATE) * (error - figure)
            least = min(least, losses[a])
        for a in range(A):
            losses[a] = min((losses[a] - least) / expected, _CAP)
        weighting.weigh_and_share(own[WEIGHT], losses, 0.0, _RATE * weight)
        if stacks:
            for which in range(2):
                learn_stack(which, x, (y[i] - base) / scale, weight, gains[which], stacked[which], Px)
        widen(counters[LEAST:], y[i], t)
        counters[LAST] = min(max(y[i], -VALUE_MAX), VALUE_MAX)
        counters[ROWS] += 1.0
    if y.shape[0]:
        _copy(table, awake, own, True)
