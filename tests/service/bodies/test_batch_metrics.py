"""Metrics of the rows of one batch, from what they were answered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.entry import Outcome
from core.features.labels import LabelSet
from core.metrics import classification_batch, regression_batch
from service.api.rows import feedback
from service.runtime.replicas.replica import Reply
from service.runtime.rows.ids import digest, digests_of

LABEL = st.sampled_from(["UP", "DOWN", 0, 1, False, True, ""])


ROW = st.tuples(LABEL | st.none(), LABEL, st.floats(0, 1), st.booleans())


@given(st.lists(ROW, max_size=30))
def test_labels_of_any_kinds_are_counted(rows):
    """0 is not False, no prediction is unscored, and rows that were refused when they came first do not count."""
    predicted, truth, p_true, refused = ([*column] for column in zip(*rows, strict=True)) if rows else ([],) * 4
    predicted = [None if gone else said for said, gone in zip(predicted, refused, strict=True)]
    losses = [None if said is None else float(said != y) for said, y in zip(predicted, truth, strict=True)]
    earlier = [(at, Outcome(refusal="no")) for at, gone in enumerate(refused) if gone]
    reply = Reply(Outcome(len(rows), predicted, losses, True, p_true), earlier=earlier)
    kept = [row for row in rows if not row[3]]
    seen = LabelSetOfAll([label for _, label, *_ in kept] + [name for name, *_ in kept if name is not None])
    said = np.array([-1 if name is None else seen.index(name) for name, *_ in kept], dtype=np.int64)
    true = np.array([seen.index(label) for _, label, *_ in kept], dtype=np.int64)
    found = feedback._metrics(reply, truth)
    assert classification_batch(said, true, np.array([p for _, _, p, _ in kept], dtype=np.float64)) == found
    assert (len(kept), sum(name is None for name, *_ in kept)) == (found["rows"], found["unscored"])


class LabelSetOfAll(LabelSet):
    """Labels of which several may show under one JSON key: a batch may hold them, a model may not."""

    def __init__(self, labels):
        super().__init__()
        self._indices = {}
        for label in labels:
            self._indices.setdefault((type(label), label), len(self._indices))


@pytest.mark.parametrize("refused", [[], [1]])
def test_numbers_are_compared(refused):
    """Rows that were refused when they came first are left out."""
    predicted, truth = [1.0, None if refused else 4.0, 3.0], np.array([2.0, 2.0, 3.0])
    kept = [row for row in range(3) if row not in refused]
    expected = regression_batch(np.array([predicted[row] for row in kept], dtype=np.float64), truth[kept])
    earlier = [(row, Outcome(refusal="no")) for row in refused]
    losses = [None if row in refused else 1.0 for row in range(3)]
    assert expected == feedback._metrics(Reply(Outcome(3, predicted, losses), earlier=earlier), truth)


@given(st.lists(LABEL))
def test_labels_are_digested_by_their_json(labels):
    """Each by itself, whatever stands beside it; False is not 0."""
    texts = {bool: lambda label: str(label).lower(), int: str, str: '"{}"'.format}
    assert tuple(digest(texts[type(label)](label).encode()) for label in labels) == digests_of(labels)
    numbers = np.array([0.5, -0.0, 1e300])
    assert tuple(digest(text.encode()) for text in ("0.5", "-0.0", "1e300")) == digests_of(numbers)
