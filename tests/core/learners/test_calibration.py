"""Probabilities from scores: the learned slope, and what it must never change."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from core.learners.calibration import CALIBRATION, SLOPE, classify_rows, fresh_calibration
from core.state.layout import Layout

LAYOUT = Layout({"slope": CALIBRATION})
WILD = arrays(np.float64, (3, 4), elements=st.floats(-1e300, 1e300))
NO_WEIGHTS = np.empty(0)
SLOPES = st.sampled_from([0.05, 1.0, 25.0])


def classify_and_fit(scores, y, classes, calibration, weights):
    """Classes and probabilities of labelled rows, each predicted before it moves the slope."""
    value, p = np.empty(len(scores), np.int64), np.empty((len(scores), classes))
    classify_rows(scores, y, weights, calibration, value, p)
    return value, p


def classify(scores, classes, calibration):
    """The same for rows without labels."""
    return classify_and_fit(scores, NO_WEIGHTS, classes, calibration, NO_WEIGHTS)


def literal(scores, y):
    """The equations of core.learners.calibration, row by row, with a column per class."""
    a, H, told = 1.0, 1.0, []
    for s, label in zip(scores, y, strict=True):
        p = np.exp(a * s - (a * s).max())
        p = (1 - len(s) * 1e-6) * p / p.sum() + 1e-6
        told.append(p)
        c, t = np.clip(s, -2, 2), np.arange(len(s)) == label
        H = min(H + max((p * c * c).sum() - (p * c).sum() ** 2, 0.0), 50.0)
        a = np.clip(a + ((t * c).sum() - (p * c).sum()) / H, 0.05, 25)
    return np.array(told), a, H


@pytest.mark.parametrize("classes", [3, 7])
def test_probabilities_match_the_literal_equations(classes):
    """A-priori probabilities, slope and curvature agree with the equations."""
    rng = np.random.default_rng(classes)
    scores, y = rng.normal(size=(500, classes)), rng.integers(0, classes, 500)
    scores[np.arange(500), y] += 1
    calibration = fresh_calibration()
    expected, a, H = literal(scores, y)
    value, p = classify_and_fit(scores, y.astype(float), classes, calibration, NO_WEIGHTS)
    assert_allclose(expected, p, rtol=1e-9)
    assert_allclose([a, H], calibration, rtol=1e-9)
    assert_array_equal(scores.argmax(axis=1), value)


def test_two_classes_are_two_mirrored_columns():
    """A single column s stands for the scores -s and s."""
    s = np.random.default_rng(0).normal(size=(300, 1))
    y = (s[:, 0] + np.random.default_rng(1).normal(size=300) > 0).astype(float)
    one, two = fresh_calibration(), fresh_calibration()
    expected = classify_and_fit(np.hstack([-s, s]), y, 2, two, NO_WEIGHTS)
    actual = classify_and_fit(s, y, 2, one, NO_WEIGHTS)
    assert_array_equal(expected[0], actual[0])
    assert_array_equal(expected[1], actual[1])
    assert_array_equal(two, one)


def test_the_slope_of_gaussian_classes_is_found():
    """Scores of +-m + noise of deviation d have the exact log odds 2 m s / d^2, so a = m / d^2."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 20_000)
    s = (0.6 * (2 * y - 1) + 0.4 * rng.normal(size=20_000))[:, None]
    calibration, slopes = fresh_calibration(), []
    for begin in range(0, 20_000, 100):
        classify_and_fit(s[begin : begin + 100], y[begin : begin + 100].astype(float), 2, calibration, NO_WEIGHTS)
        slopes.append(calibration[SLOPE])
    assert_allclose(0.6 / 0.4**2, np.median(slopes[10:]), rtol=0.1)


@settings(max_examples=100, deadline=None)
@given(WILD, SLOPES)
def test_the_value_is_the_most_probable_class(scores, slope):
    """For any scores the probabilities sum to one, and the class with the largest score is among the most probable."""
    value, p = classify(scores, 4, np.array([slope, 4.0]))
    assert_allclose(np.ones(3), p.sum(axis=1))
    assert_array_equal(p.argmax(axis=1), value)
    assert_array_equal(p.max(axis=1), np.take_along_axis(p, scores.argmax(axis=1)[:, None], axis=1)[:, 0])
    assert (p > 0).all()


@settings(max_examples=100, deadline=None)
@given(WILD, st.lists(st.integers(0, 3), min_size=3, max_size=3), SLOPES, st.sampled_from([1e-3, 4.0, 400.0]))
def test_no_score_spoils_the_calibration(scores, y, slope, curvature):
    """Slope and curvature stay within the bounds of a state."""
    calibration = np.array([slope, curvature])
    classify_and_fit(np.tile(scores, (50, 1)), np.tile(y, 50).astype(float), 4, calibration, NO_WEIGHTS)
    LAYOUT.read({"slope": calibration})


def test_two_sure_columns_do_not_tie():
    """Scores beyond the targets still decide which class is more certain."""
    value, _ = classify(np.array([[1.2, 1.5, -2.0], [-3.0, -2.0, -4.0]]), 3, fresh_calibration())
    assert_array_equal([1, 1], value)


@pytest.mark.parametrize("bad", [np.zeros(3), np.zeros(2), np.array([np.nan, 4.0]), np.array([1, 4])])
def test_an_impossible_calibration_is_refused(bad):
    """Another shape, another type or values out of range."""
    with pytest.raises(ValueError):
        LAYOUT.read({"slope": bad})
