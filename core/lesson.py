"""Test, then train: rows with labels as values go through a pipeline; what comes out is watched, then scored.

A class is cut out where it appears for the first time: its own row is tested without it. Where the model acts on
drift, rows are also cut where a drift can be found.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.entry import Told
from core.labels import Label, LabelSet
from core.lookout import Lookout
from core.model import Floats, Prediction
from core.pipeline import Pipeline
from core.scored import Scored, joined, of_classes


class Lesson(NamedTuple):
    """Rows to learn, in order, by the same pipeline under the same watch.

    Attributes:
        raw: (n, F) rows.
        discounts: (n,) or None.
        row: rows the model had learned before them.
    """

    raw: Floats
    discounts: Floats | None
    row: int

    def learn(self, pipeline: Pipeline, lookout: Lookout, part: slice, truth: NDArray[Any], new: bool) -> Prediction:
        """Test then train on a part of the rows; what the model says of them is shown to the watch."""
        given = None if self.discounts is None else self.discounts[part]
        X = pipeline.absorb(self.raw[part])
        told = (pipeline.learn_new_class if new else pipeline.learn)(X, truth, given)
        lookout.after(pipeline, X, truth, told.value, self.row + part.start)
        return told


def learn_numbers(pipeline: Pipeline, lookout: Lookout, lesson: Lesson, truth: Floats) -> Scored:
    """Regression rows and their numbers (n,), in order."""
    parts: list[Scored] = []
    start, classes = 0, np.zeros(len(truth), dtype=np.int64)
    while start < len(truth) or not parts:
        stop = start + lookout.reach(classes[start:])
        part = slice(start, stop)
        told = lesson.learn(pipeline, lookout, part, truth[part], new=False)
        parts.append(Scored(told.value, truth[part], np.empty(0)))
        start = stop
    return parts[0] if len(parts) == 1 else joined(parts)


def learn_classes(
    pipeline: Pipeline, lookout: Lookout, seen: LabelSet, lesson: Lesson, labels: Sequence[Label]
) -> Scored:
    """Classification rows and their labels, in order; labels not seen before join ``seen``."""
    parts: list[Scored] = []
    truth = seen.indices(labels)
    start = 0
    while start < len(truth):
        unseen = np.flatnonzero(truth[start:] < 0)
        stop = start + int(unseen[0]) if len(unseen) else len(truth)
        new = stop == start
        if new:
            stop += 1
            truth[start] = seen.add(labels[start])
            truth[stop:] = seen.indices(labels[stop:])
            lookout.add_class()
        else:
            stop = start + lookout.reach(truth[start:stop])
        part = slice(start, stop)
        told = lesson.learn(pipeline, lookout, part, truth[part], new)
        scored = Scored(told.value, truth[part], np.array([np.nan])) if new else of_classes(told, truth[part])
        parts.append(scored)
        start = stop
    return parts[0] if len(parts) == 1 else joined(parts)


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
