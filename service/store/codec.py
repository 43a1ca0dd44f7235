"""Bytes of the log and back: segments (records.py has their layout) and answers as MessagePack arrays.

    answer   [1, version, rows, predictions, losses, learned, probabilities of the true labels, refusal | nil,
              [phase | nil, overlap rows, warning | nil] | nil, feature state after a switch (JSON), mapped]

A version number stands in front. A record with another one is refused, never guessed at.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np

from core.contract import Buffer, Floats
from core.entry import (
    Challenge,
    Configure,
    Configured,
    Entry,
    Learned,
    Mapped,
    Outcome,
    Overlap,
    Promote,
    Refused,
    Replaced,
    Reset,
    Restore,
    Rows,
    Segment,
    ServedPrediction,
    Switch,
    Switched,
    Withdraw,
)
from core.features import Feature, parse_features
from core.features.labels import Label
from service.store.entries import RawEntry
from service.store.records import (
    FORMAT,
    Bounds,
    ChallengeRecord,
    ConfigureRecord,
    OverlapRecord,
    Predicted,
    PromoteRecord,
    Record,
    ResetRecord,
    RowsRecord,
    SaidRecord,
    SwitchRecord,
    WithdrawRecord,
)


class Answer(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The answer to a request, as it is sent to the client and, where the request has an id, stored.

    Attributes:
        format: version of this record.
        version: the version its entry made.
        rows: rows learned after it.
        predictions: a-priori predictions, or those served earlier, one per row; None where a row was refused earlier.
        losses: one per row; None where nothing was said of a row, or it was refused earlier.
        learned: False where the row could only be scored.
        p_true: probability given to each true label, NaN where there was none; empty for regression.
        refusal: why it was refused (409), or None.
        switch: of a step in a change of features, or of overlap rows: the phase (None for rows), how many rows have
            taught the mapping by now, and a warning or None; else None.
        feature_state: of a step in a change of features: where the model stood after it, as it was answered (JSON).
        mapped: False where a row of an overlap was learned by the old model alone.
        joined: the classes that the request added to a model without declared labels, each with its first row.
    """

    format: int
    version: int
    rows: int
    predictions: list[Predicted]
    losses: list[float | None]
    learned: bool = True
    p_true: list[float] = []
    refusal: str | None = None
    switch: tuple[str | None, int, str | None] | None = None
    feature_state: bytes = b""
    mapped: bool = True
    joined: list[tuple[int, Label]] = []

    @property
    def overlap_rows(self) -> int:
        """Rows that have taught the mapping by now; 0 for an answer to anything else."""
        return 0 if self.switch is None else self.switch[1]

    @property
    def new_labels(self) -> list[Label] | None:
        """The classes that the request added; None where there are none."""
        return [label for _, label in self.joined] if self.joined else None

    @property
    def warning(self) -> str | None:
        """What the client of a switch should know, or None."""
        return None if self.switch is None else self.switch[2]


_encoder = msgspec.msgpack.Encoder()
_segments = msgspec.msgpack.Decoder(Record)
_answers = msgspec.msgpack.Decoder(Answer)


class _Versioned(Protocol):
    @property
    def format(self) -> int: ...


Shares = list[tuple[str | int | bool, float]] | None
"""Probabilities as records have them."""
R = TypeVar("R", bound=_Versioned)


def decoded(decoder: "msgspec.msgpack.Decoder[R]", blob: Buffer, what: str) -> R:
    """A record from bytes; ValueError for anything else, or another version."""
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


def _record(segment: Segment) -> tuple[Any, ...]:
    if isinstance(segment, Rows):
        labels = float_bytes(segment.y) if isinstance(segment.y, np.ndarray) else segment.y
        discounts = None if segment.discounts is None else float_bytes(segment.discounts)
        served = None if segment.served is None else (segment.served.prediction, segment.served.probabilities)
        beside = () if segment.served is None else beside_served(segment.served)
        x, n, features = float_bytes(segment.X), len(segment.X), _declared(segment.features)
        plain = segment.space, features, n, x, labels, discounts, served, segment.ids
        weights = None if segment.weights is None else float_bytes(segment.weights)
        if weights is None and beside in ((), (None, None, None)):
            return "rows", FORMAT, *plain
        return "rows", FORMAT, *plain, weights, *beside
    if isinstance(segment, Reset):
        return "reset", FORMAT, segment.ids
    if isinstance(segment, Switch):
        return "switch", FORMAT, segment.action, _declared(segment.features), segment.mapping, segment.ids
    if isinstance(segment, Overlap):
        return "overlap", FORMAT, segment.space, len(segment.X), float_bytes(segment.X), segment.ids
    if isinstance(segment, Configure):
        return "config", FORMAT, segment.changes, segment.ids
    if isinstance(segment, Challenge):
        return "challenge", FORMAT, segment.name, segment.config, segment.most, segment.ids
    if isinstance(segment, Withdraw):
        return "withdraw", FORMAT, segment.name, segment.ids
    if isinstance(segment, Promote):
        return "promote", FORMAT, segment.name, segment.ids, segment.force
    if not segment.digest:
        raise ValueError("the log names a state by its digest")
    return "state", FORMAT, segment.digest, segment.size, segment.source, segment.ids


def _declared(features: Sequence[Feature] | None) -> list[Any] | None:
    return None if features is None else [feature.to_json() for feature in features]


def decode(blob: Buffer, skip: tuple[int, ...] = ()) -> Segment:
    """A segment from bytes.

    Args:
        blob: what ``encode`` gave.
        skip: rows that the store found already seen.

    Raises:
        ValueError: corrupt, or of another format version.
    """
    return _segment(record_of(blob), skip)


def record_of(blob: Buffer) -> Record:
    """The record of a segment.

    Raises:
        ValueError: corrupt, or of another format version.
    """
    record: Record = decoded(_segments, blob, "log segment")
    return record


def _segment(record: Record, skip: tuple[int, ...]) -> Segment:
    if isinstance(record, RowsRecord):
        return _rows(record, skip)
    if isinstance(record, ResetRecord):
        return Reset(record.ids)
    if isinstance(record, SwitchRecord):
        return Switch(record.action, _features(record.features), record.mapping, record.ids)
    if isinstance(record, OverlapRecord):
        return Overlap(record.space, _matrix(record), record.ids, skip)
    if isinstance(record, ConfigureRecord):
        return Configure(record.changes, record.ids)
    if isinstance(record, ChallengeRecord):
        return Challenge(record.name, record.config, record.most, record.ids)
    if isinstance(record, WithdrawRecord):
        return Withdraw(record.name, record.ids)
    if isinstance(record, PromoteRecord):
        return Promote(record.name, record.ids, record.force)
    return Restore(b"", record.source, record.ids, record.digest, record.size)


def _features(declared: list[str | dict[str, Any]] | None) -> tuple[Feature, ...] | None:
    return None if declared is None else parse_features(declared)


def float_bytes(values: Floats) -> bytes:
    """Numbers as little-endian float64 in C order."""
    return np.ascontiguousarray(values, dtype="<f8").tobytes()


Beside = tuple[tuple[Predicted, ...] | None, Bounds, bytes | None]


def beside_served(served: ServedPrediction) -> tuple[Any, ...]:
    """What is kept beside a prediction that was served: baselines, intervals, lag columns; what challengers said."""
    if not (served.by or served.beside):
        return _made_with(served)
    others = [(one.by, one.prediction, one.probabilities, *_made_with(one)) for one in served.beside]
    return *_made_with(served), served.by, others


def _made_with(said: ServedPrediction) -> Beside:
    return said.baselines, said.interval, None if said.lags is None else float_bytes(np.array(said.lags))


def served_from(
    prediction: Predicted,
    shares: Shares,
    kept: Beside,
    by: str,
    beside: Sequence[SaidRecord] = (),
) -> ServedPrediction:
    """A prediction as it was served, from what was kept beside it."""
    baselines, interval, lags = kept
    own = None if shares is None else tuple(shares)
    others = tuple([_said(one) for one in beside])
    return ServedPrediction(prediction, own, baselines, interval, lag_columns(lags), by, others)


def _said(one: SaidRecord) -> ServedPrediction:
    return served_from(one.prediction, one.probabilities, (one.baselines, one.interval, one.lags), one.by)


def lag_columns(kept: bytes | None) -> tuple[float, ...] | None:
    """The lag columns that a prediction was made with."""
    return None if kept is None else tuple(np.frombuffer(kept, dtype="<f8").tolist())


def _matrix(record: RowsRecord | OverlapRecord) -> Floats:
    return np.frombuffer(record.x, dtype="<f8").reshape(record.count, -1)


def _rows(record: RowsRecord, skip: tuple[int, ...]) -> Rows:
    served = None
    if record.served is not None:
        kept = record.baselines, record.interval, record.lags
        served = served_from(*record.served, kept, record.by, record.beside)
    return Rows(
        space=record.space,
        features=_features(record.features),
        X=_matrix(record),
        y=np.frombuffer(record.labels, dtype="<f8") if isinstance(record.labels, bytes) else record.labels,
        discounts=None if record.discounts is None else np.frombuffer(record.discounts, dtype="<f8"),
        served=served,
        ids=record.ids,
        skip=skip,
        weights=None if record.weights is None else np.frombuffer(record.weights, dtype="<f8"),
    )


def entry(raw: RawEntry) -> Entry:
    """A log entry with its segments decoded, in the order of their ordinals."""
    return of_records(raw, [record_of(blob) for _, blob, _ in raw.segments])


def of_records(raw: RawEntry, records: Sequence[Record]) -> Entry:
    """An entry whose segments have these records."""
    skips = [skip for _, _, skip in raw.segments]
    return Entry(raw.version, raw.time_ms, tuple(map(_segment, records, skips)))


# ---------------------------------------------------------------- answers


def outcome_answer(version: int, outcome: Outcome, feature_state: bytes = b"") -> Answer:
    """The answer to the request of an outcome; ``feature_state`` belongs to that of a switch."""
    if isinstance(outcome, Refused):
        return Answer(FORMAT, version, 0, [], [], refusal=outcome.detail)
    if isinstance(outcome, Replaced | Configured):
        return Answer(FORMAT, version, outcome.rows, [], [])
    if isinstance(outcome, Switched):
        step = (outcome.phase, outcome.overlap_rows, outcome.warning)
        return Answer(FORMAT, version, outcome.rows, [], [], switch=step, feature_state=feature_state)
    if isinstance(outcome, Mapped):
        return Answer(FORMAT, version, outcome.rows, [], [], switch=(None, outcome.overlap_rows, None))
    said, losses, learned, p_true = outcome.predictions, losses_of(outcome), outcome.learned, list(outcome.p_true)
    joined = list(outcome.joined)
    return Answer(FORMAT, version, outcome.rows, said, losses, learned, p_true, mapped=outcome.mapped, joined=joined)


def losses_of(learned: Learned) -> list[float | None]:
    """The losses of rows, one per row; None where nothing could be said."""
    losses = learned.losses.tolist()
    if None not in learned.predictions:
        return losses  # type: ignore[no-any-return]
    return [None if said is None else loss for said, loss in zip(learned.predictions, losses, strict=True)]


Item = tuple[str, int, bytes]
"""Id, the version that learned it, and the answer as it is stored."""


def records(segment: Segment, answer: Answer) -> list[tuple[str, bytes]]:
    """What to store with each id of a segment: one record per row, or one for the whole request."""
    ids = segment.ids
    skipped = {*segment.skip} if isinstance(segment, Rows | Overlap) else ()
    kept = [identity for row, identity in enumerate(ids) if row not in skipped] if skipped else ids
    if isinstance(segment, Rows) and len(ids) > 1 and answer.refusal is None:
        return row_records(kept, answer)
    whole = encode_answer(answer)
    return [(identity, whole) for identity in kept]


def row_records(ids: Sequence[str], answer: Answer) -> list[tuple[str, bytes]]:
    """What to store with each of the ids of some rows, of which ``answer`` is the answer to all."""
    return [*zip(ids, _of_rows(answer), strict=True)]


def _of_rows(answer: Answer) -> Iterator[bytes]:
    """The answer to each row by itself, as bytes; it tells the rows after that row."""
    version, learned, count = answer.version, answer.learned, len(answer.predictions)
    rows = range(answer.rows - count + 1, answer.rows + 1) if learned else [answer.rows] * count
    shares = [[share] for share in answer.p_true] if answer.p_true else [[]] * count
    joined: list[list[tuple[int, Label]]] = [[]] * count
    for at, label in answer.joined:
        joined[at] = [(0, label)]
    own = zip(answer.predictions, answer.losses, rows, shares, joined, strict=True)
    for predicted, loss, after, share, new in own:
        one = Answer(FORMAT, version, after, [predicted], [loss], learned, share, mapped=answer.mapped, joined=new)
        yield encode_answer(one)


def encode_answer(answer: Answer) -> bytes:
    """An answer as bytes."""
    return _encoder.encode(answer)


def decode_answer(blob: bytes) -> Answer:
    """An answer from bytes.

    Raises:
        ValueError: corrupt, or of another format version.
    """
    return decoded(_answers, blob, "remembered answer")


def config(blob: bytes) -> dict[str, Any]:
    """A model's configuration as its JSON object.

    Raises:
        ValueError: not JSON, or not an object.
    """
    try:
        return msgspec.json.decode(blob, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"configuration is corrupt: {error}") from error
