"""The rows of the segments that are learned as one block, joined."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from core.contract import Floats
from core.entry import Rows, ServedPrediction

_Given = tuple[Floats | None, Floats | None]
BlockRows = tuple[Floats, Any, _Given, list[ServedPrediction | None] | None]
"""X (n, F), labels, discounts and weights, and what was served."""


def rows_of(segments: Sequence[Rows]) -> BlockRows:
    """The rows of a block to be learned: X (n, F), labels, discounts and weights, what was served of a tracked row."""
    first = segments[0]
    if len(segments) == 1 and not first.skip:
        tracked: list[ServedPrediction | None] | None = None if first.served is None else [first.served] * len(first.X)
        return np.ascontiguousarray(first.X), first.y, (first.discounts, first.weights), tracked
    raw = np.concatenate([rows.X for rows in segments])
    labels = [label for rows in segments for label in rows.y]
    discounts = _column([rows.discounts for rows in segments])
    weights = _column([rows.weights for rows in segments])
    all_served = [rows.served for rows in segments for _ in range(len(rows.X))]
    if first.skip:  # such a segment is a block of its own
        kept = np.setdiff1d(np.arange(len(raw)), first.skip)
        raw, labels, all_served = raw[kept], [labels[at] for at in kept], [all_served[at] for at in kept]
        discounts, weights = (None if given is None else given[kept] for given in (discounts, weights))
    return raw, labels, (discounts, weights), all_served if any(all_served) else None


def part_of(rows: BlockRows, part: slice) -> BlockRows:
    """Some of the rows of a block."""
    raw, labels, (discounts, weights), served = rows
    given = tuple(None if one is None else one[part] for one in (discounts, weights))
    return raw[part], labels[part], given, None if served is None else served[part]  # type: ignore[return-value]


def _column(given: Sequence[Floats | None]) -> Floats | None:
    """What the rows of several segments were sent with: in all of them, or in none."""
    found = [one for one in given if one is not None]
    return np.concatenate(found) if found else None
