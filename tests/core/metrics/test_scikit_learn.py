"""Metrics of a classifier compared with scikit-learn on the same rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import metrics as theirs

from core.metrics import ClassificationMetrics
from core.metrics.class_kernels import facts_of
from tests.core.metrics.prequential_oracle import score_bin

PRIORS = {2: [0.95, 0.05], 4: [0.5, 0.3, 0.15, 0.05]}
ROWS = 3000


@pytest.fixture(params=PRIORS, scope="module")
def rows(request):
    """Labels, probabilities and the report of the metrics."""
    K, rng = request.param, np.random.default_rng(1)
    y = rng.choice(K, ROWS, p=PRIORS[K])
    P = np.exp(1.5 * rng.normal(size=(ROWS, K)) + 2.0 * (y[:, None] == np.arange(K)) + np.log(PRIORS[K]))
    P /= P.sum(axis=1, keepdims=True)
    metrics = ClassificationMetrics()
    metrics.absorb(P.argmax(axis=1), y, facts_of(P, P.argmax(axis=1), y), K)
    return y, P, metrics.report()


def spans(rows):
    """Name, report, labels, probabilities and weights of each span."""
    y, P, report = rows
    yield "overall", report["overall"], y, P, np.ones(ROWS)
    yield "window", report["window"], y[-1000:], P[-1000:], np.ones(1000)
    yield "fading", report["fading"], y, P, 0.999 ** np.arange(ROWS)[::-1]


def test_classes_are_scored_like_scikit_learn(rows):
    """Precision, recall, F1, support and confusion of each class; fading counts are rounded to three digits."""
    for _, found, y, P, w in spans(rows):
        said = P.argmax(axis=1)
        expected = theirs.precision_recall_fscore_support(y, said, sample_weight=w)
        own = [[one[name] for one in found["per_class"].values()] for name in ("precision", "recall", "f1", "support")]
        assert_allclose(expected, own, atol=6e-4)
        assert_allclose(theirs.confusion_matrix(y, said, sample_weight=w), found["confusion"]["counts"], atol=6e-4)


def test_the_ranking_is_exact_to_its_bins(rows):
    """ROC AUC and average precision equal scikit-learn's for binned scores, and are close to those without bins."""
    if rows[1].shape[1] != 2:
        assert "roc_auc" not in rows[2]["overall"]
        return
    for name, found, y, P, w in spans(rows):
        bins = [score_bin(p) for p in P[:, 1]]
        areas = {"roc_auc": theirs.roc_auc_score, "average_precision": theirs.average_precision_score}
        for area, of in areas.items():
            assert of(y, bins, sample_weight=w) == pytest.approx(found[area]), name
            assert of(y, P[:, 1], sample_weight=w) == pytest.approx(found[area], abs=0.01), name
