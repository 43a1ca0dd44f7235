"""The bank of forgetting rates, compared with its equations row by row."""

import math
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from core.contract import Spec
from core.learners.catalogue import find
from core.learners.dfop.learner import RATES, Dfop
from core.problems import Invalid
from tests.core.learners.dfop.test_dfop import exciting, labelled
from tests.core.learners.streams import learner_of, relative
from tests.core.refusals import problems

DFOP = find("dfop")


def build(task="regression", d=3, classes=0, **params):
    return learner_of("dfop", d, classes, task, **params)


def scores_of(member, x):
    """The scores w'x (m,) of one row by a learner with one rate."""
    row = np.append(x[0], 1.0)
    return member.W[0, : None if member.regression else -1] @ row


class Literal:
    """The equations of core.learners.dfop.bank with learners of the catalogue as members, one row at a time."""

    def __init__(self, task, d, classes):
        self.members = []
        for rate in RATES:
            params = {"forgetting_rate": rate} if rate else {}
            self.members.append(learner_of("dfop" if rate else "rls", d, classes, task, **params))
        self.v, self.D, self.t, self.classes = np.full(len(RATES), 1 / len(RATES)), 0.0, 0, classes
        self.seen, self.a, self.H = [], 1.0, 1.0

    def learn(self, x, y, weight=1.0, share=1.0):
        """``share``: the weight, relative to the largest recent one."""
        p = np.array([scores_of(member, x) for member in self.members])  # (K, m)
        s = None if self.classes else np.array([member.predict(x).std for member in self.members])  # (K, 1)
        if self.classes:
            p = np.clip(p, -1.5, 1.5)
        elif self.seen:
            width = max(0.1, 4 / len(self.seen) - 0.1) * (max(self.seen) - min(self.seen))
            p = np.clip(p, min(self.seen) - width, max(self.seen) + width)
            self.D = min(self.D, (np.ptp(self.seen) + 2 * width) ** 2 if self.t > 2 else np.inf)
        self.seen.append(float(y[0]))
        columns = np.arange(self.classes) if self.classes > 2 else [1]
        target = np.where(np.equal(columns, y[0]), 1.0, -1.0) if self.classes else y
        a = self.v if self.classes else np.maximum(self.v - 0.002 / len(self.v), 0)
        a = a / a.sum()
        o = a @ p
        std = math.sqrt(a @ (s[:, 0] ** 2 + (p[:, 0] - o[0]) ** 2)) if not self.classes else None
        loss = ((p - target) ** 2).mean(axis=1)
        self.t += 1
        rate, miss = share * max(1 / self.t, 0.001), ((o - target) ** 2).mean()
        eta = share * 0.5 / (self.D + rate * (miss - self.D))
        counted = miss if self.classes or self.t <= 20 else min(miss, 100 * self.D)
        self.D += rate * (counted - self.D)
        if self.classes == 2:
            loss, eta = np.log1p(np.exp(-2 * self.a * target[0] * p[:, 0])), share
            self._slope(np.array([-o[0], o[0]]), int(y[0]), share)
        self.v = self.v * np.exp(-eta * (loss - loss.min()))
        self.v = 0.999 * self.v / self.v.sum() + 0.001 / len(self.v)
        for member in self.members:
            member.learn(x, y, None, np.array([weight]))
        return o, std

    def _slope(self, s, label, share):
        """One step of the slope of the probabilities (core.learners.calibration)."""
        q = np.exp(self.a * s) / np.exp(self.a * s).sum() * (1 - 2e-6) + 1e-6
        self.H = min(self.H + share * (q @ s**2 - (q @ s) ** 2), 50.0)
        self.a = min(max(self.a + share * (s[label] - q @ s) / self.H, 0.05), 25.0)


@pytest.mark.parametrize("offset", [0.0, 10.0])
def test_regression_is_the_literal_mixture(offset):
    """Values, deviations, weights and loss agree with the equations, also beyond the 1000 rows in which r falls."""
    (X, y), weights = exciting(1300), np.random.default_rng(2).uniform(0.2, 3.0, 1300)
    bank, oracle, shares, y = build(), Literal("regression", 3, 0), relative(weights), y + offset
    told = bank.learn(X, y, None, weights)
    expected = [oracle.learn(X[i : i + 1], y[i : i + 1], weights[i], shares[i]) for i in range(1300)]
    assert_allclose([o[0] for o, _ in expected], told.value, rtol=1e-9)
    assert_allclose([std for _, std in expected], told.std, rtol=1e-9)
    assert_allclose(oracle.v, bank.mixing, rtol=1e-7)
    assert_allclose([oracle.D, weights[-1] / shares[-1]], bank.loss, rtol=1e-9)


def test_an_exploding_member_is_clipped_near_the_labels():
    """A weight learned from one tiny value explodes at the next large value; the mixture stays near the labels."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3000, 3))
    X[:, 2] = 0.0
    y = X[:, 0] + rng.normal(size=3000) / 10
    X[1500:1502, 2] = 0.1, 50_000.0
    bank, oracle = build(), Literal("regression", 3, 0)
    told = bank.learn(X, y).value
    assert_allclose([oracle.learn(X[i : i + 1], y[i : i + 1])[0][0] for i in range(3000)], told, rtol=1e-6, atol=1e-9)
    assert np.abs(build(forgetting_rate=0.01).learn(X, y).value).max() > 10 * np.abs(y).max()
    assert np.abs(told[20:]).max() <= 1.2 * np.abs(y).max()


@pytest.mark.parametrize("classes", [2, 4])
def test_classification_is_the_literal_mixture(classes):
    """The columns of all classes seen enter one loss; the value is the class with the largest mixed score."""
    X, y = labelled(600, classes, range(classes))
    bank, oracle = build("classification", classes=classes), Literal("classification", 3, classes)
    told = bank.learn(X, y)
    scores = np.array([oracle.learn(X[i : i + 1], y[i : i + 1])[0] for i in range(600)])
    expected = scores.argmax(axis=1) if classes > 2 else (scores[:, 0] > 0).astype(int)
    assert_array_equal(expected, told.value)
    assert_allclose(oracle.v, bank.mixing, rtol=1e-7)


def test_info_shows_the_weights():
    """``info`` lists rates and weights; the window is one over the mean rate."""
    X, y = exciting(100)
    bank = build()
    assert bank.info()["noise_std"] is None
    bank.learn(X, y)
    info = bank.info()
    assert list(RATES) == info["forgetting_rates"]
    assert bank.shares.tolist() == info["forgetting_weights"]
    assert_allclose(1 / (bank.shares @ RATES), info["effective_window"])
    assert 100 == info["rows"]
    assert 0.05 < info["noise_std"] < 0.3


def test_wide_banks_leave_out_rates_whose_window_is_a_few_rows():
    """Rates with mu D above 30 are left out: their refreshes would cost more than their rows."""
    assert RATES == build(d=59).rates
    assert 0.3 == max(build(d=60).rates)
    assert 0.03 == max(build(d=999).rates)


def test_auto_is_the_default_and_a_number_is_not_a_bank():
    """Without a rate dfop is the bank; with a number it is one DFOP; gdfop does not accept "auto"."""
    assert RATES == build().rates
    assert (0.01,) == build(forgetting_rate=0.01).rates
    (param,) = (param for param in DFOP.params if param.name == "forgetting_rate")
    assert f"{len(RATES)} rates from {min(RATES):g} to {max(RATES):g}" in param.meaning
    assert "auto" == DFOP.complete({})["forgetting_rate"]
    with pytest.raises(Invalid):
        find("gdfop").complete({"forgetting_rate": "auto"})
    assert '"auto"' in str(problems(DFOP.complete, {"forgetting_rate": "automatic"})[0].allowed)


@pytest.mark.parametrize("columns", [3, 40, 260])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_members_are_bit_for_bit_the_learners_alone(task, columns):
    """Through single rows, blocks, leaks, refreshes, wild rows, new classes, forgetting, saving and loading."""
    rng = np.random.default_rng(columns)
    bank = build(task, columns)
    given = [{"forgetting_rate": rate} if rate else {} for rate in bank.rates]
    alone = [Dfop(Spec(task, columns, find("gdfop" if rate else "rls").complete(rate))) for rate in given]

    def learn(rows, X):
        y = rng.integers(0, bank.classes, rows).astype(float) if bank.classes else X[:, 0] + rng.normal(size=rows)
        bank.learn(X, y)
        for learner in alone:
            learner.learn(X, y)

    def everywhere(method):
        for learner in (bank, *alone):
            getattr(learner, method)()

    for step in range(4):
        if task == "classification":
            before = bank.mixing.copy()
            everywhere("add_class")
            assert_array_equal(before, bank.mixing)
        for _ in range(15):
            learn(1, rng.normal(size=(1, columns)))
        learn(40, rng.normal(size=(40, columns)))
        everywhere("forget")
        learn(1, 10.0 ** rng.integers(-80, 80, size=(1, columns)))
        if step % 2:
            loaded = build(task, columns)
            loaded.load_arrays(*bank.to_arrays())
            bank = loaded
        members = bank.to_arrays()[0]
        for k, expected in enumerate(alone):
            for name in ("weights", "covariance", "precision", "power", "tally"):
                assert expected.to_arrays()[0][name].tobytes() == members[name][k].tobytes(), (step, name)


def test_chunks_do_not_depend_on_calls():
    """Calls cut anywhere around the end of a chunk give the same bits as one call."""
    X, y = exciting(2200)
    whole, cut = build(), build()
    expected = whole.learn(X, y)
    told = [cut.learn(X[begin:end], y[begin:end]) for begin, end in pairwise((0, 1023, 1024, 1025, 2049, 2200))]
    assert_array_equal(expected.value, np.concatenate([one.value for one in told]))
    assert_array_equal(whole.predict(X).std, np.concatenate([cut.predict(X[:1500]).std, cut.predict(X[1500:]).std]))
