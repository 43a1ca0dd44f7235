"""Intervals as part of a model's state: before every row, in every phase, through drift, reset and restore."""

import numpy as np
import pytest

from core.learners.catalogue import ALGORITHMS
from core.model import read, save
from tests.core.switching.switch_streams import Driver

REGRESSIONS = sorted(
    name for name, algorithm in ALGORITHMS.items() if "regression" in algorithm.tasks and not algorithm.sparse
)
LEVEL = 0.8
every_learner = pytest.mark.parametrize("algorithm", REGRESSIONS)


def interval(driver, row=0):
    """The interval around a row of the stream; None without one."""
    machine = driver.machine
    prediction = read.predict(machine.own, driver.raw(machine.prediction_schema, row, row + 1))
    bounds = read.intervals_of(machine.own, prediction, LEVEL)
    return None if bounds is None else tuple(bounds[0])


def covering(driver, rows):
    """Learn rows one by one; return whether the interval read before each covered it."""
    hits = []
    for _ in range(rows):
        low, high = interval(driver, driver.at)
        hits.append(low <= driver.labels[driver.at] <= high)
        assert driver.learn(1).refusal is None
    return hits


@every_learner
def test_intervals_go_on_in_every_phase(algorithm):
    """Coverage counts the intervals as read before each row: steady, overlap, ensemble, after an abort."""
    driver = Driver(algorithm, "regression", rows=900)
    assert None is interval(driver)
    driver.learn(60)
    before = driver.machine.own.answers.intervals.levels[1].copy()
    hits = []
    for step in (lambda: None, lambda: driver.begin(1), driver.complete, lambda: driver.begin(2), driver.abort):
        step()
        hits += covering(driver, 40)
    told, covered = (driver.machine.own.answers.intervals.levels[1] - before)[1:3]
    assert 200 == told
    # An algorithm that draws an expert for each row learns another prediction than predict shows.
    assert driver.machine.config.algorithm.selects or sum(hits) == covered
    assert driver.machine.rows == driver.machine.own.answers.intervals.rows == 260
    assert save.to_bytes(driver.machine) == save.to_bytes(driver.reborn().machine)


def test_a_drift_that_resets_the_learner_leaves_the_residuals():
    """Intervals follow the predictions of any learner; they widen by the residuals of the new learner's first rows."""
    config = {"watch": {"error_rate": {"batch_size": 40}}, "on_drift": "reset"}
    driver = Driver("rls", "regression", rows=1200, **config)
    driver.labels = np.where(np.arange(1200) < 600, driver.labels, -20.0 * driver.labels)
    driver.learn(600)
    driver.learn(300)
    assert "drift" in [mark["kind"] for mark in driver.report["marks"]]
    assert 900 == driver.machine.own.answers.intervals.rows
    assert driver.report["window"]["coverage"]["0.9"] > 0.8


def test_tracked_rows_are_covered_as_served():
    """A late label counts for the interval of its prediction; its residual is relative to that prediction."""
    driver = Driver("rls", "regression")
    driver.learn(60)
    served = [driver.served(row) for row in range(100, 140)]
    assert [5] * 40 == [len(one.interval) for one in served]
    driver.at = 200
    driver.learn(100)
    before = driver.machine.own.answers.intervals.levels.copy()
    driver.at = 100
    for one in served:
        driver.learn(1, served=one)
    truth = driver.labels[100:140]
    covered = [one.interval[1][0] <= came <= one.interval[1][1] for one, came in zip(served, truth, strict=True)]
    told, hits = (driver.machine.own.answers.intervals.levels - before)[1, 1:3]
    assert (40, sum(covered)) == (told, hits)
    residuals = [came - one.prediction for one, came in zip(served, truth, strict=True)]
    assert residuals == driver.machine.own.answers.intervals.residuals[160:200].tolist()


def test_tracked_and_untracked_rows_of_one_entry_are_kept_apart():
    """Learned in one entry they leave the same state as in separate entries."""
    one, together = Driver("rls", "regression"), Driver("rls", "regression")
    for driver in (one, together):
        driver.learn(60)
    served = one.served(5)
    segments = [together.rows(2), together.rows(1, served=served), together.rows(3)]
    for segment in segments:
        one.apply(segment)
    together.apply(*segments)
    assert save.to_bytes(one.machine) == save.to_bytes(together.machine)


def test_a_classification_has_none():
    """There are no intervals in its state and no coverage in its report."""
    driver = Driver("dfop", "classification")
    driver.learn(60)
    assert not hasattr(driver.machine.own.answers, "intervals")
    assert "intervals" not in driver.machine.own.parts()
    assert "coverage" not in driver.report["overall"]
