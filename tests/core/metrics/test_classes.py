"""Scores of rows and of classes, by definition and by scikit-learn; bounded, however many classes there are."""

import json
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import metrics as theirs

from core.metrics import ClassificationMetrics
from core.metrics.class_kernels import BRIER, CONFIDENCE, GONE, LOSS, NOTHING, P_TRUE, SCORE, facts_of
from core.metrics.regression import squared_errors
from tests.core.metrics.prequential_oracle import classes_of, fed, random_classes

SPANS = ("overall", "window", "fading")


def test_an_undefined_score_of_a_class_is_none():
    """Recall without rows, precision without predictions, F1 without either."""
    report = fed(ClassificationMetrics(1000, 0.999), classes_of([(0, 0, 0.9), (0, 1, 0.1)]), [], 3).report()
    expected = {
        "0": {"support": 1, "precision": 0.5, "recall": 1.0, "f1": 2 / 3},
        "1": {"support": 1, "precision": None, "recall": 0.0, "f1": 0.0},
        "2": {"support": 0, "precision": None, "recall": None, "f1": None},
    }
    assert expected == report["overall"]["per_class"] == report["window"]["per_class"]


def test_reliability_compares_probabilities_with_right_rows():
    """Rows grouped by the predicted class's probability: its mean and the share of right rows; no empty bins."""
    rows = [(0, 0, 0.91)] * 8 + [(0, 1, 0.03)] * 2 + [(1, 1, 0.55)] * 3
    for span in ("overall", "window"):
        found = fed(ClassificationMetrics(1000, 0.999), classes_of(rows), [], 2).report()[span]
        assert [(3, 1.0), (10, 0.8)] == [(one["rows"], one["share"]) for one in found["reliability"]]
        assert [0.55, (8 * 0.91 + 2 * 0.97) / 10] == pytest.approx([one["mean"] for one in found["reliability"]])
        assert (3 * 0.45 + abs(8 - 8 * 0.91 - 2 * 0.97)) / 13 == pytest.approx(found["ece"])


def test_only_two_classes_have_a_ranking():
    """With one class or three there is no second class to find."""
    for classes, there in ((1, False), (2, True), (3, False)):
        report = fed(ClassificationMetrics(1000, 0.999), classes_of([(0, 0, 0.9)] * 5), [], classes).report()
        assert [there] * 3 == ["roc_auc" in report[span] for span in SPANS]
        assert [there] * 3 == ["average_precision" in report[span] for span in SPANS]
        assert not there or report["overall"]["roc_auc"] is None  # no row of the second class


def test_scores_start_before_the_second_class_is_known():
    """Until then rows of the first class have the lowest score: no other class was known."""
    metrics = ClassificationMetrics(1000, 0.999)
    metrics.absorb(*classes_of([(0, 0, 1.0)] * 3), 1)
    predicted, truth, facts = classes_of([(1, 1, 0.7), (1, 0, 0.4)])
    facts[SCORE] = [0.7, 0.6]
    metrics.absorb(predicted, truth, facts, 2)
    assert 1.0 == metrics.report()["overall"]["roc_auc"]


# -- many classes


def many(n, K, seed=0):
    """Rows of a guesser; later classes are more frequent."""
    rng = np.random.default_rng(seed)
    truth = (K * rng.random(n) ** 0.3).astype(np.int64)
    predicted = np.where(rng.random(n) < 0.5, truth, rng.integers(0, K, n))
    rows = list(zip(predicted.tolist(), truth.tolist(), rng.random(n).tolist(), strict=True))
    return classes_of(rows)


def test_of_many_classes_the_most_frequent_are_shown():
    """Fifty and "other": no hidden class is more than twice as frequent as a shown one."""
    arrays = many(30_000, 200)
    report = fed(ClassificationMetrics(1000, 0.999), arrays, [], 200).report()
    found = report["overall"]["confusion"]
    assert (51, "other") == (len(found["labels"]), found["labels"][-1])
    named = fed(ClassificationMetrics(1000, 0.999), arrays, [], 200).report(
        ["other", *range(1, 200)], ["other", *map(str, range(1, 200))]
    )
    assert "other'" == named["overall"]["confusion"]["labels"][-1]
    frequency = np.bincount(arrays[1], minlength=200)
    shown = found["labels"][:-1]
    left = np.delete(frequency, shown)
    assert left.max() <= 2 * frequency[shown].min()
    assert 30_000 == sum(map(sum, found["counts"]))
    assert [str(k) for k in shown] == list(report["overall"]["per_class"])
    assert frequency[shown].tolist() == [one["support"] for one in report["overall"]["per_class"].values()]


def test_scores_count_all_classes_whether_shown_or_not():
    """Accuracy, balanced accuracy and kappa equal those computed from all rows."""
    predicted, truth, facts = many(5_000, 120)
    overall = fed(ClassificationMetrics(1000, 0.999), (predicted, truth, facts), [], 120).report()["overall"]
    recalls = [(predicted[truth == k] == k).mean() for k in range(120) if (truth == k).any()]
    assert np.mean(recalls) == pytest.approx(overall["balanced_accuracy"])
    p0 = (predicted == truth).mean()
    pe = np.bincount(truth, minlength=120) / 5_000 @ (np.bincount(predicted, minlength=120) / 5_000)
    assert (p0, (p0 - pe) / (1 - pe)) == pytest.approx((overall["accuracy"], overall["kappa"]))


@pytest.mark.parametrize("classes", [100, 1000])
def test_answers_and_memory_are_bounded(classes):
    """Whatever the number of classes, a report fits into 150 KB and the state into 300 KB."""
    metrics = fed(ClassificationMetrics(1000, 0.999), many(20_000, classes), [], classes)
    assert 150_000 > len(json.dumps(metrics.report()))
    assert 300_000 > metrics.nbytes


def test_the_memory_of_an_idle_model_is_small():
    """Two classes take some KB, mostly for the ranking; more classes take less, and none take little."""
    assert 2500 > ClassificationMetrics(1000, 0.999).nbytes
    for classes, most in ((2, 16_000), (3, 4_000)):
        assert most > fed(ClassificationMetrics(1000, 0.999), random_classes(5, 2), [], classes).nbytes


def test_rows_without_probabilities_have_neither_reliability_nor_ranking():
    """A learner without probabilities is scored by its predicted classes alone."""
    predicted, truth, facts = random_classes(50, 2)
    facts[P_TRUE:] = math.nan
    for span in SPANS:
        found = fed(ClassificationMetrics(1000, 0.999), (predicted, truth, facts), [], 2).report()[span]
        none = ("log_loss", "brier", "ece", "roc_auc", "average_precision")
        assert dict.fromkeys(none) == {name: found[name] for name in none}
        assert [] == found["reliability"]
        assert found["accuracy"] is not None


# -- single rows


def test_squared_errors_are_capped_without_a_warning():
    """Differences that overflow, or whose square does, count as 1e300; small ones are exact."""
    big = np.finfo(float).max
    predicted, truth = np.array([big, 1e200, 3.0, 1e-200]), np.array([-big, 0.0, 1.0, 0.0])
    with np.errstate(all="raise"):
        assert_array_equal([1e300, 1e300, 4.0, 0.0], squared_errors(predicted, truth))


@pytest.mark.parametrize(
    ("shares", "said", "truth", "expected"),
    [
        ([0.2, 0.8], 1, 1, [0.0, 0.8, 2 * 0.2**2, 0.8, 0.8]),
        ([0.7, 0.3], 0, 1, [1.0, 0.3, 2 * 0.7**2, 0.7, 0.3]),
        ([0.9], 0, 0, [0.0, 0.9, 2 * 0.1**2, 0.9, 0.1]),  # the rest belongs to a label that is not known yet
        ([0.2, 0.5, 0.3], 2, 0, [1.0, 0.2, 0.8**2 + 0.5**2 + 0.3**2, 0.3, 0.5]),
        ([0.2, 0.8], NOTHING, 1, [math.nan] * 5),
        ([0.2, 0.8], GONE, 1, [1.0, 0.8, 2 * 0.2**2, math.nan, 0.8]),  # a retired label was a prediction: an error
    ],
)
def test_the_facts_of_a_row_match_their_definitions(shares, said, truth, expected):
    """Loss, probability of the truth, Brier score, probability of the predicted class, score of the second class."""
    rows = np.array([shares])
    rows.flags.writeable = False  # read-only rows are accepted
    facts = facts_of(rows, np.array([said]), np.array([truth]))[[LOSS, P_TRUE, BRIER, CONFIDENCE, SCORE], 0]
    assert expected == pytest.approx(facts.tolist(), rel=1e-14, nan_ok=True)


@pytest.mark.parametrize(("said", "truth"), [(2, 0), (0, -1), (0, 2)])
def test_a_class_without_a_probability_is_refused(said, truth):
    """Probabilities out of range are never read."""
    with pytest.raises(IndexError, match="without a probability"):
        facts_of(np.array([[0.2, 0.8]]), np.array([said]), np.array([truth]))


@pytest.mark.parametrize("priors", [[0.95, 0.05], [0.5, 0.3, 0.15, 0.05]])
def test_classes_are_scored_like_scikit_learn(priors):
    """Precision, recall, F1, support and confusion of each class; fading counts are rounded to three digits."""
    K, rng = len(priors), np.random.default_rng(1)
    y = rng.choice(K, 3000, p=priors)
    P = np.exp(1.5 * rng.normal(size=(3000, K)) + 2.0 * (y[:, None] == np.arange(K)) + np.log(priors))
    P, said = P / P.sum(axis=1, keepdims=True), P.argmax(axis=1)
    report = fed(ClassificationMetrics(1000, 0.999), (said, y, facts_of(P, said, y)), [], K).report()
    weights = np.ones(3000), np.arange(3000) >= 2000, 0.999 ** np.arange(3000)[::-1]
    for found, w in zip((report[span] for span in SPANS), weights, strict=True):
        expected = theirs.precision_recall_fscore_support(y, said, sample_weight=w)
        own = [[one[name] for one in found["per_class"].values()] for name in ("precision", "recall", "f1", "support")]
        assert_allclose(expected, own, atol=6e-4)
        assert_allclose(theirs.confusion_matrix(y, said, sample_weight=w), found["confusion"]["counts"], atol=6e-4)
