"""What a list of models tells of one: how large it has grown and how well it does, read off in a few microseconds."""

from typing import NamedTuple

from core.config import Config
from core.contract import Task


class Summary(NamedTuple):
    """A model in one line.

    Attributes:
        algorithm, task: from its configuration.
        rows: rows learned.
        score: overall accuracy, or mean squared error; None before the first row.
        baseline: the same of the best simple baseline; None where none has predicted a row yet.
        phase: of a change of features: "steady", "overlap" or "ensemble".
    """

    algorithm: str
    task: Task
    rows: int
    score: float | None
    baseline: float | None
    phase: str

    @classmethod
    def first(cls, config: Config) -> "Summary":
        """The summary of a model that has learned nothing yet, without building it."""
        return cls(config.algorithm_id, config.task, 0, None, None, "steady")
