"""The Gaussians of VIGO: closed form, factorisation, densities, robustness to any input, forgetting."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import fdtrc
from scipy.stats import multivariate_normal, multivariate_t

from core.learners.algorithm import CLASS_BOUND
from core.learners.catalogue import find
from core.learners.vigo.kernels import BETA, COUNT, HIGH, LOGDET, LOW, NU, SHARE
from core.state.envelope import dump
from tests.core.learners.streams import learner_of as built

KINDS = ("vigo", "vigod", "vigow")
VARIANTS = ("default", "paper")


def covariance(learner, k):
    """Sigma of a class, from its factor."""
    upper = learner.state.L[k].copy()
    np.fill_diagonal(upper, 1.0 / upper.diagonal())
    return upper.T @ upper


def two_classes(rows, D, seed=0):
    """Normal rows around two centres."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    return rng.normal(size=(rows, D)) @ rng.normal(size=(D, D)) + 0.7 * y[:, None], y


@pytest.mark.parametrize("D", [1, 3, 30])
def test_the_rank_one_update_is_the_factorisation(D):
    """After consecutive mistakes, which change L by rank one, L L' is still W^{-1} / nu."""
    X, _ = two_classes(300, D)
    learner = built("vigo", D, 2, variant="paper")
    for i in range(300):
        learner.learn(X[i : i + 1], 1 - learner.predict(X[i : i + 1]).value)
    assert 150 < learner.state.stats[:, BETA].sum()
    for k in (0, 1):
        A, stats = learner.state.A[k], learner.state.stats[k]
        expected = (np.triu(A) + np.triu(A, 1).T + stats[SHARE] * np.eye(D)) / stats[NU]
        assert_allclose(expected, covariance(learner, k), rtol=1e-9)
        assert_allclose(np.linalg.slogdet(expected)[1] / 2, stats[LOGDET], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_densities_match_the_literature(kind):
    """The explanation's densities are the normal and Student-t densities of the class's own mean and covariance."""
    X, y = two_classes(500, 4)
    learner = built(kind, 4, 2, batch_size=50)
    learner.learn(X, y)
    told = learner.explain(X[:1])
    for k in (0, 1):
        stats, sigma, mean = learner.state.stats[k], covariance(learner, k), learner.state.means[k, 0]
        freedom, beta = stats[NU] + 1 - 4, stats[BETA]
        scale = sigma * stats[NU] * (1 + beta) / (beta * freedom)
        assert_allclose(multivariate_normal(mean, sigma).logpdf(X[0]), told["log_density"][k], rtol=1e-9)
        expected = multivariate_t(mean, scale, df=freedom)
        assert_allclose(expected.logpdf(X[0]), told["log_expected_density"][k], rtol=1e-9)
        q = (X[0] - mean) @ np.linalg.solve(scale, X[0] - mean)
        assert_allclose(fdtrc(4, freedom, q / 4), told["tail"][k], rtol=1e-9)
        assert_allclose(math.sqrt((X[0] - mean) @ np.linalg.solve(sigma, X[0] - mean)), told["distance"][k])


@pytest.mark.parametrize("kind", KINDS)
def test_the_explanation_explains_the_prediction(kind):
    """Shares and densities give the predicted class and the probabilities, and explaining changes nothing."""
    X, y = two_classes(300, 3)
    learner = built(kind, 3, 2, batch_size=30)
    learner.learn(X, y)
    before = dump(*learner.to_arrays())
    for i in range(0, 300, 10):
        told, predicted = learner.explain(X[i : i + 1]), learner.predict(X[i : i + 1])
        assert np.argmax(np.log(told["share"]) + told["log_density"]) == predicted.value[0]
        p = np.log(told["share"]) + told["log_expected_density"]
        p = np.exp(p - p.max()) / np.exp(p - p.max()).sum()
        assert_allclose(p, predicted.probabilities[0], rtol=1e-9)
        assert_allclose(-(p * np.log2(p)).sum(), told["ambiguity"]["entropy"], rtol=1e-6, atol=1e-12)
    assert before == dump(*learner.to_arrays())


def test_ambiguity_separates_doubt_from_atypical_rows():
    """A row between two classes has high entropy and is typical; a row far from both has low entropy and is not."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2000)
    learner = built("vigo", 2, 2)
    learner.learn(rng.normal(size=(2000, 2)) + 3.0 * y[:, None] * [1.0, 0.0], y)
    between, strange = (learner.explain(np.array([x]))["ambiguity"] for x in ([1.5, 0.0], [-40.0, 0.0]))
    assert between["entropy"] > 0.9
    assert between["typicality"] > 0.1
    assert strange["entropy"] < 0.1
    assert strange["typicality"] < 1e-6
    assert 0 == strange["nearest"]


def test_an_explanation_before_the_first_row_is_empty():
    """Without rows there is no density; a class that was only announced is not explained."""
    assert {"classes": [], "ambiguity": None} == built("vigo", 2).explain(np.zeros((1, 2)))
    learner = built("vigo", 2, 3)
    learner.learn(np.ones((1, 2)), np.array([1]))
    told = learner.explain(np.ones((1, 2)))
    assert [1] == told["classes"]
    assert 0.0 == told["ambiguity"]["entropy"]


def awkward(name, rows=600, seed=0):
    """Rows that break a plain covariance, with two classes separated by the first column."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    X = rng.normal(size=(rows, 6))
    X[:, 0] += 3.0 * y
    if name == "constant":
        X[:, 3:] = [0.0, 1e6, -1e-6]
    elif name == "collinear":
        X[:, 3:] = X[:, :3] @ rng.normal(size=(3, 3))
    elif name == "copies":
        X[:, 1:] = X[:, :1]
    elif name == "tiny":
        X *= [1.0, 1e-9, 1e-30, 1e-60, 1e-100, 1e-308]
    elif name == "scales":
        X *= [1.0, 1e9, 1e-9, 1e30, 1e-30, 1e70]
    elif name == "one-hot":
        X[:, 1:] = np.eye(5)[rng.integers(0, 5, rows)]
    elif name == "late":
        X[: rows // 2, 1:] = 7.0
    return np.ascontiguousarray(X), y


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["constant", "collinear", "copies", "tiny", "scales", "one-hot", "late"])
@pytest.mark.filterwarnings("error")
def test_no_features_break_the_factorisation(kind, variant, name):
    """Constant, collinear, copied, tiny, differently scaled and one-hot columns, and columns that vary only late."""
    X, y = awkward(name)
    learner = built(kind, 6, 2, batch_size=20, variant=variant)
    told = learner.learn(X, y)
    assert np.isfinite(told.probabilities).all()
    assert all(np.isfinite(part).all() for part in learner.to_arrays()[0].values())
    if variant == "default":
        assert (told.value[450:] == y[450:]).mean() > 0.88  # the best possible is .933


@pytest.mark.parametrize("kind", KINDS)
def test_scales_do_not_matter(kind):
    """By default columns in other units (powers of two) give the same labels and probabilities."""
    X, y = two_classes(400, 4)
    plain, scaled = built(kind, 4, 2, batch_size=50), built(kind, 4, 2, batch_size=50)
    expected = plain.learn(X, y)
    told = scaled.learn(X * [2.0**-40, 1.0, 2.0**40, 2.0**9], y)
    assert_array_equal(expected.value, told.value)
    assert_allclose(expected.probabilities, told.probabilities, rtol=1e-6, atol=1e-12)


def test_a_column_that_never_varied_changes_nothing():
    """With or without a constant column, predictions are the same, whatever its value."""
    X, y = two_classes(300, 2)
    constant = np.hstack([X, np.full((300, 1), 1e9)])
    assert_array_equal(built("vigod", 2, 2).learn(X, y).value, built("vigod", 3, 2).learn(constant, y).value)


@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_number_of_classes_works(kind):
    """All classes up to the bound are learned and scored from their first row; a state with one more is refused."""
    rng = np.random.default_rng(0)
    learner = built(kind, 8, batch_size=10)
    centres = rng.normal(size=(CLASS_BOUND, 8)) * 100
    for k in range(CLASS_BOUND):
        learner.add_class()
        assert 0.0 == learner.predict(centres[k : k + 1]).probabilities[0, k] or k == 0
        told = learner.learn(centres[k : k + 1], np.array([k]))
        assert told.value[0] != k or k == 0
    y = rng.integers(0, CLASS_BOUND, 3000)
    told = learner.learn(centres[y] + rng.normal(size=(3000, 8)), y)
    assert (told.value[1500:] == y[1500:]).mean() > 0.95
    assert CLASS_BOUND == len(learner.info()["gaussians"]) == find(kind).class_bound
    built(kind, 8, batch_size=10).load_arrays(*learner.to_arrays())
    learner.add_class()
    with pytest.raises(ValueError):
        built(kind, 8, batch_size=10).load_arrays(*learner.to_arrays())


@pytest.mark.parametrize("kind", KINDS)
def test_declared_ranges_are_used_and_grow(kind):
    """A declared range applies before the first row, and grows with the first value outside it."""
    learner = built(kind, 2, 1, ranges=((0.0, 1.0), None))
    learner.learn(np.array([[0.5, 3.0], [1.5, 4.0]]), np.zeros(2, dtype=np.int64))
    assert_array_equal([[0.0, 3.0], [1.5, 4.0]], learner.state.features[[LOW, HIGH]])


def test_the_test_of_means_uses_the_declared_range():
    """The same shift of a class mean raises an alarm in a narrow range, but not in a wide one."""
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(2000, 1))
    X[1000:] *= 0.3
    counts = []
    for ranges in (((0.0, 1.0),), ((-10.0, 10.0),)):
        learner = built("vigod", 1, 1, ranges=ranges)
        learner.learn(X, np.zeros(2000, dtype=np.int64))
        counts.append(len(learner.take_alarms()))
    assert counts[0] >= 1
    assert 0 == counts[1]


@pytest.mark.parametrize("kind", KINDS)
def test_forgetting_makes_the_next_rows_count(kind):
    """Afterwards no class counts as more than |B| rows; densities stay."""
    learner = built(kind, 3, 2, batch_size=50, **({"delta": 1e-300} if kind == "vigod" else {}))  # no resets
    learner.learn(*two_classes(6000, 3))
    before = covariance(learner, 0)
    learner.forget()
    stats = learner.state.stats
    assert (stats[:, BETA] <= 50).all()
    assert (stats[:, NU] <= 100).all()
    assert stats[:, COUNT].sum() <= 50 + 1e-9
    assert_array_equal(before, covariance(learner, 0))
