"""A change of features as a state machine: the phase of a model, and which models the rows of each space train.

    steady    --begin-->     overlap      one expert (space_model.py); an old model, a new one, a mapping (overlap.py)
    overlap   --complete-->  ensemble     the experts of both (space_model.py)
    overlap   --abort-->     before it    the mapping and the new model are dropped
    ensemble  --begin-->     overlap      the experts are the old side, and become one model when it is complete

Rows name the space they were validated against. Each phase accepts several (``Switching.routes``):

    overlap     union: trains everything        old: tracked or in flight, trains the old model(s)
    ensemble    new: trains all experts         union: in flight, projected       old: tracked, trains the old model
    steady      its own                         union of an overlap that was aborted: in flight, projected

An overlap that began in an ensemble also accepts the ensemble's rows; an ensemble after an abort also accepts those of
the aborted union. Rows of an earlier union with all features of the overlap under way are rows of this overlap. Rows of
a space that a later switch left behind are not learned; tracked ones are scored by the prediction that was served. The
last 64 such spaces are remembered. Rows of a space that later got more categories are rows of the larger one: a
category is identified by its number, and new ones follow the old ones.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Literal

from core.config import Config
from core.contract import Floats, Header
from core.features import Space
from core.features.feature import Feature
from core.features.feature_space import RowPart, has_all, one_value, parse_next
from core.features.schema import Schema
from core.problems import Invalid, Problem, refuse
from core.switching.expert import row_columns
from core.switching.feature_recovery import STORED_MAX, FeatureRecovery, MappingKind, rows_kept
from core.switching.overlap import OverlapPeriod
from core.switching.space_model import SpaceModel

Phase = SpaceModel | OverlapPeriod
SwitchAction = Literal["begin", "complete", "abort"]
RETIRED_MAX = 64  # spaces left behind that are remembered
NAMES_SHOWN = 5  # most features of a new space that an error names

_OTHER_TYPE = (
    "had another type or number of buckets in an earlier space, which the model still reads: declare the same, or use "
    "another name"
)


@dataclass(frozen=True, slots=True)
class SpaceRoute:
    """How rows of one space are read, and which models they train."""

    schema: Space
    model: Phase  # encodes and learns the rows
    part: RowPart | None = None  # the part of a row that the model reads; None: all
    others: tuple[Callable[[], None], ...] = ()  # add a new class to models that do not learn its row
    watched: bool = True  # whether the rows are tested for drift: not those of a space that is no longer in use
    predicted: bool = True  # whether this model predicted the tracked rows among them

    def returned_lags(self, brought: Sequence[tuple[float, ...] | None]) -> Floats | None:
        """The lag columns (n, L) from what rows ``brought``; None if the model has no lags, or did not predict them."""
        model = self.model.old if isinstance(self.model, OverlapPeriod) else self.model
        if model.lags is None or not self.predicted:
            return None
        return model.lags.as_returned(brought)

    def returned_past(self, kept: Sequence[tuple[float, ...] | None]) -> Floats | None:
        """What tracked rows were ``kept`` with, (n, W); None if several learners predict, as after a former model."""
        model = self.model.old if isinstance(self.model, OverlapPeriod) else self.model
        return None if model.remembering is None else model.remembering.returned_past(kept)


class Switching:
    """The phase of a model, and its memory of spaces; no space until the first row determines it.

    ``now`` has the phase's models, None before there is a space; ``in_force`` is the model, or the experts, that
    predict: in an overlap its old side. Rows of the space ``in_flight`` may still arrive: it is the union of the last
    aborted overlap, until one with other features begins; or, while there is no space, the one that a reset or a
    restore has dropped.
    """

    def __init__(self, config: Config, space: Space | None) -> None:
        self.config = config
        self.retired_spaces: list[str] = []  # ids of spaces left behind, newest last
        # Ids of spaces that were given more categories, newest last, and of the space they have become.
        self.renamed_spaces: dict[str, str] = {}
        self.switches = 0  # completed ones
        self.enter(None if space is None else SpaceModel(config, space))

    def enter(self, now: Phase | None, in_flight: Schema | None = None) -> None:
        """Enter another phase; ``in_flight``: see the class."""
        self.now, self.in_flight = now, in_flight
        self.in_force = now.old if isinstance(now, OverlapPeriod) else now
        # How rows of each accepted space are read, and what they train, by the space's id.
        self.routes: dict[str, SpaceRoute] = {}
        for route in () if now is None else self._accepted(now):
            self.routes.setdefault(route.schema.id, route)
        for former, space in [*self.renamed_spaces.items()]:
            if space in self.routes:
                self.routes.setdefault(former, self.routes[space])
            else:
                del self.renamed_spaces[former]
                self._retire(former)

    def _accepted(self, now: Phase) -> Iterator[SpaceRoute]:
        """The routes of a phase; the first one counts if there are two for a space."""
        yield SpaceRoute(now.feedback_schema, now)
        in_force, new = (now.old, (now.new.add_class,)) if isinstance(now, OverlapPeriod) else (now, ())
        yield SpaceRoute(in_force.schema, in_force, others=new)
        if (former := in_force.former) is not None:
            yield SpaceRoute(former.schema, former, others=(in_force.add_class_to_others, *new), watched=False)
        unions = [] if in_force.union is None else [(in_force.union, False)]
        for union, predicted in unions if self.in_flight is None else [*unions, (self.in_flight, True)]:
            both = isinstance(now, OverlapPeriod) and has_all(union, now.feedback_schema)
            model, others = (now, ()) if both else (in_force, new)
            assert isinstance(model.feedback_schema, Schema)  # their rows may still arrive
            yield SpaceRoute(union, model, RowPart(model.feedback_schema, union), others, predicted=predicted)

    def fork_for_challenger(self, config: Config) -> "Switching":
        """The spaces of a challenger that starts now, in the current space.

        Like this one, it accepts rows in flight of earlier spaces, except spaces whose rows an earlier expert learns:
        for it these are left behind, so that a promoted challenger still scores their tracked rows.
        """
        found, now = Switching(config, None), self.now
        found.retired_spaces, found.renamed_spaces = [*self.retired_spaces], dict(self.renamed_spaces)
        found.switches = self.switches
        if now is not None:
            union = None if isinstance(now, OverlapPeriod) else now.union
            found.enter(SpaceModel(config, now.schema), self.in_flight or union)
        found.remember(self)
        return found

    def remember(self, other: "Switching") -> None:
        """Count the spaces that only the other one knows as left behind, so that their tracked rows are scored.

        While there is no space, rows of the other's space, which propose no features, may still be the first.
        """
        if self.now is None:
            self.in_flight = other.in_flight if other.now is None else other.current
        for space in (*other.retired_spaces, *other.routes):
            if space not in self.routes:
                self._retire(space)

    def configure(self, config: Config) -> None:
        """Continue with another configuration of the same algorithm, parameters and seed."""
        self.config = config
        if self.now is not None:
            self.now.configure(config)

    @property
    def _recovery(self) -> FeatureRecovery | None:
        return None if self.now is None else self.now.recovery

    @property
    def overlap_rows(self) -> int:
        """Rows that have trained the mapping of the change under way, or of the last one."""
        return 0 if self._recovery is None else self._recovery.count

    @property
    def mapping_error(self) -> float | None:
        """The mapping's relative squared error on rows it had not learned, or None."""
        return None if self._recovery is None else self._recovery.error

    def report(self) -> list[Header] | None:
        """The experts with their weights and losses, if there are any."""
        return None if self.in_force is None else self.in_force.report()

    # ---------------------------------------------------------------- steps

    def next_features(self, raw: object) -> tuple[Feature, ...]:
        """The features of a new space as a client sends them; a kept bare name stands for its present declaration.

        ``Invalid`` names the field, see ``core.features.feature_space.parse_next``; also for a feature that comes back
        with another type or number of buckets.
        """
        kept = dict(zip(self.current.names, self.current.features, strict=True))
        if isinstance(raw, list | tuple):
            raw = [kept[item].to_json() if isinstance(item, str) and item in kept else item for item in raw]
        found = parse_next(raw, self.current)
        refuse(self.problems_of_types(found))
        return found

    def problems_of_types(self, features: Sequence[Feature]) -> list[Problem]:
        """The features of a new space that come back with another type or number of buckets than an expert reads.

        Their columns have the same names, but not the same values: they could be neither copied nor recovered.
        """
        assert self.in_force is not None
        read, experts = frozenset(self.in_force.columns), self.in_force.experts.values()
        known = {column: one for expert in experts for one in expert.schema.features for column in one.columns}
        problems = []
        for at, feature in enumerate(features):
            others = [known[column] for column in feature.columns if column in read and column in known]
            if (other := next((one for one in others if not one_value(feature, one)), None)) is not None:
                problems.append(Problem(f"features[{at}]", _OTHER_TYPE, other.to_json()))
        return problems

    def refusal(self, action: SwitchAction, features: Sequence[Feature] | None) -> str | None:
        """Why a step from the log cannot be taken in the present state, or None."""
        if (problem := self.obstacle(action)) is not None or action != "begin":
            return problem
        try:
            parse_next([feature.to_json() for feature in features or ()], self.current)
        except Invalid:
            return "the features have changed meanwhile: this change no longer fits"
        return None

    def refusal_of_overlap(self, space: str) -> str | None:
        """Why rows of a union, by its id, cannot train the mapping in the present state, or None."""
        if not isinstance(self.now, OverlapPeriod):
            return "no change of features is under way: overlap rows are accepted between begin and complete"
        if space != self.now.feedback_schema.id:
            return "the features of both spaces have changed since the rows were sent"
        return None

    def obstacle(self, action: SwitchAction) -> str | None:
        """Why the action cannot be taken in this phase, or None."""
        if self.config.algorithm.observes:
            return "an observer learns nothing: there are no features to change"
        if self.config.algorithm.sparse:
            return f"{self.config.algorithm_id} takes rows with any names at any time: there are no features to change"
        if self.now is None:
            return "the model has no features yet: the first feedback row determines them"
        if not isinstance(self.now, OverlapPeriod):
            no_change = f"there is no change of features to {action}: the phase is {self.now.phase}; begin one first"
            return None if action == "begin" else no_change
        if action != "begin":
            return None
        names = self.now.next_schema.names
        shown = ", ".join(names[:NAMES_SHOWN]) + (f" and {len(names) - NAMES_SHOWN} more" * (len(names) > NAMES_SHOWN))
        return (
            f"a change of features is under way, to {shown}, with {self.overlap_rows} overlap rows so far; "
            "complete or abort it first"
        )

    @property
    def current(self) -> Schema:
        """The current space of a model whose features can change."""
        assert self.now is not None
        assert isinstance(self.now.schema, Schema)
        return self.now.schema

    def obstacle_to_extend(self) -> str | None:
        """Why categories cannot be added to the current features, or None."""
        now = self.now
        if isinstance(now, SpaceModel) and not self.config.algorithm.sparse and now.extensible:
            return None
        by_switch = "declare the feature with all its categories in a switch, POST /models/{name}/features/switch"
        if self.config.lags:
            return f"do not fit the lag columns of rows that are waiting for labels: {by_switch}"
        if now is not None and now.recovery is not None:
            return f"do not fit the models from the last change of features: {by_switch}"
        return f"cannot be added to what {self.config.algorithm_id} has learned: {by_switch}"

    def extend(self, features: tuple[Feature, ...], classes: int) -> None:
        """Switch to features with more categories, with this many classes seen, after a check for obstacles."""
        assert isinstance(self.now, SpaceModel)
        former, schema = self.now.schema.id, Schema(features)
        found = {one: schema.id for one in (*self.renamed_spaces, former) if one != schema.id}
        self.renamed_spaces = dict([*found.items()][-RETIRED_MAX:])
        self.enter(self.now.extended(schema, classes), self.in_flight)

    def complete(self, first_row: int, classes: int) -> str | None:
        """Switch to the experts, with this many rows and classes so far; returns a warning or None."""
        assert isinstance(self.now, OverlapPeriod)
        taught = self.now.trial.taught
        self._leave(self.now.old, self.now.next_schema)
        self.enter(self.now.complete(first_row, classes))
        self.switches += 1
        recovery = self._recovery
        if recovery is None or (problem := recovery.problem) is None:
            return None
        if taught or not recovery.ready:
            return f"{problem}: predictions come mainly from the new model until the others have lower losses"
        return f"{problem}, and the new model has learned no labelled row: predictions are poor until labels arrive"

    def abort(self) -> None:
        """Go back to the phase before the overlap."""
        assert isinstance(self.now, OverlapPeriod)
        self.enter(self.now.old, self.now.feedback_schema)

    def begin(self, features: tuple[Feature, ...], mapping: MappingKind | None, classes: int) -> None:
        """Start an overlap with new features, with this many classes seen, after a check for obstacles."""
        assert isinstance(self.now, SpaceModel)
        if self.in_flight is not None:
            self._retire(self.in_flight.id)
        period = OverlapPeriod(self.config, self.now, features, self.kind(mapping))
        for _ in range(classes):
            period.new.add_class()
        flying = self.in_flight
        self.enter(period, flying if flying is not None and has_all(flying, period.feedback_schema) else None)

    def kind(self, mapping: MappingKind | None) -> MappingKind:
        """The mapping of a change: the requested one, else that of the parameters, else linear."""
        asked: MappingKind = mapping or (self.config.params["mapping"] if self.config.algorithm.evolves else "linear")
        return asked

    def reset(self) -> None:
        """Reset to an untrained state; after a switch in the current space, else in the configuration's."""
        space = self.config.space if not self.switches or self.now is None else self.now.schema
        before = copy(self)
        self.enter(None if space is None else SpaceModel(self.config, space))
        self.remember(before)

    # ---------------------------------------------------------------- estimates

    def bytes_to_switch(self, following: Schema, mapping: MappingKind, classes: int) -> int:
        """Most bytes that the state will take during a change to a space, with this many classes."""
        most, now = bytes_to_switch(self.config, self.current, following, mapping, classes), self.in_force
        if now is not None and now.mixture is not None:  # several experts, and their columns
            columns = row_columns(self.config, following)
            foreign = len(set(now.columns) - set(now.row_columns) - set(columns))
            most += max(0, now.nbytes - self.config.state_bytes(now.schema.width, classes))
            most += mapping_bytes(foreign, len(columns), mapping) if foreign else 0
        return most

    def bytes_with(self, config: Config, width: int, classes: int) -> int:
        """Most bytes that the state takes in this phase with a configuration and this many classes.

        ``width``: the columns of its space, unless its features have changed, or are changing.
        """
        now, changes = self.now, list[tuple[Space, Space, MappingKind | int]]()
        if isinstance(now, OverlapPeriod):
            changes, now = [(now.schema, now.next_schema, now.recovery.kind)], now.old
        if now is not None and now.former is not None and now.recovery is not None:
            changes.append((now.former.schema, now.schema, now.recovery.nbytes))
        if now is None or not changes:
            return config.state_bytes(width, classes)
        twice = config.state_bytes(now.schema.width, classes) * (len(changes) - 1)  # both changes have this space
        return sum(bytes_to_switch(config, *change, classes) for change in changes) - twice

    @property
    def flops_to_recover(self) -> float:
        """Operations of recovering the old features of one row after a change, up to the end of the next; else 0."""
        now = self.in_force
        return 0.0 if now is None or now.recovery is None else now.recovery.flops_to_recover

    # ---------------------------------------------------------------- spaces left behind

    def _leave(self, model: SpaceModel, current: Space) -> None:
        """Drop a model: rows of the spaces before it are no longer learned."""
        if model.union is not None and model.former is not None:
            self._retire(model.union.id, current.id)
            self._retire(model.former.schema.id, current.id)

    def _retire(self, space: str, current: str | None = None) -> None:
        kept = [one for one in self.retired_spaces if one not in (space, current)]
        self.retired_spaces = [*kept, space][-RETIRED_MAX:]


def bytes_to_switch(config: Config, old: Space, following: Space, mapping: MappingKind | int, classes: int) -> int:
    """Most bytes that a state will take during a change of features: the old model, two new ones and the mapping.

    ``mapping``: its kind while it learns, afterwards the bytes that it takes.
    """
    if not isinstance(mapping, int):
        columns = row_columns(config, following)
        mapping = mapping_bytes(len(set(row_columns(config, old)) - set(columns)), len(columns), mapping)
    return config.state_bytes(old.width, classes) + 2 * config.state_bytes(following.width, classes) + mapping


def mapping_bytes(targets: int, sources: int, mapping: MappingKind) -> int:
    """Most bytes that learning a mapping takes: its sums or stored rows, and the current mapping."""
    rows = STORED_MAX if mapping == "kernel" else rows_kept(sources, targets)[0]
    return 8 * (rows * (sources + targets) * 2 + 4 * (sources + targets))
