"""Neighbouring entries of plain rows, cut into runs that may be merged: replay can apply each run as one block.

    1 2 3 ... 40     41: a switch     42 43 ... 90     91: with rows to skip     92 ...
    one run      one alone        one run      one alone

Entries form one run if every segment is rows that propose no names, answer no tracked prediction, have no predictions
of an outside model and nothing to skip, and if all rows are of one space and width, with numeric labels all or none,
discounts all or none, weights all or none. Whether a merged block has the same bits as its entries one by one depends
on the state: see ``apply_merged`` of core.model.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from service.store.log import codec
from service.store.log.codec import Record, RowsRecord
from service.store.log.entries import RawEntry

MERGED_ENTRIES_MAX = 1000  # most entries of a run
MERGED_BYTES_MAX = 131_072
"""Most bytes of a run: decoding them takes a millisecond or two. A larger entry is not decoded here."""


RowKind = tuple[str, int, bool, bool, bool]
"""What rows that may be merged have in common: their space, bytes of a row, and whether labels are numbers and whether
there are discounts and weights."""


class DecodedEntry(msgspec.Struct, frozen=True, gc=False):
    """An entry and the records of its segments."""

    raw: RawEntry
    records: Sequence[Record]  # empty if the entry is large, names a large segment or is corrupt: it is applied alone
    kind: RowKind | None  # of its rows; None if it is applied alone
    size: int  # bytes on the log
    rows: int  # 0 if it is applied alone


def entry_runs(raws: Sequence[RawEntry], rows_max: Callable[[], int]) -> Iterator[list[DecodedEntry]]:
    """Cut consecutive entries into runs, lazily, while the state changes: a run is one entry, or several to merge.

    ``rows_max`` says how many rows may be merged in the model's state at the start of a run.
    """
    run: list[DecodedEntry] = []
    kind: RowKind | None = None
    rows = size = most = 0
    for raw in raws:
        own = _decoded(raw)
        rows, size = rows + own.rows, size + own.size
        if run and (own.kind != kind or len(run) == MERGED_ENTRIES_MAX or size > MERGED_BYTES_MAX or rows > most):
            yield run
            run = []
        if not run:
            kind, rows, size, most = own.kind, own.rows, own.size, rows_max()
        run.append(own)
        if kind is None:
            yield run
            run = []
    if run:
        yield run


def _decoded(raw: RawEntry) -> DecodedEntry:
    records: list[Record] = []
    kind: RowKind | None = None
    size = rows = 0
    plain = True
    for _, blob, skip in raw.segments:
        size += len(blob)
        try:
            record = codec.record_of(blob) if size <= MERGED_BYTES_MAX else None
        except ValueError:
            record = None
        if record is None:
            return DecodedEntry(raw, (), None, raw.size, 0)
        if isinstance(record, RowsRecord) and not skip and (own := _kind(record)) and (not rows or own == kind):
            kind, rows = own, rows + record.count
        else:
            plain = False
        records.append(record)
    return DecodedEntry(raw, records, kind, size, rows) if plain else DecodedEntry(raw, records, None, size, 0)


def _kind(record: RowsRecord) -> RowKind | None:
    """What rows must have in common to be merged; None if the record is applied alone."""
    if record.features is not None or record.served or record.due:
        return None
    count, labels, discounts, weights = record.count, record.labels, record.discounts, record.weights
    size, numbers = 8 * count, type(labels) is bytes
    if record.outside is not None or not count or len(labels) != (size if numbers else count):
        return None
    if len(record.ids) not in (0, 1, count):  # it is corrupt
        return None
    if (discounts is not None and len(discounts) != size) or (weights is not None and len(weights) != size):
        return None
    width, rest = divmod(len(record.x), count)
    return None if rest or width % 8 else (record.space, width, numbers, discounts is not None, weights is not None)
