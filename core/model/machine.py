"""One model as one deterministic state machine.

    state(v+1) = apply(state(v), entry v+1)

``apply`` sees no clock, no ambient randomness and no I/O. Segments of an entry are applied in order. Neighbouring
row segments that need no special care are learned as one block. That depends on the entry and the state only, so
every replica does the same; and a block is its rows, bit for bit for most learners, to round-off for the wide ones.
Where it is bit for bit, neighbouring entries may be learned as one block as well (``apply_merged``): each replica may
merge what it happens to read together, and still has the state of one entry after the other.

A model may have challengers (core.model.challengers): what it accepts they do as well, each by itself. What is
answered is the model's own.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from core.config_changes import interchangeable
from core.entry import (
    Challenge,
    Configure,
    Configured,
    Entry,
    Learned,
    Mapped,
    MergedPlaces,
    MergedRows,
    Outcome,
    Overlap,
    Places,
    Refused,
    Replaced,
    Reset,
    Restore,
    Rows,
    ServedPrediction,
    Switch,
    Switched,
    Withdraw,
)
from core.model.acceptance import check_labels, check_space, group_into_blocks, plain_until
from core.model.block_rows import rows_of
from core.model.configuring import Change, change_of
from core.model.contest import Contest
from core.model.training import Scored
from core.problems import Conflict, Invalid
from core.switching.feature_recovery import Kind
from core.switching.overlap import OverlapPeriod
from core.switching.phases import Action, Switching


class Machine(Contest):
    """The state of one model, and what log entries and readers do with it."""

    # ---------------------------------------------------------------- apply

    def apply(self, entry: Entry) -> list[Outcome]:
        """Apply one log entry; one outcome per segment, in order."""
        outcomes: list[Outcome] = []
        alone = len(entry.segments) == 1
        for block in [entry.segments] if alone else group_into_blocks(entry.segments, self._is_plain):
            first = block[0]
            if isinstance(first, Rows):
                outcomes += self._learn(cast("Sequence[Rows]", block), entry)
            elif isinstance(first, Overlap):
                outcomes.append(self._map(first))
            else:
                outcomes.append(self._step(first, f"{entry.version}.{len(outcomes)}"))
        return outcomes

    def _step(self, segment: Any, place: str) -> Outcome:
        """Apply a segment without rows, which stands at a place of the log."""
        if isinstance(segment, Reset):
            return self._reset()
        if isinstance(segment, Restore):
            return self._restore(segment, place)
        if isinstance(segment, Switch):
            return self._switch(segment)
        if isinstance(segment, Configure):
            return self._configure(segment)
        if isinstance(segment, Challenge):
            return self._challenge(segment, place)
        return self._withdraw(segment) if isinstance(segment, Withdraw) else self._promote_asked(segment)

    def apply_merged(self, merged: MergedRows, first: int) -> tuple[int, Learned | None]:
        """Apply neighbouring entries as one block, as far as that gives the bits of applying them one by one.

        Args:
            merged: their rows.
            first: the entry that is next, from 0.

        Returns:
            The entry that is next now, and what became of the rows before it. It is ``first``, and nothing has changed,
            where that entry has to be applied by itself.
        """
        stop = first
        if self.row_exact:
            stop = plain_until(merged, first, self.feedback_schema, None if self.regression else self.labels)
        if stop == first:
            return first, None
        places = MergedPlaces(merged, self.rows - merged.start(first))
        (learned,) = self._learn([merged.part(first, stop)], places)
        assert isinstance(learned, Learned)
        return stop, learned

    def _is_plain(self, rows: Rows) -> bool:
        """Whether the rows are of the space of feedback, with known labels only, none of them to be skipped."""
        schema = self.feedback_schema
        if schema is None or rows.space != schema.id or rows.skip:
            return False
        return self.regression or self.labels.knows(rows.y)  # type: ignore[arg-type]

    # ---------------------------------------------------------------- rows

    def _learn(self, segments: Sequence[Rows], places: Places) -> list[Outcome]:
        """Test then train on the rows of one block, and score them."""
        first = segments[0]
        if len(segments) == 1 and (refused := self._accept(first)) is not None:
            return [refused]
        rows, seen = rows_of(segments), len(self.labels.labels)
        served = rows[3]
        route = self.switching.routes.get(first.space)
        if route is not None:
            self.unknown.absorb(route.schema, rows[0])
        if self.challengers:
            scored = self._learn_together(first.space, rows, places)
        else:
            scored = self.learn_rows(first.space, rows if served is None else self._said_by(self.born, rows, told=True))
            if self.drift_response is not None and self.drift_response.alarms:
                self._report_alarms(places)
        if served is not None and any(one is not None and one.by != self.born for one in served):
            scored = self.as_told(scored, served)
        learned = self._outcomes(segments, scored, served, route is not None)
        if len(self.labels.labels) > seen and self.config.labels is None:  # by a segment that is a block of its own
            learned = [learned[0]._replace(joined=self.labels.first_rows(rows[1], seen))]
        if isinstance(self.pipeline, OverlapPeriod) and route is not None and route.model is not self.pipeline:
            return [outcome._replace(mapped=False) for outcome in learned]
        return [*learned]

    def _accept(self, rows: Rows) -> Refused | None:
        """Fix the space if this segment proposes it; refuse what earlier entries have made impossible."""
        known = rows.space in self.switching.routes
        if known or (rows.served is not None and rows.space in self.switching.retired):
            return self._check_labels(rows)
        space = check_space(rows, self.prediction_schema)
        if isinstance(space, Refused):
            return space
        if (refused := self._check_labels(rows)) is None:
            # Every phase has a route for its own space: rows that are accepted without one are the first.
            assert self.switching.now is None
            for member in self.members:
                member.enter(Switching(member.config, space))
        return refused

    def _check_labels(self, rows: Rows) -> Refused | None:
        """Why the labels of rows can no longer join the classes seen, or None: most have been seen."""
        if self.regression or self.labels.knows(rows.y):  # type: ignore[arg-type]
            return None
        return check_labels(rows, self.labels, self.configs)

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

    # ---------------------------------------------------------------- change of features, reset, restore

    def _switch(self, segment: Switch) -> Switched | Refused:
        if (refusal := self.switching.refusal(segment)) is not None:
            return Refused(refusal)
        warning, *_ = [member.switch(segment) for member in self.members]
        return Switched(self.phase, self.overlap_rows, self.rows, warning)

    def _map(self, segment: Overlap) -> Mapped | Refused:
        if (refusal := self.switching.refusal(segment)) is not None:
            return Refused(refusal)
        taught, *_ = [member.map(segment) for member in self.members]
        return Mapped(taught, self.overlap_rows, self.rows)

    def _reset(self) -> Replaced:
        for member in self.members:
            member.begin_anew()
        self._compare_anew()
        return Replaced(0)

    def _restore(self, segment: Restore, place: str) -> Outcome:
        if len(segment.state) < segment.size:
            raise RuntimeError(f"the state {segment.digest} has not been read")
        try:
            loaded, _ = Machine.from_bytes(segment.state)
        except ValueError as error:
            return Refused(str(error))
        # A snapshot is the model's own: it may be of a time before a promotion.
        if segment.source == "import" and not interchangeable(loaded.config, self.config):
            return Refused("the state is of a model with another configuration")
        loaded.outbox = self.outbox
        for at, member in enumerate(loaded.members):
            member.end_episodes()  # the event that its episode is of need not be the newest one here
            if segment.source == "import" and (loaded.challengers or loaded.born):
                member.born = f"{place}.{at}"  # learners of another log
        self.__dict__.update(loaded.__dict__)
        self.metrics.mark(self.rows, segment.source)
        return Replaced(self.rows)

    def _configure(self, segment: Configure) -> Configured | Refused:
        try:
            change = change_of(self, segment.changes)
        except (Invalid, Conflict) as error:
            return Refused(f"the model has changed meanwhile: {error}")
        self.change(change.own)
        for name, one in change.challengers.items():
            self.challengers[name].member.change(one)
        return Configured(self.rows)

    # ---------------------------------------------------------------- plans

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
