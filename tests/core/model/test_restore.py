"""Entries that name a state by its digest."""

import numpy as np
import pytest

from core.config import Config
from core.entry import Entry, Reset, Restore, Rows, Switch
from core.features import Feature, Schema
from core.learners.dfop.learner import Dfop
from core.model import Model, cost, save
from core.model.apply import apply

CONFIG = Config.parse({"algorithm": "rls", "task": "regression", "features": ["a", "b"]})


def test_a_state_that_was_not_read_is_not_taken_for_one():
    """Who applies an entry without the bytes that it names has a bug."""
    with pytest.raises(RuntimeError, match="00ff"):
        apply(Model.first(CONFIG), Entry(1, 0, (Restore(b"", "import", (), "00ff", 10),)))


def test_taking_over_a_state_is_work_by_its_bytes():
    """Who applies it decides by this estimate whether others have to wait for it."""
    model = Model.first(CONFIG)
    assert 1e6 > cost.flops_to_apply(model, [Restore(bytes(10**4))])
    assert 1e9 < cost.flops_to_apply(model, [Restore(bytes(10**8))])


def test_many_rows_are_work_however_few_their_columns():
    """Scoring and answering a row costs more than learning it where a learner has two columns."""
    model = Model.first(CONFIG)
    row, rows = (
        Rows(model.feedback_schema.id, None, np.zeros((count, 2)), np.zeros(count), None) for count in (1, 20_000)
    )
    assert 1e4 > cost.flops_to_apply(model, [row])
    assert 5e6 < cost.flops_to_apply(model, [rows])


def test_building_a_state_anew_is_work_by_its_bytes():
    """A reset, the first row of features that nobody declared, and the new features of a change."""
    names = [f"x{column}" for column in range(1000)]
    few, many = CONFIG, Config.parse({"algorithm": "rls", "task": "regression", "features": names})
    assert 1e6 > cost.flops_to_apply(Model.first(few), [Reset()])
    assert 1e8 < cost.flops_to_apply(Model.first(many), [Reset()])

    undeclared = Model.first(Config.parse({"algorithm": "rls", "task": "regression"}))
    for count, least, most in ((10, 0, 3e6), (1000, 1e8, 1e10)):
        space = Schema([Feature(name) for name in names[:count]])
        row = Rows(space.id, space.features, np.zeros((1, count)), np.zeros(1), None)
        assert least < cost.flops_to_apply(undeclared, [row]) < most
        change = Switch("begin", tuple(Feature(f"new {name}") for name in names[:count]), "linear")
        assert least < cost.flops_to_apply(Model.first(few), [change]) < most


def test_a_state_is_read_into_one_learner(monkeypatch):
    """The learner of the configuration is not built beside it: of a large model it would take as much memory again."""
    state, made, build = save.to_bytes(Model.first(CONFIG)), [], Dfop.__init__

    def counted(self, spec):
        made.append(spec)
        build(self, spec)

    monkeypatch.setattr(Dfop, "__init__", counted)
    save.from_bytes(state)
    assert 1 == len(made)
