"""Which experts of `auto` rest: resting experts neither predict nor learn, and cost nothing, until they wake.

This is decided at every absolute row number divisible by REST_ROWS, so it does not depend on how a client cuts rows.
With use(e) the fading mean of expert e's share in the predictions:

    an expert rests     if its use is below LEAST of an even share, for FIRST_REST rows, then twice as long each time,
                        up to 8 times as long; never the most used one, and none before row BEGIN
    it wakes            after these rows, with an even share of use, and has some rows to prove itself
    all wake            if the last REST_ROWS rows went clearly worse than those before: they may be useful now

An expert never sees the rows during its rest; what it has learned stays unchanged.
"""

import math

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats

REST_ROWS = 256
USE_RATE = 0.01
SPELL_MAX = 3
BEGIN, FIRST_REST = 1024, 1024
LEAST_OF_CLASSES, LEAST_OF_NUMBERS = 0.1, 0.01
"""The weights of regressions are concentrated: a good expert's weight may be small for a while."""
_DEVIATIONS, _MORE = 2.0, 2.0


def goes_worse(recent: float, usual: float, *, regression: bool) -> bool:
    """Whether the last REST_ROWS rows went clearly worse than usual.

    For classes ``recent`` counts the wrong rows and ``usual`` is their usual share; for a regression both are mean
    squared errors.
    """
    if regression:
        return recent > _MORE * usual
    spread = math.sqrt(max(usual * (1.0 - usual), 0.0) / REST_ROWS)
    return recent / REST_ROWS > usual + _DEVIATIONS * spread


def decide(table: Floats, least: float, free: int, rows: int, worse: bool) -> None:
    """Let experts rest and wake, in place, after ``rows`` rows, a number divisible by REST_ROWS.

    ``table`` (3, E) has the use of every expert; the row at which it wakes, 0 for those that are awake; how often it
    has rested without being of use in between. ``least`` is LEAST of these experts; the last ``free`` ones cost nothing
    and so never rest. ``worse``: the last rows went clearly worse.
    """
    use, wakes, spells = table
    due = (wakes > 0.0) & ((wakes <= rows) | worse)
    even = 1.0 / len(use)
    judged: NDArray[np.bool_] = wakes == 0.0
    judged[len(use) - free :] = False
    idle = judged & (use < least * even)
    spells[judged & ~idle] = 0.0
    wakes[due], use[due] = 0.0, even
    if rows < BEGIN or worse:
        return
    if judged.any():
        idle[np.flatnonzero(judged)[np.argmax(use[judged])]] = False
    wakes[idle] = rows + FIRST_REST * 2.0 ** spells[idle]
    spells[idle] = np.minimum(spells[idle] + 1.0, SPELL_MAX)
