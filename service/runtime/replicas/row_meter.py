"""Rows per second, measured by looking at a count of rows from time to time."""

from collections import deque

WINDOW_S = 5.0  # the rate is measured since the latest look that is at least this old, once there is one
LEAST_S = 1.0  # looks closer together give no rate


class RowMeter:
    """A rate of rows, by any clock; ``record`` must be called whenever there are new rows."""

    __slots__ = ("_last", "_looks")

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()
        self._last = (0.0, 0)

    def record(self, now: float, rows: int) -> None:
        """Note how many rows there are."""
        looks, (before, count) = self._looks, self._last
        if rows < count:  # the count has started again
            looks.clear()
        elif looks and before <= now - WINDOW_S:
            looks.append(self._last)
        self._last = (now, rows)
        while len(looks) > 1 and looks[1][0] <= now - WINDOW_S:
            looks.popleft()
        if not looks or looks[-1][0] <= now - LEAST_S:
            looks.append((now, rows))

    def rate(self, now: float, rows: int) -> float | None:
        """Rows per second; None while unknown. New rows after a pause count as having come at its end."""
        self.record(now, rows)
        then, count = self._looks[0]
        return (rows - count) / min(now - then, 2 * WINDOW_S) if now - then >= LEAST_S else None
