"""Which segments a model still accepts, and which are learned together.

Rows name the feature space and the labels they were validated against. What an entry before them has made impossible
is refused here, deterministically, segment by segment.
"""

from collections.abc import Callable, Iterator, Sequence

from core.config import Config
from core.entry import MergedRows, Refused, Rows, Segment
from core.features import Schema, Space
from core.features.labels import LabelSet


def check_space(rows: Rows, schema: Space | None) -> Space | Refused:
    """The space in which rows are learned: the model's, or the one they propose where it has none yet."""
    if schema is None and rows.features is not None:
        schema = Schema(rows.features)
    if schema is None or rows.space != schema.id:
        return Refused("the model's features are no longer those the rows were sent with")
    return schema


def check_labels(rows: Rows, seen: LabelSet, configs: Sequence[Config]) -> Refused | None:
    """Why the labels of rows, some of which no row had before, can no longer join the classes seen, or None.

    Args:
        rows: the rows.
        seen: the classes.
        configs: of all learners of the model's rows, the model's own first.
    """
    config = configs[0]
    skip = set(rows.skip)
    declared = None if config.labels is None else LabelSet(config.labels)
    joined = LabelSet.from_header(seen.to_header())
    for at, label in enumerate(rows.y):
        if at in skip or joined.index(label) >= 0:
            continue
        if declared is not None and declared.index(label) < 0:  # it was before the model went back to an older state
            return Refused("a label is not one of the declared labels any more")
        if joined.clash(label) is not None:
            return Refused("a label shows under the same JSON key as another label of the model")
        least = min((one.algorithm for one in configs), key=lambda algorithm: algorithm.class_bound)
        if len(joined.labels) >= least.class_bound:
            return Refused(f"the model has as many classes as {least.id} learns: {least.class_bound}")
        joined.add(label)
    return None


def group_into_blocks(segments: Sequence[Segment], plain: Callable[[Rows], bool]) -> Iterator[Sequence[Segment]]:
    """Cut an entry into runs of segments that are learned as one block.

    The cut is made lazily, while the state moves: whether a segment is plain depends on the classes seen so far.

    Args:
        segments: of one entry.
        plain: whether rows need no special care as the model stands now.
    """
    block: list[Segment] = []
    for segment in segments:
        simple = isinstance(segment, Rows) and plain(segment)
        if block and not (simple and _alike(block[0], segment)):
            yield block
            block = []
            simple = isinstance(segment, Rows) and plain(segment)
        block.append(segment)
        if not simple:
            yield block
            block = []
    if block:
        yield block


def plain_until(merged: MergedRows, first: int, schema: Space | None, seen: LabelSet | None) -> int:
    """Up to which entry, from the ``first`` on, merged rows need no special care as the model stands now.

    Args:
        merged: the rows.
        first: the entry that is next.
        schema: the space of feedback.
        seen: the classes seen; None for regression.

    Returns:
        The first entry with a label that has not been seen; the number of entries where there is none; ``first`` where
        the rows are of another space.
    """
    if schema is None or merged.rows.space != schema.id:
        return first
    start = merged.start(first)
    labels = merged.rows.y[start:]
    if seen is None or seen.knows(labels):  # type: ignore[arg-type]
        return len(merged.stops)
    return merged.entry_of(start + seen.find(labels).index(-1))  # type: ignore[arg-type]


def _alike(first: Segment, other: Segment) -> bool:
    """Whether two plain row segments may stand in one block."""
    return (
        isinstance(first, Rows)
        and isinstance(other, Rows)
        and (first.discounts is None) == (other.discounts is None)
        and (first.weights is None) == (other.weights is None)
        and not first.skip
    )
