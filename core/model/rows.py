"""Which row segments a model still accepts, and which form one block; the rows of a block, and their scores.

Rows name the feature space and the labels they were validated against. Rows that an earlier entry has made impossible
are refused here, deterministically, segment by segment.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple, replace
from numpy.typing import NDArray

from core.config import Config
from core.contract import Floats
from core.entry import MergedRows, Rows, Segment, ServedPrediction
from core.features import Space
from core.features.columns import OTHER
from core.features.labels import LabelSet

Returned = Sequence[ServedPrediction | None]
"""The returned prediction of each row; None for rows that were not tracked."""


class BlockRows(Struct):
    """The rows of one block."""

    raw: Floats  # (n, F)
    labels: Any  # n labels, or numbers (n,)
    discounts: Floats | None = None  # (n,)
    weights: Floats | None = None  # (n,)
    returned: Returned | None = None  # the returned predictions of tracked rows
    lags: Floats | None = None  # lag columns that tracked rows bring with them (core.features.lags)
    outside: Sequence[Any] | None = None  # predictions of a model outside, None if there is none

    def part(self, at: slice) -> "BlockRows":
        """Some of the rows."""
        columns: Any = [None if column is None else column[at] for column in astuple(self)]
        return BlockRows(*columns)


class Scored(Struct):
    """Rows with their a-priori predictions (of tracked rows: as returned); each (n,).

    Errors are the input of the error-rate test: squared errors, or 1.0 for a wrong class. With ``class_costs`` that is
    the predicted label, else the learner's own class, which shows sooner that the learner no longer fits the data.
    """

    predicted: NDArray[Any]  # numbers; or indices of labels, -1: no prediction, -2: a label the model no longer knows
    truth: NDArray[Any]  # indices of the true labels, or numbers
    p_true: Floats  # the probability of each true label, NaN without a prediction; for regression (0,)
    losses: Floats  # 0 or 1, or squared errors; NaN without a prediction: such a row is not scored
    errors: Floats


def predicted_by(learner_id: str, returned: Returned, *, or_returned: bool) -> list[ServedPrediction | None]:
    """A learner's predictions for rows when they were tracked, from what was returned for each.

    ``or_returned``: whether the returned prediction replaces one that the learner did not make.
    """
    own = [None if one is None else one.made_by(learner_id) for one in returned]
    if or_returned:
        return [_foreign(one) if found is None else found for found, one in zip(own, returned, strict=True)]
    return own


def _foreign(one: ServedPrediction | None) -> ServedPrediction | None:
    """Another learner's prediction: that one may have other lags and has counted other rows, if any."""
    return one and replace(one, lags=None, past=None, scored=None if one.scored else one.scored)


def count_unknown(counts: dict[str, int], space: Space, raw: Floats) -> None:
    """Count undeclared categories in rows (n, F), by feature."""
    for column in space.exact:
        if met := int(np.count_nonzero(raw[:, column] == OTHER)):
            name = space.names[column]
            counts[name] = counts.get(name, 0) + met


def check_labels(rows: Rows, seen: LabelSet, configs: Sequence[Config]) -> str | None:
    """Why the labels of rows, some of them new, can no longer join the classes seen, or None.

    ``configs``: of all learners of the model's rows, the model's own first.
    """
    skip = set(rows.skip)
    declared = None if configs[0].labels is None else LabelSet(configs[0].labels)
    joined = LabelSet.from_header(seen.to_header())
    for at, label in enumerate(rows.y):
        if at in skip or joined.index(label) >= 0:
            continue
        if declared is not None and declared.index(label) < 0:  # it was one before a return to an older state
            return "a label is no longer one of the declared labels"
        if joined.clash(label) is not None:
            return "a label has the same JSON key as another label of the model"
        least = min((one.algorithm for one in configs), key=lambda algorithm: algorithm.class_bound)
        if len(joined.labels) >= least.class_bound:
            return f"the model has the maximum number of classes for {least.id}: {least.class_bound}"
        joined.add(label)
    return None


def group_into_blocks(segments: Sequence[Segment], plain: Callable[[Rows], bool]) -> Iterator[Sequence[Segment]]:
    """Cut an entry into runs of segments, each learned as one block.

    The cuts are made lazily, as the state changes: whether a segment is ``plain`` (its rows need no special care)
    depends on the classes seen so far.
    """
    block: list[Rows] = []
    for segment in segments:
        joins = isinstance(segment, Rows) and plain(segment)
        if block and not (joins and _same_form(block[0], segment)):  # type: ignore[arg-type]  # rows that join
            yield block
            block = []
            joins = isinstance(segment, Rows) and plain(segment)
        if joins:
            block.append(segment)  # type: ignore[arg-type]  # rows that join
        else:
            yield [segment]
    if block:
        yield block


def _same_form(first: Rows, other: Rows) -> bool:
    """Whether two plain row segments may be in one block."""
    return (first.discounts is None) == (other.discounts is None) and (first.weights is None) == (other.weights is None)


def plain_until(merged: MergedRows, first: int, schema: Space | None, seen: LabelSet | None) -> int:
    """The first entry, from ``first`` on, whose merged rows need special care in the present state.

    This is the first one with a label that is not among the classes seen (None for regression), or the number of
    entries if there is none; ``first`` if the rows are not of ``schema``, the feedback space.
    """
    if schema is None or merged.rows.space != schema.id:
        return first
    start = merged.start(first)
    labels = merged.rows.y[start:]
    if seen is None or seen.knows(labels):  # type: ignore[arg-type]
        return len(merged.stops)
    return merged.entry_of(start + seen.find(labels).index(-1))  # type: ignore[arg-type]
