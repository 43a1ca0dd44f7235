"""The time between the request to stop and the stop: /readyz says no, and everything is answered on.

A balancer that looks at /readyz moves the traffic meanwhile, so that nobody meets a closed port.
"""

import logging
from collections.abc import Callable
from contextvars import Context
from time import monotonic

logger = logging.getLogger(__name__)


class Drain:
    """One drain of so many seconds, 0: there is none; ``begun`` is called when it begins."""

    def __init__(self, seconds: float, begun: Callable[[], None], clock: Callable[[], float] = monotonic) -> None:
        self._seconds, self._begun, self._clock = seconds, begun, clock
        self._until: float | None = None

    def begin(self) -> bool:
        """Begin; False where there is none, or it has begun: who asks twice wants the stop now."""
        if not self._seconds or self._until is not None:
            return False
        self._until = self._clock() + self._seconds
        self._begun()
        text = "stopping: still serving for %g s while load balancers move the traffic"
        Context().run(logger.info, text, self._seconds)  # a signal comes amid any request, which is not what it is of
        return True

    @property
    def over(self) -> bool:
        """Whether the stop is due."""
        return self._until is not None and self._clock() >= self._until
