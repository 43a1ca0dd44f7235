"""`auto` for classes: its mixture against plain Python, which experts it has, and what it reports about them."""

import numpy as np
import pytest
from msgspec.structs import astuple
from numpy.testing import assert_allclose, assert_array_equal

from core.contract import Spec
from core.learners.auto import kernels as mixing
from core.learners.auto.experts import PRODUCTS, RANDOM, expert_spec, recipes
from core.learners.auto.mixture import ExpertMixture
from core.learners.catalogue import find
from tests.core.learners.streams import learner_of, relative


class Oracle:
    def __init__(self, experts, classes):
        E = experts + 4
        self.a, self.H, self.v, self.G = np.ones(E), np.ones(E), np.full(E, 3 / E), np.zeros(E)
        self.b, self.right, self.c, self.rows = np.full(E, 1 / E), np.zeros(E), 0.5, 0
        self.counts, self.last = [np.zeros((classes + 1, classes)) for _ in range(2)], None

    def learn(self, P, y, weight, counts):
        """The mixture's probabilities for a row before it is learned, from the experts' probabilities P (E, K)."""
        K = P.shape[1]
        share = [(own[0] + 1 / K) / (own[0].sum() + 1) for own in self.counts]
        after = [own[0 if self.last is None else 1 + self.last] for own in self.counts]
        order = [(own + 1 / K) / (own.sum() + 1) for own in after]
        logs = np.log(np.maximum(np.vstack([P, order, share]), 1e-4))
        t = np.exp(self.a[:, None] * logs)
        t /= t.sum(axis=1, keepdims=True)
        f = np.maximum(np.log(t), np.log(1e-4))
        f -= f.mean(axis=1, keepdims=True)
        rare = self.rows >= 200 and self.counts[0][0].max() > 0.95 * self.counts[0][0].sum()
        h = f[-2] * rare
        f = f - h
        q = np.exp(h + self.v @ f - (h + self.v @ f).max())
        q /= q.sum()
        r = self.b @ t
        p = self.c * q + (1 - self.c) * r
        said = p / p.sum() * (1 - K * 1e-6) + 1e-6
        self._fit(y, weight, logs, t, f, q, r, rare)
        self._count(y, counts)
        return said

    def _fit(self, y, weight, logs, t, f, q, r, rare):
        self.rows += 1
        mean = (t * logs).sum(axis=1)
        self.H = np.minimum(self.H + weight * np.maximum((t * logs**2).sum(axis=1) - mean**2, 0), 1000)
        self.a = np.clip(self.a + weight * (logs[:, y] - mean) / self.H, 0.02, 20)
        g = weight * (f[:, y] - f @ q)
        self.G = 0.9995 * self.G + g**2
        self.v += np.divide(0.15 * g, np.sqrt(self.G + 100 * rare), out=np.zeros_like(g), where=self.G > 0)
        right = t.argmax(axis=1) == y
        self.right += (right - self.right) * max(1 / self.rows, 1e-3)
        logs_of = [-np.log(np.maximum(own, 1e-4)) for own in (t[:, y], q[y], r[y])]
        lost, eta = (logs_of, 1.0) if rare else ((~right, q.argmax() != y, r.argmax() != y), 0.2)
        self.b *= np.exp(-0.5 * weight * lost[0])
        self.b = 0.999 * self.b / self.b.sum() + 0.001 / len(self.b)
        c = self.c * np.exp(-eta * weight * lost[1])
        other = (1 - self.c) * np.exp(-eta * weight * lost[2])
        self.c = 0.999 * c / (c + other) + 0.0005

    def _count(self, y, weight):
        for own, order, share in zip(self.counts, (0.999, 0.98), (1.0, 0.99), strict=True):
            own[0] *= share
            own[0, y] += weight
            if self.last is not None:
                own[1 + self.last] *= order
                own[1 + self.last, y] += weight
        self.last = y


AUTO = find("auto")
LABELS = [*mixing.LABEL_EXPERTS]


def learner(dimension=3, classes=2, **params):
    return learner_of("auto", dimension, classes, seed=3, **params)


def ring(rows, seed=0, columns=3):
    """Class 1 is the inside of a circle in the first two columns."""
    X = np.random.default_rng(seed).normal(size=(rows, columns))
    return X, ((X[:, :2] ** 2).sum(axis=1) < 1.4).astype(np.int64)


def said(rows, classes, experts=3, seed=0, common=0.0):
    """Probabilities (E, n, K) of experts, the second mostly right, and labels; a share ``common`` is the last one."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    y[rng.random(rows) < common] = classes - 1
    P = rng.dirichlet(np.full(classes, 0.7), (experts, rows))
    P[1] = 0.6 * np.eye(classes)[np.where(rng.random(rows) < 0.8, y, 0)] + 0.4 * P[1]
    P[2, ::7] = np.eye(classes)[0]
    return np.ascontiguousarray(P), y


def mixture(classes, experts=3):
    built = ExpertMixture([f"e{number}" for number in range(experts)], regression=False)
    for _ in range(classes):
        built.add_class()
    return built


@pytest.mark.parametrize("classes", [1, 2, 4])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("common", [0.0, 0.97])
def test_the_mixture_follows_its_equations(classes, weighted, common):
    """Probabilities, classes and weights equal a plain Python loop, with or without row weights and a common class."""
    P, y = said(300, classes, common=common)
    weights = np.random.default_rng(1).uniform(0.1, 3.0, 300) if weighted else np.ones(300)
    shares = relative(weights)
    built, oracle = mixture(classes), Oracle(3, classes)
    expected = [oracle.learn(P[:, i], int(y[i]), *row) for i, row in enumerate(zip(shares, weights, strict=True))]
    value, p, *_ = astuple(built.learn(P, y, weights if weighted else np.empty(0)))
    assert_allclose(expected, p, rtol=1e-9, atol=1e-12)
    assert_array_equal(np.argmax(expected, axis=1), value)
    names = mixing.SLOPE, mixing.POOL, mixing.WEIGHT, mixing.FIGURE
    for expected_row, name in zip((oracle.a, oracle.v, oracle.b, oracle.right), names, strict=True):
        assert_allclose(expected_row, built.table[name], rtol=1e-9, atol=1e-12)
    assert oracle.c == pytest.approx(built.counters[mixing.POOLED], rel=1e-9)


def test_experts_of_a_rare_class_are_combined():
    """With errors of their own, they are together clearly better than one, although there are only some 30 such rows.

    They agree that the class is rare, which says nothing about rows; the pool must not learn from it how to weigh them.
    """
    gains = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        odds = rng.normal(-7.5, 2.0, 8000)
        y = (rng.random(8000) < 1 / (1 + np.exp(-odds))).astype(np.int64)
        share = 1 / (1 + np.exp(-odds - rng.normal(0, 3, (12, 8000))))
        _, p, *_ = astuple(mixture(2, 12).learn(np.stack([1 - share, share], axis=2), y, np.empty(0)))
        mixed, single = ((own[y == 1][:, None] > own[y == 0]).mean() for own in (p[:, 1], share[0]))
        gains.append(mixed - single)
    assert np.mean(gains) > 0.04


@pytest.mark.parametrize(
    ("dimension", "size", "left_out"),
    [(21, "large", set()), (22, "large", {"products"}), (129, "medium", {"products", "vigo"}),
     (131, "large", {"products", "vigo", "random"})],
)  # fmt: skip
def test_experts_that_do_not_fit_the_columns_are_left_out(dimension, size, left_out):
    """By rule; as long as all fit, none has 255 columns or more, so that blocks are exact."""
    spec = Spec("classification", dimension, {"size": size})
    found = recipes(spec)
    kinds = {PRODUCTS: "products", RANDOM: "random"}
    there = {kinds.get(one.columns, "") for one in found} | {one.algorithm[:4] for one in found}
    assert {"products", "random", "vigo"} - there == left_out
    assert all(expert_spec(spec, one).dimension < 255 for one in found if one.columns in kinds)
    assert AUTO.row_exact(spec)


def test_sizes_are_nested():
    """A larger size has all experts of the smaller one and more."""
    small, medium, large = (
        {one.name for one in recipes(Spec("classification", 5, {"size": size}))}
        for size in ("small", "medium", "large")
    )
    assert small < medium < large


def test_it_reports_the_weight_of_each_expert():
    """Weights by name that add up to one, and accuracies; an explanation has the predictions of those with columns."""
    built = learner()
    assert {None} == {one["accuracy"] for one in built.info()["experts"]}
    X, y = ring(800)
    built.learn(X, y)
    told = built.info()
    assert 800 == told["rows"]
    assert [*built.team.experts, *LABELS] == [one["expert"] for one in told["experts"]]
    assert 1.0 == pytest.approx(sum(one["weight"] for one in told["experts"]))
    accuracy = {one["expert"]: one["accuracy"] for one in told["experts"]}
    assert accuracy["fesl_c_random"] > 0.8 > accuracy["rls"]
    explained = built.explain(X[:1])
    assert [0, 1] == explained["classes"]
    assert [*built.team.experts] == [one["expert"] for one in explained["experts"]]
    rls, reported = (next(one for one in of["experts"] if one["expert"] == "rls") for of in (explained, told))
    assert_allclose(built.team.experts["rls"].predict(X[:1]).probabilities[0], rls["probabilities"])
    assert reported["weight"] == rls["weight"]


def test_it_continues_with_further_columns():
    """Experts that can take them go on; the others start over with weight 0, and predictions stay good."""
    X, y = ring(600)
    few, more = learner(3), learner(4)
    few.learn(X, y)
    wider = np.ascontiguousarray(np.insert(X, 1, 0.0, axis=1))
    more.extend(few, np.array([0, 2, 3]))
    read = {one.name: one.columns for one in recipes(Spec("classification", 3, {"size": "medium"}))}
    for name in ("rls", "dynamic_odm", "fesl_c_products", "dfop_001_products"):
        expected = few.team.experts[name].predict(few.columns.of(X)[read[name]])
        told = more.team.experts[name].predict(more.columns.of(wider)[read[name]])
        assert_allclose(expected.probabilities, told.probabilities)
    weights = {one["expert"]: one["weight"] for one in more.info()["experts"]}
    assert 0.0 == weights["vigow"] == weights["fesl_c_random"]
    later, labels = ring(300, seed=1)
    told = more.learn(np.ascontiguousarray(np.insert(later, 1, 0.0, axis=1)), labels)
    assert (told.value == labels).mean() > 0.85
