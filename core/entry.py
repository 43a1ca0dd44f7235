"""The contents of a log entry, and the outcomes of applying it.

The entry that makes version v is everything that was committed together. Each *segment* is one request:
learned whole or refused whole. ``service.store.codec`` turns segments into bytes and back; this file
defines their meaning only.

    Entry(version, time_ms, segments)
      segment = Rows      feedback rows, raw, in the feature space they were validated against
              | Reset     back to the first state
              | Restore   take over a state (restore of a snapshot, or import)
              | Switch    begin, complete or abort a change of features
              | Overlap   rows with the features of both spaces, without labels
              | Configure a change of the configuration
              | Challenge puts a challenger beside the model
              | Withdraw  takes one away
              | Promote   makes one the model's own learner

    outcome = Learned | Refused | Replaced | Switched | Mapped | Configured     one per segment, in the same order
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

from core.contract import Buffer, Floats
from core.features.feature import Feature
from core.features.labels import Label
from core.intervals.levels import Told


@dataclass(frozen=True, slots=True)
class ServedPrediction:
    """A tracked prediction as the client received it; this is what is scored.

    Attributes:
        prediction: the label or number, or None where no label was known.
        probabilities: the probabilities as (label, probability) pairs, or None.
        baselines: what the baselines of the metrics said at that moment, each a label, a number or None where it had
            nothing to say: ``no_change`` and ``majority``, or ``last_value``. None: nothing is known of them.
        interval: of a regression, low and high of each of ``core.intervals.levels.LEVELS`` as they stood then; or None.
        lags: lag columns it was made with (``core.features.lags``), () before the first row; None: the model has none.
        by: the learner that made it (``ModelState.born``).
        beside: what the challengers said of the row then; the client was told none of it.
    """

    prediction: Label | float | None
    probabilities: tuple[tuple[Label, float], ...] | None = None
    baselines: tuple[Label | float | None, ...] | None = None
    interval: Told | None = None
    lags: tuple[float, ...] | None = None
    by: str = ""
    beside: "tuple[ServedPrediction, ...]" = ()

    def said_by(self, learner: str) -> "ServedPrediction | None":
        """What a learner said of the row then; None where it was not there."""
        if self.by == learner:
            return self
        return next((one for one in self.beside if one.by == learner), None)


@dataclass(frozen=True, slots=True)
class Rows:
    """Feedback rows of one request.

    Attributes:
        space: id of the feature space the rows were validated against (``Schema.id``).
        features: the proposed features where the model had none yet (the first row fixes them), else None.
        X: (n, F) raw values in schema order: numbers, category indices, NaN for missing.
        y: n labels: values for classification, float64 (n,) for regression.
        discounts: (n,) or None.
        weights: (n,) or None: how many times each row counts in what is learned.
        served: the prediction that was served for a tracked row (n = 1), or None.
        ids: one id per row, or a single id for the whole request, or () where the client gave none.
        skip: indices of rows that must not be learned because their id had been seen before.
    """

    space: str
    features: tuple[Feature, ...] | None
    X: Floats
    y: "list[Label] | Floats"
    discounts: Floats | None = None
    served: ServedPrediction | None = None
    ids: tuple[str, ...] = ()
    skip: tuple[int, ...] = ()
    weights: Floats | None = None


@dataclass(frozen=True, slots=True)
class Reset:
    """Back to the first state: rows 0, metrics 0; the version goes on."""

    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Restore:
    """Take over a state.

    Attributes:
        state: the state's bytes as ``Machine.to_bytes`` gave them; empty where they have not been read yet.
        source: where the state is from, for the marks of the metrics: "restore" (a snapshot of the model) or "import".
        digest: of the bytes (blake2b-16, hexadecimal), by which the log names them.
        size: their number.
    """

    state: Buffer
    source: str = "restore"
    ids: tuple[str, ...] = ()
    digest: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class Switch:
    """A step in a change of features.

    Attributes:
        action: what is done.
        features: the whole new space, for "begin"; else None.
        mapping: how the old features are recovered from the new ones, for "begin"; else None.
    """

    action: Literal["begin", "complete", "abort"]
    features: tuple[Feature, ...] | None = None
    mapping: Literal["linear", "kernel"] | None = None
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Overlap:
    """Unlabelled rows of an overlap period: they train the mapping only.

    Attributes:
        space: id of the union space they were validated against.
        X: (n, F) raw values of the union space, as in ``Rows``.
        skip: indices of rows that must not be learned because their id had been seen before.
    """

    space: str
    X: Floats
    ids: tuple[str, ...] = ()
    skip: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Configure:
    """A change of the configuration.

    Attributes:
        changes: new values by field, as a client sent them and as ``core.config.changed`` has taken them.
    """

    changes: Mapping[str, Any]
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Challenge:
    """Put a challenger beside the model, or change when the one of that name is promoted.

    Attributes:
        name: what it is called.
        config: its own fields, as ``core.config.challenging`` has taken them; ``promote`` among them.
        most: how many challengers the model may have with it.
    """

    name: str
    config: Mapping[str, Any]
    most: int
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Take a challenger away."""

    name: str
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Promote:
    """Make a challenger the model's own learner; the former one becomes the challenger "previous".

    ``force``: also one that has not been shown to be better.
    """

    name: str
    ids: tuple[str, ...] = ()
    force: bool = True


Segment = Rows | Reset | Restore | Switch | Overlap | Configure | Challenge | Withdraw | Promote


@dataclass(frozen=True, slots=True)
class Entry:
    """Everything committed together.

    Attributes:
        version: the version this entry makes.
        time_ms: the store's clock when it was appended, milliseconds since the epoch.
        segments: at least one.
    """

    version: int
    time_ms: int
    segments: tuple[Segment, ...]

    def place_of(self, row: int) -> tuple[int, int]:
        """Version and time of the entry of a row."""
        del row
        return self.version, self.time_ms


@dataclass(frozen=True, slots=True)
class MergedRows:
    """The rows of neighbouring entries of plain rows, joined, for ``Machine.apply_merged``.

    Attributes:
        rows: all of them, of one space; no proposed names, nothing served, nothing to skip; without their ids.
        version: the version that the first entry makes; each of the others makes the next one.
        times_ms: of each entry.
        stops: for each entry the number of rows up to its end.
    """

    rows: Rows
    version: int
    times_ms: Sequence[int]
    stops: Sequence[int]

    def start(self, entry: int) -> int:
        """The number of rows before an entry, which is counted from 0."""
        return self.stops[entry - 1] if entry else 0

    def entry_of(self, row: int) -> int:
        """The entry, counted from 0, that a row is in."""
        return bisect_right(self.stops, row)

    def part(self, first: int, stop: int) -> Rows:
        """The rows of the entries from ``first`` to before ``stop``, as one segment."""
        rows = self.rows
        part = slice(self.start(first), self.start(stop))
        discounts = None if rows.discounts is None else rows.discounts[part]
        weights = None if rows.weights is None else rows.weights[part]
        return Rows(rows.space, None, rows.X[part], rows.y[part], discounts, weights=weights)


class MergedPlaces(NamedTuple):
    """Where the rows of neighbouring entries are on the log.

    Attributes:
        merged: the entries.
        before: rows that the model had learned before the first of them.
    """

    merged: MergedRows
    before: int

    def place_of(self, row: int) -> tuple[int, int]:
        """Version and time of the entry of a row; the first row learned is 1."""
        at = self.merged.entry_of(row - self.before - 1)
        return self.merged.version + at, self.merged.times_ms[at]


Places = Entry | MergedPlaces
"""Knows version and time of the entry of each row."""


class Learned(NamedTuple):
    """The rows of a segment were tested, then trained.

    Attributes:
        predictions: one per row that was not skipped: label, number or None; for a tracked row the one that was served.
        losses: 0/1 loss or squared error of each, NaN where nothing was said; float64 (n,).
        rows: number of rows the model has learned after this segment.
        learned: False where a row could only be scored (its feature space is gone).
        p_true: probability that each prediction gave to the true label, NaN where nothing was said; () for regression.
        mapped: False where rows of an overlap were learned by the old model alone, since they are of the old space.
        joined: the classes that these rows have added to a model without declared labels, each with its first row.
    """

    predictions: list[Any]
    losses: NDArray[Any]
    rows: int
    learned: bool = True
    p_true: Sequence[float] = ()
    mapped: bool = True
    joined: Sequence[tuple[int, Label]] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """The segment was made impossible by an entry before it; nothing changed. Answered as 409."""

    detail: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """The state was reset or restored."""

    rows: int


@dataclass(frozen=True, slots=True)
class Switched:
    """A step in a change of features was made.

    Attributes:
        phase: the phase it led to.
        overlap_rows: rows that have trained the mapping by now.
        rows: rows learned by the model.
        warning: what the client should know, or None.
    """

    phase: str
    overlap_rows: int
    rows: int
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class Mapped:
    """Unlabelled overlap rows have trained the mapping.

    Attributes:
        taught: how many of the segment's rows.
        overlap_rows: how many in all.
        rows: rows learned by the model, which these are not.
    """

    taught: int
    overlap_rows: int
    rows: int


@dataclass(frozen=True, slots=True)
class Configured:
    """The configuration is the one that was asked for."""

    rows: int


Outcome = Learned | Refused | Replaced | Switched | Mapped | Configured
