"""Test, then train: rows with labels as values go through a pipeline; what comes out is watched, then scored.

A class is cut out where it appears for the first time: its own row is tested without it. Where the model acts on
drift, rows are also cut where a drift can be found.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Ints, Prediction
from core.entry import Told
from core.features.labels import Label, LabelSet
from core.machine.drift_response import Lookout
from core.metrics.scored import Scored, joined, of_classes
from core.switching.phases import Course


class Lesson(NamedTuple):
    """Rows to learn, in order, of one space under one watch.

    Attributes:
        course: how rows of the space are read, and whom they teach.
        lookout: the watch.
        raw: (n, F) rows.
        discounts: (n,) or None.
        row: rows the model had learned before them.
    """

    course: Course
    lookout: Lookout
    raw: Floats
    discounts: Floats | None
    row: int

    def learn(self, part: slice, truth: NDArray[Any], new: bool) -> Prediction:
        """Test then train on a part of the rows; what the model says of them is shown to the watch."""
        given = None if self.discounts is None else self.discounts[part]
        course, X = self.course, self.course.absorb(self.raw[part])
        told = (course.learn_new_class if new else course.learn)(X, truth, given)
        if course.watched:
            shown = course.teaches.watched(X)
            self.lookout.after(course.teaches, shown, truth, told.value, self.row + part.start)
        else:
            course.teaches.take_alarms()
        return told

    def reach(self, classes: Ints) -> int:
        """How many of the next rows, of these classes (n,), may be learned at once."""
        return self.lookout.reach(classes) if self.course.watched else len(classes)


def learn_numbers(lesson: Lesson, truth: Floats) -> Scored:
    """Regression rows and their numbers (n,), in order."""
    parts: list[Scored] = []
    start, classes = 0, np.zeros(len(truth), dtype=np.int64)
    while start < len(truth) or not parts:
        stop = start + lesson.reach(classes[start:])
        part = slice(start, stop)
        told = lesson.learn(part, truth[part], new=False)
        parts.append(Scored(told.value, truth[part], np.empty(0)))
        start = stop
    return parts[0] if len(parts) == 1 else joined(parts)


def learn_classes(lesson: Lesson, seen: LabelSet, labels: Sequence[Label]) -> Scored:
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
            lesson.lookout.add_class()
        else:
            stop = start + lesson.reach(truth[start:stop])
        part = slice(start, stop)
        told = lesson.learn(part, truth[part], new)
        scored = Scored(told.value, truth[part], np.array([np.nan])) if new else of_classes(told, truth[part])
        parts.append(scored)
        start = stop
    if not parts:  # every row of a request may have been learned before
        return only_told(truth)
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
