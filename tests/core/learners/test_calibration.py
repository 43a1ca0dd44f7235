"""Probabilities from scores: the learned slope, and what it must never change."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from core.learners.calibration import CALIBRATION, classify_rows, fresh_calibration
from core.state.layout import Layout
from tests.core.learners.streams import relative

LAYOUT = Layout(slope=CALIBRATION)
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


def literal(scores, y, weights):
    """The equations of core.learners.calibration, row by row, with a column per class."""
    a, H, L, m, told = 1.0, 1.0, 0.25, 0.0, []
    for s, label, weight in zip(scores, y, relative(weights), strict=True):
        p = np.exp(a * s - (a * s).max())
        p = (1 - len(s) * 1e-6) * p / p.sum() + 1e-6
        told.append(p)
        c, t = np.clip(s, -2, 2), np.arange(len(s)) == label
        L = min(L + weight * p[0] * p[1], 250.0)
        m += weight * p[0] * p[1] * (c[1] - c[0] - m) / L
        H = min(H + weight * max((p * c * c).sum() - (p * c).sum() ** 2, 0.0), 50.0 + L * m**4 / 4)
        a = np.clip(a + weight * ((t * c).sum() - (p * c).sum()) / H, 0.05, 25)
    return np.array(told), a, H, L, m


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_probabilities_match_the_literal_equations(classes):
    """A-priori probabilities and all numbers of the calibration agree with the equations."""
    rng = np.random.default_rng(classes)
    scores, y = rng.normal(size=(3000, classes)), rng.integers(0, classes, 3000)
    scores[:, 0] += 1
    scores[np.arange(3000), y] += 1
    weights, calibration = rng.uniform(0.1, 2.0, 3000), fresh_calibration()
    weights[2899] = 3.0
    expected, a, H, L, m = literal(scores, y, weights)
    value, p = classify_and_fit(scores, y.astype(float), classes, calibration, weights)
    assert_allclose(expected, p, rtol=1e-9)
    assert_allclose([a, H, 3.0 * 0.999**100, L, m], calibration, rtol=1e-9)
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


def area(p, y):
    """The area under the ROC curve of p without ties."""
    ranks = p.argsort().argsort() + 1.0
    return (ranks[y == 1].mean() - (y.sum() + 1) / 2) / (y == 0).sum()


@pytest.mark.parametrize(("rare", "lost"), [(0.01, 0.08), (0.03, 0.02)])
def test_probabilities_of_a_rare_class_rank_rows_of_different_times(rare, lost):
    """As least squares scores them: near -1, where the slope sets the level of all probabilities."""
    rng = np.random.default_rng(0)
    share = rare * rng.gamma(0.5, 2.0, 20_000)
    y = (rng.random(20_000) < share).astype(float)
    _, p = classify_and_fit(2 * share[:, None] - 1, y, 2, fresh_calibration(), NO_WEIGHTS)
    assert area(p[:, 1], y) > area(share, y) - lost


def test_with_equally_frequent_classes_the_slope_follows_a_change_soon():
    """It forgets as quickly as where no level has to be kept: within some hundred rows."""
    rng, found = np.random.default_rng(0), fresh_calibration()
    s = rng.normal(size=6000)
    steep = np.repeat([3.0, 0.3], [5000, 1000])
    y = (rng.random(6000) < 1 / (1 + np.exp(-2 * steep * s))).astype(float)
    classify_and_fit(s[:, None], y, 2, found, NO_WEIGHTS)
    assert found[0] < 0.6


@settings(max_examples=100, deadline=None)
@given(WILD, SLOPES)
def test_the_value_is_the_most_probable_class(scores, slope):
    """For any scores the probabilities sum to one, and the class with the largest score is among the most probable."""
    value, p = classify(scores, 4, np.array([slope, 4.0, 0.0, 1.0, 0.0]))
    assert_allclose(np.ones(3), p.sum(axis=1))
    assert_array_equal(p.argmax(axis=1), value)
    assert_array_equal(p.max(axis=1), np.take_along_axis(p, scores.argmax(axis=1)[:, None], axis=1)[:, 0])
    assert (p > 0).all()


@settings(max_examples=100, deadline=None)
@given(WILD, st.lists(st.integers(0, 3), min_size=3, max_size=3), SLOPES, st.sampled_from([1e-3, 4.0, 400.0]))
def test_no_score_spoils_the_calibration(scores, y, slope, curvature):
    """Slope and curvature stay within the bounds of a state."""
    calibration = np.array([slope, curvature, 0.0, 0.25, 0.0])
    classify_and_fit(np.tile(scores, (50, 1)), np.tile(y, 50).astype(float), 4, calibration, NO_WEIGHTS)
    LAYOUT.read({"slope": calibration})
