"""A model as a deterministic state machine.

    state(v+1) = apply(state(v), entry v+1)

``apply`` sees no clock, no ambient randomness and no I/O. Segments of an entry are applied in order. Neighbouring row
segments that need no special care are learned as one block. This depends only on the entry and the state, so every
replica does the same. A block gives the same bits as its rows for most learners, and equals them up to round-off for
wide ones. If the bits are the same, neighbouring entries may be learned as one block, too (``apply_merged``): each
replica may merge the entries that it happens to read together, and still reaches the same state as one by one.

Each challenger takes every step that the model accepts, separately. Clients get the model's own predictions.
"""

from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import Any, assert_never

import numpy as np

from core.config.changes import interchangeable
from core.contract import Floats
from core.entry import (
    Challenge,
    Configure,
    Entry,
    EntryPositionOf,
    MergedRows,
    Outcome,
    Overlap,
    Promote,
    Reset,
    Restore,
    Rows,
    ServedPrediction,
    Switch,
    Withdraw,
)
from core.features import Feature, Schema
from core.model import learn, save
from core.model.class_answers import ClassAnswers
from core.model.cost import row_exact
from core.model.model import LearnerParts, Model
from core.model.plans import LearnerChange, plan_change
from core.model.rows import BlockRows, Returned, Scored, check_labels, count_unknown, group_into_blocks, plain_until
from core.problems import Conflict, Invalid
from core.switching.overlap import OverlapPeriod
from core.switching.phases import Switching

_due = attrgetter("due")


def apply(model: Model, entry: Entry) -> list[Outcome]:
    """Apply one log entry; one outcome per segment, in order."""
    segments = entry.segments
    if len(segments) == 1 and isinstance(segments[0], Rows):
        return _learn(model, segments, entry.entry_position_of)  # type: ignore[arg-type]
    outcomes: list[Outcome] = []
    for block in group_into_blocks(segments, lambda rows: is_plain(model, rows)):
        if isinstance(block[0], Rows):
            outcomes += _learn(model, block, entry.entry_position_of)  # type: ignore[arg-type]  # neighbours are rows as well
            continue
        try:
            outcomes.append(_step(model, block[0], f"{entry.version}.{len(outcomes)}"))
        except (Invalid, Conflict) as error:
            outcomes.append(Outcome(refusal=str(error)))
    return outcomes


def apply_merged(model: Model, merged: MergedRows, first: int) -> tuple[int, Outcome | None]:
    """Apply neighbouring entries as one block, as far as that gives the same bits as applying them one by one.

    Starts at entry ``first``, counted from 0. Returns the next entry, and one outcome for all rows before it. If entry
    ``first`` must be applied separately, changes nothing and returns ``first`` and None.
    """
    stop = first
    if row_exact(model):
        stop = plain_until(merged, first, model.feedback_schema, None if model.regression else model.labels)
    if stop == first:
        return first, None
    entry_position_of = partial(merged.entry_position_of, model.rows - merged.start(first))
    (learned,) = _learn(model, [merged.part(first, stop)], entry_position_of)
    return stop, learned


# ---------------------------------------------------------------- rows


def is_plain(model: Model, rows: Rows) -> bool:
    """Whether rows need no special care in the present state: they are of the feedback space, with known labels only,
    and none of them must be skipped.
    """
    schema = model.feedback_schema
    return schema is not None and rows.space == schema.id and not rows.skip and _labels_known(model, rows)


def _labels_known(model: Model, rows: Rows) -> bool:
    answers = model.own.answers
    return answers.regression or answers.seen.knows(rows.y)  # type: ignore[arg-type]  # of classification: labels


def _learn(model: Model, segments: Sequence[Rows], entry_position_of: EntryPositionOf) -> list[Outcome]:
    """Predict, learn and score the rows of one block."""
    first, switching = segments[0], model.own.switching
    usual = len(segments) > 1 or (first.space in switching.routes and _labels_known(model, first))
    if not usual and (refused := _accept(model, first)) is not None:
        return [Outcome(refusal=refused)]
    rows, classes = _rows_of(segments), 0 if usual else len(model.labels)
    observes = model.own.config.algorithm.observes
    if observes:
        rows = learn.judged_outside(model, rows)
    switching = model.own.switching  # the first rows determine the space
    route, now = switching.routes.get(first.space), switching.now
    if route is not None and route.schema.exact:
        count_unknown(model.unknown, route.schema, rows.raw)
    scored = learn.learn_together(model, first.space, rows, entry_position_of)
    model.due_rows += sum(map(_due, segments))
    learned = _outcomes(model, segments, scored, rows.returned, route is not None and not observes)
    if not usual and len(model.labels) > classes and model.config.labels is None:
        learned[0].joined = [*model.labels.first_rows(rows.labels, classes)]
    if route is not None and route.model is not now and isinstance(now, OverlapPeriod):
        for outcome in learned:
            outcome.mapped = False
    return learned


def _rows_of(segments: Sequence[Rows]) -> BlockRows:
    """The rows of segments that are learned as one block; only a segment that is a block by itself may skip rows."""
    first = segments[0]
    returned: list[ServedPrediction | None] | None
    if len(segments) == 1 and not first.skip:
        X, returned = np.ascontiguousarray(first.X), None if first.served is None else [first.served] * len(first.X)
        outside = None if first.served is None and first.outside is None else _outside(segments)
        return BlockRows(X, first.y, first.discounts, first.weights, returned, outside=outside)
    raw = np.concatenate([rows.X for rows in segments])
    labels = [label for rows in segments for label in rows.y]
    discounts, weights = _column([rows.discounts for rows in segments]), _column([rows.weights for rows in segments])
    returned = [rows.served for rows in segments for _ in range(len(rows.X))]
    outside = _outside(segments)
    if first.skip:
        kept = np.setdiff1d(np.arange(len(raw)), first.skip)
        raw, labels, returned = raw[kept], [labels[at] for at in kept], [returned[at] for at in kept]
        outside = None if outside is None else [outside[at] for at in kept]
        discounts, weights = (None if given is None else given[kept] for given in (discounts, weights))
    return BlockRows(raw, labels, discounts, weights, returned if any(returned) else None, outside=outside)


def _outside(segments: Sequence[Rows]) -> Sequence[Any] | None:
    """The outside model's prediction for each row, None for rows without one; None if no row has one."""
    if all(rows.outside is None and (rows.served is None or rows.served.outside is None) for rows in segments):
        return None
    found = list[Any]()
    for rows in segments:
        kept = None if rows.served is None else rows.served.outside
        own = rows.outside.tolist() if isinstance(rows.outside, np.ndarray) else rows.outside
        known = None if own is None else [one if one == one else None for one in own]  # noqa: PLR0124  NaN: none
        found += known or [kept] * len(rows.X)
    return found


def _column(given: Sequence[Floats | None]) -> Floats | None:
    """Discounts or weights of the rows of several segments: all segments have them, or none."""
    found = [one for one in given if one is not None]
    return np.concatenate(found) if found else None


def _accept(model: Model, rows: Rows) -> str | None:
    """Set the space if this segment proposes it, or was in flight when its space was dropped; returns the refusal of a
    segment that earlier entries have made impossible, else None.
    """
    switching, space = model.own.switching, None
    # Without a space, no learner can add a class that a row brings, even if the row is only scored.
    scored = switching.now is not None and rows.served is not None and rows.space in switching.retired_spaces
    if rows.space not in switching.routes and not scored:
        # Every phase has a route for its own space, so rows that are accepted without a route are the first.
        assert switching.now is None or switching.now.schema.id != rows.space
        if switching.now is None and rows.features is not None:
            space = Schema(rows.features)
        elif switching.now is None and not rows.due:  # a label that no client has sent determines no features
            space = switching.in_flight
        if space is None or space.id != rows.space:
            return "the model's features have changed since the rows were sent"
    if not _labels_known(model, rows) and (refused := check_labels(rows, model.labels, model.configs)) is not None:
        return refused
    if space is not None:
        for parts in model.learners:
            assert not len(parts.labels)
            switching = Switching(parts.config, space)
            switching.remember(parts.switching)  # spaces before a reset or a restored state
            parts.enter(switching)
    return None


def _outcomes(
    model: Model, segments: Sequence[Rows], scored: Scored, returned: Returned | None, learned: bool
) -> list[Outcome]:
    answers, losses, p_true = model.own.answers, scored.losses.tolist(), scored.p_true.tolist()
    names, rows = answers.named(scored.predicted), model.own.rows_before_start + answers.metrics.rows
    if returned is not None:
        names = [name if one is None else one.prediction for name, one in zip(names, returned, strict=True)]
    if None in names:
        losses = [None if name is None else loss for name, loss in zip(names, losses, strict=True)]
    outcomes: list[Outcome] = []
    start, rows = 0, rows - len(names)
    for segment in segments:
        stop = start + len(segment.X) - len(segment.skip)
        outcomes.append(Outcome(rows + stop, names[start:stop], losses[start:stop], learned, p_true[start:stop]))
        start = stop
    return outcomes


# ---------------------------------------------------------------- steps


_Step = Overlap | Switch | Reset | Restore | Configure | Challenge | Withdraw | Promote
"""A segment without rows to learn."""


def _step(model: Model, segment: _Step, learner_id: str) -> Outcome:
    """Apply a segment without rows, at its position in the log.

    ``Invalid`` or ``Conflict`` if it cannot be applied in the present state.
    """
    match segment:
        case Overlap():
            return _map(model, segment)
        case Switch():
            return _switch(model, segment)
        case Reset():
            _reset(model)
            return Outcome()
        case Restore():
            _restore(model, segment, learner_id)
            return Outcome(model.rows)
        case Configure():
            _configure(model, segment)
        case Challenge():
            return Outcome(model.rows, learned=learn.challenge(model, segment, learner_id))
        case Withdraw():
            learn.withdraw(model, segment)
        case Promote():
            learn.promote_asked(model, segment)
        case _:
            assert_never(segment)
    return Outcome(model.rows)


def _switch(model: Model, segment: Switch) -> Outcome:
    """Take a step in a change of features; the outcome has the warning of the model's own learner."""
    if (refusal := model.own.switching.refusal(segment.action, segment.features)) is not None:
        raise Conflict(refusal)
    warnings, classes = [], len(model.labels)
    for parts in model.learners:
        switching = parts.switching
        if segment.action == "complete":
            warnings.append(switching.complete(model.rows, classes))
        elif segment.action == "abort":
            switching.abort()
        elif segment.features is not None:
            switching.begin(segment.features, segment.mapping, classes)
        if segment.action == "complete" and parts.drift_response is not None and switching.now is not None:
            parts.drift_response.move(switching.now.schema)
        parts.metrics.mark(model.rows, "switch", action=segment.action)
    if segment.action == "complete" and model.prediction_schema is not None:
        names = model.prediction_schema.names
        model.unknown = {name: count for name, count in model.unknown.items() if name in names}
    overlap_rows = model.own.switching.overlap_rows
    return Outcome(model.rows, phase=model.phase, overlap_rows=overlap_rows, warning=warnings[0] if warnings else None)


def _map(model: Model, segment: Overlap) -> Outcome:
    """Train the mappings of an overlap on rows without labels."""
    if (refusal := model.own.switching.refusal_of_overlap(segment.space)) is not None:
        raise Conflict(refusal)
    raw = np.ascontiguousarray(np.delete(segment.X, segment.skip, axis=0) if segment.skip else segment.X)
    for parts in model.learners:
        assert isinstance(parts.switching.now, OverlapPeriod)
        parts.switching.now.map(raw)
    return Outcome(model.rows, overlap_rows=model.own.switching.overlap_rows)


def _reset(model: Model) -> None:
    """Return to a state without learned rows; after a change of features, the new ones stay."""
    model.own = _reset_parts(model.own)
    for one in model.challengers.values():
        one.parts = _reset_parts(one.parts)
    model.unknown, model.outside, model.due_rows = {}, None, 0
    learn.compare_anew(model)


def _reset_parts(parts: LearnerParts) -> LearnerParts:
    parts.switching.reset()
    first = LearnerParts.first(parts.config, parts.switching, parts.learner_id)
    if isinstance(first.answers, ClassAnswers) and parts.config.labels is not None:
        first.answers.retire(parts.answers.retired)
    first.metrics.mark(0, "reset")
    return first


def _restore(model: Model, segment: Restore, learner_id: str) -> None:
    """Continue with the learners of the saved state; drift events stay, and earlier spaces are remembered."""
    restored = _restored(model, segment, learner_id)
    for parts in restored.learners:
        parts.switching.remember(model.own.switching)
    model.own, model.challengers, model.unknown = restored.own, restored.challengers, restored.unknown
    model.outside, model.due_rows = restored.outside, restored.due_rows
    model.own.metrics.mark(model.rows, segment.source)


def _restored(model: Model, segment: Restore, learner_id: str) -> Model:
    if len(segment.state) < segment.size:
        raise RuntimeError(f"the state {segment.digest} has not been read")
    try:
        restored, _ = save.from_bytes(segment.state)
    except ValueError as error:
        raise Conflict(str(error)) from error
    # A snapshot is of this model, but may have another configuration if it is older than a promotion.
    if segment.source == "import" and not interchangeable(restored.config, model.config):
        raise Conflict("the state is of a model with another configuration")
    # Learner ids of two logs have nothing in common; without any, all that waits was made by the one own learner.
    has_ids = any(parts.learner_id for parts in (*model.learners, *restored.learners))
    of_another_log = has_ids and segment.source == "import"
    for at, parts in enumerate(restored.learners):
        parts.end_episodes()  # the newest event here need not be the one of the present episode
        if of_another_log:
            parts.learner_id = f"{learner_id}.{at}"
    return restored


# ---------------------------------------------------------------- settings


def _configure(model: Model, segment: Configure) -> None:
    """Switch to another configuration; if costs change, comparisons restart, as they would mix different losses."""
    try:
        changes = plan_change(model, segment.changes)
    except (Invalid, Conflict) as error:
        raise Conflict(f"the model has changed meanwhile: {error}") from error
    before = model.config
    for parts, change in zip(model.learners, changes, strict=True):
        _change(parts, change)
    if (before.class_costs, before.cost_max) != (model.config.class_costs, model.config.cost_max):
        learn.compare_anew(model)


def _change(parts: LearnerParts, change: LearnerChange) -> None:
    """Switch one learner to another configuration, if it differs.

    New class costs change which predictions are errors: the error-rate test restarts, or it would report a drift.
    """
    if not change.fields:
        return
    config, switching = change.config, parts.switching
    other_errors = config.class_costs != parts.config.class_costs
    parts.config = config
    if isinstance(parts.answers, ClassAnswers):
        parts.answers.configure(config)
        parts.answers.retire(change.retired)
    switching.configure(config)
    if parts.drift_response is not None and switching.now is not None:
        parts.drift_response.configure(config, switching.now.schema)
        if other_errors:
            parts.drift_response.detector.forget_errors()
    if change.features is not None:
        _extend(parts, change.features)
    parts.metrics.mark(parts.rows, "configure", fields=change.fields)


def _extend(parts: LearnerParts, features: tuple[Feature, ...]) -> None:
    """Continue with additional categories of features in use, after ``Switching`` has found no obstacle."""
    before = parts.switching.current
    parts.switching.extend(features, len(parts.labels))
    assert parts.drift_response is not None
    parts.drift_response.extend(before, parts.switching.current)
