"""A change of features works with every algorithm: phases, who learns what, late rows, many switches, any crash."""

import pytest

from core.entry import Challenge, Overlap, Reset, Rows, Switch
from core.features import row_sample
from core.model import save
from core.model.plans import plan_switch
from core.problems import Conflict
from tests.core.learners.streams import state
from tests.core.switching.switch_streams import CASES, SCHEMAS, Driver, every_case, few

every_mapping = pytest.mark.parametrize(
    ("algorithm", "task", "classes", "mapping"),
    [(*case, "linear") for case in CASES]
    + [(*case, "kernel") for case in CASES if case[0] in {"rls", "fesl_s", "auto"}],
)
"""Every case, and the kernel mapping with some: it belongs to the switch, not to the learner."""


@few
@every_mapping
def test_how_requests_are_cut_does_not_matter(algorithm, task, classes, mapping):
    """One block, several segments of one entry, or row by row, in both phases: the same bits."""
    block, parts, single = (Driver(algorithm, task, classes) for _ in range(3))
    for driver in (block, parts, single):
        driver.learn(60)
        driver.begin(1, mapping)
    for learn in ("overlap", "ensemble"):
        block.learn(24)
        parts.apply(*(parts.rows(count) for count in (3, 1, 13, 7)))
        for _ in range(24):
            single.learn(1)
        if learn == "overlap":
            block.map(6)
            parts.map(2)
            parts.map(4)
            for _ in range(6):
                single.map(1)
            for driver in (block, parts, single):
                driver.complete()
    assert save.to_bytes(block.machine) == save.to_bytes(parts.machine) == save.to_bytes(single.machine)


@few
@every_case
def test_the_state_does_not_grow_with_switches(monkeypatch, algorithm, task, classes):
    """Switching back and forth costs as much as one change, with or without a mapping in front of the kept expert."""
    monkeypatch.setattr(row_sample, "sample_room", lambda _width: 8)  # the sample is full from the start
    driver = Driver(algorithm, task, classes, rows=900)
    driver.learn(60)
    sizes = {True: set(), False: set()}
    for at in range(8):
        driver.live(1 - at % 2, after=20)
        sizes[driver.pipeline.former.own.input_mapping is None].add(driver.pipeline.nbytes)
    assert 1 >= max(map(len, sizes.values()))


@few
@every_case
@pytest.mark.parametrize("phase", ["overlap", "ensemble"])
def test_late_rows_of_the_old_space_teach_the_old_model(algorithm, task, classes, phase):
    """A row tracked before the change is scored as returned, and learned in its own space."""
    driver = Driver(algorithm, task, classes)
    driver.learn(120)
    told = driver.served(200)
    driver.begin(1)
    driver.learn(20)
    if phase == "ensemble":
        driver.complete()
        driver.learn(10)
    now = driver.pipeline
    old, other = (now.former, now.own) if phase == "ensemble" else (now.old, now.new)
    before, new = state(old), state(other)
    driver.at = 200
    outcome = driver.learn(1, SCHEMAS[0], served=told)
    assert outcome.learned
    assert [told.prediction] == outcome.predictions
    assert before != state(old)
    assert new == state(other)


@few
@every_case
def test_late_rows_of_a_space_two_switches_ago_are_scored_only(algorithm, task, classes):
    """The returned prediction counts in the metrics; no model learns; without a returned prediction it is refused."""
    driver = Driver(algorithm, task, classes)
    driver.learn(120)
    told = driver.served(300)
    driver.live(1)
    driver.live(2, after=0)
    before = state(driver.pipeline)
    scored = driver.machine.own.metrics.rows
    driver.at = 300
    outcome = driver.learn(1, SCHEMAS[0], served=told)
    assert not outcome.learned
    assert [told.prediction] == outcome.predictions
    truth = driver.labels[300]
    loss = float(truth != told.prediction) if task == "classification" else (truth - told.prediction) ** 2
    assert [loss] == pytest.approx(outcome.losses)
    assert scored + 1 == driver.machine.own.metrics.rows == driver.machine.rows
    assert before == state(driver.pipeline)
    assert driver.learn(1, SCHEMAS[0]).refusal is not None


def two_in_an_overlap(*case):
    """Two equal models that have learned before and in an overlap, and its space."""
    driver, twin = Driver(*case), Driver(*case)
    for one in (driver, twin):
        one.learn(60)
        one.begin(1)
        one.learn(20)
    return driver, twin, driver.machine.feedback_schema


@few
@every_case
@pytest.mark.parametrize("action", ["complete", "abort"])
def test_union_rows_in_flight_are_projected(algorithm, task, classes, action):
    """After the overlap such a row is learned in the current space."""
    driver, twin, union = two_in_an_overlap(algorithm, task, classes)
    for one in (driver, twin):
        getattr(one, action)()
    assert driver.learn(6, union).predictions == twin.learn(6).predictions
    assert save.to_bytes(driver.machine) == save.to_bytes(twin.machine)
    driver.live(2)
    assert driver.learn(1, union).refusal is not None


@pytest.mark.parametrize("challenged", [False, True])
@pytest.mark.parametrize("algorithm", ["dfop", "auto"])
def test_rows_of_an_earlier_overlap_that_have_both_sets_train_the_next_one(algorithm, challenged):
    """The model has gone on, and back to the features before, unknown to the sender; a challenger learns them too.

    One of the rows brings a new class.
    """
    driver, twin, union = two_in_an_overlap(algorithm)
    for one in (driver, twin):
        one.complete()
        one.learn(5)
        if challenged:
            one.commit(Challenge("other", {"algorithm": "rls"}, 1))
        one.begin(0)
        one.learn(4)
        one.labels[one.at + 3] = "a new class"
    assert driver.reborn().learn(6, union).mapped
    twin.learn(6)
    assert 10 == driver.switching.overlap_rows
    assert save.to_bytes(driver.machine) == save.to_bytes(twin.machine)
    driver.complete()
    assert driver.reborn().learn(6, union).refusal is not None


def test_rows_of_an_earlier_overlap_without_all_features_train_the_old_model():
    """The next change brings back two of the four features, and two others."""
    driver = Driver()
    driver.learn(60)
    driver.begin(1)
    driver.learn(20)
    union = driver.machine.feedback_schema
    driver.complete()
    driver.begin(3)
    assert not driver.learn(6, union).mapped
    assert 0 == driver.switching.overlap_rows


@pytest.mark.parametrize("space", [0, 1])
@pytest.mark.parametrize("phase", ["overlap", "ensemble"])
@pytest.mark.parametrize("algorithm", ["fesl_c", "fesl_s", "dfop", "rls"])
def test_a_class_may_appear_anywhere(algorithm, phase, space):
    """In a row of either space, in either phase, and in a row that is only scored: all models know it."""
    driver = Driver(algorithm)
    driver.learn(60)
    driver.begin(1)
    driver.learn(10)
    if phase == "ensemble":
        driver.complete()
        driver.learn(10)
    schema = SCHEMAS[0] if space == 0 else driver.machine.feedback_schema
    rows = driver.rows(1, schema)
    outcome = driver.commit(Rows(rows.space, None, rows.X, ["new"], served=None))
    assert 1.0 == outcome.losses[0]
    assert 3 == driver.predict().probabilities.shape[1]
    driver.reborn().learn(20)
    if phase == "overlap":
        driver.complete()
    driver.live(2)
    gone = SCHEMAS[0]
    for classes, label in ((4, "newer"), (5, "newest")):
        late = Rows(gone.id, None, driver.raw(gone, 0, 1), [label], served=driver.served(0))
        assert not driver.commit(late).learned
        driver.reborn().learn(10)
        assert classes == driver.predict().probabilities.shape[1]
        if classes == 4:
            driver.begin(1)
    driver.switching.now.new.add_class()
    with pytest.raises(ValueError, match="classes of the parts differ"):
        driver.reborn()


@pytest.mark.parametrize("mapping", ["linear", "kernel"])
def test_an_overlap_whose_mapping_has_lost_its_rows_is_not_read_back(mapping):
    """It could learn no further row; after the overlap the mapping needs none."""
    driver = Driver()
    driver.learn(30)
    driver.begin(1, mapping)
    driver.reborn().learn(5)
    driver.switching.now.recovery.freeze()
    with pytest.raises(ValueError, match="lacks the rows"):
        driver.reborn()
    driver.complete()
    driver.reborn()


@pytest.mark.parametrize("rows", range(6))
@pytest.mark.parametrize("space", [1, 3])
def test_too_few_overlap_rows_warn_and_rely_on_the_new_model(rows, space):
    """Below five rows, or with a large mapping error; without mapping or kept columns the new model is alone."""
    driver = Driver()
    driver.learn(60)
    if space == 3:
        driver.live(2)
    driver.begin(space)
    driver.learn(rows)
    outcome = driver.complete()
    assert rows == driver.switching.overlap_rows
    weights = driver.weights
    assert (rows < 5 or driver.switching.mapping_error >= 0.8) == (outcome.warning is not None)
    assert (rows < 2 and space == 3) == (list(weights) == ["new"])
    if rows < 5:
        assert weights["new"] >= 0.9
    driver.learn(20)
    driver.reborn().learn(20)


def test_the_switch_is_marked_in_the_metrics_which_go_on():
    """Every step is marked, with the row it came after."""
    driver = Driver()
    driver.learn(60)
    driver.begin(1)
    driver.learn(10)
    driver.abort()
    driver.live(1, after=0)
    marks = [(mark["row"], mark["action"]) for mark in driver.marks if mark["kind"] == "switch"]
    assert [(60, "begin"), (70, "abort"), (70, "begin"), (100, "complete")] == marks
    assert 100 == driver.report["rows"]


@pytest.mark.parametrize("phase", ["overlap", "ensemble", "steady"])
def test_a_reset_keeps_the_prediction_space(phase):
    """The model is steady and has learned nothing, and clients send the same features for predictions."""
    driver = Driver()
    driver.learn(30)
    driver.begin(1)
    driver.learn(10)
    if phase != "overlap":
        driver.complete()
    if phase == "steady":
        driver.begin(2)
        driver.abort()
    space = driver.machine.prediction_schema
    driver.commit(Reset())
    assert ("steady", space, 0) == (driver.machine.phase, driver.machine.prediction_schema, driver.machine.rows)
    driver.reborn().learn(10)
    assert driver.switching.report() is None


# -- refusals


def test_an_impossible_step_is_refused_with_the_change_under_way():
    """The refusal changes nothing."""
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
    """Two clients announce changes; the second was checked against features that are gone."""
    driver = Driver()
    driver.learn(30)
    driver.live(1)
    assert "changed meanwhile" in driver.commit(Switch("begin", SCHEMAS[1].features)).refusal
