"""Changes of features that cannot be: refused with what is under way, and nothing changes."""

import pytest

from core.config import Config
from core.entry import Overlap, Rows, Switch
from core.model import Model, save
from core.model.plans import plan_switch
from core.problems import Conflict
from tests.core.refusals import problems
from tests.core.switching.switch_streams import SCHEMAS, SPACES, Driver


def test_what_cannot_be_done_now_is_refused_with_what_is_under_way():
    """And changes nothing."""
    driver = Driver()
    driver.learn(30)
    overlap = Overlap(SCHEMAS[0].id, driver.raw(SCHEMAS[0], 0, 2))
    for step in (driver.complete, driver.abort, lambda: driver.commit(overlap)):
        before = save.to_bytes(driver.machine)
        assert "no change of features" in step().refusal
        assert before == save.to_bytes(driver.machine)
    driver.begin(1)
    before = save.to_bytes(driver.machine)
    assert "under way, to p, day, q, r" in driver.begin(2).refusal
    with pytest.raises(Conflict, match="under way, to p, day, q, r"):
        plan_switch(driver.machine, "begin", ["x"])
    assert "have changed since" in driver.commit(overlap).refusal
    new_only = Rows(SCHEMAS[1].id, None, driver.raw(SCHEMAS[1], 0, 1), ["class 0"])
    assert driver.commit(new_only).refusal is not None
    assert before == save.to_bytes(driver.machine)


def test_a_begin_that_another_switch_overtook_is_refused():
    """Two clients announce changes; the second one's was checked against features that are gone."""
    driver = Driver()
    driver.learn(30)
    driver.live(1)
    assert "changed meanwhile" in driver.commit(Switch("begin", SCHEMAS[1].features)).refusal


def test_a_model_without_features_has_nothing_to_change():
    """Before its first row; and one of sparse rows never has."""
    empty = Model.first(Config.parse({"algorithm": "fesl_c", "task": "classification"}))
    with pytest.raises(Conflict, match="no features yet"):
        plan_switch(empty, "begin", ["x"])
    sparse = Model.first(Config.parse({"algorithm": "sparse_dfop", "task": "classification"}))
    with pytest.raises(Conflict, match="rows with any names at any time"):
        plan_switch(sparse, "begin", ["x"])


def test_a_bad_space_is_named_by_field():
    """The service's check goes through the machine, which knows the features in force."""
    driver = Driver()
    assert "features[1]" == problems(plan_switch, driver.machine, "begin", ["x", "x"])[0].field
    assert SCHEMAS[1].features == plan_switch(driver.machine, "begin", SPACES[1]).features
