r"""An aggregated Mondrian forest: an expert of `auto` for cells that are cut along many columns. Not in the catalogue.

T trees over x = z / sqrt(2 + z^2), each column in (-1, 1). A node v has a time, the box of its rows, the counts n_vc
of its N_v rows by class, and the weight of its own answers. A row x of class y goes down every tree. At node v:

    p_v   = (n_vc + 1 / C) / (N_v + 1)                                     C classes; before the first row 1 / C
    w_v   <- w_v + ln p_v,y                                                its answers so far
    E     ~ Exp(sum_j e_j)                                                 e_j: how far x_j is outside the box
    split   where t_v + E is before the time of its children: at a column drawn by e_j, uniformly between box and x_j;
            what v was becomes one child, the row the other, both with this time. Not where all rows have class y
    a leaf of one class, with the first row of another one inside its box: the box first shrinks to its middle
    box, counts with x and y; then on to the child on its side

    W_v   = w_v                              at a leaf                     W_v: the log weight of the tree below v
    W_v   = ln (e^w_v + e^(W_l + W_r)) / 2   above children l and r
    p     = s_v p_v + (1 - s_v) p_child      s_v = e^w_v / (e^w_v + e^(W_l + W_r)), at a leaf 1

The mean of the trees' p is the answer: that of the best pruning of each tree, up to a constant. A tree of M nodes is no
longer cut but goes on counting. Columns should be on one scale; values count within +-1e6. Draws depend on the seed,
the row and the tree alone.

Source: Lakshminarayanan, Roy, Teh: Mondrian Forests, NIPS 2014; Mourtada, Gaiffas, Scornet: AMF: Aggregated Mondrian
forests for online learning, JRSS B 83, 2021. Ours are the bound on nodes, and the boxes that shrink: without those, a
region that was of one class for long is never cut inside.
"""

import math
from typing import Any

import numpy as np
from numba import njit

from core.contract import CLASSES, NUMBERS_IN, ROWS_IN, TABLE, Floats, Ints, direct
from core.numerics.rng import GAMMA, UNIT, mix

TIME, COLUMN, CUT, LEFT, RIGHT, OWN, BELOW, SHARE, COUNT = range(9)
"""Places of a node: t_v; where it is split; its children, 0 at a leaf; w_v, W_v, s_v, N_v."""
VALUE_MAX, TIME_MAX = 1e6, 1e300
_LOG_2 = math.log(2.0)


@njit(cache=True, nogil=True)
def _outside(x: float, low: float, high: float) -> float:
    """How far a number is outside a range."""
    return max(low - x, 0.0) + max(x - high, 0.0)


@njit(cache=True, nogil=True)
def _apart(low: Floats, high: Floats, x: Floats) -> float:
    """How far x is outside a box: the sum over its columns."""
    total = 0.0
    for j in range(x.shape[0]):
        total += _outside(x[j], low[j], high[j])
    return total


@njit(cache=True, nogil=True)
def _draw(state: Any, number: int) -> Any:
    """One of the numbers in [0, 1) of a row and a tree."""
    return (mix(state + np.uint64(number) * GAMMA) >> np.uint64(11)) * UNIT


@njit(cache=True, nogil=True)
def _child(node: Floats, x: Floats) -> int:
    """The child on the side of x; 0 at a leaf."""
    return int(node[LEFT] if x[int(node[COLUMN])] <= node[CUT] else node[RIGHT])


@njit(cache=True, nogil=True)
def _add_own(node: Floats, counts: Floats, mass: Any, out: Floats) -> Any:
    """Add a node's part of a prediction of so much mass to out (C,); the mass that is left."""
    C, own = out.shape[0], mass * node[SHARE]
    for c in range(C):
        out[c] += own / (node[COUNT] + 1.0) * (counts[c] + 1.0 / C)
    return mass - own


@njit(cache=True, nogil=True)
def _answer(nodes: Floats, counts: Floats, at: int, x: Floats, mass: float, out: Floats) -> None:
    """Add the prediction of x from a node on."""
    while mass > 0.0:
        mass = _add_own(nodes[at], counts[at], mass, out)
        at = _child(nodes[at], x)
        if at == 0:
            return


@njit(cache=True, nogil=True)
def _place(nodes: Floats, counts: Floats, low: Floats, high: Floats, at: int, time: float, x: Floats, y: int) -> None:
    """A new leaf with one row."""
    nodes[at], counts[at] = 0.0, 0.0
    nodes[at, TIME], nodes[at, SHARE], nodes[at, COUNT], counts[at, y] = time, 1.0, 1.0, 1.0
    for j in range(x.shape[0]):
        low[at, j] = high[at, j] = x[j]


@njit(cache=True, nogil=True)
def _split(
    nodes: Floats, counts: Floats, low: Floats, high: Floats, at: int, used: int, time: float, x: Floats, y: int,
    total: float, state: Any, draws: int,
) -> None:  # fmt: skip
    """Split a node, whose box x is outside of by ``total``; its children are the nodes ``used`` and ``used + 1``."""
    left, column = total * _draw(state, draws), 0
    for j in range(x.shape[0]):
        apart = _outside(x[j], low[at, j], high[at, j])
        if apart > 0.0:
            column = j
            left -= apart
            if left < 0.0:
                break
    right = x[column] > high[at, column]
    start, end = (high[at, column], x[column]) if right else (x[column], low[at, column])
    cut = start + _draw(state, draws + 1) * (end - start)
    nodes[used], counts[used], low[used], high[used] = nodes[at], counts[at], low[at], high[at]
    nodes[used, TIME] = time
    _place(nodes, counts, low, high, used + 1, time, x, y)
    nodes[at, COLUMN], nodes[at, CUT] = column, cut
    nodes[at, LEFT], nodes[at, RIGHT] = (used, used + 1) if right else (used + 1, used)


@njit(cache=True, nogil=True)
def _weigh(nodes: Floats, at: int) -> None:
    """W_v and s_v of a node from its own weight and its children's."""
    node = nodes[at]
    if node[LEFT] == 0.0:
        node[BELOW], node[SHARE] = node[OWN], 1.0
        return
    below = nodes[int(node[LEFT]), BELOW] + nodes[int(node[RIGHT]), BELOW]
    less = math.exp(-abs(below - node[OWN]))
    node[SHARE] = (less if below > node[OWN] else 1.0) / (1.0 + less)
    node[BELOW] = max(below, node[OWN]) + math.log1p(less) - _LOG_2


@njit(cache=True, nogil=True)
def _learn(
    nodes: Floats, counts: Floats, low: Floats, high: Floats, used: int, x: Floats, y: int, state: Any, path: Ints,
    mass: float, out: Floats,
) -> int:  # fmt: skip
    """Add a tree's prediction of x, then learn it; the nodes that are used then."""
    d, C = x.shape[0], out.shape[0]
    if used == 0:
        for c in range(C):
            out[c] += mass / C
        _place(nodes, counts, low, high, 0, 0.0, x, y)
        return 1
    at = depth = draws = 0
    more = True
    while more:
        node = nodes[at]
        mass = _add_own(node, counts[at], mass, out)
        onward, total, time = _child(node, x), _apart(low[at], high[at], x), TIME_MAX
        cuts = used + 2 <= nodes.shape[0] and counts[at, y] != node[COUNT]
        if cuts and total == 0.0 and onward == 0 and counts[at].max() == node[COUNT]:
            for j in range(d):
                low[at, j] = high[at, j] = 0.5 * (low[at, j] + high[at, j])
            total = _apart(low[at], high[at], x)
        if cuts and total > 0.0:
            draws += 1
            time = min(node[TIME] - math.log(1.0 - _draw(state, draws)) / total, TIME_MAX)
        more = onward != 0
        if time < (nodes[onward, TIME] if more else TIME_MAX):
            _split(nodes, counts, low, high, at, used, time, x, y, total, state, draws + 1)
            used += 2
            if more:
                _answer(nodes, counts, onward, x, mass, out)
                more = False
        node[OWN] += math.log((counts[at, y] + 1.0 / C) / (node[COUNT] + 1.0))
        node[COUNT] += 1.0
        counts[at, y] += 1.0
        if total > 0.0:
            for j in range(d):
                low[at, j], high[at, j] = min(low[at, j], x[j]), max(high[at, j], x[j])
        path[depth] = at
        depth += 1
        at = onward
    for k in range(depth - 1, -1, -1):
        _weigh(nodes, path[k])
    return used


_STATE = "f8[:,:,::1], f8[:,:,::1], f8[:,:,::1], f8[:,:,::1], f8[::1]"


@direct
@njit(f"i8({ROWS_IN}, {NUMBERS_IN}, {_STATE}, i8, u8, i8, {CLASSES}, {TABLE})", cache=True, nogil=True)
def learn_rows(
    X: Floats, y: Floats, nodes: Floats, counts: Floats, low: Floats, high: Floats, used: Floats, rows: int, seed: Any,
    most: int, value: Ints, out: Floats,
) -> int:  # fmt: skip
    """Predict rows X (n, d); with labels y (n,), each is then learned.

    Stops before a row for which the arrays may have to grow, up to ``most`` nodes; how many rows are done.
    """
    trees, d = nodes.shape[0], X.shape[1]
    path, x = np.empty(nodes.shape[1], dtype=np.int64), np.empty(d)
    for i in range(X.shape[0]):
        for j in range(d):
            z = min(max(X[i, j], -VALUE_MAX), VALUE_MAX)
            x[j] = z / math.sqrt(2.0 + z * z)
        if y.shape[0] and nodes.shape[1] < most:
            for t in range(trees):
                if used[t] + 2.0 > nodes.shape[1]:
                    return i
        out[i] = 0.0
        for t in range(trees):
            if y.shape[0]:
                state = mix(mix(seed ^ np.uint64(rows + i)) ^ np.uint64(t + 1))
                used[t] = _learn(
                    nodes[t], counts[t], low[t], high[t], int(used[t]), x, int(y[i]), state, path, 1.0 / trees, out[i]
                )
            elif used[t]:
                _answer(nodes[t], counts[t], 0, x, 1.0 / trees, out[i])
            else:
                for c in range(out.shape[1]):
                    out[i, c] += 1.0 / trees / out.shape[1]
        value[i] = 0
        for c in range(out.shape[1]):
            if out[i, c] > out[i, value[i]]:
                value[i] = c
    return len(X)
