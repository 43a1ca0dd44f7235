"""The state of one model: its parts, their first state, its feature spaces, and how it is saved and loaded.

    config                  the present configuration; ``configure`` goes over to another one
    switching, labels       feature spaces with the models that learn their rows; classes seen
    answers                 what is said of a learner's predictions, and their calibration
    rows, metrics           rows learned and their prequential scores
    label_range, intervals  of a regression, what holds its predictions, and the intervals around them
    drift_response, outbox  drift tests and episodes; the events of their alarms
    challengers             learners beside the model's own, each with a state like this one

A saved state is one envelope (core.state.envelope) of all parts' arrays, with a header that also describes of which
models the phase consists (core.switching.structure). Parts are named as they were when the format was fixed. Those of
the challengers follow, "challengers.0.metrics.ring" for example, with a header each; a model that never had any has
nothing of them in its state.
"""

from collections.abc import KeysView, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from core.config import Config
from core.contract import Header
from core.drift.outbox import Outbox
from core.features import Feature, Schema, Space
from core.features.labels import LabelSet
from core.intervals.conformal import Intervals
from core.metrics import ClassificationMetrics, RegressionMetrics
from core.model.answers.answers import Answers
from core.model.answers.calibration import fresh
from core.model.answers.label_range import LabelRange
from core.model.challengers import Challenger
from core.model.drift_response import DriftResponse
from core.model.unknown_categories import UnknownCategories
from core.state.envelope import flatten, unflatten
from core.switching.phases import Phase, Switching
from core.switching.structure import describe

Learners = Sequence[tuple[Config, Sequence[Space]]]
"""The learners of a state: the configuration of each, and the feature spaces that it takes memory for."""


class ModelState:
    """The parts of one model.

    Args:
        config: the model's configuration.
        switching: feature spaces to begin with; by default those of the configuration.

    Attributes:
        config: the present configuration.
        rows: rows learned by the model.
        before: how many of them before this learner's first: of a challenger, and of a model that was one.
        born: where the learner was put beside the model, "version.segment"; "" for the model's first one.
        challengers: learners beside the model's own, by name, in the order in which they were put there.
        labels: the classes seen.
        answers: what is said of predictions, over which labels.
        label_range: of a regression, what its predictions are held within.
        intervals: of a regression, around its predictions, whatever makes them: a switch or a drift leaves them alone.
        unknown: how many categories that are not declared were learned.
        switching: the feature spaces and the models that learn their rows.
        drift_response: None until there is a space.
        outbox: events to be published; resets and restores leave it alone, since versions go on.
    """

    def __init__(self, config: Config, switching: Switching | None = None) -> None:
        self.config = config
        self.outbox = Outbox()
        self.regression = config.task == "regression"
        self.born = ""
        self.challengers: dict[str, Challenger] = {}
        self._row_cost = 0, 0, 0.0
        self.clear(switching)

    def clear(self, switching: Switching | None = None) -> None:
        """The first state, but for the outbox and the challengers."""
        self.rows = self.before = 0
        self.labels = LabelSet()
        self.answers = Answers(self.config, self.labels, fresh())
        self.unknown = UnknownCategories()
        self.metrics = RegressionMetrics() if self.regression else ClassificationMetrics()
        self.label_range = LabelRange() if self.regression else None
        self.intervals = Intervals() if self.regression else None
        self.enter(switching or Switching(self.config, self.config.space))

    def enter(self, switching: Switching) -> None:
        """Take over feature spaces; drift tests start empty."""
        self.switching = switching
        now = switching.now
        self.drift_response = None if now is None else DriftResponse(self.config, now.schema)

    def configure(self, config: Config) -> None:
        """Go on under another configuration, which ``core.config_changes`` has made of the present one.

        With other class costs other answers are errors: the error-rate test begins anew, or it would find a drift.
        """
        other_errors = config.class_costs != self.config.class_costs
        self.config = config
        counts = self.answers.counts
        self.answers = Answers(config, self.labels, self.answers.calibration, self.before, counts)
        self.switching.configure(config)
        if self.drift_response is not None and self.prediction_schema is not None:
            self.drift_response.configure(config, self.prediction_schema)
            if other_errors:
                self.drift_response.detector.forget_errors()

    def extend(self, features: tuple[Feature, ...]) -> None:
        """Go on with further categories of some features in force, to which ``Switching`` sees no obstacle."""
        before = self.prediction_schema
        self.switching.extend(features, len(self.labels))
        after = self.prediction_schema
        assert self.drift_response is not None
        assert isinstance(before, Schema)
        assert isinstance(after, Schema)
        self.drift_response.extend(before, after)

    # ---------------------------------------------------------------- feature spaces

    @property
    def pipeline(self) -> Phase | None:
        """The models of this phase, or None until the first row fixes the features."""
        return self.switching.now

    @property
    def prediction_schema(self) -> Space | None:
        """The feature space that predictions are made in, or None until the first row fixes it."""
        now = self.switching.now
        return None if now is None else now.schema

    @property
    def feedback_schema(self) -> Space | None:
        """The space that feedback rows come in: in an overlap the union of both, else ``prediction_schema``."""
        now = self.switching.now
        return None if now is None else now.feedback_schema

    @property
    def next_schema(self) -> Schema | None:
        """The feature space that a change of features leads to, or None."""
        now = self.switching.now
        return None if now is None else now.next_schema

    @property
    def since_version(self) -> int:
        """The version that the entry made which put the learner there; 0 for the model's first one."""
        return int(self.born.partition(".")[0] or 0)

    @property
    def configs(self) -> tuple[Config, ...]:
        """The configurations of all learners of the model's rows, its own first."""
        if not self.challengers:
            return (self.config,)
        return (self.config, *(one.member.config for one in self.challengers.values()))

    @property
    def row_columns(self) -> tuple[str, ...]:
        """What predictions are made of: the encoded columns, then the lag columns; () until there is a space."""
        model = self.switching.in_force
        return () if model is None else model.row_columns

    @property
    def spaces(self) -> KeysView[str]:
        """Ids of the feature spaces in which rows are accepted for learning."""
        return self.switching.routes.keys()

    def raw_width(self, space: str) -> int:
        """How many numbers a raw row of one of these spaces has."""
        return self.switching.routes[space].schema.raw_width

    @property
    def phase(self) -> str:
        """The phase of a change of features: "steady", "overlap" or "ensemble"."""
        now = self.switching.now
        return "steady" if now is None else now.phase

    @property
    def overlap_rows(self) -> int:
        """Rows that have trained the mapping of the change under way, or of the last one."""
        return self.switching.overlap_rows

    @property
    def mapping_error(self) -> float | None:
        """The mapping's relative squared error on the latest rows, before each was learned; or None."""
        return self.switching.mapping_error

    @property
    def ensemble(self) -> list[Header] | None:
        """The experts after a change, each with ``expert``, ``weight`` and cumulative ``loss``; else None."""
        return self.switching.report()

    # ---------------------------------------------------------------- save

    def parts(self) -> dict[str, Any]:
        """The parts of the learner that there are, by their names in a state."""
        held: dict[str, Any] = {"metrics": self.metrics, "intervals": self.intervals}
        held["label_range"] = self.label_range
        held["pipeline"] = self.switching.now
        held["answers"] = None if self.regression else self.answers
        if (response := self.drift_response) is not None:
            held |= {"watch": response.detector, "episodes": response.episodes}
        return {name: part for name, part in held.items() if part is not None}

    def packed(self, held: Mapping[str, Any]) -> tuple[dict[str, NDArray[Any]], Header]:
        """The learner as arrays and a header.

        Args:
            held: its parts, as they are to be saved.
        """
        arrays, parts = flatten(held)
        state: Header = {"rows": self.rows, "labels": self.labels.to_header(), **parts}
        if self.unknown.counts:
            state["unknown"] = dict(self.unknown.counts)
        if self.before:
            state["before"] = self.before
        if self.born:
            state["born"] = self.born
        state["switching"] = describe(self.switching)
        return arrays, state

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds, that of the challengers included."""
        own: int = self.outbox.nbytes + sum(part.nbytes for part in self.parts().values())
        return own + sum(one.member.nbytes + one.difference.nbytes for one in self.challengers.values())

    # ---------------------------------------------------------------- load

    def unpack(self, arrays: Mapping[str, NDArray[Any]], state: Header, held: Mapping[str, Any]) -> None:
        """Take over a learner that ``packed`` gave; after an error the holder is of no use.

        Args:
            arrays: its arrays.
            state: its header.
            held: parts that are saved with its own.

        Raises:
            ValueError: not a state of such a learner.
        """
        self.labels = LabelSet.from_header(state["labels"])
        self.before, self.born = state.get("before", 0), state.get("born", "")
        self.answers = Answers(self.config, self.labels, fresh(), self.before)
        self.unknown = UnknownCategories.from_header(state.get("unknown", {}))
        unflatten({**self.parts(), **held}, arrays, state)
        self.rows = state["rows"]
        self._check_together()
        if isinstance(self.metrics, ClassificationMetrics):
            self.answers.count(self.metrics.labels_seen)

    def _check_together(self) -> None:
        """Parts that are each a state of their own must be of one and the same model."""
        if {*map(type, (self.rows, self.before))} != {int} or self.before < 0 or not _is_place(self.born):
            raise ValueError("no such numbers of rows")
        rows, classes, now = self.metrics.rows, len(self.labels), self.switching.now
        scored = 0 if self.intervals is None else self.intervals.rows
        ranged = rows if self.label_range is None else self.label_range.rows
        known = self.rows - self.before == rows == ranged
        if not known or scored > rows or (rows > 0 and now is None):
            raise ValueError("the rows of the parts differ")
        declared = self.config.labels
        if declared is not None and any(LabelSet(declared).index(label) < 0 for label in self.labels.labels):
            raise ValueError("a class is not one of the declared labels")
        if self.regression and classes:
            raise ValueError("a regression has no classes")
        if now is None or self.drift_response is None or not isinstance(self.metrics, ClassificationMetrics):
            return
        tested = self.drift_response.detector.classes
        if tested != classes or now.classes_differ(classes) or self.metrics.classes > len(self.answers.said):
            raise ValueError("the classes of the parts differ")


def _is_place(born: object) -> bool:
    """Whether a saved place is one: numbers between dots, or none at all."""
    return isinstance(born, str) and all(part.isdecimal() for part in born.split(".") if born)
