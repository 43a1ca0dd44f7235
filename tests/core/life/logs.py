"""The logs of lives, for tests of log readers: entries of every kind, in any order."""

from collections import Counter

import numpy as np
from msgspec.structs import replace

from core.entry import Entry, Rows
from core.model import save
from core.model.apply import apply
from tests.core.life.life import Life
from tests.core.life.observed import Observed


class Written(Observed):
    """A model whose entries are recorded but not checked."""

    def commit(self, *segments):
        entry = Entry(len(self.log) + 1, 1_000 * len(self.log), segments)
        self.log.append(entry)
        outcomes = apply(self.machine, entry)
        self.bytes = save.to_bytes(self.machine)
        return outcomes


def written(body, steps):
    """The segments that a life with these steps writes, entry by entry."""
    life = Life(body, False, Counter(), Written)
    for step in steps:
        life.take(step)
    return [entry.segments for entry in life.model.log]


def single_rows(entries, seed):
    """Entries as many clients write them: most rows alone, some together, many with ids."""
    rng = np.random.default_rng(seed)
    found = []
    for asked in entries:
        segments = tuple(one for one in asked if not isinstance(one, Rows) or len(one.X))  # clients send no empty ones
        if not segments:
            continue
        if len(segments) == 1 and _is_batch(segments[0]) and rng.random() < 0.8:
            found += _split(segments[0], rng, len(found))
        else:
            found.append(tuple(_with_ids(one, rng, f"{len(found)}.{at}") for at, one in enumerate(segments)))
    return [Entry(at + 1, 1_000 * at, segments) for at, segments in enumerate(found)]


def _is_batch(segment):
    return isinstance(segment, Rows) and len(segment.X) > 1 and segment.features is None and not segment.skip


def _split(rows, rng, first):
    """Entries with one or a few segments, each with one or a few rows."""
    ends = np.cumsum(rng.choice([1, 1, 1, 1, 2, 3], len(rows.X)))
    ends = [int(end) for end in ends if end < len(rows.X)] + [len(rows.X)]
    segments = []
    for at, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        segments.append(_with_ids(part(rows, start, end), rng, f"{first}.{at}"))
    entries = []
    while segments:
        count = int(rng.choice([1, 1, 1, 2, 4]))
        entries.append(tuple(segments[:count]))
        segments = segments[count:]
    return entries


def part(rows, start, end):
    """The rows of a segment from ``start`` to before ``end``, none of them skipped."""
    given = {name: getattr(rows, name) for name in ("X", "y", "discounts", "weights", "outside")}
    cut = {name: None if column is None else column[start:end] for name, column in given.items()}
    return replace(rows, skip=(), **cut)


def _with_ids(segment, rng, name):
    """With no id, one id for all rows, or one id per row."""
    if not isinstance(segment, Rows) or segment.ids:
        return segment
    ids = [(), (f"i:{name}",), tuple(f"i:{name}.{row}" for row in range(len(segment.X)))][rng.integers(3)]
    return segment if segment.skip and len(ids) < len(segment.X) else replace(segment, ids=ids)
