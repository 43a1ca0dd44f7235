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
    [("labels", None), ("no labels", "are not recovered: only overlap"), ("old rows between", "are recovered poorly")],
)
def test_lag_columns_that_are_not_recovered_are_told(algorithm, overlap, warned):
    """Without labels the lags of the old side stand still; with its own rows in between they are of other rows."""
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
        assert shares["new"] >= 0.9


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
