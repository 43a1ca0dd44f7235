"""Batches that a replica applies in one go, single entries or merged runs of plain row entries; and their answers to
ids, until the store has them.

A batch may run in a thread that holds the model. It counts its results and makes the answers to be kept. A replica
holds the answers to entries of all processes, because the one that committed an entry may crash before it stores them.
A snapshot is published only after the answers up to its version are stored; the replica then drops these answers.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, islice
from typing import Any, cast

import numpy as np
from msgspec import Struct

from core.entry import Entry, MergedRows, Outcome, Restore, Rows
from core.model import Model, cost
from core.model.apply import apply, apply_merged
from service.runtime.replicas import changes
from service.runtime.threads import THREAD_FLOPS
from service.store.log import codec
from service.store.log.codec import Item, RowsRecord
from service.store.log.entries import RawEntry
from service.store.log.entry_runs import DecodedEntry, entry_runs

ANSWER_BYTES = 250  # what an answer takes besides its own bytes: its dict entry, its tuple and the text of its id
MERGED_ANSWER_BYTES = 100  # takes the place of those bytes until they are encoded, with its share of the block


class MergedAnswer(Struct, frozen=True, gc=False):
    """The answer to an id whose rows were learned in one block with others.

    It is encoded only when it is needed, and most are not: the process that committed the rows stores their answers,
    and the next snapshot covers them.
    """

    learned: Outcome  # of the block
    version: int
    start: int  # its rows in the block are start to stop - 1
    stop: int

    def encoded(self) -> bytes:
        """The answer as it is stored."""
        block, rows = self.learned, slice(self.start, self.stop)
        after = block.rows - len(block.losses) + self.stop
        of_rows = block.predictions[rows], block.losses[rows], block.learned, block.p_true[rows]
        return codec.encode_answer(Outcome(after, *of_rows, version=self.version))


HeldItem = tuple[str, int, bytes | MergedAnswer]  # an ``Item`` that may not be bytes yet


class UnstoredAnswers:
    """The answers of one model that the store may not have yet."""

    __slots__ = ("_held", "fresh", "nbytes")

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, bytes | MergedAnswer]] = {}
        self.fresh: dict[str, None] = {}  # ids of requests of this process
        self.nbytes = 0  # memory they take, estimated

    def __len__(self) -> int:
        return len(self._held)

    def put(self, items: Iterable[HeldItem], own: bool) -> None:
        """Keep answers; those to requests of this process are to be stored soon."""
        for identity, version, answer in items:
            if (before := self._held.get(identity)) is not None:
                self.nbytes -= _size(before[1])
            self.nbytes += _size(answer)
            self._held[identity] = version, answer
            if own:
                self.fresh[identity] = None

    def get(self, identity: str) -> bytes | None:
        """The answer given to an id, if it is here."""
        found = self._held.get(identity)
        return None if found is None else _encoded(found[1])

    def take_fresh(self, most: int) -> list[Item]:
        """Up to ``most`` answers to requests of this process."""
        return self.of(islice(self.fresh, most))

    def up_to(self, version: int) -> list[str]:
        """The ids of all answers of entries up to a version."""
        return [identity for identity, found in self._held.items() if found[0] <= version]

    def of(self, identities: Iterable[str]) -> list[Item]:
        """Those answers to some ids that are here."""
        held = [(identity, self._held.get(identity)) for identity in identities]
        return [(identity, found[0], _encoded(found[1])) for identity, found in held if found is not None]

    def stored(self, items: Sequence[Item]) -> None:
        """Forget answers that the store has now, unless a reload has replaced them meanwhile."""
        for identity, version, answer in items:
            found = self._held.get(identity)
            if found is not None and found[0] == version and _encoded(found[1]) == answer:
                self._drop(identity)

    def drop(self, identities: Iterable[str], version: int) -> None:
        """Forget the answers to some ids if a published snapshot of ``version`` covers their entries."""
        for identity in identities:
            found = self._held.get(identity)
            if found is not None and found[0] <= version:
                self._drop(identity)

    def _drop(self, identity: str) -> None:
        self.nbytes -= _size(self._held.pop(identity)[1])
        self.fresh.pop(identity, None)


def _encoded(answer: bytes | MergedAnswer) -> bytes:
    return answer if isinstance(answer, bytes) else answer.encoded()


def _size(answer: bytes | MergedAnswer) -> int:
    return ANSWER_BYTES + (len(answer) if isinstance(answer, bytes) else MERGED_ANSWER_BYTES)


FEW_BYTES = 16 * 2**10
"""Entries of other processes up to this size are applied at once, like our own; some dozens of small ones."""
MERGED_FLOPS = THREAD_FLOPS
"""Most floating-point operations of merged entries: what the event loop does itself, without a thread."""


class Applied(Struct):
    """The results of a batch."""

    rows: int = 0  # how many were learned
    refused: int = 0  # segments that were refused
    states_bytes: int = 0  # bytes of the states that were taken over
    rebuilt: bool = False  # whether anything but rows was applied, which may have changed the model's size
    answers: list[Outcome] = []  # to the segments of an entry of this process, in order
    items: list[HeldItem] = []  # the answers to ids, to be kept

    def entry(self, entry: Entry, model: Model, own: bool = False) -> None:
        """Apply an entry, count its results and add its answers."""
        for segment, outcome in zip(entry.segments, apply(model, entry), strict=True):
            if outcome.refusal is not None:
                self.refused += 1
            elif isinstance(segment, Rows):
                self.rows += len(outcome.predictions)
            else:
                self.rebuilt = True
                self.states_bytes += segment.size if isinstance(segment, Restore) else 0
            if own or segment.ids:
                outcome.version = entry.version
                if outcome.phase is not None:
                    outcome.feature_state = changes.record(model)
                if own:
                    self.answers.append(outcome)
                if segment.ids:
                    self.items += codec.items_of(segment, outcome)


class SingleEntry:
    """One entry."""

    __slots__ = ("entry", "first", "inner", "own", "size", "time_ms", "uid", "version")

    def __init__(self, entry: Entry, uid: str, size: int, *, own: bool = False) -> None:
        self.entry, self.uid, self.size, self.own = entry, uid, size, own
        self.first = self.version = entry.version
        self.time_ms, self.inner = entry.time_ms, tuple[tuple[int, str], ...]()

    def flops(self, model: Model) -> float:
        """See ``core.model.cost.flops_to_apply``."""
        return cost.flops_to_apply(model, self.entry.segments)

    def apply(self, model: Model) -> Applied:
        """Apply it."""
        applied = Applied()
        applied.entry(self.entry, model, self.own)
        return applied

    def __str__(self) -> str:
        return f"entry {self.version}"


class MergedEntries:
    """A run of plain row entries of one kind, applied in blocks where that gives the same bits as one by one."""

    __slots__ = ("_at", "_merged", "_run", "first", "inner", "own", "size", "time_ms", "uid", "version")

    def __init__(self, run: Sequence[DecodedEntry]) -> None:
        self._run, self._merged, self._at = run, _merged(run), 0
        last = run[-1].raw
        self.first, self.version, self.uid, self.time_ms = self._merged.version, last.version, last.uid, last.time_ms
        self.size, self.own = sum([each.size for each in run]), False
        self.inner = [(each.raw.version, each.raw.uid) for each in run[:-1]]

    def flops(self, model: Model) -> float:
        """See ``core.model.cost.flops_to_learn``."""
        return cost.flops_to_learn(model, self._merged.stops[-1])

    def apply(self, model: Model) -> Applied:
        """Apply the entries; those that the model cannot merge in its present state are applied alone."""
        applied = Applied()
        while self._at < len(self._run):
            stop, learned = apply_merged(model, self._merged, self._at)
            if learned is None:
                stop += 1
                own = self._run[self._at]
                applied.entry(codec.of_records(own.raw, own.records), model)
            else:
                applied.rows += len(learned.losses)
                applied.items += _answers(self._run[self._at : stop], learned)
            self._at = stop
        return applied

    def __str__(self) -> str:
        return f"one of the entries {self.first + self._at} to {self.version}"


Batch = SingleEntry | MergedEntries
"""What a replica applies in one go.

``first`` is the version of its first entry; ``version``, ``uid``, ``time_ms`` are those of its last; ``inner``: version
and uid of all but the last; ``size``: its bytes on the log; ``own``: whether requests of this process wait for the
answers. ``str`` names the entry, or entries, at which ``apply`` raised.
"""


def _merged(run: Sequence[DecodedEntry]) -> MergedRows:
    """The rows of all entries, their bytes joined and read as one array."""
    records: list[Any] = [record for each in run for record in each.records]
    first, labels, discounts, weights = records[0], [record.labels for record in records], None, None
    X = np.frombuffer(b"".join([record.x for record in records]), dtype="<f8")
    y = np.frombuffer(b"".join(labels), dtype="<f8") if type(first.labels) is bytes else [*chain.from_iterable(labels)]
    if first.discounts is not None:
        discounts = np.frombuffer(b"".join([record.discounts for record in records]), dtype="<f8")
    if first.weights is not None:
        weights = np.frombuffer(b"".join([record.weights for record in records]), dtype="<f8")
    times, stops = [each.raw.time_ms for each in run], [*accumulate([each.rows for each in run])]
    rows = Rows(first.space, None, X.reshape(stops[-1], -1), y, discounts, weights=weights)
    return MergedRows(rows, run[0].raw.version, times, stops)


def _answers(run: Sequence[DecodedEntry], learned: Outcome) -> Sequence[HeldItem]:
    """The answers to the ids of entries whose rows were learned together."""
    items: list[tuple[str, int, MergedAnswer]] = []
    start = 0
    for each in run:
        version, records = each.raw.version, cast("Sequence[RowsRecord]", each.records)
        for record in records:
            ids, stop = record.ids, start + record.count
            if len(ids) == 1:  # one id for all rows of its request
                items.append((ids[0], version, MergedAnswer(learned, version, start, stop)))
            else:
                rows = enumerate(ids, start)
                items += [(identity, version, MergedAnswer(learned, version, row, row + 1)) for row, identity in rows]
            start = stop
    if 2 * len(items) < start:  # a few answers would keep the rows of the whole block in memory
        return [(identity, version, answer.encoded()) for identity, version, answer in items]
    return items


def small_batches(entries: Sequence[RawEntry], model: Model) -> list[Batch]:
    """Batches of other processes' entries, if these are small and hold only rows; otherwise empty."""
    if sum([raw.size for raw in entries]) > FEW_BYTES:
        return []
    batches: list[Batch] = []
    for run in entry_runs(entries, lambda: cost.rows_to_merge(model, MERGED_FLOPS)):
        if len(run) > 1:
            batches.append(MergedEntries(run))
            continue
        (own,) = run
        if not own.records or not all(isinstance(record, RowsRecord) for record in own.records):
            return []
        batches.append(SingleEntry(codec.of_records(own.raw, own.records), own.raw.uid, own.size))
    return batches
