"""A second change of features before it is complete: the experts of the first go on, and an abort keeps them."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tests.core.learners.streams import state
from tests.core.switching.switch_streams import SCHEMAS, Driver, every_case, few

every_mapping = pytest.mark.parametrize("mapping", ["linear", "kernel"])


def switched(algorithm, task, classes, mapping):
    driver = Driver(algorithm, task, classes)
    driver.learn(100)
    driver.live(1, mapping, after=20)
    return driver


@few
@every_case
@every_mapping
def test_an_abort_goes_back_to_the_experts(algorithm, task, classes, mapping):
    """In the overlap and after the abort they answer and learn like those of a twin without the second change."""
    driver, twin = (switched(algorithm, task, classes, mapping) for _ in range(2))
    driver.begin(2, mapping)
    assert ("overlap", SCHEMAS[1]) == (driver.machine.phase, driver.machine.prediction_schema)
    assert twin.switching.report() == driver.switching.report()
    assert twin.learn(15).predictions == driver.learn(15).predictions
    driver.reborn().map(10)
    for one in (driver, twin):
        one.at = 200
        assert one.learn(5, SCHEMAS[0], served=one.served(3)).learned
        assert one.learn(5, SCHEMAS[1]).learned
    assert_array_equal(twin.predict().value, driver.predict().value)
    union = driver.machine.feedback_schema
    assert "ensemble" == driver.abort().phase
    assert state(twin.pipeline) == state(driver.pipeline)
    assert twin.switching.report() == driver.switching.report()
    assert twin.switching.mapping_error == driver.switching.mapping_error
    assert twin.learn(5).predictions == driver.reborn().learn(5, union).predictions
    assert state(twin.pipeline) == state(driver.pipeline)


@few
@every_case
@every_mapping
def test_rows_of_the_first_space_teach_until_the_second_switch_is_complete(algorithm, task, classes, mapping):
    """Tracked rows and rows of the first union; afterwards they are scored as returned, but not learned."""
    driver = Driver(algorithm, task, classes)
    driver.learn(100)
    driver.begin(1, mapping)
    union = driver.machine.feedback_schema
    driver.learn(20)
    told = driver.served(3)
    driver.complete()
    driver.begin(2, mapping)
    driver.learn(20)
    for schema in (SCHEMAS[0], union):
        before = state(driver.pipeline.old)
        assert driver.learn(3, schema, served=told).learned
        assert before != state(driver.pipeline.old)
    driver.complete()
    for schema in (SCHEMAS[0], union):
        assert not driver.learn(1, schema, served=told).learned
        assert driver.learn(1, schema).refusal is not None


def test_the_next_change_retires_the_space_of_an_aborted_one():
    """Its rows are learned until then; afterwards tracked ones are scored as returned, others are refused."""
    for driver in (Driver("dfop"), switched("dfop", "classification", 2, "linear")):
        driver.learn(20)
        told = driver.served(3)
        driver.begin(2)
        union = driver.machine.feedback_schema
        driver.abort()
        assert driver.learn(3, union, served=told).learned
        driver.begin(3)
        late = driver.reborn().learn(1, union, served=told)
        assert (False, [told.prediction]) == (late.learned, late.predictions)
        assert driver.learn(1, union).refusal is not None


@pytest.mark.parametrize("mapping", ["linear", "kernel"])
@pytest.mark.parametrize("algorithm", ["fesl_c", "dfop", "vigo"])
@pytest.mark.parametrize("kept", ["recovered", "new"])
def test_the_recovery_serves_whichever_expert_is_kept(algorithm, mapping, kept):
    """It recovers its columns from the newest space, as if nothing else had ever been learned."""
    driver = switched(algorithm, "classification", 2, mapping)
    driver.begin(2, mapping)
    driver.learn(60)
    experts, recovery = driver.pipeline.old, driver.pipeline.recovery
    experts.mixture.weights = np.array([float(name == kept) for name in experts.experts])
    recovery.freeze()
    X = driver.raw(SCHEMAS[2], 0, 20)
    encoded = driver.pipeline.new.encoder.encode(X)
    everything = dict(zip(recovery.targets, recovery.recover(encoded).T, strict=True))
    driver.complete()
    front = driver.pipeline.recovery
    expected = np.array([everything[name] for name in front.targets]).T
    assert_array_equal(expected, front.recover(encoded))
    columns = SCHEMAS[0].columns if kept == "recovered" else SCHEMAS[1].columns
    assert columns == front.targets
    driver.reborn().live(3, mapping)
