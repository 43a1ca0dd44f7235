"""Rows a second, from looks at a count of rows."""

WINDOW_S = 5.0
"""Least time between the two looks, once there have been looks for so long."""
LEAST_S = 1.0
"""Looks closer together tell nothing."""
STILL_S = 15.0
"""Who has not been looked at for so long begins anew."""


class RowMeter:
    """A rate of rows.

    Whoever looks passes the time, by any clock, and the rows so far.

    Args:
        always_looked_at: whenever there are new rows, so that a pause is one without any; otherwise the rate is not
            known after a pause of STILL_S, as nobody knows when its rows came.
    """

    __slots__ = ("_always", "_before", "_last", "_seen")

    def __init__(self, always_looked_at: bool = True) -> None:
        self._always = always_looked_at
        self._before: tuple[float, int] | None = None
        self._last = (0.0, 0)
        self._seen = 0

    def note(self, now: float, rows: int) -> None:
        """Note how many rows there are."""
        then, _ = self._last
        unknown = not self._always and now - then >= STILL_S
        if self._before is None or rows < self._seen or unknown:  # the first look, or the count has started again
            self._before = self._last = (now, rows)
        elif now - then >= WINDOW_S:
            # After a pause what is new came at its end: whoever brought it made the last look but this one, too.
            self._before = self._last if now - then < STILL_S else (now - WINDOW_S, self._seen)
            self._last = (now, rows)
        self._seen = rows

    def rate(self, now: float, rows: int) -> float | None:
        """Rows a second; None where that is not known yet."""
        self.note(now, rows)
        then, count = self._before or self._last
        return (rows - count) / (now - then) if now - then >= LEAST_S else None
