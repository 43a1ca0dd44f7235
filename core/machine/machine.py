"""One model as one deterministic state machine.

    state(v+1) = apply(state(v), entry v+1)

``apply`` sees no clock, no ambient randomness and no I/O. Segments of an entry are applied in order. Neighbouring
row segments that need no special care are learned as one block. That depends on the entry and the state only, so
every replica does the same; and a block is its rows, bit for bit for most learners, to round-off for the wide ones.
Where it is bit for bit, neighbouring entries may be learned as one block as well (``apply_merged``): each replica may
merge what it happens to read together, and still has the state of one entry after the other.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from core.config_changes import interchangeable
from core.drift.episodes import Episodes
from core.drift.outbox import joined_alarm, of_alarm
from core.entry import (
    UPGRADE,
    Configure,
    Configured,
    Entry,
    Learned,
    Mapped,
    MergedRows,
    Outcome,
    Overlap,
    Refused,
    Replaced,
    Reset,
    Restore,
    Rows,
    ServedPrediction,
    Switch,
    Switched,
)
from core.intervals.conformal import as_told
from core.machine.acceptance import check_labels, check_space, group_into_blocks, plain_until
from core.machine.block_rows import rows_of
from core.machine.configuring import Change, change_of
from core.machine.late_labels import classes_as_served, numbers_as_served
from core.machine.readings import Readings
from core.machine.training import (
    Scored,
    TrainingBlock,
    learn_classes,
    learn_numbers,
    of_classes,
    unpredicted_numbers,
)
from core.metrics import RegressionMetrics
from core.problems import Conflict, Invalid
from core.switching.feature_recovery import Kind
from core.switching.overlap import OverlapPeriod
from core.switching.phases import Action, Switching


class Machine(Readings):
    """The state of one model, and what log entries and readers do with it."""

    # ---------------------------------------------------------------- apply

    def apply(self, entry: Entry) -> list[Outcome]:
        """Apply one log entry; one outcome per segment, in order."""
        outcomes: list[Outcome] = []
        alone = len(entry.segments) == 1
        for block in [entry.segments] if alone else group_into_blocks(entry.segments, self._is_plain):
            first = block[0]
            if isinstance(first, Rows):
                outcomes += self._learn(cast("Sequence[Rows]", block))
                if self.drift_response is not None and self.drift_response.alarms:
                    self._report_alarms(lambda _row: (entry.version, entry.time_ms))
            elif isinstance(first, Reset):
                outcomes.append(self._reset())
            elif isinstance(first, Restore):
                outcomes.append(self._restore(first))
            elif isinstance(first, Switch):
                outcomes.append(self._switch(first))
            elif isinstance(first, Configure):
                outcomes.append(self._configure(first))
            else:
                outcomes.append(self._map(first))
        return outcomes

    def apply_merged(self, merged: MergedRows, first: int) -> tuple[int, Learned | None]:
        """Apply neighbouring entries as one block, as far as that gives the bits of applying them one by one.

        Args:
            merged: their rows.
            first: the entry that is next, from 0.

        Returns:
            The entry that is next now, and what became of the rows before it. It is ``first``, and nothing has changed,
            where that entry has to be applied by itself.
        """
        stop, now = first, self.switching.now
        if now is not None and now.row_exact:
            stop = plain_until(merged, first, self.feedback_schema, None if self.regression else self.labels)
        if stop == first:
            return first, None
        before = self.rows - merged.start(first)
        (learned,) = self._learn([merged.part(first, stop)])
        assert isinstance(learned, Learned)
        if self.drift_response is not None and self.drift_response.alarms:

            def entry_of(row: int) -> tuple[int, int]:
                at = merged.entry_of(row - before - 1)
                return merged.version + at, merged.times_ms[at]

            self._report_alarms(entry_of)
        return stop, learned

    def _is_plain(self, rows: Rows) -> bool:
        """Whether the rows are of the space of feedback, with known labels only, none of them to be skipped."""
        schema = self.feedback_schema
        if schema is None or rows.space != schema.id or rows.skip:
            return False
        return self.regression or self.labels.knows(rows.y)  # type: ignore[arg-type]

    def _learn(self, segments: Sequence[Rows]) -> list[Outcome]:
        """Test then train on the rows of one block, and score them."""
        first = segments[0]
        if len(segments) == 1 and (refused := self._accept(first)) is not None:
            return [refused]
        route = self.switching.routes.get(first.space)
        raw, labels, (discounts, weights), served = rows_of(segments)
        if route is None or self.drift_response is None:
            scored = self._only_labels(labels)
        else:
            if raw.shape != (len(labels), route.schema.raw_width):
                raise ValueError(f"rows of shape {raw.shape} with {len(labels)} labels are not of this feature space")
            self.unknown.absorb(route.schema, raw)
            held = self.label_range
            told = None if served is None else route.told(served)
            given = raw, discounts, weights, self.rows, held, told
            block = TrainingBlock(route, self.drift_response, self.answers, *given)
            if self.regression:
                scored = learn_numbers(block, np.ascontiguousarray(labels, dtype=np.float64))
            else:
                scored = learn_classes(block, labels)
        self.rows += len(raw)
        scored = self._score(scored, served)
        learned = self._outcomes(segments, scored, served, route is not None)
        if isinstance(self.pipeline, OverlapPeriod) and route is not None and route.model is not self.pipeline:
            return [outcome._replace(mapped=False) for outcome in learned]
        return [*learned]

    def _accept(self, rows: Rows) -> Refused | None:
        """Fix the space if this segment proposes it; refuse what earlier entries have made impossible."""
        known = rows.space in self.switching.routes
        if known or (rows.served is not None and rows.space in self.switching.retired):
            return check_labels(rows, self.labels, self.config)
        space = check_space(rows, self.prediction_schema)
        if isinstance(space, Refused):
            return space
        if (refused := check_labels(rows, self.labels, self.config)) is None:
            # Every phase has a route for its own space: rows that are accepted without one are the first.
            assert self.switching.now is None
            self.enter(Switching(self.config, space))
        return refused

    def _only_labels(self, labels: Any) -> Scored:
        """Tracked rows of a space that is gone: the labels, to be scored by the predictions that were served."""
        if self.label_range is not None:
            return unpredicted_numbers(np.ascontiguousarray(labels, dtype=np.float64), self.label_range)
        for label in labels:
            if self.labels.index(label) < 0:
                self.answers.add(label)
                if self.pipeline is not None and self.drift_response is not None:
                    self.pipeline.add_class()
                    self.drift_response.add_class()
        return of_classes(self.answers.unsaid(labels))

    def _score(self, scored: Scored, served: list[ServedPrediction | None] | None) -> Scored:
        """Add rows to the metrics, residuals to the intervals; as they were scored, tracked ones by what was served."""
        metrics = self.metrics
        if isinstance(metrics, RegressionMetrics):
            assert self.intervals is not None
            if served is None:
                metrics.absorb(scored.predicted, scored.truth)
                self.intervals.absorb(scored.predicted, scored.truth)
            else:
                scored, number = numbers_as_served(scored, served)
                metrics.absorb(scored.predicted, scored.truth, number)
                told = as_told([() if one is None else one.interval for one in served])
                self.intervals.absorb(scored.predicted, scored.truth, told)
            return scored
        classes = len(self.answers.said.labels)
        if served is None:
            metrics.absorb(scored.predicted, scored.truth, scored.facts, classes)
        else:
            before = self.rows - len(served)
            scored, said = classes_as_served(scored, served, self.answers, before)
            metrics.absorb(scored.predicted, scored.truth, scored.facts, classes, said)
        return scored

    def _outcomes(
        self,
        segments: Sequence[Rows],
        scored: Scored,
        served: list[ServedPrediction | None] | None,
        learned: bool,
    ) -> list[Learned]:
        names, losses, p_true = self.named(scored.predicted), scored.losses, scored.p_true
        if served is not None:
            names = [name if answer is None else answer.prediction for name, answer in zip(names, served, strict=True)]
        if len(segments) == 1:
            return [Learned(names, losses, self.rows, learned, p_true)]
        outcomes: list[Learned] = []
        start, rows = 0, self.rows - len(names)
        for segment in segments:
            stop = start + len(segment.X) - len(segment.skip)
            outcomes.append(Learned(names[start:stop], losses[start:stop], rows + stop, learned, p_true[start:stop]))
            start = stop
        return outcomes

    def _report_alarms(self, entry_of: Callable[[int], tuple[int, int]]) -> None:
        """Put the alarms into the outbox; each event is a mark in the metrics.

        Args:
            entry_of: version and time of the entry of a row.
        """
        assert self.drift_response is not None
        columns = self.row_columns
        for row, alarm, (joins, held_back), action in self.drift_response.take_alarms():
            label = None if self.regression else self.labels.labels[alarm.cls]
            named = [columns[at] for at in alarm.columns]
            if joins:
                self.outbox.join(joined_alarm(alarm, row, label, named))
                continue
            newest, index, _ = self.outbox.last
            version, time_ms = entry_of(row)
            place = version, index + 1 if newest == version else 0
            self.outbox.put(of_alarm(alarm, place, row, time_ms, label, named, action, held_back))
            self.metrics.mark(row, "drift", test=alarm.kind, label=label, action=action)

    # ---------------------------------------------------------------- change of features, reset, restore

    def _switch(self, segment: Switch) -> Switched | Refused:
        if (refusal := self.switching.refusal(segment)) is not None:
            return Refused(refusal)
        warning = self.switching.step(segment, self.rows, len(self.labels))
        if segment.action == "complete" and self.drift_response is not None and self.prediction_schema is not None:
            self.drift_response.move(self.prediction_schema)
            self.unknown.keep(self.prediction_schema)
        self.metrics.mark(self.rows, "switch", action=segment.action)
        return Switched(self.phase, self.overlap_rows, self.rows, warning)

    def _map(self, segment: Overlap) -> Mapped | Refused:
        now = self.pipeline
        if (refusal := self.switching.refusal(segment)) is not None or not isinstance(now, OverlapPeriod):
            return Refused(refusal or "")
        raw = np.delete(segment.X, segment.skip, axis=0) if segment.skip else segment.X
        now.map(np.ascontiguousarray(raw))
        return Mapped(len(raw), self.overlap_rows, self.rows)

    def _reset(self) -> Replaced:
        switching = self.switching
        self.clear()
        switching.reset()
        self.enter(switching)
        self.metrics.mark(0, "reset")
        return Replaced(0)

    def _restore(self, segment: Restore) -> Outcome:
        if len(segment.state) < segment.size:
            raise RuntimeError(f"the state {segment.digest} has not been read")
        try:
            loaded, _ = Machine.from_bytes(segment.state)
        except ValueError as error:
            return Refused(str(error))
        if not interchangeable(loaded.config, self.config):
            return Refused("the state is of a model with another configuration")
        if segment.source == UPGRADE:  # this very state: every replica is to have these bytes
            self.__dict__.update(loaded.__dict__)
            return Replaced(self.rows)
        loaded.outbox = self.outbox
        if loaded.drift_response is not None:  # the event that its episode is of need not be the newest one here
            loaded.drift_response.episodes = Episodes(loaded.config.watch)
        self.__dict__.update(loaded.__dict__)
        self.metrics.mark(self.rows, segment.source)
        return Replaced(self.rows)

    def _configure(self, segment: Configure) -> Configured | Refused:
        try:
            change = change_of(self, segment.changes)
        except (Invalid, Conflict) as error:
            return Refused(f"the model has changed meanwhile: {error}")
        if change.fields:
            self.configure(change.config)
            if change.features is not None:
                self.extend(change.features)
            self.metrics.mark(self.rows, "configure", fields=change.fields)
        return Configured(self.rows)

    def plan_change(self, asked: Mapping[str, Any]) -> Change:
        """What a change of the configuration would come to; see ``change_of``.

        Raises:
            Conflict, Invalid: it cannot be made.
        """
        return change_of(self, asked)

    def plan_switch(
        self, action: Action, features: object = None, mapping: Kind | None = None, force: bool = False
    ) -> Switch:
        """A step in a change of features as a client asks for it, checked; see ``Switching.plan``.

        Raises:
            Conflict: the phase does not allow the action, or the algorithm no change of features at all.
            Invalid: naming the field.
        """
        return self.switching.plan(action, features, mapping, force)
