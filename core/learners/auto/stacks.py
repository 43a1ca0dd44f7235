r"""Stacks: weighted sums of the experts' numbers, while the mixture picks one; compiled into ``mix_numbers``.

With p_e the numbers of the base experts (those that read columns, and the last value), o their mixture by the current
weights and D the squared error to expect, a stack of forgetting factor L predicts

    x_e = (p_e - o) / sqrt(D)        0 for a resting expert
    s   = o + sqrt(D) w'x

and learns by recursive least squares, a row of weight c counting c times:

    e = ((y - o) / sqrt(D) - w'x) within +-5        k = P x / (L / c + x'P x)        w <- w + k e
    P <- (P - k x'P) / L                            P = .3 I, w = 0 at first

So it starts as the mixture, and is the mixture where experts agree. If the trace of P has grown to 100 times its first
value, because no row came from some direction, the row forgets nothing. A stack restarts if its numbers leave their
bounds.
"""

import numpy as np
from numba import njit

from core.contract import Floats

STACKS = ("stack", "stack_slow")  # their names among the experts
GAIN_FIRST, GAIN_MAX, WEIGHT_MAX = 0.3, 1e6, 1e6
_FORGETTING = np.array([0.998, 0.9995])
_INNOVATION_MAX, _GROWN = 5.0, 100.0


def first_gains(experts: int) -> Floats:
    """P of both stacks, (2, B, B)."""
    return np.tile(GAIN_FIRST * np.eye(experts), (len(STACKS), 1, 1))


@njit(cache=True, nogil=True)
def stack(x: Floats, w: Floats) -> float:
    """The sum w'x."""
    total = 0.0
    for e in range(x.shape[0]):
        total += w[e] * x[e]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def learn_stack(which: int, x: Floats, target: float, weight: float, P: Floats, w: Floats, Px: Floats) -> None:
    """One step of a stack: P (B, B) and w (B,) in place; x (B,), target (y - o) / sqrt(D), scratch Px (B,)."""
    B, forgetting, trace, spread = x.shape[0], _FORGETTING[which], 0.0, 0.0
    for i in range(B):
        trace += P[i, i]
        total = 0.0
        for j in range(B):
            total += P[i, j] * x[j]
        Px[i] = total
        spread += x[i] * total
    if trace > _GROWN * GAIN_FIRST * B:
        forgetting = 1.0
    error = min(max(target - stack(x, w), -_INNOVATION_MAX), _INNOVATION_MAX)
    below = forgetting / weight + spread
    sound = True
    for i in range(B):
        gain = Px[i] / below
        w[i] += gain * error
        sound = sound and abs(w[i]) <= WEIGHT_MAX
        for j in range(i + 1):
            P[i, j] = P[j, i] = (P[i, j] - gain * Px[j]) / forgetting
        sound = sound and 0.0 < P[i, i] <= GAIN_MAX
    if not sound:
        w[:] = 0.0
        P[:] = 0.0
        for i in range(B):
            P[i, i] = GAIN_FIRST
