"""Neighbouring entries of plain rows, merged: what whoever applies many entries applies at once.

    1 2 3 ... 40     41: a switch     42 43 ... 90     91: with rows to skip     92 ...
    one stretch      one by itself    one stretch      one by itself

Entries are merged where every segment is rows that propose no names, answer no tracked prediction and have nothing to
skip, and where all rows are of one space and width, with discounts or without. The bytes of their records are joined
and read as one array: nothing is made of a row but the record of its answer. Whether a merged block has the bits of its
entries one by one depends on the state: ``Machine.apply_merged`` says how far it has.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from core.entry import Entry, Learned, MergedRows, Rows
from service.store import codec
from service.store.codec import FORMAT, Answer, Item, Record, RowsRecord
from service.store.entries import RawEntry

MERGED_ENTRIES_MAX = 1000
"""Most entries of a stretch."""
MERGED_BYTES_MAX = 131_072
"""Most bytes of a stretch: decoding them takes a millisecond or two. A larger entry is not decoded here."""

_Kind = tuple[str, int, bool, bool]
"""Space, bytes of a row, whether labels are numbers, whether there are discounts: equal where rows may be merged."""


class _Decoded(NamedTuple):
    """An entry with the records of its segments; none where it is large, names one of them or is corrupt.

    Attributes:
        kind: of its rows; None where it goes by itself.
        size: its bytes on the log.
        rows: how many.
    """

    raw: RawEntry
    records: Sequence[Record]
    kind: _Kind | None
    size: int
    rows: int


class Stretch:
    """One entry, or neighbouring ones whose rows are merged.

    Args:
        found: the entries, in order.

    Attributes:
        entries: as they were read.
        size: their bytes on the log.
        merged: the rows; None where it is one entry.
    """

    __slots__ = ("_records", "entries", "merged", "size")

    def __init__(self, found: Sequence[_Decoded]) -> None:
        self.entries = [each.raw for each in found]
        self.size = sum([each.size for each in found])
        self._records = [each.records for each in found]
        self.merged = _merged(found) if len(found) > 1 else None

    @property
    def decoded(self) -> bool:
        """Whether ``entry`` can be asked for: not of one that is large, names what it holds, or is corrupt."""
        return bool(self._records[0])

    def entry(self, at: int = 0) -> Entry:
        """The entry at a place, from 0."""
        return codec.of_records(self.entries[at], self._records[at])

    def answers(self, first: int, stop: int, learned: Learned) -> list[Item]:
        """What to store with the ids of the entries from ``first`` to before ``stop``, whose rows were learned."""
        items: list[Item] = []
        predictions, losses, p_true = learned.predictions, learned.losses.tolist(), learned.p_true
        before, at = learned.rows - len(losses), 0
        for raw, records in zip(self.entries[first:stop], self._records[first:stop], strict=True):
            version = raw.version
            for record in records:
                ids, end = record.ids, at + record.count  # type: ignore[union-attr]
                if ids:
                    answer = Answer(
                        FORMAT, version, before + end, predictions[at:end], losses[at:end], True, list(p_true[at:end])
                    )
                    if len(ids) == 1:
                        items.append((ids[0], version, codec.encode_answer(answer)))
                    else:
                        items += [(one, version, blob) for one, blob in codec.row_records(ids, answer)]
                at = end
        return items


def stretches(raws: Sequence[RawEntry], rows_max: Callable[[], int]) -> Iterator[Stretch]:
    """Cut entries into stretches, lazily, while the state moves.

    Args:
        raws: entries that follow each other.
        rows_max: how many rows may be merged as the model stands when a stretch begins.
    """
    block: list[_Decoded] = []
    rows = size = most = 0
    for raw in raws:
        one = _decoded(raw)
        rows, size = rows + one.rows, size + one.size
        full = len(block) == MERGED_ENTRIES_MAX or rows > most or size > MERGED_BYTES_MAX
        if block and (full or one.kind is None or one.kind != block[0].kind):
            yield Stretch(block)
            block = []
        if not block:
            rows, size, most = one.rows, one.size, rows_max()
        block.append(one)
        if one.kind is None:
            yield Stretch(block)
            block = []
    if block:
        yield Stretch(block)


def _decoded(raw: RawEntry) -> _Decoded:
    """An entry with its records; what cannot be decoded is left to whoever applies it by itself."""
    records: list[Record] = []
    kinds: list[_Kind | None] = []
    rows = size = 0
    try:
        for _, blob, skip in raw.segments:
            size += len(blob)
            if size > MERGED_BYTES_MAX:
                return _Decoded(raw, (), None, raw.size, 0)
            record = codec.record_of(blob)
            records.append(record)
            kinds.append(None if skip else _kind(record))
            rows += record.count if type(record) is RowsRecord else 0
    except ValueError:
        return _Decoded(raw, (), None, raw.size, 0)
    return _Decoded(raw, records, kinds[0] if kinds.count(kinds[0]) == len(kinds) else None, size, rows)


def _kind(record: Record) -> _Kind | None:
    """What rows must have in common to be merged; None where the record goes by itself."""
    if type(record) is not RowsRecord or record.names is not None or record.served is not None:
        return None
    count, bytes_of_rows, labels, discounts = record.count, len(record.x), record.labels, record.discounts
    numbers = type(labels) is bytes
    if not count or bytes_of_rows % (8 * count) or len(labels) != (8 * count if numbers else count):
        return None
    if discounts is not None and len(discounts) != 8 * count:
        return None
    return record.space, bytes_of_rows // count, numbers, discounts is not None


def _merged(found: Sequence[_Decoded]) -> MergedRows:
    """The rows of entries of one kind."""
    assert found[0].kind is not None
    records: list[Any] = [record for each in found for record in each.records]
    space, width, numbers, discounted = found[0].kind
    labels = [record.labels for record in records]
    X = np.frombuffer(b"".join([record.x for record in records]), dtype="<f8").reshape(-1, width // 8)
    y = np.frombuffer(b"".join(labels), dtype="<f8") if numbers else [*chain.from_iterable(labels)]
    discounts = None
    if discounted:
        discounts = np.frombuffer(b"".join([record.discounts for record in records]), dtype="<f8")
    stops: list[int] = []
    stop = 0
    for each in found:
        stop += each.rows
        stops.append(stop)
    times = [each.raw.time_ms for each in found]
    return MergedRows(Rows(space, None, X, y, discounts), found[0].raw.version, times, stops)
