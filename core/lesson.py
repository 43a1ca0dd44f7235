"""Test, then train: rows with labels as values go through a pipeline; what comes out is scored.

A class is cut out where it appears for the first time: its own row is tested without it.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from core.entry import Told
from core.labels import Label, LabelSet
from core.model import Floats, Prediction
from core.scored import Scored, joined, of_classes


class Taught(Protocol):
    """What reads and learns rows of one space: ``core.switch.Course``, a pipeline."""

    def absorb(self, raw: Floats) -> Floats:
        """Encode raw rows (n, F) that are about to be learned: X (n, D)."""

    def learn(self, X: Floats, truth: NDArray[Any], discounts: Floats | None) -> Prediction:
        """Test then train on rows as ``absorb`` gave them."""

    def learn_new_class(self, X: Floats, truth: NDArray[Any], discounts: Floats | None) -> Prediction:
        """Test then train on one row of a class that nobody has seen."""


def learn_numbers(pipeline: Taught, raw: Floats, truth: Floats, discounts: Floats | None) -> Scored:
    """Regression rows (n, F) and their numbers (n,), in order."""
    X = pipeline.absorb(raw)
    return Scored(pipeline.learn(X, truth, discounts).value, truth, np.empty(0))


def learn_classes(
    pipeline: Taught, seen: LabelSet, raw: Floats, labels: Sequence[Label], discounts: Floats | None
) -> Scored:
    """Classification rows (n, F) and their labels, in order; labels not seen before join ``seen``."""
    parts: list[Scored] = []
    truth = seen.indices(labels)
    start = 0
    while start < len(raw):
        unseen = np.flatnonzero(truth[start:] < 0)
        stop = start + int(unseen[0]) if len(unseen) else len(raw)
        new = stop == start
        if new:
            stop += 1
            truth[start] = seen.add(labels[start])
            truth[stop:] = seen.indices(labels[stop:])
        chunk = slice(start, stop)
        given = None if discounts is None else discounts[chunk]
        X = pipeline.absorb(raw[chunk])
        if new:
            told = pipeline.learn_new_class(X, truth[chunk], given)
            parts.append(Scored(told.value, truth[chunk], np.array([np.nan])))
        else:
            parts.append(of_classes(pipeline.learn(X, truth[chunk], given), truth[chunk]))
        start = stop
    return parts[0] if len(parts) == 1 else joined(parts)


def only_told(truth: NDArray[Any]) -> Scored:
    """Rows that nothing can be said of any more, with their numbers or class indices (n,): for ``as_told``."""
    if truth.dtype == np.float64:
        return Scored(np.zeros(len(truth)), truth, np.empty(0))
    return Scored(np.full(len(truth), -1, dtype=np.int64), truth, np.full(len(truth), np.nan))


def as_told(scored: Scored, told: Sequence[Told | None], seen: LabelSet | None) -> Scored:
    """Tracked rows scored by what the client was really told.

    Args:
        scored: what the model says of the rows.
        told: one per row, None for rows that were not tracked.
        seen: the classes seen, None for regression.
    """
    predicted, p_true = scored.predicted.copy(), scored.p_true.copy()
    for row, answer in enumerate(told):
        if answer is None:
            continue
        if seen is None:
            predicted[row] = answer.prediction
            continue
        predicted[row] = -1 if answer.prediction is None else seen.index(answer.prediction)  # type: ignore[arg-type]
        shares = {seen.index(label): share for label, share in answer.probabilities or ()}
        p_true[row] = shares.get(int(scored.truth[row]), np.nan)
    return Scored(predicted, scored.truth, p_true)
