"""Kills a service at a named point of its work."""

import os
import signal
from collections.abc import Callable


def crasher(plan: str) -> Callable[[str], None]:
    """A failpoint that kills this process: ``POINT:N`` at the N-th time a point is passed.

    Points are "appended" (committed, not applied), "applied" (applied, not answered), "alarmed" (alarms in the outbox,
    not published) and "published" (in the stream of drift events, which this process has not noted).
    """
    wanted, _, count = plan.partition(":")
    left = int(count)

    def failpoint(point: str) -> None:
        nonlocal left
        if point == wanted:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return failpoint
