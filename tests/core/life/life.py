"""The life of a model: the steps clients may take, and the outcome each must have."""

from core.entry import Entry, Outcome, Promote, Withdraw
from core.model import plans, read, save
from core.model.apply import apply
from core.problems import Conflict, Invalid
from tests.core.life.observed import Observed
from tests.core.life.requests import Requests
from tests.core.life.streams import EPISODES, JUMP, LABELS

WATCH = {kind: {"batch_size": 8, "delta": 0.5} for kind in ("class_mean", "error_rate")} | EPISODES
OTHERS = {
    "classification": ({"algorithm": "vigod", "promote": "auto"}, {"algorithm": "rls", "on_drift": "reset"}),
    "regression": ({"algorithm": "fesl_s", "promote": "auto"}, {"algorithm": "dfop", "lags": 2, "on_drift": "forget"}),
}
"""Bodies of challengers."""


class Life:
    """One model from its creation to the end; ``stormy``: rows may be wild, which blinds its watch of means."""

    def __init__(self, body, stormy, counts, observed=Observed):
        self.model = observed(body, counts)
        self.requests, self.stormy = Requests(self.model), stormy

    # ---------------------------------------------------------------- steps

    def take(self, step):
        """Take the next step, given as its name and arguments."""
        name, *args = step
        getattr(self, name)(*args)

    def end(self):
        """Check that replaying the whole log makes the same model."""
        self.model.replay()

    def rows(self, count):
        """Labelled rows of the current space, or of the union in an overlap: always learned."""
        phase, before = self.model.phase, self.model.machine.rows
        (outcome,) = self.model.commit(self.requests.rows(count))
        assert (True, before + count) == (outcome.learned, outcome.rows)
        self.model.saw(f"first row in {phase}" if before == 0 else f"rows in {phase}")

    def served(self, count):
        """Rows that a model outside has predicted, too."""
        (outcome,) = self.model.commit(self.requests.served(count))
        assert outcome.learned
        self.model.saw("served rows")

    def rows_of_another_space(self, count, choice):
        """Rows of any accepted space: the old one, or a union that is over."""
        routes = [*self.model.machine.own.switching.routes.values()]
        if routes:
            space = routes[choice % len(routes)].schema
            where, _ = self._standing(space.id)
            (outcome,) = self.model.commit(self.requests.of(space, count))
            assert outcome.learned
            self.model.saw(f"rows of {where}")

    def rows_with_some_seen(self, count):
        """Every second row is a duplicate."""
        (outcome,) = self.model.commit(self.requests.some_seen(count))
        assert count // 2 == len(outcome.predictions)
        self.model.saw("all rows skipped" if count == 1 else "some rows skipped")

    def together(self, requests):
        """Several requests, all made for the same model, in one entry: the first may cause the next to be refused."""
        outcomes = self.model.commit(*[getattr(self.requests, name)(*args) for name, *args in requests])
        self.model.saw("refused after another" if outcomes[-1].refusal is not None else "several in one entry")

    def drift(self, which, before, after):
        """Rows, then a shift of the stream, then more rows."""
        self.model.commit(self.requests.rows(before))
        if which != "labels":
            self.model.stream.shift = JUMP - self.model.stream.shift
        if which != "means":
            self.model.stream.sign *= -1
        self.model.commit(self.requests.rows(after))

    def storm(self, weather, count):
        """Some rows are wild, tiny or constant if the life allows it: they make the watch insensitive for good."""
        self.model.stream.weather = weather if self.stormy else "plain"
        self.model.saw(f"{self.model.stream.weather} rows")
        self.model.commit(self.requests.rows(count))
        self.model.stream.weather = "plain"

    def gaps(self, gaps):
        """From now on values are missing, if allowed, or no longer missing."""
        self.model.stream.gaps = gaps and self.model.machine.config.missing != "error"

    def classes(self, classes):
        """From now on rows have more classes, or fewer."""
        self.model.stream.classes = classes

    def refused(self, what):
        """A request that is always refused and changes nothing."""
        (outcome,) = self.model.commit(getattr(self.requests, what)())
        assert outcome.refusal is not None

    def track(self, union):
        """A prediction whose label comes later; in an overlap it may hold the names of both spaces."""
        space, places = self.model.machine.prediction_schema, self.model.stream.take(1)
        if space is not None:
            _, (served,) = read.predict_to_keep(self.model.machine, self.model.stream.raw(space, places))
            kept = self.model.machine.feedback_schema if union else space
            self.requests.tracked.append(
                (kept.id, self.model.stream.raw(kept, places), served, self.model.stream.labels(places)[0])
            )

    def label_of_a_tracked_row(self, at, new):
        """The label is learned, or only scored if the space is retired, or refused if the space is unknown."""
        if not self.requests.tracked:
            return
        segment = self.requests.late(at)
        if new and self.model.config.task == "classification":
            segment.y[0] = LABELS[-1] if self.model.config.labels else f"new {len(self.model.machine.labels)}"
        where, expected = self._standing(segment.space)
        (outcome,) = self.model.commit(segment)
        assert expected == (outcome.learned if outcome.refusal is None else None)
        assert expected is None or [segment.served.prediction] == outcome.predictions
        self.model.saw(f"label of {where}")

    def _standing(self, space):
        """How the model treats a space, and whether its rows are learned; None: they are refused."""
        now, in_flight = self.model.machine.pipeline, self.model.machine.own.switching.in_flight
        if now is None and in_flight is not None and space == in_flight.id:
            return "the space before a reset", True
        if now is not None and space in (now.schema.id, now.feedback_schema.id):
            return f"the space in {self.model.phase}", True
        if space in self.model.machine.own.switching.routes:
            return f"an old space in {self.model.phase}", True
        return (
            ("a retired space", False)
            if now is not None and space in self.model.machine.own.switching.retired_spaces
            else ("an unknown space", None)
        )

    # ---------------------------------------------------------------- challengers

    def challenge(self, which):
        """Add a challenger, unless a change of features is under way or the model has sparse rows."""
        body = {"watch": WATCH, **OTHERS[self.model.config.task][which]}
        try:
            segment, _ = plans.plan_challenge(self.model.machine, f"other {which}", body, 3)
        except (Conflict, Invalid):
            return
        if segment is not None:
            self.model.commit(segment)
            self.model.saw("challenged")

    def swap(self):
        """Promote a challenger for some rows, then promote the former model again."""
        name = next(iter(self.model.machine.challengers), None)
        if name is None or self.model.machine.feedback_schema is None:
            return
        before = self.model.machine.config.canonical
        self.model.commit(Promote(name))
        self.rows(7)
        self.model.commit(Promote("previous"))
        assert before == self.model.machine.config.canonical
        self.model.saw(f"swapped in {self.model.phase}")

    def withdraw(self):
        """Withdraw all challengers but the first; withdrawing one twice is refused."""
        for name in [*self.model.machine.challengers][1:]:
            self.model.commit(Withdraw(name))
            (outcome,) = self.model.commit(Withdraw(name))
            assert outcome.refusal is not None
            self.model.saw("withdrawn")

    # ---------------------------------------------------------------- change of features

    def begin(self, space, kind):
        """Begin a change to another space; it succeeds only in a phase without one."""
        phase = self.model.phase
        (outcome,) = self.model.commit(self.requests.begin(space, kind))
        if outcome.refusal is not None:
            return
        assert phase in ("steady", "ensemble")
        self.model.saw(f"begin {self.model.machine.pipeline.recovery.kind} in {phase}")

    def overlap(self, count, some_seen):
        """Rows of both spaces, without labels."""
        if self.model.phase == "overlap":
            skip = (0,) if some_seen else ()
            before = self.model.machine.own.switching.overlap_rows
            (outcome,) = self.model.commit(self.requests.overlap(count, skip))
            assert before + count - len(skip) == outcome.overlap_rows
            self.model.saw("overlap rows")

    def complete(self):
        """Complete the change, if there is one."""
        phase, now, rows = self.model.phase, self.model.machine.pipeline, self.model.machine.own.switching.overlap_rows
        (outcome,) = self.model.commit(self.requests.complete())
        assert ("overlap" == phase) == (outcome.refusal is None)
        if phase == "overlap":
            assert ("ensemble", now.next_schema.id) == (self.model.phase, self.model.machine.prediction_schema.id)
            few = "few" if rows < 5 else "enough"
            self.model.saw(f"complete {now.recovery.kind} of {few} rows, {now.old.phase} before")

    def abort(self):
        """Abort the change, if there is one."""
        phase, now = self.model.phase, self.model.machine.pipeline
        (outcome,) = self.model.commit(self.requests.abort())
        assert ("overlap" == phase) == (outcome.refusal is None)
        if phase == "overlap":
            assert (now.old.phase, now.old.schema.id) == (self.model.phase, self.model.machine.prediction_schema.id)
            self.model.saw(f"abort to {self.model.phase}")

    def whole_change(self, space, kind, labelled, unlabelled):
        """Begin, labelled and unlabelled rows, complete, and rows of the new space."""
        self.begin(space, kind)
        if self.model.phase == "overlap":
            self.rows(labelled)
            if unlabelled:
                self.overlap(unlabelled, some_seen=False)
            self.complete()
            self.rows(30)

    # ---------------------------------------------------------------- reset, save, load

    def reset(self):
        """Reset the model to its first state, but in the current space after a change."""
        phase = self.model.phase
        assert [Outcome()] == self.model.commit(self.requests.reset())
        self.model.saw(f"reset in {phase}")

    def configure(self, which):
        """Change the configuration, if the model allows it; rows with gaps may still be on their way."""
        before = self.model.machine.config.canonical
        (outcome,) = self.model.commit(self.requests.configure(which))
        if outcome.refusal is None and before != self.model.machine.config.canonical:
            self.model.saw(f"configured in {self.model.phase}")

    def save(self):
        self.requests.saved.append(self.model.bytes)

    def export(self, count):
        """Keep a state that another machine with the same configuration has taken further."""
        abroad, _ = save.from_bytes(save.to_bytes(self.model.machine, {"version": 1}))
        apply(abroad, Entry(10_000, 0, (self.requests.rows(count),)))
        self.requests.saved.append(save.to_bytes(abroad, {"version": 2}))

    def restore(self, at, source):
        """Return to one of the kept states, or to that of another machine."""
        phase, rows = self.model.phase, save.from_bytes(self.requests.saved[at % len(self.requests.saved)])[0].rows
        assert [Outcome(rows)] == self.model.commit(self.requests.restore(at, source))
        self.model.saw(f"{source} in {phase}")
        self.model.saw(f"restored to {self.model.phase}")


class Contested(Life):
    """A life in which challengers are added, promoted and withdrawn between the steps."""

    steps = 0

    def take(self, step):
        """Take the next step, then act on the challengers."""
        super().take(step)
        self.steps += 1
        if self.steps % 6 == 1:
            self.challenge(self.steps // 6 % 2)
        elif self.steps % 6 == 4 or (self.model.phase == "overlap" and self.steps % 3 == 0):
            self.swap()
        elif self.steps % 20 == 0:
            self.withdraw()
