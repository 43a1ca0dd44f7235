"""A change of features of a model with lags: which rows teach the lag columns, and what is said if none does."""

import numpy as np
import pytest

from core.entry import Overlap, Switch
from core.switching.feature_recovery import ERROR_POOR
from core.switching.linear_mapping import LinearMapping
from tests.core.twin import Twin

OLD, BOTH, NEW = "ab", "abc", "ac"


class Lagged(Twin):
    """A regression on b of the row before; c, which follows, is 2 b."""

    def __init__(self, algorithm):
        super().__init__({"algorithm": algorithm, "task": "regression", "features": [*OLD], "lags": 1})
        self.rng, self.before = np.random.default_rng(1), 0.0

    def rows(self, names, labelled=True, space=None):
        """Learn a row with these features; without a label, as a row of the overlap."""
        a, b = self.rng.normal(size=2)
        label, self.before = 3.0 * self.before + self.rng.normal() / 20, b
        raw = np.array([[{"a": a, "b": b, "c": 2.0 * b}[name] for name in names]])
        if labelled:
            return self.learn(raw, np.array([label]), space)
        return self.commit(Overlap(self.machine.feedback_schema.id, raw))


@pytest.mark.parametrize("algorithm", ["rls", "fesl_s"])
@pytest.mark.parametrize(
    ("overlap", "warned"),
    [("labels", None), ("no labels", "are not recovered: only overlap"), ("old rows between", None)],
)
def test_lag_columns_that_are_not_recovered_are_told(algorithm, overlap, warned):
    """Without labels the lags of the old side stand still; its own rows in between enter only its own lags."""
    model = Lagged(algorithm)
    for _ in range(300):
        model.rows(OLD)
    old = model.machine.prediction_schema
    model.commit(Switch("begin", model.machine.own.switching.next_features([*NEW]), "linear"))
    for _ in range(60):
        model.rows(BOTH, overlap != "no labels")
        if overlap == "old rows between":
            model.rows(OLD, space=old)
    error = model.machine.own.switching.mapping_error
    warning = model.commit(Switch("complete")).warning
    if warned is None:
        assert warning is None
        assert error < 0.1
    else:
        assert warned in warning
        assert error >= ERROR_POOR
    shares = dict(
        zip(model.machine.own.switching.now.experts, model.machine.own.switching.now.mixture.weights, strict=True)
    )
    if overlap == "old rows between":
        assert shares["new"] >= 0.7  # on such rows the lags that both experts would get are not those of the labels


@pytest.mark.parametrize("unlabelled", [0, 3])
def test_lag_columns_of_both_sides_are_from_the_same_rows(unlabelled):
    """The new space's history is empty at first; an image that is exact is found to be so all the same."""
    rng, new = np.random.default_rng(0), [*"uvwxyz"]
    model = Twin({"algorithm": "fesl_c", "task": "regression", "features": [*"abcdef"], "lags": 5})
    x, image = rng.normal(size=(500, 6)), rng.normal(size=(6, 6))
    y = x[:, 0] + 2.0 * np.roll(x[:, 1], 2) + rng.normal(size=500) / 20
    model.learn(x[:340], y[:340])
    model.commit(Switch("begin", model.machine.own.switching.next_features(new), "linear"))
    both = np.hstack([x, x @ image])
    model.learn(both[340:343], y[340:343])
    for at in range(343, 343 + unlabelled):  # while the history is not yet full
        model.commit(Overlap(model.machine.feedback_schema.id, both[at : at + 1]))
    model.learn(both[346:400], y[346:400])
    assert model.machine.own.switching.now.recovery.exact
    assert model.commit(Switch("complete")).warning is None
    told = model.learn((x @ image)[400:], y[400:]).predictions
    assert ((np.array(told) - y[400:]) ** 2).mean() < 0.2 * y.var()


def test_the_worst_lag_counts_and_still_columns_only_if_they_could_have_moved():
    """One column is perfect and its lag stands still; another one never varies, nor does its lag, which is no fault."""
    mapping, rng = LinearMapping(["c", "c (t-1)"], ["b", "k", "b (t-1)", "k (t-1)"]), np.random.default_rng(0)
    c = rng.normal(size=(40, 2))
    mapping.learn(c, np.column_stack([c[:, 0], np.full(40, 3.0), np.full(40, 2.0), np.full(40, 3.0)]))
    assert 1.0 == mapping.error
    moving = LinearMapping(mapping.sources, mapping.targets)
    moving.learn(c, np.column_stack([c[:, 0], np.full(40, 3.0), c[:, 1], np.full(40, 3.0)]))
    assert moving.error < 1e-3
    assert moving.problem is None
    mapping.freeze()
    assert mapping.only(["b", "k"]).problem is None
    assert mapping.only(["b", "b (t-1)"]).problem == mapping.problem
