"""A model as data: the parts of every learner of its rows, its challengers, and its drift events.

Functions work on this data: core.model.apply applies log entries; read, cost, plans and save answer questions between
two entries.
"""

from dataclasses import dataclass, field
from typing import Any, Self

from core.config import Config
from core.config.challengers import PromotionPolicy
from core.contract import Label
from core.drift.outbox import Episodes, Outbox
from core.features import Schema, Space
from core.features.labels import LabelSet
from core.metrics import ClassificationMetrics, RegressionMetrics
from core.metrics.difference import PairedDifference
from core.metrics.outside import OutsideScores
from core.model.class_answers import ClassAnswers
from core.model.drift_response import DriftResponse
from core.model.number_answers import NumberAnswers
from core.state.envelope import Nested
from core.switching.phases import Phase, Switching
from core.switching.space_model import SpaceModel


@dataclass(eq=False, slots=True)
class LearnerParts(Nested):
    """One learner of a model's rows, the model's own or a challenger's, with everything that belongs to it."""

    config: Config
    switching: Switching  # the feature spaces, and the models that learn their rows
    answers: ClassAnswers | NumberAnswers  # turns its predictions into answers, and scores them
    drift_response: DriftResponse | None = None  # drift tests and episodes; None until there is a space
    rows_before_start: int = 0  # rows of the model before this learner's first one
    learner_id: str = ""  # where the learner was added, "version.segment"; "" for the model's first one
    row_cost: tuple[int, int, float] = (-1, 0, 0.0)  # the last result of core.model.cost: width, classes, operations

    @classmethod
    def first(
        cls, config: Config, switching: Switching | None = None, learner_id: str = "", seen: LabelSet | None = None
    ) -> Self:
        """An untrained learner, in the given spaces or the configuration's, with the classes seen so far."""
        seen, switching = LabelSet() if seen is None else seen, switching or Switching(config, config.space)
        answers = NumberAnswers(config, seen) if config.task == "regression" else ClassAnswers(config, seen)
        parts = cls(config, switching, answers, learner_id=learner_id)
        parts.enter(switching)
        return parts

    def enter(self, switching: Switching) -> None:
        """Set the feature spaces; drift tests start empty."""
        self.switching = switching
        self.drift_response = None if switching.now is None else DriftResponse(self.config, switching.now.schema)

    def add_class(self, label: Label) -> None:
        """Add a class without learning a row of it now."""
        assert isinstance(self.answers, ClassAnswers)
        self.answers.add(label)
        if self.switching.now is not None and self.drift_response is not None:
            self.switching.now.add_class()
            self.drift_response.add_class()

    def end_episodes(self) -> None:
        """End the present episode: the next alarm opens another event."""
        if self.drift_response is not None:
            self.drift_response.episodes = Episodes()

    @property
    def space_model(self) -> SpaceModel:
        """The model that predicts; raises ``RuntimeError`` while there is no feature space."""
        if self.switching.in_force is None:
            raise RuntimeError("no feature space yet")
        return self.switching.in_force

    @property
    def regression(self) -> bool:
        """Whether labels are numbers, not classes."""
        return self.answers.regression

    @property
    def labels(self) -> LabelSet:
        """The classes seen."""
        return self.answers.seen

    @property
    def metrics(self) -> ClassificationMetrics | RegressionMetrics:
        """The prequential scores."""
        return self.answers.metrics

    @property
    def rows(self) -> int:
        """Rows of the model so far, including those before the learner's first."""
        return self.rows_before_start + self.answers.metrics.rows

    @property
    def row_columns(self) -> tuple[str, ...]:
        """The columns that predictions are made from: encoded columns, then lag columns; () until there is a space."""
        model = self.switching.in_force
        return () if model is None else model.row_columns

    @property
    def since_version(self) -> int:
        """The version of the entry that added the learner; 0 for the model's first one."""
        return int(self.learner_id.partition(".")[0] or 0)

    def parts(self) -> dict[str, Any]:
        """The parts that have a state, by their names in a saved state."""
        held, now, response = self.answers.parts(), self.switching.now, self.drift_response
        if now is not None and response is not None:
            held |= {"pipeline": now, "watch": response.detector, "episodes": response.episodes}
        return held


@dataclass(eq=False, slots=True)
class Challenger:
    """Another learner of the model's rows."""

    parts: LearnerParts
    promote: PromotionPolicy = "never"  # whether it is promoted automatically
    difference: PairedDifference = field(default_factory=PairedDifference)  # losses of the model minus the challenger's


@dataclass(eq=False, slots=True)
class Model:
    """One model."""

    own: LearnerParts  # the learner whose predictions are returned
    challengers: dict[str, Challenger] = field(default_factory=dict)  # by name, in the order in which they were added
    outbox: Outbox = field(default_factory=Outbox)  # events to be published; resets and restores keep it
    unknown: dict[str, int] = field(default_factory=dict)  # by feature: number of learned values that are undeclared
    outside: OutsideScores | None = None  # scores of a model outside Onepass; None until it predicts a row
    due_rows: int = 0  # rows learned as the label of ``labels_due``

    @classmethod
    def first(cls, config: Config) -> Self:
        """An untrained model."""
        return cls(LearnerParts.first(config))

    @property
    def learners(self) -> list[LearnerParts]:
        """The model's own learner, then those of the challengers."""
        return [self.own, *[one.parts for one in self.challengers.values()]] if self.challengers else [self.own]

    @property
    def rows(self) -> int:
        """Rows learned."""
        return self.own.rows

    @property
    def config(self) -> Config:
        """The configuration of its own learner."""
        return self.own.config

    @property
    def present_config(self) -> Config:
        """The configuration with the features that the last switch brought, if features are declared."""
        schema = self.prediction_schema
        if self.config.features is None or not isinstance(schema, Schema):
            return self.config
        return self.config.model_copy(update={"features": schema.features})

    @property
    def configs(self) -> tuple[Config, ...]:
        """The configurations of all learners, the model's own first."""
        return tuple([parts.config for parts in self.learners]) if self.challengers else (self.own.config,)

    @property
    def regression(self) -> bool:
        """Whether labels are numbers, not classes."""
        return self.own.answers.regression

    @property
    def labels(self) -> LabelSet:
        """The classes seen."""
        return self.own.answers.seen

    @property
    def pipeline(self) -> Phase | None:
        """The models of the present phase, or None until the first row determines the features."""
        return self.own.switching.now

    @property
    def prediction_schema(self) -> Space | None:
        """The feature space of predictions, or None until the first row determines it."""
        now = self.own.switching.now
        return None if now is None else now.schema

    @property
    def feedback_schema(self) -> Space | None:
        """The feature space of feedback rows: in an overlap the union of both, else ``prediction_schema``."""
        now = self.own.switching.now
        return None if now is None else now.feedback_schema

    @property
    def phase(self) -> str:
        """The phase of a change of features: "steady", "overlap" or "ensemble"."""
        now = self.own.switching.now
        return "steady" if now is None else now.phase

    @property
    def space_bytes(self) -> int:
        """Bytes of memory that the names and other objects of the feature spaces take, about; not in ``nbytes``."""
        routes = [route for parts in self.learners for route in parts.switching.routes.values()]
        spaces = {id(route.schema): route.schema for route in routes if isinstance(route.schema, Schema)}
        return sum(space.object_bytes for space in spaces.values())

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds, including the challengers'."""
        differences = sum(one.difference.nbytes for one in self.challengers.values())
        outside = 0 if self.outside is None else self.outside.nbytes
        return self.outbox.nbytes + outside + differences + sum(parts.nbytes for parts in self.learners)
