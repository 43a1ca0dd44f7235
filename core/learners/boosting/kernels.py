r"""Boosted trees over the last rows: an expert of `auto` for steps and rectangular cells. Not in the catalogue.

    f_k = b_k + sum_t v_tk                        T trees; v_tk: the number, for output k, of the row's leaf in tree t
    classes   p = softmax(f)                      up to two classes have one output: p_1 = 1 / (1 + exp(-f))
    numbers   f

The last W rows are kept, each with its f. After every B rows, with slope and curvature of each row's loss in f_ik,

    classes   g_ik = p_ik - [y_i = k],  h_ik = max(p_ik (1 - p_ik), 1e-6)
    numbers   g_i = f_i - y_i, held within 4 q;  h_i = 1           q: the ninth decile of |f_i - y_i| of up to 64 rows

    b_k  <- b_k + s_k,  s_k = -r G_k / (H_k + 1);  g_ik <- g_ik + h_ik s_k          G, H: sums of g and h
    the oldest of T trees is removed, also from the rows' f; a new one takes its place:
    it is grown for one output, k drawn with probability ~ sum_i g_ik^2, from the root to D = 6 cuts deep
    a node is cut where G_l^2 / (H_l + 1) + G_r^2 / (H_r + 1) is largest, if above G^2 / (H + 1); H_l, H_r >= 1
    its leaves have v_k = -r G_k / (H_k + 1) for every output k

For numbers b is the mean of the labels until the first tree. r is .1 for classes (.05 in `auto` large), .2 for
numbers. A column is cut at one of 63 values: those of rows that are drawn again for each of the first eight trees, and
then for every eighth one. Of equal cuts the first column's lowest one is used. Draws depend on the seed and the tree's
number. The predictive deviation of numbers is sqrt(R), R the mean squared error, R <- R + max(1/n, .002) (e^2 - R).
Column values are only compared, so their scale does not matter; they are clipped to +-1e30, labels to +-1e140.

Source: Friedman: Greedy function approximation, Annals of Statistics 29, 2001; Chen, Guestrin: XGBoost, KDD 2016, for
the gain; Iosipoi, Vakhrushev: SketchBoost, NeurIPS 2022, for trees grown by one output. The rings are ours: as a stream
has no end, each tree lives for B T rows, and later trees replace what it contributed.
"""

import math
from typing import Any

import numpy as np
from numba import njit

from core.contract import CLASSES, NUMBERS_IN, ROWS_IN, TABLE, VECTOR, Floats, Ints, direct
from core.learners.boosting.growing import (
    CURVATURE_MIN,
    DEPTH,
    INNER,
    LEAVES,
    NOWHERE,
    Codes,
    code,
    draw,
    draw_edges,
    encode,
    grow_tree,
)
from core.numerics.rng import mix
from core.numerics.weighting import softmax

VALUE_MAX, LABEL_MAX, SCORE_MAX = 1e30, 1e140, 1e141
_NUMBER_RATE, _NOISE_RATE, _SQUARE_MAX = 0.2, 0.002, 1e300
_NEW_EDGES, _SAMPLE, _WIDEST = 8, 64, 4.0


@njit(cache=True, nogil=True)
def _descend(trees: Floats, t: int, at: int, x: Floats) -> int:
    """The child of node ``at`` of a tree on the side of x."""
    return 2 * at + 1 + int(x[int(trees[t, at, 0])] > trees[t, at, 1])


@njit(cache=True, nogil=True)
def _probabilities(f: Floats, p: Floats) -> None:
    """Probabilities p (C,) of outputs f (K,); one output gives two, even if only one class has been seen."""
    if f.shape[0] == 1:
        p[1] = 1.0 / (1.0 + math.exp(-f[0])) if f[0] > -700.0 else 0.0
        p[0] = 1.0 - p[1]
    else:
        softmax(f, p)


@njit(cache=True, nogil=True)
def _slope(scores: Floats, labels: Floats, n: int, numbers: bool, g: Floats, h: Floats) -> None:
    """Write slopes g and curvatures h (n, K) of n rows."""
    K = g.shape[1]
    p = np.empty(max(K, 2))
    if numbers:
        some = min(n, _SAMPLE)
        sample = np.empty(some)
        for i in range(some):
            at = i * (n // some)
            sample[i] = abs(scores[at, 0] - labels[at])
        sample.sort()
        widest = _WIDEST * sample[9 * some // 10]
        for i in range(n):
            g[i, 0], h[i, 0] = scores[i, 0] - labels[i], 1.0
            if widest > 0.0:
                g[i, 0] = min(max(g[i, 0], -widest), widest)
        return
    for i in range(n):
        _probabilities(scores[i], p)
        for k in range(K):
            own = 1 if K == 1 else k
            g[i, k] = p[own] - (1.0 if int(labels[i]) == own else 0.0)
            h[i, k] = max(p[own] * (1.0 - p[own]), CURVATURE_MIN)


@njit(cache=True, nogil=True)
def _replace_tree(
    state: Any, t: int, full: bool, known: Any, n: int, trees: Floats, leaves: Floats, bias: Floats, rate: float,
    numbers: bool,
) -> None:  # fmt: skip
    """Put a new tree in place t, after subtracting the old tree's contribution from the scores of the n known rows."""
    held, labels, codes, edges, scores = known
    K = scores.shape[1]
    g, h, places = np.empty((n, K)), np.empty((n, K)), np.zeros(n, dtype=np.int64)
    if full:
        for _ in range(DEPTH):
            for i in range(n):
                places[i] = _descend(trees, t, places[i], held[i])
        for i in range(n):
            for k in range(K):
                scores[i, k] -= leaves[t, places[i] - INNER, k]
    _slope(scores, labels, n, numbers, g, h)
    squares = np.zeros(K)
    for k in range(K):
        total, curve = 0.0, 1.0
        for i in range(n):
            total += g[i, k]
            curve += h[i, k]
        step = -rate * total / curve
        bias[k] = min(max(bias[k] + step, -SCORE_MAX), SCORE_MAX)
        for i in range(n):
            scores[i, k] += step
            g[i, k] += step * h[i, k]
            squares[k] += g[i, k] * g[i, k]
    k, left = 0, draw(state, 1) * squares.sum()
    while k < K - 1 and left >= squares[k]:
        left -= squares[k]
        k += 1
    for at in range(INNER):
        trees[t, at, 0], trees[t, at, 1] = 0.0, NOWHERE
    for at in range(LEAVES):
        for c in range(K):
            leaves[t, at, c] = 0.0
    grow_tree(codes, edges, g, h, k, rate, scores, trees[t], leaves[t])
    for i in range(n):
        for c in range(K):
            scores[i, c] = min(max(scores[i, c], -SCORE_MAX), SCORE_MAX)


@direct(
    f"void({ROWS_IN}, {NUMBERS_IN}, {TABLE}, {VECTOR}, u1[:,::1], {TABLE}, {TABLE}, f8[:,:,::1], f8[:,:,::1], {VECTOR},"
    f" {VECTOR}, i8, i8, f8, u8, b1, {CLASSES}, {TABLE})"
)
def learn_rows(
    X: Floats, y: Floats, held: Floats, labels: Floats, codes: Codes, edges: Floats, scores: Floats, trees: Floats,
    leaves: Floats, bias: Floats, tally: Floats, most: int, period: int, rate: float, seed: Any, numbers: bool,
    value: Ints, out: Floats,
) -> None:  # fmt: skip
    """Predict rows X (n, d); with labels y (n,), each row then replaces the oldest of ``most``, and trees grow.

    ``tally`` (2,): rows learned, and R.
    """
    T, K = trees.shape[0], scores.shape[1]
    f, places, p, x = np.empty(K), np.empty(T, dtype=np.int64), np.empty(max(K, 2)), np.empty(X.shape[1])
    rate = _NUMBER_RATE if numbers else rate
    for i in range(X.shape[0]):
        rows = int(tally[0])
        count = min(rows // period, T)
        for j in range(x.shape[0]):
            x[j] = min(max(X[i, j], -VALUE_MAX), VALUE_MAX)
        for t in range(count):
            places[t] = 0
        for _ in range(DEPTH):
            for t in range(count):
                places[t] = _descend(trees, t, places[t], x)
        for k in range(K):
            f[k] = bias[k]
            for t in range(count):
                f[k] += leaves[t, places[t] - INNER, k]
            f[k] = min(max(f[k], -SCORE_MAX), SCORE_MAX)
        if numbers:
            out[0, i], out[1, i] = f[0], math.sqrt(tally[1])
        else:
            _probabilities(f, p)
            for c in range(out.shape[1]):
                out[i, c] = p[c] if out.shape[1] > 1 else 1.0
            value[i] = out[i].argmax()
        if not y.shape[0]:
            continue
        at, label = rows % most, min(max(y[i], -LABEL_MAX), LABEL_MAX)
        labels[at] = label
        for j in range(x.shape[0]):
            held[at, j], codes[at, j] = x[j], code(x[j], edges[j])
        for k in range(K):
            scores[at, k] = f[k]
        tally[0] += 1.0
        if numbers:
            if rows < period:
                bias[0] += (label - bias[0]) / tally[0]
            tally[1] += max(1.0 / tally[0], _NOISE_RATE) * (min((f[0] - label) ** 2, _SQUARE_MAX) - tally[1])
        if (rows + 1) % period == 0:
            number, n = rows // period, min(rows + 1, most)
            state = mix(seed ^ np.uint64(number))
            if number < _NEW_EDGES or number % _NEW_EDGES == 0:
                draw_edges(state, held, n, edges)
                encode(held, edges, codes, n)
            known = held, labels, codes, edges, scores
            _replace_tree(state, number % T, number >= T, known, n, trees, leaves, bias, rate, numbers)
