"""One tree of the boosted trees, compiled: the edges that code a column's values, and how a tree grows (kernels.py)."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.contract import Floats, Ints
from core.numerics.rng import GAMMA, UNIT, mix

DEPTH, EDGES = 6, 63  # D, and the cuts of a column
INNER, LEAVES = 2**DEPTH - 1, 2**DEPTH
"""Nodes of a tree that may be cut (the children of node v are 2 v + 1 and 2 v + 2), and its leaves."""
NOWHERE = 1e31  # all rows lie left of this cut
CURVATURE_MIN = 1e-6
Codes = NDArray[np.uint8]

_MORE = 1.0 + 1e-9  # a gain counts as larger only beyond round-off


@njit(cache=True, nogil=True)
def draw(state: Any, number: int) -> Any:
    """A tree's random number in [0, 1) with this index."""
    return (mix(state + np.uint64(number) * GAMMA) >> np.uint64(11)) * UNIT


@njit(cache=True, nogil=True)
def code(x: float, edges: Floats) -> int:
    """Count the edges below x: comparing with all of them, in vector instructions, is faster than a search."""
    below = 0
    for b in range(EDGES):
        below += x > edges[b]
    return below


@njit("void(f8[:,::1], f8[:,::1], u1[:,::1], i8)", cache=True, nogil=True)
def encode(held: Floats, edges: Floats, codes: Codes, n: int) -> None:
    """Write the codes (w, d) of the first n rows held."""
    for i in range(n):
        for j in range(held.shape[1]):
            codes[i, j] = code(held[i, j], edges[j])


@njit(cache=True, nogil=True)
def draw_edges(state: Any, held: Floats, n: int, edges: Floats) -> None:
    """Fill each column's edges with its distinct values in randomly drawn rows, in order, and the rest with NOWHERE."""
    for b in range(edges.shape[1]):
        row = int(draw(state, 2 + b) * n)
        for j in range(edges.shape[0]):
            edges[j, b] = held[row, j]
    for j in range(edges.shape[0]):
        edges[j].sort()
        count = 1
        for b in range(1, edges.shape[1]):
            if edges[j, b] > edges[j, count - 1]:
                edges[j, count] = edges[j, b]
                count += 1
        for b in range(count, edges.shape[1]):
            edges[j, b] = NOWHERE


@njit(cache=True, nogil=True)
def _add_up(codes: Codes, g: Floats, h: Floats, k: int, order: Ints, begin: int, end: int, sums: Floats) -> None:
    """Write the sums (d, EDGES + 1, 2) of slopes and curvatures by code, over the rows ``order[begin:end]``."""
    for j in range(sums.shape[0]):
        for b in range(sums.shape[1]):
            sums[j, b, 0] = sums[j, b, 1] = 0.0
    for a in range(begin, end):
        i = order[a]
        slope, curvature = g[i, k], h[i, k]
        for j in range(sums.shape[0]):
            b = codes[i, j]
            sums[j, b, 0] += slope
            sums[j, b, 1] += curvature


@njit(cache=True, nogil=True)
def _best_cut(sums: Floats, edges: Floats, G: float, H: float) -> tuple[int, int, float, float]:
    """Column and code of the best cut, and the sums of its left side; column -1: none."""
    best, column, at, slope, curvature = G * G / (H + 1.0) * _MORE, -1, 0, 0.0, 0.0
    for j in range(sums.shape[0]):
        g = h = 0.0
        for b in range(EDGES):
            if edges[j, b] >= NOWHERE:
                break
            g += sums[j, b, 0]
            h += sums[j, b, 1]
            a, c, r = h + 1.0, H - h + 1.0, G - g
            gain = g * g * c + r * r * a  # times a c, so that few divisions are needed
            if gain > best * (a * c) and a >= 2.0 and c >= 2.0 and sums[j, b, 1] > 0.5 * CURVATURE_MIN:
                best, column, at, slope, curvature = gain / (a * c) * _MORE, j, b, g, h
    return column, at, slope, curvature


@njit(cache=True, nogil=True)
def _part(codes: Codes, column: int, at: int, order: Ints, begin: int, end: int, spare: Ints) -> int:
    """Move the rows left of a cut to the front, keeping the order on both sides; return where the others begin."""
    middle, others = begin, 0
    for a in range(begin, end):
        i = order[a]
        if codes[i, column] <= at:
            order[middle] = i
            middle += 1
        else:
            spare[others] = i
            others += 1
    for a in range(others):
        order[middle + a] = spare[a]
    return middle


@njit(cache=True, nogil=True)
def grow_tree(
    codes: Codes, edges: Floats, g: Floats, h: Floats, k: int, rate: float, scores: Floats, tree: Floats, leaves: Floats
) -> None:
    """Grow a tree (INNER, 2) for output k with leaves (LEAVES, K), and add it to the scores of the n rows of g.

    The sums of a node's larger child are the node's minus those of the smaller child, which is grown first.
    """
    (n, K), d = g.shape, codes.shape[1]
    sums, free = np.empty((DEPTH + 1, d, EDGES + 1, 2)), np.arange(DEPTH + 1)
    order, spare = np.arange(n), np.empty(n, dtype=np.int64)
    nodes, totals = np.empty((DEPTH + 2, 4), dtype=np.int64), np.empty((DEPTH + 2, 2))
    nodes[0, 0], nodes[0, 1], nodes[0, 2], nodes[0, 3] = 0, 0, n, DEPTH
    totals[0, 0] = totals[0, 1] = 0.0
    for i in range(n):
        totals[0, 0] += g[i, k]
        totals[0, 1] += h[i, k]
    _add_up(codes, g, h, k, order, 0, n, sums[DEPTH])
    waiting, unused = 1, DEPTH
    while waiting:
        waiting -= 1
        node, begin, end, own = nodes[waiting, 0], nodes[waiting, 1], nodes[waiting, 2], nodes[waiting, 3]
        G, H = totals[waiting, 0], totals[waiting, 1]
        column, at, slope, curvature = -1, 0, 0.0, 0.0
        if node < INNER:
            column, at, slope, curvature = _best_cut(sums[own], edges, G, H)
        if column < 0:
            if node < INNER:
                free[unused] = own
                unused += 1
            while node < INNER:
                node = 2 * node + 1
            for c in range(K):
                total, curve = 0.0, 1.0
                for a in range(begin, end):
                    total += g[order[a], c]
                    curve += h[order[a], c]
                leaves[node - INNER, c] = -rate * total / curve
                for a in range(begin, end):
                    scores[order[a], c] += leaves[node - INNER, c]
            continue
        tree[node, 0], tree[node, 1] = column, edges[column, at]
        middle = _part(codes, column, at, order, begin, end, spare)
        smaller = int(middle - begin > end - middle)
        other = own
        if 2 * node + 1 < INNER:
            unused -= 1
            other = free[unused]
            small = (begin, middle) if smaller == 0 else (middle, end)
            _add_up(codes, g, h, k, order, small[0], small[1], sums[other])
            for j in range(d):
                for b in range(EDGES + 1):
                    sums[own, j, b, 0] -= sums[other, j, b, 0]
                    sums[own, j, b, 1] -= sums[other, j, b, 1]
        else:
            free[unused] = own
            unused += 1
        for side in (1 - smaller, smaller):
            nodes[waiting, 0], nodes[waiting, 3] = 2 * node + 1 + side, other if side == smaller else own
            nodes[waiting, 1], nodes[waiting, 2] = (middle, end) if side else (begin, middle)
            totals[waiting, 0] = G - slope if side else slope
            totals[waiting, 1] = H - curvature if side else curvature
            waiting += 1
