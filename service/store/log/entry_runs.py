"""Neighbouring entries of plain rows, merged: what whoever applies many entries applies at once.

    1 2 3 ... 40     41: a switch     42 43 ... 90     91: with rows to skip     92 ...
    one run      one by itself    one run      one by itself

Entries are merged where every segment is rows that propose no names, answer no tracked prediction and have nothing to
skip, and where all rows are of one space and width, all or none with discounts, and all or none with weights. The bytes
of their records are joined and read as one array: nothing is made of a row but the record of its answer. Whether a
merged block has the bits of its entries one by one depends on the state: ``apply_merged`` of core.model says.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from core.entry import Entry, MergedRows, Outcome, Rows
from service.store.log import codec
from service.store.log.codec import Item, Record, RowsRecord
from service.store.log.entries import RawEntry

MERGED_ENTRIES_MAX = 1000
"""Most entries of a run."""
MERGED_BYTES_MAX = 131_072
"""Most bytes of a run: decoding them takes a millisecond or two. A larger entry is not decoded here."""

_Kind = tuple[str, int, bool, bool, bool]
"""Space, bytes of a row, whether labels are numbers, whether there are discounts, and weights: equal where rows may be
merged."""
_Decoded = tuple[list[Record], _Kind | None, int, int]
"""Records of an entry's segments, none where it is large, names one of them or is corrupt; the kind of its rows, None
where it goes by itself; its bytes on the log; how many rows it has, 0 where it goes by itself."""


class EntryRun:
    """One entry, or neighbouring ones whose rows are merged.

    Args:
        kind: of its rows; None where it is one entry that goes by itself.
        entries: as they were read.
        records: of all their segments.
        ends: for each entry the number of records up to its end.
        stops: for each entry the number of rows up to its end.
        size: their bytes on the log.
    """

    __slots__ = ("_ends", "_kind", "_records", "_stops", "entries", "size")

    def __init__(
        self, kind: _Kind | None, entries: list[RawEntry], records: list[Record], ends: list[int], stops: list[int],
        size: int,
    ) -> None:  # fmt: skip
        self._kind, self.entries, self.size = kind, entries, size
        self._records, self._ends, self._stops = records, ends, stops

    @property
    def decoded(self) -> bool:
        """Whether ``entry`` can be asked for: not of one that is large, names what it holds, or is corrupt."""
        return bool(self._records)

    def entry(self, at: int = 0) -> Entry:
        """The entry at a place, from 0."""
        start = self._ends[at - 1] if at else 0
        return codec.of_records(self.entries[at], self._records[start : self._ends[at]])

    def merged(self) -> MergedRows:
        """The rows of all entries; there is more than one."""
        assert self._kind is not None
        space, width, numbers, discounted, weighted = self._kind
        records: list[Any] = self._records
        labels = [record.labels for record in records]
        X = np.frombuffer(b"".join([record.x for record in records]), dtype="<f8").reshape(-1, width // 8)
        y = np.frombuffer(b"".join(labels), dtype="<f8") if numbers else [*chain.from_iterable(labels)]
        discounts = weights = None
        if discounted:
            discounts = np.frombuffer(b"".join([record.discounts for record in records]), dtype="<f8")
        if weighted:
            weights = np.frombuffer(b"".join([record.weights for record in records]), dtype="<f8")
        times = [raw.time_ms for raw in self.entries]
        rows = Rows(space, None, X, y, discounts, weights=weights)
        return MergedRows(rows, self.entries[0].version, times, self._stops)

    def answers(self, first: int, stop: int, learned: Outcome) -> list[Item]:
        """What to store with the ids of the entries from ``first`` to before ``stop``, whose rows were learned."""
        items: list[Item] = []
        predictions, losses, p_true = learned.predictions, learned.losses, learned.p_true
        before, at, place = learned.rows - len(losses), 0, self._ends[first - 1] if first else 0
        for entry in range(first, stop):
            version = self.entries[entry].version
            while place < self._ends[entry]:
                record: Any = self._records[place]
                ids, end = record.ids, at + record.count
                if ids:
                    part = predictions[at:end], losses[at:end], True, p_true[at:end]
                    outcome = Outcome(before + end, *part, version=version)
                    if len(ids) == 1:
                        items.append((ids[0], version, codec.encode_answer(outcome)))
                    else:
                        items += [(one, version, blob) for one, blob in codec.row_records(ids, outcome)]
                at, place = end, place + 1
        return items


def entry_runs(raws: Sequence[RawEntry], rows_max: Callable[[], int]) -> Iterator[EntryRun]:
    """Cut entries into entry_runs, lazily, while the state moves.

    Args:
        raws: entries that follow each other.
        rows_max: how many rows may be merged as the model stands when a run begins.
    """
    begun: _Kind | None = None
    entries: list[RawEntry] = []
    records: list[Record] = []  # of all entries, since a list for each would cost more than merging them
    ends: list[int] = []
    stops: list[int] = []
    rows = size = most = 0
    for raw in raws:
        own, kind, own_size, own_rows = _decoded(raw)
        rows, size = rows + own_rows, size + own_size
        if entries and (
            kind is None
            or kind != begun
            or len(entries) == MERGED_ENTRIES_MAX
            or size > MERGED_BYTES_MAX
            or rows > most
        ):
            yield EntryRun(begun, entries, records, ends, stops, size - own_size)
            entries, records, ends, stops = [], [], [], []
        if not entries:
            begun, rows, size, most = kind, own_rows, own_size, rows_max()
        entries.append(raw)
        records += own
        ends.append(len(records))
        stops.append(rows)
        if kind is None:
            yield EntryRun(begun, entries, records, ends, stops, size)
            entries, records, ends, stops = [], [], [], []
    if entries:
        yield EntryRun(begun, entries, records, ends, stops, size)


def _decoded(raw: RawEntry) -> _Decoded:
    """An entry's records; what cannot be decoded is left to whoever applies it by itself."""
    records: list[Record] = []
    kind: _Kind | None = None
    rows = size = 0
    plain = True
    for _, blob, skip in raw.segments:
        size += len(blob)
        try:
            record = codec.record_of(blob) if size <= MERGED_BYTES_MAX else None
        except ValueError:
            record = None
        if record is None:
            return [], None, raw.size, 0
        own = _kind(record)
        plain = plain and own is not None and not skip and (kind is None or own == kind)
        kind = own
        records.append(record)
        rows += record.count if plain else 0  # type: ignore[union-attr]
    return records, kind if plain else None, size, rows if plain else 0


def _kind(record: Record) -> _Kind | None:
    """What rows must have in common to be merged; None where the record goes by itself."""
    if type(record) is not RowsRecord or record.features is not None or record.served is not None:
        return None
    count, bytes_of_rows, labels, discounts = record.count, len(record.x), record.labels, record.discounts
    numbers = type(labels) is bytes
    if not count or bytes_of_rows % (8 * count) or len(labels) != (8 * count if numbers else count):
        return None
    weights = record.weights
    if any(given is not None and len(given) != 8 * count for given in (discounts, weights)):
        return None
    return record.space, bytes_of_rows // count, numbers, discounts is not None, weights is not None
