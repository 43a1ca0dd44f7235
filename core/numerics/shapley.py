r"""Shapley values: what each of d groups of columns contributes to a score of a row x, against a background row m.

With v(S) the score of the row that has x's columns in the groups of S and m's elsewhere,

    phi_j = sum over S without j of |S|! (d - |S| - 1)! / d! (v(S + j) - v(S))         sum_j phi_j = v(all) - v(none)

Groups in which x and m agree have phi = 0 and are left out. With up to 6 groups every S is evaluated, and phi is exact.
With more, phi is a mean over random orders, each with its reverse, in which the groups join one after another. At most
64 rows are evaluated, and each order divides the whole score among the groups, so that the sum is exact. If not even
one order fits, neighbours in it join together and share their effect in proportion to their distance from m, in units
of ``spread``.

If the score is a sum over groups and pairs of groups (``pairwise``), any order with its reverse is exact: a pair's part
goes to the group that joins second, hence half of it to each.

Source: Shapley: A value for n-person games, 1953; orders: Castro, Gómez, Tejada: Polynomial calculation of the Shapley
value based on sampling, Computers & OR 36(5), 2009.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Ints
from core.numerics.rng import uniform

EVALUATIONS_MAX = 64  # most rows that are scored, unless ``pairwise``
_ALL_MAX = 6  # most groups of which every subset is evaluated: 2^6 rows


def shapley_values(
    score: Callable[[Floats], Floats],
    x: Floats,
    background: tuple[Floats, Floats],
    groups: Sequence[Ints],
    seed: int = 0,
    pairwise: bool = False,
) -> Floats:
    """The contribution of each group (d,) to the score of the row x (D,).

    ``score`` takes rows (n, D), returns (n,), and is called once. ``background`` is m (D,) and each column's spread
    (D,), not negative; ``groups`` has the positions of each group's columns, all others are x's everywhere. ``seed`` is
    that of the orders. ``pairwise``: the score is a sum over groups and pairs of groups; then 2 d rows are evaluated.
    """
    m, spread = background
    found = np.zeros(len(groups))
    away = [at for at, group in enumerate(groups) if not np.array_equal(x[group], m[group])]
    d = len(away)
    if d == 0:
        return found
    if d <= _ALL_MAX:
        members = ((np.arange(2**d)[:, None] >> np.arange(d)) & 1).astype(bool)  # (2^d, d) the subsets
        found[away] = _over_subsets(score(_rows(x, m, [groups[at] for at in away], members)), members)
        return found
    orders = [np.arange(d), np.arange(d)[::-1]] if pairwise else _orders(d, seed)
    block = 1 if pairwise else -(-d // (EVALUATIONS_MAX - 1))
    steps = -(-d // block)
    places = np.array([np.argsort(order) // block for order in orders])  # (orders, d) when each group joins
    joined = np.arange(steps + 1)[None, :, None] > places[:, None, :]  # (orders, steps + 1, d)
    inner = joined[:, 1:-1].reshape(-1, d)
    members = np.vstack([np.zeros((1, d), bool), np.ones((1, d), bool), inner])
    values = score(_rows(x, m, [groups[at] for at in away], members))
    path = np.empty((len(orders), steps + 1))
    path[:, 0], path[:, -1], path[:, 1:-1] = values[0], values[1], values[2:].reshape(len(orders), steps - 1)
    gained = np.diff(path, axis=1)  # (orders, steps)
    share = np.array([_distance(x, m, spread, groups[at]) for at in away])
    for order, own in zip(places, gained, strict=True):
        total = np.bincount(order, share, minlength=steps)
        found[away] += own[order] * share / total[order] / len(orders)
    return found


def _rows(x: Floats, m: Floats, groups: Sequence[Ints], members: NDArray[np.bool_]) -> Floats:
    """The rows (n, D) that have x's columns in the groups that are ``members`` (n, d)."""
    rows = np.repeat(x[None], len(members), axis=0)
    for at, group in enumerate(groups):
        out = np.flatnonzero(~members[:, at])
        rows[np.ix_(out, group)] = m[group]
    return rows


def _over_subsets(values: Floats, members: NDArray[np.bool_]) -> Floats:
    """Shapley values from the scores of all subsets (2^d,), in the order of their binary numbers."""
    d, sizes, found = members.shape[1], members.sum(axis=1), []
    weight = np.array([1.0 / (d * math.comb(d - 1, size)) for size in range(d)])
    for at in range(d):
        without = np.flatnonzero(~members[:, at])
        found.append(float((weight[sizes[without]] * (values[without | (1 << at)] - values[without])).sum()))
    return np.array(found)


def _orders(d: int, seed: int) -> list[Ints]:
    """Random orders of d groups, each followed by its reverse: as many as fit."""
    count = max(1, (EVALUATIONS_MAX - 2) // (d - 1))
    drawn = [uniform(seed, at * d, d, "orders of features") for at in range((count + 1) // 2)]
    return [order for u in drawn for order in (np.argsort(u), np.argsort(-u))][:count]


def _distance(x: Floats, m: Floats, spread: Floats, group: Ints) -> float:
    """How far x is from m in the columns of a group; above 0 and finite."""
    with np.errstate(all="ignore"):
        scaled = np.abs(x[group] - m[group]) / np.where(spread[group] > 0.0, spread[group], 1.0)
    return float(min(max(np.nan_to_num(scaled).sum(), 1e-9), 1e9))
