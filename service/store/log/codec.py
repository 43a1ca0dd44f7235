"""Bytes of the log and back: segments, outcomes and tracked predictions as MessagePack arrays.

    rows     ["rows", 1, space, features as declared | nil, n, X float64 (n, F), labels [...] | float64, discounts,
              served | nil, ids]                            served: a ``core.entry.ServedPrediction``
             [... the same ..., weights | nil, outside]     rows that count more or less than once; predictions of a
                                                            model outside: labels | nil, or float64
             [... the same ..., weights | nil, outside | nil, true]    a row whose label is that of labels_due
    reset    ["reset", 1, ids]
    state    ["state", 1, digest, size, source, ids]    a restore or import; states.py has the bytes
    switch   ["switch", 1, action, features as declared | nil, mapping | nil, ids]
    overlap  ["overlap", 1, space, n, X float64 (n, F), ids]
    config   ["config", 1, {field: new value}, ids]     a change of the configuration
    challenge ["challenge", 1, name, {field: value}, most, ids]     a challenger of the model
    withdraw ["withdraw", 1, name, ids]
    promote  ["promote", 1, name, ids, force]

    remembered answer    [1, outcome]                                   outcome: a ``core.entry.Outcome``
    tracked prediction   [1, space, X float64 (1, F), version, served]

Arrays are little-endian float64 in C order. The 1 is the version of the format. Functions that read bytes raise
ValueError if they are corrupt or have another version, and never guess.
"""

import hashlib
from collections.abc import Sequence
from functools import reduce
from itertools import repeat
from operator import or_
from typing import Any, Literal, TypeVar

import msgspec
import numpy as np
from msgspec import structs

from core.contract import Buffer, Floats, Label
from core.entry import (
    Challenge,
    Configure,
    Entry,
    Outcome,
    Overlap,
    Promote,
    Reset,
    Restore,
    Rows,
    Segment,
    ServedPrediction,
    Switch,
    Withdraw,
)
from core.features import Feature, parse_features
from service.store.log.entries import RawEntry

FORMAT = 1  # version of the records


class Versioned(msgspec.Struct, array_like=True, frozen=True):
    """A record that begins with the version of its format."""

    format: int


class Record(Versioned, frozen=True, forbid_unknown_fields=True):
    """A segment as bytes; see the layout above. Unknown fields are refused: ignoring them would give another state.

    The fields of RowsRecord, StateRecord, SwitchRecord and StoredOverlap follow; those of the other records are the
    segment's own, in their order.
    """


class RowsRecord(Record, tag="rows", frozen=True, gc=False):
    """``rows`` as bytes."""

    space: str
    features: list[str | dict[str, Any]] | None
    count: int
    x: bytes
    labels: list[str | int | bool] | bytes
    discounts: bytes | None
    served: ServedPrediction | None
    ids: tuple[str, ...]
    weights: bytes | None = None
    outside: list[str | int | bool | None] | bytes | None = None
    due: bool = False


class StateRecord(Record, tag="state", frozen=True):
    """``state`` as bytes."""

    digest: str
    size: int
    source: str
    ids: tuple[str, ...]


class SwitchRecord(Record, tag="switch", frozen=True):
    """``switch`` as bytes."""

    action: Literal["begin", "complete", "abort"]
    features: list[str | dict[str, Any]] | None
    mapping: Literal["linear", "kernel"] | None
    ids: tuple[str, ...]


class StoredOverlap(Record, tag="overlap", frozen=True):
    """``overlap`` as bytes."""

    space: str
    count: int
    x: bytes
    ids: tuple[str, ...]


def _plain(tag: str, segment: type[msgspec.Struct]) -> type[Any]:
    fields = [(each.name, each.type) for each in structs.fields(segment)]
    return msgspec.defstruct(f"{segment.__name__}Record", fields, bases=(Record,), tag=tag, frozen=True)


_TAGS: dict[str, type[Any]] = {
    "reset": Reset,
    "config": Configure,
    "challenge": Challenge,
    "withdraw": Withdraw,
    "promote": Promote,
}
_PLAIN = {segment: _plain(tag, segment) for tag, segment in _TAGS.items()}
_SEGMENTS = {record: segment for segment, record in _PLAIN.items()}


class Remembered(Versioned, frozen=True):
    """The answer that is stored with an id. It changes no state, so fields of later versions are ignored."""

    outcome: Outcome


class Tracked(Versioned, frozen=True, forbid_unknown_fields=True):
    """A tracked prediction: the row and the prediction that was served."""

    space: str  # id of the feature space it was predicted in
    x: bytes  # raw row, float64
    version: int  # the version it was predicted with
    served: ServedPrediction
    grace_ms: int = 0  # how long it is kept beyond the time when its label is due

    @property
    def raw(self) -> Floats:
        """The raw row, (1, F)."""
        return np.frombuffer(self.x, dtype="<f8").reshape(1, -1)


R = TypeVar("R", bound=Versioned)
_encoder = msgspec.msgpack.Encoder()
_segments: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(
    reduce(or_, _PLAIN.values(), RowsRecord | StateRecord | SwitchRecord | StoredOverlap)
)
_answers = msgspec.msgpack.Decoder(Remembered)
_tracked = msgspec.msgpack.Decoder(Tracked)


def decoded(decoder: "msgspec.msgpack.Decoder[R]", blob: Buffer, what: str) -> R:
    """A record from bytes."""
    try:
        record = decoder.decode(blob)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"{what} is corrupt: {error}") from error
    if record.format != FORMAT:
        raise ValueError(f"{what} has format {record.format}, this version reads {FORMAT}")
    return record


def encode(segment: Segment) -> bytes:
    """A segment as bytes."""
    return _encoder.encode(_record(segment))


def _record(segment: Segment) -> tuple[Any, ...] | Record:
    if isinstance(segment, Rows):
        labels = float_bytes(segment.y) if isinstance(segment.y, np.ndarray) else segment.y
        discounts = None if segment.discounts is None else float_bytes(segment.discounts)
        features = None if segment.features is None else _declared(segment.features)
        x, n = float_bytes(segment.X), len(segment.X)
        plain = segment.space, features, n, x, labels, discounts, segment.served, segment.ids
        weights = None if segment.weights is None else float_bytes(segment.weights)
        outside = float_bytes(segment.outside) if isinstance(segment.outside, np.ndarray) else segment.outside
        further = [weights, outside, segment.due or None]
        while further and further[-1] is None:
            further.pop()
        return "rows", FORMAT, *plain, *further
    if isinstance(segment, Switch):
        features = None if segment.features is None else _declared(segment.features)
        return "switch", FORMAT, segment.action, features, segment.mapping, segment.ids
    if isinstance(segment, Overlap):
        return "overlap", FORMAT, segment.space, len(segment.X), float_bytes(segment.X), segment.ids
    if isinstance(segment, Restore):
        if not segment.digest:
            raise ValueError("the log refers to a state by its digest")
        return "state", FORMAT, segment.digest, segment.size, segment.source, segment.ids
    record: Record = _PLAIN[type(segment)](FORMAT, *structs.astuple(segment))
    return record


def _declared(features: Sequence[Feature]) -> list[Any]:
    return [feature.to_json() for feature in features]


def decode(blob: Buffer, skip: tuple[int, ...] = ()) -> Segment:
    """A segment from bytes; ``skip``: the rows whose ids the store had seen before."""
    return _segment(record_of(blob), skip)


def record_of(blob: Buffer) -> Record:
    """The record of a segment."""
    return decoded(_segments, blob, "log segment")


def _segment(record: Record, skip: tuple[int, ...]) -> Segment:
    if isinstance(record, RowsRecord):
        return Rows(
            space=record.space,
            features=_features(record.features),
            X=_matrix(record),
            y=np.frombuffer(record.labels, dtype="<f8") if isinstance(record.labels, bytes) else record.labels,
            discounts=None if record.discounts is None else np.frombuffer(record.discounts, dtype="<f8"),
            served=record.served,
            ids=record.ids,
            skip=skip,
            weights=None if record.weights is None else np.frombuffer(record.weights, dtype="<f8"),
            outside=np.frombuffer(record.outside, dtype="<f8") if isinstance(record.outside, bytes) else record.outside,
            due=record.due,
        )
    if isinstance(record, SwitchRecord):
        return Switch(record.action, _features(record.features), record.mapping, record.ids)
    if isinstance(record, StoredOverlap):
        return Overlap(record.space, _matrix(record), record.ids, skip)
    if isinstance(record, StateRecord):
        return Restore(b"", record.source, record.ids, record.digest, record.size)
    segment: Segment = _SEGMENTS[type(record)](*structs.astuple(record)[1:])
    return segment


def _features(declared: list[str | dict[str, Any]] | None) -> tuple[Feature, ...] | None:
    return None if declared is None else parse_features(declared)


def float_bytes(values: Floats) -> bytes:
    """Numbers as little-endian float64 in C order."""
    return np.ascontiguousarray(values, dtype="<f8").tobytes()


def _matrix(record: RowsRecord | StoredOverlap) -> Floats:
    return np.frombuffer(record.x, dtype="<f8").reshape(record.count, -1)


def entry(raw: RawEntry) -> Entry:
    """A log entry with its segments decoded, in the order of their ordinals."""
    return of_records(raw, [record_of(blob) for _, blob, _ in raw.segments])


def of_records(raw: RawEntry, records: Sequence[Record]) -> Entry:
    """An entry whose segments have these records."""
    skips = [skip for _, _, skip in raw.segments]
    return Entry(raw.version, raw.time_ms, tuple(map(_segment, records, skips)))


# ---------------------------------------------------------------- answers


Item = tuple[str, int, bytes]  # id, the version that learned it, and the answer as it is stored


def items_of(segment: Segment, outcome: Outcome) -> list[Item]:
    """What to store with each id of a segment: one answer per row, or one for the whole request."""
    ids = segment.ids
    skipped = {*segment.skip} if isinstance(segment, Rows | Overlap) else ()
    kept = [identity for row, identity in enumerate(ids) if row not in skipped] if skipped else ids
    if isinstance(segment, Rows) and len(ids) > 1 and outcome.refusal is None:
        return row_items(kept, outcome)
    return [*zip(kept, repeat(outcome.version), repeat(encode_answer(outcome)), strict=False)]


def row_items(ids: Sequence[str], outcome: Outcome) -> list[Item]:
    """What to store with each id of some rows; ``outcome`` is that of all of them."""
    answers = map(encode_answer, of_rows(outcome))
    return [(identity, outcome.version, answer) for identity, answer in zip(ids, answers, strict=True)]


def of_rows(outcome: Outcome) -> list[Outcome]:
    """The outcome of each row alone; its ``rows`` is the count after that row."""
    count, learned, mapped, version = len(outcome.predictions), outcome.learned, outcome.mapped, outcome.version
    if count == 1:
        return [outcome]
    after = outcome.rows - count
    shares, joined = outcome.p_true, {at: [(0, label)] for at, label in outcome.joined}
    found: list[Outcome] = []
    for at, (predicted, loss) in enumerate(zip(outcome.predictions, outcome.losses, strict=True)):
        after += 1
        share, new = [shares[at]] if shares else [], joined.get(at, [])
        found.append(Outcome(after, [predicted], [loss], learned, share, mapped, new, version=version))
    return found


_json = msgspec.json.Encoder().encode


def digest_of(label: Label | float) -> str:
    """The digest that is remembered with a row's id, to compare its label with a later one."""
    return hashlib.blake2b(_json(label), digest_size=8).hexdigest()


def encode_answer(outcome: Outcome) -> bytes:
    """An outcome as bytes."""
    return _encoder.encode((FORMAT, outcome))


def decode_answer(blob: bytes) -> Outcome:
    """An outcome from bytes."""
    return decoded(_answers, blob, "remembered answer").outcome


def encode_tracked(space: str, raw: Floats, served: ServedPrediction, version: int, grace_ms: int = 0) -> bytes:
    """A tracked prediction as bytes, which are kept until its label arrives."""
    return _encoder.encode((FORMAT, space, float_bytes(raw), version, served, *((grace_ms,) if grace_ms else ())))


def decode_tracked(blob: bytes) -> Tracked:
    """A tracked prediction from bytes."""
    return decoded(_tracked, blob, "tracked prediction")


def config(blob: bytes) -> dict[str, Any]:
    """A model's configuration as its JSON object; ``ValueError`` if it is not one."""
    try:
        return msgspec.json.decode(blob, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"configuration is corrupt: {error}") from error
