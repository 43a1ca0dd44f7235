"""The time between the request to stop and the stop: /readyz fails, but the service still answers every request.

A balancer that checks /readyz moves the traffic meanwhile, so that no client meets a closed port.
"""

import logging
from collections.abc import Callable
from contextvars import Context
from time import monotonic

logger = logging.getLogger(__name__)


class Drain:
    """One drain of ``seconds`` (0: none); ``begun`` is called when it begins."""

    def __init__(self, seconds: float, begun: Callable[[], None], clock: Callable[[], float] = monotonic) -> None:
        self._seconds, self._begun, self._clock = seconds, begun, clock
        self._until: float | None = None

    def begin(self) -> bool:
        """Begin; False if there is no drain or it has begun: a second request means stop now."""
        if not self._seconds or self._until is not None:
            return False
        self._until = self._clock() + self._seconds
        self._begun()
        text = "stopping: still serving for %g s while load balancers move the traffic"
        Context().run(logger.info, text, self._seconds)  # without the id of the request that the signal interrupts
        return True

    @property
    def over(self) -> bool:
        """Whether the stop is due."""
        return self._until is not None and self._clock() >= self._until
