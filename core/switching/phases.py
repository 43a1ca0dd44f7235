"""A change of features as a state machine: which phase a model is in, which rows it still takes, and whom they teach.

    steady    --begin-->     overlap      one model (steady.py); an old one, a new one, a mapping (overlap.py)
    overlap   --complete-->  ensemble     the experts of both (core.switching.ensemble)
    overlap   --abort-->     before it    the mapping and the new model are dropped
    ensemble  --begin-->     overlap      the experts are the old side, and become one model when it is complete

Rows name the space they were validated against. Each phase takes several (``Switching.route``):

    overlap     union: teaches everything       old: tracked or in flight, teaches the old model(s)
    ensemble    new: teaches all experts        union: in flight, projected       old: tracked, teaches the old model
    steady      its own                         union of an overlap that was aborted: in flight, projected

An overlap that began in an ensemble takes the ensemble's rows too, an ensemble after an abort that union's. Rows of a
space that a later switch has left behind are not learned; those that were tracked are scored by the prediction that was
served. The last 64 such spaces are remembered.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.config import Config
from core.contract import Floats, Header, Ints, Prediction
from core.entry import Overlap, Switch
from core.features import Space
from core.features.feature import Feature
from core.features.feature_space import fits, parse_next, places
from core.features.schema import Schema
from core.problems import Conflict
from core.switching.ensemble import Ensemble
from core.switching.feature_recovery import FeatureRecovery, Kind
from core.switching.initial_weights import mapping_problem
from core.switching.kernel_mapping import STORED_MAX
from core.switching.overlap import OverlapPeriod
from core.switching.steady import Pipeline

Phase = Pipeline | OverlapPeriod | Ensemble
RETIRED_MAX = 64
"""Spaces left behind that are remembered."""


@dataclass(frozen=True, slots=True)
class RowRoute:
    """How rows of one space are read, and whom they teach; learned by core.machine.training like a pipeline.

    Attributes:
        schema: the space.
        teaches: what reads and learns the rows.
        columns: raw columns that it reads, in its order; None: all.
        ensemble: whose other experts have to hear of a new class; None: ``teaches`` tells them.
        new: likewise the new model of an overlap period.
        watched: whether the drift watch is shown the rows: not those of a space that is no longer in force.
    """

    schema: Space
    teaches: Phase
    columns: Ints | None = None
    ensemble: Ensemble | None = None
    new: Pipeline | None = None
    watched: bool = True

    def absorb(self, raw: Floats) -> Floats:
        """Encode raw rows of the space."""
        return self.teaches.absorb(raw if self.columns is None else np.ascontiguousarray(raw[:, self.columns]))

    def learn(self, X: Floats, truth: NDArray[Any], discounts: Floats | None) -> Prediction:
        """Test then train on encoded rows."""
        return self.teaches.learn(X, truth, discounts)

    def learn_new_class(self, X: Floats, truth: NDArray[Any], discounts: Floats | None) -> Prediction:
        """Test then train on one encoded row of a class that nobody has seen."""
        if self.ensemble is not None:
            self.ensemble.add_class_to_others()
        if self.new is not None:
            self.new.add_class()
        return self.teaches.learn_new_class(X, truth, discounts)


class Switching:
    """The phase of a model, and its memory of spaces.

    Args:
        config: the model's configuration.
        space: the feature space, or None until the first row fixes it.

    Attributes:
        now: the phase's models; None before there is a space.
        aborted: the union of the overlap that was aborted last, until the next one begins.
        retired: ids of spaces left behind, newest last.
        switches: switches completed.
    """

    def __init__(self, config: Config, space: Space | None) -> None:
        self.config = config
        self.now: Phase | None = None if space is None else Pipeline(config, space)
        self.aborted: Schema | None = None
        self.retired: list[str] = []
        self.switches = 0

    # ---------------------------------------------------------------- rows

    def route(self, space: str) -> RowRoute | None:
        """Whom rows of a space teach, None where they are of no space that is taken now."""
        now = self.now
        if now is None:
            return None
        if space == now.feedback_schema.id:
            return RowRoute(now.feedback_schema, now)
        in_force, new = (now.old, now.new) if isinstance(now, OverlapPeriod) else (now, None)
        if space == in_force.schema.id:
            return RowRoute(in_force.schema, in_force, new=new)
        if isinstance(in_force, Ensemble) and space == in_force.old.schema.id:
            return RowRoute(in_force.old.schema, in_force.old, ensemble=in_force, new=new, watched=False)
        for union in self._unions:
            if space == union.id:
                assert isinstance(in_force.schema, Schema)
                return RowRoute(union, in_force, places(in_force.schema, union), new=new)
        return None

    @property
    def _in_force(self) -> Pipeline | Ensemble | None:
        """What predicts: in an overlap its old side."""
        return self.now.old if isinstance(self.now, OverlapPeriod) else self.now

    @property
    def _unions(self) -> list[Schema]:
        """Spaces of overlaps that are over, whose rows may still be on their way."""
        found = [self._in_force.union] if isinstance(self._in_force, Ensemble) else []
        return found if self.aborted is None else [*found, self.aborted]

    @property
    def spaces(self) -> dict[str, Space]:
        """Every space, by id, in which rows are accepted for learning."""
        now, in_force = self.now, self._in_force
        if now is None or in_force is None:
            return {}
        found: list[Space] = [now.schema, now.feedback_schema, *self._unions]
        if isinstance(in_force, Ensemble):
            found.append(in_force.old.schema)
        return {space.id: space for space in found}

    @property
    def _recovery(self) -> FeatureRecovery | None:
        if isinstance(self.now, OverlapPeriod):
            return self.now.recovery
        return self.now.input_mapping if isinstance(self.now, Ensemble) else None

    @property
    def overlap_rows(self) -> int:
        """Rows that have taught the mapping of the change under way, or of the last one."""
        return 0 if self._recovery is None else self._recovery.rows

    @property
    def mapping_error(self) -> float | None:
        """Its relative squared error on rows it had not learned, or None."""
        return None if self._recovery is None else self._recovery.error

    def report(self) -> list[Header] | None:
        """The experts with their weights and losses, where there are some."""
        return self._in_force.report() if isinstance(self._in_force, Ensemble) else None

    # ---------------------------------------------------------------- steps

    def refusal(self, segment: Switch | Overlap) -> str | None:
        """Why a step cannot be made as the model stands now, or None."""
        if isinstance(segment, Overlap):
            if not isinstance(self.now, OverlapPeriod):
                return "no change of features is under way: overlap rows are taken between begin and complete"
            if segment.space != self.now.feedback_schema.id:
                return "the features of both spaces are no longer those the rows were sent with"
            return None
        if segment.action != "begin":
            if isinstance(self.now, OverlapPeriod):
                return None
            return f"no change of features is under way: there is nothing to {segment.action}"
        if (problem := self._cannot_begin()) is not None:
            return problem
        assert self.now is not None
        assert isinstance(self.now.schema, Schema)
        if segment.features is None or not fits(segment.features, self.now.schema):
            return "the features in force have changed meanwhile: these cannot follow them"
        return None

    def _cannot_begin(self) -> str | None:
        if self.config.algorithm.sparse:
            return f"{self.config.algorithm_id} takes rows of any names at any time: there are no features to change"
        if self.now is None:
            return "the model has no features yet: the first feedback row fixes them"
        if isinstance(self.now, OverlapPeriod):
            names = ", ".join(self.now.next_schema.names[:20])
            return f"a change of features is under way, to {names}: complete it or abort it first"
        return None

    def parse_next(self, raw: object, field: str = "features") -> tuple[Feature, ...]:
        """The features of a space that is to follow the one in force, as a client declares them.

        Raises:
            Conflict: none can begin now; saying what is under way.
            Invalid: naming the field; see ``core.features.feature_space.parse_next``.
        """
        if (problem := self._cannot_begin()) is not None:
            raise Conflict(problem)
        assert self.now is not None
        assert isinstance(self.now.schema, Schema)
        return parse_next(raw, self.now.schema, field)

    def bytes_to_begin(self, features: Sequence[Feature], mapping: Kind | None) -> int:
        """Bytes of memory that a change to these features will take at most beside what is held now."""
        assert self.now is not None
        assert not isinstance(self.now, OverlapPeriod)
        d2, d1 = sum(feature.width for feature in features), len(self.now.columns)
        kept = 8 * (d2 + d1) * (d2 if self._kind(mapping) == "linear" else 2 * STORED_MAX)
        return 2 * self.config.state_bytes(d2) + kept + 8 * d2 * d1

    def step(self, segment: Switch, rows: int, classes: int) -> str | None:
        """Make a step that ``refusal`` has let pass; a warning, or None.

        Args:
            segment: the step.
            rows: rows that the model has learned.
            classes: classes it has seen.
        """
        if segment.action == "complete":
            return self._complete(rows, classes)
        if segment.action == "abort":
            self._abort()
        elif segment.features is not None:
            self._begin(segment.features, segment.mapping, classes)
        return None

    def _begin(self, features: tuple[Feature, ...], mapping: Kind | None, classes: int) -> None:
        now = self.now
        assert isinstance(now, Pipeline | Ensemble)
        kind, paper = self._kind(mapping), self.paper
        if self.aborted is not None:
            self._retire(self.aborted)
        self.aborted = None
        self.now = OverlapPeriod(self.config, now, features, kind, paper)
        for _ in range(classes):
            self.now.new.add_class()

    def _kind(self, mapping: Kind | None) -> Kind:
        asked: Kind = mapping or (self.config.params["mapping"] if self.config.algorithm.evolves else "linear")
        return asked

    @property
    def paper(self) -> bool:
        """Whether the paper's forms of the switch are asked for; other algorithms' variants mean other things."""
        return self.config.algorithm.evolves and self.config.params["variant"] == "paper"

    def _complete(self, first_row: int, classes: int) -> str | None:
        assert isinstance(self.now, OverlapPeriod)
        labelled_rows = self.now.initial_weights.labelled_rows
        self._leave(self.now.old, self.now.next_schema)
        self.now = self.now.complete(first_row, classes)
        self.switches += 1
        if (problem := mapping_problem(self.now.input_mapping)) is None:
            return None
        if labelled_rows or not self.now.input_mapping.ready:
            return f"{problem}: the new model carries the predictions until the others have proved themselves"
        return f"{problem}, and the new model has learned no labelled row: predictions are poor until labels come"

    def _abort(self) -> None:
        assert isinstance(self.now, OverlapPeriod)
        self.aborted, self.now = self.now.feedback_schema, self.now.old

    def reset(self) -> None:
        """Nothing learned; after a switch in the space in force, else in that of the configuration."""
        space = self.config.space if not self.switches or self.now is None else self.now.schema
        if self._in_force is not None and space is not None:
            self._leave(self._in_force, space)
        self.aborted = None
        self.now = None if space is None else Pipeline(self.config, space)

    def _leave(self, model: Pipeline | Ensemble, current: Space) -> None:
        """A model is done with: if it was an ensemble, rows of the spaces before it are no longer learned."""
        if isinstance(model, Ensemble):
            self._retire(model.union, current)
            self._retire(model.old.schema, current)

    def _retire(self, space: Space, current: Space | None = None) -> None:
        gone = {space.id} if current is None else {space.id, current.id}
        self.retired = [*(one for one in self.retired if one not in gone), space.id][-RETIRED_MAX:]
