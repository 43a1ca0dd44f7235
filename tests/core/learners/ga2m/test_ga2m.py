"""GA2M against plain Python, and what it is made for."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.contract import Spec
from core.learners.catalogue import find
from core.learners.ga2m.learner import active, cells, column_bins, pair_bins

GA2M = find("ga2m")


def learner(dimension, classes=2, **params):
    built = GA2M.build(Spec("classification", dimension, GA2M.complete(params)))
    for _ in range(classes):
        built.add_class()
    return built


def oracle(Z, y, classes, weights, rate=0.2):
    """Softmax over cells named by what they are of, with AdaGrad on each, together bounded; probabilities a priori."""
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
        g = weight * (p - np.eye(classes)[label])
        for cell in found:
            G[cell] = G.get(cell, 0.0) + g**2
        steps = {cell: rate * g / np.sqrt(np.where(G[cell] > 0, G[cell], 1.0)) for cell in found}
        moves = np.abs(sum(steps.values()))
        share = np.minimum(1.0, 4.0 * np.abs(g) / np.where(moves > 0, moves, 1.0))
        for cell in found:
            w[cell] -= share * steps[cell]
    return np.array(told)


@pytest.mark.parametrize("classes", [2, 3])
def test_it_adds_up_cells(classes):
    """Probabilities of a plain Python loop over named cells, with row weights."""
    rng = np.random.default_rng(0)
    Z, weights = rng.normal(size=(200, 4)), rng.uniform(0.2, 3.0, 200)
    y = (Z[:, 0] > 0).astype(np.int64) + (classes == 3) * (Z[:, 1] > 0.5)
    told = learner(4, classes).learn(Z, y, None, weights).probabilities
    assert_allclose(oracle(Z, y, classes, weights), told, atol=5e-6)


@pytest.mark.parametrize("classes", [2, 3])
def test_one_row_in_cells_that_are_all_new_decides_little(classes):
    """It moves a score by four times its gradient at most, however many cells it is in."""
    Z = np.zeros((1, 12))
    built = learner(12, classes)
    built.learn(Z, np.array([1]))
    told = built.predict(Z).probabilities[0]
    g = 1 / classes
    scores = [4 * (1 - g)] if classes == 2 else [-4 * g, 4 * (1 - g), -4 * g]
    odds = np.exp([0.0, *scores] if classes == 2 else scores)
    assert_allclose(odds / odds.sum(), told, atol=5e-6)


def test_stripes_and_boxes_are_learned():
    """What is parallel to the axes, and an interaction of two columns."""
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(3000, 3))
    for y in (np.floor(2 * Z[:, 0]) % 2, (Z[:, 0] > 0) ^ (Z[:, 1] > 0)):
        told = learner(3).learn(Z, y.astype(np.int64)).value
        assert (told[1000:] == y[1000:]).mean() > 0.9


def test_without_pairs_there_are_no_interactions():
    """An exclusive or needs them."""
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(2000, 3))
    y = ((Z[:, 0] > 0) ^ (Z[:, 1] > 0)).astype(np.int64)
    assert (learner(3, pairs=False).learn(Z, y).value[500:] == y[500:]).mean() < 0.6


@pytest.mark.parametrize(
    ("d", "bins", "of_pairs"), [(1, 32, 0), (12, 32, 8), (13, 32, 4), (33, 8, 2), (65, 8, 0), (300, 4, 0)]
)
def test_many_columns_have_fewer_bins(d, bins, of_pairs):
    """So that the cells of a class stay below ten thousand up to 300 columns."""
    spec = Spec("classification", d, GA2M.complete({}))
    assert (bins, of_pairs) == (column_bins(d), pair_bins(spec))
    assert cells(spec) < 10_000
    assert active(spec) == 1 + d + (d * (d - 1) // 2 if of_pairs else 0)


def test_a_third_class_keeps_the_probabilities_of_the_first_two():
    """The one column of two classes becomes one for each; the new class has a third of the probability left."""
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(500, 2))
    built = learner(2)
    built.learn(Z, (Z[:, 0] > 0).astype(np.int64))
    before = built.predict(Z).probabilities
    built.add_class()
    after = built.predict(Z).probabilities
    assert_allclose(before[:, 1] / before[:, 0], after[:, 1] / after[:, 0], rtol=1e-3)
