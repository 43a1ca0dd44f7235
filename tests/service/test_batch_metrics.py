"""Metrics of the rows of one batch, from what they were answered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.features.labels import LabelSet
from core.metrics import classification_batch, regression_batch
from service.api import feedback
from service.api.identity import digest, digests_of
from service.runtime.jobs import Reply
from service.store.codec import FORMAT, Answer

LABEL = st.sampled_from(["UP", "DOWN", 0, 1, False, True, ""])


@given(st.lists(st.tuples(LABEL | st.none(), LABEL, st.sampled_from([None, 0.0, 1.0]), st.floats(0, 1)), max_size=30))
def test_labels_of_any_kinds_are_counted(rows):
    """0 is not False, no prediction is no class, and rows that have no loss do not count."""
    predicted, truth, losses, p_true = ([*column] for column in zip(*rows, strict=True)) if rows else ([],) * 4
    reply = Reply(Answer(FORMAT, 1, len(rows), predicted, losses, True, p_true))
    scored = [row for row in rows if row[2] is not None]
    seen = LabelSetOfAll([label for _, label, _, _ in scored] + [name for name, _, _, _ in scored if name is not None])
    said = np.array([-1 if name is None else seen.index(name) for name, _, _, _ in scored], dtype=np.int64)
    true = np.array([seen.index(label) for _, label, _, _ in scored], dtype=np.int64)
    expected = classification_batch(said, true, np.array([share for *_, share in scored], dtype=np.float64))
    assert expected == feedback._metrics(reply, truth)


class LabelSetOfAll(LabelSet):
    """Labels of which several may show under one JSON key: a batch may hold them, a model may not."""

    def __init__(self, labels):
        super().__init__()
        self._indices = {}
        for label in labels:
            self._indices.setdefault((type(label), label), len(self._indices))


@pytest.mark.parametrize("losses", [[1.0, 4.0, 0.0], [1.0, None, 0.0]])
def test_numbers_are_compared(losses):
    """Rows without a loss are left out."""
    predicted, truth = [1.0, None if None in losses else 4.0, 3.0], np.array([2.0, 2.0, 3.0])
    kept = [row for row, loss in enumerate(losses) if loss is not None]
    expected = regression_batch(np.array([predicted[row] for row in kept], dtype=np.float64), truth[kept])
    assert expected == feedback._metrics(Reply(Answer(FORMAT, 1, 3, predicted, losses)), truth)


@given(st.lists(LABEL))
def test_labels_are_digested_by_their_json(labels):
    """Each by itself, whatever stands beside it; False is not 0."""
    texts = {bool: lambda label: str(label).lower(), int: str, str: '"{}"'.format}
    assert tuple(digest(texts[type(label)](label).encode()) for label in labels) == digests_of(labels)
    numbers = np.array([0.5, -0.0, 1e300])
    assert tuple(digest(text.encode()) for text in ("0.5", "-0.0", "1e+300")) == digests_of(numbers)
