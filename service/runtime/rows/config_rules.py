"""What a configuration says about rows: what rows are validated by of ``core.config.Config``, as plain values."""

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from core.contract import Label

if TYPE_CHECKING:
    from core.config import Config


class PlainAlgorithm(NamedTuple):
    """What an algorithm takes: the most classes, and whether a row may carry its own discount or weight."""

    class_bound: int
    row_discounts: bool
    row_weights: bool


class PlainConfig(NamedTuple):
    """What a configuration says."""

    algorithm_id: str
    task: str
    labels: tuple[Label, ...] | None
    missing: str
    unknown: str
    ignore: tuple[str, ...]
    algorithm: PlainAlgorithm


ConfigRules: TypeAlias = "Config | PlainConfig"
"""A configuration, or what of it another process is given."""


def plain(config: ConfigRules) -> PlainConfig:
    """A configuration's rules as values."""
    given = config.algorithm
    algorithm = PlainAlgorithm(given.class_bound, given.row_discounts, given.row_weights)
    values = config.missing, config.unknown, config.ignore
    return PlainConfig(config.algorithm_id, config.task, config.labels, *values, algorithm)
