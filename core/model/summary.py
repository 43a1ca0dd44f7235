"""What a list of models tells of one: how large it has grown and how well it does, read off in a few microseconds."""

from typing import NamedTuple

from core.config import Config
from core.contract import Task
from core.drift.outbox import Drift
from core.features.labels import Label


class LastDrift(NamedTuple):
    """The newest drift event of a model.

    Attributes:
        row, time_ms, kind: of its first alarm.
        label: the class whose rows were compared; None for regression.
    """

    row: int
    time_ms: int
    kind: str
    label: Label | None

    @classmethod
    def of(cls, drift: Drift | None) -> "LastDrift | None":
        """What is told of an event."""
        return None if drift is None else cls(drift.row, drift.time_ms, drift.kind, drift.label)


class Summary(NamedTuple):
    """A model in one line.

    Attributes:
        algorithm, task: from its configuration.
        rows: rows learned.
        score: overall accuracy, or mean squared error; None before the first row.
        baseline: the same of the best simple baseline; None where none has predicted a row yet.
        phase: of a change of features: "steady", "overlap" or "ensemble".
        drift: the newest drift event; None where there has been none.
        challengers: how many learners stand beside the model's own.
        ahead: how many of them are better: the interval of the paired difference lies above 0.
        mean_cost: what the model's answers have cost a row, by its ``class_costs``; None where it has none.
        baseline_cost: the same of the cheapest constant answer.
        paired_score: of a regression, the mean squared error on the rows that the baseline is of, which are what the
            two are compared by; None where there are none, and for a classification.
    """

    algorithm: str
    task: Task
    rows: int
    score: float | None
    baseline: float | None
    phase: str
    drift: LastDrift | None = None
    challengers: int = 0
    ahead: int = 0
    mean_cost: float | None = None
    baseline_cost: float | None = None
    paired_score: float | None = None

    @classmethod
    def first(cls, config: Config) -> "Summary":
        """The summary of a model that has learned nothing yet, without building it."""
        return cls(config.algorithm_id, config.task, 0, None, None, "steady")
