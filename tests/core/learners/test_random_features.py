"""Algorithms with ``random_features``: they learn nonlinear concepts, blocks equal rows, and 0 changes nothing."""

import numpy as np
import pytest

from core.contract import Spec
from core.learners.catalogue import find
from core.learners.expanded import CHUNK_ROWS
from tests.core.learners.streams import learner_of, state

ROWS = 2 * CHUNK_ROWS + 300


def built(algorithm, task="classification", classes=2, d=2, **params):
    return learner_of(algorithm, d, classes, task, seed=7, **params)


def ring(rows=ROWS, d=2):
    X = np.random.default_rng(1).normal(size=(rows, d))
    return X, ((X**2).sum(axis=1) > 1.4).astype(np.int64)


@pytest.mark.parametrize(("features", "exact"), [(5, True), (254, False)])
def test_blocks_of_many_rows_are_their_rows(features, exact):
    """Cut anywhere, even within chunks: the same bits below 256 columns in total; beyond, only from the same calls."""
    X, y = ring()
    spec = Spec("classification", 2, find("gdfop").complete({"random_features": features}))
    assert exact == find("gdfop").row_exact(spec)
    whole, again, cut = (built("gdfop", random_features=features) for _ in range(3))
    weights, discounts = np.linspace(0.5, 2.0, ROWS), np.linspace(0.98, 1.0, ROWS)
    told = [each.learn(X, y, discounts, weights) for each in (whole, again)]
    parts = [slice(0, 3), slice(3, CHUNK_ROWS + 1), slice(CHUNK_ROWS + 1, ROWS)]
    pieces = [cut.learn(X[part], y[part], discounts[part], weights[part]).probabilities for part in parts]
    assert state(whole) == state(again)
    assert exact == (state(whole) == state(cut))
    np.testing.assert_allclose(told[0].probabilities, np.concatenate(pieces), rtol=0, atol=0 if exact else 1e-6)
    assert whole.predict(X).probabilities.shape == (ROWS, 2)
    np.testing.assert_array_equal(whole.predict(X).probabilities[2000:], whole.predict(X[2000:]).probabilities)


@pytest.mark.parametrize("algorithm", ["dfop", "gdfop", "rls", "odm", "dynamic_odm"])
def test_the_seed_draws_them(algorithm):
    """Another seed gives another model; without random features the seed changes nothing."""
    X, y = ring(200)

    def learned(seed, **params):
        learner = learner_of(algorithm, 2, 2, seed=seed, **params)
        learner.learn(X, y)
        return state(learner)

    assert learned(1, random_features=5) == learned(1, random_features=5)
    assert learned(1, random_features=5) != learned(2, random_features=5)
    assert learned(1) == learned(2)
