"""The contents of a log entry, and the outcomes of applying it.

The entry that makes version v is everything that was committed together. Each *segment* is one request, or single
rows that arrived together, and is learned or refused as a whole. ``service.store.log.codec`` turns segments into bytes
and back; this file defines their meaning only.

    Entry(version, time_ms, segments)
      segment = Rows      feedback rows, raw, in the feature space they were validated against
              | Reset     back to the first state
              | Restore   take over a state (restore of a snapshot, or import)
              | Switch    begin, complete or abort a change of features
              | Overlap   rows with the features of both spaces, without labels
              | Configure a change of the configuration
              | Challenge adds a challenger
              | Withdraw  deletes one
              | Promote   makes one the model's own learner

The outcome of a segment is an ``Outcome``: one per segment, in the same order.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from core.contract import Buffer, Floats, IntervalBounds, Label
from core.features.feature import Feature


class ServedPrediction(Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A tracked prediction as the client received it; this prediction is scored.

    The log stores its fields, and those of ``Outcome``, by position.

    ``baselines``: what the metrics' baselines (``no_change`` and ``majority``, or ``last_value``) predicted at that
    moment: each a label, a number, or None if it had nothing to predict. None instead of a tuple: unknown.
    """

    prediction: Label | float | None  # None where no label was known
    probabilities: tuple[tuple[Label, float], ...] | None = None
    baselines: tuple[Label | float | None, ...] | None = None
    interval: IntervalBounds | None = None  # of a regression, as it was at the time
    lags: tuple[float, ...] | None = None  # the lag columns it was made with, () before the first row; None: no lags
    by: str = ""  # the learner that made it (LearnerParts.learner_id)
    challengers: "tuple[ServedPrediction, ...]" = ()  # their predictions for the same row, not returned to the client
    outside: Label | float | None = None  # what a model outside Onepass predicted, as sent by the client
    scored: int | None = None  # rows that had been scored; of a regression, by the intervals; None: unknown
    past: tuple[int | float, ...] | None = None  # what else its learner keeps for the label; None: nothing

    def made_by(self, learner_id: str) -> "ServedPrediction | None":
        """The prediction that a learner made for the row; None if the learner did not exist then."""
        if self.by == learner_id:
            return self
        return next((one for one in self.challengers if one.by == learner_id), None)


class Rows(Struct, frozen=True):
    """Feedback rows of one request."""

    space: str  # id of the feature space they were validated against
    features: tuple[Feature, ...] | None  # proposed by the first row, if the model had none yet
    X: Floats  # (n, F) raw values in schema order: numbers, category indices, NaN for missing
    y: "list[Label] | Floats"  # n labels: values for classification, float64 (n,) for regression
    discounts: Floats | None = None  # (n,)
    served: ServedPrediction | None = None  # for a tracked row (n = 1)
    ids: tuple[str, ...] = ()  # one per row, or a single one for the whole request, or none
    skip: tuple[int, ...] = ()  # rows that must not be learned because their id had been seen before
    weights: Floats | None = None  # (n,): how many times each row counts in what is learned
    outside: "list[Label | None] | Floats | None" = None  # n predictions of a model outside Onepass, None or NaN: none
    due: bool = False  # whether the label is the one of ``labels_due``, because none arrived in time


class Reset(Struct, frozen=True):
    """Back to the first state: rows 0, metrics 0; the version continues."""

    ids: tuple[str, ...] = ()


class Restore(Struct, frozen=True):
    """Take over a state: its bytes from ``core.model.save.to_bytes``, or empty if they have not been read yet.

    The log refers to them by their ``digest`` (blake2b-16, hexadecimal); ``size`` is their number.
    """

    state: Buffer
    source: str = "restore"  # named in the metrics' mark: "restore" (a snapshot of the model) or "import"
    ids: tuple[str, ...] = ()
    digest: str = ""
    size: int = 0


class Switch(Struct, frozen=True):
    """A step in a change of features. "begin" has the whole new space, and how to recover the old features from the new
    ones; for other steps both are None.
    """

    action: Literal["begin", "complete", "abort"]
    features: tuple[Feature, ...] | None = None
    mapping: Literal["linear", "kernel"] | None = None
    ids: tuple[str, ...] = ()


class Overlap(Struct, frozen=True):
    """Unlabelled rows of an overlap period, in the union space: they only train the mapping; see ``Rows``."""

    space: str
    X: Floats
    ids: tuple[str, ...] = ()
    skip: tuple[int, ...] = ()


class Configure(Struct, frozen=True):
    """A change of the configuration: new values by field as clients send them, checked by core.config.changes."""

    changes: Mapping[str, Any]
    ids: tuple[str, ...] = ()


class Challenge(Struct, frozen=True):
    """Add a challenger, or change when an existing one is promoted."""

    name: str
    config: Mapping[str, Any]  # its own fields including "promote", checked by core.config.challengers
    most: int  # how many challengers the model may have, including this one
    ids: tuple[str, ...] = ()


class Withdraw(Struct, frozen=True):
    """Delete a challenger."""

    name: str
    ids: tuple[str, ...] = ()


class Promote(Struct, frozen=True):
    """Make a challenger the model's own learner; the former one becomes the challenger "previous".

    ``force``: even if it is not proven to be better.
    """

    name: str
    ids: tuple[str, ...] = ()
    force: bool = True


EntryPositionOf = Callable[[int], tuple[int, int]]
"""Version and time of the entry of a row; the first row learned is 1."""
Segment = Rows | Reset | Restore | Switch | Overlap | Configure | Challenge | Withdraw | Promote


class Entry(Struct, frozen=True):
    """Everything that is committed together: at least one segment, the version that the entry makes, and the time of
    the append by the store's clock, in milliseconds since 1970.
    """

    version: int
    time_ms: int
    segments: tuple[Segment, ...]

    def entry_position_of(self, row: int) -> tuple[int, int]:
        """Version and time of the entry of a row."""
        del row
        return self.version, self.time_ms


class MergedRows(Struct, frozen=True):
    """The rows of neighbouring entries of plain rows, joined, for ``core.model.apply.apply_merged``."""

    rows: Rows  # all rows, of one space; no proposed names, nothing served, nothing to skip, no ids
    version: int  # the version that the first entry makes; each further entry makes the next one
    times_ms: Sequence[int]  # of each entry
    stops: Sequence[int]  # for each entry, the number of rows up to its end

    def start(self, entry: int) -> int:
        """The number of rows before an entry; entries count from 0."""
        return self.stops[entry - 1] if entry else 0

    def entry_of(self, row: int) -> int:
        """The entry that contains a row; entries count from 0."""
        return bisect_right(self.stops, row)

    def entry_position_of(self, before: int, row: int) -> tuple[int, int]:
        """Version and time of the entry of a row; rows count from 1, and ``before`` rows precede these."""
        at = self.entry_of(row - before - 1)
        return self.version + at, self.times_ms[at]

    def part(self, first: int, stop: int) -> Rows:
        """The rows of the entries from ``first`` to before ``stop``, as one segment."""
        rows = self.rows
        part = slice(self.start(first), self.start(stop))
        discounts = None if rows.discounts is None else rows.discounts[part]
        weights = None if rows.weights is None else rows.weights[part]
        return Rows(rows.space, None, rows.X[part], rows.y[part], discounts, weights=weights)


class Outcome(Struct, array_like=True):
    """The outcome of a segment: the answer to its client, which is also remembered with its ids.

    Predictions, losses and ``p_true`` have one value per labelled row that was not skipped; for a tracked row it is
    that of the prediction that was served.
    """

    rows: int = 0  # rows the model has learned after it; 0 if it was refused
    predictions: list[Label | float | None] = []
    losses: list[float | None] = []  # 0/1 loss or squared error, None if there was no prediction
    learned: bool = True  # False: the row was only scored (its feature space is gone); the challenger existed already
    p_true: list[float] = []  # probability of the true label, NaN without a prediction; [] for regression
    mapped: bool = True  # False if only the old model learned rows of an overlap, because they are of the old space
    joined: list[tuple[int, Label]] = []  # classes added to a model without declared labels, each with its first row
    refusal: str | None = None  # why an earlier entry made the segment impossible (409); nothing changed
    phase: str | None = None  # the phase after a step in a change of features
    overlap_rows: int | None = None  # rows that have trained the mapping, after such a step or unlabelled overlap rows
    warning: str | None = None  # a warning for the client of such a step
    version: int = 0  # the version that its entry made; the service fills it in
    feature_state: bytes = b""  # the feature spaces after such a step, as JSON; the service fills it in
