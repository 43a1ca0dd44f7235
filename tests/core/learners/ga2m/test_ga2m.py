"""GA2M compared with plain Python, and the problems it is good at."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.contract import Spec
from core.learners.catalogue import find
from core.learners.ga2m.learner import active, cells, column_bins, pair_bins
from tests.core.learners.streams import learner_of

GA2M = find("ga2m")


def learner(dimension, classes=2, **params):
    return learner_of("ga2m", dimension, classes, **params)


def own_part(seen, cell):
    """How much a cell moves that has seen this part of what the cell of all rows has."""
    whole = seen.get(("all",), 0.0)
    share = seen.get(cell, 0.0) / np.where(whole > 0, whole, np.inf)
    return np.ones_like(share) if cell == ("all",) else np.clip(2 * (1 - share), 0.0, 1.0)


def mostly_same(rng, rows, columns=4):
    """Normal numbers; the last column has the same number in most rows."""
    Z = rng.normal(size=(rows, columns))
    Z[rng.random(rows) < 0.8, -1] = -0.3
    return Z


def oracle(Z, y, classes, weights, rate=0.2):
    """Softmax over named cells, with AdaGrad for each and a common bound on the step; a-priori probabilities."""
    d = Z.shape[1]
    B, C = 32, 8
    w, G, told = {}, {}, []
    for z, label, weight in zip(Z, y, weights, strict=True):
        u = 0.5 * (1 + z / np.sqrt(2 + z**2))
        found = [("all",)] + [(j, int(B * u[j])) for j in range(d)]
        found += [(i, j, int(C * u[i]), int(C * u[j])) for i in range(d) for j in range(i + 1, d)]
        s = sum(w.setdefault(cell, np.zeros(classes)) for cell in found)
        if classes == 2:  # one column, that of the second class
            s = np.array([0.0, s[1]])
        p = np.exp(s - s.max())
        p /= p.sum()
        told.append(p)
        slope = p - np.eye(classes)[label]
        g = weight * slope
        for cell in found:
            G[cell] = G.get(cell, 0.0) + g**2
        steps = {cell: rate * own_part(G, cell) * g / np.sqrt(np.where(G[cell] > 0, G[cell], 1.0)) for cell in found}
        moves = np.abs(sum(steps.values()))
        share = np.minimum(1.0, 4.0 * np.abs(slope) / np.where(moves > 0, moves, 1.0))
        for cell in found:
            w[cell] -= share * steps[cell]
    return np.array(told)


@pytest.mark.parametrize("classes", [2, 3])
def test_it_adds_up_cells(classes):
    """Probabilities equal a plain Python loop over named cells, with row weights."""
    rng = np.random.default_rng(0)
    Z, weights = mostly_same(rng, 200), rng.uniform(0.2, 3.0, 200)
    y = (Z[:, 0] > 0).astype(np.int64) + (classes == 3) * (Z[:, 1] > 0.5)
    told = learner(4, classes).learn(Z, y, None, weights).probabilities
    assert_allclose(oracle(Z, y, classes, weights), told, atol=5e-6)


def regression(dimension):
    return learner_of("ga2m", dimension, task="regression")


def number_oracle(Z, y, weights):
    """A number and a variance per named cell; a-priori values and deviations, for labels without outliers."""
    B, C, q, first = 32, 8, 1e-3, 0.1
    w, P, seen, told, R, M = {}, {}, {}, [], 0.0, 0.0
    for i, (z, label, weight) in enumerate(zip(Z, y, weights, strict=True)):
        u = 0.5 * (1 + z / np.sqrt(2 + z**2))
        found = [("all",)] + [(j, int(B * u[j])) for j in range(len(z))]
        found += [(i, j, int(C * u[i]), int(C * u[j])) for i in range(len(z)) for j in range(i + 1, len(z))]
        s = (y[:i].mean() if i else 0.0) + sum(w.get(cell, 0.0) for cell in found)
        reach = max(0.1, 4 / i - 0.1) * np.ptp(y[:i]) if i else np.inf
        told.append((np.clip(s, y[:i].min() - reach, y[:i].max() + reach) if i else s, np.sqrt(R)))
        e = label - s if i else 0.0
        R += max(1 / (i + 1), 0.002) * (e * e - R)
        M += max(1 / (i + 1), 0.002) * (weight - M)
        V = y[: i + 1].var()
        r = max(R / V, 1e-6) if V > 0 else 1.0
        part = {cell: own_part(seen, cell) * P.get(cell, first) for cell in found}
        for cell in found:
            k = part[cell] / (sum(part.values()) + r * min(M, 1.0) / weight)
            seen[cell] = seen.get(cell, 0.0) + 1.0
            w[cell] = w.get(cell, 0.0) + k * e
            P[cell] = min(P.get(cell, first) * (1 - k) + q * r * first, first)
    return np.transpose(told)


@pytest.mark.parametrize("heaviest", [3.0, 0.8])
def test_it_adds_up_numbers(heaviest):
    """Values and deviations equal a plain Python loop over named cells, with row weights."""
    rng = np.random.default_rng(0)
    Z, weights = mostly_same(rng, 1200), rng.uniform(0.2, heaviest, 1200)
    y = np.where(Z[:, 0] > 0, 3.0, -1.0) * np.sign(Z[:, 1]) + rng.normal(size=1200) / 9 + 40.0
    told = regression(4).learn(Z, y, None, weights)
    assert_allclose(number_oracle(Z, y, weights), [told.value, told.std], rtol=1e-9)
    assert ((told.value - y)[900:] ** 2).mean() < 0.22 * y.var()


def test_a_category_of_many_levels_is_learned():
    """Its columns, 0 in almost every row, do not make the model follow the latest labels."""
    rng = np.random.default_rng(1)
    level, means = rng.integers(0, 200, 20_000), rng.normal(size=200)
    Z, numbers = (np.eye(200)[level] - 0.005) / 0.0705, means[level] + 0.3 * rng.normal(size=20_000)
    classes = (means[level] > 0) ^ (rng.random(20_000) < 0.1)
    assert (learner(200).learn(Z, classes.astype(np.int64)).value == classes).mean() > 0.87
    assert ((regression(200).learn(Z, numbers).value - numbers) ** 2).mean() < 0.2 * numbers.var()


def test_a_state_with_a_variance_above_the_first_is_refused():
    """Rows in a cell are counted beside it, without a limit."""
    one, other = regression(2), regression(2)
    one.learn(np.zeros((50, 2)), np.arange(50.0))
    arrays, header = one.to_arrays()
    assert 50.0 == arrays["gradients"][-1, 1]
    other.load_arrays(arrays, header)
    arrays["gradients"][0, 0] = 0.11
    with pytest.raises(ValueError, match="variance"):
        other.load_arrays(arrays, header)


def test_one_wild_label_spoils_little():
    """It widens the range of the labels once; fifty rows later the predictions have recovered."""
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(600, 3))
    y = np.abs(Z[:, 0]) + rng.normal(size=600) / 9
    wild = y.copy()
    wild[400] = 1e12
    told = regression(3).learn(Z, wild).value
    assert ((told - y)[450:] ** 2).mean() < 0.5 * y.var()


def test_without_pairs_there_are_no_interactions():
    """An exclusive or needs pairs."""
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(2000, 3))
    y = ((Z[:, 0] > 0) ^ (Z[:, 1] > 0)).astype(np.int64)
    assert (learner(3, pairs=False).learn(Z, y).value[500:] == y[500:]).mean() < 0.6


@pytest.mark.parametrize(
    ("d", "bins", "of_pairs"), [(1, 32, 0), (12, 32, 8), (13, 32, 4), (33, 8, 2), (65, 8, 0), (300, 4, 0)]
)
def test_many_columns_have_fewer_bins(d, bins, of_pairs):
    """Bins shrink so that the cells of a class stay below ten thousand up to 300 columns."""
    spec = Spec("classification", d, GA2M.complete({}))
    assert (bins, of_pairs) == (column_bins(d), pair_bins(spec))
    assert cells(spec) < 10_000
    assert active(spec) == 1 + d + (d * (d - 1) // 2 if of_pairs else 0)
