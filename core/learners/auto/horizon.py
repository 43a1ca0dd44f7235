r"""The second horizon of `auto`: when its error rate jumps, a team of new experts learns beside the old one.

Experts that have seen thousands of rows forget them slowly after an abrupt change; new ones have nothing to forget, but
know little at first. Let u be the fading share of rows whose class was wrong (rate max(1/t, .001)), and e the number of
wrong ones among the last B = 64. At every absolute row number divisible by B, however a client cuts rows:

    alarm       e > B u + 3 sqrt(B u (1 - u) + 1), from row 512; the 1 requires four errors if there were none before
    begins      a new team at an alarm; it may also replace a second team that has learned 512 rows
    ends        after 2048 rows; whenever one of two teams must go, the better one stays: the new one if s > 1/2

    p   = (1 - s) p_old + s p_new            s = 1/2 at first
    s  <- (1 - eps) s p_new,y / p_y + eps/2  fixed share on log loss, eps = .001, y the row's class

A row of weight c, relative to the largest recent one, counts with p_new,y^c and p_old,y^c. Without a second team only
errors are counted. A second team that would take more than 4 MB from its first row on does not begin: building it would
hold up other models for more than about 30 ms.

Source: Herbster, Warmuth: Tracking the best expert, Machine Learning 32, 1998; Bifet, Gavalda: Learning from
Time-Changing Data with Adaptive Windowing, SDM 2007, for models that are built at an alarm, beside the old ones.
"""

import math

import numpy as np

from core.contract import CLASSES, CLASSES_IN, TABLE, VECTOR, WEIGHT_MAX, Floats, Ints, direct
from core.numerics.weighting import FIXED_SHARE, LOSS_RATE, relative
from core.state.layout import WHOLE, Array, Holder, Layout, Range

BLOCK, BEGIN, YOUNG, LIFE = 64, 512, 512, 2048
"""B; the first row of an alarm; rows of a second team before another may replace it, and before it ends."""
ROWS, USUAL, RECENT, AGE, SHARE, HEAVIEST = range(6)
"""Places in the state: rows; u; the number of wrong classes since the last row number divisible by B; rows of the
second team, 0 if there is none; s; the largest recent weight of a row."""
TEAM_BYTES_MAX = 4 * 2**20
_DEVIATIONS = 3.0


@direct(f"void({TABLE}, {TABLE}, {CLASSES_IN}, {VECTOR}, {VECTOR}, {CLASSES})", error_model="numpy")
def mix_teams(P: Floats, Q: Floats, y: Ints, weights: Floats, state: Floats, value: Ints) -> None:
    """Mix the probabilities of the old team, P, with those of the new one, Q, into P and its classes.

    Args:
        P: (n, K), changed if there is a new team.
        Q: (n, K), or (0, K) if there is none.
        y: (n,) classes, which move the state, or (0,) to learn nothing.
        weights: (n,) of the rows, or (0,): every row counts once.
        state: (6,) see ROWS and the others.
        value: (n,) the most probable classes of P; changed if P is.
    """
    for i in range(P.shape[0]):
        old, new, s = 0.0, 0.0, state[SHARE]
        if Q.shape[0]:
            if y.shape[0]:
                old, new = P[i, y[i]], Q[i, y[i]]
            for k in range(P.shape[1]):
                P[i, k] = (1.0 - s) * P[i, k] + s * Q[i, k]
            value[i] = P[i].argmax()
        if not y.shape[0]:
            continue
        error = 1.0 if value[i] != y[i] else 0.0
        state[ROWS] += 1.0
        state[USUAL] += max(1.0 / state[ROWS], LOSS_RATE) * (error - state[USUAL])
        state[RECENT] += error
        if Q.shape[0]:
            weight = relative(weights[i] if weights.shape[0] else 1.0, state, HEAVIEST)
            odds = (1.0 - s) / s * math.exp(weight * math.log(old / new))
            state[SHARE] = (1.0 - FIXED_SHARE) / (1.0 + odds) + 0.5 * FIXED_SHARE
            state[AGE] += 1.0


class Horizon(Holder):
    """Decides when a second team of experts begins and ends, and holds its share.

    State: state (6,), see ROWS and the others.
    """

    layout = Layout(
        state=Array(
            6,
            places={
                ROWS: WHOLE,
                USUAL: Range(0.0, 1.0),
                RECENT: Range(0.0, BLOCK, whole=True),
                AGE: Range(0.0, LIFE, whole=True),
                SHARE: Range(0.5 * FIXED_SHARE, 1.0 - 0.5 * FIXED_SHARE),
                HEAVIEST: Range(0.0, WEIGHT_MAX),
            },
        )
    )

    def __init__(self) -> None:
        self.state = np.array([0.0, 0.0, 0.0, 0.0, 0.5, 0.0])

    @property
    def rows(self) -> int:
        """Rows learned."""
        return int(self.state[ROWS])

    @property
    def share(self) -> float:
        """The second team's share."""
        return float(self.state[SHARE])

    def judge(self) -> tuple[bool, bool]:
        """Whether one of two teams must end, and whether a new team begins.

        Called at row numbers divisible by BLOCK; resets the error count.
        """
        rows, usual, recent, age = self.state[: AGE + 1]
        self.state[RECENT] = 0.0
        variance = BLOCK * usual * (1.0 - usual) + 1.0
        alarm = rows >= BEGIN and recent > BLOCK * usual + _DEVIATIONS * math.sqrt(variance)
        begins = bool(alarm and (age == 0.0 or age >= YOUNG))
        return begins or age >= LIFE, begins

    def restart(self) -> None:
        """Reset the rows and the share of the second team, for the next one or for none."""
        self.state[AGE], self.state[SHARE] = 0.0, 0.5
