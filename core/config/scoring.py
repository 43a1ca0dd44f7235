"""The settings of a model's prequential metrics.

    "metrics": {"window": 1000, "fading": 0.999}

They are fixed at creation: a window of another length would need rows that are no longer kept.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from core.problems import Checked, Invalid, Param

WINDOW = Param(
    "window", "integer", 1000, "Number of last rows in `window` of the metrics. Default: 1000.", ge=10, le=100_000
)
FADING = Param(
    "fading", "number", 0.999, "Weight of a row relative to the next one in `fading`. Default: 0.999.", ge=0.9,
    le=0.999999,
)  # fmt: skip
ROW_NUMBERS = {"classification": 7, "regression": 4}  # numbers that the window keeps of a row, by task


def settings_object(given: object) -> object:
    """A body's ``metrics``, {} for null; raises ``Invalid`` if it is not an object."""
    if given is None:
        return {}
    if isinstance(given, Mapping | Scoring):
        return given
    raise Invalid.of("", "must be an object", Scoring.names())


class Scoring(Checked):
    """The window and the fading of the prequential metrics."""

    strange: ClassVar[str] = "is not a setting of the metrics"
    window: Annotated[int, WINDOW] = WINDOW.default
    fading: Annotated[float, FADING] = FADING.default

    @property
    def spans(self) -> tuple[int, float]:
        """Rows in the window, and the fading factor."""
        return self.window, self.fading

    def to_json(self) -> dict[str, Any]:
        """The JSON that clients send; {} for the defaults, so that older configurations keep their form."""
        return {} if self == Scoring() else self.model_dump()

    def bytes(self, task: str) -> int:
        """Bytes of the window's rows beyond those of the default window, which is small."""
        more: int = max(0, self.window - WINDOW.default)
        return 8 * ROW_NUMBERS[task] * more
