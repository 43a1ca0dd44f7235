"""The calibration between learner and answers: its equations, its limits, and that it calibrates."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from core.contract import Prediction
from core.learners.catalogue import ALGORITHMS
from core.model.calibration import CURVATURE, HEAVIEST, KNOTS, LAYOUT, OFFSETS, SHARED, SLOPE, TRUST, WEIGHTS, fresh
from tests.benchmarks.streams.generators import fraud, sea
from tests.core.learners.streams import relative
from tests.core.model.test_answers import answered, answers_of, scored
from tests.core.twin import Fed


def answers(K):
    return answers_of([f"c{k}" for k in range(K)])


def error_points(given, right):
    """Expected calibration error, in points, of the probabilities (n,) given to the predicted classes."""
    bins = np.minimum((given * 10).astype(int), 9)
    return 100 * np.abs(np.bincount(bins, weights=given - right, minlength=10)).sum() / len(given)


def errors_and_losses(algorithm, X, y):
    """A model learns a stream: its calibration error in points, its log loss, and the log loss of its learner alone."""
    labels = [*range(int(y.max()) + 1)]
    body = {"algorithm": algorithm, "task": "classification", "labels": labels, "watch": None}
    if ALGORITHMS[algorithm].sparse:  # the rows are as dense as the columns; names make the projection
        body["params"] = {"compressed_dim": X.shape[1]}
    else:
        body["features"] = [f"x{column}" for column in range(X.shape[1])]
    model, seen = Fed(body), []
    absorb = model.machine.own.answers.absorb

    def spy(prediction, truth, *more):
        rows = absorb(prediction, truth, *more)
        seen.append((prediction.probabilities, truth, (rows.losses, rows.p_true)))
        return rows

    model.machine.own.answers.absorb = spy
    model.learn(X, y.tolist())
    wrong, p_true = np.concatenate([facts for _, _, facts in seen], axis=1)
    own = np.concatenate([p[np.arange(len(k)), k] for p, k, _ in seen if p.shape[1] > k.max()])
    losses = (-np.log(p_true).mean(), -np.log(np.maximum(own, 1e-15)).mean())
    return error_points(np.where(wrong, 1.0 - p_true, p_true), wrong == 0.0), *losses  # with two labels


class Literal:
    """The equations, row by row, in plain Python."""

    def __init__(self, K):
        self.K, self.a, self.H, self.d, self.w = K, 1.0, 1.0, np.zeros(KNOTS), np.zeros(KNOTS)
        self.counts, self.shared, self.v = np.zeros(K), False, 0.9

    def knots(self, z):
        """(knot, share) of the two knots around z."""
        u = math.copysign(math.log1p(min(abs(z), 8.0) / 0.2), z) / math.log1p(8.0 / 0.2)
        at = (u + 1.0) * (KNOTS - 1) / 2
        j = min(int(at), KNOTS - 2)
        return [(j, 1.0 - (at - j)), (j + 1, at - j)]

    def held(self, j, offset):
        """With more than two classes: the offset limited so that z + d(z) increases."""
        if not self.shared:
            return offset
        u = np.linspace(-1, 1, KNOTS) * math.log1p(40)
        falls = [0.98 * (u[1] - u[0]) * 0.2 * math.exp(min(abs(a), abs(b))) for a, b in itertools.pairwise(u)]
        low = self.d[j - 1] - falls[j - 1] if j else -np.inf
        return min(max(offset, low), self.d[j + 1] + falls[j] if j + 1 < KNOTS else np.inf)

    def corrected(self, s):
        z = math.log(np.clip(s, 1e-9, 1 - 1e-9) / (1 - np.clip(s, 1e-9, 1 - 1e-9)))
        return z, 1 / (1 + math.exp(-(z + sum(share * self.d[j] for j, share in self.knots(z)))))

    def row(self, p, y, weight):
        """The probabilities of a row before its class y is learned."""
        logs = np.log(np.maximum(p, 1e-9))
        own = np.maximum(self.counts, 1.0)
        rho = np.minimum(1.0, self.K * (own + 1) / (self.counts.sum() + self.K)) ** (1 / own**2)
        s, b = np.exp(self.a * logs) * rho, np.exp(logs) * rho
        self.counts[y] += 1
        s, b = s / s.sum(), b / b.sum()
        r, both, classes = s.copy(), s[:2].sum(), [k for k in range(self.K) if s[k] >= 1e-3]
        if self.shared:
            for k in classes:
                r[k] = self.corrected(s[k])[1]
        else:
            r[1] = both * self.corrected(s[1] / both)[1]
            r[0] = both - r[1]
        if not self.shared and self.counts[2:].sum() > 0.01 * self.counts.sum():
            self.shared, self.d, self.w = True, np.zeros(KNOTS), np.zeros(KNOTS)
        odds = [(k, s[k]) for k in classes] if self.shared else [(1, s[1] / both)] if y < 2 else []
        for k, before in odds:
            z, now = self.corrected(before)
            for j, share in self.knots(z):
                self.w[j] = min(self.w[j] + weight * share * now * (1 - now), 30.0 if self.shared else 2.0)
                self.d[j] = np.clip(
                    self.held(j, self.d[j] + weight * share * ((y == k) - now) / (1 + self.w[j])), -8, 8
                )
        self.H = min(self.H + weight * ((s * logs**2).sum() - (s * logs).sum() ** 2), 2000.0)
        self.a = np.clip(self.a + weight * (logs[y] - (s * logs).sum()) / self.H, 0.02, 20)
        r /= r.sum()
        mixed = self.v * r + (1 - self.v) * b
        self.v += weight * (0.999 * self.v * r[y] / mixed[y] + 0.001 * 0.9 - self.v)
        return mixed


def stream(K, rows=300, seed=0):
    """Overconfident probabilities, and classes drawn from tempered ones."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(rows, K))
    p, true = (np.exp(sure * scores) / np.exp(sure * scores).sum(axis=1, keepdims=True) for sure in (3.0, 1.0))
    return p, np.array([rng.choice(K, p=row) for row in true])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("K", "rare"), [(2, False), (3, False), (6, False), (3, True)])
def test_the_equations(K, rare, weighted):
    """Probabilities, slope, offsets and weights equal those of the literal equations, also while one class is rare."""
    p, y = stream(K)
    if rare:
        y[:220] %= 2
        y[150] = 2
    ours, oracle = answers(K), Literal(K)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else np.ones(len(y))
    expected = [oracle.row(*row) for row in zip(p, y, relative(weights), strict=True)]
    for i in range(len(y)):
        row = Prediction(p[i : i + 1].argmax(axis=1), p[i : i + 1])
        assert_allclose(expected[i], answered(ours, row).probabilities[0], rtol=1e-6, atol=2e-6)
        scored(ours, row, y[i : i + 1], weights=weights[i : i + 1] if weighted else None)
    c = ours.calibration
    assert_allclose([oracle.a, oracle.H], c[[SLOPE, CURVATURE]], rtol=1e-6)
    assert_allclose(oracle.d, c[OFFSETS:WEIGHTS], rtol=1e-5, atol=1e-8)
    assert_allclose(oracle.w, c[WEIGHTS:HEAVIEST], rtol=1e-5, atol=1e-8)
    assert_allclose(oracle.v, c[TRUST], rtol=1e-5)
    assert (K > 2) == bool(c[SHARED])


@pytest.mark.parametrize("costs", [None, {"c0": 1, "c1": 1}])
def test_the_error_rate_test_uses_the_learners_own_class(costs):
    """A learner that is always wrong errs on every row, though the answers are right; with costs the answers count."""
    p = np.tile([[0.9, 0.1], [0.1, 0.9]], (500, 1))
    ours = answers_of(["c0", "c1"], class_costs=costs)
    found = scored(ours, Prediction(p.argmax(axis=1), p), 1 - p.argmax(axis=1))
    said_wrong = (found.predicted != found.truth).astype(float)
    assert 0 == said_wrong[100:].sum()
    assert_array_equal(said_wrong if costs else np.ones(1000), found.errors)


def test_rows_that_do_not_fit_leave_it_unchanged():
    """Rows of a model no longer in force, of a class the prediction did not include, and of a single class."""
    p = np.array([[0.6, 0.4]])
    for ours, row, y, how in (
        (answers(2), p, 0, {"fits": False}),
        (answers(3), p, 2, {"new": True}),
        (answers(2), np.ones((1, 1)), 0, {}),
    ):
        scored(ours, Prediction(row.argmax(axis=1), row), np.array([y]), **how)
        assert_array_equal(fresh(), ours.calibration)


@pytest.mark.parametrize("trust", [0.0, 1.0])
def test_a_state_that_trusts_one_side_alone_is_refused(trust):
    """No rows lead to it, and it would divide by a probability that may be 0."""
    held = answers(2).to_arrays()[0]
    held["calibration"][TRUST] = trust
    with pytest.raises(ValueError, match="calibration"):
        LAYOUT.read(held)


shares = arrays(np.float64, (6, 3), elements=st.floats(0, 1))


@given(shares, st.lists(st.integers(0, 2), min_size=6, max_size=6), st.sampled_from([1e-6, 1.0, 1e3]))
def test_no_stream_breaks_it(p, y, weight):
    """For any probabilities and labels the parameters are a valid state, and answers lie strictly between 0 and 1."""
    p = np.where(p.sum(axis=1, keepdims=True) > 0, p / np.maximum(p.sum(axis=1, keepdims=True), 1e-300), 1 / 3)
    for K in (2, 3):
        own = np.ascontiguousarray(p[:, :K])
        ours = answers(K)
        for _ in range(20):
            rows = Prediction(own.argmax(axis=1), own)
            scored(ours, rows, np.array(y) % K, weights=np.full(6, weight))
        LAYOUT.read(ours.to_arrays()[0])
        said = answered(ours, rows).probabilities
        assert ((said > 0) & (said < 1)).all()
        assert_allclose(1.0, said.sum(axis=1), rtol=1e-9)


@pytest.mark.slow_but("*-dfop", "fraud-dynamic_odm", "sea-vigod", "fraud-fesl_c", "sea-auto")
@pytest.mark.parametrize("algorithm", [one.id for one in ALGORITHMS.values() if "classification" in one.tasks])
@pytest.mark.parametrize("generated", [sea, fraud])
def test_models_are_calibrated_within_three_points(algorithm, generated):
    """On a drifting stream and on one with a rare class; the learner's own probabilities may be further off."""
    error, loss, own_loss = errors_and_losses(algorithm, *generated(rows=15_000))
    assert error < 3.0
    assert loss < own_loss + 0.01


@pytest.mark.parametrize("algorithm", ["rls", "vigo", "vigow"])
def test_a_learner_that_is_right_again_is_believed(algorithm):
    """The meaning of the classes flips every 1000 rows; where the learner has recovered, the answers have, too."""
    rng, rows = np.random.default_rng(0), np.arange(4000)
    X = rng.normal(size=(len(rows), 3))
    y = (X @ [1, 2, -1] + 0.3 * rng.normal(size=len(rows)) > 0) ^ (rows // 1000 % 2 == 1)
    body = {"algorithm": algorithm, "task": "classification", "labels": [0, 1], "watch": None, "features": [*"abc"]}
    model, found = Fed(body), []
    absorb = model.machine.own.answers.absorb
    model.machine.own.answers.absorb = lambda *given: found.append(absorb(*given)) or found[-1]
    model.learn(X, y.astype(int).tolist())
    answers, learner = np.concatenate([(rows.predicted == rows.truth, rows.errors == 0) for rows in found], axis=1)
    for start in range(1000, 4000, 500):
        half = slice(start, start + 500)
        assert answers[half].mean() > learner[half].mean() - 0.05
