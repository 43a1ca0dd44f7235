"""What a configuration says about rows: what rows are validated by of ``core.config.Config``, as plain values."""

from typing import NamedTuple, Protocol

from core.features.labels import Label


class AlgorithmRules(Protocol):
    """What an algorithm takes."""

    @property
    def class_bound(self) -> int:
        """The largest number of classes it learns."""

    @property
    def row_discounts(self) -> bool:
        """Whether a row may carry its own discount."""

    @property
    def row_weights(self) -> bool:
        """Whether a row may carry its own weight."""


class ConfigRules(Protocol):
    """What a configuration says."""

    @property
    def algorithm_id(self) -> str:
        """Id in the catalogue."""

    @property
    def task(self) -> str:
        """Classification or regression."""

    @property
    def labels(self) -> tuple[Label, ...] | None:
        """The declared classes."""

    @property
    def missing(self) -> str:
        """What a missing value becomes."""

    @property
    def unknown(self) -> str:
        """What a category that is not declared becomes."""

    @property
    def ignore(self) -> tuple[str, ...]:
        """Names of no feature that rows may hold."""

    @property
    def algorithm(self) -> AlgorithmRules:
        """The algorithm's part."""


class PlainAlgorithm(NamedTuple):
    """``AlgorithmRules`` as values."""

    class_bound: int
    row_discounts: bool
    row_weights: bool


class PlainConfig(NamedTuple):
    """``ConfigRules`` as values."""

    algorithm_id: str
    task: str
    labels: tuple[Label, ...] | None
    missing: str
    unknown: str
    ignore: tuple[str, ...]
    algorithm: PlainAlgorithm


def plain(config: ConfigRules) -> PlainConfig:
    """A configuration's rules as values."""
    given = config.algorithm
    algorithm = PlainAlgorithm(given.class_bound, given.row_discounts, given.row_weights)
    values = config.missing, config.unknown, config.ignore
    return PlainConfig(config.algorithm_id, config.task, config.labels, *values, algorithm)
